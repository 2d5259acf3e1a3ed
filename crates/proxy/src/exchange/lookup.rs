//! Finding the stored response for a request: primary key, variant, parts.

use super::cache::Cache;
use super::hybrid_cache::{CachedBody, CachedObject};
use super::metadata::{ObjectMetadata, PartsMarker, ResponseMetadata, VaryMarker};
use super::request::RequestContext;
use super::variant::variant_key;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// What was found.
pub enum Lookup {
    /// A stored response that the request selects.
    Response {
        /// Its key.
        key: ObjectKey,
        /// The response.
        stored: StoredResponse,
    },
    /// Parts of the representation that the request selects.
    Parts {
        /// The key of their note.
        key: ObjectKey,
        /// What there is.
        note: Arc<PartsMarker>,
    },
    /// Nothing. `variants` tells whether other variants are stored.
    Absent {
        /// The key under which a response would have been found.
        key: ObjectKey,
        /// Whether the URL is known and only the variant is not (`vary-miss`).
        variants: bool,
    },
}

/// A stored response at hand.
#[derive(Clone)]
pub struct StoredResponse {
    /// Its head.
    pub head: Arc<ResponseMetadata>,
    /// Its body.
    pub body: CachedBody,
    /// Whether it came from RAM.
    pub in_memory: bool,
}

impl Cache {
    /// Looks for the response that `ask` selects. What was purged is not found.
    pub(super) async fn lookup(&self, ask: &RequestContext) -> Lookup {
        match self.find_for(ask, &ask.primary).await {
            Some(CachedObject { record: ObjectMetadata::Vary(note), .. }) => {
                Box::pin(self.lookup_variant(ask, &note)).await
            }
            found => to_lookup(ask.primary.clone(), found, false),
        }
    }

    /// Tries the lists of nominated fields, the latest first, and takes the most recent response
    /// (RFC 9111, section 4: "the most recent one (as determined by the Date header field)").
    async fn lookup_variant(&self, ask: &RequestContext, note: &VaryMarker) -> Lookup {
        let keys =
            note.lists.iter().map(|names| variant_key(&ask.primary, note.generation, &ask.selecting(names)));
        let keys: Vec<ObjectKey> = keys.collect();
        let mut best: Option<Lookup> = None;
        for key in &keys {
            let found = self.find_for(ask, key).await;
            let lookup = to_lookup(key.clone(), found, true);
            if recency(&lookup) > best.as_ref().and_then(recency) {
                best = Some(lookup);
            }
        }
        let first = keys.into_iter().next().unwrap_or_else(|| ask.primary.clone());
        best.unwrap_or(Lookup::Absent { key: first, variants: true })
    }

    /// Whether another response than the one that a lookup found stands in RAM under the key by
    /// now: a fetch has ended between the lookup and the moment when this request became the leader
    /// of the next.
    pub(super) fn has_come_since(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        found: Option<&StoredResponse>,
    ) -> bool {
        let Some(ObjectMetadata::Response(head)) = self.objects.record_in_memory(key) else { return false };
        head.names.via_site == ask.site.is_some()
            && found.is_none_or(|found| found.head.identity != head.identity)
            && !self.purge_table.is_purged(&head.names.slots, &head.names.groups, head.requested)
    }

    /// Finds a record that may serve `ask`.
    pub(super) async fn find_for(&self, ask: &RequestContext, key: &ObjectKey) -> Option<CachedObject> {
        let via_site = ask.site.is_some();
        let found = self.find(key, &ask.primary).await?;
        found.record.head().is_none_or(|head| head.names.via_site == via_site).then_some(found)
    }

    /// Finds a record of the URL `primary` that has not been purged.
    pub(super) async fn find(&self, key: &ObjectKey, primary: &ObjectKey) -> Option<CachedObject> {
        let found = self.objects.find(key, || self.invalidations.snapshot(primary)).await?;
        let is_purged = |head: &Arc<ResponseMetadata>| {
            self.purge_table.is_purged(&head.names.slots, &head.names.groups, head.requested)
        };
        let purged = found.record.head().filter(|head| is_purged(head));
        if let Some(head) = purged {
            // Of what no known era has the table may be away for a while.
            if self.purge_table.knows(head.requested) {
                Box::pin(self.objects.remove(key)).await;
            }
            return None;
        }
        Some(found)
    }
}

fn to_lookup(key: ObjectKey, found: Option<CachedObject>, variants: bool) -> Lookup {
    match found {
        Some(CachedObject { record: ObjectMetadata::Response(head), body, in_memory }) => {
            Lookup::Response { key, stored: StoredResponse { head, body, in_memory } }
        }
        Some(CachedObject { record: ObjectMetadata::Parts(note), .. }) => Lookup::Parts { key, note },
        Some(CachedObject { record: ObjectMetadata::Vary(_), .. }) | None => Lookup::Absent { key, variants },
    }
}

/// The date by which the most recent response is chosen.
fn recency(lookup: &Lookup) -> Option<u64> {
    match lookup {
        Lookup::Response { stored, .. } => Some(stored.head.policy.date().unwrap_or(0)),
        Lookup::Parts { note, .. } => Some(note.head.policy.date().unwrap_or(0)),
        Lookup::Absent { .. } => None,
    }
}
