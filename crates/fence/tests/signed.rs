//! Signed tokens: what is believed, and what is not.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencepost_fence::signed::{
    Clock, FloorNotice, Grant, Jwks, JwksError, KeyError, KeySource, PublicKey, Signer, Verifier,
    VerifyError, fuzz,
};
use fencepost_fence::{Floor, Mode, Presented, Token, TokenError};
use proptest::prelude::*;

const CLUSTER: &str = "c0ffee";
const LOCK: &str = "jobs/nightly";
const NOW: u64 = 1_800_000_000;

fn grant() -> Grant<'static> {
    Grant {
        cluster: CLUSTER,
        incarnation: 9_007_199_254_740_991,
        lock: LOCK,
        presented: Presented::exclusive(Token::new(9_007_199_254_740_993).unwrap()),
        lease: "1a2b",
        holder: "worker-3",
        revision: 9_007_199_254_740_995,
        audience: &[],
        expires_at: None,
    }
}

fn keys(signers: &[&Signer]) -> String {
    PublicKey::set(signers.iter().map(|signer| signer.public()))
}

fn verifier(signer: &Signer) -> Verifier {
    Verifier::new(CLUSTER, KeySource::fixed(Jwks::parse(&keys(&[signer])).unwrap()))
}

/// A clock that a test sets.
#[derive(Clone, Default)]
struct Hand {
    unix: Arc<AtomicU64>,
    since: Arc<AtomicU64>,
}

impl Clock for Hand {
    fn unix_seconds(&self) -> u64 {
        self.unix.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.since.load(Ordering::SeqCst))
    }
}

/// A JWS with another header or other claims, and the signature of an honest one.
fn forge(signer: &Signer, header: &str, claims: &str) -> String {
    let honest = signer.sign(&grant(), NOW);
    let signature = honest.rsplit('.').next().unwrap();
    format!("{}.{}.{signature}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

fn parts(text: &str) -> (String, String) {
    let mut parts = text.split('.').map(|part| {
        String::from_utf8(URL_SAFE_NO_PAD.decode(part).unwrap_or_default()).unwrap_or_default()
    });
    (parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn what_the_service_signs_is_believed() {
    let signer = Signer::in_memory().unwrap();
    let text = signer.sign(&grant(), NOW);
    let token = verifier(&signer).verify(&text, LOCK).unwrap();
    assert_eq!(token.presented, grant().presented);
    assert_eq!((token.cluster.as_str(), token.lock.as_str()), (CLUSTER, LOCK));
    assert_eq!(token.incarnation, 9_007_199_254_740_991);
    assert_eq!((token.lease.as_str(), token.holder.as_str()), ("1a2b", "worker-3"));
    assert_eq!((token.issued_at, token.revision), (NOW - 60, 9_007_199_254_740_995));
    let (header, claims) = parts(&text);
    let kid = signer.public().kid();
    assert_eq!(header, format!(r#"{{"typ":"fence+jwt","alg":"EdDSA","kid":"{kid}"}}"#));
    assert_eq!(
        claims,
        r#"{"iss":"c0ffee","inc":9007199254740991,"sub":"jobs/nightly","mode":"exclusive","tok":"9007199254740993","ses":"1a2b","hld":"worker-3","iat":1799999940,"rev":"9007199254740995"}"#
    );
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit] {
        let presented = Presented { mode, ..grant().presented };
        let text = signer.sign(&Grant { presented, ..grant() }, NOW);
        assert_eq!(verifier(&signer).verify(&text, LOCK).unwrap().presented.mode, mode);
    }
}

#[test]
fn another_cluster_lock_or_key_is_not_believed() {
    let signer = Signer::in_memory().unwrap();
    let text = signer.sign(&grant(), NOW);
    let trusted = verifier(&signer);
    assert!(matches!(trusted.verify(&text, "jobs"), Err(VerifyError::Lock { .. })));
    let foreign = signer.sign(&Grant { cluster: "beef", ..grant() }, NOW);
    assert!(matches!(trusted.verify(&foreign, LOCK), Err(VerifyError::Cluster { .. })));
    let stranger = Signer::in_memory().unwrap().sign(&grant(), NOW);
    assert!(matches!(trusted.verify(&stranger, LOCK), Err(VerifyError::UnknownKey(_))));
}

/// Another key under the name of a known one: only the signature can tell.
#[test]
fn a_forged_signature_is_not_believed() {
    let (honest, forger) = (Signer::in_memory().unwrap(), Signer::in_memory().unwrap());
    let forged = forger.sign(&grant(), NOW);
    let renamed = keys(&[&honest]).replace(honest.public().kid(), forger.public().kid());
    let verifier = Verifier::new(CLUSTER, KeySource::fixed(Jwks::parse(&renamed).unwrap()));
    assert_eq!(verifier.verify(&forged, LOCK), Err(VerifyError::Signature));
}

#[test]
fn other_algorithms_types_and_headers_are_refused_by_name() {
    let signer = Signer::in_memory().unwrap();
    let verifier = verifier(&signer);
    let (header, claims) = parts(&signer.sign(&grant(), NOW));
    for alg in ["none", "None", "", "HS256", "RS256", "ES256", "eddsa", "Ed25519"] {
        let header = header.replace("EdDSA", alg);
        let outcome = verifier.verify(&forge(&signer, &header, &claims), LOCK);
        assert_eq!(outcome, Err(VerifyError::Algorithm(alg.to_owned())), "{alg}");
    }
    // The classic: no signature at all.
    let bare = format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
        URL_SAFE_NO_PAD.encode(&claims)
    );
    assert!(matches!(verifier.verify(&bare, LOCK), Err(VerifyError::Algorithm(_))));
    for typ in ["JWT", "fence-floor+jwt", "FENCE+JWT", ""] {
        let header = header.replace("fence+jwt", typ);
        let outcome = verifier.verify(&forge(&signer, &header, &claims), LOCK);
        assert!(matches!(outcome, Err(VerifyError::Type { .. })), "{typ}");
    }
    let critical = header.replace('}', r#","crit":["x"]}"#);
    let outcome = verifier.verify(&forge(&signer, &critical, &claims), LOCK);
    assert_eq!(outcome, Err(VerifyError::Critical));
    let nameless = r#"{"typ":"fence+jwt","alg":"EdDSA"}"#;
    let outcome = verifier.verify(&forge(&signer, nameless, &claims), LOCK);
    assert_eq!(outcome, Err(VerifyError::NoKeyId));
    // A header that brings its own key along is as good as none.
    let own_key = header.replace('}', r#","jwk":{"kty":"OKP"}}"#);
    let outcome = verifier.verify(&forge(&signer, &own_key, &claims), LOCK);
    assert_eq!(outcome, Err(VerifyError::Signature));
}

#[test]
fn malformed_texts_are_refused() {
    let signer = Signer::in_memory().unwrap();
    let verifier = verifier(&signer);
    let good = signer.sign(&grant(), NOW);
    let huge = format!("{}.a.b", "a".repeat(1 << 20));
    for text in [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "a.b.c",
        "42",
        &huge,
        &format!(" {good}"),
        &format!("{good}="),
        &format!("{good}."),
    ] {
        let outcome = verifier.verify(text, LOCK);
        let shown = &text[..text.len().min(40)];
        assert!(
            matches!(outcome, Err(VerifyError::Malformed(_) | VerifyError::Signature)),
            "{shown}: {outcome:?}"
        );
    }
}

#[test]
fn an_audience_must_be_met_from_both_sides() {
    let signer = Signer::in_memory().unwrap();
    let set = || KeySource::fixed(Jwks::parse(&keys(&[&signer])).unwrap());
    let nobody = Verifier::new(CLUSTER, set());
    let billing = Verifier::new(CLUSTER, set()).audience("billing");
    let both = ["billing".to_owned(), "stock".to_owned()];
    for (audience, nobody_believes, billing_believes) in [
        (&both[..0], true, false),
        (&both[..1], false, true),
        (&both[..], false, true),
        (&both[1..], false, false),
    ] {
        let text = signer.sign(&Grant { audience, ..grant() }, NOW);
        for (verifier, believes) in [(&nobody, nobody_believes), (&billing, billing_believes)] {
            let expected = if believes { Ok(()) } else { Err(VerifyError::Audience) };
            assert_eq!(verifier.verify(&text, LOCK).map(drop), expected, "{audience:?}");
        }
    }
}

#[test]
fn a_token_expires_only_if_it_says_so() {
    let signer = Signer::in_memory().unwrap();
    let hand = Hand::default();
    let verifier = verifier(&signer).clock(hand.clone());
    let for_ever = signer.sign(&grant(), NOW);
    let until = signer.sign(&Grant { expires_at: Some(NOW + 100), ..grant() }, NOW);
    hand.unix.store(NOW + 159, Ordering::SeqCst);
    verifier.verify(&until, LOCK).unwrap();
    hand.unix.store(NOW + 160, Ordering::SeqCst);
    let expired = VerifyError::Expired { at: NOW + 100, now: NOW + 160 };
    assert_eq!(verifier.verify(&until, LOCK), Err(expired));
    hand.unix.store(u64::MAX, Ordering::SeqCst);
    verifier.verify(&for_ever, LOCK).unwrap();
}

#[test]
fn floors_are_statements_and_not_tokens() {
    let signer = Signer::in_memory().unwrap();
    let verifier = verifier(&signer);
    let taken: BTreeSet<Token> = [12, 15].into_iter().filter_map(Token::new).collect();
    let floor = Floor { below: Token::new(10), taken };
    let notice =
        FloorNotice { cluster: CLUSTER, incarnation: 9, lock: LOCK, floor: &floor, revision: 20 };
    let text = signer.sign_floor(&notice, NOW);
    let statement = verifier.verify_floor(&text, LOCK).unwrap();
    assert_eq!((statement.floor, statement.incarnation), (floor.clone(), 9));
    assert!(matches!(verifier.verify_floor(&text, "x"), Err(VerifyError::Lock { .. })));
    assert!(matches!(verifier.verify(&text, LOCK), Err(VerifyError::Type { .. })));
    let token = signer.sign(&grant(), NOW);
    assert!(matches!(verifier.verify_floor(&token, LOCK), Err(VerifyError::Type { .. })));
    let foreign = signer.sign_floor(&FloorNotice { cluster: "x", ..notice }, NOW);
    assert!(matches!(verifier.verify_floor(&foreign, LOCK), Err(VerifyError::Cluster { .. })));
}

#[test]
fn key_sets_are_read_with_care() {
    let signer = Signer::in_memory().unwrap();
    let good = keys(&[&signer]);
    let key = good.strip_prefix(r#"{"keys":["#).unwrap().strip_suffix("]}").unwrap();
    let count = |json: &str| Jwks::parse(json).map(|keys| keys.len());
    assert_eq!(count(&good), Ok(1));
    assert_eq!(count(r#"{"keys":[]}"#), Ok(0));
    // Keys of others are skipped.
    let others = [
        r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"r"}"#.to_owned(),
        r#"{"kty":"oct","k":"AQAB","kid":"s"}"#.to_owned(),
        r#"{"kty":"later"}"#.to_owned(),
        key.replace("Ed25519", "X25519"),
        key.replace("\"sig\"", "\"enc\""),
        key.replace("EdDSA", "HS256"),
        key.replace("\"kid\"", "\"kim\""),
    ];
    for other in others {
        assert_eq!(count(&format!(r#"{{"keys":[{other},{key}]}}"#)), Ok(1), "{other}");
    }
    let doubled = format!(r#"{{"keys":[{key},{key}]}}"#);
    assert_eq!(count(&doubled), Err(JwksError::Doubled(signer.public().kid().to_owned())));
    for bad in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[1]}"#] {
        assert!(matches!(Jwks::parse(bad), Err(JwksError::Malformed(_))), "{bad}");
    }
    let short = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AAAA"}]}"#;
    assert!(matches!(Jwks::parse(short), Err(JwksError::Malformed(_))));
    assert!(matches!(Jwks::parse(&" ".repeat(2 << 20)), Err(JwksError::TooLarge)));
}

#[test]
fn a_key_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let replace = |text: &str| {
        let draft = folder.path().join("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, &path).unwrap();
    };
    assert!(matches!(KeySource::file(&path), Err(JwksError::Unreachable(_))));
    let (old, new) = (Signer::in_memory().unwrap(), Signer::in_memory().unwrap());
    replace(&keys(&[&old]));
    let verifier = Verifier::new(CLUSTER, KeySource::file(&path).unwrap());
    let believes = |signer: &Signer| verifier.verify(&signer.sign(&grant(), NOW), LOCK).is_ok();
    assert_eq!((believes(&old), believes(&new)), (true, false));
    replace(&keys(&[&old, &new]));
    assert_eq!((believes(&old), believes(&new)), (true, true));
    replace("half a fi");
    assert_eq!((believes(&old), believes(&new)), (true, true));
    replace(&keys(&[&new]));
    assert_eq!((believes(&old), believes(&new)), (false, true), "a revoked key is gone at once");
}

#[test]
fn fetched_keys_are_kept_for_a_while() {
    let (old, new) = (Signer::in_memory().unwrap(), Signer::in_memory().unwrap());
    let served = Arc::new(Mutex::new(Ok(keys(&[&old]))));
    let fetches = Arc::new(AtomicU64::new(0));
    let hand = Hand::default();
    let fetch = {
        let (served, fetches) = (served.clone(), fetches.clone());
        Box::new(move || {
            fetches.fetch_add(1, Ordering::SeqCst);
            served.lock().unwrap().clone()
        })
    };
    let source =
        KeySource::fetched(fetch).ages(Duration::from_secs(300), Duration::from_secs(3_600));
    let verifier = Verifier::new(CLUSTER, source).clock(hand.clone());
    let verify = |signer: &Signer| verifier.verify(&signer.sign(&grant(), NOW), LOCK).map(drop);
    let fetched = || fetches.load(Ordering::SeqCst);
    let at = |seconds: u64| hand.since.store(seconds, Ordering::SeqCst);

    assert_eq!(fetched(), 0, "nothing is fetched before it is needed");
    for _ in 0..10 {
        verify(&old).unwrap();
    }
    assert_eq!(fetched(), 1);
    // A flood of unknown keys is one fetch per pause.
    for _ in 0..10 {
        assert!(matches!(verify(&new), Err(VerifyError::UnknownKey(_))));
    }
    assert_eq!(fetched(), 1);
    *served.lock().unwrap() = Ok(keys(&[&old, &new]));
    at(11);
    verify(&new).unwrap();
    assert_eq!(fetched(), 2, "an unknown key is worth a fetch");
    // A revoked key is believed no longer than the set may be old.
    *served.lock().unwrap() = Ok(keys(&[&new]));
    at(310);
    verify(&old).unwrap();
    at(312);
    assert!(matches!(verify(&old), Err(VerifyError::UnknownKey(_))));
    assert_eq!(fetched(), 3);
    // The service is away: the last keys are good for an hour.
    *served.lock().unwrap() = Err("connection refused".to_owned());
    at(3_900);
    verify(&new).unwrap();
    at(3_912);
    let outcome = verify(&new);
    assert!(
        matches!(&outcome, Err(VerifyError::Keys(JwksError::TooOld(why))) if why.contains("connection refused")),
        "{outcome:?}"
    );
    *served.lock().unwrap() = Ok(keys(&[&new]));
    at(3_930);
    verify(&new).unwrap();
}

#[test]
fn a_signing_key_is_made_once_and_kept_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("signing-key");
    let first = Signer::open(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Signer::open(&path).unwrap();
    assert_eq!(first.public(), again.public());
    assert_eq!(&PublicKey::new(&first.public_bytes()), again.public());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    let bytes = fs::read(&path).unwrap();
    let secret = URL_SAFE_NO_PAD.encode(&bytes[bytes.len() - 32..]);
    assert!(!format!("{first:?}").contains(&secret));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(Signer::open(&path), Err(KeyError::Exposed { mode: 0o640, .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, b"rubbish").unwrap();
    assert!(matches!(Signer::open(&path), Err(KeyError::Malformed(_))));
}

/// The name of a key, checked against the example of RFC 8037, appendix A.3.
#[test]
fn a_key_is_named_after_its_thumbprint() {
    let bytes = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
    let key = PublicKey::new(&bytes.try_into().unwrap());
    assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}

/// Findings of a fuzzer are added to the folder by hand, beside what it was seeded with.
#[test]
fn the_corpus_of_signed_texts_is_refused_without_a_panic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/signed");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        fuzz::fuzz_signed(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus is not there");
}

proptest! {
    // Requirements: S1-102.
    #[test]
    fn any_changed_character_is_noticed(at in 0_usize..1_000, to in 0_u8..128) {
        let signer = Signer::in_memory().unwrap();
        let text = signer.sign(&grant(), NOW);
        let at = at % text.len();
        let mut bytes = text.clone().into_bytes();
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert!(verifier(&signer).verify(&changed, LOCK).is_err(), "{}", changed);
    }

    #[test]
    fn any_cut_or_addition_is_noticed(at in 0_usize..1_000, extra in "[A-Za-z0-9_.=-]{1,4}") {
        let signer = Signer::in_memory().unwrap();
        let text = signer.sign(&grant(), NOW);
        let at = at % text.len();
        let verifier = verifier(&signer);
        prop_assert!(verifier.verify(&text[..at], LOCK).is_err());
        let longer = format!("{}{extra}{}", &text[..at], &text[at..]);
        prop_assert!(verifier.verify(&longer, LOCK).is_err());
        let longer = format!("{text}{extra}");
        prop_assert!(verifier.verify(&longer, LOCK).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz::fuzz_signed(&bytes);
    }

    #[test]
    fn arbitrary_headers_and_claims_never_panic(header in "\\PC{0,80}", claims in "\\PC{0,80}") {
        for alg in ["", r#"{"alg":"EdDSA","typ":"fence+jwt","kid":"k"}"#] {
            let header = if alg.is_empty() { header.as_str() } else { alg };
            let text = format!(
                "{}.{}.{}",
                URL_SAFE_NO_PAD.encode(header),
                URL_SAFE_NO_PAD.encode(&claims),
                "A".repeat(86)
            );
            fuzz::fuzz_signed(text.as_bytes());
        }
    }

    #[test]
    fn any_name_survives_signing(lock in "\\PC{1,100}", holder in any::<String>()) {
        let signer = Signer::in_memory().unwrap();
        let text = signer.sign(&Grant { lock: &lock, holder: &holder, ..grant() }, NOW);
        let token = verifier(&signer).verify(&text, &lock).unwrap();
        prop_assert_eq!(token.holder, holder);
    }
}

/// Every single bit of a token, not only some.
#[test]
fn every_flipped_bit_is_noticed() {
    let signer = Signer::in_memory().unwrap();
    let text = signer.sign(&grant(), NOW);
    let verifier = verifier(&signer);
    for at in 0..text.len() {
        for bit in 0..7 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(verifier.verify(&changed, LOCK).is_err(), "byte {at}, bit {bit}");
        }
    }
}

/// Claims that a trusted signer would never make are refused all the same: a later service may
/// have a bug, and a number that wraps around would let a stale holder in.
#[test]
fn signed_nonsense_is_refused() {
    let signer = Raw::new();
    let verifier = Verifier::new(CLUSTER, KeySource::fixed(Jwks::parse(&signer.keys()).unwrap()));
    let (_, claims) = parts(&Signer::in_memory().unwrap().sign(&grant(), NOW));
    let verify = |claims: &str| verifier.verify(&signer.sign("fence+jwt", claims), LOCK);
    verify(&claims).unwrap();
    let tok = |text: &str| claims.replace(r#""9007199254740993""#, text);
    for (text, error) in [
        (r#""18446744073709551616""#, TokenError::TooLarge),
        (r#""0""#, TokenError::Zero),
        (r#""-1""#, TokenError::NotDecimal),
        (r#""007""#, TokenError::LeadingZero),
        (r#""1e3""#, TokenError::NotDecimal),
    ] {
        let expected = VerifyError::Token { claim: "tok", error };
        assert_eq!(verify(&tok(text)), Err(expected), "{text}");
    }
    assert!(
        matches!(verify(&tok("5")), Err(VerifyError::Claims(_))),
        "a number may have been rounded"
    );
    let mode = claims.replace("exclusive", "permit(3)");
    assert_eq!(verify(&mode), Err(VerifyError::Mode("permit(3)".to_owned())));
    for missing in ["iss", "sub", "mode", "tok", "ses", "hld", "iat", "rev"] {
        let renamed = claims.replace(&format!("\"{missing}\""), "\"other\"");
        assert!(matches!(verify(&renamed), Err(VerifyError::Claims(_))), "{missing}");
    }
    for bad in ["", "null", "[]", "{}", "{", "\u{0}"] {
        assert!(matches!(verify(bad), Err(VerifyError::Claims(_))), "{bad:?}");
    }
    let doubled = claims.replace("\"tok\"", "\"tok\":\"1\",\"tok\"");
    assert!(matches!(verify(&doubled), Err(VerifyError::Claims(_))), "which one is meant?");
}

/// Signs any text, as nobody but a test should.
struct Raw(aws_lc_rs::signature::Ed25519KeyPair);

impl Raw {
    fn new() -> Raw {
        Raw(aws_lc_rs::signature::Ed25519KeyPair::generate().unwrap())
    }

    fn public(&self) -> PublicKey {
        use aws_lc_rs::signature::KeyPair as _;
        PublicKey::new(&self.0.public_key().as_ref().try_into().unwrap())
    }

    fn keys(&self) -> String {
        PublicKey::set([&self.public()])
    }

    fn sign(&self, typ: &str, claims: &str) -> String {
        let kid = self.public().kid().to_owned();
        let header = format!(r#"{{"alg":"EdDSA","typ":"{typ}","kid":"{kid}"}}"#);
        let message =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

/// One in sixty-four would be taken for an option on a command line.
#[test]
fn the_name_of_a_new_key_does_not_begin_with_a_dash() {
    for _ in 0..1_000 {
        let signer = Signer::in_memory().expect("there are random bytes");
        assert!(!signer.public().kid().starts_with('-'));
    }
}
