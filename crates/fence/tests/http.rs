//! The layer in a real server.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Extension;
use axum::routing::{get, put};
use axum::{Router, http};
use fencepost_fence::http::FenceLayer;
use fencepost_fence::signed::{Grant, Jwks, KeySource, PublicKey, SignedToken, Signer, Verifier};
use fencepost_fence::{FileMarks, MemoryMarks, Mode, Presented, Repeats, Token};
use http::{Request, StatusCode};
use tokio::sync::Notify;
use tower::util::ServiceExt as _;

const NOW: u64 = 1_800_000_000;

fn router(layer: FenceLayer) -> Router {
    let write = |Extension(presented): Extension<Presented>| async move {
        format!("{} {}", presented.token, presented.mode)
    };
    Router::new().route("/{name}", put(write).get(|| async { "read" })).layer(layer)
}

async fn ask(to: &Router, method: &str, path: &str, token: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("Fencepost-Token", token);
    }
    let response = to.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    if status.is_client_error() {
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_late_request_is_refused_with_a_problem() {
    let router = router(FenceLayer::new(Arc::new(MemoryMarks::new())));
    assert_eq!(
        ask(&router, "PUT", "/a", Some("101")).await,
        (StatusCode::OK, "101 exclusive".into())
    );
    let (status, body) = ask(&router, "PUT", "/a", Some("100")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(
        body,
        r#"{"type":"about:blank","title":"Conflict","status":409,"detail":"Token 100 is stale, last seen was 101","code":"token_stale"}"#
    );
    assert_eq!(ask(&router, "PUT", "/a", Some("101")).await.0, StatusCode::OK);
    assert_eq!(ask(&router, "PUT", "/b", Some("1")).await.0, StatusCode::OK);
    let respelled = ask(&router, "PUT", "/%61", Some("100")).await;
    assert_eq!(respelled.0, StatusCode::CONFLICT, "another spelling of one path");
    let shared = ask(&router, "PUT", "/a", Some("150; mode=shared")).await;
    assert_eq!(shared, (StatusCode::OK, "150 shared".into()));
    assert_eq!(ask(&router, "PUT", "/a", Some("102")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn requests_without_a_proper_token_do_not_go_in() {
    let router = router(FenceLayer::new(Arc::new(MemoryMarks::new())));
    assert_eq!(ask(&router, "GET", "/a", None).await, (StatusCode::OK, "read".into()));
    let (status, body) = ask(&router, "PUT", "/a", None).await;
    assert_eq!(status, StatusCode::PRECONDITION_REQUIRED);
    assert!(body.contains("token_missing"), "{body}");
    for bad in ["", "x", "0", "-1", "1.5.", "18446744073709551616", "5; mode=odd", "\u{e9}"] {
        let (status, body) = ask(&router, "PUT", "/a", Some(bad)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad:?}: {body}");
    }
    let long = format!("/{}", "x".repeat(1_024));
    let (status, body) = ask(&router, "PUT", &long, Some("1")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}

#[tokio::test]
async fn the_layer_remembers_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let marks = FileMarks::open(folder.path().join("marks")).unwrap();
        router(FenceLayer::new(Arc::new(marks)).repeats(Repeats::Refused))
    };
    let first = open();
    assert_eq!(ask(&first, "PUT", "/a", Some("7")).await.0, StatusCode::OK);
    drop(first);
    let second = open();
    assert_eq!(ask(&second, "PUT", "/a", Some("6")).await.0, StatusCode::CONFLICT);
    let (_, body) = ask(&second, "PUT", "/a", Some("7")).await;
    assert!(body.contains("Token 7 already used"), "{body}");
}

#[tokio::test]
async fn signed_tokens_are_accepted_or_demanded() {
    let signer = Signer::in_memory().unwrap();
    let keys = Jwks::parse(&PublicKey::set([signer.public()])).unwrap();
    let verifier = Arc::new(Verifier::new("c1", KeySource::fixed(keys)));
    let sign = |lock: &str, number: u64| {
        let grant = Grant {
            cluster: "c1",
            incarnation: 0,
            lock,
            presented: Presented::shared(Token::new(number).unwrap()),
            lease: "1",
            holder: "worker",
            revision: number,
            audience: &[],
            expires_at: None,
        };
        signer.sign(&grant, NOW)
    };
    let marks = Arc::new(MemoryMarks::new());
    let whose = |Extension(token): Extension<SignedToken>| async move { token.holder };
    let layer = FenceLayer::new(marks.clone()).require_signed(verifier.clone());
    let strict = Router::new().route("/{name}", put(whose)).layer(layer);
    let good = ask(&strict, "PUT", "/a", Some(&sign("/a", 5))).await;
    assert_eq!(good, (StatusCode::OK, "worker".into()));
    let (status, body) = ask(&strict, "PUT", "/a", Some("6")).await;
    assert_eq!((status, body.contains("signature_missing")), (StatusCode::UNAUTHORIZED, true));
    let (status, body) = ask(&strict, "PUT", "/a", Some(&sign("/b", 5))).await;
    assert_eq!((status, body.contains("signed_wrong_lock")), (StatusCode::FORBIDDEN, true));
    let forged = sign("/a", 5).replace(['A', 'B'], "C");
    assert_eq!(ask(&strict, "PUT", "/a", Some(&forged)).await.0, StatusCode::UNAUTHORIZED);

    let both = router(FenceLayer::new(marks.clone()).accept_signed(verifier));
    assert_eq!(ask(&both, "PUT", "/a", Some("6")).await.1, "6 exclusive");
    assert_eq!(ask(&both, "PUT", "/a", Some(&sign("/a", 9))).await.1, "9 shared");
    assert_eq!(ask(&both, "PUT", "/a", Some(&sign("/a", 5))).await.0, StatusCode::CONFLICT);

    let bare = router(FenceLayer::new(marks));
    let (status, body) = ask(&bare, "PUT", "/a", Some(&sign("/a", 9))).await;
    assert_eq!((status, body.contains("signature_unwanted")), (StatusCode::BAD_REQUEST, true));
}

/// A request with token 10 is inside when one with token 11 comes. It waits, and so the 10 cannot
/// take effect after the 11.
#[tokio::test]
async fn nobody_takes_effect_out_of_order() {
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let effects = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (entered, go_on, effects) = (entered.clone(), go_on.clone(), effects.clone());
        move |Extension(presented): Extension<Presented>| {
            let (entered, go_on, effects) = (entered.clone(), go_on.clone(), effects.clone());
            async move {
                if presented.token.get() == 10 {
                    entered.notify_one();
                    go_on.notified().await;
                }
                effects.lock().unwrap().push(presented.token.get());
                "done"
            }
        }
    };
    let layer = FenceLayer::new(Arc::new(MemoryMarks::new()));
    let router = Router::new().route("/{name}", put(handler)).layer(layer);
    let slow = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, "PUT", "/a", Some("10")).await }
    });
    entered.notified().await;
    let mut next = Box::pin(ask(&router, "PUT", "/a", Some("11")));
    let waits = std::future::poll_fn(|context| {
        std::task::Poll::Ready(next.as_mut().poll(context).is_pending())
    });
    assert!(waits.await);
    // Another resource does not wait.
    assert_eq!(ask(&router, "PUT", "/b", Some("3")).await.0, StatusCode::OK);
    go_on.notify_one();
    assert_eq!(slow.await.unwrap().0, StatusCode::OK);
    assert_eq!(next.await.0, StatusCode::OK);
    assert_eq!(*effects.lock().unwrap(), [3, 10, 11]);
    assert_eq!(ask(&router, "PUT", "/a", Some("10")).await.0, StatusCode::CONFLICT);
}

/// The client of token 10 hangs up while its handler writes on another thread. The write of token 11
/// must not land before that one has ended.
#[tokio::test]
async fn client_that_hangs_up_keeps_its_turn_until_its_write_has_ended() {
    let entered = Arc::new(Notify::new());
    let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
    let released = Arc::new(Mutex::new(released));
    let effects = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (entered, effects) = (entered.clone(), effects.clone());
        move |Extension(presented): Extension<Presented>| {
            let (entered, released) = (entered.clone(), released.clone());
            let (effects, token) = (effects.clone(), presented.token.get());
            async move {
                let write = move || {
                    if token == 10 {
                        entered.notify_one();
                        released.lock().unwrap().recv().unwrap();
                    }
                    effects.lock().unwrap().push(token);
                };
                tokio::task::spawn_blocking(write).await.unwrap();
                "done"
            }
        }
    };
    let layer = FenceLayer::new(Arc::new(MemoryMarks::new()));
    let router = Router::new().route("/{name}", put(handler)).layer(layer);
    let mut first = Box::pin(ask(&router, "PUT", "/a", Some("10")));
    tokio::select! {
        _ = &mut first => panic!("it waits for its write"),
        () = entered.notified() => drop(first),
    }
    let next = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, "PUT", "/a", Some("11")).await }
    });
    // Time enough to overtake, if it could: others go through the same steps meanwhile.
    for _ in 0..20 {
        assert_eq!(ask(&router, "PUT", "/b", Some("3")).await.0, StatusCode::OK);
    }
    assert!(!next.is_finished(), "token 11 went in while token 10 wrote");
    release.send(()).unwrap();
    assert_eq!(next.await.unwrap().0, StatusCode::OK);
    effects.lock().unwrap().retain(|&token| token != 3);
    assert_eq!(*effects.lock().unwrap(), [10, 11]);
}

/// Many requests in random order on few resources: an exclusive one is alone, and the order of
/// effects is the order of tokens.
#[tokio::test(flavor = "multi_thread")]
async fn many_requests_keep_the_order() {
    let effects: Arc<Mutex<Vec<(u64, Mode)>>> = Arc::default();
    let (inside, overlap) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let handler = {
        let (effects, inside, overlap) = (effects.clone(), inside.clone(), overlap.clone());
        move |Extension(presented): Extension<Presented>| {
            let (effects, inside, overlap) = (effects.clone(), inside.clone(), overlap.clone());
            async move {
                let others = inside.fetch_add(1, Ordering::SeqCst);
                if presented.mode == Mode::Exclusive && others > 0 {
                    overlap.store(true, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                effects.lock().unwrap().push((presented.token.get(), presented.mode));
                inside.fetch_sub(1, Ordering::SeqCst);
                "done"
            }
        }
    };
    let layer = FenceLayer::new(Arc::new(MemoryMarks::new()));
    let router = Router::new().route("/a", put(handler)).route("/", get(|| async {})).layer(layer);
    let mut calls = tokio::task::JoinSet::new();
    for number in 1..=300_u64 {
        let router = router.clone();
        let shown = (number * 7_919) % 301;
        let text = if shown.is_multiple_of(3) {
            format!("{shown}; mode=shared")
        } else {
            shown.to_string()
        };
        calls.spawn(async move { ask(&router, "PUT", "/a", Some(&text)).await.0 });
    }
    while let Some(status) = calls.join_next().await {
        assert!([StatusCode::OK, StatusCode::CONFLICT].contains(&status.unwrap()));
    }
    assert!(!overlap.load(Ordering::SeqCst), "an exclusive request was not alone");
    let mut highest = 0;
    for &(number, mode) in effects.lock().unwrap().iter() {
        assert!(number >= highest, "{number} took effect after {highest}");
        if mode == Mode::Exclusive {
            highest = number;
        }
    }
}
