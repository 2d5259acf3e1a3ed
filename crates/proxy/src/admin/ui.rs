//! The dashboard on the admin listener: its files, documents and live events.
//!
//! | route | answer |
//! |---|---|
//! | `GET /` | 302 to `/ui/` |
//! | `GET /ui/NAME` | a file of the page, gzip if the client takes it |
//! | `GET /ui/data/PAGE` | the document of a page |
//! | `GET /ui/live?page=PAGE` | server-sent events: the document each second |
//! | `GET /ui/history?seconds=S` | the last seconds by series |

use super::query;
use crate::dashboard::{Dashboard, SubscribeError};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use shoal_dashboard::{ASSETS, Asset, Topic};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use xxhash_rust::xxh3::xxh3_64;

/// Body of an answer of the admin listener.
pub(super) enum AdminBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// Events, until the dashboard or the client ends them.
    Events(mpsc::Receiver<Bytes>),
}

/// Returns `true` if the dashboard answers requests for this path.
pub(super) fn is_ours(path: &str) -> bool {
    path == "/" || path == "/ui" || path.starts_with("/ui/")
}

/// Answers a request for one of these paths, of a viewer that may change something or not. May wait
/// for a document.
pub(super) fn answer(dashboard: &Arc<Dashboard>, head: &Parts, may_change: bool) -> Response<AdminBody> {
    if !head.method.is_safe() || head.method == Method::OPTIONS {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "the dashboard takes GET and HEAD\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let path = head.uri.path();
    let Some(name) = path.strip_prefix("/ui/") else { return to_page() };
    let parameters = match query::parameters(head.uri.query().unwrap_or_default()) {
        Ok(parameters) => parameters,
        Err(why) => return text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
    };
    let topic = |page: &str| Topic::parse(page, &parameters);
    if let Some(page) = name.strip_prefix("data/") {
        return match topic(page) {
            Ok(topic) => json(dashboard.document(&topic, may_change)),
            Err(why) => text(StatusCode::NOT_FOUND, &format!("{why}\n")),
        };
    }
    match name {
        "history" => match history_range(&parameters) {
            Ok((seconds, points)) => json(dashboard.history(seconds, points)),
            Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
        },
        "live" => {
            let page = parameters.iter().find(|(name, _)| *name == "page");
            let page = page.map_or("now", |(_, page)| page.as_str());
            // A HEAD would hold a viewer's place for nothing.
            let subscribed = topic(page).map(|topic| match head.method == Method::HEAD {
                true => Ok(mpsc::channel(1).1),
                false => dashboard.subscribe(topic, may_change),
            });
            live(subscribed)
        }
        name => match shoal_dashboard::asset(name) {
            Some(asset) => file(asset, &head.headers),
            None => text(StatusCode::NOT_FOUND, "the dashboard has no such file\n"),
        },
    }
}

/// Adds the fields that every answer of the dashboard has.
pub(super) fn protect(fields: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
}

fn live(subscribed: Result<Result<mpsc::Receiver<Bytes>, SubscribeError>, String>) -> Response<AdminBody> {
    let events = match subscribed {
        Ok(Ok(events)) => events,
        Ok(Err(SubscribeError::Full)) => {
            let mut response =
                text(StatusCode::SERVICE_UNAVAILABLE, "there are as many viewers as are allowed\n");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            return response;
        }
        // RFC 9110, 15.3.5: a browser does not connect again after 204 (HTML, server-sent events).
        Ok(Err(SubscribeError::Ended)) => return with_body(StatusCode::NO_CONTENT, "", Bytes::new()),
        Err(why) => return text(StatusCode::NOT_FOUND, &format!("{why}\n")),
    };
    let mut response = Response::new(AdminBody::Events(events));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the seconds and the most points of a request for the history.
fn history_range(parameters: &[(&str, String)]) -> Result<(u64, usize), String> {
    let (mut seconds, mut points) = (3600, usize::MAX);
    for (name, value) in parameters {
        let number = |most: u64| {
            let number = value.parse::<u64>().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("{name} is not a number from 1 to {most}"))
        };
        match *name {
            "seconds" => seconds = number(86_400)?,
            "points" => points = number(10_000)? as usize,
            other => return Err(format!("there is no {other:?}: seconds or points")),
        }
    }
    Ok((seconds, points))
}

/// A file with its validator, plain and as gzip.
struct StoredFile {
    asset: &'static Asset,
    tag: HeaderValue,
    gzip: Bytes,
    gzip_tag: HeaderValue,
}

fn file(asset: &'static Asset, request: &HeaderMap) -> Response<AdminBody> {
    let files = FILES.get_or_init(|| ASSETS.iter().map(StoredFile::new).collect());
    debug_assert_eq!(files.len(), ASSETS.len(), "each file is kept once");
    let Some(file) = files.iter().find(|file| file.asset.name == asset.name) else {
        return text(StatusCode::NOT_FOUND, "the dashboard has no such file\n");
    };
    let accepted = request.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip =
        accepted.is_some_and(|value| value.split([',', ';']).any(|coding| coding.trim() == "gzip"));
    let is_gzip = takes_gzip && file.gzip.len() < asset.bytes.len();
    let tag = if is_gzip { &file.gzip_tag } else { &file.tag };
    let known = request.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known =
        known.is_some_and(|known| known.split(',').any(|known| known.trim().as_bytes() == tag.as_bytes()));
    let mut response = match (is_known, is_gzip) {
        (true, _) => with_body(StatusCode::NOT_MODIFIED, "", Bytes::new()),
        (_, true) => with_body(StatusCode::OK, asset.content_type, file.gzip.clone()),
        (_, false) => with_body(StatusCode::OK, asset.content_type, Bytes::from_static(asset.bytes)),
    };
    let fields = response.headers_mut();
    fields.insert(header::ETAG, tag.clone());
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_gzip && !is_known {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

impl StoredFile {
    fn new(asset: &'static Asset) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing into memory does not fail.
        let gzip = encoder.write_all(asset.bytes).and_then(|()| encoder.finish()).unwrap_or_default();
        let hash = xxh3_64(asset.bytes);
        let tag = |suffix: &str| HeaderValue::try_from(format!("\"{hash:016x}{suffix}\"")).expect("ASCII");
        Self { asset, tag: tag(""), gzip: gzip.into(), gzip_tag: tag("-gzip") }
    }
}

fn to_page() -> Response<AdminBody> {
    let mut response = with_body(StatusCode::FOUND, "", Bytes::new());
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/ui/"));
    response
}

fn json(body: Bytes) -> Response<AdminBody> {
    let mut response = with_body(StatusCode::OK, "application/json", body);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn text(status: StatusCode, body: &str) -> Response<AdminBody> {
    with_body(status, "text/plain; charset=utf-8", Bytes::copy_from_slice(body.as_bytes()))
}

fn with_body(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<AdminBody> {
    let mut response = Response::new(AdminBody::from(body));
    *response.status_mut() = status;
    if !content_type.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

impl From<Bytes> for AdminBody {
    fn from(body: Bytes) -> Self {
        Self::Whole(Some(body).filter(|body| !body.is_empty()))
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// Policy of the page: its own files and documents, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The files, compressed at the first request for one.
static FILES: OnceLock<Vec<StoredFile>> = OnceLock::new();
