//! `ls`, `show`, `unlock`, `release`.

use std::time::Duration;

use fencepost_client::{Client, Loss};
use tokio::task::JoinHandle;

use crate::support::{PATIENCE, Server, folder, shape};

async fn client(server: &Server, name: &str) -> Client {
    let builder = Client::builder().endpoint(&server.endpoint).name(name);
    builder.connect().await.expect("the server is ready")
}

/// A holder of `jobs/a` and somebody who waits for it.
async fn queue(server: &Server) -> (fencepost_client::Guard, JoinHandle<i64>) {
    let holder = client(server, "holder").await;
    let guard = holder.lock("jobs/a").metadata("why").ttl(Duration::from_secs(60)).acquire().await;
    let waiter = client(server, "waiter").await;
    let waits = tokio::spawn(async move {
        let guard = waiter.lock("jobs/a").wait(PATIENCE).acquire().await.expect("it is granted");
        guard.token().get()
    });
    let asking = client(server, "asking").await;
    while asking.get_lock("jobs/a").await.expect("it is answered").waiters_total == 0 {
        tokio::task::yield_now().await;
    }
    (guard.expect("it is free"), waits)
}

const HOLDER: &str = "{client:string,create_revision:number,expires_unix_ms:number,lease:string,\
                      metadata:string,mod_revision:number,remaining_ms:number,since_ms:number,\
                      token:number,version:number}";

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_shows_who_holds_and_who_waits() {
    let home = folder();
    let server = Server::alone(home.path());
    let (guard, waits) = queue(&server).await;
    let shown = server.json(&["show", "jobs/a"]);
    let waiter = "{client:string,create_revision:number,lease:string,mode:string,\
                  position:number,waiting_ms:number}";
    assert_eq!(
        shape(&shown),
        format!(
            "{{fence_floor:number,foreign:[],holders:[{HOLDER}],mode:string,name:string,\
             waiters:[{waiter}]}}"
        )
    );
    assert_eq!((&shown["name"], &shown["mode"]), (&"jobs/a".into(), &"exclusive".into()));
    let holder = &shown["holders"][0];
    assert_eq!(holder["token"], guard.token().get());
    assert_eq!(holder["lease"], format!("{:x}", guard.lease_id()));
    assert_eq!(holder["metadata"], "why");
    assert_eq!(shown["waiters"][0]["position"], 1);
    let text = server.run(&["show", "jobs/a"]).good();
    assert!(text.starts_with("jobs/a: held, exclusive\n"), "{text}");
    assert!(text.contains("which holds lock jobs/a"), "it says why somebody waits: {text}");
    guard.release().await.expect("it is held");
    assert!(waits.await.expect("it is granted") > 0);
}

#[test]
fn a_free_lock_is_deleted_and_a_held_one_is_not() {
    let home = folder();
    let server = Server::alone(home.path());
    assert_eq!(server.json(&["delete", "jobs/a"])["name"], "jobs/a");
    let lease = server.json(&["lease", "grant", "60s"]);
    let lease = lease["lease"].as_str().expect("it has one");
    server.run(&["kv", "put", &format!("jobs/a/{lease}"), "", "--lease", lease]).good();
    let text = server.run(&["delete", "jobs/a"]).refused(1);
    assert!(text.contains("lock_in_use"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_listed_and_shown() {
    let home = folder();
    let server = Server::alone(home.path());
    let client = client(&server, "worker").await;
    let _held = client.lock("held").acquire().await.expect("it is free");
    let listed = server.json(&["client", "ls"]);
    let all = listed["clients"].as_array().expect("it lists them");
    let worker =
        all.iter().find(|one| one["client"].as_str().is_some_and(|id| id.starts_with("worker")));
    let worker = worker.expect("it was heard from");
    let id = worker["client"].as_str().expect("it is text");
    let view = "address:string,client:string,last_seen_unix_ms:number,";
    assert_eq!(shape(worker), format!("{{{view}leases_total:number,seen_ms:number}}"));
    let shown = server.json(&["client", "show", id]);
    let view = format!("{{{view}leases:[string],leases_total:number,seen_ms:number}}");
    assert_eq!(shape(&shown), view);
    assert!(shown["address"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{shown}");
    assert!(server.run(&["client", "ls"]).good().contains("worker"));
    let text = server.run(&["client", "show", id]).good();
    assert!(text.starts_with(&format!("client {id} at 127.")), "{text}");
    let text = server.run(&["client", "show", "stranger"]).refused(1);
    assert!(text.contains("client_unknown"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_listed_by_prefix() {
    let home = folder();
    let server = Server::alone(home.path());
    let (_guard, waits) = queue(&server).await;
    let other = client(&server, "other").await;
    let _other = other.lock("other").acquire().await.expect("it is free");
    let listed = server.json(&["ls", "jobs/"]);
    assert_eq!(
        shape(&listed),
        format!(
            "{{locks:[{{fence_floor:number,foreign:[],holders:[{HOLDER}],mode:string,name:string,\
             waiting:number}}]}}"
        )
    );
    assert_eq!(listed["locks"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["locks"][0]["waiting"], 1);
    let text = server.run(&["ls"]).good();
    let names: Vec<_> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["jobs/a", "other"]);
    waits.abort();
}

#[test]
fn a_lock_that_nobody_wants_is_free() {
    let home = folder();
    let server = Server::alone(home.path());
    assert_eq!(server.run(&["show", "a"]).good(), "a: free\nlock a is free\n");
    assert_eq!(server.json(&["ls"])["locks"], serde_json::json!([]));
    assert_eq!(server.run(&["show", ""]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_gives_a_lock_back() {
    let home = folder();
    let server = Server::alone(home.path());
    let (guard, waits) = queue(&server).await;
    let lease = format!("{:x}", guard.lease_id());
    let token = guard.token().get();
    let unlock = |lease: &str, token: i64| {
        server.run(&["unlock", "jobs/a", "--lease", lease, "--token", &token.to_string()])
    };
    let text = unlock(&lease, token + 1).refused(1);
    assert!(text.contains("token_mismatch") && text.contains("jobs/a"), "{text}");
    let text = unlock("dead", token).refused(1);
    assert!(text.contains("lease_not_found") && text.contains("fencepost show"), "{text}");
    assert!(!text.contains("acquire"), "somebody who gives back wants no new lease: {text}");
    assert_eq!(unlock(&lease, token).good(), "released jobs/a\n");
    assert!(waits.await.expect("it is granted") > token);
    assert_eq!(server.run(&["unlock", "jobs/a", "--lease", &lease]).code, 2);
    let free = ["unlock", "free", "--lease", &lease, "--token", "1"];
    let told = server.json(&free);
    assert_eq!(told, serde_json::json!({"name": "free", "released": false}));
}

// Requirements: S1-085.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_a_lock_away() {
    let home = folder();
    let server = Server::alone(home.path());
    let (guard, waits) = queue(&server).await;
    let token = guard.token().get().to_string();
    let release = |more: &[&str]| {
        let usual = ["release", "jobs/a", "--force", "--reason", "the disk burns"];
        server.run(&[&usual[..], more].concat())
    };
    let text = release(&["--token", "1"]).refused(1);
    assert!(text.contains("token_mismatch"), "{text}");
    let asked = release(&["--token", &token, "-o", "json"]).json();
    assert_eq!(shape(&asked), "{name:string,pending_ms:number,released:bool,signed_floor:string}");
    assert_eq!(asked["released"], false);
    assert!(asked["pending_ms"].as_i64().is_some_and(|left| left > 0), "{asked}");
    // The holder hears of it, and with why.
    let loss = guard.lost().await;
    let Loss::Asked { reason } = &loss else { panic!("{loss:?}") };
    assert!(reason.starts_with("the disk burns (by fencepost-release-"), "{reason}");
    assert!(reason.contains(" at 127.0.0.1:"), "{reason}");
    let watch = server.begin(&["watch", "jobs/a"]);
    watch.err.wait_for("watching from revision");
    assert_eq!(release(&["--token", &token, "--now"]).good(), "released jobs/a\n");
    // Why, and who has done it, stand in the history before the end itself.
    watch.out.wait_for("delete");
    let lines = watch.out.all();
    assert!(lines[0].contains("force_asked") && lines[1].contains("forced"), "{lines:?}");
    let why = "because the disk burns (by fencepost-release-";
    assert!(lines[0].contains(why) && lines[0].contains(" at 127.0.0.1:"), "{lines:?}");
    let next = waits.await.expect("it is granted");
    let shown = server.json(&["show", "jobs/a"]);
    assert!(shown["fence_floor"].as_i64().is_some_and(|floor| floor > guard.token().get()));
    assert!(next > guard.token().get());
}

#[test]
fn taking_a_lock_away_needs_every_word() {
    let home = folder();
    let server = Server::alone(home.path());
    let whole = ["release", "a", "--force", "--token", "5", "--reason", "r"];
    assert_eq!(
        server.json(&whole),
        serde_json::json!({"name":"a","released":false,"pending_ms":0,"signed_floor":null})
    );
    for missing in [&whole[2..3], &whole[3..5], &whole[5..7]] {
        let rest: Vec<_> = whole.iter().copied().filter(|arg| !missing.contains(arg)).collect();
        assert_eq!(server.run(&rest).code, 2, "{rest:?}");
    }
    let text = server.run(&["release", "a", "--force", "--token", "5", "--reason", ""]).refused(1);
    assert!(text.contains("reason_empty"), "{text}");
    let long = "n".repeat(2_000);
    let text =
        server.run(&["release", &long, "--force", "--token", "5", "--reason", "r"]).refused(1);
    assert!(text.contains("too_long"), "{text}");
}
