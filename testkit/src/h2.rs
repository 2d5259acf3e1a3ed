//! An HTTP/2 client: one connection, requests on streams of their own, answers as [`Response`]s.

use crate::client::{Ending, Head, Request, Response};
use crate::fields::Fields;
use crate::wait::LIMIT;
use bytes::Bytes;
use h2::client::SendRequest;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

/// A connection with its own small runtime; calls block, each at most [`LIMIT`].
pub struct H2Connection {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    scheme: &'static str,
}

impl H2Connection {
    /// Connects without TLS (prior knowledge).
    pub fn open(address: SocketAddr) -> Self {
        let runtime = runtime();
        let sender = runtime.block_on(limited(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
            handshake(stream).await
        }));
        Self { runtime, sender, scheme: "http" }
    }

    /// Connects with TLS and ALPN `h2`.
    pub fn open_tls(address: SocketAddr, server_name: &str, config: Arc<rustls::ClientConfig>) -> Self {
        let runtime = runtime();
        let name = ServerName::try_from(server_name.to_string()).expect("a host name");
        let sender = runtime.block_on(limited(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
            let stream =
                TlsConnector::from(config).connect(name, stream).await.expect("the certificate is trusted");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "ALPN");
            handshake(stream).await
        }));
        Self { runtime, sender, scheme: "https" }
    }

    /// Connects with TLS and ALPN `h2` over an open stream.
    pub fn over_tls(
        stream: std::net::TcpStream,
        server_name: &str,
        config: Arc<rustls::ClientConfig>,
    ) -> Self {
        let runtime = runtime();
        let name = ServerName::try_from(server_name.to_string()).expect("a host name");
        let sender = runtime.block_on(limited(async {
            stream.set_nonblocking(true).expect("a socket takes the option");
            let stream = tokio::net::TcpStream::from_std(stream).expect("the runtime takes sockets");
            let stream =
                TlsConnector::from(config).connect(name, stream).await.expect("the certificate is trusted");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "ALPN");
            handshake(stream).await
        }));
        Self { runtime, sender, scheme: "https" }
    }

    /// Has requests name this scheme.
    pub fn scheme(self, scheme: &'static str) -> Self {
        Self { scheme, ..self }
    }

    /// Sends a request for `authority` and waits for its answer.
    pub fn ask(&mut self, request: &Request, authority: &str) -> Response {
        self.ask_all(std::slice::from_ref(request), authority).remove(0)
    }

    /// Sends requests at once, each on its stream, and waits for all answers, in the requests'
    /// order.
    pub fn ask_all(&mut self, requests: &[Request], authority: &str) -> Vec<Response> {
        let exchanges: Vec<_> = requests.iter().map(|request| self.exchange(request, authority)).collect();
        self.runtime.block_on(limited(async {
            let tasks: Vec<_> = exchanges.into_iter().map(tokio::spawn).collect();
            let mut responses = Vec::new();
            for task in tasks {
                responses.push(task.await.expect("an exchange does not panic"));
            }
            responses
        }))
    }

    fn exchange(
        &self,
        request: &Request,
        authority: &str,
    ) -> impl Future<Output = Response> + Send + 'static {
        let mut head = http::Request::new(());
        *head.method_mut() = request.method.parse().expect("a method");
        let uri = format!("{}://{authority}{}", self.scheme, request.target);
        *head.uri_mut() = if request.method == "CONNECT" { request.target.parse() } else { uri.parse() }
            .expect("an absolute URI");
        *head.headers_mut() = field_map(&request.fields);
        let body = Bytes::from(request.body.clone());
        let sender = self.sender.clone();
        async move {
            let answered = answer(sender, head, body).await;
            answered.unwrap_or_else(|error| cut(&format!("stream ended: {error}")))
        }
    }
}

async fn answer(
    sender: SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<Response, h2::Error> {
    let mut sender = sender.ready().await?;
    let (answer, mut stream) = sender.send_request(head, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body, true)?;
    }
    let mut answer = Box::pin(answer);
    let mut interim = Vec::new();
    let (head, mut stream) = loop {
        let informed = std::future::poll_fn(|context| answer.poll_informational(context)).await;
        match informed {
            Some(head) => {
                let head = head?.into_parts().0;
                let status = head.status.as_u16();
                interim.push(Head { status, fields: fields_of(&head.headers), ..Head::default() });
            }
            None => break answer.await?.into_parts(),
        }
    };
    let mut response = Response {
        interim,
        version: "HTTP/2".into(),
        status: head.status.as_u16(),
        fields: fields_of(&head.headers),
        body: Vec::new(),
        trailers: Fields::default(),
        ending: Ending::Complete,
    };
    if let Err(error) = body_of(&mut stream, &mut response).await {
        response.ending = Ending::Cut(error.to_string());
    }
    Ok(response)
}

async fn body_of(stream: &mut h2::RecvStream, response: &mut Response) -> Result<(), h2::Error> {
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        stream.flow_control().release_capacity(bytes.len())?;
        response.body.extend_from_slice(&bytes);
    }
    response.trailers = stream.trailers().await?.map_or_else(Fields::default, |map| fields_of(&map));
    Ok(())
}

async fn handshake(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (sender, connection) = h2::client::handshake(stream).await.expect("the server speaks HTTP/2");
    tokio::spawn(async move {
        // how the connection ends shows in its streams
        let _ = connection.await;
    });
    sender
}

async fn limited<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| panic!("HTTP/2: nothing within {LIMIT:?}"))
}

fn cut(why: &str) -> Response {
    Response {
        interim: Vec::new(),
        version: "HTTP/2".into(),
        status: 0,
        fields: Fields::default(),
        body: Vec::new(),
        trailers: Fields::default(),
        ending: Ending::Cut(why.into()),
    }
}

fn runtime() -> Runtime {
    let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    builder.expect("a thread may have a runtime")
}

/// The fields of a map, in its order.
pub fn fields_of(map: &http::HeaderMap) -> Fields {
    let pairs =
        map.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()));
    Fields(pairs.collect())
}

/// A map of the fields; panics on one that HTTP/2 cannot carry.
pub fn field_map(fields: &Fields) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value) in &fields.0 {
        let name: http::HeaderName = name.parse().expect("a field name");
        map.append(name, value.parse().expect("a field value"));
    }
    map
}
