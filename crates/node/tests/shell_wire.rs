//! What nodes say to each other, byte by byte: everything returns, nothing panics, and strangers
//! are told what is wrong.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fencepost_core::{Outcome, Revision};
use fencepost_node::config::NodeConfig;
use fencepost_node::fuzz::fuzz_peer;
use fencepost_node::io::{
    Change, ChangeError, Class, Forward, ForwardNumber, Introduction, PeerMessage, ProposeError,
    SnapshotPiece,
};
use fencepost_node::machine::Reply;
use fencepost_node::membership::{Member, Membership};
use fencepost_node::peer::{
    Ask, FRAME_BYTES_MAX, FrameBuffer, FrameError, HEADER_BYTES, Hello, Listed, Preamble, Refusal,
    Told, Welcome, decode_message, encode_message, kind, lowest_version, put_frame,
};
use fencepost_node::shell::cluster::Cluster;
use fencepost_node::shell::{Origin, Settings, StartError, Status, start};
use fencepost_node::snapshot_store::SnapshotId;
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn body(frame: &[u8]) -> &[u8] {
    &frame[HEADER_BYTES..]
}

fn snapshot_id() -> impl Strategy<Value = SnapshotId> {
    any::<(u64, u64)>().prop_map(|(index, term)| SnapshotId { index, term })
}

fn forward_number() -> impl Strategy<Value = ForwardNumber> {
    any::<(u64, u64)>().prop_map(|(boot, count)| ForwardNumber { boot, count })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Ordinary), Just(Class::Renewal)]
}

fn propose_error() -> impl Strategy<Value = ProposeError> {
    prop_oneof![
        Just(ProposeError::NoLeader),
        Just(ProposeError::Malformed),
        Just(ProposeError::Overloaded),
        Just(ProposeError::DiskFull),
        Just(ProposeError::Indeterminate),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let outcome = prop_oneof![
        Just(Outcome::Done),
        any::<u64>().prop_map(Outcome::LeaseRevoked),
        Just(Outcome::Put(None)),
        any::<u64>().prop_map(|count| Outcome::Deleted(count, Vec::new())),
    ];
    (any::<u64>(), outcome)
        .prop_map(|(revision, outcome)| Reply { revision: Revision(revision), outcome })
}

fn introduction() -> impl Strategy<Value = Introduction> {
    any::<([u64; 7], u32, bool)>().prop_map(|(numbers, feature_level, wants_answer)| {
        let [boot, boot_nonce, memory_bytes, last_term, last_index, commit, witnessed] = numbers;
        Introduction {
            boot,
            boot_nonce,
            feature_level,
            memory_bytes,
            last_term,
            last_index,
            commit,
            witnessed,
            wants_answer,
        }
    })
}

fn message() -> impl Strategy<Value = PeerMessage> {
    let answer = prop_oneof![reply().prop_map(Ok), propose_error().prop_map(Err)];
    prop_oneof![
        bytes().prop_map(PeerMessage::Raft),
        (any::<u64>(), forward_number(), class(), bytes()).prop_map(
            |(term, number, class, command)| {
                PeerMessage::Forward(Forward { term, number, class, command })
            }
        ),
        (forward_number(), answer)
            .prop_map(|(number, answer)| PeerMessage::Forwarded(number, Box::new(answer))),
        (snapshot_id(), any::<u64>(), any::<u32>())
            .prop_map(|(id, next, room)| PeerMessage::SnapshotWanted { id, next, room }),
        (snapshot_id(), any::<u64>(), any::<bool>(), bytes()).prop_map(
            |(id, number, is_last, bytes)| {
                PeerMessage::SnapshotPiece(SnapshotPiece { id, number, is_last, bytes })
            }
        ),
        snapshot_id().prop_map(PeerMessage::SnapshotGone),
        Just(PeerMessage::YouWereRemoved),
        Just(PeerMessage::AmIAMember),
        introduction().prop_map(|one| PeerMessage::Introduction(Box::new(one))),
        any::<(u64, u64)>()
            .prop_map(|(boot, boot_nonce)| PeerMessage::CopiedDirectory { boot, boot_nonce }),
    ]
}

fn member() -> impl Strategy<Value = Member> {
    (1..u64::MAX, ".{0,20}", ".{0,20}", ".{0,20}").prop_map(|(id, name, peer, client)| Member {
        id,
        name,
        peer,
        client,
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        member().prop_map(Change::Add),
        any::<u64>().prop_map(Change::Promote),
        any::<u64>().prop_map(Change::Remove),
        any::<(u64, u64)>().prop_map(|(old, new)| Change::Replace { old, new }),
    ]
}

fn change_error() -> impl Strategy<Value = ChangeError> {
    prop_oneof![
        prop::option::of(1..u64::MAX).prop_map(|leader| ChangeError::NotLeader { leader }),
        Just(ChangeError::Pending),
        any::<u64>().prop_map(ChangeError::UnknownMember),
        ".{0,20}".prop_map(ChangeError::NameTaken),
        any::<u64>().prop_map(ChangeError::WasRemoved),
        Just(ChangeError::Malformed),
        any::<u64>().prop_map(|behind| ChangeError::NotCaughtUp { behind }),
        Just(ChangeError::LastVoter),
        Just(ChangeError::QuorumAtRisk),
        Just(ChangeError::HandingOver),
        Just(ChangeError::Indeterminate),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let listed = (".{0,20}", ".{0,20}").prop_map(|(name, peer)| Listed { name, peer });
    prop_oneof![
        (any::<u64>(), change())
            .prop_map(|(cluster_id, change)| Ask::Change { cluster_id, change }),
        (prop::collection::vec(listed, 0..5), member())
            .prop_map(|(list, member)| Ask::Form { list, member }),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let membership = || {
        (any::<u64>(), prop::collection::vec(member(), 0..4))
            .prop_map(|(cluster_id, members)| Membership::founding(cluster_id, members))
    };
    prop_oneof![
        (any::<u64>(), membership())
            .prop_map(|(incarnation, membership)| Told::Changed { incarnation, membership }),
        ".{0,20}".prop_map(Told::Redirect),
        change_error().prop_map(Told::Unchanged),
        member().prop_map(Told::Draft),
        (any::<u64>(), membership())
            .prop_map(|(incarnation, membership)| Told::Founded { incarnation, membership }),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let numbers = any::<(u64, u64)>;
    prop_oneof![
        Just(Refusal::Malformed),
        any::<(u32, u32)>().prop_map(|(lowest, highest)| Refusal::Version { lowest, highest }),
        numbers().prop_map(|(asked, here)| Refusal::OtherCluster { asked, here }),
        numbers().prop_map(|(asked, here)| Refusal::OtherIncarnation { asked, here }),
        (numbers(), "[a-z]{0,20}").prop_map(|((asked, here), name)| Refusal::OtherMember {
            asked,
            here,
            name
        }),
        any::<u64>().prop_map(|member| Refusal::Removed { member }),
        Just(Refusal::NotReady),
        "[a-z]{0,20}".prop_map(|name| Refusal::NameTaken { name }),
        (any::<u64>(), "[a-z]{0,20}")
            .prop_map(|(cluster_id, name)| Refusal::Exists { cluster_id, name }),
        "[a-z]{0,20}".prop_map(|name| Refusal::ListsDiffer { name }),
        Just(Refusal::Busy),
    ]
}

proptest! {
    // Requirements: S1-014.
    #[test]
    fn every_message_returns(messages in prop::collection::vec(message(), 0..20), cut in 1..50_usize) {
        let mut stream = Vec::new();
        for message in &messages {
            prop_assert!(encode_message(message, &mut stream));
        }
        // However the network cuts it.
        let mut buffer = FrameBuffer::default();
        let mut returned = Vec::new();
        for mut piece in stream.chunks(cut) {
            while !piece.is_empty() {
                buffer.fill(&mut piece).expect("a slice can be read");
                while let Some((kind, body)) = buffer.next_frame().expect("the frames are sound") {
                    returned.push(decode_message(kind, body).expect("it was a message"));
                }
            }
        }
        prop_assert_eq!(returned, messages);
    }

    // Requirements: S1-014.
    #[test]
    fn every_question_and_answer_returns(ask in ask(), told in told(), refusal in refusal()) {
        let mut frame = Vec::new();
        ask.put(&mut frame);
        prop_assert_eq!(Ask::read(body(&frame)), Some(ask));
        frame.clear();
        told.put(&mut frame);
        prop_assert_eq!(Told::read(body(&frame)), Some(told));
        frame.clear();
        refusal.put(&mut frame);
        prop_assert_eq!(refusal.to_string().lines().count(), 3);
        prop_assert_eq!(Refusal::read(body(&frame)), Some(refusal));
    }

    #[test]
    fn greetings_return(numbers in any::<[u64; 3]>(), id in 1..u64::MAX, name in ".{0,20}") {
        let [cluster_id, incarnation, to] = numbers;
        let peer = name.clone();
        let hello = Hello { cluster_id, incarnation, member: id, name, peer, to };
        let mut frame = Vec::new();
        hello.put(&mut frame);
        prop_assert_eq!(Hello::read(body(&frame)), Some(hello));
        frame.clear();
        let welcome = Welcome { version: 1, member: id };
        welcome.put(&mut frame);
        prop_assert_eq!(Welcome::read(body(&frame)), Some(welcome));
    }

    #[test]
    fn a_flipped_bit_is_noticed(message in message(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut frame = Vec::new();
        encode_message(&message, &mut frame);
        let at = at.index(frame.len());
        frame[at] ^= 1_u8 << bit;
        let mut buffer = FrameBuffer::default();
        buffer.fill(&mut &frame[..]).expect("a slice can be read");
        // A longer length leaves the frame waiting for more, which never passes either.
        prop_assert!(!matches!(buffer.next_frame(), Ok(Some(_))));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_peer(&bytes);
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        kind in prop_oneof![1..10_u8, 16..19_u8, 32..34_u8],
        body in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..200),
    ) {
        let mut frame = vec![kind];
        frame.extend_from_slice(&body);
        fuzz_peer(&frame);
    }
}

/// `docs/peer-protocol.md` fixes these bytes.
#[test]
fn introduction_has_its_documented_bytes() {
    let introduction = Introduction {
        boot: 1,
        boot_nonce: 2,
        feature_level: 3,
        memory_bytes: 4,
        last_term: 5,
        last_index: 6,
        commit: 7,
        witnessed: 8,
        wants_answer: true,
    };
    let message = PeerMessage::Introduction(Box::new(introduction));
    let mut frame = Vec::new();
    assert!(encode_message(&message, &mut frame));
    let expected: Vec<u8> = (1..=8_u8)
        .flat_map(|number| {
            let width = if number == 3 { 4 } else { 8 };
            std::iter::once(number).chain(std::iter::repeat_n(0, width - 1))
        })
        .chain([1])
        .collect();
    assert_eq!((frame[8], body(&frame)), (9, &expected[..]));
    assert_eq!(lowest_version(&message), 2, "a member of version 1 would close the connection");
    assert_eq!(lowest_version(&PeerMessage::AmIAMember), 1);
}

#[test]
fn a_length_is_not_believed() {
    let mut buffer = FrameBuffer::default();
    let mut frame = u32::MAX.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0; 20]);
    buffer.fill(&mut &frame[..]).expect("a slice can be read");
    assert_eq!(buffer.next_frame(), Err(FrameError::TooLong(u32::MAX)));
}

#[test]
fn a_name_cannot_add_lines_to_what_an_operator_reads() {
    let mut frame = Vec::new();
    Refusal::NameTaken { name: "n1\nall is well".to_owned() }.put(&mut frame);
    assert_eq!(Refusal::read(body(&frame)), None);
}

#[test]
fn what_is_too_long_is_not_sent() {
    let mut out = vec![1];
    let long = vec![0; FRAME_BYTES_MAX + 1];
    assert!(!put_frame(kind::RAFT, &mut out, |out| out.extend_from_slice(&long)));
    assert_eq!(out, [1]);
}

/// A cluster of one node, and what it is.
fn node() -> (tempfile::TempDir, Cluster, Status) {
    let folder = tempfile::TempDir::new().expect("there is room");
    let dirs = [folder.path().join("n1")];
    let cluster = Cluster::start(&dirs, &NodeConfig::new(0)).expect("the directory is new");
    cluster.leader(PATIENCE).expect("it leads");
    let status = cluster.nodes()[0].handle().status();
    (folder, cluster, status)
}

/// Says this to a node, and returns everything that it says until it hangs up.
fn say(status: &Status, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(&status.peer).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket can wait");
    stream.write_all(bytes).expect("it listens");
    let mut heard = Vec::new();
    // A reset ends it as well as a proper end.
    stream.read_to_end(&mut heard).ok();
    heard
}

fn refused(status: &Status, bytes: &[u8]) -> Refusal {
    let heard = say(status, bytes);
    let mut buffer = FrameBuffer::default();
    buffer.fill(&mut &heard[..]).expect("a slice can be read");
    let preamble = buffer.raw().and_then(|bytes| Preamble::read(&bytes));
    assert_eq!(preamble, Some(Preamble::OURS));
    let (kind, body) = buffer.next_frame().expect("a sound frame").expect("a whole frame");
    assert_eq!(kind, kind::REFUSED);
    Refusal::read(body).expect("a refusal")
}

fn greeting(preamble: Preamble, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    preamble.put(&mut bytes);
    put(&mut bytes);
    bytes
}

#[test]
fn strangers_are_told_what_is_wrong() {
    let (_folder, _cluster, status) = node();
    let good = Hello {
        cluster_id: status.cluster_id,
        incarnation: status.incarnation,
        member: 9,
        name: "n9".to_owned(),
        peer: "127.0.0.1:1".to_owned(),
        to: status.id,
    };
    let with = |hello: Hello| greeting(Preamble::OURS, move |out| hello.put(out));
    let refusals = [
        (
            with(Hello { cluster_id: 3, ..good.clone() }),
            Refusal::OtherCluster { asked: 3, here: status.cluster_id },
        ),
        (
            with(Hello { incarnation: 4, ..good.clone() }),
            Refusal::OtherIncarnation { asked: 4, here: status.incarnation },
        ),
        (
            with(Hello { to: 5, ..good.clone() }),
            Refusal::OtherMember { asked: 5, here: status.id, name: "n1".to_owned() },
        ),
        (
            greeting(Preamble { lowest: 7, highest: 9 }, |out| good.put(out)),
            Refusal::Version { lowest: 1, highest: 2 },
        ),
        (
            greeting(Preamble { lowest: 0, highest: 0 }, |out| good.put(out)),
            Refusal::Version { lowest: 1, highest: 2 },
        ),
        (
            greeting(Preamble::OURS, |out| assert!(put_frame(kind::HELLO, out, |_| {}))),
            Refusal::Malformed,
        ),
        (greeting(Preamble::OURS, |out| out.extend_from_slice(&[0xff; 40])), Refusal::Malformed),
        (
            greeting(Preamble::OURS, |out| assert!(put_frame(kind::RAFT, out, |_| {}))),
            Refusal::Malformed,
        ),
    ];
    for (bytes, refusal) in refusals {
        assert_eq!(refused(&status, &bytes), refusal);
    }
}

#[test]
fn another_protocol_gets_no_answer() {
    let (_folder, _cluster, status) = node();
    assert_eq!(say(&status, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), b"");
}

#[test]
fn garbage_after_the_welcome_ends_the_connection_and_nothing_else() {
    let (_folder, cluster, status) = node();
    let hello = Hello {
        cluster_id: status.cluster_id,
        incarnation: status.incarnation,
        member: 9,
        name: "n9".to_owned(),
        peer: "127.0.0.1:1".to_owned(),
        to: status.id,
    };
    let mut garbage: Vec<Vec<u8>> = vec![vec![0xff; 100]];
    // A kind that nobody knows, an empty forward, an engine's message that is none.
    for kind in [99, kind::FORWARD] {
        let mut frame = Vec::new();
        put_frame(kind, &mut frame, |_| {});
        garbage.push(frame);
    }
    for garbage in garbage {
        let bytes = greeting(Preamble::OURS, |out| {
            hello.put(out);
            out.extend_from_slice(&garbage);
        });
        // The welcome, and then the end.
        assert!(!say(&status, &bytes).is_empty());
    }
    assert_eq!(cluster.nodes()[0].handle().status().ended, None);
}

/// Members that send a newcomer on for ever are given up, and nothing is left half done.
// Requirements: S1-032.
#[test]
fn a_newcomer_follows_five_redirections_and_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = listener.local_addr().expect("it listens").to_string();
    let circle = address.clone();
    let asked = std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming().take(6) {
            let mut stream = stream.expect("somebody connects");
            let mut buffer = FrameBuffer::default();
            buffer.fill(&mut stream).expect("it asks something");
            let answer = greeting(Preamble::OURS, |out| Told::Redirect(circle.clone()).put(out));
            stream.write_all(&answer).expect("it listens");
            asked += 1;
        }
        asked
    });
    let folder = tempfile::TempDir::new().expect("there is room");
    let origin = Origin::Join(vec![address.clone()]);
    let settings = Settings { origin, ..Settings::new(folder.path().join("n1"), "n1") };
    let refused = start(settings).expect_err("nobody lets it in");
    assert!(matches!(refused, StartError::TooManyRedirects { redirects: 5, .. }), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 3, "{refused}");
    assert_eq!(asked.join().expect("no panic"), 6, "once, and after five redirections");
}
