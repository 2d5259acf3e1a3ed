//! Encrypted connections of other nodes of the cluster.

use super::ServerState;
use super::connection::AcceptedConnection;
use super::http1::{self, StartState};
use super::socket::BufferedConnection;
use super::tls::certificate_names;
use super::worker::ListenerContext;
use crate::message::Handler;
use crate::transport::Rewind;
use bytes::Bytes;
use rustls::ServerConfig;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Performs the handshake with a node, which must show a certificate that `config` accepts, and
/// serves the connection to its end.
pub(super) async fn serve_secured<H: Handler>(
    arrival: AcceptedConnection,
    entrance: Arc<ListenerContext>,
    config: Arc<ServerConfig>,
    shared: Arc<ServerState<H>>,
) {
    let live = shared.live.load_full();
    let AcceptedConnection { stream, peer, seat: _seat } = arrival;
    let mut client = entrance.client(&stream, peer);
    let handshake = TlsAcceptor::from(config).accept(Rewind::new(Bytes::new(), stream));
    let stream = match tokio::time::timeout(live.head_timeout, Box::pin(handshake)).await {
        Ok(Ok(mut stream)) => {
            // The peer is a node. Its messages are often longer than a record.
            stream.get_mut().0.read_ahead();
            Box::new(stream)
        }
        failed => {
            shared.metrics.cluster_handshakes_failed.increment();
            let reason = failed.map_or_else(
                |_| "too slow".to_owned(),
                |it| it.err().map_or_else(String::new, |error| error.to_string()),
            );
            tracing::debug!(%peer, reason, "no TLS with a peer");
            return;
        }
    };
    client.tls = true;
    client.certificate = certificate_names(stream.get_ref().1).map(Arc::new);
    let socket = BufferedConnection::new(stream, live.head_timeout);
    Box::pin(http1::serve(socket, StartState::New, shared, live, Arc::new(client))).await;
}
