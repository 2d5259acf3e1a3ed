//! The kinds of registries, a file each.

pub mod buildcache;
pub mod generic;
pub mod npm;

use crate::{Kind, Registry};

/// Gives the code of a kind; `None` for kinds that are not built yet.
pub fn of(kind: Kind) -> Option<&'static dyn Registry> {
    match kind {
        Kind::Npm => Some(&npm::Npm),
        Kind::BuildCache => Some(&buildcache::BuildCache),
        Kind::Generic => Some(&generic::Generic),
        _ => None,
    }
}
