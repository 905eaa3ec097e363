//! Limits and ChangeLimits.

use fencepost_core::command::{Action, ChangeLimits, QuotaChange};
use fencepost_core::{Millis, State};
use fencepost_proto::v1;

use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::show;

pub(crate) async fn show(house: &House) -> Result<v1::LimitsResponse, Failure> {
    let (header, limits) = house.ask(false, limits_of).await?;
    Ok(v1::LimitsResponse { header: Some(header), ..limits })
}

pub(crate) async fn change(
    house: &House,
    request: &v1::ChangeLimitsRequest,
) -> Result<v1::LimitsResponse, Failure> {
    house.act(Action::ChangeLimits(parse(request)?)).await?;
    show(house).await
}

fn parse(request: &v1::ChangeLimitsRequest) -> Result<ChangeLimits, Failure> {
    let ttl_max = match request.ttl_max_ms {
        None => None,
        Some(ms @ 1..) => Some(Millis(ms.unsigned_abs())),
        Some(_) => return Err(Wrong::Invalid("ttl_max_ms", "must be positive").into()),
    };
    let quota = match (request.quota_bytes, request.quota_auto) {
        (None, false) => None,
        (None, true) => Some(QuotaChange::Auto),
        (Some(bytes), false) => Some(QuotaChange::Bytes(bytes)),
        (Some(_), true) => {
            return Err(Wrong::Invalid("quota_auto", "contradicts quota_bytes").into());
        }
    };
    Ok(ChangeLimits {
        ttl_max,
        quota,
        leases_per_client_max: request.leases_per_client_max,
        clients_per_address_max: request.clients_per_address_max,
        clear_no_space: request.clear_no_space,
    })
}

fn limits_of(state: &State) -> v1::LimitsResponse {
    let (limits, quota, sizes) = (state.limits(), state.quota(), state.sizes());
    v1::LimitsResponse {
        header: None,
        feature_level: state.feature_level(),
        used_bytes: state.used_bytes(),
        quota_bytes: quota.bytes,
        quota_auto: quota.is_auto,
        no_space: quota.no_space,
        ttl_min_ms: show::signed(limits.ttl_min.0),
        ttl_max_ms: show::signed(limits.ttl_max.0),
        keys: sizes.keys as u64,
        leases: sizes.leases as u64,
        leases_max: limits.leases_max,
        clients: sizes.clients as u64,
        clients_max: limits.clients_max,
        leases_per_client_max: quota.leases_per_client_max,
        clients_per_address_max: quota.clients_per_address_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let both = v1::ChangeLimitsRequest {
            quota_bytes: Some(1),
            quota_auto: true,
            ..Default::default()
        };
        assert_eq!(parse(&both).expect_err("it is one or the other").code, "field_invalid");
        let zero = v1::ChangeLimitsRequest { ttl_max_ms: Some(0), ..Default::default() };
        assert_eq!(parse(&zero).expect_err("a lease lives for a while").code, "field_invalid");
        let none = parse(&v1::ChangeLimitsRequest::default()).expect("it changes nothing");
        assert_eq!(none, ChangeLimits::default());
    }
}
