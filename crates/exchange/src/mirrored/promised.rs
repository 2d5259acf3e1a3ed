//! Files: before one is fetched, its index document tells digest and place.

use super::documents::frames;
use super::packages::PackageSearch;
use super::places::MirrorBase;
use super::reply_fields;
use super::sums::SumSearch;
use crate::clock;
use crate::handling_report::HandlingReport;
use crate::message::Reply;
use crate::metadata::ResponseMetadata;
use crate::mirror::{PromiseLookup, read_promise};
use crate::request::RequestContext;
use crate::{CacheEngine, answers};
use http::StatusCode;
use shoal_core::Fields;
use shoal_mirrors::{Class, Form, Place};
use shoal_semantics::status_fields::Reason;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

impl CacheEngine {
    /// Looks for the promise about a file that is about to be fetched. Returns a reply if the file
    /// must not be fetched.
    ///
    /// Boxed: a document is served by the steps that ask for it.
    pub(crate) fn look_for_promise<'a>(
        self: &'a Arc<Self>,
        ask: &'a Arc<RequestContext>,
    ) -> Pin<Box<dyn Future<Output = Option<Box<Reply>>> + Send + 'a>> {
        Box::pin(async move {
            let asked = ask.mirror.as_ref()?;
            let documents = asked.documents();
            if asked.promised.get().is_some() || ask.directives.only_if_cached && asked.age_limit.is_none() {
                return None;
            }
            let base = MirrorBase::of(ask)?;
            let found = match self.find_promise(&base, ask, &documents).await {
                Ok(found) => self.with_time(&base, ask, found.unwrap_or_default()).await,
                Err(why) => Err(why),
            };
            let mut promised = match found {
                Ok(found) => found,
                Err((status, why)) => return Some(refusal(ask, status, why)),
            };
            if promised.place.as_ref() == Some(&asked.place) {
                promised.place = None;
            }
            if asked.is_listed() {
                let listed = PackageSearch { engine: self, base: &base }.find(&asked.place).await;
                promised.promise = promised.promise.or(listed);
            }
            debug_assert!(promised.sum.is_none(), "no document has it");
            promised.sum = SumSearch { engine: self, base: &base, ask }.find().await;
            let is_promised = promised.promise.is_some();
            let _ = asked.promised.set(promised);
            if asked.is_too_young() {
                return Some(refusal(ask, StatusCode::FORBIDDEN, TOO_YOUNG));
            }
            if let Some(reply) = self.serve_other_place(&base, ask).await {
                return Some(Box::new(reply));
            }
            let place = asked.fetched_from();
            let is_allowed = match place {
                Place::Below(_) => true,
                // The upstream's own origin has further paths, which are nobody's but its users'.
                Place::Elsewhere(url) => is_promised || asked.mirror.allows_files_at(url),
            };
            (!is_allowed).then(|| refusal(ask, StatusCode::FORBIDDEN, UNNAMED_HOST))
        })
    }

    /// Serves the body of a file from another place of the registry, if it is stored there.
    async fn serve_other_place(self: &Arc<Self>, base: &MirrorBase, ask: &RequestContext) -> Option<Reply> {
        let asked = ask.mirror.as_ref()?;
        let digest = asked.promise()?.digest?;
        let bodies = &asked.mirror.bodies;
        if let Some(other) = bodies.other(&digest, &asked.place) {
            let ask = Arc::new(base.same_body(ask, other)?);
            let reply = self.serve(&ask).await;
            // Absence at the other place says nothing about this one.
            if matches!(reply.head.status().as_u16(), 200 | 206 | 304 | 416) {
                self.metrics.mirror_other_place.increment();
                return Some(reply);
            }
        }
        bodies.keep(&digest, &asked.place);
        None
    }

    /// Returns the refusal of a stored file that is too young. A file that has been here for the
    /// whole minimum age is old enough.
    pub(crate) async fn refuse_young(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        head: &ResponseMetadata,
    ) -> Option<Box<Reply>> {
        let asked = ask.mirror.as_ref().filter(|asked| asked.age_limit.is_some())?;
        let minimum = asked.mirror.settings.minimum_age;
        let has_been_here = clock::now() >= head.policy.response_time().plus(minimum);
        if has_been_here || !matches!(asked.class, Some(Class::File(_))) {
            return None;
        }
        self.look_for_promise(ask).await
    }

    /// Looks for the promise: in the documents that are stored and fresh, then at the registry. A
    /// stored document may be older than the file, so that it is validated before it has the last
    /// word.
    async fn find_promise(
        self: &Arc<Self>,
        base: &MirrorBase,
        ask: &RequestContext,
        documents: &[(Place, Form)],
    ) -> Result<Option<PromiseLookup>, Unknown> {
        let mut stored = Vec::with_capacity(documents.len());
        for (place, form) in documents {
            let mut document = base.document(place, *form).ok_or(UNREADABLE)?;
            document.directives.only_if_cached = true;
            let found = self.promise_in(ask, (document, *form)).await;
            if let Ok(Some(found)) = found {
                return Ok(Some(found));
            }
            stored.push(found.is_ok());
        }
        // With one document at hand, the other forms of it tell no more.
        let wanted =
            documents.iter().zip(&stored).filter(|(_, is_stored)| **is_stored || !stored.contains(&true));
        for ((place, form), is_stored) in wanted.filter(|_| !ask.directives.only_if_cached) {
            let mut document = base.document(place, *form).ok_or(UNREADABLE)?;
            document.directives.no_cache = *is_stored;
            if let Some(found) = self.promise_in(ask, (document, *form)).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Adds the publication time to a promise, if age matters and the promise has none.
    async fn with_time(
        self: &Arc<Self>,
        base: &MirrorBase,
        ask: &RequestContext,
        promised: PromiseLookup,
    ) -> Result<PromiseLookup, Unknown> {
        let asked = ask.mirror.as_ref().ok_or(UNREADABLE)?;
        let has_time = promised.promise.as_ref().is_some_and(|promise| promise.published.is_some());
        if has_time || asked.age_limit.is_none() {
            return Ok(promised);
        }
        let found = self.find_promise(base, ask, &asked.documents_of_times()).await?;
        let published = found.and_then(|found| found.promise?.published);
        Ok(promised.published_at(published))
    }

    /// Looks for the promise in one document. `None` if the document is absent or does not name the
    /// file.
    pub(super) async fn promise_in(
        self: &Arc<Self>,
        ask: &RequestContext,
        (document, form): (RequestContext, Form),
    ) -> Result<Option<PromiseLookup>, Unknown> {
        let asked = ask.mirror.as_ref().ok_or(UNREADABLE)?;
        let document = Arc::new(document);
        let reply = self.serve(&document).await;
        match reply.head.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            // The registry is gone, or the mirror is offline: this says nothing about the file.
            StatusCode::GATEWAY_TIMEOUT => return Err(OUT_OF_REACH),
            _ => return Err(UNREACHABLE),
        }
        let fields = reply_fields(&reply.head);
        let content_type = fields.value(&http::header::CONTENT_TYPE).unwrap_or_default();
        let given = form.given(&String::from_utf8_lossy(content_type));
        let registry = asked.mirror.registry;
        let Some(promises) = registry.promises(&asked.facts, given, &asked.place) else { return Ok(None) };
        // A document that drips would hold the client and the fetch for as long as it does.
        let reading = read_promise(frames(reply.body), &fields, promises);
        let read = tokio::time::timeout(READ_MAX, reading).await.map_err(|_| UNREACHABLE)?;
        let (promise, place) = read.map_err(|error| {
            tracing::warn!(url = %document.target.url, %error, "the index of a file cannot be read");
            UNREADABLE
        })?;
        Ok(promise.map(|promise| PromiseLookup { promise: Some(promise), place, sum: None }))
    }
}

/// Status and reason for a client that asks for a file which cannot be checked.
pub(super) type Unknown = (StatusCode, &'static str);

/// Longest time for reading a document.
const READ_MAX: Duration = Duration::from_secs(60);

fn refusal(ask: &RequestContext, status: StatusCode, why: &'static str) -> Box<Reply> {
    Box::new(answers::own_answer(ask, status, why, HandlingReport::local(Reason::Mirror)))
}

const TOO_YOUNG: &str =
    "The release is younger than this mirror takes, or of an unknown age (mirror.minimum_age).";
const NOT_HAD: &str = "The index that names the file cannot be had, so that the file cannot be checked.";
const UNREACHABLE: Unknown = (StatusCode::BAD_GATEWAY, NOT_HAD);
const OUT_OF_REACH: Unknown = (StatusCode::GATEWAY_TIMEOUT, NOT_HAD);
const UNREADABLE: Unknown = (
    StatusCode::BAD_GATEWAY,
    "The index that names the file cannot be read, so that the file cannot be checked.",
);
const UNNAMED_HOST: &str = "No index names a file of this host (mirror.file_hosts allows hosts beside).";
