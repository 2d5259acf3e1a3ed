//! `remap.config`: maps become sites, redirects become rules.
//!
//! The first map of the file that fits decides. One below an earlier prefix is never reached.

use crate::document::{Document, Section, SiteSection};
use crate::expressions;
use crate::ledger::Ledger;
use crate::networks;
use crate::redirects;
use crate::traffic_records::Records;
use crate::traffic_server::{ConfigLine, rule};
use crate::value::Value;
use std::collections::HashMap;

/// A URL of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapUrl {
    scheme: String,
    /// Host, empty for any.
    pub host: String,
    port: Option<String>,
    path: String,
}

impl MapUrl {
    /// Reads `http://host:port/path`, or a path alone.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches('"');
        let Some((scheme, rest)) = text.split_once("://") else {
            return text.starts_with('/').then(|| Self { path: text.into(), ..Self::default() });
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => {
                (host, Some(port.to_owned()))
            }
            _ => (authority, None),
        };
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_owned(),
        })
    }

    fn origin(&self) -> String {
        let port = self.port.as_ref().map_or(String::new(), |port| format!(":{port}"));
        format!("{}://{}{port}", self.scheme, self.host)
    }
}

/// Adds a site for each map, and rules.
pub fn sites(lines: &[ConfigLine], records: &Records, ledger: &mut Ledger, document: &mut Document) {
    let pristine = records.number("proxy.config.url_remap.pristine_host_hdr") == Some(1);
    let from = records.from("proxy.config.url_remap.pristine_host_hdr");
    let mut filters: HashMap<String, ConfigLine> = HashMap::new();
    let mut active: Vec<String> = Vec::new();
    let (mut redirects, mut reversed) = (Vec::new(), Vec::new());
    for line in lines {
        let word = |at: usize| line.words.get(at).map_or("", String::as_str);
        match word(0) {
            "map" | "regex_map" => {
                let others: Vec<ConfigLine> =
                    active.iter().filter_map(|name| filters.get(name)).cloned().collect();
                if let Some(mut site) = map(line, word(0) == "regex_map", ledger, document) {
                    site.section.set("preserve_host", pristine, &from);
                    options(line, &others, &mut site, ledger);
                    refuse_longer_names(line, &site, ledger, document);
                    document.sites.push(site);
                }
            }
            "redirect" | "redirect_temporary" => redirects.push(line),
            "reverse_map" => reversed.push(line),
            ".definefilter" => {
                ledger.carried(line.id);
                filters.insert(word(1).to_owned(), line.clone());
            }
            ".activatefilter" | ".usefilter" => {
                ledger.carried(line.id);
                if !filters.contains_key(word(1)) {
                    ledger.unsafe_line(line.id, "the filter is not defined; nothing is refused by it");
                    document.rules.push(rule(line).with("deny", 403).guard());
                }
                active.push(word(1).to_owned());
            }
            ".deactivatefilter" => {
                ledger.carried(line.id);
                active.retain(|name| name != word(1));
            }
            ".include" => {
                ledger.unsafe_line(line.id, "includes are not read; all requests are refused");
                document.rules.push(rule(line).with("deny", 403).guard());
            }
            _ => ledger.left_out(line.id, "a site is chosen by host and path prefix"),
        }
    }
    redirects.into_iter().for_each(|line| redirect(line, ledger, document));
    reversed.into_iter().for_each(|line| reverse(line, lines, ledger, document));
}

/// Reads `reverse_map`: a site rewrites Location where it names the upstream of the same map.
fn reverse(line: &ConfigLine, lines: &[ConfigLine], ledger: &mut Ledger, document: &mut Document) {
    let url = |line: &ConfigLine, at: usize| line.words.get(at).and_then(|text| MapUrl::parse(text));
    let is_same = |map: &&ConfigLine| {
        map.words.first().is_some_and(|word| word == "map")
            && url(map, 1).is_some_and(|target| Some(target) == url(line, 2))
            && url(map, 2).is_some_and(|to| Some(to) == url(line, 1))
    };
    let Some(map) = lines.iter().find(is_same) else {
        ledger.left_out(line.id, "Location is rewritten where it names the upstream of the site's own map");
        return;
    };
    match document.sites.iter_mut().find(|site| site.section.from.contains(&map.id)) {
        Some(site) => {
            ledger.carried(line.id);
            site.section.set("rewrite_location", true, &[line.id]);
        }
        None => ledger.left_out(line.id, "its map is not carried over"),
    }
}

fn hosts_of(url: &MapUrl, is_regex: bool) -> Result<Vec<String>, String> {
    match (url.host.as_str(), is_regex) {
        ("", _) => Ok(vec!["*".into()]),
        ("(.*)" | ".*" | ".+", true) => Ok(vec!["*".into()]),
        (host, true) => {
            let suffix = ["(.*)\\.", ".*\\.", "(.+)\\.", "([^.]*)\\.", "([a-z0-9-]+)\\."];
            let rest =
                suffix.iter().find_map(|prefix| host.strip_prefix(prefix)).and_then(expressions::literal);
            match rest {
                Some(rest) => Ok(vec![format!("*.{rest}")]),
                None => {
                    expressions::host(&format!("^{}$", host.trim_start_matches('^').trim_end_matches('$')))
                }
            }
        }
        (host, false) => Ok(vec![host.to_owned()]),
    }
}

fn map(
    line: &ConfigLine,
    is_regex: bool,
    ledger: &mut Ledger,
    document: &mut Document,
) -> Option<SiteSection> {
    let urls: Vec<&String> = line.words.iter().skip(1).filter(|word| !word.starts_with('@')).collect();
    let [target, replacement, ..] = urls.as_slice() else {
        ledger.left_out(line.id, "a map has two URLs");
        return None;
    };
    let (Some(target), Some(to)) = (MapUrl::parse(target), MapUrl::parse(replacement)) else {
        ledger.left_out(line.id, "a map has two URLs");
        return None;
    };
    if !["http", "https"].contains(&to.scheme.as_str())
        || !["", "http", "https"].contains(&target.scheme.as_str())
    {
        ledger.left_out(line.id, "Shoal speaks HTTP alone");
        return None;
    }
    if to.host.contains('$') || to.path.contains('$') {
        ledger.left_out(line.id, "upstreams stand in the settings, without variables");
        return None;
    }
    let hosts = match hosts_of(&target, is_regex) {
        Ok(hosts) => hosts,
        Err(why) => {
            ledger.left_out(line.id, why);
            return None;
        }
    };
    let below = to.path.trim_end_matches('/');
    let is_plain = below.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte));
    // Where the map keeps the path, the site does so too.
    let keeps = target.path.trim_end_matches('/') == below;
    let base = if is_plain && !keeps { below } else { "" };
    let url = format!("{}{base}", to.origin());
    let upstreams = Value::List(vec![Value::Inline(vec![("url", Value::Text(url))])]);
    if let Some(other) = shadow(document, &hosts, &target.path) {
        match other == upstreams {
            true => ledger.needless(line.id, "an earlier map leads there"),
            false => ledger.left_out(
                line.id,
                "an earlier map has the host and a path above; Shoal has one site for both",
            ),
        }
        return None;
    }
    ledger.carried(line.id);
    let mut section = Section::of(&[line.id]).with("hosts", Value::texts(hosts));
    if target.path != "/" {
        section.set("path_prefix", target.path.as_str(), &[]);
    }
    section.set("upstreams", upstreams, &[]);
    let mut site = SiteSection { section, rules: Vec::new() };
    if !keeps {
        let mut moved = Section::default();
        if target.path != "/" {
            moved.set("upstream_strip", target.path.trim_end_matches('/'), &[]);
        }
        if !is_plain {
            moved.set("upstream_add", below, &[]);
        }
        if !moved.entries.is_empty() {
            site.rules.push(moved);
        }
    }
    Some(site)
}

/// Says the refusals of a site once more for names that begin as its prefix does. There a prefix
/// may end within a name: `/adm` takes `/administrator`, too. Here it ends at a slash.
fn refuse_longer_names(line: &ConfigLine, site: &SiteSection, ledger: &mut Ledger, document: &mut Document) {
    let Some(Value::Text(prefix)) = site.section.get("path_prefix") else { return };
    let guards: Vec<&Section> = site.rules.iter().filter(|rule| rule.is_guard).collect();
    if prefix.ends_with('/') || guards.is_empty() {
        return;
    }
    debug_assert!(prefix.starts_with('/'), "a map's path is absolute");
    ledger.approximated(line.id, format!("its refusals hold for all paths that begin with {prefix}"));
    for guard in guards {
        let mut wide = guard.clone();
        wide.set("paths", Value::texts([format!("{prefix}*")]), &[]);
        if let Some(hosts) = site.section.get("hosts") {
            wide.set("hosts", hosts.clone(), &[]);
        }
        document.rules.push(wide);
    }
}

/// Returns the upstreams of an earlier site that takes the host and path.
fn shadow(document: &Document, hosts: &[String], path: &str) -> Option<Value> {
    document.sites.iter().find_map(|site| {
        let prefix = match site.section.get("path_prefix") {
            Some(Value::Text(prefix)) => prefix.as_str(),
            _ => "/",
        };
        let has_host = matches!(site.section.get("hosts"), Some(Value::List(list))
            if hosts.iter().any(|host| list.contains(&host.as_str().into())));
        (has_host && path.starts_with(prefix)).then(|| site.section.get("upstreams").cloned()).flatten()
    })
}

/// Reads the `@` words of a map: filters and plugins.
fn options(line: &ConfigLine, filters: &[ConfigLine], site: &mut SiteSection, ledger: &mut Ledger) {
    filters.iter().chain([line]).for_each(|filter| access(filter, line, site, ledger));
    let plugins = line.words.iter().filter_map(|word| word.strip_prefix("@plugin="));
    let parameters: Vec<&str> = line.words.iter().filter_map(|word| word.strip_prefix("@pparam=")).collect();
    for plugin in plugins {
        match plugin.trim_end_matches(".so").rsplit('/').next().unwrap_or_default() {
            "cachekey" => cache_key(line, &parameters, site, ledger),
            "background_fetch"
            | "cache_promote"
            | "cache_range_requests"
            | "collapsed_forwarding"
            | "slice" => {
                ledger.needless(line.id, format!("{plugin}: Shoal does this by itself"));
            }
            name if GUARDS.iter().any(|guard| name.contains(guard)) => {
                ledger.unsafe_line(
                    line.id,
                    format!("{plugin} refuses requests; the site refuses all without it"),
                );
                site.rules.push(Section::default().with("deny", 403).guard());
            }
            _ => ledger.left_out(line.id, format!("the map is carried over, its plugin {plugin} is not")),
        }
    }
}

fn cache_key(line: &ConfigLine, parameters: &[&str], site: &mut SiteSection, ledger: &mut Ledger) {
    let mut keyed = Section::default();
    for parameter in parameters {
        let (name, value) = parameter.trim_matches('"').split_once('=').unwrap_or((parameter, ""));
        let names = || Value::texts(value.split(',').filter(|name| !name.is_empty()));
        match name {
            "--remove-all-params" if value != "false" => {
                keyed.set("query_keep", Value::List(Vec::new()), &[])
            }
            "--include-params" => keyed.set("query_keep", names(), &[]),
            "--exclude-params" => keyed.set("query_drop", names(), &[]),
            "--sort-params" if value != "false" => keyed.set("query_sort", true, &[]),
            "--include-headers" => keyed.set("key_fields", names(), &[]),
            "--include-cookies" => keyed.set("key_fields", Value::texts(["Cookie"]), &[]),
            _ => {
                ledger.left_out(line.id, format!("keys have no {name}, so that the site stores nothing"));
                keyed.set("store", false, &[]);
            }
        }
    }
    if keyed.get("query_keep").is_some() || keyed.get("query_drop").is_some() {
        ledger.approximated(line.id, "the origin does not get the dropped parameters either");
    }
    if !keyed.entries.is_empty() {
        site.rules.push(keyed);
    }
}

/// Reads `@action`, `@src_ip` and `@method` of a filter or map.
fn access(filter: &ConfigLine, line: &ConfigLine, site: &mut SiteSection, ledger: &mut Ledger) {
    let Some(action) = filter.value("@action") else { return };
    let values = |name: &'static str| {
        filter.words.iter().filter_map(move |word| word.strip_prefix(name)).map(|text| text.trim_matches('"'))
    };
    let nets: Option<Vec<Vec<_>>> = values("@src_ip=").map(networks::parse).collect();
    let methods: Vec<String> =
        values("@method=").flat_map(|text| text.split(',')).map(|text| text.trim().to_uppercase()).collect();
    let others = ["@in_ip=", "@internal", "@src_ip_category="]
        .iter()
        .any(|name| filter.words.iter().any(|word| word.starts_with(name)));
    let from = [filter.id, line.id];
    let mut add = |rule: Section| site.rules.push(Section { from: from.to_vec(), ..rule }.guard());
    let texts = |nets: &[ipnet::IpNet]| Value::texts(nets.iter().map(|net| net.to_string()));
    let nets = nets.map(|nets| nets.concat()).filter(|_| !others);
    match (action, nets, methods.is_empty()) {
        ("allow", Some(nets), true) => add(Section::default().with("allow_clients", texts(&nets))),
        ("allow", Some(nets), false) => {
            let nets = if nets.is_empty() { networks::everyone() } else { nets };
            add(Section::default().with("allow_clients", Value::List(Vec::new())));
            add(Section::default()
                .with("methods", Value::texts(methods))
                .with("allow_clients", texts(&nets)));
        }
        ("deny", Some(nets), true) => match networks::subtract(&networks::everyone(), &nets) {
            Some(rest) if !nets.is_empty() => add(Section::default().with("allow_clients", texts(&rest))),
            _ => add(Section::default().with("deny", 403)),
        },
        ("deny", Some(nets), false) => {
            if !nets.is_empty() {
                ledger.approximated(filter.id, "the methods are refused to all clients");
            }
            add(Section::default().with("methods", Value::texts(methods)).with("deny", 403));
        }
        _ => {
            ledger.unsafe_line(filter.id, "the filter has no equal; the site refuses all clients");
            add(Section::default().with("deny", 403));
        }
    }
}

fn redirect(line: &ConfigLine, ledger: &mut Ledger, document: &mut Document) {
    let word = |at: usize| line.words.get(at).map_or("", String::as_str);
    let (Some(target), Some(to)) = (MapUrl::parse(word(1)), MapUrl::parse(word(2))) else {
        ledger.left_out(line.id, "a redirect has two URLs");
        return;
    };
    let Ok(hosts) = hosts_of(&target, false) else { return };
    let Some(upstreams) = document.sites.first().and_then(|site| site.section.get("upstreams")).cloned()
    else {
        ledger.left_out(line.id, "a redirect needs a site, and there is no map");
        return;
    };
    if target.path.trim_end_matches('/') != to.path.trim_end_matches('/') {
        ledger.left_out(line.id, "a redirect keeps the path here, or goes to one URL");
        return;
    }
    ledger.carried(line.id);
    let mut rule = rule(line);
    if target.host.is_empty() {
        rule.entries.clear();
    } else {
        rule.set("hosts", Value::texts(hosts.iter().cloned()), &[]);
    }
    if target.path != "/" {
        rule.set("paths", Value::texts([format!("{}*", target.path)]), &[]);
    }
    let status = if word(0) == "redirect" { 301 } else { 302 };
    document.rules.extend(redirects::rules(rule, &format!("{}$path?$query", to.origin()), status));
    let is_served =
        hosts.iter().all(|host| shadow(document, std::slice::from_ref(host), &target.path).is_some());
    if !is_served {
        let mut section = Section::default().with("hosts", Value::texts(hosts));
        section.note("A rule redirects; a site needs an upstream, which is not asked.");
        if target.path != "/" {
            section.set("path_prefix", target.path.as_str(), &[]);
        }
        section.set("upstreams", upstreams, &[]);
        document.sites.push(SiteSection { section, rules: Vec::new() });
    }
}

/// Plugins that refuse requests.
const GUARDS: [&str; 9] = [
    "auth",
    "url_sig",
    "uri_signing",
    "access_control",
    "geoip_acl",
    "maxmind_acl",
    "rate_limit",
    "ja3",
    "certifier",
];
