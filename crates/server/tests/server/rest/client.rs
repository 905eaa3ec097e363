//! As little of an HTTP client as the tests need, so that nothing is hidden from them.

use std::collections::BTreeMap;

use fencepost_server::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::support::soon;

/// One connection.
pub(super) struct Http(BufReader<TcpStream>);

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{why}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// What was asked for.
    pub(super) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.headers["content-type"], "application/json");
        self.check_facts();
        self.json()
    }

    /// A problem of this code; the whole of it is looked at.
    pub(super) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{problem}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("docs/errors/{code}"));
        for text in ["title", "detail", "what_to_do"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        assert_eq!(problem["may_have_had_effect"], code == "indeterminate", "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        self.check_facts();
        problem
    }

    fn check_facts(&self) {
        let number = |name: &str| self.headers.get(name).and_then(|text| text.parse::<u64>().ok());
        assert!(number("fencepost-revision").is_some_and(|number| number > 0), "{self:?}");
        assert!(number("fencepost-term").is_some_and(|number| number > 0), "{self:?}");
        for id in ["fencepost-cluster", "fencepost-member", "fencepost-leader"] {
            let is_id = |text: &String| text.len() == 16 && u64::from_str_radix(text, 16).is_ok();
            assert!(self.headers.get(id).is_some_and(is_id), "{id}: {self:?}");
        }
        assert_eq!(self.headers["cache-control"], "no-store");
    }
}

impl Http {
    pub(super) async fn to(server: &Server) -> Http {
        let stream = TcpStream::connect(server.address()).await.expect("it listens");
        Http(BufReader::new(stream))
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.expect("it reads");
    }

    /// Sends the head of a request with these headers, and a body.
    pub(super) async fn request(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head =
            format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send(&[head.as_bytes(), body].concat()).await;
    }

    pub(super) async fn line(&mut self) -> String {
        let mut line = String::new();
        soon(self.0.read_line(&mut line)).await.expect("it is text");
        line.trim_end().to_owned()
    }

    /// The status and the headers of an answer.
    pub(super) async fn head(&mut self) -> Answer {
        let status = self.line().await;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        Answer { status: status.expect("it is HTTP"), headers, body: Vec::new() }
    }

    /// An answer whose length is known.
    pub(super) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        let len = answer.headers["content-length"].parse().expect("it is a number");
        answer.body = vec![0; len];
        soon(self.0.read_exact(&mut answer.body)).await.expect("it is whole");
        answer
    }

    /// The next piece of an answer whose length is not known; nothing, at its end.
    pub(super) async fn chunk(&mut self) -> Option<String> {
        let size = self.line().await;
        let size = usize::from_str_radix(&size, 16).expect("it is a size");
        let mut chunk = vec![0; size + 2];
        soon(self.0.read_exact(&mut chunk)).await.expect("it is whole");
        chunk.truncate(size);
        Some(String::from_utf8(chunk).expect("it is text")).filter(|chunk| !chunk.is_empty())
    }

    pub(super) async fn get(&mut self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[], b"").await;
        self.answer().await
    }

    /// Asks without waiting for the answer.
    pub(super) async fn ask(&mut self, path: &str, body: &Value) {
        let kind = [("Content-Type", "application/json")];
        self.request(&format!("POST {path}"), &kind, body.to_string().as_bytes()).await;
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.ask(path, body).await;
        self.answer().await
    }

    /// A raw body.
    pub(super) async fn post_raw(&mut self, path: &str, body: &[u8]) -> Answer {
        let kind = [("Content-Type", "application/json; charset=utf-8")];
        self.request(&format!("POST {path}"), &kind, body).await;
        self.answer().await
    }
}
