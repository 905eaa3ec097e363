//! A state that a script drives, entry by entry.

use fencepost_core::codec::{decode_entry, encode_entry};
use fencepost_core::{Action, Command, Effects, Entry, LogTime, Outcome, Restore, State};

use super::ask;
use super::print::{self, Page};
use super::script::{Fault, Input};
use super::verb::{self, Verb};
use super::words::{Parsed, Words, span};

/// The state of a script, and a second one that must never differ from it.
pub(crate) struct Machine {
    state: State,
    /// Applies the same entries. What it answers must be the same: apply is a function.
    replica: State,
    clock: LogTime,
    /// What `restore backup` reads.
    backup: Option<State>,
    /// The entry that joined inputs are added to.
    open: Option<Open>,
}

/// An entry that is being packed.
#[derive(Default)]
struct Open {
    at: LogTime,
    /// Whether a line of the script moved the time.
    stamped: bool,
    commands: Vec<Command>,
    /// What is said for each input: the answer of the next command, or this line.
    said: Vec<Option<String>>,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let clock = LogTime(0);
        Machine { state: State::new(), replica: State::new(), clock, backup: None, open: None }
    }

    /// Runs the inputs of one block. Answers with what they have to say.
    pub(crate) fn run(&mut self, inputs: &[Input]) -> Result<String, Fault> {
        let mut page = Page::default();
        for input in inputs {
            self.input(input, &mut page).map_err(|why| (input.line, why))?;
        }
        self.close(&mut page);
        // So that every script shows by the way that snapshots leave nothing out.
        self.replica = through_the_codec(&self.state);
        Ok(page.finish())
    }

    fn input(&mut self, input: &Input, page: &mut Page) -> Parsed<()> {
        if !input.joined {
            self.close(page);
        } else if self.open.is_none() {
            return Err("a question has no entry that could be joined".into());
        }
        let (word, rest) = input.text.split_once(' ').unwrap_or((&input.text, ""));
        if let Some(stamped) = self.stamp(word, rest)? {
            if input.joined {
                return Err("only the first line of an entry moves the time".into());
            }
            self.open = Some(Open { at: stamped, stamped: true, ..Open::default() });
            return Ok(());
        }
        match verb::parse(word, rest, &self.state)? {
            Some(verb) => self.pack(verb),
            None if input.joined => return Err("a question cannot join an entry".into()),
            None => self.ask(word, rest, page)?,
        }
        Ok(())
    }

    /// The stamp that `tick` and `stamp` stand for.
    fn stamp(&mut self, word: &str, rest: &str) -> Parsed<Option<LogTime>> {
        match word {
            "tick" => {
                self.clock = self.clock.after(span(rest)?);
                Ok(Some(self.clock))
            }
            "stamp" => Ok(Some(LogTime(span(rest)?.0))),
            _ => Ok(None),
        }
    }

    fn pack(&mut self, verb: Verb) {
        let open = self.open.get_or_insert_with(|| Open { at: self.clock, ..Open::default() });
        match verb {
            Verb::Command(command) => open.commands.push(command),
            Verb::Unreadable(reason) => {
                open.said.push(Some(print::outcome(&Outcome::Rejected(reason))));
                return;
            }
        }
        open.said.push(None);
    }

    /// Applies the entry that is being packed, if there is one.
    fn close(&mut self, page: &mut Page) {
        let Some(open) = self.open.take() else { return };
        let entry = Entry { at: open.at, commands: open.commands };
        let effects = self.apply(entry);
        self.clock = self.state.now();
        if open.stamped {
            page.line(&format!("now={} rev={}", self.state.now().0, self.state.revision().0));
        }
        let mut replies = effects.replies.iter();
        for said in open.said {
            let line = match said {
                Some(said) => format!("rev={} {said}", self.state.revision().0),
                None => print::reply(replies.next().expect("every command has its answer")),
            };
            page.line(&line);
        }
        for event in &effects.events {
            page.line(&print::event(event));
        }
    }

    /// Applies an entry twice: as it is, and as a replica would that read it from its log.
    fn apply(&mut self, entry: Entry) -> Effects {
        let mut bytes = Vec::new();
        encode_entry(&entry, &mut bytes);
        let copy = decode_entry(&bytes).expect("an entry that was written can be read");
        assert_eq!(entry, copy, "an entry must be read as it was written");
        let effects = self.state.apply(entry);
        let other = self.replica.apply(copy);
        assert_eq!(effects, other, "two states that apply the same entries must not differ");
        assert_eq!(self.state.audit(), Ok(()), "the state must agree with itself");
        assert_eq!(self.state.hash(), self.replica.hash(), "replicas must not differ");
        effects
    }

    fn ask(&mut self, word: &str, rest: &str, page: &mut Page) -> Parsed<()> {
        let mut words = Words::split(rest)?;
        match word {
            "snapshot" => {
                words.finish()?;
                self.snapshot();
                page.line("same");
            }
            "restore" => {
                let grant_after = words.span("after")?;
                let elapsed = words.span("elapsed")?.unwrap_or_default();
                let min_revision = words.revision("min")?;
                let unix_ms = words.number("unix_ms")?;
                let incarnation = words.number("incarnation")?;
                let source = self.source(words.flag("backup"))?;
                words.finish()?;
                if incarnation == source.incarnation() {
                    return Err("a restore needs a new incarnation".into());
                }
                let inputs = Restore { unix_ms, incarnation, min_revision, grant_after, elapsed };
                self.restore(&source, inputs, page);
            }
            "backup" => {
                words.finish()?;
                self.backup = Some(through_the_codec(&self.state));
                page.line("kept");
            }
            _ => {
                ask::ask(word, &mut words, &self.state, page)?;
                words.finish()?;
            }
        }
        Ok(())
    }

    /// Goes on with a state that went through the codec, next to the one that did not.
    fn snapshot(&mut self) {
        self.state = through_the_codec(&self.state);
    }

    /// What a restore reads: the state as it is, or the backup that was made earlier.
    fn source(&self, backup: bool) -> Parsed<State> {
        match (backup, &self.backup) {
            (true, None) => Err("there is no backup".into()),
            (true, Some(backup)) => Ok(backup.clone()),
            (false, _) => Ok(self.state.clone()),
        }
    }

    fn restore(&mut self, source: &State, inputs: Restore, page: &mut Page) {
        match through_the_codec(source).restore(inputs) {
            Err(reason) => page.line(&print::outcome(&Outcome::Rejected(reason))),
            Ok(state) => {
                self.clock = state.now();
                self.replica = state.clone();
                self.state = state;
                page.line(&print::standing(&self.state));
            }
        }
    }
}

fn through_the_codec(state: &State) -> State {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let copy = State::decode(&bytes).expect("a state that was written can be read");
    assert_eq!(copy.hash(), state.hash(), "a state must be read as it was written");
    copy
}

impl From<Action> for Verb {
    fn from(action: Action) -> Verb {
        Verb::Command(Command::from(action))
    }
}
