//! The first steps: who asks, for what, and which way the request goes.

use super::ask::Ask;
use super::awaited::Awaited;
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
            None if ask.is_lookup() && body.is_none() && !upgrades(&ask) && !self.is_for_connection(&ask) => {
                self.serve(&ask).await
            }
            None => Box::pin(self.pass(&ask, body)).await,
        };
        awaited.answered();
        reply
    }

    /// Whether the request's answer belongs to a connection that the origin authenticates: it is neither looked for in the
    /// cache nor kept there.
    fn is_for_connection(&self, ask: &Ask) -> bool {
        let is_bound = connection_auth::authenticates(&ask.fields) || self.upstreams.has_pinned(&ask.client);
        is_bound && !ask.directives.only_if_cached
    }

    /// Settles who asks for what, and which way the request goes.
    pub(super) fn admit(self: &Arc<Self>, request: Request) -> Admitted {
        let answered = |reply: Reply| Admitted::Answered(Box::new(reply));
        let Request { head, body, client, interim, received } = request;
        let requested = clock::time_at(received);
        // Before the settings are looked at, as Live::begin says.
        let purge_time = self.epochs.time(requested);
        let live = self.live();
        let mode = live.modes.get(client.listener).copied().unwrap_or(Mode::Reverse);
        let user = match mode {
            Mode::Forward => match self.admit_client(&head, &client) {
                Ok(user) => user,
                Err(reply) => return Admitted::Answered(reply),
            },
            Mode::Reverse => None,
        };
        if head.method == Method::CONNECT {
            let exchange = Arc::clone(self);
            return Admitted::Aside(Box::pin(async move {
                exchange.admit_tunnel(&head, &client, mode, received).await
            }));
        }
        if let Some(reply) = self.loop_detected(&head, &client) {
            return answered(reply);
        }
        let target = match Target::of(&head, mode, &client) {
            Ok(target) => target,
            Err(why) => {
                let (status, verdict) = (StatusCode::BAD_REQUEST, Verdict::local("target"));
                return answered(self.early(&head, &client, status, bad_target(why), verdict));
            }
        };
        if head.method.as_str() == "PURGE" {
            let exchange = Arc::clone(self);
            return Admitted::Aside(Box::pin(
                async move { exchange.purge_request(&head, &client, target).await },
            ));
        }
        if let Some(reply) = self.destination_denied(&head, &client, mode, &target) {
            return answered(reply);
        }
        let site = match mode {
            Mode::Forward => None,
            Mode::Reverse => live.routes.find(target.host(), target.path()).map(Arc::clone),
        };
        if mode == Mode::Reverse && site.is_none() {
            let verdict = Verdict::local("site");
            return answered(self.early(&head, &client, StatusCode::NOT_FOUND, NO_SITE, verdict));
        }
        let ask = Arc::new(Ask {
            primary: target.key(),
            path: target.path_and_query(&head.uri),
            target,
            directives: RequestDirectives::of(&head.fields),
            method: head.method,
            fields: fields::without_nominated(head.fields),
            version: head.version,
            client,
            site,
            user,
            live,
            interim,
            requested,
            purge_time,
        });
        Admitted::Asked(ask, body, received)
    }

    async fn admit_tunnel(
        &self,
        head: &RequestParts,
        client: &Arc<Client>,
        mode: Mode,
        received: Instant,
    ) -> Reply {
        let record = || self.early(head, client, StatusCode::OK, "", Verdict::local("abandoned")).record;
        let awaited = Awaited::new(self, received, record);
        let reply = self.connect(head, client, mode).await;
        awaited.answered();
        reply
    }

    /// Whether this client may use the forward proxy.
    fn admit_client(&self, head: &RequestParts, client: &Client) -> Result<Option<String>, Box<Reply>> {
        let in_force = self.in_force.load();
        let authorization = head.fields.shared_value(&header::PROXY_AUTHORIZATION);
        let forward = &in_force.live.forward;
        let admitted =
            forward.client(client.address.ip()).and_then(|()| forward.authenticate(authorization.as_ref()));
        admitted.map_err(|refusal| Box::new(self.denied(head, client, &refusal)))
    }

    /// The answer when clients may not name this host, or this port of it. Asked not only before a fetch: what is stored of a destination is refused
    /// with it.
    fn destination_denied(
        &self,
        head: &RequestParts,
        client: &Client,
        mode: Mode,
        target: &Target,
    ) -> Option<Reply> {
        if mode == Mode::Reverse {
            return None;
        }
        let in_force = self.in_force.load();
        let rules = &in_force.live.forward;
        let refusal =
            rules.destination(target.host()).and_then(|()| rules.request_port(target.port)).err()?;
        Some(self.denied(head, client, &refusal))
    }

    /// The answer to what an access rule refuses.
    pub(super) fn denied(&self, head: &RequestParts, client: &Client, refusal: &Refusal) -> Reply {
        let status = refusal.status();
        let verdict = Verdict::local("denied").outcome(Outcome::Denied).error(refusal.proxy_status());
        let mut reply = self.early(head, client, status, denial(refusal), verdict);
        if let ReplyHead::Built(_, fields) = &mut reply.head
            && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            fields.insert(header::PROXY_AUTHENTICATE, self.in_force.load().live.forward.challenge().clone());
        }
        reply
    }

    /// RFC 8586, and Via (RFC 9110, section 7.6.3): a request that has been here already is refused.
    fn loop_detected(&self, head: &RequestParts, client: &Client) -> Option<Reply> {
        let hop = &self.in_force.load().live.hop;
        let been_here =
            fields::via_contains(&head.fields, hop) || fields::cdn_loop_contains(&head.fields, hop);
        been_here.then(|| {
            let status = StatusCode::LOOP_DETECTED;
            let verdict = Verdict::local("loop").error(ProxyError::ProxyLoopDetected);
            self.early(head, client, status, answers::explain(status), verdict)
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

    /// The method PURGE removes a URL, for clients that may.
    async fn purge_request(&self, head: &RequestParts, client: &Client, target: Target) -> Reply {
        let allowed: bool = self.in_force.load().live.purge.allows(client.address.ip());
        if !allowed {
            return self.early(
                head,
                client,
                StatusCode::FORBIDDEN,
                MAY_NOT_PURGE,
                Verdict::local("purge").outcome(Outcome::Denied),
            );
        }
        match self.purge(PurgeRequest::Url(target.url.to_string())).await {
            PurgeOutcome::Purged { responses: Some(0) } => {
                self.early(head, client, StatusCode::NOT_FOUND, NOTHING_STORED, Verdict::local("purge"))
            }
            _ => self.early(head, client, StatusCode::OK, PURGED, Verdict::local("purge")),
        }
    }

    /// An answer given before the request became an [`Ask`].
    pub(super) fn early(
        &self,
        head: &RequestParts,
        client: &Client,
        status: StatusCode,
        why: &str,
        verdict: Verdict,
    ) -> Reply {
        let (fields, body) = answers::page(status, why, &head.method);
        let mut reply = self.finish_early(client, status, (fields, body), verdict);
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
        let mut reply = self.finish_early(client, status, page, verdict);
        reply.record.url = "error:invalid-request".into();
        reply
    }

    fn finish_early(
        &self,
        client: &Client,
        status: StatusCode,
        (mut fields, body): (HeaderMap, ReplyBody),
        verdict: Verdict,
    ) -> Reply {
        let cache_status = verdict.add_to(&mut fields, &self.in_force.load().live);
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

fn denial(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Client(_) => "This proxy does not serve your network.",
        Refusal::Credentials => "This proxy wants a user name and a password.",
        Refusal::Port(_) => "This proxy makes no tunnels to that port.",
        Refusal::RequestPort(_) => "This proxy makes no requests to that port.",
        Refusal::Own(_) => "The request leads back to this proxy.",
        Refusal::Denied(_) | Refusal::Private(..) => "This proxy does not serve that destination.",
    }
}

const NO_SITE: &str = "No site is served under this host and path.";
const MAY_NOT_PURGE: &str = "Your network may not purge.";
const NOTHING_STORED: &str = "Nothing is stored under this URL.";
const PURGED: &str = "Nothing stored under this URL will be served any more.";
