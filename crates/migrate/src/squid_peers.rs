//! Squid's siblings and parents: each `cache_peer` that is no origin server becomes a neighbour.

use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::squid_acl::{Elements, Test};
use crate::squid_lines::Line;
use crate::value::Value;

/// Reads one `cache_peer` line into a neighbour.
pub fn neighbour(line: &Line, ledger: &mut Ledger, document: &mut Document) {
    let id = line.id;
    let has = |name: &str| line.words.iter().skip(4).any(|word| word == name);
    let value = |name: &str| line.words.iter().skip(4).find_map(|word| word.strip_prefix(name));
    let kind = line.word(1);
    if let Some((_, why)) = REFUSED.iter().find(|(word, _)| *word == kind || has(word)) {
        return ledger.left_out(id, *why);
    }
    let (Some(host), Some(http)) = (host(line.word(0)), port(line.word(2))) else {
        return ledger.left_out(id, "it names no host and port that could be asked");
    };
    if !matches!(kind, "sibling" | "parent") {
        return ledger.left_out(id, format!("{kind:?} is no kind of neighbour"));
    }
    if has("ssl") || has("tls") {
        return ledger
            .left_out(id, "TLS to a proxy is not built; a tunnel or a trusted network does instead");
    }
    ledger.carried(id);
    let mut section = Section::of(&[id]);
    section.set("host", host, &[]);
    section.set("kind", kind, &[]);
    section.set("http_port", u64::from(http), &[]);
    questions(line, &mut section, ledger);
    let whole = |name: &str, most: u64| {
        let number: Option<u64> = value(name).and_then(|text| text.parse().ok());
        number.filter(|number| (1..=most).contains(number))
    };
    if let Some(name) = value("name=") {
        section.set("name", name, &[]);
    }
    if let Some(weight) = whole("weight=", 1_000_000).filter(|weight| *weight != 1) {
        section.set("weight", weight, &[]);
    }
    let is_parent = kind == "parent";
    for (word, key) in [
        ("carp", "carp"),
        ("round-robin", "round_robin"),
        ("weighted-round-robin", "round_robin"),
        ("default", "default"),
    ] {
        if has(word) && is_parent && section.get("carp").is_none() {
            section.set(key, true, &[]);
        }
    }
    if let Some(parts) = value("carp-key=").filter(|_| section.get("carp").is_some()) {
        let parts = parts.split(',').filter(|part| CARP_PARTS.contains(part));
        section.set("carp_key", Value::texts(parts.map(str::to_owned)), &[]);
    }
    for (word, key) in [("allow-miss", "allow_miss"), ("proxy-only", "proxy_only")] {
        if has(word) && !(is_parent && key == "allow_miss") {
            section.set(key, true, &[]);
        }
    }
    if let Some(seconds) = whole("connect-timeout=", 3600) {
        section.set("connect_timeout", format!("{seconds} s"), &[]);
    }
    if let Some(failures) = whole("connect-fail-limit=", 1000) {
        section.set("connect_fail_limit", failures, &[]);
    }
    if let Some(most) = whole("max-conn=", 1_000_000) {
        section.set("max_conn", most, &[]);
    }
    differences(line, ledger, id);
    document.neighbours.push(section);
}

/// Sets the protocol by which the neighbour is asked.
fn questions(line: &Line, section: &mut Section, ledger: &mut Ledger) {
    let has = |name: &str| line.words.iter().skip(4).any(|word| word == name);
    let htcp = line.words.iter().skip(4).find_map(|word| match word.as_str() {
        "htcp" => Some(""),
        word => word.strip_prefix("htcp="),
    });
    // An ICP port of 0 or 7 is no question, or one that only an echo answers.
    let asked = port(line.word(3)).filter(|port| *port != 7 && !has("no-query"));
    let is_parent = line.word(1) == "parent";
    let is_digest = !has("no-digest") && !is_parent;
    match (htcp, asked) {
        (Some(options), Some(port)) => {
            section.set("htcp_port", u64::from(port), &[]);
            if !options.is_empty() && options != "no-clr" {
                ledger.approximated(
                    line.id,
                    format!("htcp={options}: asked by TST; `htcp_clear` tells it purges"),
                );
            }
        }
        (None, Some(port)) => section.set("icp_port", u64::from(port), &[]),
        (_, None) => {}
    }
    if is_digest {
        section.set("digest", true, &[]);
        if let Some(url) = line.words.iter().find_map(|word| word.strip_prefix("digest-url=")) {
            section.set("digest_url", url, &[]);
        }
    } else if asked.is_none() && !is_parent {
        // Only a digest is left to tell the neighbour's contents.
        section.set("digest", true, &[]);
        ledger.approximated(line.id, "it was asked nothing; its digest tells what it holds");
    }
}

/// Notes the words that have another effect here, or none.
fn differences(line: &Line, ledger: &mut Ledger, id: LineId) {
    for word in line.words.iter().skip(4) {
        let name = word.split('=').next().unwrap_or_default();
        let why = match name {
            "login" => {
                "login: write user:password into a file that Shoal alone can read, and name it in `credentials`"
            }
            "basetime" | "ttl" | "background-ping" | "closest-only" | "no-netdb-exchange" | "no-delay" => {
                continue;
            }
            "standby" => "standby: connections are kept after their first request, not opened before it",
            "weighted-round-robin" => {
                "weighted-round-robin: in turn by weight, without a look at answer times"
            }
            "no-tproxy" | "http11" | "no-query" | "no-digest" | "name" | "weight" | "carp" | "carp-key" => {
                continue;
            }
            "round-robin" | "default" | "allow-miss" | "proxy-only" | "htcp" | "digest-url" => continue,
            "connect-timeout" | "connect-fail-limit" | "max-conn" => continue,
            _ => "some of its words have no equal",
        };
        ledger.approximated(id, why);
    }
}

/// Reads this node's own side: `icp_port`, `htcp_port` and the networks that may ask.
pub fn own_side(lines: &[Line], elements: &Elements, ledger: &mut Ledger, document: &mut Document) {
    let mut listens = false;
    for (name, key) in [("icp_port", "icp_listen"), ("htcp_port", "htcp_listen")] {
        for line in lines.iter().filter(|line| line.name == name) {
            match port(line.word(0)) {
                Some(port) => {
                    ledger.carried(line.id);
                    let text = format!("0.0.0.0:{port}");
                    document.table("neighbours").set(key, text, &[line.id]);
                    listens = true;
                }
                None => ledger.needless(line.id, "nobody is answered unless a port is named"),
            }
        }
    }
    let mut closed = Vec::new();
    for line in lines {
        let key = match line.name.as_str() {
            "icp_access" | "htcp_access" => "allow",
            "htcp_clr_access" => "allow_clear",
            _ => continue,
        };
        match (line.word(0), elements.find(line.word(1)).test, line.words.len()) {
            ("allow", ..) if closed.contains(&line.name) => {
                ledger
                    .left_out(line.id, "an earlier deny has no equal here, so that nobody more is answered");
            }
            ("allow", Test::Source(nets), 2) if listens => {
                ledger.carried(line.id);
                let nets = nets.iter().map(|net| Value::Text(net.to_string()));
                document.table("neighbours").extend(key, nets, &[line.id]);
            }
            ("deny", Test::Source(nets), 2) if crate::networks::is_everyone(&nets) => {
                ledger.needless(line.id, "who is not allowed gets no answer");
                closed.push(line.name.clone());
            }
            ("deny", ..) => {
                ledger.left_out(line.id, "only allowed networks are answered, and they without exceptions");
                closed.push(line.name.clone());
            }
            _ => ledger.left_out(line.id, "only named networks are answered"),
        }
    }
}

/// Returns the host as the settings have it.
fn host(word: &str) -> Option<String> {
    let is_name =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    match word.parse::<std::net::Ipv6Addr>() {
        Ok(address) => Some(format!("[{address}]")),
        Err(_) => is_name.then(|| word.to_owned()),
    }
}

fn port(word: &str) -> Option<u16> {
    word.parse().ok().filter(|port| *port > 0)
}

/// Words that are refused, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("multicast", "multicast is not built: name each neighbour in a line of its own"),
    ("multicast-siblings", "multicast is not built: name each neighbour in a line of its own"),
    ("multicast-responder", "multicast is not built: this neighbour answers questions by multicast alone"),
    ("sourcehash", "sourcehash is not built: `carp` and `round_robin` choose among parents"),
    ("userhash", "userhash is not built: `carp` and `round_robin` choose among parents"),
    ("originserver", "an origin server is an upstream of a site, and no listener is an accelerator"),
];

const CARP_PARTS: [&str; 5] = ["scheme", "host", "port", "path", "params"];
