//! The kinds of registries, a file each.

pub mod buildcache;
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

/// Name that stands for no checksum database of Go, but for the files beside zips.
pub const ZIPHASH: &str = "ziphash";

/// Gives the code of a kind.
pub fn of(kind: Kind) -> &'static dyn Registry {
    match kind {
        Kind::Npm => &npm::Npm,
        Kind::Pypi => &pypi::Pypi,
        Kind::Cargo => &cargo::Cargo,
        Kind::Go => &go::Go,
        Kind::Maven => &maven::Maven,
        Kind::Deb => &deb::Deb,
        Kind::RubyGems => &rubygems::RubyGems,
        Kind::Oci => &oci::Oci,
        Kind::Generic => &generic::Generic,
        Kind::BuildCache => &buildcache::BuildCache,
    }
}
