//! The kinds of registries, a file each.

pub mod generic;

use crate::{Kind, Registry};

/// Gives the code of a kind; `None` for kinds that are not built yet.
pub fn of(kind: Kind) -> Option<&'static dyn Registry> {
    match kind {
        Kind::Generic => Some(&generic::Generic),
        _ => None,
    }
}
