//! `store`: the fenced data store as a process, spoken to with raw HTTP.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use fencepost_fence::signed::{Grant, PublicKey, Signer};
use fencepost_fence::{Presented, Token};
use rustix::process::Signal;

use crate::support::{Done, Running, command, folder, until};

/// A store that is ready, and where it listens.
pub(crate) struct Store {
    pub(crate) process: Running,
    pub(crate) address: String,
}

impl Store {
    pub(crate) fn start(home: &Path, more: &[&str]) -> Store {
        let usual = ["store", "--listen", "127.0.0.1:0", "-o", "json"];
        let process = Running::start(command(home, usual.iter().chain(more)));
        let line = process.out.wait_for_count(1).remove(0);
        let document: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        let address = document["listen"].as_str().expect("it says where it listens").to_owned();
        Store { process, address }
    }

    /// Sends bytes as they are, and gives the status line and the body.
    pub(crate) fn raw(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().expect("a status").to_owned(), body.to_owned())
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (String, String) {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        self.raw(&format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.raw(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).1
    }
}

fn write(value: u64, data: &str) -> String {
    format!(r#"{{"clientID":"c1","fencingToken":{{"key":"k","value":{value}}},"data":"{data}"}}"#)
}

// Requirements: S1-001, S1-016, S1-098.
#[test]
fn the_founding_write_is_taken_and_the_stale_one_refused() {
    let home = folder();
    let store = Store::start(home.path(), &[]);
    let (status, body) = store.post("/", &write(5, "five"));
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", r#"{"success":true}"#));
    let (status, body) = store.post("/write", &write(4, "four"));
    assert_eq!(status, "HTTP/1.1 409 Conflict");
    assert!(body.starts_with(r#"{"success":false"#), "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!(answer["success"], false);
    assert!(store.get("/?key=k").contains(r#""data":"five""#));
    // The usual file, in the directory where it was started.
    assert!(home.path().join("data.txt").is_file());
}

// Requirements: S1-001.
#[test]
fn a_killed_store_has_everything_that_it_acknowledged() {
    let home = folder();
    for round in 0..5_u64 {
        let mut store = Store::start(home.path(), &["--file", "d.txt"]);
        let first = round * 10 + 1;
        if round > 0 {
            assert!(store.get("/?key=k").contains(&format!(r#""data":"by {}""#, first - 1)));
            assert!(store.post("/", &write(first - 2, "late")).0.contains("409"));
        }
        for token in first..first + 10 {
            assert!(store.post("/", &write(token, &format!("by {token}"))).0.contains("200"));
        }
        store.process.end(Signal::KILL);
    }
}

// Requirements: S1-001.
#[test]
fn a_torn_last_line_is_cut_off_and_nothing_else() {
    let home = folder();
    let mut store = Store::start(home.path(), &[]);
    assert!(store.post("/", &write(5, "five")).0.contains("200"));
    store.process.end(Signal::KILL);
    let path = home.path().join("data.txt");
    let whole = fs::read_to_string(&path).expect("it is text");
    let mut file = OpenOptions::new().append(true).open(&path).expect("it is there");
    write!(file, "{}", &whole.lines().last().expect("a line")[..20]).expect("there is room");
    drop(file);
    let store = Store::start(home.path(), &[]);
    assert!(store.get("/?key=k").contains(r#""value":5"#));
    assert!(store.post("/", &write(4, "late")).0.contains("409"));
    assert!(store.post("/", &write(6, "six")).0.contains("200"));
}

// Requirements: S1-102.
#[test]
fn only_signed_tokens_are_taken_if_it_is_told_so() {
    let home = folder();
    let signer = Signer::in_memory().expect("there is randomness");
    let keys = PublicKey::set([signer.public()]);
    fs::write(home.path().join("keys.json"), keys).expect("there is room");
    let flags = ["--require-signed", "--jwks", "keys.json", "--cluster", "c0ffee"];
    let store = Store::start(home.path(), &flags);
    let (status, body) = store.post("/", &write(5, "five"));
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
    assert!(body.contains("signed tokens only"), "{body}");
    let signed = |cluster: &str, number: u64| {
        let token = Token::new(number).expect("it is not zero");
        let grant = Grant {
            cluster,
            incarnation: 0,
            lock: "k",
            presented: Presented::exclusive(token),
            lease: "1",
            holder: "c1",
            revision: number,
            audience: &[],
            expires_at: None,
        };
        let text = signer.sign(&grant, 1_800_000_000);
        format!(
            r#"{{"clientID":"c1","fencingToken":{{"key":"k","signed":"{text}"}},"data":"by {number}"}}"#
        )
    };
    assert!(store.post("/", &signed("c0ffee", 7)).0.contains("200"));
    assert!(store.post("/", &signed("c0ffee", 6)).0.contains("409"));
    assert!(store.post("/", &signed("another", 8)).0.contains("401"));
    assert!(store.get("/?key=k").contains(r#""data":"by 7""#));
}

/// One answer for every request, from a server of keys that is no more than that.
fn serve_keys(keys: String) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = listener.local_addr().expect("it listens").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head);
            let length = keys.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{keys}");
        }
    });
    address
}

#[test]
fn keys_are_fetched_from_a_url() {
    let home = folder();
    let signer = Signer::in_memory().expect("there is randomness");
    let address = serve_keys(PublicKey::set([signer.public()]));
    let url = format!("http://{address}/.well-known/jwks.json");
    let store = Store::start(home.path(), &["--jwks", &url, "--cluster", "c0ffee"]);
    let grant = Grant {
        cluster: "c0ffee",
        incarnation: 0,
        lock: "k",
        presented: Presented::exclusive(Token::new(7).expect("it is not zero")),
        lease: "1",
        holder: "c1",
        revision: 7,
        audience: &[],
        expires_at: None,
    };
    let signed = signer.sign(&grant, 1_800_000_000);
    let body = format!(
        r#"{{"clientID":"c1","fencingToken":{{"key":"k","signed":"{signed}"}},"data":"d"}}"#
    );
    let (status, answer) = store.post("/", &body);
    assert_eq!((status.as_str(), answer.as_str()), ("HTTP/1.1 200 OK", r#"{"success":true}"#));
    // They are not demanded here.
    assert!(store.post("/", &write(8, "bare")).0.contains("200"));
}

#[test]
fn the_lines_that_it_prints_work() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        fencepost_testkit::skip("curl is missing", "apt-get install curl");
        return;
    }
    let home = folder();
    let args = ["store", "--listen", "127.0.0.1:0", "--file", "d.txt"];
    let mut process = Running::start(command(home.path(), args));
    let is_last = |line: &str| line.trim_start().starts_with("curl") && !line.contains("-d");
    let lines = until(|| match process.err.all() {
        lines if lines.iter().any(|line| is_last(line)) => Ok(lines),
        lines => Err(lines),
    });
    let answers: Vec<String> = lines
        .iter()
        .filter(|line| line.trim_start().starts_with("curl"))
        .map(|line| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", line]);
            Done::of(shell).good()
        })
        .collect();
    assert_eq!(answers.len(), 3, "{lines:#?}");
    assert_eq!(answers[0], r#"{"success":true}"#);
    assert!(answers[1].starts_with(r#"{"success":false,"error":"Token 4 is stale"#), "{answers:?}");
    assert!(answers[2].contains(r#""data":"five""#), "{answers:?}");
    assert_eq!(process.end(Signal::TERM).code(), Some(0));
    process.err.wait_for("ending: answering what was asked");
}

#[test]
fn settings_come_from_flags_the_environment_and_the_file() {
    let home = folder();
    let text = "store_file = \"filed.txt\"\nstore_listen = \"127.0.0.1:0\"\nstore_strict = true\n";
    fs::write(home.path().join("fencepost.toml"), text).expect("there is room");
    let mut begin = command(home.path(), ["store", "-o", "json"]);
    // The listen address of a node is not that of a store.
    begin.env("FENCEPOST_STORE_FILE", "environed.txt").env("FENCEPOST_LISTEN", "0.0.0.0:1");
    let process = Running::start(begin);
    let line = process.out.wait_for_count(1).remove(0);
    let document: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(document["file"], "environed.txt");
    let address = document["listen"].as_str().expect("it has one").to_owned();
    let store = Store { process, address };
    assert!(store.post("/", &write(5, "five")).0.contains("200"));
    let (status, body) = store.post("/", &write(5, "five again"));
    assert!(status.contains("409") && body.contains("already used"), "{body}");
}

// Requirements: S0-075.
#[test]
fn an_equal_token_with_the_same_data_passes_as_a_retry() {
    let home = folder();
    let mut begin = command(home.path(), ["store", "-o", "json", "--listen", "127.0.0.1:0"]);
    begin.arg("--same-data");
    let process = Running::start(begin);
    let line = process.out.wait_for_count(1).remove(0);
    let document: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    let address = document["listen"].as_str().expect("it has one").to_owned();
    let store = Store { process, address };
    for _ in 0..2 {
        assert!(store.post("/", &write(5, "five")).0.contains("200"));
    }
    let (status, body) = store.post("/", &write(5, "five again"));
    assert!(status.contains("409") && body.contains("Token 5 already used"), "{body}");
}

#[test]
fn what_makes_no_sense_is_refused_in_three_lines() {
    let home = folder();
    let run = |args: &[&str]| Done::of(command(home.path(), ["store"].iter().chain(args)));
    let text = run(&["--listen", "0.0.0.0:0"]).refused(2);
    assert!(text.contains("refusing to listen on 0.0.0.0:0") && text.contains("--insecure"));
    assert!(run(&["--require-signed"]).refused(2).contains("--jwks"));
    assert!(run(&["--jwks", "https://a/b", "--cluster", "c"]).refused(2).contains("http://"));
    assert!(run(&["--jwks", "none.json", "--cluster", "c"]).refused(1).contains("none.json"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = taken.local_addr().expect("it listens").to_string();
    assert!(run(&["--listen", &address]).refused(1).contains("choose another --listen"));
    fs::write(home.path().join("other.txt"), "something else\n").expect("there is room");
    let text = run(&["--listen", "127.0.0.1:0", "--file", "other.txt"]).refused(1);
    assert!(text.contains("other.txt") && text.contains("nothing was changed"), "{text}");
    let _store = Store::start(home.path(), &["--file", "mine.txt"]);
    let text = run(&["--listen", "127.0.0.1:0", "--file", "mine.txt"]).refused(1);
    assert!(text.contains("in use by another process"), "{text}");
}
