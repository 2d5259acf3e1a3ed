//! Requests of this node itself at its mirrors: warming.
//!
//! They take the way of a client's request, from the registry's code to the cache, so that keys,
//! promises and rules are the same. They have no client: no access list and no rate counts them,
//! and the access log has no line of them.

use super::documents::frames;
use super::generations::ArchiveRequest;
use super::{MirrorRequest, NO_PLACE, OFFLINE, reply_fields};
use crate::CacheEngine;
use crate::clock;
use crate::message::target::Target;
use crate::message::{Client, Reply, ReplyBody, StreamBody};
use crate::mirror::MirrorRoute;
use crate::request::{AdmittedRequest, RequestContext};
use crate::ruling::RuleOutcome;
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use shoal_core::FieldLines;
use shoal_mirrors::{Class, Fetch, Route};
use shoal_wire::RequestParts;
use std::sync::Arc;

/// A request of this node at a mirror.
pub struct OwnRequest<'a> {
    /// Name of the mirror.
    pub mirror: &'a str,
    /// Path below the mirror, with its query.
    pub path: &'a str,
    /// Accept field, as clients send it.
    pub accept: Option<&'a str>,
    /// Use of the cache.
    pub freshness: OwnFreshness,
    /// Time until which a file stays on disk, in seconds since 1970.
    pub pinned_until: Option<u64>,
}

/// Use of the cache by a request of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFreshness {
    /// The head alone, and only from the cache: 504 if it is not stored.
    Stored,
    /// A stored answer is validated first.
    Validated,
    /// As any client asks.
    Any,
}

/// Answer to a request of this node.
pub struct OwnAnswer {
    /// Status.
    pub status: StatusCode,
    /// Fields.
    pub fields: HeaderMap,
    /// Body.
    pub body: StreamBody,
}

impl From<Reply> for OwnAnswer {
    fn from(reply: Reply) -> Self {
        let fields = reply_fields(&reply.head);
        Self { status: reply.head.status(), fields, body: frames(reply.body) }
    }
}

impl OwnAnswer {
    /// Makes an answer without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, fields: HeaderMap::new(), body: frames(ReplyBody::Empty) }
    }
}

impl CacheEngine {
    /// Answers a request of this node at a mirror.
    pub async fn ask_mirror(self: &Arc<Self>, asked: OwnRequest<'_>) -> OwnAnswer {
        let live = self.live();
        let sequence = self.cache.purge_table.sequence();
        let mirror = live.mirrors.named(asked.mirror).map(Arc::clone);
        let Some((mirror, client)) = mirror.zip(Some(Arc::new(own_client(false)))) else {
            return OwnAnswer::empty(StatusCode::NOT_FOUND);
        };
        let Some(admitted) = self.own_head(&mirror, &client, &asked) else {
            return OwnAnswer::empty(StatusCode::BAD_REQUEST);
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(reply) => return OwnAnswer::from(*reply),
        };
        debug_assert!(admitted.user.is_none() && admitted.way.is_none(), "no client stands behind it");
        let requested = clock::now();
        let facts = mirror.as_registry();
        let times = (requested, sequence);
        let request = MirrorRequest::below(admitted, (mirror, facts), (asked.path.to_owned(), true), times);
        OwnAnswer::from(self.answer_own(&request, (asked.freshness, asked.pinned_until)).await)
    }

    async fn answer_own(
        self: &Arc<Self>,
        request: &MirrorRequest,
        (mut freshness, pinned_until): (OwnFreshness, Option<u64>),
    ) -> Reply {
        match request.route() {
            Route::Fetch(mut fetch) => {
                // An archive gives the published release, and lists that fit it.
                let archive = ArchiveRequest { engine: self, request };
                let is_document = matches!(fetch.class, Class::Document(_));
                if freshness != OwnFreshness::Stored
                    && let Some(reply) = archive.prepare(&mut fetch).await
                {
                    return reply;
                }
                // A list by its name is now the one by its digest, which cannot change. An archive
                // that has it by name alone would deny it.
                if is_document
                    && freshness == OwnFreshness::Validated
                    && matches!(fetch.class, Class::File(_))
                {
                    freshness = OwnFreshness::Any;
                }
                let dated = match self.choose_version(request, &mut fetch).await {
                    Ok(true) => None,
                    Ok(false) => request.date(&mut fetch),
                    Err(reply) => return *reply,
                };
                let Some(ask) = request.own_context(&fetch, (freshness, pinned_until)) else {
                    return request.refused(StatusCode::BAD_REQUEST, NO_PLACE);
                };
                let reply = self.serve(&ask).await;
                match (&fetch.class, dated) {
                    (Class::Document(form), None) => {
                        request.derived(&self.cache, (&fetch, *form), &ask, reply)
                    }
                    _ => reply,
                }
            }
            Route::Refuse(status, why) => {
                request.refused(StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN), &why)
            }
            Route::Answer(status, content_type, body) => request.answered(status, content_type, body),
            Route::Pass(_) | Route::Store(..) | Route::Remove(_) => {
                request.refused(StatusCode::METHOD_NOT_ALLOWED, OFFLINE)
            }
        }
    }

    /// Returns the head as a client would send it, with the outcome of the operator's rules. `None`
    /// if the path is none.
    fn own_head(
        &self,
        mirror: &Arc<MirrorRoute>,
        client: &Arc<Client>,
        asked: &OwnRequest<'_>,
    ) -> Option<Result<AdmittedRequest, Box<Reply>>> {
        let live = self.live();
        let site = live.routes.all().get(mirror.site).map(Arc::clone)?;
        let method = if asked.freshness == OwnFreshness::Stored { Method::HEAD } else { Method::GET };
        let uri: Uri = format!("{}{}", mirror.path, asked.path).parse().ok()?;
        let named = mirror.settings.hosts.iter().find(|host| !host.contains('*'));
        let host = named.map_or("localhost", String::as_str);
        let mut fields = vec![
            (b"host".to_vec(), host.as_bytes().to_vec()),
            (b"user-agent".to_vec(), concat!("shoal/", env!("CARGO_PKG_VERSION")).as_bytes().to_vec()),
        ];
        fields.extend(asked.accept.map(|accept| (b"accept".to_vec(), accept.as_bytes().to_vec())));
        let fields: FieldLines = fields.into_iter().collect();
        let mut target = Target::parse(&format!("http://{host}{uri}")).ok()?;
        let mut head = RequestParts { method, uri, version: Version::HTTP_11, fields };
        let ruling = match live.apply_to_request(&mut head, &mut target, client, Some(&site)) {
            Ok(ruling) => ruling,
            // A password guards against clients; the operator is none.
            Err(reply) if reply.head.status() == StatusCode::UNAUTHORIZED => RuleOutcome::default(),
            Err(reply) => return Some(Err(reply)),
        };
        let client = Arc::clone(client);
        Some(Ok(AdmittedRequest {
            head,
            target,
            ruling,
            client,
            way: None,
            site: Some(site),
            user: None,
            live,
        }))
    }
}

/// Makes the request of a prefetch at a mirror, in the name of `client`: of a place that clients
/// may share. `None` if the mirror has no such place.
pub(crate) fn prefetch_context(
    engine: &Arc<CacheEngine>,
    client: Client,
    (mirror, path): (&str, &str),
    accept: Option<&str>,
) -> Option<RequestContext> {
    let live = engine.live();
    let sequence = engine.cache.purge_table.sequence();
    let (route, client) = (live.mirrors.named(mirror).map(Arc::clone)?, Arc::new(client));
    let freshness = OwnFreshness::Any;
    let asked = OwnRequest { mirror, path, accept, freshness, pinned_until: None };
    let admitted = engine.own_head(&route, &client, &asked)?.ok()?;
    debug_assert!(admitted.user.is_none(), "no client stands behind it");
    let facts = route.as_registry();
    let times = (clock::now(), sequence);
    let request = MirrorRequest::below(admitted, (route, facts), (path.to_owned(), true), times);
    let Route::Fetch(fetch) = request.route() else { return None };
    Arc::into_inner(request.own_context(&fetch, (freshness, None))?)
}

impl MirrorRequest {
    /// Returns the request for the cache.
    fn own_context(
        &self,
        fetch: &Fetch,
        (freshness, pinned_until): (OwnFreshness, Option<u64>),
    ) -> Option<Arc<RequestContext>> {
        let mut ask = self.base.asking(fetch, self.base.decodes(fetch), &self.admitted.head)?;
        if let Some(asked) = ask.mirror.as_mut().filter(|_| matches!(fetch.class, Class::File(_))) {
            asked.pinned_until = pinned_until;
        }
        match freshness {
            OwnFreshness::Stored => {
                (ask.directives.only_if_cached, ask.directives.max_stale) = (true, Some(u32::MAX));
            }
            OwnFreshness::Validated => ask.directives.no_cache = !self.is_offline(),
            OwnFreshness::Any => {}
        }
        debug_assert!(ask.range().is_none(), "the whole is asked for");
        Some(Arc::new(ask))
    }
}

/// Returns the client that stands for this node.
pub fn own_client(tls: bool) -> Client {
    let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    Client {
        address,
        local: address,
        listener: 0,
        tls,
        server_name: None,
        certificate: None,
        intercepted: None,
    }
}
