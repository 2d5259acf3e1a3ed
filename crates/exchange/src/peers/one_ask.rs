//! One ask: sends a request to a node, and waits for a sign of life, then for the answer.
//!
//! Only an answer to this very ask counts: its key, length and checksum are compared.

use super::ask_timer::AskTimer;
use super::sums::CheckedBody;
use crate::answers;
use crate::cluster::{ClusterHandle, PeerNode};
use crate::fetch::FetchFailure;
use crate::message::target::Target;
use crate::message::{InterimSink, StreamBody};
use crate::metrics::Metrics;
use crate::request::RequestContext;
use crate::upstream::{
    Caller, Cause, Destination, PeerTerms, UpstreamError, UpstreamRequest, UpstreamResponse,
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use shoal_cluster::{
    ANSWER_FIELD, AnswerResult, AskMode, ObjectAnswer, ObjectAsk, PEER_FIELD, TE_MARK, TE_TRAILERS,
};
use shoal_cooperation::{Ask, AskKind, AskResult};
use shoal_core::{FieldLines, Fields, Key};
use shoal_rules::FailureKind;
use shoal_semantics::NextHopFields;
use shoal_semantics::status_fields::{CACHE_STATUS, ProxyError};
use shoal_wire::response::is_bodiless;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Asker of one node.
pub(super) struct OneAsk<'a> {
    /// This node's part in the cluster.
    pub cluster: &'a ClusterHandle,
    /// Counters.
    pub metrics: &'a Arc<Metrics>,
    /// The client's request.
    pub context: &'a RequestContext,
    /// Method to ask with.
    pub method: Method,
    /// Fields of the request, without those between nodes.
    pub fields: &'a NextHopFields,
}

/// Result of one ask.
pub(super) enum OneAnswer {
    /// The node's response.
    Response(Box<UpstreamResponse>),
    /// The node could not ask the origin.
    Failed(Box<FetchFailure>),
    /// No response, for this reason.
    None(AskResult),
}

impl OneAsk<'_> {
    /// Asks a node, which was admitted.
    pub async fn send(&self, peer: &Arc<PeerNode>, ask: Ask) -> OneAnswer {
        let Some(mut request) = self.request(peer, ask) else { return OneAnswer::None(AskResult::Unknown) };
        let mut trial = peer.begin();
        let (sink, mut signs) = tokio::sync::mpsc::channel(SIGNS_MAX);
        request.interim = Some(sink);
        let mut call = self.cluster.links().errand(request);
        let mut answering = pin!(call.run());
        // The first sign of life within the time-out, then the answer.
        let mut limit = AskTimer::start(ask.timeout);
        let mut is_alive = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut answering => break Some(outcome),
                Some((status, fields)) = signs.recv() => {
                    if !std::mem::replace(&mut is_alive, true) {
                        trial.answered().iter().for_each(|latency| self.count(*latency));
                        // A holder reads its cache only, and gets no more time.
                        if ask.kind == AskKind::Home {
                            limit.restart(self.context.live.home_patience);
                        }
                    }
                    if status != StatusCode::PROCESSING {
                        pass_on(self.context.interim.as_ref(), status, fields);
                    }
                }
                () = limit.passed() => break None,
            }
        };
        match outcome {
            Some(Ok(response)) => match self.checked(peer, ask.kind, response) {
                Some(answer) => {
                    trial.answered().iter().for_each(|latency| self.count(*latency));
                    answer
                }
                None => {
                    self.metrics.cluster_asks_wrong.increment();
                    trial.lied();
                    OneAnswer::None(AskResult::Unknown)
                }
            },
            Some(Err(error)) => {
                tracing::debug!(peer = %peer.name, %error, "a peer did not answer");
                match is_late(&error) {
                    true => trial.timed_out(ask.timeout),
                    false => trial.refused(),
                }
                self.failed(is_late(&error), is_alive)
            }
            None => {
                trial.timed_out(ask.timeout);
                self.failed(true, is_alive)
            }
        }
    }

    /// Counts an ask without an answer.
    fn failed(&self, is_late: bool, was_alive: bool) -> OneAnswer {
        if was_alive {
            // The node may have asked the origin already.
            self.metrics.cluster_origin_again.increment();
        }
        match is_late {
            true => self.metrics.cluster_asks_late.increment(),
            false => self.metrics.cluster_asks_refused.increment(),
        }
        OneAnswer::None(if is_late { AskResult::TimedOut } else { AskResult::Refused })
    }

    fn declined(&self, peer: &PeerNode) {
        self.metrics.cluster_asks_declined.increment();
        peer.tally.declined.fetch_add(1, Relaxed);
    }

    fn count(&self, latency: Duration) {
        self.metrics.cluster_ask_us.add(latency.as_micros() as u64);
    }

    /// Builds the request; `None` if the ask cannot be written.
    fn request(&self, peer: &PeerNode, ask: Ask) -> Option<UpstreamRequest> {
        let context = self.context;
        // Of a mirror, the place at its registry is asked for.
        let place = context.mirror.as_ref().map(|asked| asked.url_of(asked.place_at_origin()));
        let place = place.map(|url| Target::parse(&url)).transpose().ok()?;
        let mode = match (&context.site, &context.mirror) {
            (_, Some(asked)) => AskMode::Mirror {
                name: asked.mirror.settings.name().to_owned(),
                realm: asked.mirror.realm.to_string(),
            },
            (None, None) => AskMode::Forward,
            (Some(site), None) => {
                let (host, prefix) = site.name();
                AskMode::Site { host: host.to_owned(), prefix: prefix.to_owned() }
            }
        };
        let target = place.as_ref().unwrap_or(&context.target);
        let field = ObjectAsk {
            kind: ask.kind,
            entry: self.cluster.own(),
            client: context.client.address,
            hops: ask.hops,
            view: self.cluster.members().view.fingerprint(),
            purges: self.cluster.purges(),
            deadline_ms: u32::try_from(ask.timeout.as_millis()).unwrap_or(u32::MAX),
            mode,
        };
        let mut fields = self.fields.clone();
        fields.push(PEER_FIELD.as_bytes(), field.to_value()?.as_bytes());
        // A mark is of no use to a node that asks by no digest.
        let pulls = context.live.asks_holders || context.live.parents.is_some();
        let accepted = if pulls { TE_MARK } else { TE_TRAILERS };
        fields.push(header::TE.as_str().as_bytes(), accepted.as_bytes());
        // The home asks the registry for the client's right by itself.
        if let Some(credentials) = context.mirror.as_ref().and_then(|asked| asked.credentials.as_ref()) {
            fields.push(header::AUTHORIZATION.as_str().as_bytes(), credentials.as_bytes());
        }
        Some(UpstreamRequest {
            method: self.method.clone(),
            destination: Destination::Peer(Arc::clone(&peer.target)),
            target: match &place {
                Some(place) => place.path().parse().ok()?,
                None => context.path.clone(),
            },
            absolute: Some(target.origin().into()),
            fields,
            host: HeaderValue::from_str(target.authority()).ok(),
            takes_trailers: true,
            body: None,
            interim: None,
            upgrade: None,
            caller: Caller { client: Some(Arc::clone(&context.client)), ..Caller::default() },
        })
    }

    /// Checks that a response answers this ask. Returns `None` if it does not.
    fn checked(
        &self,
        peer: &Arc<PeerNode>,
        kind: AskKind,
        mut response: UpstreamResponse,
    ) -> Option<OneAnswer> {
        let name = HeaderName::from_static(ANSWER_FIELD);
        if response.status.is_client_error() && !response.fields.has(&name) {
            // The node does not know this one, since their views differ for now. Or it refuses a
            // head at its limits, which a client may send on purpose: no lie of the node.
            self.declined(peer);
            return Some(OneAnswer::None(AskResult::Unknown));
        }
        let answer = {
            // The home's own line is the last. Any other one is the origin's.
            let own = response.fields.values(&name).last();
            own.and_then(ObjectAnswer::parse)?
        };
        self.cluster.load().heard(peer.node, answer.load);
        self.cluster.heard_view(peer, answer.view);
        self.cluster.digests().into_iter().for_each(|digests| digests.heard(peer.node, answer.digest));
        let result = ask_result(answer.result);
        if result != AskResult::Served {
            self.declined(peer);
            return Some(OneAnswer::None(result));
        }
        if answer.key != Key::unkeyed(self.context.primary.full()).low() {
            return None;
        }
        if answer.result == AnswerResult::Failed {
            self.metrics.cluster_asks_failed.increment();
            peer.tally.failed.fetch_add(1, Relaxed);
            return Some(OneAnswer::Failed(Box::new(failure(peer, response.status))));
        }
        response.fields = response.fields.with_only(&name, None);
        let asked = self.context.mirror.as_ref();
        if asked.is_some_and(|asked| !asked.may_be_promised(&response.fields)) {
            // The home has a file that the registry has replaced since.
            self.declined(peer);
            return Some(OneAnswer::None(AskResult::Unknown));
        }
        let was_hit = was_hit(&response.fields);
        let lease = Duration::from_millis(u64::from(answer.lease_ms)).min(LEASE_MAX);
        response.from_peer = Some(PeerTerms {
            is_shared: answer.is_shared,
            lease,
            was_hit,
            // In a hierarchy each node on the way keeps a copy.
            moves: (kind == AskKind::Holder || self.context.live.parents.is_some())
                && !self.context.directives.only_if_cached,
        });
        self.metrics.cluster_asks_served.increment();
        peer.tally.served.fetch_add(1, Relaxed);
        if self.method == Method::HEAD || is_bodiless(response.status) {
            return Some(OneAnswer::Response(Box::new(response)));
        }
        let told = (answer.length, answer.sum);
        let is_empty = response.length == Some(0) && answer.length.unwrap_or(0) == 0;
        // With the sum in the head, the framing has the length.
        if !is_empty && answer.sum.is_some() && (response.length != answer.length) {
            return None;
        }
        if !is_empty {
            response.body = self.checked_body(peer, response.body, told);
            response.length = answer.length;
        }
        Some(OneAnswer::Response(Box::new(response)))
    }

    /// Returns the body of a node's answer, counted, and compared with its length and checksum.
    fn checked_body(
        &self,
        peer: &Arc<PeerNode>,
        body: StreamBody,
        told: (Option<u64>, Option<u64>),
    ) -> StreamBody {
        let (liar, metrics) = (Arc::clone(peer), Arc::clone(self.metrics));
        let lied = move || {
            metrics.cluster_asks_wrong.increment();
            tracing::warn!(peer = %liar.name, "a peer sent a wrong body and is set aside");
            liar.lied();
        };
        let (sender, metrics) = (Arc::clone(peer), Arc::clone(self.metrics));
        let counted = body.map_frame(move |frame| {
            let bytes = frame.data_ref().map_or(0, bytes::Bytes::len) as u64;
            metrics.cluster_received_bytes.add(bytes);
            sender.tally.bytes.fetch_add(bytes, Relaxed);
            frame
        });
        CheckedBody::new(counted.boxed_unsync(), told, lied).boxed_unsync()
    }
}

/// Returns the way in which an answer ends an ask.
fn ask_result(result: AnswerResult) -> AskResult {
    match result {
        AnswerResult::Served | AnswerResult::Failed => AskResult::Served,
        AnswerResult::Missing => AskResult::Missing,
        AnswerResult::Busy => AskResult::Busy,
        AnswerResult::Behind => AskResult::Behind,
        AnswerResult::Unknown => AskResult::Unknown,
    }
}

/// Returns `true` if the node took the response from its cache: its own member of Cache-Status,
/// the last one, says so.
fn was_hit(fields: &FieldLines) -> bool {
    let line = fields.values(&CACHE_STATUS).last().unwrap_or_default();
    let own = line.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    own.split(|byte| *byte == b';').skip(1).any(|part| part.trim_ascii() == b"hit")
}

/// Returns the failure that a home has met, as far as its status tells.
fn failure(peer: &PeerNode, status: StatusCode) -> FetchFailure {
    let (proxy_error, kind) = match status {
        StatusCode::GATEWAY_TIMEOUT => (ProxyError::HttpResponseTimeout, FailureKind::Timeout),
        _ => (ProxyError::DestinationUnavailable, FailureKind::Connect),
    };
    FetchFailure {
        status,
        proxy_error,
        denied: false,
        setting: None,
        explanation: answers::explain(status),
        retry_after_seconds: None,
        upstream: peer.target.address().to_string(),
        kind,
    }
}

/// Returns `true` if the error is that no sign of life came in time.
fn is_late(error: &UpstreamError) -> bool {
    matches!(error.cause, Cause::ResponseTimeout | Cause::ConnectTimeout | Cause::WriteTimeout)
}

/// Passes an interim response of the origin on to the client.
fn pass_on(sink: Option<&InterimSink>, status: StatusCode, fields: http::HeaderMap) {
    if let Some(sink) = sink {
        let _ = sink.try_send((status, fields));
    }
}

/// Signs of life that wait to be read; further ones say nothing more.
const SIGNS_MAX: usize = 4;

/// Longest lease that is believed.
const LEASE_MAX: Duration = Duration::from_secs(60);
