//! Changes that one upstream of a site makes to its requests: path, host, credentials.

use super::UpstreamUrlError;
use crate::exchanged::{Origin, Scheme};
use crate::head::AttemptHead;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, header};
use shoal_rules::{below_prefix, may_leave_prefix, normal_path};
use shoal_semantics::NextHopFields;
use shoal_settings::UpstreamServer;
use std::sync::Arc;

/// Changes to requests for one upstream.
#[derive(Debug)]
pub struct MemberChanges {
    /// Path put before that of each request, without a final slash; empty for none.
    pub prefix: Arc<str>,
    /// Host sent in place of any other.
    pub host: Option<HeaderValue>,
    /// Authorization of this node. The value is marked as sensitive.
    pub authorization: Option<HeaderValue>,
    /// Paths below which this Authorization is sent; none means all.
    pub authorized: Arc<[String]>,
}

impl MemberChanges {
    /// Returns `true` if requests go on as they are.
    fn is_empty(&self) -> bool {
        self.prefix.is_empty() && self.host.is_none() && self.authorization.is_none()
    }

    /// Returns the request's head as this upstream gets it; `None` if it stays. The error is the
    /// part that cannot be sent.
    pub(crate) fn apply(&self, head: &AttemptHead) -> Result<Option<Box<AttemptHead>>, &'static str> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut changed = Box::new(head.clone());
        // OPTIONS may ask about the server as a whole.
        if !self.prefix.is_empty() && head.target != "*" {
            let target = below_prefix(&self.prefix, head.target.as_str());
            debug_assert!(target.starts_with(&*self.prefix), "requests stay below the prefix");
            changed.target = PathAndQuery::try_from(target).map_err(|_| "path")?;
        }
        self.sign(&mut changed);
        Ok(Some(changed))
    }

    /// Gives a head this upstream's host and credentials.
    pub(crate) fn sign(&self, head: &mut AttemptHead) {
        if self.host.is_some() {
            head.host.clone_from(&self.host);
        }
        // A token of an image registry was had by these credentials and stands for them.
        let has_token = head.fields.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(b"authorization") && value.starts_with(b"Bearer ")
        });
        let is_covered = || is_below_any(&self.authorized, head.target.path());
        if let Some(value) = self.authorization.as_ref().filter(|_| !has_token && is_covered()) {
            head.fields = with_authorization(&head.fields, value);
        }
    }

    /// Returns `true` if `host` and `port`, which stand in a URL of `scheme`, name this upstream at
    /// `origin`.
    pub(super) fn is_named(&self, origin: &Origin, scheme: &str, host: &str, port: u16) -> bool {
        if scheme != origin.scheme.name() {
            return false;
        }
        let said = Origin::new(origin.scheme, host, port);
        let own = self.host.as_ref().and_then(|host| {
            let authority = Authority::try_from(host.as_bytes()).ok()?;
            let port = authority.port_u16().unwrap_or(origin.scheme.default_port());
            Some(Origin::new(origin.scheme, authority.host(), port))
        });
        let is = |other: &Origin| said.authority() == other.authority();
        is(origin) || own.as_ref().is_some_and(is)
    }
}

/// Reads an upstream: its address, and its changes to requests without credentials.
pub(super) fn parse(server: &UpstreamServer) -> Result<(Origin, MemberChanges), UpstreamUrlError> {
    let url = &server.url;
    let wrong = |what| UpstreamUrlError(url.clone(), what);
    let uri: http::Uri = url.parse().map_err(|_| wrong("is no URL"))?;
    let scheme = match (uri.scheme_str(), server.h2c) {
        (Some("http"), false) => Scheme::Http,
        (Some("http"), true) => Scheme::H2c,
        (Some("https"), false) => Scheme::Https,
        (Some("https"), true) => return Err(wrong("speaks TLS, where h2c does not apply")),
        _ => return Err(wrong("must begin with http:// or https://")),
    };
    if uri.query().is_some() {
        return Err(wrong("must not have a query"));
    }
    let authority = uri.authority().ok_or(wrong("has no host"))?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return Err(wrong("must be a host and perhaps a port"));
    }
    let port = authority.port_u16().unwrap_or(scheme.default_port());
    let host = server.host.as_deref().map(HeaderValue::from_str).transpose();
    let changes = MemberChanges {
        prefix: uri.path().trim_end_matches('/').into(),
        host: host.map_err(|_| wrong("has a `host` that cannot be sent"))?,
        authorization: None,
        authorized: server.credentials_below.clone().into(),
    };
    let origin = Origin::new(scheme, authority.host(), port);
    Ok((origin.with_server_name(server.server_name.as_deref()), changes))
}

/// Returns `true` if a path is below one of these, or if there are none. A path that some origin
/// could read as another one is below none.
pub fn is_below_any(above: &[String], path: &str) -> bool {
    let plain = normal_path(path);
    let is_below = |above: &String| {
        let above = above.trim_end_matches('/');
        let rest = plain.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        rest.is_some_and(|rest| !may_leave_prefix(rest))
    };
    above.is_empty() || above.iter().any(is_below)
}

/// Returns the fields with this Authorization and no other.
fn with_authorization(fields: &NextHopFields, value: &HeaderValue) -> NextHopFields {
    let name = header::AUTHORIZATION.as_str().as_bytes();
    let others = fields.iter().filter(|(other, _)| !other.eq_ignore_ascii_case(name));
    others.chain([(name, value.as_bytes())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn head(target: &str) -> AttemptHead {
        AttemptHead {
            method: Method::GET,
            target: target.parse().expect("a path"),
            absolute: None,
            fields: [("authorization", "Basic client"), ("a", "1")].into_iter().collect(),
            host: Some(HeaderValue::from_static("site.test")),
            upgrade: None,
            takes_trailers: false,
        }
    }

    fn changes(server: UpstreamServer) -> MemberChanges {
        parse(&server).expect("a sound upstream").1
    }

    #[test]
    fn requests_go_below_the_prefix() {
        let changes = changes(UpstreamServer::at("http://a:1/simple/"));
        for (path, asked) in [("/pip/?x", "/simple/pip/?x"), ("/../etc", "/simple/etc"), ("*", "*")] {
            let changed = changes.apply(&head(path)).expect("a path").expect("a change");
            assert_eq!(changed.target, asked);
            assert_eq!(changed.host, head(path).host, "the host stays");
        }
        let long = format!("/{}", "x".repeat(65_000));
        assert!(changes.apply(&head(&long)).is_ok_and(|changed| changed.is_some()));
        let longest = format!("/{}", "x".repeat(65_532));
        assert_eq!(changes.apply(&head(&longest)).err(), Some("path"), "and is never sent without");
    }

    #[test]
    fn credentials_stay_below_their_paths() {
        let below = ["/npm/".to_owned(), "/files".to_owned()];
        for (path, is_covered) in [
            ("/npm", true),
            ("/npm/a", true),
            ("/npm/a%2fb", true),
            ("/files/x", true),
            ("/npmx", false),
            ("/", false),
            ("/npm/../admin", false),
            ("/npm/..%2fadmin", false),
            ("/npm/..;/admin", false),
            ("/npm/%2e%2e/admin", false),
        ] {
            assert_eq!(is_below_any(&below, path), is_covered, "{path}");
            assert!(is_below_any(&[], path), "{path}");
        }
    }

    #[test]
    fn plain_upstreams_change_nothing() {
        let changes = changes(UpstreamServer::at("http://a/"));
        assert!(changes.apply(&head("/")).expect("nothing fails").is_none());
    }

    #[test]
    fn host_and_credentials_are_this_upstreams() {
        let server = UpstreamServer { host: Some("b.test:8080".into()), ..UpstreamServer::at("http://a") };
        let changes =
            MemberChanges { authorization: Some(HeaderValue::from_static("Bearer node")), ..changes(server) };
        let changed = changes.apply(&head("/x")).expect("a path").expect("a change");
        assert_eq!(changed.host.as_ref().map(HeaderValue::as_bytes), Some(&b"b.test:8080"[..]));
        assert_eq!(changed.fields.as_bytes(), b"a: 1\r\nauthorization: Bearer node\r\n");
        let origin = Origin::new(Scheme::Http, "a", 80);
        for (scheme, host, port, is) in [
            ("http", "a", 80, true),
            ("http", "A.", 80, true),
            ("https", "a", 80, false),
            ("http", "a", 81, false),
            ("http", "b.test", 8080, true),
            ("http", "b.test", 80, false),
        ] {
            assert_eq!(changes.is_named(&origin, scheme, host, port), is, "{scheme}://{host}:{port}");
        }
    }
}
