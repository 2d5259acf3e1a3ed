//! Handing a connection over to the kernel once its handshake is done, where that takes it.

use super::{Stream, Tls};
use crate::metrics::Metrics;
use crate::server::direct::ClientStream;
use bytes::BytesMut;
use rustls::ServerConnection;
use shoal_ktls::Offer;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// A connection whose handshake is done.
pub(in crate::server) enum Shaken {
    /// The process encrypts.
    ByProcess(Box<Stream>),
    /// The kernel does; and what was read before it did.
    ByKernel(ClientStream, BytesMut),
    /// It cannot go on.
    Failed,
}

impl Tls {
    /// Hands a connection over, if it can be.
    pub fn hand_over(&self, stream: Box<Stream>, metrics: &Metrics) -> Shaken {
        let shaken =
            if self.offer.is_empty() { Shaken::ByProcess(stream) } else { hand_over(self.offer, *stream) };
        match &shaken {
            Shaken::ByProcess(_) => metrics.tls_by_process.increment(),
            Shaken::ByKernel(..) => metrics.tls_by_kernel.increment(),
            Shaken::Failed => metrics.tls_failures.increment(),
        }
        shaken
    }
}

/// What this kernel takes, asked once, and said in the log.
pub(super) fn offer() -> Offer {
    static OFFER: OnceLock<Offer> = OnceLock::new();
    *OFFER.get_or_init(|| match Offer::ask() {
        Ok(offer) => {
            tracing::info!(?offer, "the kernel has TLS");
            offer
        }
        Err(error) => {
            tracing::info!(%error, "the kernel has no TLS for us: the process encrypts");
            Offer::default()
        }
    })
}

fn hand_over(offer: Offer, mut stream: Stream) -> Shaken {
    let (records, session) = stream.get_mut();
    let is_apart = records.is_between() && records.inner().is_read();
    if !(is_apart && may_go(offer, session) && shoal_ktls::begin(records.inner().inner().as_fd()).is_ok()) {
        records.join();
        return Shaken::ByProcess(Box::new(stream));
    }
    give_up_session(stream).unwrap_or_else(|error| {
        tracing::debug!(%error, "a connection was lost between process and kernel");
        Shaken::Failed
    })
}

/// Whether the kernel takes what was agreed on, and nothing but data was left behind.
fn may_go(offer: Offer, session: &mut ServerConnection) -> bool {
    let agreed = session.protocol_version().zip(session.negotiated_cipher_suite());
    let state = session.process_new_packets();
    agreed.is_some_and(|(version, suite)| offer.takes(version, suite))
        && state.is_ok_and(|state| !state.peer_has_closed())
        && !session.wants_write()
}

fn give_up_session(stream: Stream) -> io::Result<Shaken> {
    let (records, mut session) = stream.into_inner();
    let mut input =
        BytesMut::zeroed(session.process_new_packets().map_err(io::Error::other)?.plaintext_bytes_to_read());
    session.reader().read_exact(&mut input)?;
    let socket = records.into_inner().into_inner();
    let seal = shoal_ktls::hand_over(socket.as_fd(), session)?;
    Ok(Shaken::ByKernel(ClientStream::sealed(socket, seal), input))
}
