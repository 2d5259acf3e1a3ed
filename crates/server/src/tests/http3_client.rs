//! Clients of HTTP/3: that of the crate `h3`, and one that sends any bytes.

use super::Server;
use super::tls::Authority;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream};
use rustls::version::TLS13;
use shoal_http3::{FRAME_HEAD_BYTES_MAX, headers, qpack};
use shoal_settings::{Listen, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Starts a server that offers HTTP/3 for a.test.
pub(super) fn serving(authority: &Authority, change: impl FnOnce(&mut Settings)) -> Server {
    let certificate = authority.issue("a", &["a.test"]);
    Server::with(|settings| {
        let listen = Listen::reverse(([127, 0, 0, 1], 0).into());
        settings.listen = vec![Listen { tls: vec![certificate], http3: true, ..listen }];
        change(settings);
    })
}

/// Returns the setup of clients that trust the authority.
pub(super) fn trusting(authority: &Authority) -> ClientConfig {
    over_quic(Arc::unwrap_or_clone(authority.speaking(&[&TLS13], &["h3"])))
}

pub(super) fn over_quic(config: rustls::ClientConfig) -> ClientConfig {
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).expect("TLS 1.3")))
}

/// Opens a connection for `name`.
pub(super) async fn connect(
    address: SocketAddr,
    config: ClientConfig,
    name: &str,
) -> Result<Connection, ConnectionError> {
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).expect("loopback is there");
    let connecting = endpoint.connect_with(config, address, name).expect("a sound setup");
    tokio::time::timeout(Duration::from_secs(10), connecting).await.expect("in time")
}

/// Client of the crate `h3`.
pub(super) struct H3Client {
    sender: h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
}

/// Response with its whole body.
#[derive(Debug)]
pub(super) struct Http3Response {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

impl H3Client {
    pub async fn connect(server: &Server, authority: &Authority) -> Self {
        let connection = connect(server.address(), trusting(authority), "a.test").await.expect("a handshake");
        Self::over(connection).await
    }

    pub async fn over(connection: Connection) -> Self {
        let (mut driver, sender) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.expect("it is open");
        tokio::spawn(async move { std::future::poll_fn(|context| driver.poll_close(context)).await });
        Self { sender }
    }

    /// Sends a request with a body in pieces, and trailers. Returns the response, or the error.
    pub async fn ask(
        &mut self,
        (method, path): (&str, &str),
        pieces: &[Bytes],
        trailers: Option<HeaderMap>,
    ) -> Result<Http3Response, h3::error::StreamError> {
        let request = Request::builder().method(method).uri(format!("https://a.test{path}"));
        let mut stream = self.sender.send_request(request.body(()).expect("sound")).await?;
        for piece in pieces {
            stream.send_data(piece.clone()).await?;
        }
        if let Some(trailers) = trailers {
            stream.send_trailers(trailers).await?;
        }
        stream.finish().await?;
        let (head, ()) = stream.recv_response().await?.into_parts();
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        let trailers = stream.recv_trailers().await?;
        Ok(Http3Response { status: head.status, fields: head.headers, body, trailers })
    }

    pub async fn get(&mut self, path: &str) -> Http3Response {
        self.ask(("GET", path), &[], None).await.expect("a response")
    }
}

/// Returns a HEADERS frame of these fields.
pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0; FRAME_HEAD_BYTES_MAX];
    block.extend_from_slice(&qpack::encode::PREFIX);
    for (name, value) in fields {
        qpack::encode::field(&mut block, name.as_bytes(), value.as_bytes());
    }
    let start = headers(&mut block);
    block[start..].to_vec()
}

/// Returns the HEADERS frame of a request with further fields.
pub(super) fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", path)];
    section(&[&pseudo[..], fields].concat())
}

/// Returns a frame with a type and a payload of less than 64 bytes each.
pub(super) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, payload.len() as u8][..], payload].concat()
}

/// Client that sends any bytes.
pub(super) struct RawClient(pub Connection);

impl RawClient {
    /// Opens a connection, and a control stream with empty settings.
    pub async fn connect(server: &Server, authority: &Authority) -> Self {
        let raw = Self::silent(server, authority).await;
        raw.uni(b"\0\x04\0").await;
        raw
    }

    pub async fn silent(server: &Server, authority: &Authority) -> Self {
        Self(connect(server.address(), trusting(authority), "a.test").await.expect("a handshake"))
    }

    /// Opens a stream in one direction, which stays open.
    pub async fn uni(&self, bytes: &[u8]) {
        let mut stream = self.0.open_uni().await.expect("room for a stream");
        let _ = stream.write_all(bytes).await;
        std::mem::forget(stream);
    }

    pub async fn open(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, receive) = self.0.open_bi().await.expect("room for a stream");
        let _ = send.write_all(bytes).await;
        (send, receive)
    }

    /// Sends a whole request. Returns all bytes of the response, or the code of a reset.
    pub async fn ask(&self, bytes: &[u8]) -> Result<Vec<u8>, u64> {
        let (mut send, receive) = self.open(bytes).await;
        let _ = send.finish();
        read(receive).await
    }

    /// Returns the code with which the server closes the connection.
    pub async fn closed(&self) -> u64 {
        self.closed_for("the end").await
    }

    pub async fn closed_for(&self, what: &str) -> u64 {
        let closed = tokio::time::timeout(Duration::from_secs(10), self.0.closed()).await.expect(what);
        match closed {
            ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("{other}"),
        }
    }
}

/// Reads all bytes of a response, or the code of a reset.
pub(super) async fn read(mut receive: RecvStream) -> Result<Vec<u8>, u64> {
    let reading = receive.read_to_end(1 << 24);
    match tokio::time::timeout(Duration::from_secs(10), reading).await.expect("in time") {
        Ok(bytes) => Ok(bytes),
        Err(quinn::ReadToEndError::Read(ReadError::Reset(code))) => Err(code.into_inner()),
        Err(other) => panic!("{other}"),
    }
}
