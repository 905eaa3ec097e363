//! What a store does with signed tokens, and where it has the public keys from.

use std::sync::Arc;

use fencepost_fence::signed::{KeySource, Verifier};
use fencepost_fence::store::Signatures;
use tokio::runtime::Handle;

use super::settings::{Settings, Trust};
use crate::failure::Failure;
use crate::http::{self, Target};

const OK: u16 = 200;

/// To be called in a runtime that goes on for as long as tokens are verified.
pub(super) fn signatures(settings: &Settings) -> Result<Signatures, Failure> {
    let Some(trust) = &settings.trust else { return Ok(Signatures::Refused) };
    let mut verifier = Verifier::new(&trust.cluster, source(trust)?);
    if let Some(audience) = &trust.audience {
        verifier = verifier.audience(audience);
    }
    let verifier = Arc::new(verifier);
    Ok(match settings.require_signed {
        true => Signatures::Required(verifier),
        false => Signatures::Accepted(verifier),
    })
}

/// A file must be good now. What is fetched may be out of reach now: the service may start later.
fn source(trust: &Trust) -> Result<KeySource, Failure> {
    let text = &trust.jwks;
    if !text.contains("://") {
        return KeySource::file(text).map_err(|why| {
            Failure::new(
                format!("cannot use the keys in {text}"),
                why.to_string(),
                "fetch them anew: curl -o FILE http://MEMBER/.well-known/jwks.json",
            )
        });
    }
    let target = Target::parse(text).map_err(|why| {
        Failure::usage(
            format!("cannot fetch keys from {text}"),
            why,
            "name them as http://MEMBER/.well-known/jwks.json, or name a file",
        )
    })?;
    let handle = Handle::current();
    Ok(KeySource::fetched(Box::new(move || {
        // The store verifies on a thread that may block.
        match handle.block_on(http::get(&target)) {
            Ok(answer) if answer.status == OK => Ok(answer.body),
            Ok(answer) => Err(format!("the answer has status {}", answer.status)),
            Err(why) => Err(why.to_string()),
        }
    })))
}
