//! Fetches that nobody waits for: few of one origin may go on, to fill the cache; the others end.
//!
//! Clients may ask and leave at any rate, and each fetch holds one of its origin's connections. A
//! fetch whose owner has left and which nobody follows needs a [`Leave`] to go on, before its
//! response's head has come and while its body arrives. Validations in the background, whose
//! clients were answered with what is stored, need one from the start.

use super::request::RequestContext;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The fetches that nobody waits for, by origin. An entry is there as long as its fetches are.
pub struct Abandoned {
    going_on: Mutex<HashMap<Place, usize>>,
    max: usize,
}

/// The right of one fetch to go on for nobody.
pub struct Leave {
    abandoned: Arc<Abandoned>,
    place: Place,
}

/// Who is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// A site's upstreams, by the address of what describes them, which a fetch holds.
    Site(usize),
    /// An origin that a client named: scheme and authority.
    Origin(bool, Box<str>),
}

impl Abandoned {
    /// So many of one origin may go on as are a quarter of its connections.
    pub fn new(connections_per_origin: usize) -> Arc<Self> {
        Arc::new(Self { going_on: Mutex::default(), max: (connections_per_origin / SHARE).max(1) })
    }

    /// The right to go on with the fetch for `ask`, unless too many of its origin do.
    pub fn begin(self: &Arc<Self>, ask: &RequestContext) -> Option<Leave> {
        let place = match &ask.site {
            Some(site) => Place::Site(Arc::as_ptr(&site.group).addr()),
            None => Place::Origin(ask.target.https, ask.target.authority().into()),
        };
        let mut going_on = self.going_on.lock();
        let count = going_on.entry(place.clone()).or_default();
        if *count >= self.max {
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

/// One of so many connections to an origin may be held by a fetch that nobody waits for.
const SHARE: usize = 4;
