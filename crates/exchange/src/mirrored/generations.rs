//! Generations of an archive: clients get a release with lists that fit it
//! ([`shoal_mirrors::generations`] decides).
//!
//! ```text
//!   InRelease ─► cache, origin ─► as published? ─► serve
//!                                   └ newer ─► fetch the lists in use, by digest ─► publish, serve
//!   a list by name ─► its digest in the release that the client has read ─► the list by digest
//! ```

use super::documents::frames;
use super::shortcuts::{in_memory, is_head_of};
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::clock;
use crate::message::{Reply, ReplyHead};
use crate::mirror::PromiseLookup;
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
                let client = (!self.request.is_own).then_some(client);
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
            let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
            if let Some(stored) = read_release(reply).await {
                generations.lock().offer(path, &stored, clock::now());
            }
        }
        let ask = Arc::new(self.request.base.document(place, Form::DebRelease)?);
        let reply = Box::pin(self.engine.serve(&ask)).await;
        let number = in_memory(&self.engine.cache, &ask)
            .filter(|(_, head)| is_head_of(&reply, head))
            .map(|(_, head)| head.identity.response());
        // The very response that was published is not read again.
        let published = number.and_then(|number| generations.lock().published_as(path, number));
        if let Some(published) = published {
            self.note_reader(path, &published);
            return None;
        }
        self.engine.metrics.mirror_release_read.increment();
        let newer = read_release(reply).await?;
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
        if let Some(asked) = &ask.mirror {
            self.engine.cache.promised.changed(asked.releases_key());
        }
        debug_assert!(!published.body.is_empty(), "a release has bytes");
        self.note_reader(path, &published);
        if published.body == newer.body {
            generations.lock().note_number(path, &published, number);
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

    /// Remembers the generation that the client reads. This node itself is no client.
    fn note_reader(&self, path: &str, published: &Arc<Generation>) {
        if !self.request.is_own {
            let client = self.request.admitted.client.address.ip();
            self.request.base.mirror.generations.lock().read_by(path, client, published);
        }
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
        let mut outcome = self.drain(path, list, (ListSource::Stored, false)).await;
        if outcome == ListOutcome::Whole {
            return true;
        }
        let generations = &self.request.base.mirror.generations;
        if generations.lock().is_missing(&list.digest, clock::now()) {
            return false;
        }
        for attempt in 0..ATTEMPTS {
            for source in [ListSource::ByHash, ListSource::ByName] {
                let is_there = list.by_hash || source == ListSource::ByName;
                if is_there && outcome != ListOutcome::Whole {
                    outcome = self.drain(path, list, (source, outcome == ListOutcome::Absent)).await;
                }
            }
            if outcome == ListOutcome::Whole {
                return true;
            }
            if attempt + 1 < ATTEMPTS {
                tokio::time::sleep(PAUSE).await;
            }
        }
        generations.lock().miss(&list.digest, clock::now());
        false
    }

    /// Asks for a list and reads it to its end. With `anew`, stored absence does not count: it is
    /// that of the digest, and the name may be there.
    async fn drain(&self, path: &str, list: &NamedList, (source, anew): (ListSource, bool)) -> ListOutcome {
        let (class, place) = by_digest(path, &list.digest);
        let fetch = Fetch { place, class, accept: None, form_asked: None };
        let only_stored = source == ListSource::Stored;
        let method = if only_stored { Method::HEAD } else { Method::GET };
        let Some(mut ask) = self.request.base.own(&fetch, method) else { return ListOutcome::Failed };
        ask.directives.only_if_cached |= only_stored;
        ask.directives.no_cache |= anew;
        let Some(asked) = &ask.mirror else { return ListOutcome::Failed };
        let promise =
            Promise { digest: Some(list.digest.clone()), size: None, published: None, is_withdrawn: false };
        let has_digest = source == ListSource::ByHash || only_stored && list.by_hash;
        let named = (!has_digest).then(|| Place::Below(path.to_owned()));
        let _ = asked.promised.set(PromiseLookup { promise: Some(promise), place: named, sum: None });
        let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
        match reply.head.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return ListOutcome::Absent,
            _ => return ListOutcome::Failed,
        }
        let mut body = frames(reply.body);
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return ListOutcome::Failed;
            }
        }
        ListOutcome::Whole
    }
}

/// Source of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListSource {
    /// The cache alone.
    Stored,
    /// Place by digest.
    ByHash,
    /// Place by name.
    ByName,
}

/// Outcome of a request for a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListOutcome {
    /// The list came whole.
    Whole,
    /// The archive does not have it there.
    Absent,
    /// The list did not come.
    Failed,
}

/// Reads a release document. `None` if the reply has none.
async fn read_release(reply: Reply) -> Option<Arc<Generation>> {
    if reply.head.status() != StatusCode::OK {
        return None;
    }
    let fields = reply_fields(&reply.head);
    let date = fields.get(header::LAST_MODIFIED).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = Limited::new(frames(reply.body), RELEASE_BYTES_MAX).collect().await.ok()?;
    Generation::parse(body.to_bytes().to_vec(), date).map(Arc::new)
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
