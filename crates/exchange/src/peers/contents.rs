//! Contents of this node, for its digest.

use crate::CacheEngine;
use crate::cluster::digests::{DigestSource, HoldsKey};
use crate::hybrid_cache::{ContentNote, ContentNotes};
use std::sync::Weak;

/// RAM and disk of this node.
pub struct EngineContents(pub Weak<CacheEngine>);

impl DigestSource for EngineContents {
    fn with_notes(&self, work: &mut dyn FnMut(&ContentNotes)) {
        if let Some(engine) = self.0.upgrade() {
            work(engine.cache.objects.contents());
        }
    }

    fn look(&self, limit: usize) -> Vec<ContentNote> {
        self.0
            .upgrade()
            .map_or(Vec::new(), |engine| engine.cache.objects.look_at_memory(limit, ContentNote::of).0)
    }

    fn judge(&self, work: &mut dyn FnMut(&HoldsKey<'_>)) {
        if let Some(engine) = self.0.upgrade() {
            work(&|hash| engine.cache.objects.holds_hash(hash));
        }
    }
}
