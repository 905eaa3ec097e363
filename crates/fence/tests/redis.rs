//! The script against a real Redis.

mod support;

use fencepost_fence::{Mark, Presented, REDIS_LUA, Repeats, Token};
use redis::{Connection, RedisResult, Script, Value};
use support::redis::{again, connect, redis};

const MARK: &str = "{a}:fence";
const DATA: &str = "{a}";

fn guarded(to: &mut Connection, token: &str, mode: &str, command: &[&str]) -> RedisResult<Value> {
    let script = Script::new(REDIS_LUA);
    let mut call = script.key(MARK);
    call.key(DATA).arg(token).arg(mode).arg("repeat");
    for part in command {
        call.arg(*part);
    }
    call.invoke(to)
}

fn get(to: &mut Connection) -> Option<String> {
    redis::cmd("GET").arg(DATA).query(to).expect("it answers")
}

/// The word and the sentence of a refusal.
fn refusal(outcome: RedisResult<Value>) -> String {
    let error = outcome.expect_err("it is refused");
    format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default())
}

#[test]
fn redis_refuses_a_late_write_and_keeps_the_data() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    assert_eq!(guarded(to, "101", "exclusive", &["SET", DATA, "B"]).unwrap(), Value::Okay);
    let late = refusal(guarded(to, "100", "exclusive", &["SET", DATA, "A"]));
    assert!(late.starts_with("STALE Token 100 is stale, last seen was 101"), "{late}");
    assert_eq!(get(to).as_deref(), Some("B"));
    assert_eq!(guarded(to, "101", "exclusive", &["SET", DATA, "B2"]).unwrap(), Value::Okay);
    let answer = guarded(to, "102", "exclusive", &["GET", DATA]).unwrap();
    assert_eq!(answer, Value::BulkString(b"B2".to_vec()), "the command's own answer comes back");
}

#[test]
fn redis_does_not_remember_a_command_that_failed() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    guarded(to, "5", "exclusive", &["SET", DATA, "text"]).unwrap();
    assert!(guarded(to, "9", "exclusive", &["INCR", DATA]).is_err());
    guarded(to, "6", "exclusive", &["SET", DATA, "still six"]).unwrap();
}

#[test]
fn redis_takes_floors_and_refuses_what_is_no_token() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    let floor = |to: &mut Connection, args: &[&str]| {
        let script = Script::new(REDIS_LUA);
        let mut call = script.key(MARK);
        for arg in args {
            call.arg(*arg);
        }
        call.invoke::<Value>(to)
    };
    floor(to, &["8", "floor", "10", "11"]).unwrap();
    let forced = refusal(guarded(to, "7", "exclusive", &["SET", DATA, "x"]));
    assert!(forced.starts_with("FLOOR Token 7 is below the fence floor 8"), "{forced}");
    let taken = refusal(guarded(to, "10", "shared", &["GET", DATA]));
    assert!(taken.starts_with("FLOOR Token 10 was taken away"), "{taken}");
    guarded(to, "9", "shared", &["GET", DATA]).unwrap();
    guarded(to, "12", "exclusive", &["SET", DATA, "x"]).unwrap();
    let left: Vec<String> = redis::cmd("HKEYS").arg(MARK).query(to).unwrap();
    assert!(!left.iter().any(|field| field.starts_with("taken:")), "{left:?}");
    for bad in ["", "0", "-1", "007", "1.5", "1e3", "18446744073709551616", "x"] {
        let refused = refusal(guarded(to, bad, "exclusive", &["SET", DATA, "y"]));
        assert!(refused.starts_with("NOTOKEN "), "{bad:?}: {refused}");
    }
    let mode = refusal(guarded(to, "99", "Exclusive", &["SET", DATA, "y"]));
    assert!(mode.starts_with("NOTOKEN the mode"), "{mode}");
    assert_eq!(get(to).as_deref(), Some("x"));
}

/// One command of an operator.
fn configure(to: &mut Connection, args: &[&str]) {
    let mut command = redis::cmd(args[0]);
    for arg in &args[1..] {
        command.arg(*arg);
    }
    command.query::<Value>(to).expect("it may be configured");
}

#[test]
fn redis_that_may_evict_marks_is_refused() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        configure(to, &["CONFIG", "SET", "maxmemory-policy", policy]);
        let refused = refusal(guarded(to, "5", "exclusive", &["SET", DATA, "x"]));
        assert!(refused.starts_with("EVICTION Redis may evict marks"), "{refused}");
        assert!(refused.contains(policy) && refused.contains("noeviction"), "{refused}");
        assert_eq!(get(to), None, "nothing was written");
    }
    for policy in ["noeviction", "volatile-lru"] {
        configure(to, &["CONFIG", "SET", "maxmemory-policy", policy]);
        guarded(to, "5", "exclusive", &["SET", DATA, "x"]).unwrap();
        configure(to, &["DEL", MARK]);
    }
}

#[test]
fn evicted_redis_mark_lets_no_stale_token_in() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    guarded(to, "7", "exclusive", &["SET", DATA, "seven"]).unwrap();
    configure(to, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    // What an eviction does.
    configure(to, &["DEL", MARK]);
    let refused = refusal(guarded(to, "6", "exclusive", &["SET", DATA, "six"]));
    assert!(refused.starts_with("EVICTION "), "{refused}");
    assert_eq!(get(to).as_deref(), Some("seven"));
}

#[test]
fn redis_eviction_can_be_accepted() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    configure(to, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let script = Script::new(REDIS_LUA);
    let mut call = |token: &str, third: &str| {
        let mut call = script.key(MARK);
        call.key(DATA).arg(token).arg("exclusive").arg(third).arg("SET").arg(DATA).arg("x");
        call.invoke::<Value>(to)
    };
    call("5", "repeat-evictable").unwrap();
    call("6", "strict-evictable").unwrap();
    assert!(refusal(call("6", "strict-evictable")).starts_with("REUSED "));
    assert!(refusal(call("5", "repeat-evictable")).starts_with("STALE "));
    assert!(refusal(call("7", "repeat-whatever")).starts_with("NOTOKEN "));
}

#[test]
fn redis_that_hides_its_policy_is_refused() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    configure(to, &["ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-info", "-config"]);
    configure(to, &["AUTH", "app", "any"]);
    let refused = refusal(guarded(to, "5", "exclusive", &["SET", DATA, "x"]));
    assert!(refused.starts_with("EVICTION the maxmemory-policy cannot be read"), "{refused}");
}

#[test]
fn redis_keeps_marks_over_a_kill() {
    let Some(server) = redis() else { return };
    guarded(&mut connect(&server), "7", "exclusive", &["SET", DATA, "seven"]).unwrap();
    let server = again(server);
    let to = &mut connect(&server);
    let late = refusal(guarded(to, "6", "exclusive", &["SET", DATA, "six"]));
    assert!(late.starts_with("STALE Token 6 is stale, last seen was 7"), "{late}");
    assert_eq!(get(to).as_deref(), Some("seven"));
}

/// The script and the rule in Rust say the same, also where a double could not.
#[test]
fn redis_agrees_with_the_rule() {
    let Some(server) = redis() else { return };
    let to = &mut connect(&server);
    let mut mark = Mark::default();
    let mut seed = 7_u64;
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    for base in [1, (1 << 53) - 20, u64::MAX - 40] {
        for _ in 0..300 {
            let token = Token::new(base + next(40)).unwrap();
            let (name, presented) = match next(3) {
                0 => ("exclusive", Presented::exclusive(token)),
                1 => ("shared", Presented::shared(token)),
                _ => ("permit", Presented::permit(token)),
            };
            let expected = mark.present(presented, Repeats::Accepted);
            let outcome = guarded(to, &token.to_string(), name, &["INCR", "{a}:count"]);
            assert_eq!(outcome.is_ok(), expected.is_ok(), "{token} {name}: {outcome:?}");
        }
    }
}
