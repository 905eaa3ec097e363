//! What must be reached.

use std::process::ExitCode;

#[derive(Default)]
pub(crate) struct Bars {
    missed: usize,
}

impl Bars {
    pub(crate) fn check(&mut self, reached: bool, what: &str) {
        println!("  {} {what}", if reached { "reached:" } else { "MISSED: " });
        self.missed += usize::from(!reached);
    }

    pub(crate) fn verdict(&self) -> ExitCode {
        match self.missed {
            0 => ExitCode::SUCCESS,
            missed => {
                println!("{missed} bars missed");
                ExitCode::FAILURE
            }
        }
    }
}
