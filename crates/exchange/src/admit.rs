//! The first steps: client, target, and path of the request.

use super::awaited::AbandonGuard;
use super::handling_report::HandlingReport;
use super::prefetch;
use super::request::{AdmittedRequest, RequestContext};
use super::settings::ExchangeSettings;
use super::target::{Target, TargetError};
use super::{CacheEngine, answers, challenge, https_redirect};
use crate::by_site::SiteMeter;
use crate::clock;
use crate::message::{AccessRecord, Client, Reply, Request, RequestBody};
use crate::purge::{PurgeOutcome, PurgeRequest};
use crate::tunnel;
use crate::upstream::connection_auth;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use shoal_acme::Challenges;
use shoal_core::Fields;
use shoal_semantics::status_fields::{ProxyError, Reason};
use shoal_wire::RequestParts;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// Outcome of the first steps.
pub(super) enum AdmitOutcome {
    /// A request in progress, with its body, and the arrival of its first byte.
    Asked(Arc<RequestContext>, RequestBody, Instant),
    /// The request has its answer already.
    Answered(Box<Reply>),
    /// A rare kind of request with its own way to an answer.
    Aside(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl CacheEngine {
    /// Answers a request that was admitted.
    pub(super) async fn answer(self: &Arc<Self>, admitted: AdmitOutcome) -> Reply {
        let (ask, body, received) = match admitted {
            AdmitOutcome::Asked(ask, body, received) => (ask, body, received),
            AdmitOutcome::Answered(reply) => return *reply,
            AdmitOutcome::Aside(answering) => return answering.await,
        };
        let watched = Arc::clone(&ask);
        let awaited = AbandonGuard::new(self, received, move || abandoned(&watched));
        let reply = match answers::at_end_of_way(&ask) {
            Some(reply) => reply,
            None if body.is_none() && may_look_up(&ask, || self.upstreams.has_pinned(&ask.client)) => {
                self.serve(&ask).await
            }
            None => Box::pin(self.pass(&ask, body)).await,
        };
        awaited.answered();
        reply
    }

    /// Determines client, target and path of the request, under one reading of the settings.
    pub(super) fn admit(self: &Arc<Self>, request: Request) -> AdmitOutcome {
        let answered = |reply: Reply| AdmitOutcome::Answered(Box::new(reply));
        if request.client.is_peer() {
            return AdmitOutcome::Aside(Box::pin(Arc::clone(self).answer_peer(request)));
        }
        if let Some(reply) = self.digest_reply(&request.head, &request.client) {
            return AdmitOutcome::Answered(reply);
        }
        let Request { mut head, body, client, interim, received } = request;
        let requested = clock::time_at(received);
        // Read before the settings, as Live::begin requires.
        let sequence = self.cache.purge_table.sequence();
        let live = self.live();
        let told = live.told(&client, |heard| {
            head.fields.lines().for_each(|(name, value)| heard.note(name, value));
        });
        let (client, way) = match told {
            Some(told) => (Arc::new(told.client), Some(told.way)),
            None => (client, None),
        };
        let target = Target::of(&head, live.mode(&client), &client);
        if let Ok(target) = &target
            && let Some(reply) = before_rules(&self.challenges, &live, (&head, target), &client)
        {
            return answered(reply);
        }
        let grant = match self.granted(&live, &head, &target, &client) {
            Ok(grant) => grant,
            Err(reply) => return AdmitOutcome::Answered(self.refusal_for_neighbour(reply, &head, &client)),
        };
        if head.method == Method::CONNECT {
            let exchange = Arc::clone(self);
            return AdmitOutcome::Aside(Box::pin(async move {
                exchange.admit_tunnel(&live, &head, &client, received).await
            }));
        }
        if let Some(reply) = answers::loop_detected(&live, &head, &client) {
            return AdmitOutcome::Answered(self.refusal_for_neighbour(Box::new(reply), &head, &client));
        }
        let mut target = match target {
            Ok(target) => target,
            Err(why) => {
                return answered(self.bad_target(&live, &head, &client, why));
            }
        };
        if head.method.as_str() == "PURGE" {
            let exchange = Arc::clone(self);
            return AdmitOutcome::Aside(Box::pin(async move {
                exchange.purge_request(&live, &head, &client, target).await
            }));
        }
        let (user, site) = (grant.user, live.site_of(grant.site, &target, &client).map(Arc::clone));
        let mut ruling = match self.ruled_request(&live, &mut head, &mut target, &client, site.as_ref()) {
            Ok(ruling) => ruling,
            Err(reply) => return AdmitOutcome::Answered(of_site(reply, live.routes.meter(site.as_deref()))),
        };
        let user = ruling.take_user().or(user);
        let is_mirror = site.as_ref().is_some_and(|site| live.mirrors.of_site(site.site).is_some());
        let admitted = AdmittedRequest { head, target, ruling, client, way, site, user, live };
        if is_mirror {
            return self.at_mirror(admitted, (interim, requested, sequence), (body, received));
        }
        let mut ask = RequestContext::new(admitted, (interim, requested, sequence));
        prefetch::tee(self, &mut ask);
        self.in_force.load().log.traces().into_iter().for_each(|traces| ask.begin_trace(traces));
        AdmitOutcome::Asked(Arc::new(ask), body, received)
    }

    /// Answers a request without a usable target.
    fn bad_target(
        &self,
        live: &ExchangeSettings,
        head: &RequestParts,
        client: &Client,
        why: TargetError,
    ) -> Reply {
        let (status, reason) = match why {
            TargetError::Misdirected => {
                self.metrics.intercept_refused_host.increment();
                (StatusCode::MISDIRECTED_REQUEST, Reason::Misdirected)
            }
            _ => (StatusCode::BAD_REQUEST, Reason::Target),
        };
        let page = (status, target_fault(why));
        answers::early(live, head, client, page, HandlingReport::local(reason))
    }

    async fn admit_tunnel(
        &self,
        live: &Arc<ExchangeSettings>,
        head: &RequestParts,
        client: &Arc<Client>,
        received: Instant,
    ) -> Reply {
        if let Some(refused) = self.refused_tunnel(live, head, client) {
            return refused;
        }
        if let Some(reply) = self.intercept(live, head, client) {
            return reply;
        }
        let verdict = || HandlingReport::local(Reason::Abandoned);
        let record = || answers::early(live, head, client, (StatusCode::OK, ""), verdict()).record;
        let awaited = AbandonGuard::new(self, received, record);
        let reply = self.connect(live, head, client).await;
        awaited.answered();
        reply
    }

    /// Removes a URL by the method PURGE, for a client that may purge: under both schemes, since
    /// applications purge over plain HTTP, and their clients read over TLS.
    async fn purge_request(
        &self,
        live: &ExchangeSettings,
        head: &RequestParts,
        client: &Client,
        target: Target,
    ) -> Reply {
        let mut outcome = self.purge(PurgeRequest::Url(target.url.to_string())).await;
        if matches!(outcome, PurgeOutcome::Purged { .. } | PurgeOutcome::Spread { .. }) {
            let other = target.of_other_scheme().url.to_string();
            outcome = outcome.and(self.purge(PurgeRequest::Url(other)).await);
        }
        let (status, why) = match outcome {
            PurgeOutcome::Purged { responses: Some(0) } => (StatusCode::NOT_FOUND, NOTHING_STORED),
            PurgeOutcome::Spread { missing, .. } if missing.is_empty() => (StatusCode::OK, PURGED),
            PurgeOutcome::Spread { .. } => (StatusCode::ACCEPTED, NOT_CONFIRMED),
            PurgeOutcome::Purged { .. } => (StatusCode::OK, PURGED),
            PurgeOutcome::Invalid(_) => (StatusCode::BAD_REQUEST, NOT_A_URL),
            PurgeOutcome::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_WRITTEN),
        };
        answers::early(live, head, client, (status, why), HandlingReport::local(Reason::Purge))
    }

    /// Returns the server's own answer to an invalid request.
    pub(super) fn refusal(&self, status: StatusCode, reason: &str, client: &Client) -> Reply {
        let page = answers::page(status, reason, &Method::GET);
        let verdict = HandlingReport::local(Reason::Request).error(ProxyError::HttpRequestError);
        let live = self.live();
        let mut reply = answers::finish_early(&live, client, status, page, verdict);
        reply.record.url = "error:invalid-request".into();
        reply.record.is_for_peer = client.is_peer();
        reply
    }
}

/// Returns the answer to a request that no rule is asked about: for a certificate authority, or to
/// be sent by https.
fn before_rules(
    challenges: &Challenges,
    live: &ExchangeSettings,
    (head, target): (&RequestParts, &Target),
    client: &Client,
) -> Option<Reply> {
    challenge::answer(challenges, live, (head, target), client)
        .or_else(|| https_redirect::redirect(live, head, target, client))
}

/// Returns an early reply that is counted under its site.
fn of_site(mut reply: Box<Reply>, meter: &Arc<SiteMeter>) -> Box<Reply> {
    reply.record.site = Some(Arc::clone(meter));
    reply
}

/// Returns `true` if the cache may answer a request without a body.
///
/// The answer on a connection that the origin authenticates, for which `has_pinned` says that one
/// is kept, belongs to that connection. It is neither looked up in the cache nor stored there.
pub(super) fn may_look_up(ask: &RequestContext, has_pinned: impl FnOnce() -> bool) -> bool {
    let is_for_connection = || {
        let is_bound = connection_auth::authenticates(&ask.fields) || has_pinned();
        is_bound && !ask.directives.only_if_cached
    };
    ask.is_lookup() && !ask.ruling.passes && !upgrades(ask) && !ask.speaks_of_user() && !is_for_connection()
}

/// Returns `true` if the client asks for another protocol.
fn upgrades(ask: &RequestContext) -> bool {
    ask.fields.has(&header::UPGRADE) && tunnel::upgrade_offer(ask.version, &ask.fields).is_some()
}

/// Returns the log record of an abandoned request.
pub(super) fn abandoned(ask: &RequestContext) -> Box<AccessRecord> {
    HandlingReport::local(Reason::Abandoned).record(ask, Bytes::new(), StatusCode::OK, None)
}

fn target_fault(why: TargetError) -> &'static str {
    match why {
        TargetError::NotAbsolute => "This is a forward proxy: the request needs an absolute URL.",
        TargetError::Scheme => "Only http and https URLs are served.",
        TargetError::Host => "The request names no host, or none that can be read.",
        TargetError::Misdirected => "The request is for another host than the CONNECT around it.",
    }
}

const NOTHING_STORED: &str = "Nothing is stored under this URL.";
const NOT_A_URL: &str = "This is no URL under which something could be stored.";
const NOT_WRITTEN: &str = "Purged, but a disk has failed, does not answer or is out of service: what is on it may be served again after the next start.";
const PURGED: &str = "Nothing stored under this URL will be served any more.";
const NOT_CONFIRMED: &str =
    "Purged on this node; another node of the cluster has not confirmed yet, and will make up for it.";
