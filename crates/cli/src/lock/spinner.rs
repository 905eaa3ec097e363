//! The line that turns on a terminal while a lock is waited for.
//!
//! Guarantees: it goes the way of all messages, so a terminal that was stopped (Ctrl-S) delays nothing.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle, TermLike};
use rustix::termios::tcgetwinsize;

use crate::logs;

const SPIN_EVERY: Duration = Duration::from_millis(120);
/// Columns of a terminal that does not say how many it has.
const WIDTH: u16 = 80;

/// A line that turns until it is dropped. Then it is cleared: what is written next must find an empty
/// line.
pub(super) fn spinner() -> ProgressBar {
    let target = ProgressDrawTarget::term_like(Box::new(Screen::default()));
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(SPIN_EVERY);
    bar.with_finish(ProgressFinish::AndClear)
}

/// The terminal behind standard error. What is drawn at once is one message.
#[derive(Debug, Default)]
struct Screen(Mutex<String>);

impl Screen {
    fn add(&self, what: fmt::Arguments<'_>) -> io::Result<()> {
        // Nothing panics while it is held, so it is never left half changed.
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.write_fmt(what).map_err(io::Error::other)
    }

    fn move_cursor(&self, by: usize, to: char) -> io::Result<()> {
        if by > 0 { self.add(format_args!("\x1b[{by}{to}")) } else { Ok(()) }
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        let size = tcgetwinsize(io::stderr());
        size.ok().map(|size| size.ws_col).filter(|&columns| columns > 0).unwrap_or(WIDTH)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.add(format_args!("{s}\n"))
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.add(format_args!("{s}"))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add(format_args!("\r\x1b[2K"))
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if !drawn.is_empty() {
            logs::message(&drawn);
        }
        Ok(())
    }
}
