//! The kinds of registries, a file each.

pub mod cargo;
pub mod deb;
pub mod generic;
pub mod go;
pub mod maven;
pub mod npm;
pub mod oci;
pub mod pypi;
pub mod rubygems;
#[cfg(test)]
mod testing;

use crate::{Kind, Registry};

/// Gives the code of a kind; `None` for kinds that are not built yet.
pub fn of(kind: Kind) -> Option<&'static dyn Registry> {
    match kind {
        Kind::Npm => Some(&npm::Npm),
        Kind::Pypi => Some(&pypi::Pypi),
        Kind::Cargo => Some(&cargo::Cargo),
        Kind::Go => Some(&go::Go),
        Kind::Maven => Some(&maven::Maven),
        Kind::RubyGems => Some(&rubygems::RubyGems),
        Kind::Deb => Some(&deb::Deb),
        Kind::Oci => Some(&oci::Oci),
        Kind::Generic => Some(&generic::Generic),
        _ => None,
    }
}
