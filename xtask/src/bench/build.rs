//! How the programs of a benchmark are built.
//!
//! What is measured is a plain release build. What is profiled has frame pointers too, because `perf`
//! follows them from function to function at hardly any cost, and line tables (the profile `bench`), so
//! that a function leads to its source. Frame pointers want other flags for every crate; so that build
//! has a target directory of its own, and neither throws the other's work away.

use std::env;
use std::path::{Path, PathBuf};

use crate::command::cargo_with;

/// The program that is measured: its package, its name, and its features.
pub(crate) const FENCEPOST: Program =
    Program { package: "fencepost-cli", name: "fencepost", features: &[] };
/// The load generator, with its clients of all systems.
pub(crate) const GENERATOR: Program =
    Program { package: "fencepost-bench", name: "fencepost-bench", features: &["peers"] };

pub(crate) struct Program {
    package: &'static str,
    name: &'static str,
    features: &'static [&'static str],
}

/// Where and how to build.
#[derive(Clone)]
pub(crate) struct Build {
    /// Where cargo builds everything else.
    pub(crate) common: PathBuf,
    target: PathBuf,
    has_frames: bool,
}

impl Build {
    pub(crate) fn new(root: &Path, has_frames: bool) -> Build {
        let common = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |place| root.join(place));
        let target = if has_frames { common.join("bench-frames") } else { common.clone() };
        Build { common, target, has_frames }
    }

    /// The same into another target directory.
    pub(crate) fn target_in(&self, target: &Path) -> Build {
        Build { target: target.to_owned(), ..self.clone() }
    }

    /// Where everything about an earlier build is kept.
    pub(crate) fn baseline_home(&self) -> PathBuf {
        self.target.join("bench-baseline")
    }

    /// Builds a program from a work tree, and says where it is.
    pub(crate) fn program_in(&self, tree: &Path, program: &Program) -> anyhow::Result<PathBuf> {
        let target = self.target.to_string_lossy();
        let profile = if self.has_frames { "bench" } else { "release" };
        let features = program.features.join(",");
        let mut args = vec!["build", "--profile", profile, "--package", program.package];
        args.extend(["--bin", program.name, "--target-dir", &target]);
        if !program.features.is_empty() {
            args.extend(["--features", &features]);
        }
        let flags = self.flags();
        let env = flags.as_ref().map(|flags| ("RUSTFLAGS", flags.as_str()));
        cargo_with(tree, &args, env.as_slice())?;
        // The profile `bench` has its results beside those of `release`.
        Ok(self.target.join("release").join(program.name))
    }

    fn flags(&self) -> Option<String> {
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        self.has_frames.then(|| format!("{given} -C force-frame-pointers=yes").trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_with_frames_does_not_disturb_the_plain_one() {
        let root = Path::new("/somewhere");
        let (plain, framed) = (Build::new(root, false), Build::new(root, true));
        assert_ne!(plain.target, framed.target);
        assert_ne!(plain.baseline_home(), framed.baseline_home());
        assert_eq!(plain.flags(), None);
        assert!(framed.flags().is_some_and(|flags| flags.ends_with("force-frame-pointers=yes")));
    }
}
