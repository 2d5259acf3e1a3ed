//! Fetching: a request goes to the origin, and what comes back is shared, stored or passed on.
//!
//! A fetch is a task of its own: the client that caused it may leave without harm to others. It
//! answers its *owner*, the request that caused it, and lands its flight for the followers. One
//! that nobody else waits for, and whose response is not expected to be stored, is no task but a
//! part of its owner's request. When all who waited have left, it ends, but for a few that fill the
//! cache ([`super::abandoned`]).

use super::abandoned::Leave;
use super::answers;
use super::body_writer::BodyWriter;
use super::denials;
use super::fetcher::Fetcher;
use super::flight::{FlightOutcome, Leader};
use super::invalidations::ValiditySnapshot;
use super::lookup::StoredResponse;
use super::metadata::{ObjectMetadata, ResponseMetadata};
use super::request::RequestContext;
use super::ruling::ruled;
use super::shared_body::{BodyReader, SharedBody};
use super::store_plan;
use super::store_plan::{StoreDenial, StorePlan};
use super::upstream_request::upstream_request;
use crate::boxed::in_place;
use crate::message::{BodyError, StreamBody};
use crate::upstream::{Cause, UpstreamError, UpstreamResponse};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use http_body::{Body, Frame};
use shoal_core::{FieldLines, ObjectKey, Timestamp};
use shoal_semantics::status_fields::ProxyError;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// What a fetch needs to know.
pub struct Fetch {
    /// The request that caused it.
    pub ask: Arc<RequestContext>,
    /// The flight that it leads, if any.
    pub leader: Option<Leader>,
    /// The stored response to validate, with its key.
    pub stored: Option<(ObjectKey, StoredResponse)>,
    /// The Range to ask for; `None` asks for the whole.
    pub range: Option<HeaderValue>,
    /// The validator that goes with it as If-Range.
    pub if_range: Option<HeaderValue>,
    /// Whether what it brings is still valid.
    pub validity: ValiditySnapshot,
    /// Whether the client's own conditions go along. They do where the response is not expected to
    /// be storable, and a 304 is then for the client.
    pub conditional: bool,
    /// The right to go on while nobody waits for it.
    pub leave: Option<Leave>,
}

/// What the owner of a fetch is told.
pub enum FetchOutcome {
    /// A response that is being kept; its body is arriving, and the reader is attached at its
    /// start.
    Shared(Arc<ArrivingResponse>, Option<BodyReader>),
    /// The stored response was validated by who is at this address; this is it, refreshed.
    Refreshed(StoredResponse, SocketAddr),
    /// A response for the owner alone.
    Private(Box<UnsharedResponse>),
    /// No response.
    Failed(Arc<FetchFailure>),
}

/// A response that is arriving.
pub struct ArrivingResponse {
    /// Its key.
    pub key: ObjectKey,
    /// Its head.
    pub head: Arc<ResponseMetadata>,
    /// Its head as who asked for it gets it: with the fields that are for one client alone
    /// (`private="…"`).
    pub own_head: Arc<ResponseMetadata>,
    /// Its body.
    pub body: Arc<SharedBody>,
    /// Its length, when known beforehand.
    pub length: Option<u64>,
    /// The nominated fields of its Vary and the values that selected it; `None` without Vary.
    pub selecting: Option<SelectingFields>,
    /// Whether the URL was not invalidated since it was asked for.
    pub validity: ValiditySnapshot,
    /// Who sent it, for the log.
    pub upstream: SocketAddr,
}

/// What selects a variant: the nominated fields and their values, normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectingFields {
    /// Sorted names.
    pub names: Vec<http::HeaderName>,
    /// Values of the request that was asked.
    pub values: Vec<u8>,
}

/// A response that only its owner gets.
pub struct UnsharedResponse {
    /// As it came from upstream.
    pub response: UpstreamResponse,
    /// Why it is not stored, for Cache-Status.
    pub why: &'static str,
}

/// What is known of a response before its body.
#[derive(Clone, Copy)]
pub struct ReceivedHead<'a> {
    /// Its status.
    pub status: StatusCode,
    /// The version that the origin spoke.
    pub version: Version,
    /// Its fields.
    pub fields: &'a FieldLines,
    /// Its length, when the framing tells.
    pub length: Option<u64>,
    /// When it was asked for.
    pub request_time: Timestamp,
    /// When its head had arrived.
    pub response_time: Timestamp,
    /// Who sent it.
    pub peer: SocketAddr,
}

impl<'a> ReceivedHead<'a> {
    /// The head of `response`.
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
    /// The status for the client.
    pub status: StatusCode,
    /// The error type of RFC 9209.
    pub proxy_error: ProxyError,
    /// Whether a rule of ours refused, rather than the origin failing.
    pub denied: bool,
    /// What the client is told.
    pub explanation: &'static str,
    /// When to try again, in seconds.
    pub retry_after_seconds: Option<u64>,
    /// Who was asked, for the log.
    pub upstream: String,
}

impl FetchFailure {
    /// What the client and the logs are told of an error that came of asking for `url`. What the
    /// rules refuse is told seldom, since any client can bring it about as often as it likes; and
    /// of an upstream that is down it is told once that it is.
    pub fn of(url: &str, error: &UpstreamError) -> Self {
        match &error.cause {
            Cause::Refused(refusal) => denials::tell(refusal, &url),
            _ if error.is_told => tracing::debug!(url, %error, "an upstream that is down could not be used"),
            _ => tracing::info!(url, %error, "an origin could not be used"),
        }
        Self {
            status: error.status(),
            proxy_error: error.proxy_status(),
            denied: matches!(error.cause, Cause::Refused(_)),
            explanation: match &error.cause {
                Cause::Refused(refusal) => answers::denial(refusal),
                _ => answers::explain(error.status()),
            },
            retry_after_seconds: error.retry_after.map(|wait| wait.as_secs().max(1)),
            upstream: error.next_hop.clone(),
        }
    }
}

impl Fetcher {
    /// A fetch of the whole for `ask`, led by nobody, validating `stored` if given. It is valid
    /// from now on.
    pub(super) fn plan_fetch(
        &self,
        ask: &Arc<RequestContext>,
        stored: Option<(ObjectKey, StoredResponse)>,
    ) -> Fetch {
        Fetch {
            ask: Arc::clone(ask),
            leader: None,
            stored,
            range: None,
            if_range: None,
            validity: self.cache.invalidations.snapshot(&ask.primary),
            conditional: false,
            leave: None,
        }
    }

    /// Starts a fetch as a task; its owner is told through the channel.
    pub(super) fn spawn_fetch(self: &Arc<Self>, fetch: Fetch) -> oneshot::Receiver<FetchOutcome> {
        let (owner, told) = oneshot::channel();
        let exchange = Arc::clone(self);
        tokio::spawn(in_place(|| exchange.fetch(fetch, owner)));
        told
    }

    /// Goes on with a fetch whose response has come, as a task; its owner is told through the
    /// channel.
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

    /// Why a response may not be stored, as far as it tells by itself, in a word; it is remembered
    /// that its URL's may not be.
    pub(super) fn refused(&self, fetch: &Fetch, response: &UpstreamResponse) -> Option<&'static str> {
        let refusal = self.cache.storage_policy(fetch, ReceivedHead::of(response)).err()?;
        self.remember(fetch, ReceivedHead::of(response), refusal);
        Some(refusal.why)
    }

    /// Remembers that what this URL gives may not be stored, unless it is the request alone that
    /// this response cannot be stored for: by what it says itself, or by its range or its
    /// conditions, of which others have none or others.
    pub(super) fn remember(&self, fetch: &Fetch, response: ReceivedHead<'_>, refusal: StoreDenial) {
        let whole = ReceivedHead { status: StatusCode::OK, ..response };
        let is_for_request = match response.status {
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => true,
            // It says what the whole would say.
            StatusCode::NOT_MODIFIED => {
                self.cache.storage_policy(fetch, whole).err().is_none_or(|it| it.is_of_request)
            }
            _ => refusal.is_of_request,
        };
        if !is_for_request {
            self.passes.remember(fetch.ask.pass_key(), response.response_time);
        }
    }

    pub(super) async fn fetch(self: Arc<Self>, mut fetch: Fetch, mut owner: oneshot::Sender<FetchOutcome>) {
        let response = match self.ask_while_wanted(&mut fetch, &mut owner).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => return fail(&fetch, owner, &error),
            None => return self.metrics.fetches_abandoned.increment(),
        };
        let response = ruled(&fetch, response);
        self.answered(fetch, owner, response).await;
    }

    /// Asks the origin for as long as somebody waits for its response, or the fetch may go on for
    /// nobody; `None` when neither holds.
    async fn ask_while_wanted(
        &self,
        fetch: &mut Fetch,
        owner: &mut oneshot::Sender<FetchOutcome>,
    ) -> Option<Result<UpstreamResponse, UpstreamError>> {
        if owner.is_closed() && fetch.leave.is_none() && fetch.leader.as_ref().is_none_or(Leader::is_deserted)
        {
            // Nobody waited from the start: nothing is sent without leave.
            fetch.leave = Some(self.abandoned.begin(&fetch.ask)?);
        }
        let mut asking = pin!(self.upstreams.fetch(upstream_request(fetch)));
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

    /// A full or partial response: keep it, share it, or pass it to its owner.
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

    /// Whether a response may be kept, and how.
    async fn plan(
        &self,
        fetch: &Fetch,
        response: UpstreamResponse,
    ) -> Result<(StorePlan, UpstreamResponse), Box<UnsharedResponse>> {
        match self.cache.plan_store(fetch, ReceivedHead::of(&response)).await {
            Ok(keeping) => {
                self.passes.forget(fetch.ask.pass_key());
                Ok((keeping, response))
            }
            Err(refusal) => {
                self.remember(fetch, ReceivedHead::of(&response), refusal);
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
        // attached before anything can be dropped from the window: the owner reads from the first
        // byte
        let first = arrived.body.attach(0);
        let fresh = self.note_sharing(&fetch.ask, &arrived.key, &arrived.head.policy, response.response_time);
        if let Some(leader) = &mut fetch.leader {
            // the origin may have sent the whole for a range: then others can have theirs from it
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

    /// Moves the body from the origin to its readers and the store. `kept` is called when lookups
    /// find it.
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
        );
        let mut trailers: Option<HeaderMap> = None;
        loop {
            let frame = match next_frame(&mut body, &arrived.body, fetch.leave.is_some()).await {
                Next::Frame(Some(frame)) => frame,
                Next::Frame(None) => break,
                Next::Deserted => {
                    fetch.leave = self.abandoned.begin(&fetch.ask);
                    if fetch.leave.is_none() {
                        self.metrics.fetches_abandoned.increment();
                        return filing.cut(LEFT.into());
                    }
                    continue;
                }
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) if filing.has_room(bytes.len()) => filing.append(bytes).await,
                Ok(Ok(_)) => return filing.cut("more bytes than announced".into()),
                Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
                Err(error) => return filing.cut(error.to_string()),
            }
            if !filing.wanted() {
                return filing.cut(LEFT.into());
            }
        }
        let trailers =
            trailers.map(|trailers| store_plan::shared_trailers(&fetch.ask, &arrived.head, trailers));
        let leader = fetch.leader.take();
        if fetch.validity.is_unchanged() {
            self.cache.write_notes(&fetch.ask, &keeping, &arrived.head, &fetch.validity).await;
        }
        let kept = || {
            // from here on lookups find it, or must ask anew
            drop(leader);
            kept();
        };
        filing.complete(trailers, kept).await;
    }
}

/// What comes next while a body arrives.
enum Next {
    /// A frame; `None` at the end.
    Frame(Option<Result<Frame<Bytes>, BodyError>>),
    /// No frame yet, and nobody who waits for one.
    Deserted,
}

/// The next frame, awaited for as long as somebody reads the body or it `may_go_on` for nobody.
async fn next_frame(body: &mut StreamBody, readers: &SharedBody, may_go_on: bool) -> Next {
    poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(Next::Frame(frame)),
        Poll::Pending if may_go_on => Poll::Pending,
        Poll::Pending => readers.poll_deserted(context).map(|()| Next::Deserted),
    })
    .await
}

fn fail(fetch: &Fetch, owner: oneshot::Sender<FetchOutcome>, error: &UpstreamError) {
    let failure = Arc::new(FetchFailure::of(&fetch.ask.target.url, error));
    if let Some(leader) = &fetch.leader {
        leader.publish(FlightOutcome::Failed(Arc::clone(&failure)));
    }
    let _ = owner.send(FetchOutcome::Failed(failure));
}

const LEFT: &str = "every client has left";
