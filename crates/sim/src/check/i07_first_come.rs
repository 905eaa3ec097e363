//! I7, first come, first served: nobody is granted a lock while somebody who came earlier still
//! waits for it, whatever the modes. A foreign key waits for ever. Nobody is granted twice.

use fencepost_core::LockName;
use fencepost_core::event::Holding;

use super::book::Book;
use super::{Check, broken};

/// A contender is granted a lock; the book is as it was before.
pub(super) fn granted(book: &Book, name: &LockName, holding: &Holding) -> Check {
    let token = holding.token.0;
    for place in book.queue(name) {
        if place.key == holding.key {
            if place.holds {
                return Err(broken("I7", format!("{name}: token {token} is granted twice")));
            }
            if place.foreign {
                return Err(broken("I7", format!("{name}: foreign key {} is granted", place.key)));
            }
            return Ok(());
        }
        if !place.holds {
            let earlier = place.token.0;
            let what = format!("{name}: token {token} is granted while {earlier} still waits");
            return Err(broken("I7", what));
        }
    }
    Err(broken("I7", format!("{name}: token {token} is granted and stands in no queue")))
}
