//! The inputs that are questions: they change nothing and make no entry.

use fencepost_core::query::{Explanation, Sight, Subject};
use fencepost_core::range::PageQuery;
use fencepost_core::{ClientId, LeaseId, LockName, Revision, State, history};

use super::ops;
use super::print::{self, Page};
use super::words::{Parsed, Words, key_range, lease_id, number};

/// Waiters shown of one lock, unless a script asks for another number.
const WAITERS_SHOWN: usize = 100;

pub(crate) fn ask(word: &str, words: &mut Words, state: &State, page: &mut Page) -> Parsed<()> {
    match word {
        "get" => {
            let answer = state.range(&ops::query(words)?);
            page.line(&format!("rev={} {}", state.revision().0, print::range(&answer)));
            print::kvs(&answer.kvs, "  ", page);
        }
        "page" => page_of_keys(words, state, page)?,
        "place" => match state.place(&words.next("a key")?.as_str().into()) {
            None => page.line("waits nowhere"),
            Some(place) => page.line(&print::place(&place)),
        },
        "sizes" => {
            let (sizes, crowd) = (state.sizes(), state.crowd());
            page.line(&format!("{sizes:?} {crowd:?}"));
        }
        "show" => {
            let name = LockName::from(words.next("a lock")?.as_str());
            let shown = words.option("waiters").map(|text| number(&text)).transpose()?;
            let shown = shown.and_then(|count| usize::try_from(count).ok());
            print::lock(&state.lock(&name, shown.unwrap_or(WAITERS_SHOWN)), page);
        }
        "locks" => locks(words, state, page)?,
        "show-lease" => match state.lease(lease_id(&words.next("a lease")?)?) {
            None => page.line("no such lease"),
            Some(info) => print::lease(&info, page),
        },
        "leases" => {
            let after = words.option("after").map_or(Ok(LeaseId::NONE), |text| lease_id(&text))?;
            let limit = limit(words)?;
            list(state.leases(after, limit), page, |info, page| print::lease(&info, page));
        }
        "client" => match state.client(&ClientId::from(words.next("a client")?.as_str())) {
            None => page.line("no such client"),
            Some(info) => print::client(&info, page),
        },
        "explain" => print_explanation(&state.explain(&subject(words)?, WAITERS_SHOWN), page),
        "watch" => watch(words, state, page)?,
        "deadline" => page.line(&format!("deadline={}", print::moment(state.next_deadline()))),
        "signing-keys" => {
            for (bytes, key) in state.signing_keys() {
                page.line(&print::signing_key(bytes, key));
            }
            for (node, after) in state.rotations() {
                page.line(&format!("member {} owes a key, after={}", node.0, after.0));
            }
            page.line(&format!("changes={}", state.signing_changes()));
        }
        "state" => page.line(&print::standing(state)),
        other => return Err(format!("unknown word `{other}`")),
    }
    Ok(())
}

fn limit(words: &mut Words) -> Parsed<usize> {
    let limit = words.number("limit")?;
    Ok(if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) })
}

/// Prints all of a list, and says so if it is empty.
fn list<T>(all: Vec<T>, page: &mut Page, print: impl Fn(T, &mut Page)) {
    if all.is_empty() {
        page.line("none");
    }
    for one in all {
        print(one, page);
    }
}

fn page_of_keys(words: &mut Words, state: &State, page: &mut Page) -> Parsed<()> {
    let query = PageQuery {
        range: key_range(&words.next("the keys")?),
        after: words.option("after").map(|key| key.as_str().into()),
        limit: limit(words)?,
        bytes_max: usize::MAX,
        keys_only: words.flag("keys-only"),
    };
    let found = state.page(&query);
    page.line(&format!("page of {} more={}", found.kvs.len(), found.more));
    print::kvs(&found.kvs, "  ", page);
    Ok(())
}

fn locks(words: &mut Words, state: &State, page: &mut Page) -> Parsed<()> {
    let prefix = words.text("prefix");
    let after = words.option("after").map(|name| LockName::from(name.as_str()));
    let limit = limit(words)?;
    let found = state.locks(prefix.as_bytes(), after.as_ref(), limit, &Sight::waiters(16));
    list(found, page, |view, page| print::lock(&view, page));
    Ok(())
}

fn subject(words: &mut Words) -> Parsed<Subject> {
    let kind = words.next("lock, lease or client")?;
    let which = words.next("a name")?;
    match kind.as_str() {
        "lock" => Ok(Subject::Lock(LockName::from(which.as_str()))),
        "lease" => lease_id(&which).map(Subject::Lease),
        "client" => Ok(Subject::Client(ClientId::from(which.as_str()))),
        other => Err(format!("`{other}` cannot be explained")),
    }
}

fn print_explanation(explanation: &Explanation, page: &mut Page) {
    for view in &explanation.locks {
        print::lock(view, page);
    }
    for info in &explanation.leases {
        print::lease(info, page);
    }
    for wait in &explanation.waits {
        print::waiting(wait, page);
    }
    if explanation.locks.is_empty() && explanation.leases.is_empty() {
        page.line("nothing to explain");
    }
}

fn watch(words: &mut Words, state: &State, page: &mut Page) -> Parsed<()> {
    let range = key_range(&words.next("the keys")?);
    let from = Revision(words.number("from")?);
    let watch = history::Watch {
        no_put: words.flag("no-put"),
        no_delete: words.flag("no-delete"),
        keys_only: words.flag("keys-only"),
        prev: words.flag("prev"),
        ..history::Watch::new(range, from)
    };
    match state.history().replay(&watch) {
        Err(compacted) => page.line(&format!("compacted oldest={}", compacted.oldest.0)),
        Ok(events) => {
            let shown = events.map(|event| print::event(&watch.show(&event))).collect();
            list(shown, page, |line, page| page.line(&line));
        }
    }
    Ok(())
}
