//! The cache, as the driver of neighbours sees it.

use super::SeenObject;
use shoal_core::ObjectKey;
use std::pin::Pin;

/// Objects of this node, about which neighbours ask.
pub trait LocalObjects: Send + Sync {
    /// Returns `true` if RAM holds a response that answers a plain GET of `url`, and `false` if
    /// nothing does; `None` if the disk must be asked. Counts and promotes nothing.
    fn holds_in_memory(&self, url: &str, sites: bool) -> Option<bool>;

    /// Returns `true` if RAM or disk holds a response that answers a plain GET of `url`.
    fn holds_on_disk<'a>(&'a self, url: &'a str, sites: bool) -> Look<'a, bool>;

    /// Returns `true` if RAM or the disk's index has the object.
    fn holds(&self, key: &ObjectKey) -> bool;

    /// Returns the objects in RAM that answer plain GETs, at most `limit`.
    fn plain_objects_in_memory(&self, limit: usize, sites: bool) -> Vec<(ObjectKey, SeenObject)>;

    /// Removes a URL for a neighbour. Neighbours are not told in turn, so that no order goes in
    /// circles.
    fn clear<'a>(&'a self, url: &'a str) -> Look<'a, ClearOutcome>;
}

/// Result of a call that may wait for the disk.
pub type Look<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Outcome of a removal that a neighbour asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearOutcome {
    /// Responses were removed.
    Gone,
    /// None was stored.
    NotHeld,
    /// The removal failed.
    Kept,
}
