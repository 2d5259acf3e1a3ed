//! Parts of one attempt shared by both HTTP versions: the request's head, interim responses,
//! failures.

use super::error::{Cause, UpstreamError};
use super::exchanged::Origin;
use super::request_body::Upload;
use crate::message::{InterimSink, RequestBody};
use http::header::TE;
use http::uri::{Authority, PathAndQuery, Uri};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use shoal_semantics::NextHopFields;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Request head for either version, usable for several attempts.
#[derive(Clone)]
pub(super) struct AttemptHead {
    pub method: Method,
    pub target: PathAndQuery,
    /// Scheme and authority before the target, in HTTP/1.
    pub absolute: Option<Arc<str>>,
    /// Fields without Host.
    pub fields: NextHopFields,
    pub host: Option<HeaderValue>,
    pub upgrade: Option<HeaderValue>,
    pub takes_trailers: bool,
}

/// Attempt without a response head.
pub(super) struct AttemptFailure {
    pub cause: Cause,
    pub detail: String,
    /// The origin cannot have acted on the request.
    pub unsent: bool,
    /// The connection ended without any byte of a response.
    pub dead: bool,
    /// The kept connection had bytes that answer no request.
    pub surplus: bool,
}

/// Body of one attempt, and the sink for its interim responses.
pub(super) struct AttemptStreams {
    /// Body of the request.
    pub upload: Arc<Upload>,
    sink: Option<InterimSink>,
    interims: AtomicU32,
    interims_max: u32,
    flooded: Notify,
}

impl AttemptHead {
    /// Completes the fields for a request with or without a body. Returns `true` if the body is
    /// held back until the origin asks for it.
    pub fn prepare(&mut self, has_body: bool) -> bool {
        if has_body {
            return self.fields.expects_continue();
        }
        // RFC 9110, 8.6: "A user agent SHOULD send Content-Length in a request when the method
        // defines a meaning for enclosed content": without it some origins answer 411.
        if self.is_meant_for_content() && self.fields.content_length().is_none() {
            self.fields.push(b"content-length", b"0");
        }
        false
    }

    /// Returns `true` if requests of this method normally have a body.
    pub fn is_meant_for_content(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }

    /// Builds the head for HTTP/2.
    pub fn http2(&self, scheme: &'static str, authority: &str) -> Result<Request<()>, AttemptFailure> {
        let host = self.host_or(authority)?;
        let authority = Authority::try_from(host.as_bytes()).map_err(|_| invalid("Host"))?;
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(self.target.clone());
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.build().map_err(|_| invalid("target"))?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.fields.to_map();
        // RFC 9113, 8.2.2: TE "MUST NOT contain any value other than "trailers"".
        request.headers_mut().remove(TE);
        if self.takes_trailers {
            request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        }
        Ok(request)
    }

    fn host_or(&self, authority: &str) -> Result<HeaderValue, AttemptFailure> {
        match &self.host {
            Some(host) => Ok(host.clone()),
            None => HeaderValue::from_str(authority).map_err(|_| invalid("Host")),
        }
    }
}

impl AttemptFailure {
    /// Converts the failure into the caller's error.
    pub fn into_error(self, origin: &Origin) -> UpstreamError {
        UpstreamError::new(self.cause, origin.authority(), self.detail)
    }
}

impl AttemptStreams {
    /// Creates the streams of an attempt that begins at `now`.
    pub fn new(body: RequestBody, hold: bool, sink: Option<InterimSink>, now: Instant) -> Self {
        let (interims, flooded) = (AtomicU32::new(0), Notify::new());
        let interims_max = INTERIM_MAX;
        Self { upload: Upload::new(body, hold, now), sink, interims, interims_max, flooded }
    }

    /// Takes any number of interim responses.
    pub fn with_any_interims(self) -> Self {
        Self { interims_max: u32::MAX, ..self }
    }

    /// Waits for an answer, at most `timeout` after the last progress.
    pub async fn limit<A>(
        &self,
        timeout: Duration,
        answer: impl Future<Output = Result<A, AttemptFailure>>,
    ) -> Result<A, AttemptFailure> {
        let late =
            |cause, detail| AttemptFailure { cause, detail, unsent: false, dead: false, surplus: false };
        tokio::select! {
            biased;
            answer = answer => answer,
            cause = self.upload.overdue(timeout) => {
                Err(late(cause, format!("no sign of a response within {timeout:?}")))
            }
            () = self.flooded.notified() => {
                Err(late(Cause::Malformed, format!("more than {INTERIM_MAX} interim responses")))
            }
        }
    }

    /// Passes on an interim response. A 100 releases the body instead: the server sends the client
    /// a 100 when the body is asked for. Returns `false` if there are too many interim responses.
    pub fn received(&self, status: StatusCode, fields: impl FnOnce() -> HeaderMap) -> bool {
        if self.interims.fetch_add(1, Ordering::Relaxed) >= self.interims_max {
            self.flooded.notify_one();
            return false;
        }
        self.upload.progressed();
        match (status, &self.sink) {
            (StatusCode::CONTINUE, _) => self.upload.release(),
            (StatusCode::SWITCHING_PROTOCOLS, _) => {}
            // A full sink means that the client is too slow. Interim responses are only advice, so
            // this one is dropped.
            (_, Some(sink)) => drop(sink.try_send((status, fields()))),
            (_, None) => {}
        }
        true
    }
}

pub(super) fn invalid(what: &str) -> AttemptFailure {
    let (cause, detail) = (Cause::RequestInvalid, format!("{what} cannot be sent"));
    AttemptFailure { cause, detail, unsent: false, dead: false, surplus: false }
}

/// Maximum size in bytes of a response's head, and of its trailer section.
pub(super) const HEAD_MAX: usize = 65_536;
/// Maximum number of interim responses before the final one.
const INTERIM_MAX: u32 = 32;
