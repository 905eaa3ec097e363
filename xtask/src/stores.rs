//! What is tested against and with: PostgreSQL and Redis for the checking side, etcd for its door, and
//! tools; what the benchmark measures beside us, and what it measures with.
//!
//! Guarantees: they are installed from Debian's packages where that is allowed, and where it is
//! not, it says so. The tests start servers of their own; nothing here does.
//! Refuses: failing because of a store. A test that finds none is listed as skipped at the end of the
//! run, and a benchmark goes on with what is there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::ensure;

/// A program that the tests need, and the package that brings it.
struct Store {
    name: &'static str,
    program: &'static str,
    package: &'static str,
}

const STORES: [Store; 8] = [
    Store { name: "PostgreSQL", program: "postgres", package: "postgresql" },
    Store { name: "Redis", program: "redis-server", package: "redis-server" },
    Store { name: "etcd", program: "etcd", package: "etcd-server" },
    Store { name: "etcdctl", program: "etcdctl", package: "etcd-client" },
    Store { name: "strace", program: "strace", package: "strace" },
    Store { name: "Python", program: "python3", package: "python3" },
    Store { name: "venv of Python", program: VENV, package: "python3-venv" },
    Store { name: "curl", program: "curl", package: "curl" },
];
/// No program, but a module of Python that is a package of its own in Debian.
const VENV: &str = "python3 -m ensurepip";

/// What the benchmark measures beside us, and the name under which it is asked for. ZooKeeper is no
/// program, but a file for one.
const PEERS: [(&str, Store); 4] = [
    ("redis", Store { name: "Redis", program: "redis-server", package: "redis-server" }),
    ("etcd", Store { name: "etcd", program: "etcd", package: "etcd-server" }),
    ("zookeeper", Store { name: "Java", program: "java", package: "default-jre-headless" }),
    ("zookeeper", Store { name: "ZooKeeper", program: ZOOKEEPER, package: "zookeeper" }),
];
const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar";

/// What the benchmark measures with.
const PERF: Store = Store { name: "perf", program: "perf", package: "linux-perf" };
const VALGRIND: Store = Store { name: "valgrind", program: "valgrind", package: "valgrind" };

/// Where Debian keeps the programs of each version of PostgreSQL.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Installs what is missing for the tests, if it may.
pub(crate) fn install() {
    install_all(&STORES.iter().collect::<Vec<_>>(), "its tests are SKIPPED");
}

/// Installs what is missing of these systems for the benchmark, if it may. They have commas between
/// them; nothing stands for all.
pub(crate) fn install_peers(systems: Option<&str>) {
    let is_wanted = |name: &str| {
        // What is asked for as `redis-aof` is also Redis.
        systems.is_none_or(|all| all.split(',').any(|system| system.starts_with(name)))
    };
    let wanted = PEERS.iter().filter(|(name, _)| is_wanted(name)).map(|(_, store)| store);
    install_all(&wanted.collect::<Vec<_>>(), "it is NOT MEASURED");
}

/// `perf`, installed if it may be. Without it there is no profile.
pub(crate) fn need_perf() -> anyhow::Result<()> {
    need(&PERF, "--profile")
}

/// valgrind, installed if it may be. Without it nothing can be counted.
pub(crate) fn need_valgrind() -> anyhow::Result<()> {
    need(&VALGRIND, "--instructions")
}

fn need(store: &Store, option: &str) -> anyhow::Result<()> {
    install_all(&[store], &format!("`{option}` needs it"));
    ensure!(is_there(store.program), "{option}: {} is not installed", store.name);
    Ok(())
}

fn install_all(stores: &[&Store], otherwise: &str) {
    let missing: Vec<&Store> =
        stores.iter().copied().filter(|store| !is_there(store.program)).collect();
    if missing.is_empty() {
        return;
    }
    if may_install() {
        // An index that is too old is the usual reason for a package that is not found.
        let packages: Vec<&str> = missing.iter().map(|store| store.package).collect();
        apt(&["update", "--quiet"]);
        apt(&[&["install", "--yes", "--no-install-recommends"], &packages[..]].concat());
    }
    for store in missing {
        if !is_there(store.program) {
            eprintln!(
                "==> {}: {otherwise}, because it is not installed and cannot be installed from \
                 here: run `apt-get install {}` as root",
                store.name, store.package
            );
        }
    }
}

fn is_there(program: &str) -> bool {
    if program == VENV {
        let mut python = Command::new("python3");
        python.args(["-c", "import ensurepip, venv"]).stdout(Stdio::null()).stderr(Stdio::null());
        return python.status().is_ok_and(|status| status.success());
    }
    let versions = fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    folders.chain(env::split_paths(&path)).any(|folder| folder.join(program).is_file())
}

/// Whether this is Debian or one of its children, and belongs to the administrator.
fn may_install() -> bool {
    let is_debian =
        ["/usr/bin/apt-get", "/bin/apt-get"].iter().any(|path| Path::new(path).exists());
    is_debian && owner_of(&PathBuf::from("/proc/self")) == Some(0)
}

#[cfg(unix)]
fn owner_of(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata))
}

#[cfg(not(unix))]
fn owner_of(_: &Path) -> Option<u32> {
    None
}

/// Prints the output of apt-get only if it fails. Whether it installed a program is checked afterwards.
fn apt(args: &[&str]) {
    eprintln!("    $ apt-get {}", args.join(" "));
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            eprintln!("==> apt-get failed with {}", output.status);
        }
        Err(why) => eprintln!("==> apt-get cannot be run: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_where_they_are() {
        assert!(is_there("cargo"), "these tests are run by it");
        assert!(!is_there("no-such-program-anywhere"));
    }
}
