//! Cache architectures: how objects are named, placed, found and evicted on disk.
//!
//! Each architecture is a row of one table. A row combines a naming for objects kept as files with
//! a store for small objects. The replacement policy is a separate setting. A new architecture is a
//! new row and the parts that it names.

mod cern;
mod files;
mod inspecting;
mod keyed;
mod maintenance;
mod naming;
mod opening;
mod options;
mod pins;
mod released;
mod repair;
mod replacement;
mod seal;
mod segments;
mod signature;
mod space;
#[cfg(test)]
mod tests;
mod volume;

pub use inspecting::{empty, format, inspect, volume_size};
pub use keyed::secret_of;
pub use naming::{ByHost, ClusteredNaming, Naming, Squid};
pub use opening::{open, open_store, open_through};
pub use options::{ArchitectureOptions, StoreEnv};
pub use replacement::{REPLACEMENT_DEFAULT, REPLACEMENTS};
pub use segments::{SegmentPolicy, SegmentSettings};
pub use volume::{PinSettings, VolumeSettings};

use crate::index::Numbers;
use segments::SegmentAlignment;
use std::sync::Arc;

/// Row of the table of architectures.
pub struct Architecture {
    /// Name in the settings.
    pub name: &'static str,
    /// Publication or module that describes the architecture.
    pub source: &'static str,
    design: Design,
}

/// Way in which an architecture keeps objects.
enum Design {
    /// Numbered files, found through the index.
    Indexed(IndexedParts),
    /// Folders named by URL, without an index.
    UrlFolders,
    /// One flat space, written in large pieces.
    Volume,
}

/// Parts of an architecture with an index.
struct IndexedParts {
    naming: fn(NamingFor) -> Option<Arc<dyn Naming>>,
    small_objects: SmallObjects,
    released_files: ReleasedFilePolicy,
}

/// Source from which a naming is made.
enum NamingFor {
    /// Spec of a new store.
    New(NewStoreSpec),
    /// Parameters kept in the index or in the store's signature.
    Parameters([u32; 4]),
}

/// Parameters of a new store.
#[derive(Clone, Copy)]
struct NewStoreSpec {
    max_objects: u32,
    /// Block size of the file system.
    block_bytes: u32,
    /// Limit that the operator sets.
    files_per_folder: u32,
}

/// Fate of the file of an evicted or replaced object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleasedFilePolicy {
    /// The store removes the file.
    Removed,
    /// Another object overwrites the file.
    Overwritten,
}

/// Place of objects of at most 8192 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SmallObjects {
    /// Files, as for larger objects.
    AsFiles,
    /// Segments of a memory-mapped file.
    Mapped(SegmentAlignment),
}

/// All architectures.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: volume::NAME,
        source: "ours; see the module `architectures::volume`",
        design: Design::Volume,
    },
    Architecture {
        name: "cern",
        source: "Maltzahn, Richardson, Grunwald: Reducing the Disk I/O of Web Proxy Server Caches, 1999, 2.3.1",
        design: Design::UrlFolders,
    },
    Architecture {
        name: SQUID,
        source: "Maltzahn et al. 1999, 2.3.2",
        design: Design::Indexed(IndexedParts {
            naming: squid,
            small_objects: SmallObjects::AsFiles,
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
    Architecture {
        name: "squid_monotonic",
        source: "Maltzahn et al. 1999, 2.4.1, after Arjan de Vet's patch of Squid",
        design: Design::Indexed(IndexedParts {
            naming: squid_monotonic,
            small_objects: SmallObjects::AsFiles,
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
    Architecture {
        name: "squid_lowest",
        source: "Andres Kroonmaa: Clustered Store, squid-dev, 1998",
        design: Design::Indexed(IndexedParts {
            naming: squid_lowest,
            small_objects: SmallObjects::AsFiles,
            released_files: ReleasedFilePolicy::Overwritten,
        }),
    },
    Architecture {
        name: "squidl",
        source: "Maltzahn et al. 1999, 2.4.1",
        design: Design::Indexed(IndexedParts {
            naming: squidl,
            small_objects: SmallObjects::AsFiles,
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
    Architecture {
        name: "squidm",
        source: "Maltzahn et al. 1999, 2.4.2",
        design: Design::Indexed(IndexedParts {
            naming: squid,
            small_objects: SmallObjects::Mapped(SegmentAlignment::Appended),
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
    Architecture {
        name: "squidml",
        source: "Maltzahn et al. 1999, 2.4.3",
        design: Design::Indexed(IndexedParts {
            naming: squidl,
            small_objects: SmallObjects::Mapped(SegmentAlignment::Appended),
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
    Architecture {
        name: "squidmla",
        source: "Maltzahn et al. 1999, 2.4.4",
        design: Design::Indexed(IndexedParts {
            naming: squidl,
            small_objects: SmallObjects::Mapped(SegmentAlignment::Aligned),
            released_files: ReleasedFilePolicy::Removed,
        }),
    },
];

/// Architecture of stores without a signature.
const SQUID: &str = "squid";

fn squid(naming_for: NamingFor) -> Option<Arc<dyn Naming>> {
    boxed(match naming_for {
        NamingFor::New(making) => Some(Squid::for_objects(making.max_objects)),
        NamingFor::Parameters([l1, l2, ..]) => Squid::with([l1, l2]),
    })
}

fn squid_monotonic(naming_for: NamingFor) -> Option<Arc<dyn Naming>> {
    boxed(match naming_for {
        NamingFor::New(making) => {
            Some(ClusteredNaming::monotonic(making.max_objects, making.files_per_folder))
        }
        NamingFor::Parameters(parameters) => ClusteredNaming::with(parameters, Numbers::Next),
    })
}

fn squid_lowest(naming_for: NamingFor) -> Option<Arc<dyn Naming>> {
    boxed(match naming_for {
        NamingFor::New(making) => Some(ClusteredNaming::lowest(making.max_objects, making.block_bytes)),
        NamingFor::Parameters(parameters) => ClusteredNaming::with(parameters, Numbers::Lowest),
    })
}

fn squidl(naming_for: NamingFor) -> Option<Arc<dyn Naming>> {
    boxed(match naming_for {
        NamingFor::New(making) => Some(ByHost::for_objects(making.max_objects)),
        NamingFor::Parameters(parameters) => ByHost::with(parameters),
    })
}

fn boxed(naming: Option<impl Naming + 'static>) -> Option<Arc<dyn Naming>> {
    naming.map(|naming| Arc::new(naming) as Arc<dyn Naming>)
}
