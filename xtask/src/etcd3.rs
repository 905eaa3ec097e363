//! The published tests of a Python client of etcd, unmodified, against a server of ours.
//!
//! They want the server at etcd's own port, and packages from PyPI. Where either cannot be had, it
//! is skipped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::python::{environment, pip, quiet};
use crate::server::Server;
use crate::steps::Outcome;

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

pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let home = root.join("target/etcd3-suite");
    let python = match prepare(&home) {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    if TcpListener::bind(ADDRESS).is_err() {
        return Ok(Outcome::Skipped(format!("{ADDRESS} is in use")));
    }
    let server = Server::start(root, &home, ADDRESS)?;
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
    Ok(Outcome::Passed)
}

/// An environment with all that the tests need, and the tests.
fn prepare(home: &Path) -> anyhow::Result<PathBuf> {
    let python = environment(home, &REQUIREMENTS)?;
    if home.join(TESTS).exists() {
        return Ok(python);
    }
    // The tests are only in the archive of the sources.
    pip(home, &python, &["download", "--no-binary", ":all:", "--no-deps", PACKAGE])?;
    quiet(Command::new("tar").current_dir(home).args([
        "xzf",
        "etcd3-0.12.0.tar.gz",
        "--strip-components=1",
        "etcd3-0.12.0/tests",
    ]))?;
    Ok(python)
}
