//! A small file system that only one node sees.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};

/// A file system in memory, in a mount namespace of its own. It is gone when this is dropped.
pub(super) struct SmallDisk {
    holder: Child,
    at: PathBuf,
}

impl SmallDisk {
    pub(super) fn mount(at: &Path, mib: u32) -> anyhow::Result<SmallDisk> {
        std::fs::create_dir_all(at)?;
        let script =
            format!("mount -t tmpfs -o size={mib}m none \"$0\" && echo mounted && read line");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(at);
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut disk = SmallDisk { holder: holder.context("start unshare")?, at: at.to_owned() };
        let mut output = String::new();
        let mut stdout = disk.holder.stdout.take().context("it is piped")?;
        let mut byte = [0];
        while !output.ends_with('\n') && stdout.read(&mut byte)? == 1 {
            output.push(char::from(byte[0]));
        }
        ensure!(output == "mounted\n", "a small file system cannot be mounted: run this as root");
        Ok(disk)
    }

    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    /// A command that runs where the file system is mounted.
    pub(super) fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--mount", "--", program]);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.holder.stdin.take() {
            stdin.write_all(b"\n").ok();
        }
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}
