//! Listeners of Squid, and origins behind an accelerator.

use crate::document::{Document, Section, SiteSection};
use crate::ledger::{Ledger, LineId};
use crate::squid_access::AccessRules;
use crate::squid_acl::{Elements, Test};
use crate::squid_lines::Line;
use crate::value::Value;
use crate::{Files, certificates};

/// Listeners, before access is known.
#[derive(Default)]
pub struct Ports {
    /// `true` if a listener is in forward mode.
    pub has_forward: bool,
    /// `true` if a listener is an accelerator.
    pub has_reverse: bool,
    /// Host that an accelerator serves by default.
    default_site: Option<(String, LineId)>,
}

/// Reads every `http_port` and `https_port`.
pub fn ports(lines: &[Line], files: &dyn Files, ledger: &mut Ledger, document: &mut Document) -> Ports {
    let mut ports = Ports::default();
    for line in lines.iter().filter(|line| line.name == "http_port" || line.name == "https_port") {
        let id = line.id;
        let has = |name: &str| line.words.iter().skip(1).any(|word| word == name);
        let value = |name: &str| line.words.iter().find_map(|word| word.strip_prefix(name));
        let Some(address) = address(line.word(0)) else {
            ledger.left_out(id, "it names no address and port");
            continue;
        };
        if has("intercept") || has("transparent") || has("tproxy") {
            ledger
                .left_out(id, "Shoal does not take over connections on their way; name the proxy to clients");
            continue;
        }
        let is_accelerator =
            has("accel") || has("vhost") || value("defaultsite=").is_some() || line.name == "https_port";
        ledger.carried(id);
        if has("ssl-bump") {
            ledger.left_out(id, "tunnels pass unread: nothing within TLS is cached or filtered");
        }
        let mut section = Section::default();
        section.set("address", address, &[id]);
        section.set("mode", if is_accelerator { "reverse" } else { "forward" }, &[]);
        let certificate = value("tls-cert=").or(value("cert="));
        let key = value("tls-key=").or(value("key=")).or(certificate);
        let is_tls = line.name == "https_port" || is_accelerator && certificate.is_some();
        if is_tls && let Some(why) = certificates::add(&mut section, certificate.zip(key), files, &[id]) {
            ledger.unsafe_line(id, why);
        }
        if let Some(authorities) = value("clientca=").or(value("tls-clientca=")) {
            let flags = value("sslflags=").unwrap_or_default();
            let how = (
                !flags.contains("DELAYED_AUTH"),
                value("crlfile=").is_some() || flags.contains("VERIFY_CRL"),
            );
            if let Err(why) = certificates::ask(&mut section, authorities, how, files, &[id]) {
                ledger.unsafe_line(id, why);
                continue;
            }
        }
        if let Some(site) = value("defaultsite=") {
            ports.default_site = Some((site.split(':').next().unwrap_or(site).to_owned(), id));
        }
        ports.has_forward |= !is_accelerator;
        ports.has_reverse |= is_accelerator;
        document.listen.push(section);
    }
    let listeners = usize::from(ports.has_forward) + usize::from(ports.has_reverse);
    assert!(document.listen.len() >= listeners, "each mode has a listener");
    ports
}

/// Returns the address of a port: `3128`, `10.0.0.1:3128`, `[::1]:3128`.
fn address(word: &str) -> Option<String> {
    let text = match word.parse::<u16>() {
        Ok(port) => format!("0.0.0.0:{port}"),
        Err(_) => word.strip_prefix("localhost:").map_or(word.to_owned(), |port| format!("127.0.0.1:{port}")),
    };
    text.parse::<std::net::SocketAddr>().is_ok_and(|address| address.port() > 0).then_some(text)
}

/// An origin of an accelerator.
struct Origin {
    name: String,
    url: String,
    weight: u64,
    line: LineId,
    is_in_turn: bool,
    options: Vec<(&'static str, Value)>,
    /// Most requests in flight.
    concurrency: Option<u64>,
    hosts: Option<Vec<String>>,
}

/// Reads every `cache_peer`: origins become sites, others neighbours.
pub fn peers(
    lines: &[Line],
    elements: &Elements,
    ports: &Ports,
    access: &AccessRules,
    ledger: &mut Ledger,
    document: &mut Document,
) {
    let mut origins: Vec<Origin> = Vec::new();
    for line in lines.iter().filter(|line| line.name == "cache_peer") {
        let has = |name: &str| line.words.iter().any(|word| word == name);
        let value = |name: &str| line.words.iter().find_map(|word| word.strip_prefix(name));
        if !has("originserver") || !ports.has_reverse {
            crate::squid_peers::neighbour(line, ledger, document);
            continue;
        }
        let is_tls = has("ssl") || has("tls");
        ledger.carried(line.id);
        let mut options = Vec::new();
        match value("login=") {
            None => {}
            Some("PASS" | "PASSTHRU") => {
                ledger.approximated(line.id, "the Authorization field of clients reaches the origin");
            }
            Some(_) => ledger.left_out(
                line.id,
                "login: write user:password into a file that Shoal alone can read, and name it in `credentials` \
                 of the upstream",
            ),
        }
        for (word, key) in
            [("forceddomain=", "host"), ("ssldomain=", "server_name"), ("tls-domain=", "server_name")]
        {
            let is_name = |name: &&str| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
            };
            match (value(word), value(word).filter(is_name)) {
                (_, Some(_)) if key == "server_name" && !is_tls => {}
                (_, Some(name)) => options.push((key, Value::from(name))),
                (Some(_), None) => ledger.left_out(line.id, format!("{word} names no host")),
                (None, None) => {}
            }
        }
        let host = match line.word(0).contains(':') {
            true => format!("[{}]", line.word(0)),
            false => line.word(0).to_owned(),
        };
        origins.push(Origin {
            name: value("name=").unwrap_or(line.word(0)).to_owned(),
            url: format!("{}://{host}:{}", if is_tls { "https" } else { "http" }, line.word(2)),
            weight: value("weight=").and_then(|text| text.parse().ok()).unwrap_or(1).clamp(1, 1_000_000),
            line: line.id,
            is_in_turn: has("round-robin") || has("weighted-round-robin"),
            options,
            concurrency: value("max-conn=").and_then(|text| text.parse().ok()).filter(|most| *most > 0),
            hosts: None,
        });
    }
    access_of_peers(lines, elements, &mut origins, ledger);
    sites(origins, ports, access, document);
}

fn access_of_peers(lines: &[Line], elements: &Elements, origins: &mut [Origin], ledger: &mut Ledger) {
    for line in
        lines.iter().filter(|line| ["cache_peer_access", "cache_peer_domain"].contains(&line.name.as_str()))
    {
        let Some(origin) = origins.iter_mut().find(|origin| origin.name == line.word(0)) else {
            ledger.left_out(line.id, "its peer is not carried over");
            continue;
        };
        let hosts: Option<Vec<String>> = match (line.name.as_str(), line.word(1), line.words.len()) {
            ("cache_peer_domain", ..) => Some(line.words[1..].to_vec()),
            (_, "allow", 3) => match elements.find(line.word(2)).test {
                Test::Hosts(hosts) => Some(hosts),
                Test::Source(nets) if crate::networks::is_everyone(&nets) => Some(vec!["*".into()]),
                _ => None,
            },
            (_, "deny", 3) if line.word(2) == "all" => Some(Vec::new()),
            _ => None,
        };
        match hosts {
            Some(hosts) => {
                ledger.carried(line.id);
                origin.hosts.get_or_insert_default().extend(hosts);
            }
            None => ledger.left_out(line.id, "a site is chosen by host and path prefix"),
        }
    }
}

/// Adds the requests in flight of a further origin; without a limit of it there is none.
fn more(section: &mut Section, concurrency: Option<u64>) {
    match (section.get("concurrency").cloned(), concurrency) {
        (Some(Value::Whole(old)), Some(most)) => {
            section.set("concurrency", old.saturating_add(most).min(1_000_000), &[]);
        }
        _ => section.entries.retain(|entry| !["concurrency", "queue"].contains(&entry.key)),
    }
}

/// Makes a site for each set of hosts.
fn sites(mut origins: Vec<Origin>, ports: &Ports, access: &AccessRules, document: &mut Document) {
    let by_default: Vec<String> = match (&ports.default_site, access.sites.is_empty()) {
        (_, false) => access.sites.clone(),
        (Some((site, _)), true) => vec![site.clone()],
        (None, true) => vec!["*".into()],
    };
    // Hosts that an origin names are its own; the rest is for origins without names.
    origins.sort_by_key(|origin| origin.hosts.is_none());
    let mut made: Vec<(Vec<String>, SiteSection)> = Vec::new();
    for origin in origins {
        let mut hosts = origin.hosts.unwrap_or_else(|| by_default.clone());
        hosts.dedup();
        if hosts.is_empty() {
            hosts.clone_from(&by_default);
        }
        let is_in_turn = origin.is_in_turn;
        let mut upstream = vec![("url", Value::Text(origin.url))];
        if origin.weight != 1 {
            upstream.push(("weight", Value::Whole(origin.weight)));
        }
        upstream.extend(origin.options);
        let upstream = Value::Inline(upstream);
        match made.iter_mut().find(|(other, _)| *other == hosts) {
            Some((_, site)) if is_in_turn => {
                more(&mut site.section, origin.concurrency);
                site.section.extend("upstreams", [upstream], &[origin.line]);
            }
            Some((_, site)) => {
                more(&mut site.section, origin.concurrency);
                site.section
                    .note("Squid asks further origins only when the first fails; they share the load here.");
                site.section.extend("upstreams", [upstream], &[origin.line]);
            }
            None => {
                let mut section = Section::default();
                let from: Vec<LineId> = ports.default_site.iter().map(|(_, id)| *id).collect();
                section.set("hosts", Value::texts(hosts.iter().cloned()), &from);
                section.extend("upstreams", [upstream], &[origin.line]);
                if let Some(most) = origin.concurrency {
                    section.set("concurrency", most.clamp(1, 1_000_000), &[]);
                    section.set("queue", 0, &[]);
                }
                made.push((hosts, SiteSection { section, rules: Vec::new() }));
            }
        }
    }
    let mut taken: Vec<Value> = Vec::new();
    debug_assert!(made.iter().all(|(hosts, _)| !hosts.is_empty()), "each site has hosts");
    for (_, mut site) in made {
        if let Some(entry) = site.section.entries.iter_mut().find(|entry| entry.key == "hosts")
            && let Value::List(list) = &mut entry.value
        {
            list.retain(|host| !taken.contains(host));
            taken.extend(list.iter().cloned());
        }
        document.sites.push(site);
    }
}
