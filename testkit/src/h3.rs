//! An HTTP/3 client, by the crate `h3`: one connection, requests on streams of their own, answers
//! as [`Response`]s.

use crate::client::{Ending, Request, Response};
use crate::fields::Fields;
use crate::h2::{field_map, fields_of};
use crate::wait::LIMIT;
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::StreamError;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A connection with its own small runtime; calls block, each at most [`LIMIT`].
pub struct H3Connection {
    runtime: Runtime,
    sender: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
    _endpoint: Endpoint,
}

impl H3Connection {
    /// Connects; panics if the server does not answer.
    pub fn open(address: SocketAddr, server_name: &str, config: &Arc<rustls::ClientConfig>) -> Self {
        Self::try_open(address, server_name, config).expect("the server speaks HTTP/3")
    }

    /// Connects with these settings of TLS, with `h3` as the protocol.
    pub fn try_open(
        address: SocketAddr,
        server_name: &str,
        config: &Arc<rustls::ClientConfig>,
    ) -> Result<Self, ConnectionError> {
        let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = builder.expect("a thread may have a runtime");
        let config = quic(config);
        let opened = runtime.block_on(limited(async {
            let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).expect("loopback is there");
            let connecting = endpoint.connect_with(config, address, server_name).expect("a sound setup");
            let connection = connecting.await?;
            let over = h3_quinn::Connection::new(connection.clone());
            let (mut driver, sender) = h3::client::new(over).await.expect("it is open");
            tokio::spawn(async move {
                // how the connection ends shows in its streams
                std::future::poll_fn(|context| driver.poll_close(context)).await
            });
            Ok::<_, ConnectionError>((endpoint, connection, sender))
        }));
        let (endpoint, connection, sender) = opened?;
        Ok(Self { runtime, sender, connection, _endpoint: endpoint })
    }

    /// Sends a request for `authority` and waits for its answer.
    pub fn ask(&mut self, request: &Request, authority: &str) -> Response {
        let mut head = http::Request::new(());
        *head.method_mut() = request.method.parse().expect("a method");
        *head.uri_mut() = format!("https://{authority}{}", request.target).parse().expect("a URI");
        *head.headers_mut() = field_map(&request.fields);
        let body = Bytes::from(request.body.clone());
        let sender = self.sender.clone();
        let answered = self.runtime.block_on(limited(answer(sender, head, body)));
        answered.unwrap_or_else(|error| Response {
            interim: Vec::new(),
            version: "HTTP/3".into(),
            status: 0,
            fields: Fields::default(),
            body: Vec::new(),
            trailers: Fields::default(),
            ending: Ending::Cut(format!("stream ended: {error}")),
        })
    }

    /// Moves the client to another port, as an address translator does.
    pub fn rebind(&self) {
        self.move_to([127, 0, 0, 1]);
    }

    /// Moves the client to another host.
    pub fn move_to(&self, host: [u8; 4]) {
        let _runtime = self.runtime.enter();
        let socket = std::net::UdpSocket::bind(SocketAddr::from((host, 0))).expect("loopback is there");
        self._endpoint.rebind(socket).expect("a socket");
    }

    /// Waits for the end of the connection.
    pub fn closed(&self) -> ConnectionError {
        self.runtime.block_on(limited(self.connection.closed()))
    }
}

/// Returns the settings for QUIC.
fn quic(config: &Arc<rustls::ClientConfig>) -> ClientConfig {
    let mut config = rustls::ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).expect("TLS 1.3")))
}

async fn answer(
    mut sender: SendRequest<OpenStreams, Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<Response, StreamError> {
    let mut stream = sender.send_request(head).await?;
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    stream.finish().await?;
    let (head, ()) = stream.recv_response().await?.into_parts();
    let mut response = Response {
        interim: Vec::new(),
        version: "HTTP/3".into(),
        status: head.status.as_u16(),
        fields: fields_of(&head.headers),
        body: Vec::new(),
        trailers: Fields::default(),
        ending: Ending::Complete,
    };
    loop {
        match stream.recv_data().await {
            Ok(Some(mut data)) => response.body.extend_from_slice(&data.copy_to_bytes(data.remaining())),
            Ok(None) => break,
            Err(error) => {
                response.ending = Ending::Cut(error.to_string());
                return Ok(response);
            }
        }
    }
    response.trailers = stream.recv_trailers().await?.map_or_else(Fields::default, |map| fields_of(&map));
    Ok(response)
}

async fn limited<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| panic!("HTTP/3: nothing within {LIMIT:?}"))
}
