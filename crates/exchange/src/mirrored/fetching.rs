//! Requests to a registry: redirects and tokens are followed, and a tag is validated by HEAD.
//!
//! ```text
//!   stored manifest of a tag, too old ─► HEAD ─┬─ same digest ──► as 304
//!                                              ├─ 429, 5xx ─────► stale, or the answer
//!                                              └─ anything else ► GET
//! ```
//!
//! Large registries count GETs of manifests against a limit, and HEADs not. Many of them give
//! manifests no entity tag.

use crate::fetcher::Fetcher;
use crate::upstream::{UpstreamError, UpstreamRequest, UpstreamResponse};
use crate::upstream_request::{CONTENT_DIGEST, OutgoingFetch};
use http::{Method, StatusCode, header};
use shoal_core::Fields;
use shoal_mirrors::{Class, Form};

impl Fetcher {
    /// Sends the request of a fetch at a mirror.
    ///
    /// # Errors
    /// If the registry cannot be reached, or a redirect leads astray.
    pub(crate) async fn fetch_mirrored(
        &self,
        outgoing: &OutgoingFetch,
    ) -> Result<UpstreamResponse, UpstreamError> {
        if let Some(held) = held_tag(outgoing) {
            let response = self.send_mirrored(outgoing, &|| outgoing.by(Method::HEAD)).await?;
            if let Some(response) = judged(response, held) {
                return Ok(response);
            }
        }
        self.send_mirrored(outgoing, &|| outgoing.to_origin()).await
    }

    async fn send_mirrored(
        &self,
        outgoing: &OutgoingFetch,
        request: &(dyn Fn() -> UpstreamRequest + Send + Sync),
    ) -> Result<UpstreamResponse, UpstreamError> {
        let response = self.upstreams.fetch(request()).await?;
        self.follow(&outgoing.ask, request, response).await
    }
}

/// Returns the digest of the stored manifest if the fetch validates a tag.
fn held_tag(outgoing: &OutgoingFetch) -> Option<&[u8]> {
    let class = outgoing.ask.mirror.as_ref()?.class.as_ref()?;
    outgoing.held_digest.as_deref().filter(|_| *class == Class::Document(Form::OciTag))
}

/// Returns the response to a HEAD in the place of a GET's. `None` if the GET is needed.
fn judged(mut response: UpstreamResponse, held: &[u8]) -> Option<UpstreamResponse> {
    let status = response.status;
    let is_same = status == StatusCode::OK && response.fields.value(&CONTENT_DIGEST) == Some(held);
    if is_same {
        response.status = StatusCode::NOT_MODIFIED;
        // The other fields are those of a response with a body.
        let date = response.fields.value(&header::DATE).map(<[u8]>::to_vec);
        response.fields = date.map(|date| ("date", date)).into_iter().collect();
        debug_assert_eq!(response.length, Some(0), "a HEAD has no body");
    }
    let is_refusal = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    (is_same || status == StatusCode::NOT_MODIFIED || is_refusal && status != StatusCode::NOT_IMPLEMENTED)
        .then_some(response)
}
