//! Requests at mirrors of package registries.
//!
//! ```text
//!   request ─► registry's code: route ─┬─ answer, refuse ─────────────► reply
//!                                      ├─ pass ──────────────────────► origin, nothing stored
//!                                      ├─ document ─ serve ─ derive ─► reply
//!                                      └─ file ───── serve ──────────► reply
//!                                                      └─ miss: promise, from the stored document
//! ```
//!
//! The key is the place at the origin, so that all spellings and all mirrors of a registry share an
//! object. The origin gets fields of this node alone. `serve` is the step of every request: it
//! collapses misses, validates, and lets stale responses stand in.

mod aged;
mod bearer;
mod documents;
mod explained;
mod fetching;
mod for_peers;
mod generations;
mod kept;
mod own;
mod packages;
mod places;
mod promised;
mod redirects;
mod replaced;
mod rights;
mod shortcuts;
mod sums;
mod together;
mod written;

pub(super) use documents::frames as body_frames;
pub(super) use for_peers::context_for_peer;
pub(super) use own::prefetch_context;
pub use own::{OwnAnswer, OwnFreshness, OwnRequest, own_client};
pub(super) use replaced::PromisedFiles;
pub(super) use shortcuts::ShortcutSearch;

use super::admit::AdmitOutcome;
use super::awaited::AbandonGuard;
use super::handling_report::HandlingReport;
use super::request::{AdmittedRequest, RequestContext};
use super::{CacheEngine, answers};
use crate::message::{InterimSink, Reply, ReplyBody, ReplyHead, RequestBody};
use crate::mirror::MirrorRoute;
use bytes::Bytes;
pub(super) use explained::ExplainedMirror;
use generations::ArchiveRequest;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use places::MirrorBase;
use rights::RightsCheck;
use shoal_core::{Fields, Timestamp};
use shoal_mirrors::{Class, Fetch, Form, Question, Route};
use shoal_semantics::status_fields::Reason;
use shoal_settings::MirrorKind;
use std::sync::Arc;
use std::time::Instant;

/// A request for something below a mirror.
pub(super) struct MirrorRequest {
    /// Facts of the request that further requests to the registry share.
    base: MirrorBase,
    /// Method of the client.
    method: Method,
    /// Path below the mirror, with its query.
    below: String,
    /// `false` if some origin could take the path for that of something else.
    is_plain: bool,
    /// Names that the package may have.
    packages: Vec<String>,
    /// Head as the client sent it.
    admitted: AdmittedRequest,
    /// `true` for a request of this node itself.
    is_own: bool,
}

impl CacheEngine {
    /// Admits a request for the site of a mirror.
    pub(super) fn at_mirror(
        self: &Arc<Self>,
        admitted: AdmittedRequest,
        times: (Option<InterimSink>, Timestamp, super::purge_table::Sequence),
        (body, received): (RequestBody, Instant),
    ) -> AdmitOutcome {
        let request = MirrorRequest::new(admitted, (times.1, times.2));
        let exchange = Arc::clone(self);
        AdmitOutcome::Aside(Box::pin(async move { exchange.answer_mirrored(request, body, received).await }))
    }

    /// Answers a request for a place below a mirror.
    async fn answer_mirrored(
        self: Arc<Self>,
        request: MirrorRequest,
        body: RequestBody,
        received: Instant,
    ) -> Reply {
        match request.route() {
            Route::Answer(status, content_type, content) => {
                match (RightsCheck { engine: &self, request: &request }).challenge().await {
                    Some(challenge) => challenge,
                    None => request.answered(status, content_type, content),
                }
            }
            Route::Refuse(status, why) => {
                request.refused(StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN), &why)
            }
            Route::Store(fetch, status) => self.write_entry(&request, (&fetch, status), body).await,
            Route::Remove(place) => self.remove_entry(&request, &place).await,
            Route::Pass(_) if request.is_offline() => request.refused(StatusCode::GATEWAY_TIMEOUT, OFFLINE),
            Route::Pass(place) => match request.base.passing(&request.admitted.head, place) {
                Some(ask) => {
                    let engine = Arc::clone(&self);
                    let pass = |ask: Arc<RequestContext>| async move { engine.pass(&ask, body).await };
                    self.guarded(&Arc::new(ask), received, pass).await
                }
                None => request.refused(StatusCode::BAD_REQUEST, NO_PLACE),
            },
            Route::Fetch(fetch) => self.answer_fetched(&request, fetch, received).await,
        }
    }

    /// Answers a request for something that may be stored.
    async fn answer_fetched(
        self: &Arc<Self>,
        request: &MirrorRequest,
        mut fetch: Fetch,
        received: Instant,
    ) -> Reply {
        sums::note_database(&request.base.mirror, &request.below);
        if let Some(refusal) = (RightsCheck { engine: self, request }).refuse(&fetch).await {
            return refusal;
        }
        if let Some(reply) = (ArchiveRequest { engine: self, request }).prepare(&mut fetch).await {
            return reply;
        }
        if let Some(reply) = self.checksum(request, &fetch).await {
            return reply;
        }
        if request.method == Method::HEAD && fetch.class == Class::Document(Form::OciTag) {
            self.fetch_tag(request, &fetch).await;
        }
        let asked_form = match self.choose_version(request, &mut fetch).await {
            Ok(true) => None,
            Ok(false) => request.date(&mut fetch),
            Err(reply) => return *reply,
        };
        let Some(ask) = request.context(&fetch, asked_form.is_some()) else {
            return request.refused(StatusCode::BAD_REQUEST, NO_PLACE);
        };
        let engine = Arc::clone(self);
        let serve = |ask: Arc<RequestContext>| async move { engine.serve(&ask).await };
        let reply = self.guarded(&ask, received, serve).await;
        request.note_index(&fetch, &reply);
        let is_derived = ask.mirror.as_ref().is_some_and(|asked| asked.is_derived);
        if !is_derived {
            request.learn_stored(&self.cache, &fetch, &ask, &reply);
        }
        if request.is_build_cache() && reply.head.status() == StatusCode::GATEWAY_TIMEOUT {
            return request.refused(StatusCode::NOT_FOUND, NO_ENTRY);
        }
        match (&fetch.class, asked_form) {
            (Class::Document(_), Some(wanted)) => self.selected(request, (&fetch, wanted), &ask, reply).await,
            (Class::Document(form), None) => request.derived(&self.cache, (&fetch, *form), &ask, reply),
            (Class::File(_), _) => reply,
        }
    }

    /// Answers a request that counts as abandoned if its client leaves before.
    async fn guarded<F: Future<Output = Reply>>(
        &self,
        ask: &Arc<RequestContext>,
        received: Instant,
        answer: impl FnOnce(Arc<RequestContext>) -> F,
    ) -> Reply {
        let watched = Arc::clone(ask);
        let awaited = AbandonGuard::new(self, received, move || super::admit::abandoned(&watched));
        let reply = Box::pin(answer(Arc::clone(ask))).await;
        awaited.answered();
        reply
    }
}

impl MirrorRequest {
    /// Takes an admitted request for the site of a mirror.
    fn new(admitted: AdmittedRequest, times: (Timestamp, super::purge_table::Sequence)) -> Self {
        let (mirror, facts, below) = place(&admitted);
        Self::below(admitted, (mirror, facts), (below, false), times)
    }

    /// Takes an admitted request for a path below a mirror.
    fn below(
        admitted: AdmittedRequest,
        (mirror, facts): (Arc<MirrorRoute>, shoal_mirrors::Mirror),
        (below, is_own): (String, bool),
        times: (Timestamp, super::purge_table::Sequence),
    ) -> Self {
        let plain = mirror.plain(&below);
        let is_plain = plain.is_some();
        let below = plain.unwrap_or(below);
        let packages = mirror.registry.packages(&facts, below.split('?').next().unwrap_or_default());
        let age_limit = mirror.age_limit_of(&below, &packages, times.0);
        Self {
            base: MirrorBase::new(&admitted, (mirror, facts), age_limit, times),
            method: admitted.head.method.clone(),
            below,
            is_plain,
            packages,
            admitted,
            is_own,
        }
    }

    /// Returns the meaning of the request.
    fn route(&self) -> Route {
        let (path, query) = match self.below.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&*self.below, None),
        };
        let MirrorBase { mirror, facts, .. } = &self.base;
        if !self.is_plain {
            return Route::Refuse(400, NO_PLACE.to_owned());
        }
        if let Some(why) = mirror.refuses(&self.packages) {
            return Route::Refuse(403, why.to_owned());
        }
        let field = |name: &str| field_value(&self.admitted.head.fields, name);
        mirror.registry.route(facts, &Question { method: self.method.as_str(), path, query, field: &field })
    }

    /// Asks for the form with publication times if age matters. Returns the form for the client.
    fn date(&self, fetch: &mut Fetch) -> Option<Form> {
        let Class::Document(form) = fetch.class else { return None };
        let dated = self.base.mirror.registry.dated(form).filter(|_| self.base.age_limit.is_some())?;
        (fetch.class, fetch.accept) = (Class::Document(dated), dated.accept());
        Some(fetch.form_asked.unwrap_or(form))
    }

    /// Returns the request for the cache. With `is_selected`, the client gets a part of the
    /// document.
    fn context(&self, fetch: &Fetch, is_selected: bool) -> Option<Arc<RequestContext>> {
        let is_derived = is_selected || self.base.decodes(fetch);
        let mut ask = self.base.asking(fetch, is_derived, &self.admitted.head)?;
        ask.directives.only_if_cached |= self.wants_stored();
        self.follow_index(fetch, &mut ask);
        Some(Arc::new(ask))
    }

    /// Returns `true` if the client wants a stored answer or none.
    fn wants_stored(&self) -> bool {
        let fields = &self.admitted.head.fields;
        let asks = self.admitted.ruling.directives(fields).only_if_cached;
        // Go's own word for it.
        asks || self.is_build_cache()
            || field_value(fields, "disable-module-fetch").is_some_and(|value| value == "true")
    }

    /// Returns `true` if there is no registry behind the mirror.
    fn is_build_cache(&self) -> bool {
        self.base.mirror.settings.kind == MirrorKind::BuildCache
    }

    fn is_offline(&self) -> bool {
        self.base.mirror.settings.offline
    }

    /// Returns an answer of the registry's code.
    fn answered(&self, status: u16, content_type: &'static str, body: Vec<u8>) -> Reply {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        let mut reply = self.refused(status, "");
        if let ReplyHead::Built(_, fields) = &mut reply.head {
            fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            fields.remove(header::CONTENT_LENGTH);
        }
        reply.body = match self.method == Method::HEAD || body.is_empty() {
            true => ReplyBody::Empty,
            false => ReplyBody::Memory(Bytes::from(body)),
        };
        reply
    }

    /// Returns an answer of this node with one line for the reader.
    fn refused(&self, status: StatusCode, why: &str) -> Reply {
        let AdmittedRequest { live, head, client, .. } = &self.admitted;
        let verdict = HandlingReport::local(Reason::Mirror);
        let mut reply = answers::early(live, head, client, (status, why), verdict);
        reply.record.site = self.admitted.site.as_ref().map(|site| Arc::clone(live.routes.meter(Some(site))));
        reply
    }
}

/// Returns the mirror of a request, its facts, and the path below it. A request by the registry's
/// own URL, as interception sees it, gets the registry's own URLs back.
fn place(admitted: &AdmittedRequest) -> (Arc<MirrorRoute>, shoal_mirrors::Mirror, String) {
    let (mirrors, target) = (&admitted.live.mirrors, &admitted.target);
    let scheme = if target.https { "https" } else { "http" };
    let site = admitted.site.as_ref().map_or(usize::MAX, |site| site.site);
    if let Some((mirror, below)) = mirrors.for_origin_url(scheme, target.authority(), target.path())
        && mirror.site == site
    {
        return (Arc::clone(mirror), mirror.as_registry(), below);
    }
    let mirror = mirrors.of_site(site).expect("the caller found the mirror of the site");
    (Arc::clone(mirror), mirror.facts(target.origin()), mirror.below(target.path()).to_owned())
}

/// Returns a field's value; several lines are joined by commas.
fn field_value(fields: &impl Fields, name: &str) -> Option<String> {
    let name = http::HeaderName::try_from(name).ok()?;
    let lines: Vec<_> = fields.values(&name).map(String::from_utf8_lossy).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Returns the fields of a reply's head, with those that this node adds.
fn reply_fields(head: &ReplyHead) -> HeaderMap {
    use shoal_semantics::status_fields::{CACHE_STATUS, PROXY_STATUS};
    match head {
        ReplyHead::Built(_, fields) => fields.clone(),
        ReplyHead::Relayed(head) => head.lines.to_map(),
        ReplyHead::Stored { stored, age_seconds, cache_status, proxy_status, .. } => {
            let mut fields = stored.fields();
            fields.insert(header::AGE, HeaderValue::from(*age_seconds));
            if let Ok(value) = HeaderValue::from_maybe_shared(cache_status.clone()) {
                fields.append(CACHE_STATUS, value);
            }
            fields.append(PROXY_STATUS, proxy_status.clone());
            fields
        }
    }
}

/// Returns `true` if a document of this form is decoded or rewritten for clients.
fn is_derived(mirror: &MirrorRoute, facts: &shoal_mirrors::Mirror, form: Form) -> bool {
    mirror.registry.rewriter(facts, form).is_some()
}

const NO_ENTRY: &str = "Nothing is stored under this key.";
const OFFLINE: &str = "This mirror is offline, and such requests are never stored.";
const NO_PLACE: &str = "The path names no place at the registry.";
