//! What the demo tells, as it happens: one line for each thing, with the time since the start.
//!
//! Guarantees: every line is written at once. It has colours only on a terminal that wants them,
//! and is the same text without.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use fencepost_client::BootTime;

/// Where the lanes of a timeline begin: after the time, two clients and the store.
const TIME_WIDTH: usize = 10;
const LANE_WIDTH: usize = 27;
/// Letters in a bar of progress.
const BAR_WIDTH: usize = 30;

/// How long a line is looked at before the next one comes.
const BEAT: Duration = Duration::from_millis(550);

/// Who does something in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    A,
    B,
    Store,
}

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Bad,
    Strong,
}

/// Tells what happens.
pub(super) struct Story {
    out: Box<dyn Write + Send>,
    is_coloured: bool,
    /// Whether somebody watches, and has to be able to follow.
    is_watched: bool,
    start: BootTime,
}

impl Story {
    /// On standard output; or on standard error, if that is to be kept for a document.
    pub(super) fn begin(is_aside: bool) -> Story {
        let is_terminal =
            if is_aside { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let out: Box<dyn Write + Send> =
            if is_aside { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
        let is_coloured = is_terminal && wants_colours();
        Story { out, is_coloured, is_watched: is_terminal, start: BootTime::now() }
    }

    /// Leaves time to read before the next thing happens, if somebody watches. It is the next thing
    /// itself that is put off: what is told has always just happened.
    pub(super) async fn beat(&self) {
        if self.is_watched {
            tokio::time::sleep(BEAT).await;
        }
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        BootTime::now().since(self.start)
    }

    /// A line without a time.
    pub(super) fn line(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        let text = self.paint(tone, text);
        self.write(&text)
    }

    /// A new part begins.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.write("")?;
        self.line(Tone::Strong, text)
    }

    /// The names above the lanes.
    pub(super) fn lanes(&mut self, names: [&str; 3]) -> io::Result<()> {
        let [a, b, store] = names;
        let row = format!("{:TIME_WIDTH$}{a:<LANE_WIDTH$}{b:<LANE_WIDTH$}{store}", "");
        self.write("")?;
        self.line(Tone::Strong, row.trim_end())
    }

    /// Something happens.
    pub(super) fn tell(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        let line = format!("{}{}", self.time(), self.paint(tone, text));
        self.write(&line)
    }

    /// Somebody does something.
    pub(super) fn act(&mut self, lane: Lane, tone: Tone, text: &str) -> io::Result<()> {
        let indent = " ".repeat(indent(lane));
        let line = format!("{}{indent}{}", self.time(), self.paint(tone, text));
        self.write(&line)
    }

    /// Somebody asks the store for something, and this comes of it.
    pub(super) fn ask(
        &mut self,
        lane: Lane,
        text: &str,
        tone: Tone,
        answer: &str,
    ) -> io::Result<()> {
        let way = indent(Lane::Store).saturating_sub(indent(lane) + text.chars().count() + 3);
        let arrow = self.paint(Tone::Quiet, &format!("{}▶", "─".repeat(way)));
        let answer = self.paint(tone, answer);
        let indent = " ".repeat(indent(lane));
        let line = format!("{}{indent}{text} {arrow} {answer}", self.time());
        self.write(&line)
    }

    /// How far something is.
    pub(super) fn progress(&mut self, done: u64, all: u64, more: &str) -> io::Result<()> {
        let filled = usize::try_from(done.min(all)).unwrap_or(0) * BAR_WIDTH;
        let filled = filled / usize::try_from(all.max(1)).unwrap_or(usize::MAX);
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
        let width = all.to_string().len();
        let text = format!("{}  {done:>width$} of {all}   {more}", self.paint(Tone::Good, &bar));
        self.tell(Tone::Plain, &text)
    }

    fn time(&self) -> String {
        let time = format!("{:>7.3}", self.elapsed().as_secs_f64());
        format!("{}{}", self.paint(Tone::Quiet, &time), " ".repeat(TIME_WIDTH - 7))
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Quiet => "2",
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Strong => "1",
        };
        if self.is_coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

/// As everywhere: https://no-color.org
fn wants_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_set("NO_COLOR") && !is_dumb
}

fn indent(lane: Lane) -> usize {
    match lane {
        Lane::A => 0,
        Lane::B => LANE_WIDTH,
        Lane::Store => 2 * LANE_WIDTH,
    }
}
