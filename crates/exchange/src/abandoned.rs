//! Fetches without a waiting client: a few per origin may continue, to fill the cache; the others
//! end.
//!
//! Clients may ask and leave at any rate, and each fetch holds one of its origin's connections. A
//! fetch without owner and followers needs a [`Leave`] to continue. This holds both before the
//! response's head arrives and while its body arrives. A background validation, which has already
//! answered its client from the store, needs a `Leave` from the start.

use super::request::RequestContext;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The fetches without a waiting client, by origin. An entry exists as long as its fetches.
pub struct OrphanFetches {
    going_on: Mutex<HashMap<Place, usize>>,
    max: usize,
}

/// The right of one fetch to continue without a waiting client.
pub struct Leave {
    abandoned: Arc<OrphanFetches>,
    place: Place,
}

/// Target of the fetch.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// A site's upstreams, by the address of their group, which the fetch holds.
    Site(usize),
    /// An origin that a client named: scheme and authority.
    Origin(bool, Box<str>),
}

impl OrphanFetches {
    /// Creates the table. A quarter of an origin's connections may be used by such fetches, and a
    /// quarter of a site's `concurrency`.
    pub fn new(connections_per_origin: usize) -> Arc<Self> {
        Arc::new(Self { going_on: Mutex::default(), max: (connections_per_origin / SHARE).max(1) })
    }

    /// Returns the right to continue with the fetch for `ask`, unless too many of its origin's
    /// fetches have one.
    pub fn begin(self: &Arc<Self>, ask: &RequestContext) -> Option<Leave> {
        if ask.background.as_ref().is_some_and(|background| background.is_unwanted()) {
            return None;
        }
        let place = match &ask.site {
            Some(site) => Place::Site(Arc::as_ptr(&site.group).addr()),
            None => Place::Origin(ask.target.https, ask.target.authority().into()),
        };
        let of_site = ask.site.as_ref().and_then(|site| site.group.concurrency());
        let max = of_site.map_or(self.max, |turns| (turns / SHARE).clamp(1, self.max));
        let mut going_on = self.going_on.lock();
        let count = going_on.entry(place.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Leave { abandoned: Arc::clone(self), place })
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut going_on = self.abandoned.going_on.lock();
        let count = going_on.get_mut(&self.place).expect("a fetch that goes on is counted");
        *count -= 1;
        if *count == 0 {
            going_on.remove(&self.place);
        }
    }
}

/// Divisor: fetches without a waiting client may hold this part of an origin's connections.
const SHARE: usize = 4;
