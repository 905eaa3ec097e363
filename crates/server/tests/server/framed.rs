//! Sessions without HTTP/2, byte by byte.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_proto::framing::{CLIENT_PREFACE, LENGTH_BYTES, PREFACE_BYTES};
use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use fencepost_server::Tuning;
use tokio::io::AsyncReadExt;

use crate::framed_support::{Framed, frame, hello, ping};
use crate::support::{Talk, acquire, get_lock, release, soon, until_waiters, world, world_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_and_given_back() {
    let world = world(1).await;
    let mut talk = Framed::open(&world.servers[0], "c").await;
    let lease = talk.lease(2, 1, 0).await;
    let mut last = 0;
    for round in 0..20 {
        talk.say(10, Some(1 + 2 * round), acquire(&["a"], lease, -1)).await;
        let (id, told) = talk.decided().await;
        assert_eq!((id, told.state()), (10, Stage::Acquired));
        assert!(told.fencing_token > last, "{told:?}");
        last = told.fencing_token;
        talk.say(11, Some(2 + 2 * round), release("a", lease, last)).await;
        let heard = talk.hear().await;
        assert!(matches!(heard.response, Some(Response::Released(told)) if told.released));
        // The welcome has said who leads, and nothing of that has changed.
        let header = heard.header.expect("every answer has one");
        assert_eq!(header, v1::Header { revision: header.revision, ..v1::Header::default() });
        assert!(header.revision > last);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_says_who_it_is_until_that_changes_and_others_with_every_answer() {
    let world = world(3).await;
    let leader = world.leader();
    for (place, server) in world.servers.iter().enumerate() {
        let mut talk = Framed::begun(server).await;
        talk.put(&hello("c")).await;
        let welcome = talk.hear().await.header.expect("every answer has one");
        assert_ne!((welcome.member_id, welcome.leader_id), (0, 0));
        // What is known of the cluster may still change a few times while it is young.
        for round in 0..20 {
            talk.put(&ping(10 + round)).await;
            let header = talk.hear().await.header.expect("every answer has one");
            let is_brief = header.member_id == 0;
            assert!(!is_brief || place == leader, "{header:?}");
            if is_brief {
                let brief = v1::Header { revision: header.revision, ..v1::Header::default() };
                assert_eq!(header, brief);
            }
            assert!(is_brief || place != leader || round < 19, "{header:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_may_come_in_one_write() {
    const COUNT: u64 = 3_000;
    let world = world(1).await;
    let mut talk = Framed::silent(&world.servers[0]).await;
    let mut said = CLIENT_PREFACE.to_vec();
    said.extend(hello("c"));
    for number in 0..COUNT {
        let put =
            v1::PutRequest { key: format!("k{number}"), value: "v".into(), ..Default::default() };
        said.extend(frame(100 + number, None, Request::Put(put)));
    }
    talk.put(&said).await;
    talk.preface().await;
    talk.welcome().await;
    let mut missing: BTreeSet<u64> = (100..100 + COUNT).collect();
    while !missing.is_empty() {
        let heard = talk.hear().await;
        assert!(matches!(heard.response, Some(Response::Put(_))), "{heard:?}");
        assert!(missing.remove(&heard.request_id), "each is answered once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_as_small_as_they_can_be_are_put_together() {
    let world = world(1).await;
    let mut talk = Framed::silent(&world.servers[0]).await;
    let mut said = CLIENT_PREFACE.to_vec();
    said.extend(hello("c"));
    said.extend(ping(2));
    said.extend(ping(3));
    for byte in said {
        talk.put(&[byte]).await;
    }
    talk.preface().await;
    talk.welcome().await;
    for id in [2, 3] {
        let heard = talk.hear().await;
        assert_eq!(heard.request_id, id);
        assert!(matches!(heard.response, Some(Response::Pong(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_arrives_whole() {
    let world = world(1).await;
    let mut talk = Framed::open(&world.servers[0], "c").await;
    let value: Vec<u8> = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    let put = v1::PutRequest { key: "k".into(), value: value.clone().into(), ..Default::default() };
    talk.say(2, None, Request::Put(put)).await;
    assert!(matches!(talk.hear().await.response, Some(Response::Put(_))));
    let range = v1::RangeRequest { key: "k".into(), ..Default::default() };
    talk.say(3, None, Request::Range(range)).await;
    let Some(Response::Range(found)) = talk.hear().await.response else { panic!("it is there") };
    assert_eq!(found.kvs[0].value, value);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_frame_ends_the_connection_with_a_reason() {
    let world = world(1).await;
    let too_long = (3_u32 << 19) + 1;
    let wrong: [(&[u8], &str); 3] = [
        (&too_long.to_le_bytes(), "request_too_large"),
        (&[0xff; 64], "request_too_large"),
        (&[5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff], "request_unreadable"),
    ];
    for (bytes, code) in wrong {
        let mut talk = Framed::open(&world.servers[0], "c").await;
        // What came before it counts, what comes behind it does not.
        let mut said = ping(2);
        said.extend(bytes);
        said.extend(ping(3));
        talk.put(&said).await;
        assert_eq!(talk.hear().await.request_id, 2);
        let failure = talk.last_words().await;
        assert_eq!((&*failure.code, failure.indeterminate), (code, false), "{failure:?}");
    }
    // Whoever sends all of it finds the reason as well.
    let mut talk = Framed::open(&world.servers[0], "c").await;
    let mut said = too_long.to_le_bytes().to_vec();
    said.resize(LENGTH_BYTES + too_long as usize, 0);
    talk.put(&said).await;
    assert_eq!(talk.last_words().await.code, "request_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_a_greeting_that_can_be_met() {
    let world = world(1).await;
    let old = v1::SessionHello {
        client_id: "c".into(),
        version_min: 7,
        version_max: 9,
        ..Default::default()
    };
    for (first, code) in [
        (ping(1), "hello_expected"),
        (hello(""), "client_empty"),
        (frame(1, None, Request::Hello(old)), "version_unsupported"),
    ] {
        let mut talk = Framed::begun(&world.servers[0]).await;
        talk.put(&first).await;
        talk.put(&ping(2)).await;
        let heard = talk.hear().await;
        assert_eq!((heard.request_id, heard.failure.map(|why| why.code)), (1, Some(code.into())));
        assert_eq!(talk.next().await.expect("it ends well"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_preface_is_answered_and_refused() {
    let world = world(1).await;
    let (mut later, mut other) = (CLIENT_PREFACE, CLIENT_PREFACE);
    later[PREFACE_BYTES - 1] = 2;
    other[3] = b'!';
    for preface in [later, other] {
        let mut talk = Framed::silent(&world.servers[0]).await;
        talk.put(&preface).await;
        talk.preface().await;
        assert_eq!(talk.last_words().await.code, "version_unsupported");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preface_that_does_not_come_in_time_is_not_waited_for() {
    let headers_patience = Duration::from_millis(300);
    let tuning = Tuning { headers_patience, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    for said in [0, 1, PREFACE_BYTES - 1] {
        let mut talk = Framed::silent(&world.servers[0]).await;
        talk.put(&CLIENT_PREFACE[..said]).await;
        let mut heard = Vec::new();
        // However it ends, it ends.
        drop(soon(talk.stream.read_to_end(&mut heard)).await);
        assert_eq!(heard, b"", "{said} bytes say nothing");
    }
    // Whoever has said it may then be silent for as long as it likes.
    let mut talk = Framed::open(&world.servers[0], "c").await;
    let mut slow = Framed::silent(&world.servers[0]).await;
    drop(soon(slow.stream.read_to_end(&mut Vec::new())).await);
    talk.put(&ping(2)).await;
    assert_eq!(talk.hear().await.request_id, 2);
}

/// Puts a value of a MiB, and asks for it far more often than answers may wait.
async fn ask_for_much(talk: &mut Framed) {
    let value = vec![7; 1 << 20];
    let put = v1::PutRequest { key: "k".into(), value: value.into(), ..Default::default() };
    talk.say(2, None, Request::Put(put)).await;
    talk.hear().await;
    let range = v1::RangeRequest { key: "k".into(), ..Default::default() };
    let asked = (10..110).flat_map(|id| frame(id, None, Request::Range(range.clone())));
    talk.put(&asked.collect::<Vec<u8>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_too_slowly_finds_out_why_it_was_cut_off() {
    let world = world(1).await;
    let mut slow = Framed::open(&world.servers[0], "slow").await;
    ask_for_much(&mut slow).await;
    // Others are served meanwhile.
    let mut other = Framed::open(&world.servers[0], "other").await;
    for id in 10..60 {
        other.put(&ping(id)).await;
        assert_eq!(other.hear().await.request_id, id);
    }
    let mut answers = 0;
    let failure = loop {
        let heard = slow.hear().await;
        match heard.failure {
            None => answers += 1,
            Some(failure) => break failure,
        }
    };
    assert_eq!((&*failure.code, failure.retryable), ("slow_reader", true));
    assert!(answers < 30, "{answers} answers of a MiB were kept");
    assert_eq!(slow.next().await.expect("it ends well"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_connection() {
    let answer_patience = Duration::from_millis(200);
    let tuning = Tuning { answer_patience, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut locks = world.locks(0).await;
    let mut deaf = Framed::open(&world.servers[0], "deaf").await;
    let lease = deaf.lease(200, 1, 1).await;
    deaf.say(201, Some(1), acquire(&["a"], lease, -1)).await;
    assert_eq!(deaf.decided().await.1.state(), Stage::Acquired);
    ask_for_much(&mut deaf).await;
    // The end of its connection is the end of a lease that wants it so.
    soon(async { while !get_lock(&mut locks, "a").await.holders.is_empty() {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_lead_to_one_queue() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut streamed = Talk::open(&mut locks, "streamed").await;
    let mut framed = Framed::open(&world.servers[0], "framed").await;
    let (one, two) = (streamed.lease(2, 1, 0).await, framed.lease(2, 1, 0).await);
    let mut last = 0;
    for round in 0..5 {
        streamed.say(3, Some(1 + 2 * round), acquire(&["a"], one, -1)).await;
        let token = streamed.decided().await.1.fencing_token;
        assert!(token > last);
        framed.say(3, Some(1 + 2 * round), acquire(&["a"], two, -1)).await;
        until_waiters(&mut locks, "a", 1).await;
        streamed.say(4, Some(2 + 2 * round), release("a", one, token)).await;
        streamed.hear().await;
        last = framed.decided().await.1.fencing_token;
        assert!(last > token);
        framed.say(4, Some(2 + 2 * round), release("a", two, last)).await;
        framed.hear().await;
    }
}

// Requirements: S0-064, S0-090.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_keeps_its_place_and_its_lease_unless_it_wants_otherwise() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Framed::open(&world.servers[0], "holder").await;
    let (kept, revoked) = (holder.lease(2, 1, 0).await, holder.lease(3, 2, 1).await);
    holder.say(4, Some(1), acquire(&["kept"], kept, -1)).await;
    holder.decided().await;
    holder.say(5, Some(1), acquire(&["revoked"], revoked, -1)).await;
    holder.decided().await;
    let mut waiter = Framed::open(&world.servers[0], "waiter").await;
    let lease = waiter.lease(2, 1, 0).await;
    waiter.say(3, Some(1), acquire(&["kept"], lease, -1)).await;
    until_waiters(&mut locks, "kept", 1).await;
    // One goes at once, the other only says that it has nothing more to say.
    drop(holder);
    tokio::io::AsyncWriteExt::shutdown(&mut waiter.stream).await.expect("it is open");
    while waiter.next().await.expect("it ends well").is_some() {}
    soon(async { while !get_lock(&mut locks, "revoked").await.holders.is_empty() {} }).await;
    let lock = get_lock(&mut locks, "kept").await;
    assert_eq!((lock.holders.len(), lock.waiters_total), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so() {
    let mut world = world(1).await;
    let mut talk = Framed::open(&world.servers[0], "c").await;
    // Both that have said nothing yet, or not enough, are no reason to wait.
    let silent = Framed::silent(&world.servers[0]).await;
    let mut half = Framed::silent(&world.servers[0]).await;
    half.put(&CLIENT_PREFACE[..3]).await;
    let stopping = tokio::spawn(world.servers.remove(0).stop());
    let failure = talk.last_words().await;
    assert_eq!((&*failure.code, failure.retryable), ("shutting_down", true));
    drop(talk);
    soon(stopping).await.expect("it does not panic");
    drop((silent, half));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_ends_its_connections() {
    let world = world(1).await;
    let mut talk = Framed::open(&world.servers[0], "c").await;
    world.cluster.nodes()[0].kill();
    assert_eq!(talk.last_words().await.code, "shutting_down");
}
