//! Objects of mirrors in the stores of a node, for tools that inspect the stores from outside.
//!
//! A key names the place at the registry, so that the mirror follows from the URL: by the
//! registry's own URL, or by a host of its files. Several mirrors of one registry share their
//! objects; the first one counts them.

mod verify;

pub use verify::{HeldFinding, VerifyCounts, verify_held};

use super::{MirrorRoute, Mirrors};
use crate::metadata::ObjectMetadata;
use http::StatusCode;
use shoal_mirrors::{Class, Fetch, Question, Route};
use shoal_store::inspect::Inspect;
use std::sync::Arc;

/// Objects of one mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts {
    /// Name of the mirror.
    pub mirror: String,
    /// Index documents.
    pub documents: u64,
    /// Files.
    pub files: u64,
    /// Bytes of all bodies.
    pub body_bytes: u64,
}

/// An object of a mirror.
struct MirrorObject<'a> {
    /// The mirror.
    mirror: &'a Arc<MirrorRoute>,
    /// URL at the registry.
    url: &'a str,
    /// Full key of the object.
    key: &'a [u8],
    /// Place and class of the object.
    fetch: Fetch,
    body_bytes: u64,
}

/// Counts the objects that the stores hold, in the order of the mirrors. Reads all written data.
///
/// # Errors
/// If a store cannot be read.
pub fn count_held(mirrors: &Mirrors, stores: &[&dyn Inspect]) -> Result<Vec<HeldCounts>, shoal_store::Error> {
    let name = |mirror: &Arc<MirrorRoute>| mirror.settings.name().to_owned();
    let mut counts: Vec<HeldCounts> = mirrors
        .all()
        .iter()
        .map(|mirror| HeldCounts { mirror: name(mirror), ..HeldCounts::default() })
        .collect();
    for store in stores {
        each_held(mirrors, *store, &mut |held| {
            let Some(row) = counts.get_mut(held.mirror.site - mirrors.first_site) else { return };
            match held.fetch.class {
                Class::Document(_) => row.documents += 1,
                Class::File(_) => row.files += 1,
            }
            row.body_bytes += held.body_bytes;
        })?;
    }
    Ok(counts)
}

/// Shows each response 200 of a mirror in a store.
fn each_held(
    mirrors: &Mirrors,
    store: &dyn Inspect,
    visit: &mut dyn FnMut(MirrorObject<'_>),
) -> Result<(), shoal_store::Error> {
    store.list(false, &mut |listed| {
        let end = listed.key.iter().position(|byte| *byte == 0).unwrap_or(listed.key.len());
        let url = std::str::from_utf8(&listed.key[..end]);
        if let (Ok(url), Some(ObjectMetadata::Response(head))) =
            (url, ObjectMetadata::decode(listed.metadata))
            && head.names.via_site
            && head.stored.status() == StatusCode::OK
            && let Some((mirror, fetch)) = mirrors.of_stored(url)
        {
            let (key, body_bytes) = (listed.key, listed.body_bytes);
            visit(MirrorObject { mirror, url, key, fetch, body_bytes });
        }
        true
    })
}

impl Mirrors {
    /// Returns the mirror to which an object of this URL belongs, and the object's meaning.
    fn of_stored(&self, url: &str) -> Option<(&Arc<MirrorRoute>, Fetch)> {
        let (mirror, below) = self.of_object(url)?;
        let below = mirror.registry.path_of_shared(&below).unwrap_or(below);
        let (path, query) = match below.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&*below, None),
        };
        let question = Question { method: "GET", path, query, field: &|_| None };
        match mirror.registry.route(&mirror.as_registry(), &question) {
            Route::Fetch(fetch) => Some((mirror, fetch)),
            _ => None,
        }
    }

    /// Returns the mirror to which a URL of a registry belongs, and the URL's path below the
    /// mirror. The registry's URL is the beginning of its objects' URLs; of several, the longest
    /// counts. Other URLs belong to a mirror with documents that name such files.
    pub fn of_object(&self, url: &str) -> Option<(&Arc<MirrorRoute>, String)> {
        let (scheme, rest) = url.split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let below = self.all.iter().filter_map(|mirror| {
            let rest = mirror.below_upstream(scheme, host, path)?;
            Some((mirror, rest))
        });
        // `max_by_key` takes the last of equals.
        let registry = below.rev().max_by_key(|(mirror, _)| mirror.settings.upstream().len());
        if let Some((mirror, rest)) = registry {
            return Some((mirror, mirror.registry.path_of_place(&mirror.as_registry(), &rest)));
        }
        let of_file = |mirror: &MirrorRoute| mirror.registry.path_of_file(&mirror.as_registry(), url);
        let by_host = self.all.iter().filter(|mirror| mirror.may_keep_files(scheme, host));
        by_host.chain(&self.all).find_map(|mirror| Some((mirror, of_file(mirror)?)))
    }
}
