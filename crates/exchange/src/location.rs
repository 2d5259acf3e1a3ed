//! URLs in a site's responses, from the upstream's names to the site's.
//!
//! ```text
//!   upstream http://10.0.0.2:8000/simple        site https://pip.example
//!   Location: http://10.0.0.2:8000/simple/a/ ─► https://pip.example/a/
//!   Location: /simple/a/                     ─► /a/
//!   Location: https://elsewhere.example/a/   ─► the same
//! ```
//!
//! Scheme and host of the site are those of the request's URL. They are in its cache key, so that a
//! rewritten response can be stored.

use super::request::RequestContext;
use crate::upstream::{UpstreamGroup, UpstreamResponse};
use http::header::{CONTENT_LOCATION, LOCATION, REFRESH};
use http::uri::Authority;
use shoal_core::{FieldLines, Fields};
use shoal_rules::{PathMapping, without_prefix};
use std::borrow::Cow;

/// Rewrites the response's `Location`, `Content-Location` and `Refresh`, if the site asks for it.
pub(super) fn rewrite(ask: &RequestContext, response: &mut UpstreamResponse) {
    let Some(site) = &ask.site else { return };
    let mapping = ask.ruling.mapping.as_ref().filter(|mapping| !mapping.is_identity());
    let fields = &response.fields;
    if !site.rewrites_location.unwrap_or(mapping.is_some())
        || ![LOCATION, CONTENT_LOCATION, REFRESH].iter().any(|name| fields.has(name))
    {
        return;
    }
    debug_assert!(response.member < site.group.members().len(), "an upstream of the site has answered");
    let rewriter = LocationRewriter {
        site_origin: ask.target.origin(),
        group: &site.group,
        member: response.member,
        mapping,
    };
    if let Some(fields) = rewriter.fields(fields) {
        response.fields = fields;
    }
}

/// Names of a site and of its upstreams.
struct LocationRewriter<'a> {
    /// Scheme and authority by which the client asked.
    site_origin: &'a str,
    group: &'a UpstreamGroup,
    /// Number of the upstream that answered.
    member: usize,
    /// Change of the path by rules.
    mapping: Option<&'a PathMapping>,
}

impl LocationRewriter<'_> {
    /// Returns the rewritten fields; `None` if they stay.
    fn fields(&self, fields: &FieldLines) -> Option<FieldLines> {
        let mut is_changed = false;
        let lines = fields.lines().map(|(name, value)| {
            let text = || std::str::from_utf8(value).ok();
            let new = match name {
                b"location" | b"content-location" => text().and_then(|text| self.reference(text)),
                b"refresh" => text().and_then(|text| self.refresh(text)),
                _ => None,
            };
            is_changed |= new.is_some();
            (name, new.map_or(Cow::Borrowed(value), |new| Cow::Owned(new.into_bytes())))
        });
        let rewritten = lines.collect();
        is_changed.then_some(rewritten)
    }

    /// Returns the site's name of a URL or of an absolute path; `None` if it stays.
    fn reference(&self, text: &str) -> Option<String> {
        // Browsers drop tabs: "/x/<tab>/evil" would become "//evil" once the prefix is gone.
        if text.bytes().any(|byte| byte == b'\t') {
            return None;
        }
        let answering = self.group.members().get(self.member)?;
        let (scheme, rest) = match text.split_once("//") {
            Some(("", rest)) => (answering.origin.scheme.name(), rest),
            Some((scheme, rest)) if scheme.ends_with(':') => (scheme.trim_end_matches(':'), rest),
            _ if text.starts_with('/') => return self.path(text, &answering.changes.prefix),
            _ => return None,
        };
        let scheme = ["http", "https"].into_iter().find(|known| known.eq_ignore_ascii_case(scheme))?;
        let (said, rest) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        let authority: Authority = said.parse().ok()?;
        if said.contains('@') || authority.host().is_empty() || rest.starts_with('\\') {
            return None;
        }
        let default = if scheme == "https" { 443 } else { 80 };
        let (host, port) = (authority.host(), authority.port_u16().unwrap_or(default));
        if let Some(named) = self.group.named(self.member, scheme, host, port) {
            return Some(format!("{}{}", self.site_origin, self.mapped(rest, &named.changes.prefix)?));
        }
        let own = self.site_origin.split_once("://").map_or("", |(_, authority)| authority);
        let is_own = own.eq_ignore_ascii_case(said.strip_suffix(&format!(":{default}")).unwrap_or(said));
        if !is_own || !self.maps(&answering.changes.prefix) {
            return None;
        }
        let before = &text[..text.len() - rest.len()];
        Some(format!("{before}{}", self.mapped(rest, &answering.changes.prefix)?))
    }

    /// Returns the site's form of an absolute path; `None` if it stays. A path that would be read
    /// as a host gets the site's host before it.
    fn path(&self, text: &str, prefix: &str) -> Option<String> {
        let mapped = self.mapped(text, prefix).filter(|_| self.maps(prefix))?;
        let reads_as_host = mapped.starts_with("//") || mapped.starts_with("/\\");
        Some(if reads_as_host { format!("{}{mapped}", self.site_origin) } else { mapped })
    }

    /// Returns the client's form of an upstream's path with query and fragment; `None` for a path
    /// that no client reaches.
    fn mapped(&self, text: &str, prefix: &str) -> Option<String> {
        if !self.maps(prefix) {
            return Some(text.to_owned());
        }
        let (path, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
        let inner = without_prefix(prefix, if path.is_empty() { "/" } else { path })?;
        let path = match self.mapping {
            Some(mapping) => mapping.to_client(&inner)?,
            None if inner.is_empty() => "/".into(),
            None => inner.into_owned(),
        };
        debug_assert!(path.starts_with('/'), "a client's path is absolute");
        Some(path + rest)
    }

    /// Returns `true` if paths differ at an upstream with this prefix.
    fn maps(&self, prefix: &str) -> bool {
        !prefix.is_empty() || self.mapping.is_some_and(|mapping| !mapping.is_identity())
    }

    /// Returns a value of Refresh (`5; url=…`) with the site's name of its URL; `None` if it stays.
    fn refresh(&self, text: &str) -> Option<String> {
        let at = text.find([';', ','])? + 1;
        let (delay, said) = text.split_at(at);
        let key = said.trim_start();
        if !key.get(..3)?.eq_ignore_ascii_case("url") {
            return None;
        }
        let url = key[3..].trim_start().strip_prefix('=')?.trim_start();
        let quote = url.chars().next().filter(|first| ['"', '\''].contains(first));
        let (url, quote) = match quote {
            Some(quote) => (url[1..].split(quote).next()?, quote.to_string()),
            None => (url.trim_end(), String::new()),
        };
        Some(format!("{delay} url={quote}{}{quote}", self.reference(url)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shoal_settings::{Site, UpstreamServer};

    fn group(upstreams: &[UpstreamServer]) -> UpstreamGroup {
        let site = Site { upstreams: upstreams.to_vec(), ..Site::to("http://unused") };
        UpstreamGroup::new(&site, 1).expect("sound upstreams")
    }

    fn check(
        group: &UpstreamGroup,
        member: usize,
        mapping: Option<&PathMapping>,
        cases: &[(&str, Option<&str>)],
    ) {
        let site_origin = "https://site.test:8443";
        let rewriter = LocationRewriter { site_origin, group, member, mapping };
        for (text, rewritten) in cases {
            assert_eq!(rewriter.reference(text).as_deref(), *rewritten, "{text}");
        }
    }

    proptest! {
        /// No reference of an origin becomes one to a third host.
        #[test]
        fn rewritten_references_stay_on_the_site(
            start in "(http://up\\.test(/simple)?|//up\\.test(/simple)?|https://site\\.test:8443(/simple)?|/simple|)",
            rest in "[/\\\\@:.?#%2ef a\t]{0,12}",
        ) {
            let group = group(&[UpstreamServer::at("http://up.test/simple")]);
            let site_origin = "https://site.test:8443";
            let rewriter = LocationRewriter { site_origin, group: &group, member: 0, mapping: None };
            if let Some(new) = rewriter.reference(&format!("{start}{rest}")) {
                let new: String = new.chars().filter(|c| *c != '\t').collect();
                let is_path = new.starts_with('/') && !new.starts_with("//") && !new.starts_with("/\\");
                let after = new.strip_prefix(site_origin);
                prop_assert!(is_path || after.is_some_and(|after| after.is_empty() || after.starts_with(['/', '?', '#'])), "{new}");
            }
        }
    }

    #[test]
    fn upstream_becomes_the_site() {
        let group = group(&[UpstreamServer::at("http://10.0.0.2:8000")]);
        check(
            &group,
            0,
            None,
            &[
                ("http://10.0.0.2:8000/a?b#c", Some("https://site.test:8443/a?b#c")),
                ("HTTP://10.0.0.2:8000", Some("https://site.test:8443")),
                ("//10.0.0.2:8000/a", Some("https://site.test:8443/a")),
                ("http://10.0.0.2:8000//evil.test/", Some("https://site.test:8443//evil.test/")),
                ("https://10.0.0.2:8000/a", None),
                ("http://10.0.0.2/a", None),
                ("http://10.0.0.2:8000@evil.test/", None),
                ("http://x@10.0.0.2:8000/", None),
                ("http://10.0.0.2:8000.evil.test/", None),
                ("http://10.0.0.2:8000\\@evil.test/", None),
                ("http://elsewhere.test/a", None),
                ("https://site.test:8443/a", None),
                ("/a", None),
                ("a/b", None),
                ("?a=//10.0.0.2:8000", None),
                ("mailto:a@b", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn prefix_of_the_upstream_goes() {
        let group = group(&[
            UpstreamServer::at("https://packages.test/simple"),
            UpstreamServer {
                host: Some("packages.test".into()),
                ..UpstreamServer::at("https://b.test/pypi/")
            },
        ]);
        check(
            &group,
            0,
            None,
            &[
                ("https://packages.test/simple/pip/", Some("https://site.test:8443/pip/")),
                ("https://packages.test/simple/pïp/", Some("https://site.test:8443/pïp/")),
                ("https://packages.test/simple", Some("https://site.test:8443/")),
                ("/simple/pip/?x", Some("/pip/?x")),
                ("/simple#top", Some("/#top")),
                ("/simple//evil.test/", Some("https://site.test:8443//evil.test/")),
                ("/simple/\\evil.test/", Some("https://site.test:8443/\\evil.test/")),
                ("/simple/\t/evil.test/", None),
                ("/simple/../admin", None),
                ("/files/a", None),
                ("https://packages.test/files/a", None),
                ("https://b.test/pypi/a", Some("https://site.test:8443/a")),
                ("https://site.test:8443/simple/a", Some("https://site.test:8443/a")),
                ("http://site.test:8443/simple/a", Some("http://site.test:8443/a")),
            ],
        );
        check(
            &group,
            1,
            None,
            &[
                ("/pypi/a", Some("/a")),
                ("/simple/a", None),
                // Both upstreams have the name; the one that answered goes before.
                ("https://packages.test/pypi/a", Some("https://site.test:8443/a")),
            ],
        );
    }

    #[test]
    fn mapping_by_rules_is_undone() {
        let mapping = PathMapping::of("/npm/a", Some("/npm"), Some("/registry"));
        let plain = group(&[UpstreamServer::at("http://up.test")]);
        check(
            &plain,
            0,
            Some(&mapping),
            &[
                ("/registry/b", Some("/npm/b")),
                ("http://up.test/registry/b?c", Some("https://site.test:8443/npm/b?c")),
                ("/npm/b", None),
                ("http://up.test/other", None),
            ],
        );
        let below = group(&[UpstreamServer::at("http://up.test/v1")]);
        check(&below, 0, Some(&mapping), &[("/v1/registry/b", Some("/npm/b")), ("/registry/b", None)]);
        let strip = PathMapping::of("/npm/a", Some("/npm"), None);
        check(&plain, 0, Some(&strip), &[("/b", Some("/npm/b")), ("/", Some("/npm/"))]);
    }

    #[test]
    fn refresh_has_a_url_within() {
        let group = group(&[UpstreamServer::at("http://up.test/x")]);
        let rewriter = LocationRewriter { site_origin: "http://s", group: &group, member: 0, mapping: None };
        for (text, rewritten) in [
            ("5; url=http://up.test/x/a", Some("5; url=http://s/a")),
            ("0;URL = '/x/a'", Some("0; url='/a'")),
            ("0, url=\"/x/a\" ", Some("0, url=\"/a\"")),
            ("5", None),
            ("5;", None),
            ("5; http://up.test/x/a", None),
            ("5; url=http://else.test/", None),
            ("5; ürl=", None),
        ] {
            assert_eq!(rewriter.refresh(text).as_deref(), rewritten, "{text}");
        }
    }
}
