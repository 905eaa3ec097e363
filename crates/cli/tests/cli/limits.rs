//! `limits show` and `limits set`.

use serde_json::Value;

use crate::support::{Server, folder, until};

/// The limits, once the node has raised its feature level and fitted its quota.
fn limits(server: &Server) -> Value {
    until(|| {
        let limits = server.json(&["limits", "show"]);
        if limits["quota_bytes"].is_null() { Err("no quota yet") } else { Ok(limits) }
    })
}

#[test]
fn limits_are_shown_and_changed() {
    let home = folder();
    let server = Server::alone(home.path());
    let first = limits(&server);
    assert_eq!((&first["feature_level"], &first["quota_auto"]), (&2.into(), &true.into()));
    assert_eq!(first["ttl_max_ms"], 3_600_000);
    let text = server.run(&["limits", "show"]).good();
    assert!(text.contains("% of") && text.contains("500ms to 1h"), "{text}");
    let set = server.json(&["limits", "set", "--quota", "32MiB", "--leases-per-client", "7"]);
    assert_eq!((&set["quota_bytes"], &set["quota_auto"]), (&(32 << 20).into(), &false.into()));
    assert_eq!((&set["leases_per_client_max"], &set["ttl_max_ms"]), (&7.into(), &3_600_000.into()));
    assert!(server.run(&["status"]).good().contains("% of 32.0 MiB"));
    // A lease beyond the limit is refused, and granted once the limit is raised.
    let refused = server.run(&["lease", "grant", "2h"]).refused(1);
    assert!(refused.contains("ttl_too_long"), "{refused}");
    let raised = server.run(&["limits", "set", "--ttl-max", "2h"]);
    assert!(raised.err.contains("make a new backup"), "{}", raised.err);
    server.run(&["lease", "grant", "2h"]).good();
    for (wrong, why) in [
        (&["limits", "set"][..], "nothing to change"),
        (&["limits", "set", "--quota", "1MiB"], "a quota has at least 16 MiB"),
        (&["limits", "set", "--quota", "0"], "a quota has at least 16 MiB"),
        (&["limits", "set", "--ttl-max", "25h"], "limits_unsound"),
    ] {
        let text = server.run(wrong).refused(1);
        assert!(text.contains(why), "{text}");
    }
}

/// It would wait for ever: nobody makes room by waiting.
#[test]
fn lock_over_the_quota_is_refused_at_once() {
    let home = folder();
    let server = Server::alone(home.path());
    limits(&server);
    let value = "x".repeat(100_000);
    for number in 0..200 {
        server.run(&["kv", "put", &format!("k{number}"), &value]).good();
    }
    server.run(&["limits", "set", "--quota", "16MiB"]).good();
    let text = server.run(&["lock", "other", "--", "true"]).refused(125);
    assert!(text.contains("no_space"), "{text}");
    server.run(&["kv", "del", "k", "--prefix"]).good();
    server.run(&["lock", "other", "--", "true"]).good();
}
