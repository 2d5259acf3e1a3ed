//! The home's side: answers the asks of other nodes from the cache, or from the origin.
//!
//! The entry node has admitted the client, and has applied access, rates and rules to the request.
//! The home takes the request as it is. It computes the key itself, from the target and the mode.
//! While it waits for the origin, it sends interim responses as signs of life.

use super::sums::SummedBody;
use super::{plain, reply};
use crate::CacheEngine;
use crate::clock;
use crate::cluster::{AskInFlight, AskRefusal, ClusterHandle};
use crate::message::target::Target;
use crate::message::{Client, InterimSink, Reply, ReplyBody, ReplyHead, Request};
use crate::mirrored::context_for_peer;
use crate::request::{AdmittedRequest, RequestContext};
use crate::route::Route;
use crate::settings::ExchangeSettings;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use shoal_cluster::{ANSWER_FIELD, AnswerResult, AskMode, ObjectAnswer, ObjectAsk, PEER_FIELD, TE_MARK};
use shoal_cooperation::{AskKind, HOPS_MAX};
use shoal_core::{Fields, Key};
use shoal_settings::Mode;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

impl CacheEngine {
    /// Answers an ask for an object, which came from a member.
    pub(super) async fn answer_ask(self: &Arc<Self>, cluster: &ClusterHandle, request: Request) -> Reply {
        let Some((ask, target)) = read(&request) else {
            self.metrics.cluster_malformed.increment();
            return plain(StatusCode::BAD_REQUEST, "This is no ask for an object.");
        };
        let patience = Duration::from_millis(u64::from(ask.deadline_ms) / 2);
        let answerer = Answerer { cluster, takes_marks: takes_marks(&request.head.fields) };
        if !cluster.covers_purges(ask.entry, ask.purges, patience).await {
            self.metrics.cluster_answers_behind.increment();
            return answerer.refusal(&target, AnswerResult::Behind);
        }
        let sequence = self.cache.purge_table.sequence();
        let live = self.live();
        let Ok(site) = served(&live, &ask.mode, &target) else {
            self.metrics.cluster_answers_unknown.increment();
            return answerer.refusal(&target, AnswerResult::Unknown);
        };
        let in_flight = match cluster.begin_ask(request.client.address) {
            Ok(in_flight) => in_flight,
            Err(refusal) => {
                if refusal == AskRefusal::OverShare {
                    self.metrics.cluster_over_share.increment();
                }
                self.metrics.cluster_answers_busy.increment();
                return answerer.refusal(&target, AnswerResult::Busy);
            }
        };
        let Request { mut head, client, interim, received, .. } = request;
        head.fields = head.fields.with_only(&HeaderName::from_static(PEER_FIELD), None);
        head.fields = head.fields.with_only(&header::TE, None);
        let ruling = live.outcome_for_peer(&head, &target, site.as_ref());
        // Shares of connections, and variants by address, are those of the entry's client.
        let client = Client {
            address: ask.client,
            certificate: None,
            server_name: None,
            intercepted: None,
            ..*client
        };
        let (client, requested) = (Arc::new(client), clock::time_at(received));
        let admitted = AdmittedRequest { head, target, ruling, client, way: None, site, user: None, live };
        let context = match &ask.mode {
            AskMode::Mirror { name, .. } => {
                let finding = context_for_peer(self, admitted, name, (requested, sequence));
                with_signs(Box::pin(finding), interim.as_ref(), &ask).await
            }
            _ => Ok(RequestContext::new(admitted, (interim.clone(), requested, sequence))),
        };
        let mut context = match context {
            Ok(context) => context.for_peer(),
            Err(target) => {
                self.metrics.cluster_answers_unknown.increment();
                return answerer.refusal(&target, AnswerResult::Unknown);
            }
        };
        context.hops = ask.hops;
        context.joins_origin_flights = ask.kind == AskKind::Holder && !context.directives.only_if_cached;
        context.directives.only_if_cached |= ask.kind == AskKind::Holder;
        let context = Arc::new(context);
        let reply = with_signs(self.serve(&context), interim.as_ref(), &ask).await;
        self.described(&answerer, (&context, &ask), in_flight, reply)
    }

    /// Adds the description of the answer to a reply, and the checksum to its body.
    fn described(
        &self,
        answerer: &Answerer<'_>,
        (context, ask): (&RequestContext, &ObjectAsk),
        in_flight: AskInFlight,
        reply: Reply,
    ) -> Reply {
        let full = context.primary.full();
        let result = match &reply.head {
            ReplyHead::Built(StatusCode::GATEWAY_TIMEOUT, _) if context.directives.only_if_cached => {
                self.metrics.cluster_answers_missing.increment();
                return answerer.refusal_of(full, AnswerResult::Missing);
            }
            ReplyHead::Built(..) if reply.record.failed => AnswerResult::Failed,
            _ => AnswerResult::Served,
        };
        match result {
            AnswerResult::Served => self.metrics.cluster_answers_served.increment(),
            _ => self.metrics.cluster_answers_failed.increment(),
        }
        let is_shared = matches!(reply.head, ReplyHead::Stored { .. });
        let lease = match is_shared && ask.kind == AskKind::Home && context.method == Method::GET {
            true => answerer.cluster.heated(Key::unkeyed(full), context.sequence.number()),
            false => None,
        };
        let mut answer = ObjectAnswer {
            result,
            is_shared,
            lease_ms: lease.map_or(0, |lease| u32::try_from(lease.as_millis()).unwrap_or(u32::MAX)),
            ..answerer.blank(full, result)
        };
        let body = match reply.body {
            ReplyBody::Memory(bytes) => {
                (answer.length, answer.sum) = (Some(bytes.len() as u64), Some(xxh3_64(&bytes)));
                ReplyBody::Memory(bytes)
            }
            ReplyBody::Stream { frames, length } => {
                answer.length = length;
                let summed = SummedBody::new(frames, length, Some(in_flight));
                ReplyBody::Stream { frames: http_body_util::BodyExt::boxed_unsync(summed), length: None }
            }
            body => body,
        };
        with_answer(Reply { body, ..reply }, &answer)
    }
}

/// Works for an ask. Tells the asker again and again that the work goes on.
async fn with_signs<T>(work: impl Future<Output = T>, sink: Option<&InterimSink>, ask: &ObjectAsk) -> T {
    let left = Duration::from_millis(u64::from(ask.deadline_ms));
    let beat = (left / SIGNS_A_DEADLINE).clamp(BEAT_MIN, BEAT_MAX);
    let mut working = pin!(work);
    loop {
        tokio::select! {
            biased;
            result = &mut working => return result,
            () = tokio::time::sleep(beat) => {
                let sign = (StatusCode::PROCESSING, HeaderMap::new());
                sink.iter().for_each(|sink| drop(sink.try_send(sign.clone())));
            }
        }
    }
}

/// Reads an ask and its target.
fn read(request: &Request) -> Option<(ObjectAsk, Target)> {
    let name = HeaderName::from_static(PEER_FIELD);
    let mut lines = request.head.fields.values(&name);
    let mut ask = ObjectAsk::parse(lines.next()?).ok()?;
    // No node waits longer, even if the asker says so.
    ask.deadline_ms = ask.deadline_ms.min(DEADLINE_MS_MAX);
    let is_sound = lines.next().is_none()
        && (1..=HOPS_MAX).contains(&ask.hops)
        && request.body.is_none()
        && (request.head.method == Method::GET || request.head.method == Method::HEAD);
    let target = Target::of(&request.head, Mode::Forward, &request.client).ok()?;
    is_sound.then_some((ask, target))
}

/// Returns the site that serves the ask; `None` for forward mode.
///
/// # Errors
/// If this node has no such site, or its rules forbid the destination.
fn served(live: &ExchangeSettings, mode: &AskMode, target: &Target) -> Result<Option<Arc<Route>>, ()> {
    match mode {
        // A node of sites alone is no way to other hosts, for members either.
        AskMode::Forward if !live.serves_forward_mode() => Err(()),
        AskMode::Forward => live.forward.request(target.host(), target.port).map(|()| None).map_err(drop),
        AskMode::Mirror { name, realm } => {
            let mirror = live.mirrors.named(name).filter(|mirror| *mirror.realm == **realm).ok_or(())?;
            live.routes.all().get(mirror.site).map(|site| Some(Arc::clone(site))).ok_or(())
        }
        AskMode::Site { host, prefix } => {
            let site = live.routes.find(target.host().as_bytes(), target.path()).ok_or(())?;
            // Nodes with other settings may mean another site by the same name.
            if site.name() == (host, prefix) { Ok(Some(Arc::clone(site))) } else { Err(()) }
        }
    }
}

/// Writer of the descriptions of answers.
struct Answerer<'a> {
    cluster: &'a ClusterHandle,
    /// The node that asks can read the mark of a digest.
    takes_marks: bool,
}

impl Answerer<'_> {
    /// Returns the answer of a home that does not serve the ask.
    fn refusal(&self, target: &Target, result: AnswerResult) -> Reply {
        self.refusal_of(target.url.as_bytes(), result)
    }

    fn refusal_of(&self, full: &[u8], result: AnswerResult) -> Reply {
        let status = match result {
            AnswerResult::Missing => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        with_answer(reply(status, Bytes::new()), &self.blank(full, result))
    }

    /// Returns the description of an answer without a body, for one client.
    fn blank(&self, full: &[u8], result: AnswerResult) -> ObjectAnswer {
        ObjectAnswer {
            result,
            key: Key::unkeyed(full).low(),
            is_shared: false,
            lease_ms: 0,
            load: self.cluster.load().in_flight(),
            length: None,
            sum: None,
            view: self.cluster.members().view.fingerprint(),
            digest: if self.takes_marks { self.cluster.digest_mark() } else { 0 },
        }
    }
}

/// Returns `true` if the asking node says that it reads marks of digests.
fn takes_marks(fields: &impl Fields) -> bool {
    fields.values(&header::TE).any(|value| value == TE_MARK.as_bytes())
}

/// Adds the field to the head of a reply.
fn with_answer(mut reply: Reply, answer: &ObjectAnswer) -> Reply {
    let value = answer.to_value();
    let streams = matches!(reply.body, ReplyBody::Stream { .. });
    match &mut reply.head {
        ReplyHead::Built(_, fields) => {
            let value = HeaderValue::try_from(value).expect("the value is visible text");
            fields.insert(HeaderName::from_static(ANSWER_FIELD), value);
            if streams {
                fields.remove(header::CONTENT_LENGTH);
            }
        }
        ReplyHead::Relayed(head) => {
            head.lines.push(ANSWER_FIELD.as_bytes(), value.as_bytes());
            head.length = head.length.filter(|_| !streams);
        }
        ReplyHead::Stored { peer_answer, .. } => *peer_answer = HeaderValue::try_from(value).ok(),
    }
    reply.record.is_for_peer = true;
    reply
}

/// Signs of life within the time that the asker waits for one.
const SIGNS_A_DEADLINE: u32 = 3;

/// Longest time that an asker is believed to wait for a sign of life.
const DEADLINE_MS_MAX: u32 = 60_000;

/// Least and longest time between two signs.
const BEAT_MIN: Duration = Duration::from_millis(5);
const BEAT_MAX: Duration = Duration::from_millis(300);
