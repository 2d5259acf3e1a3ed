//! Warnings about rules that never match, and about settings that can have no effect.
//!
//! The author of such a rule believes that it protects or keeps something. Only evident cases are
//! named: a rule without a warning may still match nothing. `limit_warnings` has the warnings about
//! guards and limits.

use crate::mistakes::keyed;
use crate::pattern::hosts_meet;
use crate::url::normal_path;
use shoal_settings::{Mode, Rule, Settings, Site};

/// Returns a warning for each rule that never matches, and each setting without effect.
pub fn vain(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, site, rule) in placed(settings) {
        let found = unmatched(settings, site, rule).into_iter().chain(idle(rule));
        warnings.extend(found.map(|(setting, why)| format!("{key}.{setting}: {why}")));
    }
    warnings
}

/// Every rule with its key, and its site if it has one.
fn placed(settings: &Settings) -> impl Iterator<Item = (String, Option<&Site>, &Rule)> {
    let general = settings.rule.iter().map(|_| None);
    let of_sites = settings.site.iter().flat_map(|site| site.rule.iter().map(move |_| Some(site)));
    keyed(settings).zip(general.chain(of_sites)).map(|((key, rule), site)| (key, site, rule))
}

/// Returns the conditions that no request meets, each with the reason.
fn unmatched(settings: &Settings, site: Option<&Site>, rule: &Rule) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let of_site: Vec<&Site> = site.map_or_else(|| settings.site.iter().collect(), |site| vec![site]);
    let is_sites_alone = site.is_some() || settings.listen.iter().all(|it| it.mode == Mode::Reverse);
    for (at, host) in rule.hosts.iter().enumerate().filter(|_| is_sites_alone) {
        let host = host.to_ascii_lowercase();
        let is_served = of_site.iter().flat_map(|site| &site.hosts).any(|own| hosts_meet(own, &host));
        if !is_served {
            let place = if site.is_some() { "the site does not serve" } else { "no [[site]] serves" };
            found.push((format!("hosts[{at}]"), format!("never matches: {place} {host}")));
        }
    }
    for (at, path) in rule.paths.iter().enumerate() {
        if let Some(why) = unmatched_path(site, path) {
            found.push((format!("paths[{at}]"), format!("never matches: {why}")));
        }
    }
    for (at, method) in rule.methods.iter().enumerate() {
        let capitals = method.to_ascii_uppercase();
        if *method != capitals && METHODS.contains(&&*capitals) {
            let why = format!("never matches: methods are in capitals, write {capitals:?}");
            found.push((format!("methods[{at}]"), why));
        }
    }
    found
}

/// Returns the reason why no request has such a path.
fn unmatched_path(site: Option<&Site>, path: &str) -> Option<String> {
    if !path.is_ascii() || path.contains(' ') {
        return Some(format!("paths are ASCII, write {:?}", escaped(path)));
    }
    let normal = normal_path(path);
    if path.starts_with('/') && normal != *path {
        return Some(format!("paths are compared in normal form, write {normal:?}"));
    }
    let (prefix, start) = (&site?.path_prefix, path.split('*').next().unwrap_or_default());
    let is_whole = !path.contains('*');
    let is_below = start.starts_with(prefix.trim_end_matches('/'));
    let may_be_below = is_below || !is_whole && prefix.starts_with(start);
    (!may_be_below).then(|| format!("the site has paths below {prefix} alone; rules see the whole path"))
}

/// Returns the path with its bytes beyond ASCII, and blanks, as `%C3`.
fn escaped(path: &str) -> String {
    let one = |byte: u8| match byte.is_ascii() && byte != b' ' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(one).collect()
}

/// Returns the settings of a rule that change nothing, each with the reason.
fn idle(rule: &Rule) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut note = |setting: &str, why: String| found.push((setting.to_owned(), why));
    let written: Vec<&str> = rule.written().into_iter().map(|(name, _)| name).collect();
    let lifetimes = || written.iter().filter(|name| LIFETIMES.contains(name));
    if rule.store == Some(false) {
        lifetimes().for_each(|name| note(name, format!("{IDLE}: store = false stands beside it")));
    } else if !rule.methods.is_empty() && !rule.methods.iter().any(|it| it == "GET" || it == "HEAD") {
        lifetimes().for_each(|name| note(name, format!("{IDLE}: only answers to GET are stored")));
    }
    if rule.lifetime.is_some() && rule.lifetime_default.is_some() {
        note("lifetime_default", format!("{IDLE}: lifetime holds whatever the origin says"));
    }
    if rule.deny.is_some() {
        for name in written.iter().filter(|name| LIFETIMES.contains(name) || OF_ANSWERS.contains(name)) {
            note(name, format!("{IDLE}: the rule denies the request"));
        }
    }
    if rule.redirect.is_none() && written.contains(&"redirect_status") {
        note("redirect_status", format!("{IDLE}: the rule has no redirect"));
    }
    found
}

const IDLE: &str = "has no effect";
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"];
const LIFETIMES: [&str; 7] = [
    "lifetime",
    "lifetime_default",
    "lifetime_min",
    "lifetime_max",
    "stale_while_revalidate",
    "stale_if_error",
    "pin",
];
/// Other settings that need an answer of the origin.
const OF_ANSWERS: [&str; 4] = ["store", "set_cookie", "ignore_origin", "ignore_vary"];

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(text: &str) -> Vec<String> {
        let start = "[[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\n\
                     [[site]]\nhosts = ['a.test', '*.b.test']\nupstreams = [{ url = 'http://c' }]\n\
                     [[site]]\nhosts = ['d.test']\npath_prefix = '/api'\n\
                     upstreams = [{ url = 'http://c' }]\n";
        vain(&Settings::parse(&format!("{start}{text}"), "test").expect("sound settings"))
    }

    #[test]
    fn vain_rules_are_named() {
        for (text, key, reason) in [
            ("[[rule]]\nhosts = ['e.test']\ndeny = 403", "rule[0].hosts[0]", "no [[site]] serves e.test"),
            ("[[site.rule]]\nhosts = ['a.test']\ndeny = 403", "site[1].rule[0].hosts[0]", "does not serve"),
            ("[[site.rule]]\npaths = ['/x/*']\ndeny = 403", "site[1].rule[0].paths[0]", "below /api"),
            ("[[rule]]\npaths = ['/x//y']\ndeny = 403", "rule[0].paths[0]", "write \"/x/y\""),
            ("[[rule]]\npaths = ['/%61*']\ndeny = 403", "rule[0].paths[0]", "write \"/a*\""),
            ("[[rule]]\npaths = ['/ü y']\ndeny = 403", "rule[0].paths[0]", "write \"/%C3%BC%20y\""),
            ("[[rule]]\nmethods = ['get']\ndeny = 403", "rule[0].methods[0]", "write \"GET\""),
            ("[[rule]]\nstore = false\nlifetime = '1h'", "rule[0].lifetime", "store = false"),
            ("[[rule]]\nmethods = ['POST']\nlifetime = '1h'", "rule[0].lifetime", "answers to GET"),
            ("[[rule]]\nlifetime = '1h'\nlifetime_default = '1h'", "rule[0].lifetime_default", "whatever"),
            ("[[rule]]\ndeny = 403\nset_cookie = 'strip'", "rule[0].set_cookie", "denies"),
            ("[[rule]]\ndeny = 403\nredirect_status = 301", "rule[0].redirect_status", "no redirect"),
        ] {
            let found = warned(text);
            let is_named = |line: &String| line.starts_with(&format!("{key}: ")) && line.contains(reason);
            assert_eq!(found.iter().filter(|line| is_named(line)).count(), 1, "{text}: {found:?}");
        }
    }

    #[test]
    fn rules_that_may_match_are_not_named() {
        for text in [
            "[[rule]]\nhosts = ['*', 'A.test', '*.x.b.test', 'y.b.test', '*.test']\ndeny = 403",
            "[[site.rule]]\npaths = ['/api', '/api/*', '/*', '*.js', '/a*/x']\ndeny = 403",
            "[[rule]]\npaths = ['/x/', '/.git*', '/%C3%BC', '/a,b']\nmethods = ['get2', 'M-SEARCH']\ndeny = 403",
            "[[rule]]\nmethods = ['POST', 'GET']\nlifetime = '1h'\nredirect = 'http://e.test/'\nredirect_status = 301",
            "[[rule]]\nstore = true\nlifetime = '1h'\nlifetime_max = '2h'",
        ] {
            assert_eq!(warned(text), [] as [String; 0], "{text}");
        }
    }
}
