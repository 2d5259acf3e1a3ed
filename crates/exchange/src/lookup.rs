//! Finding the stored response for a request: primary key, variant, parts.

use super::cache::Cache;
use super::coding::FormChoice;
use super::hybrid_cache::{CachedBody, CachedObject};
use super::metadata::{ObjectMetadata, PartsMarker, ResponseMetadata, VaryMarker};
use super::request::RequestContext;
use super::variant::variant_key;
use shoal_cache::io_pool::Urgency;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// Result of a lookup.
pub enum Lookup {
    /// A stored response that the request selects.
    Response {
        /// Key of the response.
        key: ObjectKey,
        /// The response.
        stored: StoredResponse,
    },
    /// Parts of the representation that the request selects.
    Parts {
        /// Key of their note.
        key: ObjectKey,
        /// Note of the stored parts.
        note: Arc<PartsMarker>,
    },
    /// No response.
    Absent {
        /// Key under which a response would have been found.
        key: ObjectKey,
        /// `true` if the URL is known and only the variant is missing (`vary-miss`).
        variants: bool,
    },
}

/// A stored response with its body.
#[derive(Clone)]
pub struct StoredResponse {
    /// Head of the response.
    pub head: Arc<ResponseMetadata>,
    /// Body of the response.
    pub body: CachedBody,
    /// `true` if the response came from RAM.
    pub in_memory: bool,
    /// Form of the body; `None` if all clients get the same.
    pub choice: Option<FormChoice>,
}

impl Cache {
    /// Looks up the response that `ask` selects. Purged responses are not found.
    pub(super) async fn lookup(&self, ask: &RequestContext) -> Lookup {
        match self.find_with(ask, &ask.primary, urgency_of(ask)).await {
            Some(CachedObject { record: ObjectMetadata::Vary(note), .. }) => {
                Box::pin(self.lookup_variant(ask, &note)).await
            }
            found => to_lookup(ask.primary.clone(), found, false),
        }
    }

    /// Tries the lists of nominated fields, the latest first, and takes the most recent response
    /// (RFC 9111, section 4: "the most recent one (as determined by the Date header field)").
    async fn lookup_variant(&self, ask: &RequestContext, note: &VaryMarker) -> Lookup {
        let keys = variant_keys(ask, note);
        let mut best: Option<Lookup> = None;
        for key in &keys {
            let found = self.find_with(ask, key, urgency_of(ask)).await;
            let lookup = to_lookup(key.clone(), found, true);
            if recency(&lookup) > best.as_ref().and_then(recency) {
                best = Some(lookup);
            }
        }
        let first = keys.into_iter().next().unwrap_or_else(|| ask.primary.clone());
        best.unwrap_or(Lookup::Absent { key: first, variants: true })
    }

    /// Returns `true` if RAM now holds another response under the key than the lookup found. A
    /// fetch may have ended between the lookup and the moment when this request became the next
    /// leader.
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

    /// Finds a record that may serve `ask`. A client may wait for it.
    pub(super) async fn find_for(&self, ask: &RequestContext, key: &ObjectKey) -> Option<CachedObject> {
        self.find_with(ask, key, Urgency::Demand).await
    }

    async fn find_with(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        urgency: Urgency,
    ) -> Option<CachedObject> {
        let found = self.find_unpurged((key, urgency), &ask.primary).await?;
        is_of_mode(ask, &found.record).then_some(found)
    }

    /// Finds a record of the URL `primary` that has not been purged. A client may wait for it.
    pub(super) async fn find(&self, key: &ObjectKey, primary: &ObjectKey) -> Option<CachedObject> {
        self.find_unpurged((key, Urgency::Demand), primary).await
    }

    async fn find_unpurged(
        &self,
        (key, urgency): (&ObjectKey, Urgency),
        primary: &ObjectKey,
    ) -> Option<CachedObject> {
        let found = self.objects.find((key, urgency), || self.invalidations.snapshot(primary)).await?;
        let purged = found.record.head().filter(|head| self.is_purged(head));
        if let Some(head) = purged {
            if self.purge_table.needs_validation(head.requested) {
                return self.unsure(found);
            }
            // For a response of an unknown era, the purge table may be absent for a while.
            if self.purge_table.knows(head.requested) {
                Box::pin(self.objects.remove(key)).await;
            }
            return None;
        }
        Some(found)
    }

    /// Returns a response that may have been purged unnoticed as one that must be validated. Parts
    /// are asked for anew.
    fn unsure(&self, found: CachedObject) -> Option<CachedObject> {
        let ObjectMetadata::Response(head) = &found.record else { return None };
        if self.purge_table.is_removed(&head.names.slots, &head.names.groups, head.requested) {
            return None;
        }
        let record = ObjectMetadata::Response(Arc::new(head.invalidated()));
        Some(CachedObject { record, ..found })
    }

    /// Returns `true` if the response has been purged.
    pub(super) fn is_purged(&self, head: &ResponseMetadata) -> bool {
        self.purge_table.is_purged(&head.names.slots, &head.names.groups, head.requested)
    }
}

/// Returns the urgency of a lookup: a prefetch leaves disks and other nodes to clients. Its lookup
/// comes before its flight, so that no client waits for it.
fn urgency_of(ask: &RequestContext) -> Urgency {
    match &ask.background {
        Some(background) if background.is_unwanted() => Urgency::Ahead,
        _ => Urgency::Demand,
    }
}

/// Returns the keys of the variants that the request selects, one for each list of nominated
/// fields.
pub(super) fn variant_keys(ask: &RequestContext, note: &VaryMarker) -> Vec<ObjectKey> {
    let key = |names: &Vec<_>| variant_key(&ask.primary, note.generation, &ask.selecting(names));
    note.lists.iter().map(key).collect()
}

/// Returns `true` if the record was stored by requests of the same mode.
pub(super) fn is_of_mode(ask: &RequestContext, record: &ObjectMetadata) -> bool {
    record.head().is_none_or(|head| head.names.via_site == ask.site.is_some())
}

fn to_lookup(key: ObjectKey, found: Option<CachedObject>, variants: bool) -> Lookup {
    match found {
        Some(CachedObject { record: ObjectMetadata::Response(head), body, in_memory }) => {
            Lookup::Response { key, stored: StoredResponse { head, body, in_memory, choice: None } }
        }
        Some(CachedObject { record: ObjectMetadata::Parts(note), .. }) => Lookup::Parts { key, note },
        Some(CachedObject { record: ObjectMetadata::Vary(_), .. }) | None => Lookup::Absent { key, variants },
    }
}

/// Returns the date by which the most recent response is chosen.
fn recency(lookup: &Lookup) -> Option<u64> {
    match lookup {
        Lookup::Response { stored, .. } => Some(stored.head.policy.date().unwrap_or(0)),
        Lookup::Parts { note, .. } => Some(note.head.policy.date().unwrap_or(0)),
        Lookup::Absent { .. } => None,
    }
}
