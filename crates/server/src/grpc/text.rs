//! TextCommand.

use std::sync::Arc;

use fencepost_proto::v1;

use crate::arrival::Arrival;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::owners::{self, Told};
use crate::{limits, show};

pub(super) async fn command(
    house: &Arc<House>,
    request: &v1::TextCommandRequest,
    arrival: Option<&Arrival>,
) -> Result<v1::TextCommandResponse, Failure> {
    if request.line.len() > limits::TEXT_COMMAND_BYTES_MAX {
        return Err(Wrong::TooLarge(limits::TEXT_COMMAND_BYTES_MAX).into());
    }
    let answer = owners::text(house, &request.line, arrival).await;
    let (header, told) = match answer.told {
        Ok(told) => told,
        // What makes no sense is a result like any other. What may be asked again is not.
        Err(failure) if !failure.retryable => {
            let result = format!("Error({})", failure.message);
            let header = Some(house.head.now());
            return Ok(v1::TextCommandResponse { header, result, ..Default::default() });
        }
        Err(failure) => return Err(failure),
    };
    answer.taken.done();
    let result = owners::tell_in_words(&told);
    let header = Some(header);
    Ok(match told {
        Told::Acquired(grant) | Told::Renewed(grant) | Told::MustStop(grant) => {
            v1::TextCommandResponse {
                header,
                result,
                key: show::text(&grant.key),
                fencing_token: show::signed(grant.token.0),
                remaining_ms: show::millis(grant.remaining),
            }
        }
        Told::Released(Some(token)) => {
            let fencing_token = show::signed(token.0);
            v1::TextCommandResponse { header, result, fencing_token, ..Default::default() }
        }
        _ => v1::TextCommandResponse { header, result, ..Default::default() },
    })
}
