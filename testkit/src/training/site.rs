//! What the trained node fetches: a site whose paths say how a response is to be kept and how long
//! its body is.

use crate::origin::{Framing, Received};
use crate::{Answer, Origin, Resource, Setup};

/// Origins that answer the same, one over HTTP/1.1 and one over HTTP/2.
pub struct Site {
    http1: Origin,
    _http2: Origin,
    settings: [String; 2],
}

/// The host of what comes over HTTP/1.1 from the origin.
pub const HOST: &str = "site.test";
/// The host of what comes over HTTP/2 from there.
pub const HOST_HTTP2: &str = "http2.test";

impl Site {
    /// Starts both.
    pub fn start() -> Self {
        let (http1, http2) = (Origin::start(), Origin::start_h2c());
        for origin in [&http1, &http2] {
            origin.on_request("/kept/*", |request| resource(request).cache_control(KEPT).answer(request));
            origin.on_request("/varied/*", |request| {
                resource(request).cache_control(KEPT).field("Vary", "Accept-Language").answer(request)
            });
            origin.on_request("/checked/*", |request| {
                resource(request).cache_control("no-cache").answer(request)
            });
            origin.on_request("/unstored/*", |request| {
                resource(request).cache_control("no-store").answer(request)
            });
            origin.on_request("/pieces/*", |request| {
                let piece = body(bytes_of(request.path()) / 4);
                let pieces = (0..4).fold(Answer::new(200), |answer, _| answer.piece(piece.clone()));
                pieces.field("Cache-Control", KEPT).framed(Framing::Chunked)
            });
        }
        let settings = [
            format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]", http1.url()),
            format!("hosts = ['{HOST_HTTP2}']\nupstreams = [{{ url = '{}', h2c = true }}]", http2.url()),
        ];
        Self { http1, _http2: http2, settings }
    }

    /// A node before it, in reverse and forward mode, with tunnels.
    pub fn setup(&self) -> Setup {
        let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
        let setup = self.settings.iter().fold(setup, |setup, site| setup.site(site));
        let port = toml::Value::from(i64::from(self.http1.address().port()));
        setup.set("forward.connect_ports", vec![port])
    }

    /// Where clients of the forward proxy find it: `host:port`.
    pub fn authority(&self) -> String {
        self.http1.address().to_string()
    }
}

/// The length of the body at `path`: its last segment.
pub fn bytes_of(path: &str) -> usize {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.parse().unwrap_or_else(|_| panic!("{path} ends with no number of bytes"))
}

fn resource(request: &Received) -> Resource {
    let resource = Resource::new(body(bytes_of(request.path()))).field("Content-Type", "text/html");
    resource.etag(ETAG).last_modified(LAST_MODIFIED)
}

fn body(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes]
}

/// The entity tag of everything.
pub const ETAG: &str = "\"1f2e3d-4c5b6a\"";
/// When everything was last modified.
pub const LAST_MODIFIED: &str = "Mon, 01 Jan 2024 00:00:00 GMT";
const KEPT: &str = "public, max-age=86400";
