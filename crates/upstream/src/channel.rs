//! Channel of one attempt: an HTTP/1 connection or an HTTP/2 stream, taken from the pool or opened.

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
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Target of an attempt.
#[derive(Clone, Copy)]
pub(super) struct AttemptTarget<'a> {
    /// Origin to ask.
    pub origin: &'a Origin,
    /// Rules for the origin's addresses, if the client named the origin.
    pub rules: Option<&'a ForwardRules>,
    /// `true` for a health check. Checks have their own connections, so that they do not wait for
    /// those of requests.
    pub is_check: bool,
    /// Connection pool of the origin, if already known.
    pub place: Option<&'a OriginPoolHandle>,
    /// Client that asks.
    pub caller: &'a Caller,
}

/// Requirements on a channel.
#[derive(Clone, Copy)]
pub(super) struct ChannelRequirements {
    /// The connection must not have carried a request before.
    pub fresh: bool,
    /// HTTP/2 is not allowed.
    pub http1_only: bool,
}

/// Channel found for an attempt.
pub(super) struct AcquiredChannel {
    /// The channel.
    pub carrier: RequestChannel,
    /// The connection carried requests before.
    pub reused: bool,
    /// Time at which the channel was found.
    pub at: Instant,
}

/// Channel that carries an attempt.
pub(super) enum RequestChannel {
    /// HTTP/1 connection.
    H1(Lease),
    /// Stream of an HTTP/2 connection.
    H2(StreamLease),
}

/// Response head that has not been checked yet.
pub(super) enum Answer {
    /// Response on an HTTP/1 connection.
    H1(Box<ResponseStart>),
    /// Response on a stream, with the task that may still send the request's body.
    H2(Response<h2::RecvStream>, Option<UploadTask>, StreamLease),
}

/// Head of an HTTP/1 response, with the state for reading its body.
pub(super) struct ResponseStart {
    head: ResponseHead,
    /// Transfer coding and persistence as the head declares, read before its fields are taken.
    is_chunked: bool,
    may_persist: bool,
    requesting: RequestWriter,
    lease: Lease,
}

impl RequestChannel {
    /// Takes a connection from the pool or opens one, starting at `now`. Waiting paths are boxed:
    /// otherwise every request's future would be larger.
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
        let checkout = match aim.caller.unwanted() {
            None => place.try_checkout(wish.is_for_one(), aim.caller.party()),
            Some(background) => match place.try_checkout_spare(wish.is_for_one(), background) {
                None => {
                    background.turn_away();
                    return Err(UpstreamError::new(Cause::ConnectionLimit, aim.origin.authority(), NO_SPARE));
                }
                found => found,
            },
        };
        match checkout {
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
        let deadline = now + aim.origin.connect_timeout().unwrap_or(inner.settings.connect_timeout);
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
            // Another opener may have left room on an HTTP/2 connection.
            && let Some(stream) = place.stream_with_capacity(aim.caller.party())
        {
            return Ok(inner.reused(Self::H2(stream), Instant::now()));
        }
        let carrier = Self::open(inner, aim, place, permit, wish.http1_only, deadline).await?;
        Ok(AcquiredChannel { carrier, reused: false, at: Instant::now() })
    }

    /// Opens a connection. The code of a future is made anew in each crate that polls it. This one,
    /// with all of HTTP/2 and TLS in it, is therefore made and boxed in a plain function of this
    /// crate: four copies of it took half a megabyte. A connection costs far more than its box.
    #[inline(never)]
    fn open<'a>(
        inner: &'a Inner,
        aim: AttemptTarget<'a>,
        place: &'a OriginPoolHandle,
        permit: Permit,
        http1_only: bool,
        deadline: Instant,
    ) -> Pin<Box<dyn Future<Output = Result<Self, UpstreamError>> + Send + 'a>> {
        Box::pin(Self::open_within(inner, aim, place, permit, http1_only, deadline))
    }

    async fn open_within(
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
        if let Some(links) = &inner.links {
            let (socket, peer) = links.open(origin, deadline).await.map_err(failed)?;
            let connection = H1::open(socket, peer, place, &inner.metrics).into_peer_link();
            return Ok(Self::H1(place.lease(connection, permit, false)));
        }
        let stream = dial(&inner.names, origin, (aim.rules, aim.caller), deadline).await?;
        let gone = |error: std::io::Error| failed((Cause::Terminated, error.to_string()));
        let peer = stream.peer_addr().map_err(gone)?;
        let (socket, protocol) = match origin.scheme {
            Scheme::Https => {
                let handshake = inner.trust.connect(stream, origin.server_name(), http1_only);
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
    /// Returns `true` if the connection must not be shared.
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
    /// Creates the answer with this head on an HTTP/1 connection.
    pub fn over_http1(head: ResponseHead, requesting: RequestWriter, lease: Lease) -> Self {
        let is_chunked = head.fields.has(&TRANSFER_ENCODING);
        let may_persist = persists(&head);
        Self::H1(Box::new(ResponseStart { head, is_chunked, may_persist, requesting, lease }))
    }

    /// Sends a request on a stream and waits for the head of its final response, at most `timeout`
    /// after the last progress. A failed connection is retired.
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
                // A failure of one stream does not affect others, but a silent or closed connection
                // would fail the next request too.
                if matches!(failure.cause, Cause::ResponseTimeout | Cause::Terminated) {
                    lease.retire();
                }
                Err(failure)
            }
        }
    }

    /// Records that the origin authenticates connections: this connection carries no other client's
    /// requests from now on.
    pub fn close_after(&mut self) {
        match self {
            Self::H1(responded) => responded.lease.close_after(),
            Self::H2(.., lease) => lease.retire(),
        }
    }

    /// Records that bytes may follow the response: the connection rests before its next request.
    pub fn rest_after(&mut self) {
        if let Self::H1(responded) = self {
            responded.lease.rests = true;
        }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::H1(responded) => responded.head.status,
            Self::H2(response, ..) => response.status(),
        }
    }

    /// Returns the HTTP version of the origin.
    pub fn version(&self) -> Version {
        match self {
            Self::H1(responded) => responded.head.version,
            Self::H2(..) => Version::HTTP_2,
        }
    }

    /// Takes the fields.
    pub fn take_fields(&mut self) -> FieldLines {
        match self {
            Self::H1(responded) => std::mem::take(&mut responded.head.fields),
            Self::H2(response, ..) => std::mem::take(response.headers_mut()).lines().collect(),
        }
    }

    /// Returns the origin's address.
    pub fn peer(&self) -> SocketAddr {
        match self {
            Self::H1(responded) => responded.lease.connection.peer(),
            Self::H2(.., lease) => lease.connection.peer(),
        }
    }

    /// Returns `true` if the response has ended with its head, regardless of its fields.
    pub fn ends_with_head(&self) -> bool {
        match self {
            Self::H1(_) => false,
            Self::H2(response, ..) => response.body().is_end_stream(),
        }
    }

    /// Returns the body's source. `length` is the body's length if the framing gives one.
    pub fn source(self, length: Option<u64>) -> FrameSource {
        match self {
            Self::H1(responded) => {
                let ResponseStart { is_chunked, may_persist, requesting, lease, .. } = *responded;
                let responding = ResponseReader::new(length, is_chunked, may_persist, requesting);
                FrameSource::H1 { responding, lease: Some(lease) }
            }
            Self::H2(response, pump, lease) => {
                FrameSource::H2 { frames: response.into_body(), lease: Some(lease), pump }
            }
        }
    }

    /// Returns the stream of a switched connection. `kept` lives as long as the stream.
    pub fn upgraded(self, kept: Option<InFlight>) -> Result<Box<dyn TunnelIo>, (Cause, &'static str)> {
        let Self::H1(responded) = self else {
            return Err((Cause::UpgradeFailed, "101 over HTTP/2"));
        };
        let (connection, occupied) = responded.lease.into_parts();
        let (io, open) = connection.into_tunnel();
        Ok(Box::new(TunnelStream::new(io, (occupied, open, kept))))
    }
}

/// Reason for which a background request gets no connection.
pub(super) const NO_SPARE: &str = "no connection is to spare for a prefetch";
