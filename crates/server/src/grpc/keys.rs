//! Put, Range, DeleteRange.

use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::House;
use crate::{parse, reads, show};

pub(crate) async fn put(
    house: &House,
    request: &v1::PutRequest,
) -> Result<v1::PutResponse, Failure> {
    let (header, outcome) = house.act(parse::put(house, request)?).await?;
    let prev = parse::put_outcome(outcome)?;
    Ok(v1::PutResponse { header: Some(header), prev_kv: prev.as_deref().map(show::key_val) })
}

pub(crate) async fn range(
    house: &House,
    request: &v1::RangeRequest,
) -> Result<v1::RangeResponse, Failure> {
    let query = reads::range(request, |revision, found| (revision, found))?;
    let (header, found) = house.ask_with(request.stale, query).await?;
    Ok(v1::RangeResponse { header: Some(header), ..reads::show_range(&found) })
}

pub(crate) async fn delete_range(
    house: &House,
    request: &v1::DeleteRangeRequest,
) -> Result<v1::DeleteRangeResponse, Failure> {
    let (header, deletion) = house.delete(parse::delete_range(request)?).await?;
    Ok(v1::DeleteRangeResponse { header: Some(header), ..deletion.show() })
}
