//! The answers of a watch as Server-Sent Events.
//!
//! Guarantees: whoever comes back with the last `id` it has seen goes on right behind it, without a
//! gap and without hearing anything twice. One revision may have several events, and what happens to
//! a lock may come later at the same revision, so the `id` of an event is `revision.sub`. A bare
//! revision is the `id` where there was no event: everything up to and including that revision is
//! known.
//!
//! A slow reader is not waited for: the session cuts its watch off and says where it can go on.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fencepost_proto::v1;
use fencepost_proto::v1::session_response::Response as Answer;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::answer::Refusal;
use super::numbers::Lease;
use super::problem::{More, Problem};
use super::texts;
use super::watch::{Event, compacted, passed_on};
use crate::error::Wrong;

/// What a session answers.
pub(super) type Answers =
    Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

/// What was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    revision: u64,
    /// The event of that revision; nothing, if all of them are known.
    sub: Option<u32>,
}

impl Last {
    /// Everything before this revision.
    pub(super) fn before(revision: u64) -> Last {
        Last { revision: revision.saturating_sub(1), sub: None }
    }

    pub(super) fn parse(id: &str) -> Option<Last> {
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|&number| is_plain && number < 1 << 53)
        };
        let (revision, sub) = match id.split_once('.') {
            Some((revision, sub)) => (revision, Some(u32::try_from(number(sub)?).ok()?)),
            None => (id, None),
        };
        Some(Last { revision: number(revision)?, sub })
    }

    /// The revision to look for what comes next.
    pub(super) fn start(self) -> u64 {
        // Of a revision of which not all is known, the known part is left out.
        if self.sub.is_some() { self.revision } else { self.revision + 1 }
    }

    /// Whether this is not known yet.
    fn is_before(self, event: &v1::Event) -> bool {
        let revision = u64::try_from(event.revision).unwrap_or_default();
        match self.sub {
            None => revision > self.revision,
            Some(sub) => (revision, event.sub) > (self.revision, sub),
        }
    }

    fn id(self) -> String {
        match self.sub {
            Some(sub) => format!("{}.{sub}", self.revision),
            None => self.revision.to_string(),
        }
    }
}

/// The answers of a watch as Server-Sent Events.
pub(super) struct Stream {
    answers: Answers,
    last: Last,
    /// Nothing was said yet.
    is_new: bool,
    is_over: bool,
}

impl Stream {
    /// A watch that was told to have begun, behind what is known.
    pub(super) fn new(answers: Answers, last: Last) -> Stream {
        Stream { answers, last, is_new: true, is_over: false }
    }

    /// What is said because of an answer.
    fn say(&mut self, answer: v1::SessionResponse) -> String {
        if let Some(failure) = answer.failure {
            return self.end(passed_on(&failure.code));
        }
        let Some(Answer::Watch(told)) = answer.response else { return String::new() };
        if told.canceled {
            if told.compact_revision > 0 {
                return self.end(compacted(told.compact_revision));
            }
            if told.resume_revision > 0 {
                let resume = u64::try_from(told.resume_revision).unwrap_or_default();
                self.last = Last::before(resume);
            }
            return self.end(Wrong::SlowReader.into());
        }
        if told.is_progress {
            let revision = answer.header.map_or(0, |header| header.revision);
            return self.beat(u64::try_from(revision).unwrap_or_default());
        }
        let mut said = String::new();
        for event in told.events {
            if !self.last.is_before(&event) {
                continue;
            }
            let revision = u64::try_from(event.revision).unwrap_or_default();
            self.last = Last { revision, sub: Some(event.sub) };
            let id = self.last.id();
            let data = serde_json::to_string(&Event::from(event)).expect("it is texts and numbers");
            write!(said, "id: {id}\ndata: {data}\n\n").expect("a text takes everything");
        }
        said
    }

    /// Everything up to this revision was told. Of the revision itself more may come, so what is
    /// known for good is the one before.
    fn beat(&mut self, revision: u64) -> String {
        if revision > self.last.revision + 1 {
            self.last = Last::before(revision);
        }
        format!(": {revision} is the present\nid: {}\n\n", self.last.id())
    }

    /// The last that is said.
    fn end(&mut self, mut refusal: Refusal) -> String {
        self.is_over = true;
        if refusal.failure.code == "slow_reader" {
            let resume = i64::try_from(self.last.start()).ok();
            refusal.more = More { resume_revision: resume, ..More::default() };
        }
        let problem = Problem::from(refusal);
        let data = serde_json::to_string(&problem).expect("it is made of texts and numbers");
        format!("event: end\nid: {}\ndata: {data}\n\n", self.last.id())
    }
}

impl tokio_stream::Stream for Stream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_new {
            this.is_new = false;
            let said = format!(": the watch has begun\nid: {}\n\n", this.last.id());
            return Poll::Ready(Some(Ok(said.into())));
        }
        while !this.is_over {
            let said = match ready!(this.answers.as_mut().poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Ok(answer)) => this.say(answer),
                Some(Err(status)) => {
                    let info = status.get_details_error_info();
                    this.end(passed_on(&info.map(|info| info.reason).unwrap_or_default()))
                }
            };
            if !said.is_empty() {
                return Poll::Ready(Some(Ok(said.into())));
            }
        }
        Poll::Ready(None)
    }
}

impl From<v1::Event> for Event {
    fn from(event: v1::Event) -> Event {
        use v1::event::Type;
        let kind = event.r#type();
        let is_lock = !matches!(kind, Type::Put | Type::Delete);
        let kv = event.kv.unwrap_or_default();
        let (key, key_base64) = texts::told_key(&kv);
        let put = Some(&kv).filter(|_| kind == Type::Put);
        let (value, value_base64) = put.map(|kv| texts::told(&kv.value)).unwrap_or_default();
        Event {
            revision: event.revision,
            sub: event.sub,
            kind: word(kind),
            key,
            key_base64,
            value,
            value_base64,
            create_revision: put.map(|kv| kv.create_revision),
            version: put.map(|kv| kv.version),
            lease: Lease::named(kv.lease_id),
            cause: Some(event.cause).filter(|cause| !cause.is_empty()),
            token: is_lock.then_some(event.fencing_token),
            client: is_lock.then_some(event.client_id),
            until_ms: (kind == Type::ForceAsked).then_some(event.until_ms),
            reason: Some(event.reason).filter(|_| kind == Type::ForceAsked),
        }
    }
}

fn word(kind: v1::event::Type) -> &'static str {
    use v1::event::Type;
    match kind {
        Type::Put => "put",
        Type::Delete => "delete",
        Type::Granted => "granted",
        Type::Lost => "lost",
        Type::ForceAsked => "force_asked",
        Type::OverBudget => "over_budget",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: i64, sub: u32) -> v1::Event {
        v1::Event { revision, sub, ..v1::Event::default() }
    }

    fn watch() -> Stream {
        Stream::new(Box::pin(tokio_stream::empty()), Last::before(5))
    }

    fn said(stream: &mut Stream, revision: i64, told: v1::WatchResponse) -> String {
        let header = Some(v1::Header { revision, ..v1::Header::default() });
        let response = Some(Answer::Watch(told));
        stream.say(v1::SessionResponse { request_id: 1, header, failure: None, response })
    }

    fn ids(said: &str) -> Vec<&str> {
        said.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
    }

    #[test]
    fn an_id_says_where_to_go_on() {
        for (id, start) in [("0", 1), ("7", 8), ("7.0", 7), ("7.3", 7)] {
            let last = Last::parse(id).expect("it is one");
            assert_eq!((last.start(), last.id().as_str()), (start, id));
        }
        for id in ["", ".", "7.", ".1", "+7", "-1", "7.x", "7.4294967296", "9007199254740992"] {
            assert_eq!(Last::parse(id), None, "{id}");
        }
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let mut stream = watch();
        stream.last = Last::parse("7.1").expect("it is one");
        let events = vec![event(7, 0), event(7, 1), event(7, 2), event(8, 0)];
        let told = v1::WatchResponse { events, ..v1::WatchResponse::default() };
        assert_eq!(ids(&said(&mut stream, 8, told)), ["7.2", "8.0"]);
    }

    #[test]
    fn progress_moves_the_id_but_never_past_what_may_still_come() {
        let progress = || v1::WatchResponse { is_progress: true, ..v1::WatchResponse::default() };
        let mut stream = watch();
        assert_eq!(ids(&said(&mut stream, 5, progress())), ["4"]);
        assert_eq!(ids(&said(&mut stream, 9, progress())), ["8"]);
        let told = v1::WatchResponse { events: vec![event(9, 0)], ..v1::WatchResponse::default() };
        assert_eq!(ids(&said(&mut stream, 9, told)), ["9.0"]);
        assert_eq!(ids(&said(&mut stream, 9, progress())), ["9.0"], "more of 9 may come");
        assert_eq!(ids(&said(&mut stream, 10, progress())), ["9.0"], "as good as 9, or better");
        assert_eq!(ids(&said(&mut stream, 11, progress())), ["10"]);
    }

    #[test]
    fn a_slow_reader_is_told_where_to_go_on() {
        let mut stream = watch();
        let told = v1::WatchResponse {
            canceled: true,
            resume_revision: 12,
            ..v1::WatchResponse::default()
        };
        let text = said(&mut stream, 20, told);
        assert!(text.starts_with("event: end\nid: 11\n"), "{text}");
        assert!(text.contains("\"code\":\"slow_reader\""), "{text}");
        assert!(text.contains("\"resume_revision\":12"), "{text}");
        assert!(stream.is_over);
    }
}
