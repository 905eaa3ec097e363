//! Arbitrary bytes against the decoder of signed tokens. Run over a corpus by the normal tests.

use super::{Jwks, KeySource, Verifier};

/// A key set with one key, of which nobody has the secret half.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k",
    "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// Neither a token nor a statement is ever believed, and nothing panics. The same bytes are tried
/// as a key set.
pub fn fuzz_signed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let keys = Jwks::parse(KEYS).expect("the key set above is one");
    let verifier = Verifier::new("c1", KeySource::fixed(keys));
    assert!(verifier.verify_any_lock(&text).is_err(), "nobody has signed this");
    assert!(verifier.verify_floor(&text, "a").is_err(), "nobody has signed this");
    if let Ok(keys) = Jwks::parse(&text) {
        let verifier = Verifier::new("c1", KeySource::fixed(keys));
        assert!(verifier.verify_any_lock(&text).is_err(), "a key set is no token");
    }
}
