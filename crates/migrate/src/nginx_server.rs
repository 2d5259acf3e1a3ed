//! Servers of nginx: their names, listeners, and the sites that come from their locations.

use crate::document::{Section, SiteSection};
use crate::ledger::LineId;
use crate::networks;
use crate::nginx::{Bound, Nginx};
use crate::nginx_access::{self, PathTest};
use crate::nginx_location::{Choice, Location, in_force, locations, weakest_first};
use crate::nginx_proxy::{self, Action, Target};
use crate::nginx_syntax::Directive;
use crate::value::Value;
use crate::{
    certificates, expressions, nginx_cache, nginx_certificates, nginx_errors, nginx_limits, nginx_site,
    redirects,
};

/// A server while it is converted.
pub struct Server {
    /// Hosts of its sites; `*` is any.
    pub hosts: Vec<String>,
    /// Rules for all paths of the server.
    pub rules: Vec<Section>,
    /// Sites, each with its target.
    pub sites: Vec<(SiteSection, Target)>,
    /// The block's statement and that of its names.
    pub from: Vec<LineId>,
}

/// Converts a server. The innermost of `levels` is its block.
pub fn server(nginx: &mut Nginx<'_>, levels: &[&[Directive]], line: LineId) {
    let own = levels.last().copied().unwrap_or_default();
    nginx.ledger.carried(line);
    nginx.simple(own);
    let mut server = Server { hosts: Vec::new(), rules: Vec::new(), sites: Vec::new(), from: vec![line] };
    names(nginx, own, &mut server);
    let is_only_tls = listeners(nginx, levels, (&server.hosts, line));
    let all = locations(levels);
    for location in &all {
        nginx.ledger.carried(location.block.line);
        nginx.simple(location.own());
        for directive in location.own().iter().filter(|directive| directive.name == "limit_conn") {
            nginx.ledger.left_out(directive.line, "connections are limited by listener, not by path");
        }
    }
    nginx_proxy::server_answers(nginx, own, &mut server);
    for location in weakest_first(&all) {
        place(nginx, location, &all, &mut server);
    }
    nginx_access::guards(nginx, levels, &all, &mut server);
    limits_and_pages(nginx, levels, &all, &mut server);
    if is_only_tls && server.rules.iter().all(|rule| rule.get("redirect").is_none()) {
        let mut rule = Section::default();
        rule.note("The old server answers on TLS alone, and every listener here serves every site.");
        server.rules.splice(0..0, redirects::rules(rule, "https://$host$path?$query", 308));
    }
    finish(nginx, server);
}

/// Adds the rules for rates and pages of a server and its locations.
fn limits_and_pages(
    nginx: &mut Nginx<'_>,
    levels: &[&[Directive]],
    all: &[Location<'_>],
    server: &mut Server,
) {
    let everywhere = PathTest::default();
    // The pages of the http block hold for each server without its own.
    for depth in 1..=levels.len() {
        server.rules.extend(nginx_errors::pages(nginx, &levels[..depth], all, &everywhere));
    }
    let own = levels.last().copied().unwrap_or_default();
    server.rules.extend(nginx_limits::rates(nginx, own, &everywhere));
    for location in weakest_first(all) {
        let Ok(test) = PathTest::of(&location.choice) else { continue };
        let rates = nginx_limits::rates(nginx, location.own(), &test);
        let pages = nginx_errors::pages(nginx, &location.levels, all, &test);
        server.rules.extend(rates.into_iter().chain(pages));
    }
}

fn names(nginx: &mut Nginx<'_>, own: &[Directive], server: &mut Server) {
    for directive in own.iter().filter(|directive| directive.name == "server_name") {
        nginx.ledger.carried(directive.line);
        server.from.push(directive.line);
        for word in &directive.words {
            match word.strip_prefix('~') {
                Some(text) => match expressions::host(text) {
                    Ok(names) => server.hosts.extend(names),
                    Err(why) => nginx.ledger.left_out(directive.line, why),
                },
                None if ["_", "", "\"\"", "*"].contains(&word.as_str()) => server.hosts.push("*".into()),
                None if word.starts_with('.') => {
                    server.hosts.extend([word[1..].to_owned(), format!("*{word}")]);
                }
                None if word.ends_with(".*") || word.contains('$') => {
                    nginx.ledger.left_out(directive.line, format!("hosts have no pattern like {word}"));
                }
                None => server.hosts.push(word.to_ascii_lowercase()),
            }
        }
    }
    let is_default = own.iter().any(|directive| {
        directive.name == "listen" && directive.words.iter().any(|word| word.starts_with("default"))
    });
    let has_names = own.iter().any(|directive| directive.name == "server_name");
    if is_default && !server.hosts.is_empty() || !has_names {
        server.hosts.push("*".into());
    }
    let mut seen = Vec::new();
    server.hosts.retain(|host| {
        let is_new = !seen.contains(host);
        seen.push(host.clone());
        is_new
    });
}

/// Adds the listeners of a server; returns `true` if all of them speak TLS and others do not.
fn listeners(nginx: &mut Nginx<'_>, levels: &[&[Directive]], (hosts, line): (&[String], LineId)) -> bool {
    let own = levels.last().copied().unwrap_or_default();
    let pair = |name| in_force(levels, &[name]).into_iter().last();
    let certificate = pair("ssl_certificate").zip(pair("ssl_certificate_key"));
    for directive in in_force(levels, &["ssl_certificate", "ssl_certificate_key"]) {
        nginx.ledger.carried(directive.line);
    }
    let trusted = in_force(levels, &["set_real_ip_from"]);
    let ssl_on = in_force(levels, &["ssl"]).last().is_some_and(|directive| directive.word(0) == "on");
    let mut kinds = Vec::new();
    let mut addresses = Vec::new();
    for directive in own.iter().filter(|directive| directive.name == "listen") {
        let id = directive.line;
        let Some(address) = address(directive.word(0)) else {
            nginx.ledger.left_out(id, "listeners are addresses with a port");
            continue;
        };
        if directive.words.iter().any(|word| word == "quic") {
            nginx.ledger.left_out(id, "set http3 = true in the listener of this port with TLS");
            continue;
        }
        let is_tls = ssl_on || directive.words.iter().any(|word| word == "ssl");
        nginx.ledger.carried(id);
        kinds.push(is_tls);
        addresses.push(address.clone());
        let mut section = Section::default();
        section.set("address", address.as_str(), &[id]);
        section.set("mode", "reverse", &[]);
        if directive.words.iter().any(|word| word == "proxy_protocol") {
            let nets = real_ip(nginx, &trusted);
            section.set("proxy_protocol_from", nets, &[id]);
        } else if !trusted.is_empty() {
            let nets = real_ip(nginx, &trusted);
            section.set("trusted_proxies", nets, &lines(&trusted));
        }
        if is_tls {
            let words = certificate.map(|(chain, key)| (chain.word(0), key.word(0)));
            let mut from = vec![id];
            from.extend(certificate.iter().flat_map(|(chain, key)| [chain.line, key.line]));
            if let Some(why) = certificates::add(&mut section, words, nginx.files, &from) {
                nginx.ledger.unsafe_line(id, why);
            }
            nginx_certificates::listener(nginx, levels, &mut section);
        }
        nginx_limits::connections(nginx, levels, &mut section);
        add_listener(nginx, section, &address);
    }
    if own.iter().all(|directive| directive.name != "listen") {
        let mut section = Section::default().with("address", "0.0.0.0:80").with("mode", "reverse");
        nginx_limits::connections(nginx, levels, &mut section);
        addresses.push("0.0.0.0:80".into());
        kinds.push(false);
        add_listener(nginx, section, "0.0.0.0:80");
    }
    nginx.bound.push(Bound { hosts: hosts.to_vec(), addresses, line });
    nginx.has_plain |= kinds.contains(&false);
    !kinds.is_empty() && kinds.iter().all(|is_tls| *is_tls) && nginx.has_plain
}

fn lines(directives: &[&Directive]) -> Vec<LineId> {
    directives.iter().map(|directive| directive.line).collect()
}

fn real_ip(nginx: &mut Nginx<'_>, trusted: &[&Directive]) -> Value {
    let mut nets = Vec::new();
    for directive in trusted {
        match networks::parse(directive.word(0)) {
            Some(found) => {
                nginx.ledger.carried(directive.line);
                nets.extend(found.iter().map(|net| Value::Text(net.to_string())));
            }
            None => nginx.ledger.left_out(directive.line, "it names no network"),
        }
    }
    Value::List(nets)
}

/// Adds a listener, or its certificates and statements to one of the same address.
fn add_listener(nginx: &mut Nginx<'_>, section: Section, address: &str) {
    let has_address = |other: &Section| other.get("address") == section.get("address");
    match nginx.document.listen.iter_mut().find(|other| has_address(other)) {
        Some(other) => {
            for entry in section.entries {
                match entry.value {
                    Value::List(values) => other.extend(entry.key, values, &entry.from),
                    Value::Whole(number) if entry.key == "client_connections" => {
                        nginx_limits::least(other, number, &entry.from);
                    }
                    value => other.set(entry.key, value, &entry.from),
                }
            }
            section.notes.into_iter().for_each(|note| other.note(note));
        }
        None => nginx.document.listen.push(section),
    }
    debug_assert!(!address.is_empty(), "a listener has an address");
}

/// Returns the address of a `listen` directive.
fn address(word: &str) -> Option<String> {
    if word.starts_with("unix:") {
        return None;
    }
    if let Ok(port) = word.parse::<u16>() {
        return (port > 0).then(|| format!("0.0.0.0:{port}"));
    }
    let (host, port) = match word.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()?),
        _ => (word, 80),
    };
    let host = match host {
        "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let text = format!("{host}:{port}");
    text.parse::<std::net::SocketAddr>().is_ok().then_some(text)
}

/// Makes a site or rules of a location.
fn place(nginx: &mut Nginx<'_>, location: &Location<'_>, all: &[Location<'_>], server: &mut Server) {
    let behind = location.behind_try_files(all).map(|(named, line)| {
        let why = "Shoal serves no files; every request goes the way of the named location";
        nginx.ledger.approximated(line, why);
        Location { levels: named.levels.clone(), ..location.clone() }
    });
    let location = behind.as_ref().unwrap_or(location);
    let action = nginx_proxy::action(nginx, location);
    let line = location.block.line;
    match (action, &location.choice) {
        (Action::Ask(target), Choice::Prefix(path, _)) => {
            let mut site = SiteSection { section: Section::of(&server.from), rules: Vec::new() };
            site.section.from.push(line);
            if path != "/" && !path.ends_with('/') {
                site.section.note(format!("Here {path} is a whole segment: {path}x is not below it."));
            }
            let asks_elsewhere = |other: &Location<'_>| {
                matches!(other.choice, Choice::Exact(_) | Choice::Expression(..))
                    && other.own().iter().any(|directive| directive.name == "proxy_pass")
            };
            let is_alone = !all.iter().any(asks_elsewhere);
            nginx_site::site(nginx, location, &target, (path, is_alone), &mut site);
            nginx_cache::rules(nginx, location, &PathTest::default(), &mut site.rules);
            server.sites.push((site, target));
        }
        (Action::Ask(_), Choice::Name(_)) => {}
        (Action::Ask(target), choice) => match PathTest::of(choice) {
            Ok(test) => rules_of(nginx, location, &target, &test, server),
            Err(why) => nginx.ledger.left_out(line, why),
        },
        (Action::Redirect(to, status, from), choice) => match PathTest::of(choice) {
            Ok(test) => {
                server.rules.extend(redirects::rules(test.section(&[line, from]), &to, status));
            }
            Err(why) => nginx.ledger.left_out(line, why),
        },
        (Action::Nothing, _) => {}
    }
}

/// Adds the rules of a location that is no prefix to each site of the server with its upstream.
fn rules_of(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    target: &Target,
    test: &PathTest,
    server: &mut Server,
) {
    let line = location.block.line;
    let mut rules = Vec::new();
    nginx_cache::rules(nginx, location, test, &mut rules);
    nginx_proxy::fields(nginx, location, test, &mut rules);
    let moves = target.path.is_some();
    let own_path = nginx_site::own_path(nginx, target, &location.choice, test);
    let mut is_placed = false;
    for (site, other) in &mut server.sites {
        let prefix = site.section.get("path_prefix");
        if let (Some(Value::Text(prefix)), Choice::Exact(path)) = (prefix, &location.choice)
            && !path.starts_with(prefix.as_str())
        {
            continue;
        }
        let own = match prefix {
            Some(Value::Text(prefix)) => prefix.as_str(),
            _ => "/",
        };
        let keeps_path = other.path.as_deref().is_none_or(|to| to == own);
        if other.group.servers == target.group.servers && other.scheme == target.scheme {
            is_placed = true;
            let mapped = Some(&own_path).filter(|_| moves || !keeps_path);
            site.rules.extend(rules.iter().chain(mapped).cloned().map(|mut rule| {
                if !rule.from.contains(&line) {
                    rule.from.insert(0, line);
                }
                rule
            }));
        } else {
            site.rules.push(test.section(&[line]).with("deny", 404).guard());
        }
    }
    if !is_placed {
        nginx.ledger.left_out(
            line,
            "a site is chosen by a path prefix; other sites refuse these paths, since their upstream is another",
        );
    } else if test.is_near {
        nginx.ledger.approximated(line, "the expression is compared with the path without its query");
    }
}

/// Adds the sites and rules of a server to the document.
fn finish(nginx: &mut Nginx<'_>, server: Server) {
    let is_any = server.hosts.iter().any(|host| host == "*");
    let mut sites: Vec<SiteSection> = server.sites.into_iter().map(|(site, _)| site).collect();
    if sites.is_empty() && !server.rules.is_empty() {
        sites.extend(site_for_rules(nginx, &server.hosts, &server.from));
    }
    let is_local = is_any && nginx.servers > 1;
    for mut rule in server.rules {
        if is_local {
            sites.iter_mut().for_each(|site| site.rules.push(rule.clone()));
            continue;
        }
        if !is_any {
            rule.set_first("hosts", Value::texts(server.hosts.iter().cloned()));
        }
        nginx.document.rules.push(rule);
    }
    for mut site in sites {
        let prefix = site.section.get("path_prefix").cloned();
        let mut hosts = server.hosts.clone();
        hosts.retain(|host| {
            let is_taken = nginx.document.sites.iter().any(|other| {
                other.section.get("path_prefix") == prefix.as_ref()
                    && matches!(other.section.get("hosts"), Some(Value::List(list)) if list.contains(&host.as_str().into()))
            });
            !is_taken
        });
        if hosts.is_empty() {
            for line in site.section.from.iter().skip(1) {
                nginx.ledger.approximated(*line, "another server has the host and path; its site answers");
            }
            continue;
        }
        site.section.set_first("hosts", Value::texts(hosts));
        nginx.document.sites.push(site);
    }
}

/// Makes a site with rules that answer every request, so that its upstream is never asked.
fn site_for_rules(nginx: &mut Nginx<'_>, hosts: &[String], from: &[LineId]) -> Option<SiteSection> {
    let is_known = |host: &String| {
        nginx.document.sites.iter().any(|site| {
            matches!(site.section.get("hosts"), Some(Value::List(list)) if list.contains(&host.as_str().into()))
        })
    };
    if hosts.iter().all(is_known) {
        return None;
    }
    let upstreams = nginx.any_upstream.clone()?;
    let mut site = SiteSection { section: Section::of(from), rules: Vec::new() };
    site.section.note("Rules answer here; a site needs an upstream, which is not asked.");
    site.section.set("upstreams", upstreams, &[]);
    site.rules.push(Section::default().with("store", false));
    Some(site)
}

/// Restricts hosts of servers that only some of the listeners reach. Ports 80 and 443 count as one.
pub fn restrict(nginx: &mut Nginx<'_>) {
    let bound = std::mem::take(&mut nginx.bound);
    let parts = |address: &String| {
        let (ip, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let ip = if ["0.0.0.0", "[::]"].contains(&ip) { "*" } else { ip };
        (ip.to_owned(), if port == "443" { "80" } else { port }.to_owned())
    };
    let is_local = |ip: &String| ip.starts_with("127.") || ip == "[::1]";
    let everywhere: Vec<(String, String)> = bound
        .iter()
        .flat_map(|bound| bound.addresses.iter().map(parts))
        .filter(|(ip, _)| !is_local(ip))
        .collect();
    for Bound { hosts, addresses, line } in &bound {
        let own: Vec<(String, String)> = addresses.iter().map(parts).collect();
        let reaches = |(ip, port): &(String, String)| {
            own.iter().any(|(other, own_port)| own_port == port && (other == "*" || other == ip))
        };
        // A server on the ports of the web is for all clients.
        if everywhere.iter().all(reaches) || own.contains(&("*".to_owned(), "80".to_owned())) {
            continue;
        }
        let mut rule = Section::of(&[*line]);
        let is_named = hosts.iter().all(|host| host != "*");
        if is_named {
            rule.set("hosts", Value::texts(hosts.iter().cloned()), &[]);
        }
        if !own.is_empty() && own.iter().all(|(ip, _)| is_local(ip)) {
            let nets = networks::loopback();
            rule.set("allow_clients", Value::texts(nets.iter().map(|net| net.to_string())), &[]);
            // Otherwise a password could take the place of the address.
            rule.set("satisfy", "all", &[]);
            rule.note("This server listened on loopback alone, and every listener here serves every site.");
        } else {
            rule.set("deny", 403, &[]);
            let why = "it listened on some addresses alone, and every listener here serves every site; the server \
                       refuses all clients";
            nginx.ledger.unsafe_line(*line, why);
        }
        let rule = rule.guard();
        match is_named {
            true => nginx.document.rules.push(rule),
            false => nginx
                .document
                .sites
                .iter_mut()
                .filter(|site| site.section.from.contains(line))
                .for_each(|site| site.rules.push(rule.clone())),
        }
    }
}
