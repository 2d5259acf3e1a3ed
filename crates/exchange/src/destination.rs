//! The field Destination of COPY and MOVE: the URL that WebDAV writes to.
//!
//! ```text
//!   client  MOVE /a   Destination: https://files.example/b
//!     │ TLS ends here, or the site has another name or path at its origin
//!     ▼
//!   origin  MOVE /a   Destination: /b
//! ```
//!
//! An origin compares scheme and host with its own, and refuses another server's URL. RFC 4918,
//! section 8.3 allows a path there: "Simple-ref = absolute-URI | ( path-absolute [ "?" query ] )".

use super::request::RequestContext;
use http::{HeaderName, Uri};
use shoal_core::Fields;
use shoal_rules::{below_prefix, may_leave_prefix, normal_path};
use shoal_semantics::invalidation;

/// Destination (RFC 4918, section 10.3).
pub(super) const DESTINATION: HeaderName = HeaderName::from_static("destination");

/// Returns the absolute URI that a COPY or MOVE writes to. `None` for other methods, and for a URI
/// of another origin than the request's.
pub(super) fn of(ask: &RequestContext) -> Option<Uri> {
    if !["COPY", "MOVE"].contains(&ask.method.as_str()) {
        return None;
    }
    let name = DESTINATION;
    let mut lines = ask.fields.values(&name);
    let line = std::str::from_utf8(lines.next()?).ok()?;
    if lines.next().is_some() {
        return None;
    }
    // A rule may have changed the URL since the client wrote the field.
    let asked = ask.ruling.asked_url.as_deref().unwrap_or(&ask.target.url).parse().ok()?;
    invalidation::resolve(&asked, line.trim()).filter(|uri| invalidation::same_origin(uri, &asked))
}

/// Returns the path that the site's origin takes for the Destination; `None` if the field stays.
pub(super) fn at_origin(ask: &RequestContext) -> Option<String> {
    let site = ask.site.as_ref().filter(|_| ask.mirror.is_none() && !ask.is_for_peer)?;
    let uri = of(ask)?;
    let mapping = ask.ruling.mapping.as_ref().filter(|mapping| !mapping.is_identity());
    let members = site.group.members();
    let prefix = &members.first()?.changes.prefix;
    if members.iter().any(|member| member.changes.prefix != *prefix) {
        return None;
    }
    let scheme = if ask.target.https { "https" } else { "http" };
    let is_known =
        |at: usize| members[at].origin.scheme.name() == scheme && members[at].changes.host.is_none();
    let has_same_name =
        site.preserve_host && ask.ruling.asked_url.is_none() && (0..members.len()).all(is_known);
    if has_same_name && mapping.is_none() && prefix.is_empty() {
        return None;
    }
    if (mapping.is_some() || !prefix.is_empty()) && may_leave_prefix(uri.path()) {
        return None;
    }
    let path =
        mapping.map_or_else(|| uri.path().to_owned(), |mapping| mapping.to_origin(&normal_path(uri.path())));
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    debug_assert!(path.starts_with('/'), "an absolute URI has an absolute path");
    Some(if prefix.is_empty() { path + &query } else { below_prefix(prefix, &(path + &query)) })
}
