//! Requests to the authority: the node's own connections, under bounds.
//!
//! The authority may be anybody's. It is asked by https, at the host of its directory and at no
//! other; redirects are not followed; bodies, times and the number of requests are bounded.

use crate::message::StreamBody;
use crate::upstream::{Caller, Destination, UpstreamGroup, UpstreamRequest, Upstreams};
use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use shoal_semantics::NextHopFields;
use shoal_settings::Site;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Client of one authority. Clones share the count of requests.
#[derive(Clone)]
pub(super) struct AuthorityClient(Arc<ClientParts>);

struct ClientParts {
    upstreams: Arc<Upstreams>,
    group: Arc<UpstreamGroup>,
    /// Host and port of the directory.
    place: (String, u16),
    /// Requests that this order may still make.
    requests_left: AtomicU32,
    /// Seconds that the authority asked to wait, with an answer that refused.
    retry_after: Mutex<Option<u64>>,
}

impl AuthorityClient {
    /// Creates the client of a directory's host.
    ///
    /// # Errors
    /// If the URL names no host, in a line.
    pub fn new(directory: &str, upstreams: &Arc<Upstreams>) -> Result<Self, String> {
        let uri: Uri = directory.parse().map_err(|error| format!("{directory}: {error}"))?;
        let place = place(&uri).ok_or_else(|| format!("{directory} is no URL of https"))?;
        let site = Site::to(&format!("https://{}:{}", place.0, place.1));
        let group = UpstreamGroup::new(&site, 0).map_err(|error| error.1.to_owned())?;
        Ok(Self(Arc::new(ClientParts {
            upstreams: Arc::clone(upstreams),
            group: Arc::new(group),
            place,
            requests_left: AtomicU32::new(0),
            retry_after: Mutex::default(),
        })))
    }

    /// Allows this number of further requests, and forgets the wish to wait.
    pub fn allow(&self, requests: u32) {
        debug_assert!(requests > 0, "an order makes requests");
        self.0.requests_left.store(requests, Relaxed);
        *self.0.retry_after.lock() = None;
    }

    /// Returns the seconds that the authority asked to wait when it refused.
    pub fn retry_after(&self) -> Option<u64> {
        *self.0.retry_after.lock()
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let parts = Arc::clone(&self.0);
        Box::pin(async move {
            let answer = tokio::time::timeout(REQUEST_MAX, parts.ask(request)).await;
            answer.unwrap_or_else(|_| Err("no answer in time".to_owned())).map_err(other)
        })
    }
}

impl ClientParts {
    async fn ask(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, String> {
        let (head, body) = request.into_parts();
        if place(&head.uri).as_ref() != Some(&self.place) {
            return Err(format!(
                "it names {} beside its own host {}",
                tidy(&head.uri.to_string()),
                self.place.0
            ));
        }
        let is_allowed = |left: u32| left.checked_sub(1);
        if self.requests_left.fetch_update(Relaxed, Relaxed, is_allowed).is_err() {
            return Err("it wants more requests than an order takes".into());
        }
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let request = UpstreamRequest {
            method: head.method,
            destination: Destination::Group { group: Arc::clone(&self.group), key: 0 },
            target: head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")),
            fields: fields(&head.headers, &body),
            absolute: None,
            host: None,
            takes_trailers: false,
            body: (!body.is_empty()).then(|| Full::new(body).map_err(|never| match never {}).boxed_unsync()),
            interim: None,
            upgrade: None,
            caller: Caller::default(),
        };
        let response = self.upstreams.fetch(request).await.map_err(|error| error.to_string())?;
        let (status, mut fields) = (response.status, response.fields.to_map());
        if status.is_redirection() {
            return Err(format!("it answers {status}, and redirects are not followed"));
        }
        if status.is_client_error() || status.is_server_error() {
            self.note_wait(&fields);
        }
        limit_wait(&mut fields);
        let body = whole(response.body).await?;
        let mut answer = http::Response::new(Full::new(body));
        (*answer.status_mut(), *answer.headers_mut()) = (status, fields);
        Ok(BytesResponse::from(answer))
    }

    /// Notes the wish to wait in a refusal.
    fn note_wait(&self, fields: &HeaderMap) {
        let Some(value) = fields.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()) else {
            return;
        };
        let seconds = value.trim().parse::<u64>().ok();
        let of_date = || {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default().as_secs())
        };
        if let Some(seconds) = seconds.or_else(of_date) {
            *self.retry_after.lock() = Some(seconds);
        }
    }
}

/// Limits the wish to wait that the library reads: it adds the seconds to the time of day, and a
/// sum beyond all times is a panic.
fn limit_wait(fields: &mut HeaderMap) {
    let Some(value) = fields.remove(header::RETRY_AFTER) else { return };
    let text = value.to_str().unwrap_or_default().trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than a number has are a longer wait than any.
    let seconds = is_number.then(|| text.parse().unwrap_or(u64::MAX).min(WAIT_MAX.as_secs()));
    if let Some(seconds) = seconds {
        fields.insert(header::RETRY_AFTER, seconds.into());
    } else if httpdate::parse_http_date(text).is_ok() {
        fields.insert(header::RETRY_AFTER, value);
    }
}

/// Reads a body to its end.
async fn whole(mut body: StreamBody) -> Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("its answer is cut: {error}"))?;
        if let Ok(data) = frame.into_data() {
            whole.extend_from_slice(&data);
        }
        if whole.len() > BODY_MAX {
            return Err(format!("its answer is longer than {BODY_MAX} bytes"));
        }
    }
    assert!(whole.len() <= BODY_MAX, "a body is bounded");
    Ok(whole.freeze())
}

/// Returns the fields of the request. The library writes names and values that fit in a line.
fn fields(map: &HeaderMap, body: &Bytes) -> NextHopFields {
    let mut fields = NextHopFields::default();
    for (name, value) in map.iter().filter(|(name, _)| **name != header::USER_AGENT) {
        fields.push(name.as_str().as_bytes(), value.as_bytes());
    }
    // RFC 8555, section 6.1: "ACME clients MUST send a User-Agent header field".
    fields.push(b"user-agent", concat!("shoal/", env!("CARGO_PKG_VERSION"), " (acme)").as_bytes());
    if !body.is_empty() {
        fields.push(b"content-length", body.len().to_string().as_bytes());
    }
    fields
}

/// Returns host and port of a URL of https.
fn place(uri: &Uri) -> Option<(String, u16)> {
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"))?;
    let has_user = authority.as_str().contains('@');
    (!has_user).then(|| (authority.host().to_ascii_lowercase(), authority.port_u16().unwrap_or(443)))
}

/// Returns a text from outside as one line of bounded length.
pub(super) fn tidy(text: &str) -> String {
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().map(plain).take(TEXT_MAX).collect()
}

fn other(why: String) -> Error {
    Error::Other(why.into())
}

/// Longest wait for an answer with its body.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// Longest wait that the library is told of. The certificate's own times limit waits further.
const WAIT_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Longest body of an answer, in bytes: a chain of certificates takes about 10 KB.
const BODY_MAX: usize = 256 << 10;
/// Longest text of an authority in the log, in characters.
const TEXT_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_of_https_alone() {
        for (url, expected) in [
            ("https://CA.test/dir", Some(("ca.test".to_owned(), 443))),
            ("https://ca.test:8443", Some(("ca.test".to_owned(), 8443))),
            ("http://ca.test/dir", None),
            ("https://me@ca.test/dir", None),
            ("/dir", None),
        ] {
            assert_eq!(place(&url.parse().expect("a URI")), expected, "{url}");
        }
    }

    #[test]
    fn waits_are_limited() {
        for (said, told) in [
            ("60", Some("60")),
            ("18446744073709551615", Some("604800")),
            ("99999999999999999999999", Some("604800")),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some("Sun, 06 Nov 1994 08:49:37 GMT")),
            ("-1", None),
            ("soon", None),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(header::RETRY_AFTER, said.parse().expect("a value"));
            limit_wait(&mut fields);
            let left = fields.get(header::RETRY_AFTER).map(|value| value.to_str().expect("text"));
            assert_eq!(left, told, "{said}");
        }
    }

    #[test]
    fn foreign_texts_are_one_line() {
        assert_eq!(tidy("a\r\nb\u{1b}[31m"), "a  b [31m");
        assert_eq!(tidy(&"x".repeat(5000)).len(), TEXT_MAX);
    }
}
