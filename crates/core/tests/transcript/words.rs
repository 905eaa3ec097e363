//! The words of a line: what is left of them must be nothing in the end.

use fencepost_core::command::LeaseRef;
use fencepost_core::range::KeyRange;
use fencepost_core::{Boot, CallId, Epoch, LeaseId, Millis, NodeId, Revision, Token};

/// A line that cannot be understood, and why.
pub(crate) type Parsed<T> = Result<T, String>;

/// The words of one line, taken out one by one.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Splits a line at spaces. Quotes, single or double, keep spaces and the other kind of quote
    /// in a word, and `{x*9}` stands for nine `x`.
    pub(crate) fn split(line: &str) -> Parsed<Words> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote: Option<char> = None;
        for letter in line.chars() {
            match (letter, quote) {
                ('"' | '\'', None) => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (letter, Some(open)) if letter == open => quote = None,
                (' ', None) => words.extend(word.take()),
                (letter, _) => word.get_or_insert_default().push(letter),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed".into());
        }
        words.extend(word);
        let words: Parsed<Vec<String>> = words.iter().map(|word| expand(word)).collect();
        Ok(Words(words?))
    }

    pub(crate) fn from_vec(words: Vec<String>) -> Words {
        Words(words)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next word, wherever an option does not fit.
    pub(crate) fn next(&mut self, what: &str) -> Parsed<String> {
        if self.0.is_empty() {
            return Err(format!("{what} is missing"));
        }
        Ok(self.0.remove(0))
    }

    /// The next word, if there is one.
    pub(crate) fn pop(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Whether the bare word is there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The text after `name=`, if it is there.
    pub(crate) fn option(&mut self, name: &str) -> Option<String> {
        let value = |word: &String| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        let (at, value) =
            self.0.iter().enumerate().find_map(|(at, word)| Some((at, value(word)?)))?;
        self.0.remove(at);
        Some(value)
    }

    /// The text after `name=`, or nothing at all.
    pub(crate) fn text(&mut self, name: &str) -> String {
        self.option(name).unwrap_or_default()
    }

    /// The number after `name=`, or zero.
    pub(crate) fn number(&mut self, name: &str) -> Parsed<u64> {
        self.option(name).map_or(Ok(0), |text| number(&text))
    }

    /// The length of time after `name=`, or none.
    pub(crate) fn span(&mut self, name: &str) -> Parsed<Option<Millis>> {
        self.option(name).map(|text| span(&text)).transpose()
    }

    pub(crate) fn token(&mut self) -> Parsed<Token> {
        self.number("token").map(Token)
    }

    /// The token after `token=`, if it is there.
    pub(crate) fn token_if_any(&mut self) -> Parsed<Option<Token>> {
        self.option("token").map(|text| number(&text).map(Token)).transpose()
    }

    pub(crate) fn revision(&mut self, name: &str) -> Parsed<Revision> {
        self.number(name).map(Revision)
    }

    /// The lease after `lease=`, which must be there.
    pub(crate) fn lease(&mut self) -> Parsed<LeaseRef> {
        lease_ref(&self.option("lease").ok_or("lease= is missing")?)
    }

    /// The call after `call=`, as `NODE.BOOT` or `NODE.BOOT.NUMBER`.
    pub(crate) fn call(&mut self) -> Parsed<Option<CallId>> {
        self.option("call").map(|text| call_id(&text)).transpose()
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Parsed<()> {
        match self.0.first() {
            Some(word) => Err(format!("unknown word `{word}`")),
            None => Ok(()),
        }
    }
}

/// Writes out `{x*9}`.
fn expand(word: &str) -> Parsed<String> {
    let Some((before, rest)) = word.split_once('{').filter(|_| word.contains('*')) else {
        return Ok(word.to_owned());
    };
    let Some((run, after)) = rest.split_once('}') else {
        return Err(format!("`{word}` lacks a closing brace"));
    };
    let (letters, count) = run.split_once('*').ok_or("a run needs a star")?;
    let count = usize::try_from(number(count)?).map_err(|_| "the run is too long")?;
    Ok(format!("{before}{}{after}", letters.repeat(count)))
}

pub(crate) fn number(text: &str) -> Parsed<u64> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

pub(crate) fn small(text: &str) -> Parsed<u32> {
    text.parse().map_err(|_| format!("`{text}` is no number below 2^32"))
}

/// A length of time: `1500`, `1500ms`, `30s`, `5m`, `24h` or `2d`.
pub(crate) fn span(text: &str) -> Parsed<Millis> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(split);
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("`{text}` is no length of time")),
    };
    Ok(Millis(number(count)? * factor))
}

pub(crate) fn lease_id(text: &str) -> Parsed<LeaseId> {
    text.parse().map(LeaseId).map_err(|_| format!("`{text}` is no lease id"))
}

/// A lease: `7`, or `7@2` for the grant with epoch 2.
pub(crate) fn lease_ref(text: &str) -> Parsed<LeaseRef> {
    match text.split_once('@') {
        None => Ok(LeaseRef::from(lease_id(text)?)),
        Some((id, epoch)) => Ok(LeaseRef { id: lease_id(id)?, epoch: Epoch(number(epoch)?) }),
    }
}

/// A call: `1.7` on boot 7 of node 1, or `1.7.3` for the one with number 3.
pub(crate) fn call_id(text: &str) -> Parsed<CallId> {
    let (node, boot) = text.split_once('.').ok_or("a node and its boot look like 1.7")?;
    let (boot, count) = boot.split_once('.').unwrap_or((boot, "0"));
    Ok(CallId { node: NodeId(number(node)?), boot: Boot(number(boot)?), number: number(count)? })
}

/// Keys: `k` is one, `k*` all that begin with it, `a..c` a span, `a..` this one and all after it.
pub(crate) fn key_range(text: &str) -> KeyRange {
    if let Some(prefix) = text.strip_suffix('*') {
        return KeyRange::prefix(prefix.as_bytes());
    }
    match text.split_once("..") {
        Some((from, "")) => KeyRange::From(from.into()),
        Some((from, to)) => KeyRange::Span(from.into(), to.into()),
        None => KeyRange::One(text.into()),
    }
}
