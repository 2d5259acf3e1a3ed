//! Redirects of registries, followed here: clients and cache see the first URL alone.
//!
//! Signed URLs of file hosts last for minutes and name no object, so that none becomes a key or an
//! answer. The credentials of this node go to the mirror's upstream and to no other host. The
//! addresses of other hosts are checked as in forward mode.

use crate::fetcher::Fetcher;
use crate::message::target::Target;
use crate::mirror::FetchSource;
use crate::request::RequestContext;
use crate::upstream::{Cause, Destination, UpstreamError, UpstreamRequest, UpstreamResponse};
use http::header::LOCATION;
use shoal_core::{Fields, Key};
use shoal_semantics::NextHopFields;
use std::sync::Arc;

impl Fetcher {
    /// Follows the redirects of a response at a mirror. `again` builds the request anew.
    ///
    /// # Errors
    /// If a redirect leads astray, or its target cannot be reached.
    pub(crate) async fn follow(
        &self,
        ask: &RequestContext,
        again: &(dyn Fn() -> UpstreamRequest + Send + Sync),
        mut response: UpstreamResponse,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let Some(asked) = &ask.mirror else { return Ok(response) };
        response = self.with_token(ask, again, response).await?;
        let mut url = asked.url_of(asked.fetched_from());
        for _ in 0..REDIRECTS_MAX {
            let is_redirect = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(location) = response.fields.value(&LOCATION).filter(|_| is_redirect) else {
                return Ok(response);
            };
            let location = String::from_utf8_lossy(location).into_owned();
            let to = resolved(&url, &location).ok_or_else(|| astray(&url, "it has no usable Location"))?;
            let mut request = again();
            Onward { ask, from: &url }.redirect(&mut request, &to)?;
            debug_assert!(!request.caller.pins, "no connection of a registry is one client's");
            response = self.upstreams.fetch(request).await?;
            url = to;
        }
        Err(astray(&url, "there are too many of them"))
    }
}

/// A request that goes on to another URL than the one it was made for.
pub(super) struct Onward<'a> {
    /// Request of the client.
    pub ask: &'a RequestContext,
    /// URL that leads on.
    pub from: &'a str,
}

impl Onward<'_> {
    /// Gives a request the destination and path of `to`. Tokens and credentials reach the upstream
    /// alone.
    ///
    /// # Errors
    /// If the URL leads astray, or its host is refused.
    pub fn redirect(&self, request: &mut UpstreamRequest, to: &str) -> Result<(), UpstreamError> {
        let Some(asked) = &self.ask.mirror else { return Err(astray(to, "it belongs to no mirror")) };
        if self.from.starts_with("https:") && !to.starts_with("https:") {
            return Err(astray(to, "it leads from https to http"));
        }
        match asked.source_of(to) {
            Some(FetchSource::Upstream(path)) => {
                let site = self.ask.site.as_ref().ok_or_else(|| astray(to, "it has no site"))?;
                let key = Key::unkeyed(self.ask.primary.full()).low();
                request.destination = Destination::Group { group: Arc::clone(&site.group), key };
                request.target = path;
            }
            Some(FetchSource::Elsewhere(origin, path)) => {
                let rules = Arc::clone(&self.ask.live.forward);
                rules
                    .request(&origin.host, origin.port)
                    .map_err(|refusal| UpstreamError::refused(refusal, &origin))?;
                request.fields = without_authorization(&request.fields);
                request.destination = Destination::Origin { origin, rules };
                request.target = path;
            }
            None => return Err(astray(to, "it is no URL")),
        }
        Ok(())
    }
}

fn without_authorization(fields: &NextHopFields) -> NextHopFields {
    let others = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"authorization"));
    others.fold(NextHopFields::default(), |mut kept, (name, value)| {
        kept.push(name, value);
        kept
    })
}

/// Returns the absolute URL that a Location means (RFC 3986, section 5.2), without its fragment.
fn resolved(base: &str, location: &str) -> Option<String> {
    let base = Target::parse(base).ok()?;
    let location = location.split('#').next()?;
    let scheme = if base.https { "https" } else { "http" };
    let text = match location {
        "" => return None,
        _ if location.contains("://") && !location.starts_with('/') => location.to_owned(),
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{}{location}", base.origin()),
        _ => {
            let path = base.path().split('?').next()?;
            let folder = &path[..=path.rfind('/')?];
            format!("{}{folder}{location}", base.origin())
        }
    };
    Target::parse(&text).ok().map(|target| target.url.to_string())
}

fn astray(url: &str, why: &'static str) -> UpstreamError {
    // A URL without a host may still have secrets.
    let host =
        Target::parse(url).map_or_else(|_| "no host".to_owned(), |target| target.authority().to_owned());
    UpstreamError::new(Cause::Malformed, host, format!("a redirect was not followed: {why}"))
}

/// Most redirects of one response.
const REDIRECTS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved() {
        let base = "https://a.test/x/y?q=1";
        for (location, url) in [
            ("https://b.test/z?sig=1#f", Some("https://b.test/z?sig=1")),
            ("//b.test/z", Some("https://b.test/z")),
            ("/z", Some("https://a.test/z")),
            ("z", Some("https://a.test/x/z")),
            ("ftp://b.test/", None),
            ("", None),
        ] {
            assert_eq!(resolved(base, location).as_deref(), url, "{location}");
        }
    }
}
