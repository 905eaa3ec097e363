//! Calls that do not go over the session: questions of operators, and the cluster's own.

use std::future::Future;

use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;

use super::{Reply, Shell};
use crate::core::Input;
use crate::error::Error;

/// How often a call that may be repeated is tried.
const TRIES_MAX: u32 = 4;

impl Shell {
    /// Waits until the service was reached.
    pub(crate) async fn ready(&self) -> Result<(), Error> {
        let op = self.next_op();
        self.ask(op, Input::Ready(op), Reply::Ready).await
    }

    /// Makes a call over the present connection.
    pub(crate) async fn unary<T, F, C>(&self, repeatable: bool, call: C) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<T>, Status>> + Send + 'static,
        C: Fn(Channel) -> F + Send,
    {
        let mut tries = 0;
        loop {
            self.ready().await?;
            let outcome = match self.channel() {
                // Between the answer and the look, the connection was lost.
                None => Err(Error::unavailable("the connection was lost")),
                Some(channel) => self.within_time(call(channel), repeatable).await,
            };
            tries += 1;
            match outcome {
                Err(Error::Unavailable { .. }) if repeatable && tries < TRIES_MAX => {}
                outcome => return outcome,
            }
        }
    }

    /// On the session's runtime, so that it needs none of the caller's.
    async fn within_time<T, F>(&self, call: F, repeatable: bool) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<T>, Status>> + Send + 'static,
    {
        let timeout = self.request_timeout;
        let call = self.handle().spawn(async move { tokio::time::timeout(timeout, call).await });
        match call.await {
            Ok(Ok(Ok(response))) => Ok(response.into_inner()),
            Ok(Ok(Err(status))) => Err(from_status(&status, repeatable)),
            Ok(Err(_)) if repeatable => Err(Error::unavailable("the answer did not come in time")),
            Ok(Err(_)) => Err(Error::unknown("the answer did not come in time")),
            Err(_) => Err(Error::Closed),
        }
    }
}

/// What a status of gRPC means to a program.
pub(crate) fn from_status(status: &Status, repeatable: bool) -> Error {
    let message = status.message().to_owned();
    let info = status.get_details_error_info();
    let is_set = |name: &str| {
        let found = info.as_ref().and_then(|info| info.metadata.get(name));
        found.is_some_and(|value| value == "true")
    };
    // Without a code of the service, the status comes from the transport: nobody knows how far the
    // request got.
    let from_transport = info.is_none()
        && matches!(
            status.code(),
            Code::Unavailable
                | Code::Unknown
                | Code::Internal
                | Code::Cancelled
                | Code::DeadlineExceeded
        );
    if is_set("indeterminate") || (from_transport && !repeatable) {
        return Error::Indeterminate { message };
    }
    if from_transport || (status.code() == Code::Unavailable && info.is_none()) {
        return Error::Unavailable { message };
    }
    let code = info.as_ref().map(|info| info.reason.clone()).filter(|code| !code.is_empty());
    let code = code.unwrap_or_else(|| format!("{:?}", status.code()).to_lowercase());
    let passes =
        matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Aborted);
    Error::Rejected { code, message, retryable: is_set("retryable") || passes }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_lost_connection_is_unknown_unless_it_can_be_repeated() {
        let status = Status::unavailable("gone");
        assert!(from_status(&status, false).is_indeterminate());
        assert!(matches!(from_status(&status, true), Error::Unavailable { .. }));
    }

    #[test]
    fn the_code_of_the_service_is_passed_on() {
        let mut details = ErrorDetails::new();
        details.set_error_info("token_mismatch", "fencepost", HashMap::new());
        let status =
            Status::with_error_details(Code::FailedPrecondition, "held with token 7", details);
        let error = from_status(&status, false);
        let Error::Rejected { code, retryable, .. } = error else { panic!("{error}") };
        assert_eq!(code, "token_mismatch");
        assert!(!retryable);
    }
}
