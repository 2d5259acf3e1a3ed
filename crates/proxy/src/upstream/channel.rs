//! What carries one attempt: an HTTP/1 connection or a stream of an HTTP/2 connection, found or
//! opened.

use super::Inner;
use super::dial::dial;
use super::error::{Cause, UpstreamError};
use super::exchanged::{Caller, Origin, Scheme};
use super::group::InFlight;
use super::head::{AttemptFailure, AttemptHead, AttemptStreams};
use super::http1::{H1, RequestWriter, ResponseReader, persists};
use super::http2::{H2, UploadTask};
use super::pool::{Checkout, Lease, OriginPoolHandle, OriginPoolKey, Permit, StreamLease};
use super::response_body::FrameSource;
use super::socket::OriginStream;
use super::tls::Protocol;
use super::tunnelled::TunnelStream;
use crate::access::ForwardRules;
use crate::message::TunnelIo;
use http::header::TRANSFER_ENCODING;
use http::{Response, StatusCode, Version};
use shoal_core::{FieldLines, Fields};
use shoal_wire::ResponseHead;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Where an attempt goes.
#[derive(Clone, Copy)]
pub(super) struct AttemptTarget<'a> {
    /// Who is asked.
    pub origin: &'a Origin,
    /// The rules for its addresses, when the client named it.
    pub rules: Option<&'a ForwardRules>,
    /// A check of the upstream's health, which has connections of its own: it must not wait for
    /// those that requests hold.
    pub is_check: bool,
    /// The place of its connections, where it is known already.
    pub place: Option<&'a OriginPoolHandle>,
    /// The client that asks.
    pub caller: &'a Caller,
}

/// What a carrier has to be like.
#[derive(Clone, Copy)]
pub(super) struct ChannelRequirements {
    /// It carried no request before.
    pub fresh: bool,
    /// It is no HTTP/2 connection.
    pub http1_only: bool,
}

/// A carrier that was found.
pub(super) struct AcquiredChannel {
    /// The carrier.
    pub carrier: RequestChannel,
    /// It carried requests before.
    pub reused: bool,
    /// When it was found.
    pub at: Instant,
}

/// What carries an attempt.
pub(super) enum RequestChannel {
    /// A whole connection.
    H1(Lease),
    /// One of a connection's streams.
    H2(StreamLease),
}

/// A response whose head has arrived, not yet judged.
pub(super) enum Answer {
    /// On a connection of its own.
    H1(Box<Responded>),
    /// On a stream, beside what still sends the request's body.
    H2(Response<h2::RecvStream>, Option<UploadTask>, StreamLease),
}

/// The head of a response over HTTP/1, and what is needed for its body.
pub(super) struct Responded {
    head: ResponseHead,
    /// As the head says, before its fields are taken.
    is_chunked: bool,
    may_persist: bool,
    requesting: RequestWriter,
    lease: Lease,
}

impl RequestChannel {
    /// Takes a connection from the pool or opens one, at `now`. What is waited for is boxed, since
    /// all requests would carry the room for it.
    pub async fn find(
        inner: &Inner,
        aim: AttemptTarget<'_>,
        wish: ChannelRequirements,
        now: Instant,
    ) -> Result<AcquiredChannel, UpstreamError> {
        let looked_up;
        let place = match aim.place {
            Some(place) => place,
            None => {
                let rules = aim.rules.map_or(0, ForwardRules::id);
                looked_up = inner.pool.place(&OriginPoolKey {
                    origin: aim.origin.clone(),
                    rules,
                    is_check: aim.is_check,
                });
                &looked_up
            }
        };
        if !wish.fresh
            && let Some(lease) = place.pinned_for(aim.caller)
        {
            return Ok(inner.reused(Self::H1(lease), now));
        }
        match place.try_checkout(wish.is_for_one(), aim.caller.party()) {
            Some(Checkout::Reused(lease)) => Ok(inner.reused(Self::H1(lease), now)),
            Some(Checkout::Stream(stream)) => Ok(inner.reused(Self::H2(stream), now)),
            ticket => Box::pin(Self::wait(inner, aim, place, ticket, wish, now)).await,
        }
    }

    /// Waits for a connection or opens one.
    async fn wait(
        inner: &Inner,
        aim: AttemptTarget<'_>,
        place: &OriginPoolHandle,
        ticket: Option<Checkout>,
        wish: ChannelRequirements,
        now: Instant,
    ) -> Result<AcquiredChannel, UpstreamError> {
        let deadline = now + inner.settings.connect_timeout;
        let failed = |(cause, detail)| UpstreamError::new(cause, aim.origin.authority(), detail);
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => place.checkout(wish.is_for_one(), aim.caller.party(), deadline).await.map_err(failed)?,
        };
        let permit = match ticket {
            Checkout::Reused(lease) => return Ok(inner.reused(Self::H1(lease), Instant::now())),
            Checkout::Stream(stream) => return Ok(inner.reused(Self::H2(stream), Instant::now())),
            Checkout::Open(permit) => permit,
        };
        let _opening = match wish.http1_only || aim.origin.scheme == Scheme::Http {
            true => None,
            false => place.wait_to_open(deadline).await.map_err(failed)?,
        };
        if !wish.http1_only
            && !wish.fresh
            // Whoever opened before may have left room on an HTTP/2 connection.
            && let Some(stream) = place.stream_with_capacity(aim.caller.party())
        {
            return Ok(inner.reused(Self::H2(stream), Instant::now()));
        }
        let carrier = Self::open(inner, aim, place, permit, wish.http1_only, deadline).await?;
        Ok(AcquiredChannel { carrier, reused: false, at: Instant::now() })
    }

    async fn open(
        inner: &Inner,
        aim: AttemptTarget<'_>,
        place: &OriginPoolHandle,
        permit: Permit,
        http1_only: bool,
        deadline: Instant,
    ) -> Result<Self, UpstreamError> {
        let origin = aim.origin;
        let failed = |(cause, detail)| UpstreamError::new(cause, origin.authority(), detail);
        let late = |_| failed((Cause::ConnectTimeout, "the handshake took too long".into()));
        let stream = dial(&inner.names, origin, (aim.rules, aim.caller), deadline).await?;
        let gone = |error: std::io::Error| failed((Cause::Terminated, error.to_string()));
        let peer = stream.peer_addr().map_err(gone)?;
        let (socket, protocol) = match origin.scheme {
            Scheme::Https => {
                let handshake = inner.trust.connect(stream, &origin.host, http1_only);
                timeout_at(deadline, handshake).await.map_err(late)?.map_err(failed)?
            }
            Scheme::H2c if !http1_only => (OriginStream::Plain(stream), Protocol::Http2),
            Scheme::Http | Scheme::H2c => (OriginStream::Plain(stream), Protocol::Http1),
        };
        match protocol {
            Protocol::Http1 => {
                let connection = H1::open(socket, peer, place, &inner.metrics);
                Ok(Self::H1(place.lease(connection, permit, !http1_only)))
            }
            Protocol::Http2 => {
                let opened = H2::open(socket, peer, permit, place, &inner.metrics);
                let connection = timeout_at(deadline, opened).await.map_err(late)?.map_err(failed)?;
                Ok(Self::H2(place.share(connection, aim.caller.party())))
            }
        }
    }
}

impl ChannelRequirements {
    /// Whether the carrier must be a connection that nobody else uses.
    fn is_for_one(self) -> bool {
        self.fresh || self.http1_only
    }
}

impl Inner {
    fn reused(&self, carrier: RequestChannel, at: Instant) -> AcquiredChannel {
        self.metrics.upstream_reused.increment();
        AcquiredChannel { carrier, reused: true, at }
    }
}

impl Answer {
    /// The answer that `head` begins, to what was sent on this connection.
    pub fn over_http1(head: ResponseHead, requesting: RequestWriter, lease: Lease) -> Self {
        let is_chunked = head.fields.has(&TRANSFER_ENCODING);
        let may_persist = persists(&head);
        Self::H1(Box::new(Responded { head, is_chunked, may_persist, requesting, lease }))
    }

    /// Sends a request on a stream and waits for the head of its final response, at most `timeout`
    /// after the last sign of life. A connection that failed is given up.
    pub async fn over_http2(
        lease: StreamLease,
        head: &AttemptHead,
        origin: &Origin,
        sending: &AttemptStreams,
        timeout: Duration,
    ) -> Result<Self, AttemptFailure> {
        let request = head.http2(origin.scheme.name(), origin.authority())?;
        match sending.limit(timeout, lease.connection.send(request, sending)).await {
            Ok((response, pump)) => Ok(Self::H2(response, pump, lease)),
            Err(failure) => {
                // One stream's failure is its own; but a connection that is silent or gone fails
                // the next request too.
                if matches!(failure.cause, Cause::ResponseTimeout | Cause::Terminated) {
                    lease.retire();
                }
                Err(failure)
            }
        }
    }

    /// Takes note that the origin authenticates connections: this one carries no other client's
    /// requests from now on.
    pub fn close_after(&mut self) {
        match self {
            Self::H1(responded) => responded.lease.close_after(),
            Self::H2(.., lease) => lease.retire(),
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::H1(responded) => responded.head.status,
            Self::H2(response, ..) => response.status(),
        }
    }

    /// The version that the origin spoke.
    pub fn version(&self) -> Version {
        match self {
            Self::H1(responded) => responded.head.version,
            Self::H2(..) => Version::HTTP_2,
        }
    }

    /// The fields; they are taken out.
    pub fn take_fields(&mut self) -> FieldLines {
        match self {
            Self::H1(responded) => std::mem::take(&mut responded.head.fields),
            Self::H2(response, ..) => std::mem::take(response.headers_mut()).lines().collect(),
        }
    }

    /// The address that it came from.
    pub fn peer(&self) -> SocketAddr {
        match self {
            Self::H1(responded) => responded.lease.connection.peer(),
            Self::H2(.., lease) => lease.connection.peer(),
        }
    }

    /// Whether the response is known to have ended with its head, whatever the fields say.
    pub fn ends_with_head(&self) -> bool {
        match self {
            Self::H1(_) => false,
            Self::H2(response, ..) => response.body().is_end_stream(),
        }
    }

    /// The body's source, of `length` if the framing tells.
    pub fn source(self, length: Option<u64>) -> FrameSource {
        match self {
            Self::H1(responded) => {
                let Responded { is_chunked, may_persist, requesting, lease, .. } = *responded;
                let responding = ResponseReader::new(length, is_chunked, may_persist, requesting);
                FrameSource::H1 { responding, lease: Some(lease) }
            }
            Self::H2(response, pump, lease) => {
                FrameSource::H2 { frames: response.into_body(), lease: Some(lease), pump }
            }
        }
    }

    /// The far end of a switched connection; `kept` lives as long.
    pub fn upgraded(self, kept: Option<InFlight>) -> Result<Box<dyn TunnelIo>, (Cause, &'static str)> {
        let Self::H1(responded) = self else {
            return Err((Cause::UpgradeFailed, "101 over HTTP/2"));
        };
        let (connection, occupied) = responded.lease.into_parts();
        let (io, open) = connection.into_tunnel();
        Ok(Box::new(TunnelStream::new(io, (occupied, open, kept))))
    }
}
