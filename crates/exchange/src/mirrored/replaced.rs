//! Files that a registry has replaced under their names: a newer index promises another digest than
//! the stored file has, so that the stored file is dropped.
//!
//! ```text
//!   hit ─► compared with this version of its index? ─┬─ yes ─► serve
//!                                                    └─ no ──► read the stored index
//!            the index is newer than the file, and has another digest ─► drop, fetch anew
//! ```
//!
//! A stored file has its digest in Repr-Digest (RFC 9530). Each file is compared once with each
//! version of its index: a document that comes ends earlier comparisons with it.

use super::packages::PackageSearch;
use super::places::MirrorBase;
use super::shortcuts::Shortcuts;
use crate::CacheEngine;
use crate::cache::Cache;
use crate::lookup::Lookup;
use crate::metadata::ResponseMetadata;
use crate::mirror::read_digests;
use crate::request::RequestContext;
use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use shoal_mirrors::{Class, Digest};
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Files that were compared with their indexes, and the shortcuts to them.
#[derive(Default)]
pub(crate) struct PromisedFiles {
    /// Shortcuts to answers in RAM.
    pub(super) shortcuts: Shortcuts,
    /// By document: keys of the files that agree with it.
    confirmed: Mutex<HashMap<Key, HashSet<Key>>>,
    /// Number of documents that came.
    changes: AtomicU64,
}

impl PromisedFiles {
    /// Takes the end of a fetch: a document that came may promise other files than before.
    pub fn came(&self, ask: &RequestContext) {
        let Some(asked) = ask.mirror.as_ref().filter(|it| matches!(it.class, Some(Class::Document(_))))
        else {
            return;
        };
        self.changed(asked.document_key(&asked.place));
    }

    /// Ends earlier comparisons with a document.
    pub(super) fn changed(&self, document: Key) {
        self.changes.fetch_add(1, SeqCst);
        self.confirmed.lock().remove(&document);
        self.shortcuts.forget_promised(document);
    }

    /// Returns `true` if the file agrees with its indexes, as far as they are known.
    pub fn is_confirmed(&self, ask: &RequestContext) -> bool {
        let Some(asked) = &ask.mirror else { return true };
        let (documents, file) = (asked.document_keys(), ask.primary.hash());
        let confirmed = self.confirmed.lock();
        documents.iter().all(|document| confirmed.get(document).is_some_and(|files| files.contains(&file)))
    }

    /// Remembers that the file agrees with its indexes, unless a document has come since `changes`.
    fn confirm(&self, ask: &RequestContext, changes: u64) {
        let Some(asked) = &ask.mirror else { return };
        let mut confirmed = self.confirmed.lock();
        if self.changes.load(SeqCst) != changes {
            return;
        }
        if confirmed.values().map(HashSet::len).sum::<usize>() >= FILES_MAX {
            confirmed.clear();
        }
        for document in asked.document_keys() {
            confirmed.entry(document).or_default().insert(ask.primary.hash());
        }
        debug_assert!(confirmed.len() <= FILES_MAX, "the table is bounded");
    }
}

impl CacheEngine {
    /// Drops a stored file if its index promises another digest by now. Returns `true` if it is
    /// dropped.
    ///
    /// Boxed: a document is served by the steps that ask for it.
    pub(crate) fn drop_replaced<'a>(
        self: &'a Arc<Self>,
        ask: &'a RequestContext,
        (key, head): (&'a ObjectKey, &'a ResponseMetadata),
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            let promised = &self.cache.promised;
            let changes = promised.changes.load(SeqCst);
            if !self.is_replaced(ask, head).await {
                promised.confirm(ask, changes);
                return false;
            }
            tracing::warn!(url = %ask.target.url, "the index promises another file under this name: the stored one is dropped");
            self.metrics.mirror_replaced.increment();
            self.cache.objects.remove(key).await;
            true
        })
    }

    async fn is_replaced(self: &Arc<Self>, ask: &RequestContext, head: &ResponseMetadata) -> bool {
        let own = read_digests(&*head.stored);
        let (Some(asked), Some(base)) = (&ask.mirror, MirrorBase::of(ask)) else { return false };
        if own.is_empty() {
            return false;
        }
        if asked.is_listed() {
            let listed = PackageSearch { engine: self, base: &base }.find(&asked.place).await;
            return listed.and_then(|promise| promise.digest).is_some_and(|digest| differs(&own, &digest));
        }
        for (place, form) in asked.documents() {
            let Some(mut document) = base.document(&place, form) else { continue };
            (document.directives.only_if_cached, document.directives.max_stale) = (true, Some(u32::MAX));
            // The file was checked against an index that was no older than this one.
            let is_newer = match self.cache.lookup(&document).await {
                Lookup::Response { stored, .. } => {
                    stored.head.policy.response_time() >= head.policy.response_time()
                }
                Lookup::Parts { .. } | Lookup::Absent { .. } => false,
            };
            if is_newer
                && let Ok(Some(found)) = self.promise_in(ask, (document, form)).await
                && let Some(digest) = found.promise.and_then(|promise| promise.digest)
            {
                return differs(&own, &digest);
            }
        }
        false
    }
}

impl Cache {
    /// Returns `true` if a stored file is to be compared with its index.
    pub(crate) fn is_unconfirmed(&self, ask: &RequestContext) -> bool {
        let is_file = ask.mirror.as_ref().is_some_and(|asked| asked.has_index());
        is_file && !ask.directives.only_if_cached && !self.promised.is_confirmed(ask)
    }
}

/// Returns `true` if one of the digests is of the same function, and another one.
fn differs(own: &[Digest], promised: &Digest) -> bool {
    let same = own.iter().filter(|digest| digest.algorithm() == promised.algorithm());
    let mut compared = same.map(|digest| digest != promised);
    compared.next().is_some_and(|differs| differs)
}

/// Most files that are remembered as compared, about 50 bytes each; the next one makes a node
/// forget all.
const FILES_MAX: usize = 65_536;
