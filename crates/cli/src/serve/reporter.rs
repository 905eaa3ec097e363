//! Logs what an operator should know, and tells when the node has ended.

use fencepost_node::shell::{Ended, Notice, Observer};
use tokio::sync::oneshot;

use super::startup::Progress;
use crate::ids::MemberId;

/// Listens to one node.
pub(super) struct Reporter {
    ended: Option<oneshot::Sender<Ended>>,
    progress: Progress,
}

impl Reporter {
    pub(super) fn new(ended: oneshot::Sender<Ended>, progress: Progress) -> Reporter {
        Reporter { ended: Some(ended), progress }
    }
}

impl Observer for Reporter {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        for notice in notices {
            match notice {
                Notice::Role(role) if role.leads => tracing::info!(term = role.term, "leads now"),
                Notice::Role(role) => {
                    let leader = role.leader.map(|leader| MemberId(leader).to_string());
                    tracing::info!(term = role.term, leader, "follows now");
                }
                Notice::Members(members) => {
                    tracing::info!(members = members.members.len(), "the members have changed");
                }
                Notice::Installed(id) => {
                    tracing::info!(index = id.index, "took over a snapshot from another member");
                }
                // On one line, whatever it is: what, why, and what to do.
                Notice::Trouble(what) => tracing::warn!("{}", what.replace('\n', "; ")),
                Notice::Waiting(what) => {
                    self.progress.set(what);
                    tracing::info!("{what}");
                }
                Notice::Ended(ended) => {
                    // Nobody listens any more if the process ends anyway.
                    drop(self.ended.take().map(|tell| tell.send(ended.clone())));
                }
                Notice::Applied(..) | Notice::Connected(_) => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no thread panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Written;

        fn make_writer(&self) -> Written {
            self.clone()
        }
    }

    #[test]
    fn trouble_is_one_line() {
        let written = Written::default();
        let lines = tracing_subscriber::fmt().with_writer(written.clone()).finish();
        tracing::subscriber::with_default(lines, || {
            let (tell, _ended) = oneshot::channel();
            let mut reporter = Reporter::new(tell, Progress::default());
            reporter.observe(&[Notice::Trouble("what\nwhy\nwhat to do".to_owned())]);
        });
        let bytes = written.0.lock().expect("no thread panics with it").clone();
        let text = String::from_utf8(bytes).expect("it is text");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("what; why; what to do"), "{text}");
    }
}
