//! Both ends of a talk in JSON, as a client has them.

use fencepost_proto::v1;
use fencepost_server::Server;
use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{Locks, soon};

/// What the tests ask for, by its number.
pub(crate) const ACQUIRE: u64 = 1;
pub(crate) const RELEASE: u64 = 2;

/// The client's end of a WebSocket.
pub(crate) struct Ws(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Ws {
    pub(crate) async fn open(server: &Server) -> Ws {
        Ws::open_at(server, "/v1/ws").await
    }

    pub(crate) async fn open_at(server: &Server, path: &str) -> Ws {
        let url = format!("ws://{}{path}", server.address());
        Ws(soon(connect_async(url)).await.expect("the door is open").0)
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.try_send(message).await.expect("the connection is open");
    }

    pub(crate) async fn try_send(&mut self, message: Message) -> Result<(), Error> {
        soon(self.0.send(message)).await
    }

    /// The next answer, or how the connection ends.
    pub(crate) async fn try_hear(&mut self) -> Result<Value, Option<CloseFrame>> {
        let text = self.next().await?;
        Ok(serde_json::from_str(&text).expect("answers are JSON"))
    }

    /// The next answer.
    pub(crate) async fn hear(&mut self) -> Value {
        self.try_hear().await.unwrap_or_else(|frame| panic!("the connection has ended: {frame:?}"))
    }

    /// How the connection ends.
    pub(crate) async fn end(&mut self) -> Option<CloseFrame> {
        self.next().await.expect_err("the connection ends")
    }

    /// Whether the connection has ended as the protocol wants it.
    pub(crate) async fn is_over(&mut self) -> bool {
        matches!(soon(self.0.next()).await, None | Some(Err(Error::ConnectionClosed)))
    }

    async fn next(&mut self) -> Result<String, Option<CloseFrame>> {
        loop {
            match soon(self.0.next()).await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Close(frame))) => return Err(frame),
                Some(Ok(_)) => {}
                None | Some(Err(Error::ConnectionClosed | Error::Protocol(_) | Error::Io(_))) => {
                    return Err(None);
                }
                Some(Err(other)) => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn acquire(&mut self, key: &str, client: &str) {
        self.say(&lock(ACQUIRE, key, client)).await;
    }

    pub(crate) async fn release(&mut self, key: &str, client: &str) {
        self.say(&lock(RELEASE, key, client)).await;
    }

    /// The token of a grant that comes next, for this lock.
    pub(crate) async fn granted(&mut self, key: &str) -> u64 {
        let told = self.hear().await;
        assert_eq!((&told["success"], &told["fencingToken"]["key"]), (&json!(true), &json!(key)));
        told["fencingToken"]["value"].as_u64().expect("a token is a number")
    }
}

/// The founding protocol's request.
pub(crate) fn lock(command: u64, key: &str, client: &str) -> Value {
    json!({ "commandType": command, "key": key, "clientId": client, "ttl": 60_000 })
}

/// The client's end of JSON over TCP.
pub(crate) struct Line(pub(crate) BufReader<TcpStream>);

impl Line {
    pub(crate) async fn open(server: &Server) -> Line {
        let address = server.json_tcp_address().expect("the door is there");
        Line(BufReader::new(TcpStream::connect(address).await.expect("the door is open")))
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        soon(self.0.get_mut().write_all(line.as_bytes())).await.expect("the connection is open");
    }

    /// The next answer, or nothing if the connection has ended.
    pub(crate) async fn hear_if_any(&mut self) -> Option<Value> {
        let mut line = String::new();
        match soon(self.0.read_line(&mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                assert!(line.ends_with('\n'), "{line:?}");
                Some(serde_json::from_str(&line).expect("answers are JSON"))
            }
        }
    }

    pub(crate) async fn hear(&mut self) -> Value {
        self.hear_if_any().await.expect("the connection goes on")
    }

    /// Asks, and hears the answer: whether it was a success, and what it carries.
    pub(crate) async fn ask(&mut self, kind: &str, payload: Value) -> (bool, Value) {
        let request = json!({ "type": kind, "request_id": "r-1", "payload": payload });
        self.say(&request.to_string()).await;
        let mut told = self.hear().await;
        assert_eq!((&told["type"], &told["request_id"]), (&json!(kind), &json!("r-1")));
        let success = told["success"].as_bool().expect("it is there");
        (success, told["payload"].take())
    }
}

/// The revision of the store.
pub(crate) async fn revision(locks: &mut Locks) -> i64 {
    let all = v1::RangeRequest { prefix: true, ..Default::default() };
    let found = locks.range(all).await.expect("it is answered").into_inner();
    found.header.expect("every answer has one").revision
}
