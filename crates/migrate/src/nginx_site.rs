//! Sites of nginx locations: upstreams with their path, Host and name in TLS, and Location fields.

use crate::document::{Section, SiteSection};
use crate::ledger::LineId;
use crate::nginx::Nginx;
use crate::nginx_access::PathTest;
use crate::nginx_location::{Choice, Location};
use crate::nginx_proxy::{Target, fields};
use crate::nginx_syntax::Directive;
use crate::nginx_upstream::{UpstreamOptions, upstreams};

/// Writes a site's own settings.
pub fn site(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    target: &Target,
    (path, is_alone): (&str, bool),
    site: &mut SiteSection,
) {
    let mut options = UpstreamOptions::default();
    joined_path(nginx, target, (path, is_alone), (site, &mut options));
    let section = &mut site.section;
    if path != "/" {
        section.set("path_prefix", path, &[]);
    }
    let mut by_host = Section::default();
    host(nginx, location, &mut by_host, &mut options);
    server_name(nginx, location, target, &mut options);
    let written = upstreams(&target.group, &target.scheme, &options);
    nginx.any_upstream.get_or_insert_with(|| written.clone());
    let from = target.group.from.iter().chain([&target.line]).chain(&options.from);
    let from: Vec<LineId> = from.copied().collect();
    section.set("upstreams", written, &from);
    if let Some(balance) = target.group.balance {
        section.set("balance", balance, &[]);
    }
    section.entries.append(&mut by_host.entries);
    by_host.notes.into_iter().for_each(|note| section.note(note));
    target.group.limit(section);
    redirects(nginx, location, target, section);
    section.set("via", false, &[]);
    fields(nginx, location, &PathTest::default(), &mut site.rules);
}

/// Reads the Host that the upstream gets.
fn host(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    section: &mut Section,
    options: &mut UpstreamOptions,
) {
    let is_host = |directive: &&&Directive| directive.word(0).eq_ignore_ascii_case("host");
    let headers = location.in_force(&["proxy_set_header"]);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
    };
    match headers.iter().find(is_host).map(|host| (host.word(1), host.line)) {
        Some(("$host" | "$http_host" | "$host:$server_port" | "$http_host:$server_port", line)) => {
            nginx.ledger.carried(line);
            section.set("preserve_host", true, &[line]);
        }
        Some(("$proxy_host", line)) => {
            nginx.ledger.carried(line);
            section.set("preserve_host", false, &[line]);
        }
        Some((text, line)) if is_name(text) => {
            nginx.ledger.carried(line);
            options.host = Some(text.to_owned());
            section.set("preserve_host", false, &[line]);
        }
        Some((_, line)) => {
            nginx
                .ledger
                .approximated(line, "the upstream gets its own host: `host` is a text without variables");
            section.set("preserve_host", false, &[line]);
        }
        None => {
            section.note("Without proxy_set_header Host, nginx sends the upstream's own host.");
            section.set("preserve_host", false, &[]);
        }
    }
}

/// Reads `proxy_ssl_name`.
fn server_name(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    target: &Target,
    options: &mut UpstreamOptions,
) {
    let Some(directive) = location.last("proxy_ssl_name") else { return };
    let (line, name) = (directive.line, directive.word(0));
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    match name {
        _ if target.scheme != "https" => nginx.ledger.needless(line, "the upstream is asked without TLS"),
        "$proxy_host" => nginx.ledger.needless(line, "TLS names the upstream's host"),
        name if is_name(name) => {
            nginx.ledger.carried(line);
            options.server_name = Some(name.to_owned());
            options.from.push(line);
        }
        _ => nginx.ledger.left_out(line, "`server_name` of an upstream is a name without variables"),
    }
}

/// Reads `proxy_redirect`: Location fields that name the upstream.
fn redirects(nginx: &mut Nginx<'_>, location: &Location<'_>, target: &Target, section: &mut Section) {
    for directive in location.in_force(&["proxy_redirect"]) {
        let (line, from) = (directive.line, directive.word(0));
        let is_upstream = target.group.servers.iter().any(|(server, _)| {
            from.strip_prefix(&format!("{}://{server}", target.scheme))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        match from {
            "off" => {
                nginx.ledger.carried(line);
                section.set("rewrite_location", false, &[line]);
            }
            "default" => {
                nginx.ledger.carried(line);
                section.set("rewrite_location", true, &[line]);
            }
            _ if is_upstream && !directive.word(1).contains("://") => {
                nginx.ledger.carried(line);
                section.set("rewrite_location", true, &[line]);
            }
            _ => nginx
                .ledger
                .left_out(line, "Location is rewritten where it names the upstream, to the site's URL"),
        }
    }
}

/// Maps the path of the location to that of `proxy_pass`. With `is_alone` no rule has to take the
/// mapping back for some paths, so that the upstream itself has the path.
fn joined_path(
    nginx: &mut Nginx<'_>,
    target: &Target,
    (path, is_alone): (&str, bool),
    (site, options): (&mut SiteSection, &mut UpstreamOptions),
) {
    let Some(to) = &target.path else { return };
    let to = to.split('?').next().unwrap_or("/");
    if to == path {
        return;
    }
    debug_assert!(to.starts_with('/'), "the path of a URL begins with its slash");
    let mut rule = Section::default();
    if path.ends_with('/') && !to.ends_with('/') {
        nginx.ledger.left_out(
            target.line,
            "the location ends in / and the path of proxy_pass does not, so that segments would be joined; \
             the site refuses all requests",
        );
        site.rules.push(rule.with("deny", 404).guard());
        return;
    }
    if !path.ends_with('/') && to.ends_with('/') {
        nginx.ledger.approximated(target.line, "the origin gets one slash where nginx sends two");
    }
    let to = to.trim_end_matches('/');
    let is_plain =
        !to.is_empty() && to.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte));
    if path != "/" {
        rule.set("upstream_strip", path.trim_end_matches('/'), &[target.line]);
    }
    match is_plain && is_alone {
        true => options.path = to.to_owned(),
        false if to.is_empty() => {}
        false => rule.set("upstream_add", to, &[target.line]),
    }
    if !rule.entries.is_empty() {
        site.rules.push(rule);
    }
}

/// Maps the path of a location that is no prefix, in a site that maps paths itself or not.
pub fn own_path(nginx: &mut Nginx<'_>, target: &Target, choice: &Choice, test: &PathTest) -> Section {
    let rule = test.section(&[target.line]);
    let to = target.path.as_deref().map(|to| to.split('?').next().unwrap_or("/"));
    let (strip, add) = match (choice, to) {
        (Choice::Exact(path), Some(to)) if to != path => {
            if path.ends_with('/') != to.ends_with('/') || path == "/" {
                let why = "its path does not become that of the location, which is refused";
                nginx.ledger.left_out(target.line, why);
                return rule.with("deny", 404).guard();
            }
            (path.as_str(), to)
        }
        _ => ("/", "/"),
    };
    let whole = |path: &str| match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    };
    rule.with("upstream_strip", whole(strip)).with("upstream_add", whole(add))
}
