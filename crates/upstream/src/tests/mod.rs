//! Tests of upstreams with real sockets: raw origins that follow a script, h2 origins, TLS origins.

mod bodies;
mod burst;
mod failures;
mod framing;
mod http2;
mod reuse;
mod sites;
mod tls;
mod upgrades;

use super::*;
use crate::message::{BodyError, RequestBody};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use shoal_core::Fields;
use shoal_semantics::NextHopFields;
use shoal_settings::Forward;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Step of a raw origin on a connection. After the last step the origin closes.
#[derive(Clone, Copy)]
enum Step {
    /// Reads one request: its head, and its body if Content-Length declares one.
    Read,
    /// Reads a request's head only.
    ReadHead,
    /// Reads exactly this number of bytes.
    ReadBytes(usize),
    /// Sends these bytes.
    Say(&'static str),
    /// Waits for this number of milliseconds.
    Wait(u64),
    /// Closes with a reset instead of an orderly end.
    Reset,
    /// Keeps the connection open and silent.
    Hang,
}
use Step::*;

/// Origin that plays the n-th script on the n-th connection, and the last one on further
/// connections.
struct RawOrigin {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Heads and bodies read, over all connections.
    requests: Arc<Mutex<Vec<String>>>,
}

impl RawOrigin {
    async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let origin = Self {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (Arc::clone(&origin.connections), Arc::clone(&origin.requests));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let script = scripts[number.min(scripts.len() - 1)].clone();
                tokio::spawn(follow(script, stream, Arc::clone(&requests)));
            }
        });
        origin
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn follow(script: Vec<Step>, mut stream: TcpStream, requests: Arc<Mutex<Vec<String>>>) {
    for step in script {
        let done = match step {
            Read => read_request(&mut stream, true).await.map(|request| requests.lock().push(request)),
            ReadHead => read_request(&mut stream, false).await.map(|request| requests.lock().push(request)),
            ReadBytes(count) => stream.read_exact(&mut vec![0; count]).await.ok().map(drop),
            Say(bytes) => stream.write_all(bytes.as_bytes()).await.ok(),
            Wait(millis) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Some(())
            }
            Reset => socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok(),
            Hang => std::future::pending().await,
        };
        if done.is_none() {
            return;
        }
    }
}

/// Leaks a text for a test's script.
fn made(text: String) -> &'static str {
    text.leak()
}

/// Reads a request's text. Returns `None` if the connection ended first.
async fn read_request(stream: &mut TcpStream, with_body: bool) -> Option<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(text).expect("a head in ASCII");
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").map(|length| length.parse::<usize>().expect("a number"))
    });
    let mut body = vec![0; length.filter(|_| with_body).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + &String::from_utf8(body).expect("a body in ASCII"))
}

/// Returns settings with short timeouts.
fn settings(edit: impl FnOnce(&mut Upstream)) -> Settings {
    let mut settings = Settings::default();
    settings.upstream.connect_timeout = Duration::from_millis(1500);
    settings.upstream.first_byte_timeout = Duration::from_millis(400);
    settings.upstream.idle_timeout = Duration::from_millis(400);
    edit(&mut settings.upstream);
    settings
}

fn upstreams(edit: impl FnOnce(&mut Upstream)) -> (Upstreams, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    (Upstreams::new(&settings(edit), Arc::clone(&metrics)).expect("sound settings"), metrics)
}

/// Returns rules that permit loopback.
fn open_rules() -> Arc<ForwardRules> {
    let forward = Forward {
        allow_private_destinations: vec!["127.0.0.0/8".into()],
        connect_ports: (1..=u16::MAX).collect(),
        ..Forward::default()
    };
    Arc::new(ForwardRules::new(&forward, &[]).expect("sound rules"))
}

/// Client of one origin under one set of rules.
struct Asker {
    upstreams: Upstreams,
    metrics: Arc<Metrics>,
    rules: Arc<ForwardRules>,
    origin: Origin,
}

impl Asker {
    fn new(origin: &RawOrigin) -> Self {
        Self::with(origin.address, Scheme::Http, |_| ())
    }

    /// Waits until no connection is open.
    async fn has_closed(&self) {
        eventually("all connections are closed", || self.metrics.upstream_connections.value() == 0).await;
    }

    fn with(address: SocketAddr, scheme: Scheme, edit: impl FnOnce(&mut Upstream)) -> Self {
        let (upstreams, metrics) = upstreams(edit);
        let origin = Origin::new(scheme, &address.ip().to_string(), address.port());
        Self { upstreams, metrics, rules: open_rules(), origin }
    }

    fn request(&self, method: Method, path: &str) -> UpstreamRequest {
        let (origin, rules) = (self.origin.clone(), Arc::clone(&self.rules));
        UpstreamRequest {
            absolute: None,
            method,
            destination: Destination::Origin { origin, rules },
            target: PathAndQuery::try_from(path).expect("a path"),
            fields: NextHopFields::default(),
            host: None,
            takes_trailers: false,
            body: None,
            interim: None,
            upgrade: None,
            caller: Caller::default(),
        }
    }

    async fn get(&self, path: &str) -> Result<UpstreamResponse, UpstreamError> {
        self.upstreams.fetch(self.request(Method::GET, path)).await
    }

    /// Returns the status and whole body of a GET.
    async fn get_whole(&self, path: &str) -> (u16, String) {
        let response = self.get(path).await.expect("a response");
        (response.status.as_u16(), whole(response).await.expect("a whole body"))
    }
}

/// Returns a body in one piece.
fn body(text: &'static str) -> RequestBody {
    Some(Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed_unsync())
}

/// Returns a body and the sender of its frames.
fn channel_body() -> (tokio::sync::mpsc::Sender<Result<Bytes, BodyError>>, RequestBody) {
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    (sender, Some(ChannelBody(receiver).boxed_unsync()))
}

struct ChannelBody(tokio::sync::mpsc::Receiver<Result<Bytes, BodyError>>);

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|item| item.map(|item| item.map(http_body::Frame::data)))
    }
}

/// Returns the whole body as text.
async fn whole(response: UpstreamResponse) -> Result<String, BodyError> {
    let bytes = response.body.collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).expect("a body in ASCII"))
}

/// Waits until `condition` holds.
async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten seconds: {what}");
}

/// Resolver that gives every name the same answer.
struct Always(Vec<IpAddr>);

impl Resolve for Always {
    fn resolve<'a>(&'a self, _host: &'a str) -> Lookup<'a> {
        let found = self.0.clone().into();
        Box::pin(async move { Ok(found) })
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
