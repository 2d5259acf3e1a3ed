//! Generations of an archive: clients get a release with lists that fit it
//! ([`shoal_mirrors::generations`] decides).
//!
//! ```text
//!   InRelease ─► cache, origin ─► as published? ─► serve
//!                                   └ newer ─► fetch the lists in use, by digest ─► publish, serve
//!   a list by name ─► its digest in the release that the client has read ─► the list by digest
//! ```

use super::documents::frames;
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::clock;
use crate::message::{Reply, ReplyHead};
use crate::mirror::PromiseLookup;
use crate::request::RequestContext;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use shoal_mirrors::generations::{Generation, NamedList, Step};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Digest, Fetch, Form, Place, Promise};
use std::sync::Arc;
use std::time::Duration;

/// A request at an archive.
pub(super) struct ArchiveRequest<'a> {
    /// Cache and origins.
    pub engine: &'a Arc<CacheEngine>,
    /// Request of the client.
    pub request: &'a MirrorRequest,
}

impl ArchiveRequest<'_> {
    /// Prepares the answer to a request at an archive. Returns a reply in the place of the cache's,
    /// or changes `fetch` to the list by digest.
    pub async fn prepare(&self, fetch: &mut Fetch) -> Option<Reply> {
        let Place::Below(path) = fetch.place.clone() else { return None };
        match &fetch.class {
            Class::Document(Form::DebRelease) if !path.ends_with(".gpg") => {
                self.release(&fetch.place, &path).await
            }
            Class::Document(Form::DebPackages) | Class::File(PromiseSource::Here(_)) => {
                let client = self.request.admitted.client.address.ip();
                let list = self.request.base.mirror.generations.lock().named(&path, client)?;
                if !self.have_list(&path, &list).await {
                    return Some(self.request.refused(StatusCode::BAD_GATEWAY, MIXED));
                }
                (fetch.class, fetch.place) = by_digest(&path, &list.digest);
                None
            }
            _ => None,
        }
    }

    /// Looks whether the release that the cache has, or the origin, is the published one. Returns
    /// the published one if it is not.
    async fn release(&self, place: &Place, path: &str) -> Option<Reply> {
        let generations = &self.request.base.mirror.generations;
        if !generations.lock().knows(path) {
            // The release of before a restart: an edge may have an older one now.
            let mut ask = self.request.base.document(place, Form::DebRelease)?;
            (ask.directives.only_if_cached, ask.directives.max_stale) = (true, Some(u32::MAX));
            if let Some(stored) = self.read_release(ask).await {
                generations.lock().offer(path, &stored, clock::now());
            }
        }
        let newer = self.read_release(self.request.base.document(place, Form::DebRelease)?).await?;
        let same = generations.lock().same(path, &newer.body);
        let published = match same {
            Some(published) => published,
            None => {
                let step = generations.lock().offer(path, &newer, clock::now());
                match step {
                    Step::Serve(published) => published,
                    Step::Fetch(lists) => {
                        let are_whole = self.fetch_lists(path, &newer, lists).await;
                        generations.lock().fetched(path, &newer, are_whole, clock::now())
                    }
                }
            }
        };
        generations.lock().read_by(path, self.request.admitted.client.address.ip(), &published);
        if published.body == newer.body {
            return None;
        }
        self.engine.metrics.mirror_older_release.increment();
        let mut reply = self.request.answered(200, "text/plain", published.body.clone());
        if let ReplyHead::Built(_, fields) = &mut reply.head
            && let Some(Ok(date)) = published.last_modified.as_deref().map(HeaderValue::from_str)
        {
            fields.insert(header::LAST_MODIFIED, date);
        }
        Some(reply)
    }

    /// Reads a release document. `None` if it cannot be had, or is none.
    async fn read_release(&self, ask: RequestContext) -> Option<Arc<Generation>> {
        let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
        if reply.head.status() != StatusCode::OK {
            return None;
        }
        let fields = reply_fields(&reply.head);
        let date = fields.get(header::LAST_MODIFIED).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = Limited::new(frames(reply.body), RELEASE_BYTES_MAX).collect().await.ok()?;
        Generation::parse(body.to_bytes().to_vec(), date).map(Arc::new)
    }

    /// Fetches the lists of a newer release. Returns `true` if all are stored.
    async fn fetch_lists(&self, path: &str, newer: &Generation, lists: Vec<(String, Digest)>) -> bool {
        let folder = &path[..=path.rfind('/').unwrap_or_default()];
        for (list, digest) in lists {
            let named = NamedList { folder: folder.to_owned(), digest, by_hash: newer.by_hash };
            if !self.have_list(&format!("{folder}{list}"), &named).await {
                tracing::warn!(release = %path, list, "a newer release is not published: one of its lists does not fit it");
                return false;
            }
        }
        true
    }

    /// Fetches a list that is not stored, by digest or else by its name, and stores it under its
    /// digest. Edges of an archive may be of different ages, so that it tries again.
    async fn have_list(&self, path: &str, list: &NamedList) -> bool {
        if self.drains(path, list, (true, list.by_hash)).await {
            return true;
        }
        let generations = &self.request.base.mirror.generations;
        if generations.lock().is_missing(&list.digest, clock::now()) {
            return false;
        }
        for attempt in 0..ATTEMPTS {
            if list.by_hash && self.drains(path, list, (false, true)).await
                || self.drains(path, list, (false, false)).await
            {
                return true;
            }
            if attempt + 1 < ATTEMPTS {
                tokio::time::sleep(PAUSE).await;
            }
        }
        generations.lock().miss(&list.digest, clock::now());
        false
    }

    /// Asks for a list and reads it to its end. Returns `true` if it came whole.
    async fn drains(&self, path: &str, list: &NamedList, (only_stored, by_hash): (bool, bool)) -> bool {
        let (class, place) = by_digest(path, &list.digest);
        let fetch = Fetch { place, class, accept: None, form_asked: None };
        let method = if only_stored { Method::HEAD } else { Method::GET };
        let Some(mut ask) = self.request.base.own(&fetch, method) else { return false };
        ask.directives.only_if_cached |= only_stored;
        let Some(asked) = &ask.mirror else { return false };
        let promise =
            Promise { digest: Some(list.digest.clone()), size: None, published: None, is_withdrawn: false };
        let named = (!by_hash).then(|| Place::Below(path.to_owned()));
        let _ = asked.promised.set(PromiseLookup { promise: Some(promise), place: named });
        let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
        if reply.head.status() != StatusCode::OK {
            return false;
        }
        let mut body = frames(reply.body);
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    }
}

/// Returns class and place of a list by its digest, beside its name.
fn by_digest(path: &str, digest: &Digest) -> (Class, Place) {
    let folder = &path[..=path.rfind('/').unwrap_or_default()];
    let place = Place::Below(format!("{folder}by-hash/SHA256/{}", digest.hex()));
    (Class::File(PromiseSource::Here(digest.clone())), place)
}

/// Most bytes of a release document.
const RELEASE_BYTES_MAX: usize = 4 << 20;
/// Tries for a list.
const ATTEMPTS: u32 = 3;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(300);

const MIXED: &str = "The archive has no list of this name that fits the release which the client has read.";
