//! What carries one attempt: an HTTP/1 connection or a stream of an HTTP/2 connection, found or opened.

use super::Inner;
use super::dial::dial;
use super::error::{Cause, UpstreamError};
use super::exchanged::{Origin, Scheme};
use super::group::InFlight;
use super::head::{Failure, Head, Sending};
use super::http1::{H1, Requesting, Responding, persists};
use super::http2::{H2, Pump};
use super::incoming::Source;
use super::pool::{Lease, PlaceHandle, PlaceKey, StreamLease, Ticket};
use super::socket::Socket;
use super::tls::Protocol;
use super::tunnelled::Tunnelled;
use crate::access::ForwardRules;
use crate::message::TunnelIo;
use http::header::TRANSFER_ENCODING;
use http::{Response, StatusCode, Version};
use shoal_core::{FieldLines, Fields};
use shoal_wire::ResponseHead;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// Where an attempt goes.
#[derive(Clone, Copy)]
pub(super) struct Aim<'a> {
    /// Who is asked.
    pub origin: &'a Origin,
    /// The rules for its addresses, when the client named it.
    pub rules: Option<&'a ForwardRules>,
    /// A check of the upstream's health, which has connections of its own: it must not wait for those that requests hold.
    pub is_check: bool,
}

/// What carries an attempt.
pub(super) enum Carrier {
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
    H2(Response<h2::RecvStream>, Option<Pump>, StreamLease),
}

/// The head of a response over HTTP/1, and what is needed for its body.
pub(super) struct Responded {
    head: ResponseHead,
    /// As the head says, before its fields are taken.
    is_chunked: bool,
    may_persist: bool,
    requesting: Requesting,
    lease: Lease,
}

impl Carrier {
    /// Takes a connection from the pool or opens one; tells whether it carried requests before. What is rarely waited for is
    /// boxed, since all requests carry the room for it.
    pub async fn find(
        inner: &Inner,
        aim: Aim<'_>,
        fresh: bool,
        http1_only: bool,
    ) -> Result<(Self, bool), UpstreamError> {
        let deadline = Instant::now() + inner.settings.connect_timeout;
        let rules = aim.rules.map_or(0, ForwardRules::id);
        let key = PlaceKey { origin: aim.origin.clone(), rules, is_check: aim.is_check };
        let place = inner.pool.place(&key);
        let failed = |(cause, detail)| UpstreamError::new(cause, aim.origin.authority(), detail);
        match place.ticket(fresh || http1_only, deadline).await.map_err(failed)? {
            Ticket::Reused(lease) => Ok(inner.reused(Self::H1(lease))),
            Ticket::Stream(stream) => Ok(inner.reused(Self::H2(stream))),
            Ticket::Open(permit) if http1_only || aim.origin.scheme == Scheme::Http => {
                let opened = Self::open(inner, aim, &place, permit, http1_only, deadline);
                Ok((Box::pin(opened).await?, false))
            }
            Ticket::Open(permit) => {
                let _opening = Box::pin(place.opening(deadline)).await.map_err(failed)?;
                // Whoever opened before may have left room on an HTTP/2 connection.
                if let Some(stream) = place.roomy_stream().filter(|_| !fresh) {
                    return Ok(inner.reused(Self::H2(stream)));
                }
                let opened = Self::open(inner, aim, &place, permit, false, deadline);
                Ok((Box::pin(opened).await?, false))
            }
        }
    }

    async fn open(
        inner: &Inner,
        aim: Aim<'_>,
        place: &PlaceHandle,
        permit: OwnedSemaphorePermit,
        http1_only: bool,
        deadline: Instant,
    ) -> Result<Self, UpstreamError> {
        let origin = aim.origin;
        let failed = |(cause, detail)| UpstreamError::new(cause, origin.authority(), detail);
        let late = |_| failed((Cause::ConnectTimeout, "the handshake took too long".into()));
        let stream = dial(&*inner.resolver, origin, aim.rules, deadline).await?;
        let gone = |error: std::io::Error| failed((Cause::Terminated, error.to_string()));
        let peer = stream.peer_addr().map_err(gone)?;
        let (socket, protocol) = match origin.scheme {
            Scheme::Https => {
                let handshake = inner.trust.connect(stream, &origin.host, http1_only);
                timeout_at(deadline, handshake).await.map_err(late)?.map_err(failed)?
            }
            Scheme::H2c if !http1_only => (Socket::Plain(stream), Protocol::Http2),
            Scheme::Http | Scheme::H2c => (Socket::Plain(stream), Protocol::Http1),
        };
        match protocol {
            Protocol::Http1 => {
                let connection = H1::open(socket, peer, place, &inner.metrics);
                Ok(Self::H1(place.lease(connection, permit, !http1_only)))
            }
            Protocol::Http2 => {
                let opened = H2::open(socket, peer, permit, place, &inner.metrics);
                let connection = timeout_at(deadline, opened).await.map_err(late)?.map_err(failed)?;
                Ok(Self::H2(place.share(connection)))
            }
        }
    }

    /// Sends a request and waits for the head of its final response, at most `timeout` after the last sign of
    /// life. A connection that failed is given up.
    pub async fn send(
        self,
        head: &Head,
        aim: Aim<'_>,
        sending: &Sending,
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        let authority = aim.origin.authority();
        match self {
            Self::H1(mut lease) => {
                let mut requesting = Requesting::new(head, authority, &sending.upload)?;
                let head = lease.connection.send(&mut requesting, sending, timeout).await?;
                let is_chunked = head.fields.has(&TRANSFER_ENCODING);
                let may_persist = persists(&head);
                Ok(Answer::H1(Box::new(Responded { head, is_chunked, may_persist, requesting, lease })))
            }
            Self::H2(lease) => {
                let request = head.http2(aim.origin.scheme.name(), authority)?;
                let answer = sending.limit(timeout, lease.connection.send(request, sending));
                match Box::pin(answer).await {
                    Ok((response, pump)) => Ok(Answer::H2(response, pump, lease)),
                    Err(failure) => {
                        // One stream's failure is its own; but a connection that is silent or gone fails the next
                        // request too.
                        if matches!(failure.cause, Cause::ResponseTimeout | Cause::Terminated) {
                            lease.retire();
                        }
                        Err(failure)
                    }
                }
            }
        }
    }
}

impl Inner {
    fn reused(&self, carrier: Carrier) -> (Carrier, bool) {
        self.metrics.upstream_reused.count();
        (carrier, true)
    }
}

impl Answer {
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

    /// The body's source, of `length` if the framing tells.
    pub fn source(self, length: Option<u64>) -> Source {
        match self {
            Self::H1(responded) => {
                let Responded { is_chunked, may_persist, requesting, lease, .. } = *responded;
                let responding = Responding::new(length, is_chunked, may_persist, requesting);
                Source::H1 { responding, lease: Some(lease) }
            }
            Self::H2(response, pump, lease) => Source::H2 { frames: response.into_body(), lease, pump },
        }
    }

    /// The far end of a switched connection; `kept` lives as long.
    pub fn upgraded(self, kept: Option<InFlight>) -> Result<Box<dyn TunnelIo>, (Cause, &'static str)> {
        let Self::H1(responded) = self else {
            return Err((Cause::UpgradeFailed, "101 over HTTP/2"));
        };
        let (connection, occupied) = responded.lease.into_parts();
        let (io, open) = connection.into_tunnel();
        Ok(Box::new(Tunnelled::new(io, (occupied, open, kept))))
    }
}
