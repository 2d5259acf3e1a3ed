//! The step of a CONNECT to a listed host: this node answers, and serves the requests inside.

use super::handling_report::HandlingReport;
use super::settings::ExchangeSettings;
use super::{CacheEngine, answers};
use crate::intercept::Interception;
use crate::message::{Client, Reply, ReplyBody, ReplyHead};
use crate::message::{InnerServer, OuterConnect, Places, ServerInside};
use http::{HeaderMap, StatusCode, header};
use shoal_semantics::status_fields::{ProxyError, Reason};
use shoal_wire::RequestParts;
use std::sync::{Arc, OnceLock, Weak};

/// Server of requests inside a CONNECT, and the places for such connections.
#[derive(Default)]
pub(super) struct InsideServers {
    server: OnceLock<Weak<dyn InnerServer>>,
    places: Arc<Places>,
}

impl InsideServers {
    /// Takes the server.
    pub fn join(&self, server: ServerInside) {
        self.server.get_or_init(|| server.0);
    }
}

impl CacheEngine {
    /// Answers an admitted CONNECT if its host is listed.
    pub(super) fn intercept(
        &self,
        live: &ExchangeSettings,
        head: &RequestParts,
        client: &Client,
    ) -> Option<Reply> {
        let (interception, authority) = (live.interception.as_ref()?, head.uri.authority()?);
        // Case and a final dot make no other host.
        let host = authority.host().to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
        let port = authority.port_u16().unwrap_or(443);
        if !interception.covers(&host, port) {
            return None;
        }
        let server = self.inside.server.get().and_then(Weak::upgrade);
        let place = self.inside.places.take(client.address.ip(), interception.connections_max());
        let (Some(server), Some(place)) = (server, place) else {
            self.metrics.intercept_refused_full.increment();
            let verdict = HandlingReport::local(Reason::Tunnel)
                .error(ProxyError::ConnectionLimitReached)
                .setting(Some("intercept.connections"));
            return Some(answers::early(
                live,
                head,
                client,
                (StatusCode::SERVICE_UNAVAILABLE, FULL),
                verdict,
            ));
        };
        self.metrics.intercepted.increment();
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        server.serve_inside(far, self.handshake(interception, &host), inner(head, client, host, port), place);
        let mut reply =
            answers::early(live, head, client, (StatusCode::OK, ""), HandlingReport::local(Reason::Tunnel));
        reply.head = ReplyHead::Built(StatusCode::OK, HeaderMap::new());
        reply.body = ReplyBody::Tunnel(Box::new(near));
        reply.record.carries_requests = true;
        Some(reply)
    }

    fn handshake(&self, interception: &Interception, host: &str) -> Arc<rustls::ServerConfig> {
        let metrics = Arc::clone(&self.metrics);
        interception.handshake(host, Arc::new(move || metrics.intercept_leaves.increment()))
    }
}

/// Returns the client of the requests inside.
fn inner(head: &RequestParts, client: &Client, host: String, port: u16) -> Client {
    let authorization = head.fields.shared_value(&header::PROXY_AUTHORIZATION);
    Client {
        address: client.address,
        local: client.local,
        listener: client.listener,
        tls: true,
        server_name: None,
        certificate: client.certificate.clone(),
        intercepted: Some(Arc::new(OuterConnect { host: host.into(), port, authorization })),
    }
}

const FULL: &str =
    "This proxy has too many intercepted connections (intercept.connections). Try again later.";

/// Bytes that a pipe holds in each direction.
const PIPE_BYTES: usize = 64 << 10;
