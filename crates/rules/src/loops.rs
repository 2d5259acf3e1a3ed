//! Redirects that lead a client in a circle.
//!
//! A sample of a URL that each redirecting rule matches is followed through all rules, as a client
//! would follow it. A redirect to the URL itself is left out by the node, and ends no worse. Only
//! conditions on URLs count, and only hosts of this node are followed.

use crate::set::{RuleSet, values};
use crate::url::normal_path;
use shoal_settings::{Mode, Rule, Settings};
use std::collections::HashSet;

/// Returns warnings about redirects that meet a redirect again and again.
pub fn redirect_loops(settings: &Settings) -> Vec<String> {
    let decides = |rule: &Rule| rule.redirect.is_some() || rule.deny.is_some();
    let Ok(rules) = RuleSet::only(settings, decides) else { return Vec::new() };
    let general = settings.rule.iter().enumerate().map(|(at, rule)| (format!("rule[{at}]"), None, rule));
    let of_sites = settings.site.iter().enumerate().flat_map(|(site, entry)| {
        let of_site = entry.rule.iter().enumerate();
        of_site.map(move |(at, rule)| (format!("site[{site}].rule[{at}]"), Some(site), rule))
    });
    let redirects = general.chain(of_sites).filter(|(.., rule)| rule.redirect.is_some());
    let (names, mut looks, mut warnings) = (Names::of(settings), LOOKS, Vec::new());
    for (key, site, rule) in redirects {
        if looks == 0 {
            warnings.push(format!(
                "{key}: this redirect and later ones were not followed to find circles: too many rules \
                 match any path; begin their paths with a text in place of *"
            ));
            break;
        }
        let Some(start) = sample(settings, site, rule) else { continue };
        if let Some(way) = circle(settings, &names, &rules, start, &mut looks) {
            warnings.push(format!("{key}: its redirect leads in a circle: {}", way.join(" to ")));
        }
    }
    warnings
}

/// Hosts that sites and rules name.
struct Names<'a> {
    exact: HashSet<String>,
    /// With the leading dot of `*.example.org`, or without.
    suffixes: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(settings: &'a Settings) -> Self {
        let of_sites = settings.site.iter().flat_map(|site| &site.hosts);
        let patterns = of_sites.chain(settings.rule.iter().flat_map(|rule| &rule.hosts));
        let (mut exact, mut suffixes) = (HashSet::new(), HashSet::new());
        for pattern in patterns {
            match pattern.strip_prefix('*') {
                Some("") => {}
                Some(suffix) => drop(suffixes.insert(suffix)),
                None => drop(exact.insert(pattern.to_ascii_lowercase())),
            }
        }
        debug_assert!(!suffixes.contains(""), "`*` names no host");
        Self { exact, suffixes: suffixes.into_iter().collect() }
    }

    /// Returns `true` if a site or a rule names the host.
    fn has(&self, host: &str, looks: &mut usize) -> bool {
        *looks = looks.saturating_sub(self.suffixes.len());
        self.exact.contains(&host.to_ascii_lowercase())
            || self.suffixes.iter().any(|suffix| host.ends_with(suffix))
    }
}

/// Returns the URLs of a way that never ends; `None` if it ends.
fn circle(
    settings: &Settings,
    names: &Names<'_>,
    rules: &RuleSet,
    start: String,
    looks: &mut usize,
) -> Option<Vec<String>> {
    let first_host = host_of(&start).to_owned();
    let mut way = vec![start];
    for _ in 0..STEPS {
        let url = way.last().expect("the way has a start");
        let (host, path_and_query) = parts(url);
        let is_ours = host == first_host || names.has(host, looks);
        if !is_ours || url.starts_with("https:") && !serves_https(settings) {
            return None;
        }
        *looks = looks.saturating_sub(settings.site.len());
        let to = rules.redirect_of(site_of(settings, host, path_and_query), url, looks)?;
        if to.trim_end_matches('?') == url {
            return None;
        }
        way.push(as_asked(&to)?);
    }
    debug_assert_eq!(way.len(), STEPS + 1, "no step has ended the way");
    way.truncate(SHOWN);
    Some(way)
}

/// Returns a URL that the rule matches; `None` if none is evident.
fn sample(settings: &Settings, site: Option<usize>, rule: &Rule) -> Option<String> {
    if rule.path_regex.is_some() {
        return None;
    }
    let hosts = [Some(&rule.hosts), site.map(|site| &settings.site[site].hosts)];
    let host = hosts.into_iter().flatten().flatten().find(|host| *host != "*");
    let host = host.map_or("host.example".into(), |host| host.replace('*', "x").to_ascii_lowercase());
    let prefix = site.map_or("/", |site| &settings.site[site].path_prefix);
    let path = rule.paths.first().map_or(format!("{prefix}*"), Clone::clone);
    let path = if path.starts_with('*') { format!("/{path}") } else { path }.replace('*', "x");
    let query = rule.query.first().map_or(String::new(), |query| format!("?{}", query.replace('*', "x")));
    Some(format!("http://{host}{path}{query}"))
}

/// Returns the URL that a client asks for after this Location: without fragment and default port,
/// host in lower case, dot segments resolved.
fn as_asked(location: &str) -> Option<String> {
    let url = location.split('#').next().unwrap_or_default();
    let (scheme, _) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
    let default = if scheme == "https" { ":443" } else { ":80" };
    let end = url[scheme.len() + 3..].find(['/', '?']).map_or(url.len(), |at| at + scheme.len() + 3);
    let host = url[scheme.len() + 3..end].to_ascii_lowercase();
    let host = host.strip_suffix(default).unwrap_or(&host);
    let (path, query) = match url[end..].split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (&url[end..], String::new()),
    };
    let path = if path.contains("/.") { normal_path(path) } else { path.into() };
    let path = if path.is_empty() { "/".into() } else { path };
    Some(format!("{scheme}://{host}{path}{query}"))
}

/// Returns host without port, and path with query.
fn parts(url: &str) -> (&str, &str) {
    let known = values(url, "");
    let start = url.len() - url.split_once("://").map_or(url, |(_, rest)| rest).len() + known.host.len();
    (host_of(url), &url[start..])
}

fn host_of(url: &str) -> &str {
    let host = values(url, "").host;
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

/// Returns `true` for the host itself and for `*.suffix`, not for `*`.
fn fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => false,
        Some(suffix) => host.ends_with(suffix),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

/// Returns the site that serves a URL.
fn site_of(settings: &Settings, host: &str, path: &str) -> Option<usize> {
    let serves = |prefix: &str| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with(['/', '?']))
    };
    let weight = |at: &usize| {
        let site = &settings.site[*at];
        let fitting = site.hosts.iter().filter(|pattern| *pattern == "*" || fits(pattern, host));
        let best = fitting.map(|pattern| (!pattern.starts_with('*'), pattern.len())).max()?;
        serves(&site.path_prefix).then_some((best, site.path_prefix.len()))
    };
    let served = (0..settings.site.len()).filter_map(|at| Some((weight(&at)?, at)));
    served.max_by_key(|(weight, at)| (*weight, std::cmp::Reverse(*at))).map(|(_, at)| at)
}

/// Returns `true` if requests of this node may have https URLs.
fn serves_https(settings: &Settings) -> bool {
    let may = |listen: &shoal_settings::Listen| {
        listen.mode == Mode::Reverse && (listen.is_tls() || !listen.trusted_proxies.is_empty())
    };
    settings.listen.iter().any(may)
}

/// Redirects followed: browsers give up after twenty.
const STEPS: usize = 20;
/// Rules, sites and hosts compared in all: a second's worth would delay the start of a node.
const LOOKS: usize = 4_000_000;
/// URLs shown of a circle.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        let site = "[[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\ntrusted_proxies = ['10.0.0.0/8']\n\
                    [[site]]\nhosts = ['a.test', '*']\nupstreams = [{ url = 'http://b' }]\n";
        let settings = Settings::parse(&format!("{site}{text}"), "test").expect("sound settings");
        redirect_loops(&settings)
    }

    #[test]
    fn circles_are_found() {
        for text in [
            "[[rule]]\nredirect = 'https://$host/new$path'",
            "[[rule]]\nredirect = 'https://a.test:443/'",
            "[[site.rule]]\npaths = ['/a/*']\nredirect = 'http://a.test/a/b$path'",
            "[[rule]]\npaths = ['/login*']\nredirect = 'https://A.test/login?from=$path'\n",
            "[[rule]]\npaths = ['/x/*']\nredirect = 'http://$host/x/y/../z?$query'\nquery = ['a']\n\
             [[rule]]\npaths = ['/x/z']\nredirect = 'http://$host/x/q?a'",
            "[[rule]]\npaths = ['/one']\nredirect = 'http://$host/two'\n[[rule]]\npaths = ['/two']\n\
             redirect = 'http://$host/one'",
        ] {
            assert!(!warnings(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn work_has_a_bound() {
        let rule = |at| format!("[[rule]]\npaths = ['*/p{at}']\nredirect = 'http://$host/q{at}'\n");
        let few: String = (0..500).map(rule).collect();
        assert_eq!(warnings(&few), [] as [String; 0]);
        let many: String = (0..4000).map(rule).collect();
        let said = warnings(&many);
        assert!(said.len() == 1 && said[0].contains("were not followed"), "{said:?}");
    }

    #[test]
    fn ways_that_end_are_not_named() {
        for text in [
            "[[rule]]\nredirect = 'https://$host$path'",
            "[[rule]]\npaths = ['/old/*']\nredirect = 'https://$host/new$path'",
            "[[rule]]\nhosts = ['a.test']\nredirect = 'https://elsewhere.example/a$path'",
            "[[rule]]\nredirect = 'https://a.test/'",
            "[[rule]]\npaths = ['/login']\nredirect = 'https://$host/login'",
            "[[rule]]\npath_regex = '^/x'\nredirect = 'https://$host/x$path'",
        ] {
            assert_eq!(warnings(text), [] as [String; 0], "{text}");
        }
    }
}
