//! Digests of an archive's packages: from the package lists of its published releases.
//!
//! ```text
//!   pool/…/a_1_amd64.deb ─► stored lists ─► index of each list, made once ─► SHA-256, size
//! ```
//!
//! No list is fetched for it: apt has fetched those that it reads before it asks for a package. A
//! package that no stored list names is not checked.

use super::documents::frames;
use super::places::MirrorBase;
use crate::CacheEngine;
use crate::clock;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use shoal_mirrors::package_list::PackageList;
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Digest, Fetch, Place, Promise};
use std::sync::Arc;

/// Searches for the promise about one package of an archive.
pub(super) struct PackageSearch<'a> {
    /// Cache and origins.
    pub engine: &'a Arc<CacheEngine>,
    /// Facts of the client's request.
    pub base: &'a MirrorBase,
}

impl PackageSearch<'_> {
    /// Returns the promise about the package at this place, if a stored list has it.
    pub async fn find(&self, place: &Place) -> Option<Promise> {
        let Place::Below(path) = place else { return None };
        let lists = self.base.mirror.generations.lock().package_lists();
        for (list, digest) in lists {
            if let Some(index) = self.index(&list, &digest).await
                && let Some((digest, size)) = index.promise(path)
            {
                return Some(Promise { digest: Some(digest), size: Some(size), ..Promise::default() });
            }
        }
        None
    }

    /// Returns the index of a list, which is made if the list is stored.
    async fn index(&self, list: &str, digest: &Digest) -> Option<Arc<PackageList>> {
        // One request makes an index, and others wait for it.
        let mut indexes = self.base.mirror.package_lists.lock().await;
        let now = clock::now();
        if let Some(known) = indexes.of(digest, now) {
            return known;
        }
        let index = self.read(list, digest).await.map(Arc::new);
        indexes.keep(digest, index.clone(), now);
        index
    }

    async fn read(&self, list: &str, digest: &Digest) -> Option<PackageList> {
        debug_assert!(list.starts_with('/'), "a path below the archive");
        let folder = &list[..=list.rfind('/')?];
        let place = Place::Below(format!("{folder}by-hash/SHA256/{}", digest.hex()));
        let class = Class::File(PromiseSource::Here(digest.clone()));
        let fetch = Fetch { place, class, accept: None, form_asked: None };
        let mut ask = self.base.own(&fetch, Method::GET)?;
        ask.directives.only_if_cached = true;
        let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
        if reply.head.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(frames(reply.body), LIST_BYTES_MAX).collect().await.ok()?.to_bytes();
        let list = list.to_owned();
        let read = tokio::task::spawn_blocking(move || PackageList::read(&list, &body)).await.ok()?;
        if read.is_none() {
            tracing::warn!("a package list of an archive cannot be read: its packages are not checked");
        }
        read
    }
}

/// Most bytes of a list as it is stored.
const LIST_BYTES_MAX: usize = 128 << 20;
