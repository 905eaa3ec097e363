//! What SIGHUP does: the configuration file is read again, and the log level in it counts from then
//! on. Everything else needs a new start.

use tokio::signal::unix::Signal;

use crate::common::Common;
use crate::failure::Failure;
use crate::logs::Level;
use crate::origin::Origin;
use crate::settings::{LOG_LEVEL, Settings};

/// Waits for the signal.
pub(super) struct Reload {
    pub(super) level: Level,
    pub(super) settings: Settings,
    pub(super) common: Common,
}

impl Reload {
    pub(super) async fn run(self, mut signals: Signal) {
        while signals.recv().await.is_some() {
            match self.reload() {
                Ok(level) => tracing::info!(level, "read the configuration again"),
                Err(why) => tracing::warn!(%why, "the configuration stays as it was"),
            }
        }
    }

    fn reload(&self) -> Result<String, Failure> {
        let before = &self.settings.log_level;
        let level = match before.origin {
            // What stands closer to the command line goes on to win.
            Origin::Flag | Origin::Environment => before.value.clone(),
            Origin::File(_) | Origin::Default => {
                let file = self.common.endpoints.file()?;
                file.content.log_level.unwrap_or_else(|| LOG_LEVEL.to_owned())
            }
        };
        self.level.set(&level)?;
        Ok(level)
    }
}
