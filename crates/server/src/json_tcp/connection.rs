//! One connection, line by line.

use std::io;
use std::sync::Arc;

use fencepost_core::command::{AcquireAs, Wait};
use fencepost_core::event::Cause;
use fencepost_core::query::Sight;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::answer;
use super::lines::{Lines, Next, Patience};
use super::request::{Asked, Label, Request};
use crate::arrival::{Arrival, Noted};
use crate::byte_budget::{ByteBudget, Charge};
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;
use crate::owners::{self, Answer, Answered, Ask, Taken, Told, Turn};
use crate::serve::Tuning;

/// Talks with a client until one of both ends it.
pub(super) async fn converse(
    house: Arc<House>,
    stream: TcpStream,
    tuning: Tuning,
) -> io::Result<()> {
    let patience = Patience { idle: tuning.idle_patience, line: tuning.headers_patience };
    let (read, mut write) = stream.into_split();
    let read = Noted::new(read, &house.pauses);
    let arrivals = read.arrivals();
    let charge = Charge::new(&ByteBudget::for_connection(&house.unread));
    let mut lines = Lines::new(read, patience, charge);
    loop {
        let next = tokio::select! {
            next = lines.next() => next?,
            () = house.closed() => {
                let told = Err(Wrong::ShuttingDown.into());
                return say(&mut write, &tuning, answer::line(&Label::default(), told)).await;
            }
        };
        let mut is_request = true;
        let (label, told, taken) = match next {
            Next::Over => return write.shutdown().await,
            Next::TooLong => {
                let wrong = Wrong::TooLarge(limits::LINE_BYTES_MAX).into();
                (Label::default(), Err(wrong), Taken::default())
            }
            // A blank line asks for nothing, and people press enter.
            Next::Line(line) if line.trim_ascii().is_empty() => continue,
            Next::Line(line) => {
                let request = Request::read(&line);
                is_request = request.is_object;
                serve(&house, request, &arrivals.next(), &mut lines).await
            }
        };
        let code = told.as_ref().map_or_else(|failure| failure.code, |_| "ok");
        house.metrics.request("json_tcp", code);
        say(&mut write, &tuning, answer::line(&label, told)).await?;
        taken.done();
        if !is_request {
            write.shutdown().await?;
            lines.hear_out().await;
            return Ok(());
        }
    }
}

async fn say(write: &mut OwnedWriteHalf, tuning: &Tuning, line: String) -> io::Result<()> {
    tokio::time::timeout(tuning.answer_patience, write.write_all(line.as_bytes())).await?
}

async fn serve(
    house: &Arc<House>,
    request: Request,
    arrival: &Arrival,
    lines: &mut Lines<Noted<OwnedReadHalf>>,
) -> (Label, Result<Value, Failure>, Taken) {
    let Request { label, asked, .. } = request;
    let ask = match asked {
        Ok(Asked::Lock(ask)) => ask,
        Ok(asked) => return (label, look(house, asked).await, Taken::default()),
        Err(wrong) => return (label, Err(wrong), Taken::default()),
    };
    let (pair, is_release) = (ask.pair(), matches!(ask, Ask::Release(_)));
    let answer = match ask {
        Ask::Acquire(ask) if !ask.wait.is_try() => wait(house, ask, arrival, lines).await,
        ask => owners::serve(house, ask, Some(arrival), Turn::default()).await,
    };
    let told = answer.told.and_then(|(_, told)| told.or_failure(is_release));
    (label, told.map(|told| answer::lock(&pair, told)), answer.taken)
}

/// Waits for a lock for as long as the client is there.
///
/// A client that has closed its side may still read, and one that is gone looks the same. So whoever
/// wants to wait keeps it open; a lock that is free is given all the same, which is why that is
/// tried first.
async fn wait(
    house: &Arc<House>,
    ask: AcquireAs,
    arrival: &Arrival,
    lines: &mut Lines<Noted<OwnedReadHalf>>,
) -> Answer {
    let attempt = Ask::Acquire(AcquireAs { wait: Wait::Try, ..ask.clone() });
    let answer = owners::serve(house, attempt, Some(arrival), Turn::default()).await;
    if lines.is_over() || !matches!(answer.told, Ok((_, Told::Denied(_)))) {
        return answer;
    }
    tokio::select! {
        answer = owners::serve(house, Ask::Acquire(ask), Some(arrival), Turn::default()) => answer,
        () = lines.gone() => {
            Answered::Err(Wrong::WaitEnded(Some(Cause::Cancelled)).into()).into()
        }
    }
}

/// Answers what changes nothing.
async fn look(house: &House, asked: Asked) -> Result<Value, Failure> {
    Ok(match asked {
        Asked::GetLock(name, token) => {
            let holders_max = if token.is_some() { usize::MAX } else { 1 };
            let sight = Sight { holders_max, waiters_max: 0, metadata_bytes_max: 0 };
            let ask = house.ask(false, move |state| (state.now(), state.look(&name, &sight)));
            let (_, (now, view)) = ask.await?;
            answer::view(&view, now, token)
        }
        Asked::GetLeader => answer::leader(house),
        Asked::Heartbeat(leader, term) => answer::heartbeat(house, leader, term),
        Asked::GetClusterInfo => answer::cluster(house),
        Asked::Ping | Asked::Lock(_) => json!({ "pong": true }),
    })
}
