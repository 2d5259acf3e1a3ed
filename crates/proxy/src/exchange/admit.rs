//! The first steps: who asks, for what, and which way the request goes.

use super::admission::Wanted;
use super::ask::Ask;
use super::awaited::Awaited;
use super::denials;
use super::live::Live;
use super::passes::Kind;
use super::target::{BadTarget, Target};
use super::verdict::{self, Verdict};
use super::{Exchange, answers};
use crate::access::Refusal;
use crate::admin::{PurgeOutcome, PurgeRequest};
use crate::clock;
use crate::message::{Client, Outcome, Record, Reply, ReplyBody, ReplyHead, Request, RequestBody};
use crate::tunnel;
use crate::upstream::connection_auth;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_core::Fields;
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::fields;
use shoal_semantics::status_fields::ProxyError;
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// What the first steps make of a request.
pub(super) enum Admitted {
    /// A request on its way, with its body, and when its first byte was there.
    Asked(Arc<Ask>, RequestBody, Instant),
    /// Its answer already.
    Answered(Box<Reply>),
    /// What gets its answer in a way that few take.
    Aside(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Exchange {
    /// Answers a request that was admitted.
    pub(super) async fn answer(self: &Arc<Self>, admitted: Admitted) -> Reply {
        let (ask, body, received) = match admitted {
            Admitted::Asked(ask, body, received) => (ask, body, received),
            Admitted::Answered(reply) => return *reply,
            Admitted::Aside(answering) => return answering.await,
        };
        let watched = Arc::clone(&ask);
        let awaited = Awaited::new(self, received, move || abandoned(&watched));
        let reply = match self.max_forwards(&ask) {
            Some(reply) => reply,
            None if self.may_look_up(&ask, &body) => self.serve(&ask).await,
            None => Box::pin(self.pass(&ask, body)).await,
        };
        awaited.answered();
        reply
    }

    /// Whether the cache may answer the request.
    fn may_look_up(&self, ask: &Ask, body: &RequestBody) -> bool {
        let is_plain = ask.is_lookup() && body.is_none() && !upgrades(ask);
        is_plain && !ask.speaks_of_user() && !self.is_for_connection(ask)
    }

    /// Whether the request's answer belongs to a connection that the origin authenticates: it is neither looked for in the
    /// cache nor kept there.
    fn is_for_connection(&self, ask: &Ask) -> bool {
        let is_bound = connection_auth::authenticates(&ask.fields) || self.upstreams.has_pinned(&ask.client);
        is_bound && !ask.directives.only_if_cached
    }

    /// Settles who asks for what, and which way the request goes, by one reading of the settings.
    pub(super) fn admit(self: &Arc<Self>, request: Request) -> Admitted {
        let answered = |reply: Reply| Admitted::Answered(Box::new(reply));
        let Request { head, body, client, interim, received } = request;
        let requested = clock::time_at(received);
        // Before the settings are looked at, as Live::begin says.
        let sequence = self.epochs.sequence();
        let live = self.live();
        let told = live.told(&client, |heard| {
            head.fields.lines().for_each(|(name, value)| heard.note(name, value));
        });
        let (client, way) = match told {
            Some(told) => (Arc::new(told.client), Some(told.way)),
            None => (client, None),
        };
        let target = Target::of(&head, live.mode(&client), &client);
        let authorization = head.fields.shared_value(&header::PROXY_AUTHORIZATION);
        let grant = match live.admit(&client, authorization.as_ref(), Wanted::of(&head, &target)) {
            Ok(grant) => grant,
            Err(refusal) => return answered(self.denied(&live, &head, &client, &refusal)),
        };
        if head.method == Method::CONNECT {
            let exchange = Arc::clone(self);
            return Admitted::Aside(Box::pin(async move {
                exchange.admit_tunnel(&live, &head, &client, received).await
            }));
        }
        if let Some(reply) = self.loop_detected(&live, &head, &client) {
            return answered(reply);
        }
        let target = match target {
            Ok(target) => target,
            Err(why) => {
                let (status, verdict) = (StatusCode::BAD_REQUEST, Verdict::local("target"));
                return answered(self.early(&live, &head, &client, (status, bad_target(why)), verdict));
            }
        };
        if head.method.as_str() == "PURGE" {
            let exchange = Arc::clone(self);
            return Admitted::Aside(Box::pin(async move {
                exchange.purge_request(&live, &head, &client, target).await
            }));
        }
        let (user, site) = (grant.user, grant.site.map(Arc::clone));
        let directives = RequestDirectives::of(&head.fields);
        let fields = fields::without_nominated(head.fields);
        let ask = Arc::new(Ask {
            primary: target.key(if site.is_some() { Mode::Reverse } else { Mode::Forward }),
            path: target.path_and_query(&head.uri),
            target,
            directives,
            kind: Kind::of(&fields),
            method: head.method,
            fields,
            version: head.version,
            client,
            way,
            site,
            user,
            live,
            interim,
            requested,
            sequence,
        });
        Admitted::Asked(ask, body, received)
    }

    async fn admit_tunnel(
        &self,
        live: &Arc<Live>,
        head: &RequestParts,
        client: &Arc<Client>,
        received: Instant,
    ) -> Reply {
        let verdict = || Verdict::local("abandoned");
        let record = || self.early(live, head, client, (StatusCode::OK, ""), verdict()).record;
        let awaited = Awaited::new(self, received, record);
        let reply = self.connect(live, head, client).await;
        awaited.answered();
        reply
    }

    /// The answer to what an access rule refuses.
    pub(super) fn denied(
        &self,
        live: &Live,
        head: &RequestParts,
        client: &Client,
        refusal: &Refusal,
    ) -> Reply {
        denials::tell(refusal, &head.uri);
        let status = refusal.status();
        let verdict = match refusal {
            Refusal::Site => Verdict::local("site"),
            Refusal::Misdirected => Verdict::local("misdirected"),
            Refusal::Tunnels => Verdict::local("method"),
            Refusal::Purge(_) => Verdict::local("purge").outcome(Outcome::Denied),
            _ => Verdict::local("denied").outcome(Outcome::Denied).error(refusal.proxy_status()),
        };
        let mut reply = self.early(live, head, client, (status, answers::denial(refusal)), verdict);
        if let ReplyHead::Built(_, fields) = &mut reply.head
            && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            fields.insert(header::PROXY_AUTHENTICATE, live.forward.challenge().clone());
        }
        reply
    }

    /// RFC 8586, and Via (RFC 9110, section 7.6.3): a request that has been here already is refused.
    fn loop_detected(&self, live: &Live, head: &RequestParts, client: &Client) -> Option<Reply> {
        let hop = &live.hop;
        let been_here =
            fields::via_contains(&head.fields, hop) || fields::cdn_loop_contains(&head.fields, hop);
        been_here.then(|| {
            let status = StatusCode::LOOP_DETECTED;
            let verdict = Verdict::local("loop").error(ProxyError::ProxyLoopDetected);
            self.early(live, head, client, (status, answers::explain(status)), verdict)
        })
    }

    /// TRACE and OPTIONS that may go no further are answered here (RFC 9110, section 7.6.2).
    fn max_forwards(&self, ask: &Ask) -> Option<Reply> {
        if ask.max_forwards()? > 0 {
            return None;
        }
        let mut fields = HeaderMap::new();
        fields
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
        let status =
            if ask.method == Method::OPTIONS { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED };
        Some(self.own_fields(ask, status, fields, ReplyBody::Empty, Verdict::local("max-forwards")))
    }

    /// The method PURGE removes a URL, for a client that may.
    async fn purge_request(
        &self,
        live: &Live,
        head: &RequestParts,
        client: &Client,
        target: Target,
    ) -> Reply {
        let (status, why) = match self.purge(PurgeRequest::Url(target.url.to_string())).await {
            PurgeOutcome::Purged { responses: Some(0) } => (StatusCode::NOT_FOUND, NOTHING_STORED),
            PurgeOutcome::Purged { .. } => (StatusCode::OK, PURGED),
            PurgeOutcome::Invalid(_) => (StatusCode::BAD_REQUEST, NOT_A_URL),
            PurgeOutcome::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_WRITTEN),
        };
        self.early(live, head, client, (status, why), Verdict::local("purge"))
    }

    /// An answer given before the request became an [`Ask`].
    pub(super) fn early(
        &self,
        live: &Live,
        head: &RequestParts,
        client: &Client,
        (status, why): (StatusCode, &str),
        verdict: Verdict,
    ) -> Reply {
        let page = answers::page(status, why, &head.method);
        let mut reply = self.finish_early(live, client, status, page, verdict);
        reply.record.method = Some(head.method.clone());
        // With its host, like that of a request that gets further.
        reply.record.url = match Target::of(head, Mode::Reverse, client) {
            Ok(target) if head.uri.path().starts_with('/') && head.uri.authority().is_none() => target.url,
            _ => head.uri.to_string().into(),
        };
        reply.record.version = verdict::version(head.version);
        reply
    }

    /// The server's own answer to what is not a request.
    pub(super) fn refusal(&self, status: StatusCode, reason: &str, client: &Client) -> Reply {
        let page = answers::page(status, reason, &Method::GET);
        let verdict = Verdict::local("request").error(ProxyError::HttpRequestError);
        let live = self.live();
        let mut reply = self.finish_early(&live, client, status, page, verdict);
        reply.record.url = "error:invalid-request".into();
        reply
    }

    fn finish_early(
        &self,
        live: &Live,
        client: &Client,
        status: StatusCode,
        (mut fields, body): (HeaderMap, ReplyBody),
        verdict: Verdict,
    ) -> Reply {
        let cache_status = verdict.add_to(&mut fields, live);
        let record = verdict.early_record(cache_status, client, status, self.now());
        Reply { head: ReplyHead::Built(status, fields), body, record }
    }
}

/// Whether the client asks for another protocol.
fn upgrades(ask: &Ask) -> bool {
    ask.fields.has(&header::UPGRADE) && tunnel::upgrade_offer(ask.version, &ask.fields).is_some()
}

/// What the log says of a request that was given up.
fn abandoned(ask: &Ask) -> Box<Record> {
    Verdict::local("abandoned").record(ask, Bytes::new(), StatusCode::OK, None)
}

fn bad_target(why: BadTarget) -> &'static str {
    match why {
        BadTarget::NotAbsolute => "This is a forward proxy: the request needs an absolute URL.",
        BadTarget::Scheme => "Only http and https URLs are served.",
        BadTarget::Host => "The request names no host, or none that can be read.",
    }
}

const NOTHING_STORED: &str = "Nothing is stored under this URL.";
const NOT_A_URL: &str = "This is no URL under which something could be stored.";
const NOT_WRITTEN: &str = "Purged, but a disk has failed, does not answer or is out of service: what is on it may be served again after the next start.";
const PURGED: &str = "Nothing stored under this URL will be served any more.";
