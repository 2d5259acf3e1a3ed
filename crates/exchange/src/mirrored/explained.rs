//! A request at a mirror, explained without an effect: its place, its promise as far as stored
//! documents tell, and the stored body compared with it. Nothing is fetched.

use super::documents::frames;
use super::places::MirrorBase;
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::explain::{MirrorView, PromiseView};
use crate::mirror::{BodyCheck, PromiseLookup};
use crate::purge_table::Sequence;
use crate::request::{AdmittedRequest, RequestContext};
use http::StatusCode;
use http_body_util::BodyExt;
use shoal_core::Timestamp;
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Digest, Fetch, Form, Place, Promise, Route};
use std::sync::Arc;

/// A request at a mirror.
pub(crate) struct ExplainedMirror {
    /// Meaning of the request at the registry.
    pub view: MirrorView,
    /// The request for the cache; `None` if the cache has no part in the answer.
    pub ask: Option<Arc<RequestContext>>,
    /// Status and reason of a refusal.
    pub refusal: Option<(u16, String)>,
    request: MirrorRequest,
    fetch: Option<Fetch>,
}

impl ExplainedMirror {
    /// Finds the meaning of an admitted request.
    pub fn of(admitted: AdmittedRequest, times: (Timestamp, Sequence)) -> Self {
        let request = MirrorRequest::new(admitted, times);
        let MirrorBase { mirror, facts, age_limit, .. } = &request.base;
        let settings = &mirror.settings;
        let mut view = MirrorView {
            name: settings.name().to_owned(),
            kind: settings.kind.name().to_owned(),
            upstream: settings.upstream().to_owned(),
            owned: mirror.owns(&request.packages),
            package: request.packages.first().cloned(),
            offline: settings.offline,
            minimum_age_seconds: age_limit.map(|_| settings.minimum_age.as_secs()),
            ..MirrorView::default()
        };
        let url = |place: &Place| match place {
            Place::Below(path) => format!("{}{path}", facts.upstream),
            Place::Elsewhere(url) => url.clone(),
        };
        let (class, place, verdict) = match request.route() {
            Route::Fetch(fetch) => {
                let is_file = matches!(fetch.class, Class::File(_));
                (if is_file { "file" } else { "document" }, Some(url(&fetch.place)), "")
            }
            Route::Pass(place) => ("pass", Some(url(&place)), PASSED),
            Route::Answer(..) => ("answer", None, ANSWERED),
            Route::Store(fetch, _) => ("write", Some(url(&fetch.place)), WRITTEN),
            Route::Remove(place) => ("write", Some(url(&place)), WRITTEN),
            Route::Refuse(..) => ("refuse", None, REFUSED),
        };
        (view.class, view.place, view.verdict) = (class.to_owned(), place, verdict.to_owned());
        let mut explained = Self { view, ask: None, refusal: None, request, fetch: None };
        match explained.request.route() {
            Route::Refuse(status, why) => explained.refusal = Some((status, why)),
            Route::Fetch(mut fetch) => {
                let is_selected = explained.request.date(&mut fetch).is_some();
                explained.ask = explained.request.context(&fetch, is_selected);
                explained.fetch = Some(fetch);
                explained.sum_up();
            }
            _ => {}
        }
        explained
    }

    /// Looks into the stored documents for the promise about a file, and compares the stored body
    /// with it.
    pub async fn look(&mut self, engine: &Arc<CacheEngine>) {
        let (Some(ask), Some(fetch)) = (self.ask.clone(), self.fetch.clone()) else { return };
        let (Some(asked), Some(base)) = (&ask.mirror, MirrorBase::of(&ask)) else { return };
        let Class::File(source) = &fetch.class else { return };
        let mut found = match source {
            PromiseSource::Here(digest) => {
                let promise = Promise { digest: Some(digest.clone()), ..Promise::default() };
                Some((PromiseLookup { promise: Some(promise), place: None }, ask.target.url.to_string()))
            }
            _ => engine.stored_promise(&base, &ask, &asked.documents()).await,
        };
        let own = self.verify(engine, &base, &fetch, found.as_ref().map(|(found, _)| found)).await;
        if let (None, Some(digest)) = (&found, own) {
            let promise = Promise { digest: Some(digest), ..Promise::default() };
            found = Some((PromiseLookup { promise: Some(promise), place: None }, ask.target.url.to_string()));
        }
        let mut published = found.as_ref().and_then(|(found, _)| found.promise.as_ref()?.published);
        if published.is_none() {
            let times = engine.stored_promise(&base, &ask, &asked.documents_of_times()).await;
            published = times.and_then(|(found, _)| found.promise?.published);
        }
        self.view.published = published;
        self.view.promise = found.as_ref().and_then(|(found, url)| view(found.promise.as_ref()?, url));
        let _ = asked.promised.set(found.map(|(found, _)| found).unwrap_or_default().published_at(published));
        self.view.too_young = asked.age_limit.map(|_| asked.is_too_young());
        self.sum_up();
    }

    /// Reads the stored body, if there is one, and compares it with its promises. Returns the
    /// digest in the body's own fields.
    async fn verify(
        &mut self,
        engine: &Arc<CacheEngine>,
        base: &MirrorBase,
        fetch: &Fetch,
        found: Option<&PromiseLookup>,
    ) -> Option<Digest> {
        let mut ask = base.ageless().asking(fetch, false, &self.request.admitted.head)?;
        stored_alone(&mut ask);
        let reply = engine.serve(&Arc::new(ask)).await;
        if reply.head.status() != StatusCode::OK {
            return None;
        }
        let fields = reply_fields(&reply.head);
        let field = |name: &str| Some(String::from_utf8_lossy(fields.get(name)?.as_bytes()).into_owned());
        let own = base.mirror.registry.promise_in(&field);
        let promise = found.and_then(|found| found.promise.as_ref());
        let digests = promise.and_then(|promise| promise.digest.as_ref()).into_iter().chain(&own);
        let mut check = BodyCheck::of_digests(digests, promise.and_then(|promise| promise.size))?;
        let mut body = frames(reply.body);
        while let Some(frame) = body.frame().await {
            // A body that cannot be read is neither right nor wrong.
            let Ok(data) = frame.ok()?.into_data() else { continue };
            if check.push(&data).is_err() {
                self.view.verified = Some(false);
                return own;
            }
        }
        self.view.verified = Some(check.finish().is_ok());
        own
    }

    /// Sums up the view of a document or a file.
    fn sum_up(&mut self) {
        let class = self.fetch.as_ref().map(|fetch| &fetch.class);
        let is_unpromised = matches!(class, Some(Class::File(PromiseSource::Nothing)));
        let verdict = match (class, self.view.verified, &self.view.promise) {
            (Some(Class::Document(_)), ..) => DOCUMENT,
            _ if self.view.too_young == Some(true) => TOO_YOUNG,
            (_, Some(true), _) => VERIFIED,
            (_, Some(false), _) => DIFFERS,
            (_, None, Some(_)) => PROMISED,
            (_, None, None) if is_unpromised => UNPROMISED,
            (_, None, None) => UNKNOWN,
        };
        self.view.verdict = verdict.to_owned();
    }
}

impl CacheEngine {
    /// Looks for the promise about a file in stored documents of any age. Returns the document's
    /// URL, too.
    async fn stored_promise(
        self: &Arc<Self>,
        base: &MirrorBase,
        ask: &RequestContext,
        documents: &[(Place, Form)],
    ) -> Option<(PromiseLookup, String)> {
        debug_assert!(documents.len() <= DOCUMENTS_MAX, "few documents may have one promise");
        for (place, form) in documents {
            let mut document = base.document(place, *form)?;
            stored_alone(&mut document);
            let url = document.target.url.to_string();
            if let Ok(Some(found)) = self.promise_in(ask, (document, *form)).await {
                return Some((found, url));
            }
        }
        None
    }
}

/// Lets the cache alone answer, at any age.
fn stored_alone(ask: &mut RequestContext) {
    (ask.directives.only_if_cached, ask.directives.max_stale) = (true, Some(u32::MAX));
}

fn view(promise: &Promise, source: &str) -> Option<PromiseView> {
    let digest =
        promise.digest.as_ref().map(|digest| format!("{}:{}", digest.algorithm().name(), digest.hex()));
    let view = PromiseView {
        digest,
        size: promise.size,
        source: source.to_owned(),
        withdrawn: promise.is_withdrawn,
    };
    (view.digest.is_some() || view.size.is_some() || view.withdrawn).then_some(view)
}

/// Most documents that may promise one file.
const DOCUMENTS_MAX: usize = 8;

const DOCUMENT: &str =
    "An index document: it is used for mirror.index_lifetime, then the registry is asked if it changed.";
const TOO_YOUNG: &str =
    "The file is refused: it is younger than mirror.minimum_age, or no stored index tells its age.";
const VERIFIED: &str = "The stored file was read now: it is the promised one.";
const DIFFERS: &str = "The stored file is not the promised one: the promise changed after the file was \
                       fetched. `shoal mirror verify --purge` removes the file.";
const PROMISED: &str = "The file is not stored. It will be checked against this promise as it arrives.";
const UNPROMISED: &str = "No index promises the bytes of such files. Their length alone is checked.";
const UNKNOWN: &str = "No stored index names the file. The index is asked before the file is fetched.";
const PASSED: &str = "The request goes to the registry, and its answer is not stored.";
const ANSWERED: &str = "The node answers by itself.";
const WRITTEN: &str = "The client writes or removes an entry.";
const REFUSED: &str = "The request is refused.";
