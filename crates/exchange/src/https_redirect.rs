//! Sends clients of http to https, where a listener says so.
//!
//! Only a host that a site serves is named in the answer. Host, path and query are those of the
//! request's target: no other field of the client gets into `Location`. The method stays (308). A
//! challenge of a certificate authority is answered by the site, since the authority asks over http.

use super::answers;
use super::handling_report::HandlingReport;
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::message::{Client, Reply, ReplyHead};
use http::{HeaderValue, Method, StatusCode, header};
use shoal_semantics::status_fields::Reason;
use shoal_wire::RequestParts;

/// Returns the redirect for a request that came over http to a listener that wants https.
///
/// The client must be one that the listener serves. Its credentials are not looked at: it is to
/// send them over https.
pub(super) fn redirect(
    live: &ExchangeSettings,
    head: &RequestParts,
    target: &Target,
    client: &Client,
) -> Option<Reply> {
    let listener = live.listeners.get(client.listener)?;
    let port = listener.redirect_https.filter(|_| !client.tls && !target.https)?;
    let is_excepted = head.method == Method::CONNECT || head.method.as_str() == "PURGE";
    if is_excepted || is_challenge(target.path()) || listener.client(client.address.ip()).is_err() {
        return None;
    }
    live.routes.find(target.host().as_bytes(), target.path())?;
    let location = HeaderValue::from_str(&https_url(target, port)).ok()?;
    let verdict = HandlingReport::local(Reason::Https);
    let mut reply = answers::early(live, head, client, (StatusCode::PERMANENT_REDIRECT, OVER_HTTPS), verdict);
    if let ReplyHead::Built(_, fields) = &mut reply.head {
        fields.insert(header::LOCATION, location);
    }
    Some(reply)
}

fn https_url(target: &Target, port: u16) -> String {
    let (host, path) = (target.host(), target.path());
    debug_assert!(path.starts_with(['/', '*']) && !host.contains('/'), "a target is in normal form");
    match port {
        443 => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    }
}

/// Returns `true` for the path of an http-01 challenge (RFC 8555, section 8.3): one segment of
/// base64url behind the prefix, and no query. Any other path below it is redirected.
fn is_challenge(path: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    path.strip_prefix("/.well-known/acme-challenge/")
        .is_some_and(|token| !token.is_empty() && token.bytes().all(is_of_token))
}

const OVER_HTTPS: &str = "This site is served over https.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_tokens() {
        for (path, expected) in [
            ("/.well-known/acme-challenge/a-B_9", true),
            ("/.well-known/acme-challenge/", false),
            ("/.well-known/acme-challenge", false),
            ("/.well-known/acme-challenge/../../admin", false),
            ("/.well-known/acme-challenge/%2e%2e%2fadmin", false),
            ("/.well-known/acme-challenge/a/b", false),
            ("/.well-known/acme-challenge/a?b", false),
            ("/.well-known/acme-challenge/a.b", false),
            ("/x/.well-known/acme-challenge/a", false),
        ] {
            assert_eq!(is_challenge(path), expected, "{path}");
        }
    }

    #[test]
    fn urls_keep_host_path_and_query() {
        for (from, port, to) in [
            ("http://A.test/b?c=d", 443, "https://a.test/b?c=d"),
            ("http://a.test:8080/", 443, "https://a.test/"),
            ("http://a.test/", 8443, "https://a.test:8443/"),
            ("http://[::1]:80/x", 8443, "https://[::1]:8443/x"),
        ] {
            assert_eq!(https_url(&Target::parse(from).expect("a URL"), port), to);
        }
    }
}
