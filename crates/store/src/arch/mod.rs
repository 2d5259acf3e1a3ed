//! Cache architectures: how objects are named, placed, found and given up on disk.
//!
//! Each is a row of one table that combines a naming for objects kept as files, a store for small objects, and a
//! replacement policy. A new architecture is a row, and what the row names.

mod files;
mod maintenance;
mod naming;
mod opening;
mod pins;
mod repair;
mod space;
#[cfg(test)]
mod tests;

pub use naming::{Naming, Squid};
pub use opening::{Parts, Settings, open, open_store};

use crate::door::FileSystem;
use shoal_policy::{Clock, Cyclic};
use std::sync::Arc;

/// A row of the table.
pub struct Architecture {
    /// How the settings spell it.
    pub name: &'static str,
    /// Where it is described.
    pub source: &'static str,
    naming: fn(NamingFor<'_>) -> Option<Arc<dyn Naming>>,
    small_objects: SmallObjects,
    replacement: &'static dyn Cyclic,
}

/// What a naming is made from.
enum NamingFor<'a> {
    /// A new store for so many objects.
    Objects(u32),
    /// The parameters that the index has kept.
    Parameters([u32; 4]),
    /// The folders that are there; the index has been lost.
    Folders(&'a dyn FileSystem),
}

/// Where objects of at most 8192 bytes go.
enum SmallObjects {
    /// Files, like the others.
    AsFiles,
}

/// All architectures.
pub const ARCHITECTURES: &[Architecture] = &[Architecture {
    name: "squid",
    source: "Maltzahn, Richardson, Grunwald: Reducing the Disk I/O of Web Proxy Server Caches, 1999, 2.3.2",
    naming: squid_naming,
    small_objects: SmallObjects::AsFiles,
    replacement: &Clock,
}];

fn squid_naming(naming_for: NamingFor<'_>) -> Option<Arc<dyn Naming>> {
    let naming = match naming_for {
        NamingFor::Objects(objects) => Some(Squid::for_objects(objects)),
        NamingFor::Parameters([l1, l2, ..]) => Squid::with([l1, l2]),
        NamingFor::Folders(files) => Squid::of_folders(files),
    };
    naming.map(|naming| Arc::new(naming) as Arc<dyn Naming>)
}
