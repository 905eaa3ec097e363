//! Three members, each of them with a build of its own.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// How long a state may take to come about before the run fails.
pub(crate) const STATE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Three processes. They end with this.
pub(crate) struct Cluster {
    members: Vec<Member>,
    initial: String,
}

struct Member {
    name: String,
    data_dir: PathBuf,
    log: PathBuf,
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

impl Cluster {
    /// Starts three members of one build.
    pub(crate) fn start(folder: &Path, build: &Path) -> anyhow::Result<Cluster> {
        let mut members = Vec::new();
        for name in ["n1", "n2", "n3"] {
            members.push(Member {
                name: name.to_owned(),
                data_dir: folder.join(name),
                log: folder.join(format!("{name}.log")),
                client_port: free_port()?,
                peer_port: free_port()?,
                process: None,
            });
        }
        let peers = members.iter().map(|one| format!("{}=127.0.0.1:{}", one.name, one.peer_port));
        let initial = peers.collect::<Vec<_>>().join(",");
        let mut cluster = Cluster { members, initial };
        for member in &mut cluster.members {
            member.start(build, &cluster.initial)?;
        }
        cluster.wait_until_served(build)?;
        Ok(cluster)
    }

    /// Where clients reach the members.
    pub(crate) fn endpoints(&self) -> String {
        let urls = self.members.iter().map(|one| format!("http://127.0.0.1:{}", one.client_port));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Restarts a member with another build, and waits until every member serves.
    pub(crate) fn replace(&mut self, member: usize, build: &Path) -> anyhow::Result<()> {
        let name = self.members[member].name.clone();
        eprintln!("    {name} continues with {}", build.display());
        self.members[member].stop()?;
        self.members[member].start(build, &self.initial)?;
        self.wait_until_served(build)
    }

    /// The process of a member.
    pub(crate) fn process_id(&self, member: usize) -> anyhow::Result<u32> {
        let process = self.members[member].process.as_ref();
        process.map(Child::id).context("the member was stopped")
    }

    /// Waits until the process of a member has failed, and returns its log.
    pub(crate) fn wait_for_failure(&mut self, member: usize) -> anyhow::Result<String> {
        let member = &mut self.members[member];
        let process = member.process.as_mut().context("the member was stopped")?;
        let status = until("a member fails", || Ok(process.try_wait()?))?;
        ensure!(!status.success(), "{} has ended as if nothing had happened", member.name);
        member.process = None;
        Ok(fs::read_to_string(&member.log)?)
    }

    /// Where the leader is in the list of members.
    pub(crate) fn leader(&self, build: &Path) -> anyhow::Result<usize> {
        until("there is a leader", || {
            let arguments = ["--endpoints", &self.endpoints(), "status"];
            let shown = Command::new(build).args(arguments).stderr(Stdio::null()).output()?;
            let text = String::from_utf8(shown.stdout)?;
            let line =
                text.lines().find(|line| line.split_whitespace().any(|word| word == "leader"));
            let named = |one: &Member| {
                line.is_some_and(|line| line.split_whitespace().any(|word| word == one.name))
            };
            Ok(self.members.iter().position(named))
        })
    }

    /// Checks that a build does not start on the directory of a member. The member stays stopped.
    pub(crate) fn refuses(&mut self, member: usize, build: &Path) -> anyhow::Result<()> {
        let member = &mut self.members[member];
        member.stop()?;
        member.start(build, &self.initial)?;
        let mut process = member.process.take().context("it was just started")?;
        let refused = until("an older build is refused", || {
            let status = process.try_wait()?;
            Ok(status.filter(|status| !status.success()).map(drop))
        });
        // It is gone if it was refused.
        process.kill().ok();
        process.wait()?;
        refused
    }

    /// The feature level, as a member that runs the new build shows it.
    pub(crate) fn feature_level(&self, new: &Path) -> anyhow::Result<u32> {
        until("the feature level is shown", || {
            let arguments = ["--endpoints", &self.endpoints(), "-o", "json", "limits", "show"];
            let shown = Command::new(new).args(arguments).stderr(Stdio::null()).output()?;
            let text = String::from_utf8(shown.stdout)?;
            let level = text.split("\"feature_level\":").nth(1);
            let digits = level.and_then(|rest| rest.split([',', '}']).next());
            Ok(digits.and_then(|digits| digits.trim().parse().ok()))
        })
    }

    pub(crate) fn wait_for_feature_level(&self, new: &Path, level: u32) -> anyhow::Result<()> {
        until("the feature level has risen", || {
            Ok((self.feature_level(new)? == level).then_some(()))
        })
    }

    /// Waits until a lock can be taken through each member.
    fn wait_until_served(&self, build: &Path) -> anyhow::Result<()> {
        for member in &self.members {
            let url = format!("http://127.0.0.1:{}", member.client_port);
            until(&format!("{} serves", member.name), || {
                let mut command = Command::new(build);
                command.args(["--endpoints", &url, "lock", "probe", "--wait", "5s", "--", "true"]);
                let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
                Ok(status.success().then_some(()))
            })
            .with_context(|| fs::read_to_string(&member.log).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Member {
    fn start(&mut self, build: &Path, initial: &str) -> anyhow::Result<()> {
        let log: File = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(build);
        command.args(["serve", "--name", &self.name, "--initial-cluster", initial]);
        command.arg("--listen").arg(format!("127.0.0.1:{}", self.client_port));
        command.arg("--peer-listen").arg(format!("127.0.0.1:{}", self.peer_port));
        command.arg("--data-dir").arg(&self.data_dir);
        command.stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn().context("start a member")?);
        Ok(())
    }

    /// Stops the process in good order.
    fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let asked = Command::new("kill").arg(process.id().to_string()).status()?;
        ensure!(asked.success(), "{} has ended by itself", self.name);
        let ended = until("a member stops", || Ok(process.try_wait()?.map(drop)));
        process.kill().ok();
        ended
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Looks again until there is something.
#[expect(clippy::disallowed_methods, reason = "real processes have no clock but the real one")]
pub(crate) fn until<T>(
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + STATE_TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("timed out: {what}");
        }
        thread::sleep(POLL);
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
