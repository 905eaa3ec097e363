//! The published tests of a Python client of etcd, unmodified, against a server of ours.
//!
//! They want the server at etcd's own port, and packages from PyPI. Where either cannot be had, it
//! says so and goes on.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use anyhow::{Context, bail, ensure};

use crate::command::cargo;

const PACKAGE: &str = "etcd3==0.12.0";
/// The tests are from 2020, and so must be what they are written for.
const REQUIREMENTS: [&str; 9] = [
    PACKAGE,
    "protobuf<3.21",
    "grpcio",
    "pytest<8",
    "pytest-timeout",
    "hypothesis==5.49.0",
    "tenacity==6.3.1",
    "mock",
    "setuptools",
];
/// These want processes of a cluster that the tests' own tool starts, or a module that is not in
/// the package.
const ELSEWHERE: [&str; 4] = [
    "TestEtcd3::test_get_key_serializable",
    "TestEtcd3::test_get_prefix_serializable",
    "TestEtcd3::test_member_list",
    "TestClient::test_user_pwd_auth",
];
const ADDRESS: &str = "127.0.0.1:2379";
const TESTS: &str = "tests/test_etcd3.py";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let home = root.join("target/etcd3-suite");
    let python = match prepare(&home) {
        Ok(python) => python,
        Err(why) => {
            eprintln!("==> tests of the Python client of etcd: SKIPPED: {why:#}");
            return Ok(());
        }
    };
    if TcpListener::bind(ADDRESS).is_err() {
        eprintln!("==> tests of the Python client of etcd: SKIPPED: {ADDRESS} is in use");
        return Ok(());
    }
    // As the tests have built it, so that nothing is built twice.
    cargo(root, &["test", "--no-run", "--workspace", "--locked"])?;
    let data = home.join("data");
    // What an earlier run has left.
    fs::remove_dir_all(&data).ok();
    let server = Server::start(&root.join("target/debug/fencepost"), &data)?;
    let mut tests = Command::new(python);
    tests.current_dir(&home).args(["-m", "pytest", "-q", "--timeout", "60", TESTS]);
    for name in ELSEWHERE {
        tests.arg(format!("--deselect={TESTS}::{name}"));
    }
    tests.env("TEST_ETCD_VERSION", "v3.5.0");
    tests.env("PYTHON_ETCD_HTTP_URL", format!("http://{ADDRESS}"));
    let status = tests.status().context("run the tests")?;
    drop(server);
    ensure!(status.success(), "the tests of the Python client of etcd have failed");
    Ok(())
}

/// An environment with all that the tests need, and the tests.
fn prepare(home: &Path) -> anyhow::Result<PathBuf> {
    let python = home.join("venv/bin/python");
    if home.join(TESTS).exists() && python.exists() {
        return Ok(python);
    }
    fs::create_dir_all(home)?;
    quiet(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
    let pip = |arguments: &[&str]| {
        quiet(Command::new(&python).current_dir(home).args(["-m", "pip", "-q"]).args(arguments))
    };
    pip(&[&["install"], &REQUIREMENTS[..]].concat())?;
    // The tests are only in the archive of the sources.
    pip(&["download", "--no-binary", ":all:", "--no-deps", PACKAGE])?;
    quiet(Command::new("tar").current_dir(home).args([
        "xzf",
        "etcd3-0.12.0.tar.gz",
        "--strip-components=1",
        "etcd3-0.12.0/tests",
    ]))?;
    Ok(python)
}

fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{}", told.lines().last().unwrap_or("it failed without a word"));
    }
    Ok(())
}

/// A server that ends with this.
struct Server(Child);

impl Server {
    fn start(program: &Path, data: &Path) -> anyhow::Result<Server> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", ADDRESS, "--peer-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Server(command.spawn().context("start the server")?);
        let told = server.0.stderr.take().context("it is piped")?;
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        ensure!(lines.any(|line| line.contains(ADDRESS)), "the server has ended");
        // Whoever does not read what it says would stop it.
        thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
