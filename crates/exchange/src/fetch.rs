//! Fetching: a request goes to the origin, and the response is shared, stored or passed on.
//!
//! A fetch is a task of its own, so that the client that caused it may leave without harm to
//! others. The fetch answers its *owner*, the request that caused it, and lands its flight for the
//! followers. A fetch without followers, and with a response that is not expected to be stored,
//! runs within its owner's request. A fetch ends when all waiting requests have left, except a few
//! that fill the cache ([`super::abandoned`]).

use super::abandoned::Leave;
use super::answers;
use super::body_turns::{BodyEvent, SHOWN_BYTES, after_others, next_frame};
use super::body_writer::{BodyStorage, BodyWriter, READ_BUFFER_BYTES};
use super::denials;
use super::fetcher::Fetcher;
use super::flight::{FlightOutcome, Leader};
use super::invalidations::ValiditySnapshot;
use super::landing::{fail, land, land_failed};
use super::lookup::StoredResponse;
use super::metadata::{ObjectMetadata, ResponseMetadata};
use super::peers::HomeOutcome;
use super::request::RequestContext;
use super::ruling::ruled;
use super::shared_body::{BodyReader, SharedBody};
use super::store_plan::{self, StoreDenial, StorePlan};
use crate::boxed::in_place;
use crate::by_site::MissReason;
use crate::message::StreamBody;
use crate::upstream::{Cause, UpstreamError, UpstreamResponse};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use http_body::{Body, Frame};
use shoal_core::{FieldLines, ObjectKey, Timestamp};
use shoal_rules::FailureKind;
use shoal_semantics::status_fields::{ForwardReason, ProxyError, Reason};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Inputs of a fetch.
pub struct Fetch {
    /// The request that caused the fetch.
    pub ask: Arc<RequestContext>,
    /// The flight that the fetch leads, if any.
    pub leader: Option<Leader>,
    /// The stored response to validate, with its key.
    pub stored: Option<(ObjectKey, StoredResponse)>,
    /// The Range to ask for; `None` asks for the whole.
    pub range: Option<HeaderValue>,
    /// The validator sent with the Range as If-Range.
    pub if_range: Option<HeaderValue>,
    /// Detects that the response has become invalid meanwhile.
    pub validity: ValiditySnapshot,
    /// `true` if the client's own conditions are forwarded. This is so if the response is not
    /// expected to be storable. A 304 is then for the client.
    pub conditional: bool,
    /// The right to continue without a waiting request.
    pub leave: Option<Leave>,
    /// Reason for asking the origin.
    pub reason: MissReason,
    /// `true` if the homes of the key were asked in vain.
    pub homes_asked: bool,
}

/// Outcome of a fetch for its owner.
pub enum FetchOutcome {
    /// A response that is being stored. Its body is arriving, and the reader is attached at its
    /// start.
    Shared(Arc<ArrivingResponse>, Option<BodyReader>),
    /// The refreshed stored response, validated by the origin at this address.
    Refreshed(StoredResponse, SocketAddr),
    /// A response for the owner alone.
    Private(Box<UnsharedResponse>),
    /// No response.
    Failed(Arc<FetchFailure>),
}

/// A response that is arriving.
pub struct ArrivingResponse {
    /// Key of the response.
    pub key: ObjectKey,
    /// Head of the response.
    pub head: Arc<ResponseMetadata>,
    /// Head for the requesting client, including the fields for one client alone (`private="…"`).
    pub own_head: Arc<ResponseMetadata>,
    /// Body of the response.
    pub body: Arc<SharedBody>,
    /// Length of the body, if known beforehand.
    pub length: Option<u64>,
    /// The nominated fields of its Vary and the values that selected the response; `None` without
    /// Vary.
    pub selecting: Option<SelectingFields>,
    /// Detects an invalidation of the URL since the request.
    pub validity: ValiditySnapshot,
    /// Address of the sender, for the log.
    pub upstream: SocketAddr,
    /// `true` if this node stores the response.
    pub is_stored: bool,
}

/// Selector of a variant: the nominated fields and their values, normalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectingFields {
    /// Sorted names.
    pub names: Vec<http::HeaderName>,
    /// Values of the request that was sent.
    pub values: Vec<u8>,
}

/// A response for its owner only.
pub struct UnsharedResponse {
    /// The response as it came from upstream.
    pub response: UpstreamResponse,
    /// Reason for not storing it, for Cache-Status.
    pub why: Reason,
}

/// Properties of a response before its body.
#[derive(Clone, Copy)]
pub struct ReceivedHead<'a> {
    /// Status of the response.
    pub status: StatusCode,
    /// HTTP version that the origin used.
    pub version: Version,
    /// Header fields.
    pub fields: &'a FieldLines,
    /// Length of the body, if the framing gives one.
    pub length: Option<u64>,
    /// Time of the request.
    pub request_time: Timestamp,
    /// Arrival of the head.
    pub response_time: Timestamp,
    /// Address of the sender.
    pub peer: SocketAddr,
}

impl<'a> ReceivedHead<'a> {
    /// Returns the head of `response`.
    pub fn of(response: &'a UpstreamResponse) -> Self {
        Self {
            status: response.status,
            version: response.version,
            fields: &response.fields,
            length: response.length,
            request_time: response.request_time,
            response_time: response.response_time,
            peer: response.peer,
        }
    }
}

/// A fetch without a response.
#[derive(Clone, Debug)]
pub struct FetchFailure {
    /// Status for the client.
    pub status: StatusCode,
    /// Error type of RFC 9209.
    pub proxy_error: ProxyError,
    /// `true` if the proxy's own rule refused, `false` if the origin failed.
    pub denied: bool,
    /// Setting that refused, if one did.
    pub setting: Option<&'static str>,
    /// Explanation for the client.
    pub explanation: &'static str,
    /// Seconds until the client should retry.
    pub retry_after_seconds: Option<u64>,
    /// Name of the next hop, for the log.
    pub upstream: String,
    /// Failure, as rules name it.
    pub kind: FailureKind,
}

impl FetchFailure {
    /// Describes an error from asking for `url`, for client and logs. Refusals by rules are logged
    /// rarely, since any client can cause them at any rate. An upstream that is down is logged
    /// once.
    pub fn of(url: &str, error: &UpstreamError) -> Self {
        match &error.cause {
            Cause::Refused(refusal) => denials::tell(refusal, &url),
            _ if error.is_told => tracing::debug!(url, %error, "an upstream that is down could not be used"),
            _ => tracing::info!(url, %error, "an origin could not be used"),
        }
        Self::untold(error)
    }

    /// Describes an error without a line in the log.
    pub(super) fn untold(error: &UpstreamError) -> Self {
        Self {
            status: error.status(),
            proxy_error: error.proxy_status(),
            denied: matches!(error.cause, Cause::Refused(_)),
            setting: match &error.cause {
                Cause::Refused(refusal) => refusal.setting(),
                _ => None,
            },
            explanation: match &error.cause {
                Cause::Refused(refusal) => answers::denial(refusal),
                Cause::TlsCertificate => answers::UNTRUSTED,
                _ => answers::explain(error.status()),
            },
            retry_after_seconds: error.retry_after.map(|wait| wait.as_secs().max(1)),
            upstream: error.next_hop.clone(),
            kind: error.cause.kind(),
        }
    }
}

impl Fetcher {
    /// Plans a fetch of the whole for `ask`, without a flight. The fetch validates `stored` if
    /// given. Its validity begins now.
    pub(super) fn plan_fetch(
        &self,
        ask: &Arc<RequestContext>,
        stored: Option<(ObjectKey, StoredResponse)>,
    ) -> Fetch {
        Fetch {
            ask: Arc::clone(ask),
            leader: None,
            reason: if stored.is_some() { ForwardReason::Stale } else { ForwardReason::UriMiss }.into(),
            stored,
            range: None,
            if_range: None,
            validity: self.cache.invalidations.snapshot(&ask.primary),
            conditional: false,
            leave: None,
            homes_asked: false,
        }
    }

    /// Starts a fetch as a task; the owner gets the outcome through the channel.
    pub(super) fn spawn_fetch(self: &Arc<Self>, fetch: Fetch) -> oneshot::Receiver<FetchOutcome> {
        let (owner, told) = oneshot::channel();
        let exchange = Arc::clone(self);
        tokio::spawn(in_place(|| exchange.fetch(fetch, owner)));
        told
    }

    /// Continues a fetch after its response has come, as a task. The owner gets the outcome through
    /// the channel.
    pub(super) fn spawn_answered(
        self: &Arc<Self>,
        fetch: Fetch,
        response: UpstreamResponse,
    ) -> oneshot::Receiver<FetchOutcome> {
        let (owner, told) = oneshot::channel();
        let exchange = Arc::clone(self);
        tokio::spawn(in_place(|| exchange.answered(fetch, owner, response)));
        told
    }

    /// Returns the reason why a response's own head forbids storing it. The URL is then remembered
    /// as not storable.
    pub(super) fn refused(&self, fetch: &Fetch, response: &UpstreamResponse) -> Option<Reason> {
        let refusal = self.cache.storage_policy(&fetch.ask, ReceivedHead::of(response)).err()?;
        self.remember(fetch, ReceivedHead::of(response), refusal);
        response.note_refusal(refusal.why);
        Some(refusal.why)
    }

    /// Remembers that responses of this URL cannot be stored. A refusal that concerns only this
    /// request is not remembered. Such refusals come from the request itself, or from its range or
    /// conditions, which differ in other requests.
    pub(super) fn remember(&self, fetch: &Fetch, response: ReceivedHead<'_>, refusal: StoreDenial) {
        let whole = ReceivedHead { status: StatusCode::OK, ..response };
        let is_for_request = match response.status {
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => true,
            // A 304 has the fields of the whole response, and is judged as the whole would be.
            StatusCode::NOT_MODIFIED => {
                self.cache.storage_policy(&fetch.ask, whole).err().is_none_or(|it| it.is_of_request)
            }
            _ => refusal.is_of_request,
        };
        if !is_for_request && !fetch.ask.shares_key() {
            self.passes.remember(fetch.ask.pass_key(), response.response_time);
        }
    }

    pub(super) async fn fetch(self: Arc<Self>, mut fetch: Fetch, mut owner: oneshot::Sender<FetchOutcome>) {
        match self.fetch_from_cluster(&mut fetch, &mut owner).await {
            HomeOutcome::Answered(response) => return self.answered(fetch, owner, *response).await,
            HomeOutcome::Failed(failure) => return land_failed(&fetch, owner, failure),
            HomeOutcome::Landed(landing) => return land(&fetch, owner, landing),
            HomeOutcome::Deserted => return self.metrics.fetches_abandoned.increment(),
            HomeOutcome::Origin => fetch.leader.iter().for_each(Leader::note_at_origin),
        }
        let response = match self.ask_while_wanted(&mut fetch, &mut owner, |fetch| self.send(fetch)).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => return fail(&fetch, owner, &error),
            None => return self.metrics.fetches_abandoned.increment(),
        };
        let response = ruled(&fetch, response, &self.metrics);
        self.answered(fetch, owner, response).await;
    }

    /// Asks while a request waits for the response, or while the fetch may continue without one.
    /// Returns `None` if neither holds.
    pub(super) async fn ask_while_wanted<F: Future>(
        &self,
        fetch: &mut Fetch,
        owner: &mut oneshot::Sender<FetchOutcome>,
        ask: impl FnOnce(&Fetch) -> F,
    ) -> Option<F::Output> {
        if owner.is_closed() && fetch.leave.is_none() && fetch.leader.as_ref().is_none_or(Leader::is_deserted)
        {
            // No request waited from the start: the fetch is sent only with a `Leave`.
            fetch.leave = Some(self.abandoned.begin(&fetch.ask)?);
        }
        let mut asking = pin!(ask(fetch));
        if fetch.leave.is_none() {
            let deserted = async {
                owner.closed().await;
                if let Some(leader) = &fetch.leader {
                    leader.deserted().await;
                }
            };
            tokio::select! {
                biased;
                outcome = &mut asking => return Some(outcome),
                () = deserted => {}
            }
            fetch.leave = Some(self.abandoned.begin(&fetch.ask)?);
        }
        Some(asking.await)
    }

    /// Handles a full or partial response: stores it, shares it, or passes it to its owner.
    pub(super) async fn receive(
        self: Arc<Self>,
        fetch: Fetch,
        owner: oneshot::Sender<FetchOutcome>,
        response: UpstreamResponse,
    ) {
        match self.plan(&fetch, response).await {
            Ok((keeping, response)) => self.share_and_store((fetch, keeping), owner, response).await,
            Err(private) => {
                if let Some(leader) = &fetch.leader {
                    leader.publish(FlightOutcome::Unshareable);
                }
                let _ = owner.send(FetchOutcome::Private(private));
            }
        }
    }

    /// Decides whether and how to store a response.
    async fn plan(
        &self,
        fetch: &Fetch,
        response: UpstreamResponse,
    ) -> Result<(StorePlan, UpstreamResponse), Box<UnsharedResponse>> {
        let response = super::neighbour_fetch::may_keep(response)?;
        let head = ReceivedHead::of(&response);
        let planned = match response.from_peer {
            Some(terms) if !terms.is_shared => Err(self.cache.denial_of_peer(&fetch.ask, head)),
            terms => self.cache.plan_store(fetch, head).await.map(|keeping| match terms {
                Some(terms) => keeping.under(terms, head.response_time),
                None => keeping,
            }),
        };
        match planned {
            Ok(keeping) => {
                self.passes.forget(fetch.ask.pass_key());
                Ok((keeping, response))
            }
            Err(refusal) => {
                self.remember(fetch, ReceivedHead::of(&response), refusal);
                response.note_refusal(refusal.why);
                Err(Box::new(UnsharedResponse { response, why: refusal.why }))
            }
        }
    }

    /// Shares a response and stores it.
    async fn share_and_store(
        &self,
        (mut fetch, keeping): (Fetch, StorePlan),
        owner: oneshot::Sender<FetchOutcome>,
        response: UpstreamResponse,
    ) {
        let arrived = Arc::new(store_plan::arrived(&keeping, &fetch, ReceivedHead::of(&response)));
        if arrived.length == Some(0) && !response.body.is_end_stream() {
            arrived.body.expect_trailers();
        }
        // attached before the window drops any bytes: the owner reads from the first one
        let first = arrived.body.attach(0);
        let fresh = self.note_sharing(&fetch.ask, &arrived.key, &arrived.head.policy, response.response_time);
        if let Some(leader) = &mut fetch.leader {
            // the origin may have sent the whole for a range: then other requests can share it
            leader.add_key(fetch.ask.flight(&arrived.key));
            leader.publish(if fresh {
                FlightOutcome::Shared(Arc::clone(&arrived))
            } else {
                FlightOutcome::Unshareable
            });
        }
        let told = Arc::clone(&arrived);
        let mut tell = Some(move || drop(owner.send(FetchOutcome::Shared(told, first))));
        // without a body there is no last piece to hold back: the head is held back instead
        if arrived.length != Some(0)
            && let Some(tell) = tell.take()
        {
            tell();
        }
        self.copy_body((fetch, keeping), &arrived, response.body, || {
            tell.into_iter().for_each(|tell| tell())
        })
        .await;
    }

    /// Moves the body from the origin to its readers and the store. Calls `kept` when lookups find
    /// the body.
    async fn copy_body(
        &self,
        (mut fetch, keeping): (Fetch, StorePlan),
        arrived: &ArrivingResponse,
        mut body: StreamBody,
        kept: impl FnOnce(),
    ) {
        let record = ObjectMetadata::Response(Arc::clone(&arrived.head));
        let mut filing = BodyWriter::new(
            &self.cache.objects,
            &arrived.body,
            arrived.key.clone(),
            record,
            (arrived.length, fetch.validity.clone()),
        )
        .keeping(keeping.body);
        let mut trailers: Option<HeaderMap> = None;
        let mut unseen = 0;
        loop {
            if unseen >= SHOWN_BYTES && !body.is_end_stream() {
                // A body that is here whole would else be read to its end before its readers run.
                after_others().await;
                unseen = 0;
            }
            let frame = match next_frame(&mut body, &arrived.body, fetch.leave.is_some()).await {
                BodyEvent::Frame(Some(frame)) => frame,
                BodyEvent::Frame(None) => break,
                BodyEvent::Deserted => {
                    fetch.leave = self.abandoned.begin(&fetch.ask);
                    if fetch.leave.is_none() {
                        self.metrics.fetches_abandoned.increment();
                        return filing.cut(LEFT.into());
                    }
                    continue;
                }
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) if filing.has_room(bytes.len()) => {
                    unseen += bytes.len();
                    filing.append(bytes).await;
                }
                Ok(Ok(_)) => return filing.cut("more bytes than announced".into()),
                Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
                Err(error) => return filing.cut(error.to_string()),
            }
            if !filing.wanted() {
                return filing.cut(LEFT.into());
            }
        }
        let trailers = trailers
            .map(|trailers| store_plan::shared_trailers(&fetch.ask, &keeping, &arrived.head, trailers));
        let leader = fetch.leader.take();
        if fetch.validity.is_unchanged() && keeping.body != BodyStorage::Relayed {
            self.cache.write_notes(&fetch.ask, &keeping, &arrived.head, &fetch.validity).await;
        }
        let ask = Arc::clone(&fetch.ask);
        let kept = || {
            // from here on lookups find the body, or must ask the origin again
            drop((self.cache.promised.came(&ask), leader));
            kept();
        };
        filing.complete(trailers, kept).await;
    }
}

const LEFT: &str = "every client has left";

const _: () = assert!(READ_BUFFER_BYTES == crate::transport::spare::BODY_BYTES, "what a piece keeps");
