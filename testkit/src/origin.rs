//! A scripted origin: it answers properly or improperly, as told, and counts what it is asked.
//!
//! Routes are data ([`Answer`], [`Resource`]) or closures over the request. One thread accepts, one
//! serves each connection; [`Gate`]s fix the order of events where a test depends on it.

mod answer;
mod cgi;
mod files;
mod gate;
mod http1;
mod http2;
mod journal;
mod resource;
mod routes;

pub use answer::{After, Answer, Framing, Step};
pub use cgi::Cgi;
pub use gate::Gate;
pub use journal::{Journal, Received};
pub use resource::Resource;

use crate::certificates::Issued;
use routes::{Decide, Routes};
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running origin. Its [`Journal`]'s counters are its own methods. After it is dropped,
/// connections to its address are refused, and no other test gets its port.
pub struct Origin {
    address: SocketAddr,
    scheme: &'static str,
    is_http2: bool,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What the threads of an origin share.
pub(crate) struct Shared {
    pub(crate) routes: Routes,
    pub(crate) journal: Journal,
    stopping: AtomicBool,
}

/// What an origin speaks.
enum Speech {
    Plain,
    Tls(Arc<rustls::ServerConfig>),
    /// On each connection so many requests at once.
    Http2 {
        streams: u32,
    },
}

impl Origin {
    /// HTTP/1.1 on a free port of 127.0.0.1.
    pub fn start() -> Self {
        Self::launch(Speech::Plain, ([127, 0, 0, 1], 0).into())
    }

    /// HTTP/1.1 on this address.
    pub fn start_at(address: SocketAddr) -> Self {
        Self::launch(Speech::Plain, address)
    }

    /// HTTP/1.1 in TLS, with this certificate.
    pub fn start_tls(issued: &Issued) -> Self {
        Self::launch(Speech::Tls(issued.server()), ([127, 0, 0, 1], 0).into())
    }

    /// HTTP/2 without TLS, prior knowledge.
    pub fn start_h2c() -> Self {
        Self::start_h2c_with(STREAMS)
    }

    /// The same, with so many requests at once on each connection.
    pub fn start_h2c_with(streams: u32) -> Self {
        Self::launch(Speech::Http2 { streams }, ([127, 0, 0, 1], 0).into())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks HTTP/2 without TLS.
    pub fn is_h2c(&self) -> bool {
        self.is_http2
    }

    /// Its base URL, without a final slash.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Answers `path` so, every time. A path ending in `*` is a prefix; the last route added that
    /// matches wins.
    pub fn on(&self, path: &str, answer: Answer) -> &Self {
        self.route(path, false, Arc::new(move |_, _| answer.clone()))
    }

    /// Answers the first request for `path` with the first answer, and so on; the last one repeats.
    pub fn on_each(&self, path: &str, answers: impl Into<Vec<Answer>>) -> &Self {
        let answers = answers.into();
        let already = self.count(path);
        assert!(!answers.is_empty(), "answers for {path}");
        let pick =
            move |_: &Received, earlier: usize| answers[(earlier - already).min(answers.len() - 1)].clone();
        self.route(path, false, Arc::new(pick))
    }

    /// Answers `path` as the closure says.
    pub fn on_request(
        &self,
        path: &str,
        decide: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> &Self {
        self.route(path, false, Arc::new(move |request, _| decide(request)))
    }

    /// Answers `path` when its head has come, without a 100 and without reading the body.
    pub fn on_head(&self, path: &str, answer: Answer) -> &Self {
        self.route(path, true, Arc::new(move |_, _| answer.clone()))
    }

    /// Serves a resource with its conditions and ranges.
    pub fn serve(&self, path: &str, resource: Resource) -> &Self {
        self.on_request(path, move |request| resource.answer(request))
    }

    /// Serves the files of `folder` below `prefix`, with validators and ranges and these fields.
    pub fn serve_folder(&self, prefix: &str, folder: impl Into<PathBuf>, fields: &[(&str, &str)]) -> &Self {
        let files = files::Files::new(prefix, folder.into(), fields);
        self.on_request(&format!("{prefix}*"), move |request| files.answer(request))
    }

    /// Serves a folder below `prefix` without a word on caching.
    pub fn serve_silently(&self, prefix: &str, folder: impl Into<PathBuf>) -> &Self {
        let files = files::Files::silent(prefix, folder.into());
        self.on_request(&format!("{prefix}*"), move |request| files.answer(request))
    }

    /// Runs a CGI program (RFC 3875) for everything below `prefix`.
    pub fn serve_cgi(&self, prefix: &str, cgi: Cgi) -> &Self {
        let base = prefix.trim_end_matches('/').to_string();
        self.on_request(&format!("{prefix}*"), move |request| cgi.answer(&base, request))
    }

    fn route(&self, path: &str, before_body: bool, decide: Decide) -> &Self {
        self.shared.routes.add(path, before_body, decide);
        self
    }

    fn launch(speech: Speech, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a loopback address takes listeners");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            routes: Routes::default(),
            journal: Journal::default(),
            stopping: AtomicBool::new(false),
        });
        let scheme = if matches!(speech, Speech::Tls(_)) { "https" } else { "http" };
        let is_http2 = matches!(speech, Speech::Http2 { .. });
        let threads = shared.clone();
        let accepting = Some(std::thread::spawn(move || accept(&listener, &speech, &threads)));
        Self { address, scheme, is_http2, shared, accepting }
    }
}

impl Deref for Origin {
    type Target = Journal;

    fn deref(&self) -> &Journal {
        &self.shared.journal
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // a last connection wakes the accepting thread, which then closes the listener
        if std::net::TcpStream::connect(self.address).is_ok() {
            let _ = self.accepting.take().map(JoinHandle::join);
            crate::address::retire(self.address);
        }
    }
}

fn accept(listener: &TcpListener, speech: &Speech, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let _ = stream.set_nodelay(true);
        let connection = shared.journal.connected();
        let shared = shared.clone();
        match speech {
            Speech::Plain => {
                std::thread::spawn(move || http1::serve(Box::new(stream), connection, &shared));
            }
            Speech::Tls(config) => {
                let Ok(session) = rustls::ServerConnection::new(config.clone()) else { continue };
                let stream = rustls::StreamOwned::new(session, stream);
                std::thread::spawn(move || http1::serve(Box::new(stream), connection, &shared));
            }
            Speech::Http2 { streams } => {
                let streams = *streams;
                std::thread::spawn(move || http2::serve(stream, streams, connection, shared));
            }
        }
    }
}

/// Requests at once on an HTTP/2 connection, unless a test says otherwise: more than a client
/// begins.
const STREAMS: u32 = 1000;

#[cfg(test)]
mod tests;
