//! Tokens of image registries: a 401 with a Bearer challenge is answered by this node.
//!
//! ```text
//!   GET blob ─► 401, realm ─► GET realm?service&scope ─► token ─► GET blob with the token
//! ```
//!
//! The client's credentials reach nobody. Those of this node go to the token server only if it is
//! the upstream itself. The server's address is checked as that of a redirect.

use super::redirects::Onward;
use crate::fetcher::Fetcher;
use crate::request::RequestContext;
use crate::upstream::{UpstreamError, UpstreamRequest, UpstreamResponse};
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use shoal_core::Fields;
use shoal_mirrors::bearer::{Challenge, Token};
use std::time::Instant;

impl Fetcher {
    /// Sends a request again with a token, if the registry asks for one. Otherwise returns the
    /// response as it is.
    pub(super) async fn with_token(
        &self,
        ask: &RequestContext,
        again: &(dyn Fn() -> UpstreamRequest + Send + Sync),
        response: UpstreamResponse,
    ) -> Result<UpstreamResponse, UpstreamError> {
        // Clients with rights of their own fetch tokens themselves.
        let Some(asked) = ask.mirror.as_ref().filter(|asked| !asked.mirror.asks_for_rights()) else {
            return Ok(response);
        };
        let challenge = response.fields.value(&header::WWW_AUTHENTICATE).map(String::from_utf8_lossy);
        let challenge = challenge.and_then(|value| Challenge::parse(&value));
        let (StatusCode::UNAUTHORIZED, Some(challenge), Some(repository)) =
            (response.status, challenge, asked.repository())
        else {
            return Ok(response);
        };
        asked.mirror.tokens.forget(&repository);
        let Some(token) = self.token(ask, again, &challenge).await? else { return Ok(response) };
        asked.mirror.tokens.keep(&repository, &token, Instant::now());
        let mut request = again();
        debug_assert!(request.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"authorization")));
        request.caller.account = None;
        self.upstreams.fetch(request).await
    }

    /// Asks a token server. `None` if it gives no token.
    async fn token(
        &self,
        ask: &RequestContext,
        again: &(dyn Fn() -> UpstreamRequest + Send + Sync),
        challenge: &Challenge,
    ) -> Result<Option<Token>, UpstreamError> {
        let url = challenge.url();
        let mut request = again();
        request.method = Method::GET;
        request.caller.account = None;
        Onward { ask, from: &asked_url(ask) }.redirect(&mut request, &url)?;
        let response = self.upstreams.fetch(request).await?;
        if response.status != StatusCode::OK {
            tracing::info!(url = %challenge.realm, status = %response.status, "a token server gave no token");
            return Ok(None);
        }
        let body = Limited::new(response.body, ANSWER_BYTES_MAX).collect().await;
        Ok(body.ok().and_then(|body| Token::parse(&body.to_bytes())))
    }
}

fn asked_url(ask: &RequestContext) -> String {
    ask.mirror.as_ref().map(|asked| asked.url_of(asked.fetched_from())).unwrap_or_default()
}

/// Longest answer of a token server.
const ANSWER_BYTES_MAX: usize = 64 << 10;
