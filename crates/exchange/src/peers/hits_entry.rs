//! The entry's side of `objects/hits`: plain requests with their home at another node wait for one
//! message to that node, without a task of their own.
//!
//! ```text
//!  connections that wait ─► defer_to_peer ─► lane of the node ─► one message ─► replies
//!                                                          not at once └──► ordinary path
//! ```
//!
//! A hit at home on another node then takes a part of one exchange between the nodes. A request
//! that the home does not answer at once takes the ordinary path, as if it had just come.

use super::ask_timer::AskTimer;
use crate::CacheEngine;
use crate::access_log::LogEntry;
use crate::admission::{AdmissionView, Grant, told_by};
use crate::clock;
use crate::cluster::{ClusterHandle, LinkAnswer, LinkCall, MessageLink, PeerNode, PeerTrial};
use crate::fast_path::write_url;
use crate::handling_report::{HandlingReport, version};
use crate::message::target::FORWARD;
use crate::message::{CacheResult, Client, NextHop, PeerAsk, PeerReplies};
use crate::route::Route;
use crate::settings::{ExchangeSettings, ReloadableState};
use bytes::Bytes;
use http::{StatusCode, Version};
use shoal_cluster::{BorrowedHitAnswers, CallError, HitAnswer, HitAsk, HitAsks};
use shoal_core::Key;
use shoal_semantics::fields;
use shoal_semantics::status_fields::ForwardReason;
use shoal_settings::Mode;
use shoal_wire::{FastPathRequest, push_decimal};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Request that waits for a message to the home of its key.
struct HitRequest {
    peer: Arc<PeerNode>,
    live: Arc<ExchangeSettings>,
    site: Option<Arc<Route>>,
    /// Full key: the effective URI, and the mode.
    full: Box<[u8]>,
    url_bytes: usize,
    key: u64,
    /// `true` if this node was asked for the object before.
    is_repeat: bool,
    if_none_match: Option<Box<[u8]>>,
    if_modified_since: Option<Box<[u8]>>,
    received: Instant,
    client: SocketAddr,
    /// Fields of the request for the access log; `None` if there is no log.
    logged: Option<Box<LoggedFields>>,
}

/// Fields of a request that the access log shows.
#[derive(Default)]
struct LoggedFields {
    referer: Box<[u8]>,
    user_agent: Box<[u8]>,
}

/// Lines that an entry adds to the head of a hit of another node.
#[derive(Default)]
pub(crate) struct PeerHitLines {
    whole: Vec<u8>,
    not_modified: Vec<u8>,
    cache_status: Bytes,
}

impl PeerHitLines {
    /// Makes the lines of a node with these settings.
    pub fn of(live: &ExchangeSettings) -> Self {
        let lines = |status: StatusCode| {
            let report = HandlingReport::forwarded(ForwardReason::UriMiss)
                .outcome(CacheResult::PeerHit)
                .forward_status(status);
            let (cache_status, proxy_status) = (report.cache_status(live), report.proxy_status(live));
            let mut text = b"via: ".to_vec();
            fields::write_via(Version::HTTP_11, &live.hop, &mut text);
            for part in [b"\r\nproxy-status: ", proxy_status.as_bytes(), b"\r\ncache-status: ", &cache_status]
            {
                text.extend_from_slice(part);
            }
            text.extend_from_slice(b"\r\n");
            (text, cache_status)
        };
        let (whole, cache_status) = lines(StatusCode::OK);
        Self { whole, not_modified: lines(StatusCode::NOT_MODIFIED).0, cache_status }
    }
}

/// Entry that asks for hits in messages.
pub(crate) struct HitEntry<'a>(pub &'a CacheEngine);

impl HitEntry<'_> {
    /// Takes a plain request that is no hit in RAM, if the first home of its key is another node
    /// that answers hits in messages. The decisions are those of the fast path and of
    /// [`super::may_ask`].
    pub fn defer(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Arc<Client>,
        received: Instant,
    ) -> Option<PeerAsk> {
        let cluster = self.0.cluster.as_deref()?;
        let in_force = self.0.in_force.load();
        let ReloadableState { live, log } = &**in_force;
        let is_plain =
            !plain.is_head && plain.range.is_none() && !plain.path.starts_with(OWN_PATHS.as_bytes());
        let is_of_connection = client.intercepted.is_some() || self.0.upstreams.has_pinned(client);
        if !live.asks_homes || !is_plain || is_of_connection || live.rule_set.limits_rates() {
            return None;
        }
        let listener = live.listeners.get(client.listener)?;
        let mode = listener.mode;
        let told = told_by(listener, client, |heard| plain.each_field(|name, value| heard.note(name, value)));
        if plain.absolute != (mode == Mode::Forward) || told.as_ref().is_some_and(|told| told.way.tells_more)
        {
            return None;
        }
        let client = told.as_ref().map_or(&**client, |told| &told.client);
        FULL.with_borrow_mut(|full| {
            let host = write_url(full, plain, mode == Mode::Reverse && client.tls);
            let url_bytes = full.len();
            if mode == Mode::Forward {
                full.extend_from_slice(FORWARD);
            }
            let (peer, key, is_repeat) = home_of(cluster, full)?;
            let is_ruled = || live.may_change(mode, &full[host.clone()], plain.path_text(), false);
            if !live.rule_set.is_empty() && is_ruled() {
                return None;
            }
            let port = plain.authority.port.unwrap_or(80);
            let wanted = AdmissionView::Url { host: &full[host.clone()], port, path: plain.path };
            let Ok(Grant { site, .. }) = live.admit_by(listener, client, None, wanted) else { return None };
            let is_mirror = site.is_some_and(|site| live.mirrors.of_site(site.site).is_some());
            if is_mirror || self.0.fetcher.passes.holds_any(Key::of(full), clock::time_at(received)) {
                return None;
            }
            let boxed = |value: Option<&[u8]>| value.map(Box::from);
            let lane = peer.serial;
            let request = Box::new(HitRequest {
                peer,
                live: Arc::clone(live),
                site: site.cloned(),
                key,
                is_repeat,
                full: full.as_slice().into(),
                url_bytes,
                if_none_match: boxed(plain.conditions.if_none_match),
                if_modified_since: boxed(plain.conditions.if_modified_since),
                received,
                client: client.address,
                logged: log.is_on().then(|| {
                    let text = |value: Option<&[u8]>| value.unwrap_or_default().into();
                    Box::new(LoggedFields {
                        referer: text(plain.referer),
                        user_agent: text(plain.user_agent),
                    })
                }),
            });
            Some(PeerAsk { lane, request })
        })
    }

    /// Asks a node for all of these, which have the same home, in one message.
    pub async fn ask(self, asks: Vec<PeerAsk>) -> PeerReplies {
        let own = |ask: PeerAsk| *ask.request.downcast::<HitRequest>().expect("this handler made it");
        let asks: Vec<HitRequest> = asks.into_iter().map(own).collect();
        let mut replies =
            PeerReplies { bytes: Vec::new(), places: std::iter::repeat_n(None, asks.len()).collect() };
        let (Some(cluster), Some(first)) = (self.0.cluster.as_deref(), asks.first()) else { return replies };
        debug_assert!(asks.iter().all(|ask| Arc::ptr_eq(&ask.peer, &first.peer)), "one node a message");
        let peer = Arc::clone(&first.peer);
        let mut message = HitAsks::new(cluster.members().view.fingerprint(), cluster.purges());
        let is_sent: Vec<bool> = asks.iter().map(|ask| message.push(ask.part())).collect();
        let count = is_sent.iter().filter(|is_sent| **is_sent).count();
        let Some(timeout) = peer.admit().filter(|_| count > 0) else { return replies };
        let Some(came) = self.send_for_hits(cluster, (&peer, timeout), &message.finish()).await else {
            return replies;
        };
        let Some(answers) = BorrowedHitAnswers::parse(came.bytes(), count) else {
            self.set_aside(&peer);
            return replies;
        };
        cluster.load().heard(peer.node, answers.load);
        cluster.heard_view(&peer, answers.view);
        replies.bytes.reserve(came.bytes().len() + count * OWN_HEAD_BYTES);
        let sent = asks.iter().zip(&mut replies.places).zip(is_sent).filter(|(_, is_sent)| *is_sent);
        for (((ask, place), _), answer) in sent.zip(answers.iter()) {
            peer.hit_shares.of(ask.is_repeat).note(1, usize::from(answer.is_some()));
            let Some(answer) = answer else { continue };
            if !ask.is_answered_by(&answer) {
                self.set_aside(&peer);
                break;
            }
            let start = replies.bytes.len();
            self.write_hit(ask, &answer, &mut replies.bytes);
            *place = Some(start..replies.bytes.len());
        }
        debug_assert_eq!(replies.places.len(), asks.len(), "a place for each request");
        came.keep(&peer);
        replies
    }

    /// Sends a message. Returns `None` without an answer, and reports how the node did.
    async fn send_for_hits(
        &self,
        cluster: &ClusterHandle,
        (peer, timeout): (&Arc<PeerNode>, Duration),
        message: &[u8],
    ) -> Option<LinkAnswer> {
        let mut trial = peer.begin();
        let began = Instant::now();
        let mut limit = AskTimer::start(timeout);
        let outcome = tokio::select! {
            biased;
            outcome = MessageLink::send(cluster, peer, (LinkCall::Hits, message)) => Some(outcome),
            () = limit.passed() => None,
        };
        let count = |trial: &mut PeerTrial<'_>| {
            let latency = trial.answered();
            latency.iter().for_each(|latency| self.0.metrics.cluster_ask_us.add(latency.as_micros() as u64));
        };
        match outcome {
            Some(Ok(answer)) => {
                count(&mut trial);
                return Some(answer);
            }
            // The links have a limit of their own, as long as the longest.
            Some(Err(CallError::Unreachable(why))) if began.elapsed() < timeout => {
                tracing::debug!(peer = %peer.name, why, "a peer did not answer");
                self.0.metrics.cluster_asks_refused.increment();
                trial.refused();
            }
            Some(Err(error)) if !matches!(error, CallError::Unreachable(_)) => {
                // A node of an earlier version does not know the call.
                tracing::debug!(peer = %peer.name, %error, "a peer answers no hits in messages");
                count(&mut trial);
                peer.takes_no_hits();
            }
            Some(Err(_)) | None => {
                self.0.metrics.cluster_asks_late.increment();
                trial.timed_out(timeout);
                peer.was_late(clock::now());
            }
        }
        None
    }

    fn set_aside(&self, peer: &PeerNode) {
        self.0.metrics.cluster_asks_wrong.increment();
        tracing::warn!(peer = %peer.name, "a peer sent a wrong answer and is set aside");
        peer.lied();
    }

    /// Appends the reply to a request, counts it and logs it.
    fn write_hit(&self, ask: &HitRequest, answer: &HitAnswer<'_>, out: &mut Vec<u8>) {
        debug_assert_eq!(answer.is_known, answer.body.is_empty(), "a 304 has no body");
        let start = out.len();
        let own = &ask.live.peer_hit_lines;
        match answer.is_known {
            true => {
                for part in [&b"HTTP/1.1 304 Not Modified\r\n"[..], answer.head, &own.not_modified, b"\r\n"] {
                    out.extend_from_slice(part);
                }
            }
            false => {
                for part in [&b"HTTP/1.1 200 OK\r\n"[..], answer.head, &own.whole, b"content-length: "] {
                    out.extend_from_slice(part);
                }
                push_decimal(out, answer.body.len() as u64);
                out.extend_from_slice(b"\r\n\r\n");
            }
        }
        let head_bytes = (out.len() - start) as u64;
        out.extend_from_slice(answer.body);
        let (body_bytes, received) = (answer.body.len() as u64, ask.received);
        let duration_us = received.elapsed().as_micros() as u64;
        self.0.metrics.cluster_asks_served.increment();
        self.0.metrics.cluster_received_bytes.add(body_bytes);
        ask.peer.tally.served.fetch_add(1, Relaxed);
        ask.peer.tally.bytes.fetch_add(body_bytes, Relaxed);
        self.0.metrics.responded(CacheResult::PeerHit, body_bytes, Some(duration_us));
        let meter = match &ask.site {
            Some(site) => &site.meter,
            None => ask.live.routes.meters().forward(),
        };
        meter.counted(CacheResult::PeerHit, body_bytes, duration_us);
        let Some(logged) = &ask.logged else { return };
        let content_type = shoal_core::written_fields(answer.head)
            .find(|(name, _)| name.eq_ignore_ascii_case(b"content-type") && !answer.is_known);
        self.0.in_force.load().log.log(&LogEntry {
            time: clock::date_at(clock::time_at(received)),
            duration_us,
            client: Some(ask.client),
            method: "GET",
            url: &ask.full[..ask.url_bytes],
            version: version(Version::HTTP_11),
            status: if answer.is_known { 304 } else { 200 },
            body_bytes,
            head_bytes,
            outcome: CacheResult::PeerHit,
            upstream: Some(&NextHop::Address(ask.peer.target.address())),
            referer: &logged.referer,
            user_agent: &logged.user_agent,
            content_type: content_type.map_or(b"", |(_, value)| value),
            cache_status: &own.cache_status,
            ..LogEntry::default()
        });
    }
}

impl HitRequest {
    /// Returns the ask as a part of a message.
    fn part(&self) -> HitAsk<'_> {
        HitAsk {
            url: &self.full[..self.url_bytes],
            site: self.site.as_ref().map(|site| site.name()),
            if_none_match: self.if_none_match.as_deref(),
            if_modified_since: self.if_modified_since.as_deref(),
        }
    }

    /// Returns `true` if a response is the one asked for, and whole.
    fn is_answered_by(&self, answer: &HitAnswer<'_>) -> bool {
        let has_conditions = self.if_none_match.is_some() || self.if_modified_since.is_some();
        answer.key == self.key
            && (if answer.is_known { has_conditions } else { xxh3_64(answer.body) == answer.sum })
            && answer.has_plain_head()
    }
}

/// Returns the first home of a key, if it is another node that answers hits in messages, and the
/// key's hash. The flag is set if this node was asked for the object before.
fn home_of(cluster: &ClusterHandle, full: &[u8]) -> Option<(Arc<PeerNode>, u64, bool)> {
    let members = cluster.members();
    let home = members.view.homes(full).first().filter(|home| *home != cluster.own())?;
    let key = Key::unkeyed(full).low();
    let is_repeat = cluster.asked_before.note(key);
    let peer = members.peer(home).filter(|peer| peer.answers_hits(is_repeat))?;
    Some((Arc::clone(peer), key, is_repeat))
}

/// Bytes of the lines that an entry adds, about.
const OWN_HEAD_BYTES: usize = 256;

/// First part of the paths that this node answers itself, for Squid's digests.
const OWN_PATHS: &str = "/squid-internal";

thread_local! {
    /// Buffer for the full key, kept to avoid an allocation.
    static FULL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
