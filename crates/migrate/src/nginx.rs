//! nginx: `nginx.conf` with its includes.
//!
//! A server becomes a site for each prefix location that has an upstream; other locations become
//! rules. nginx differs from Shoal without rules: it keeps no answer without a lifetime, does not
//! heed clients' `no-cache`, and serves nothing stale unless told. The settings say so.

use crate::document::Document;
use crate::ledger::Ledger;
use crate::nginx_access::PathTest;
use crate::nginx_cache::CacheFolder;
use crate::nginx_limits::{Zone, rates, zones};
use crate::nginx_server::server;
use crate::nginx_syntax::{Directive, parse};
use crate::nginx_upstream::{ServerGroup, groups};
use crate::nginx_words::{LEFT_OUT, NEEDLESS};
use crate::{Error, Files, SourceText};
use std::collections::HashMap;

/// The converter's view of one nginx configuration.
pub struct Nginx<'a> {
    /// Fates.
    pub ledger: &'a mut Ledger,
    /// Settings so far.
    pub document: &'a mut Document,
    /// The caller's way to files.
    pub files: &'a dyn Files,
    /// Upstream groups by name.
    pub groups: HashMap<String, ServerGroup>,
    /// Cache folders by zone.
    pub folders: HashMap<String, CacheFolder>,
    /// `true` if some location caches.
    pub caches: bool,
    /// Upstream for sites that only redirect.
    pub any_upstream: Option<crate::value::Value>,
    /// Number of servers.
    pub servers: usize,
    /// Hosts of each server with the addresses that it listens on.
    pub bound: Vec<Bound>,
    /// `true` if some listener is without TLS.
    pub has_plain: bool,
    /// Zones of limits by name.
    pub zones: HashMap<String, Zone>,
    /// Authorities of client certificates, or the reason why none are asked for.
    pub authority: Result<Option<String>, &'static str>,
}

/// Addresses that a server listens on.
pub struct Bound {
    /// Hosts of the server.
    pub hosts: Vec<String>,
    /// Addresses with ports.
    pub addresses: Vec<String>,
    /// Statement of the server.
    pub line: crate::ledger::LineId,
}

/// Converts an nginx configuration.
pub fn convert(
    file: SourceText,
    files: &dyn Files,
    ledger: &mut Ledger,
    document: &mut Document,
) -> Result<(), Error> {
    let name = file.name.clone();
    let top = parse(file, files, ledger)?;
    let https: Vec<&Directive> = top.iter().filter(|directive| directive.name == "http").collect();
    // A file of sites-available has servers at its top.
    let loose: Vec<Directive> = if https.is_empty() { top.clone() } else { Vec::new() };
    let levels: Vec<&[Directive]> = match https.is_empty() {
        true => vec![&loose],
        false => https.iter().map(|http| http.block.as_slice()).collect(),
    };
    let mut nginx = Nginx {
        ledger,
        document,
        files,
        groups: HashMap::new(),
        folders: HashMap::new(),
        caches: false,
        any_upstream: None,
        servers: levels.iter().flat_map(|level| level.iter()).filter(|d| d.name == "server").count(),
        bound: Vec::new(),
        has_plain: has_plain(&levels),
        zones: levels.iter().flat_map(|level| zones(level)).collect(),
        authority: crate::nginx_certificates::authority(&levels, files),
    };
    nginx.document.table("cache");
    for level in &levels {
        let mut upstream = std::mem::take(nginx.document.table("upstream"));
        nginx.groups.extend(groups(level, nginx.ledger, &mut upstream));
        *nginx.document.table("upstream") = upstream;
        nginx.folders.extend(crate::nginx_cache::folders(level, nginx.ledger, nginx.document));
    }
    if !https.is_empty() {
        nginx.simple(&top);
    }
    for level in &levels {
        nginx.simple(level);
        let limits = rates(&mut nginx, level, &PathTest::default());
        nginx.document.rules.extend(limits);
        let servers: Vec<&Directive> = level.iter().filter(|directive| directive.name == "server").collect();
        for block in servers.iter().filter(|block| !only_redirects(block)) {
            server(&mut nginx, &[level, &block.block], block.line);
        }
        for block in servers.iter().filter(|block| only_redirects(block)) {
            server(&mut nginx, &[level, &block.block], block.line);
        }
    }
    nginx.finish(&name)
}

/// Returns `true` if a server of these levels listens without TLS.
fn has_plain(levels: &[&[Directive]]) -> bool {
    let servers = levels.iter().flat_map(|level| level.iter()).filter(|d| d.name == "server");
    let mut listens = servers.flat_map(|server| &server.block).filter(|d| d.name == "listen");
    listens.any(|listen| !listen.words.iter().any(|word| word == "ssl" || word == "quic"))
}

/// Returns `true` if no location of the server has an upstream.
fn only_redirects(server: &Directive) -> bool {
    let is_proxy = |directive: &Directive| directive.name == "proxy_pass";
    let mut open: Vec<&Directive> = server.block.iter().collect();
    while let Some(directive) = open.pop() {
        if is_proxy(directive) {
            return false;
        }
        open.extend(&directive.block);
    }
    true
}

impl Nginx<'_> {
    /// Reads the directives of a level that mean the same everywhere.
    pub fn simple(&mut self, level: &[Directive]) {
        for directive in level {
            let line = directive.line;
            let word = directive.word(0).to_owned();
            match directive.name.as_str() {
                "http" | "server" | "events" | "location" | "upstream" => self.ledger.carried(line),
                "worker_processes" => match word.parse::<u64>() {
                    Ok(number) if (1..=1024).contains(&number) => {
                        self.ledger.carried(line);
                        self.document.top.set("workers", number, &[line]);
                    }
                    _ => self.ledger.needless(line, "one worker a core is the default"),
                },
                "access_log" => self.access_log(directive),
                "error_log" => self.error_log(directive),
                "proxy_connect_timeout" => self.time("upstream", &["connect_timeout"], directive),
                "proxy_read_timeout" => {
                    self.time("upstream", &["first_byte_timeout", "idle_timeout"], directive);
                }
                "client_header_timeout" => self.time("client", &["head_timeout"], directive),
                "client_body_timeout" | "send_timeout" => self.time("client", &["idle_timeout"], directive),
                "keepalive_timeout" => self.time("client", &["keep_alive"], directive),
                "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => {}
                name if NEEDLESS.iter().any(|(names, _)| names.contains(&name)) => {
                    let why = NEEDLESS.iter().find(|(names, _)| names.contains(&name));
                    self.ledger.needless(line, why.map_or("", |(_, why)| why));
                }
                "proxy_intercept_errors" => {
                    self.ledger.needless(line, "`error_page_origin` of a rule with a page says it");
                }
                "proxy_ssl_trusted_certificate" if self.files.is_readable(&word) => {
                    self.ledger.carried(line);
                    self.document.table("upstream").set("ca_file", word, &[line]);
                }
                "proxy_ssl_verify" if word == "off" => self.ledger.approximated(
                    line,
                    "certificates of origins are checked: name their authority in `upstream.ca_file`, or                      themselves in `upstream.pinned_certificates`",
                ),
                "proxy_ssl_verify" => self.ledger.needless(line, "certificates of origins are checked"),
                "limit_req_dry_run" => self.ledger.carried(line),
                "try_files" if directive.words.last().is_some_and(|word| word.starts_with('@')) => {}
                name => {
                    if let Some((_, why)) = LEFT_OUT.iter().find(|(names, _)| names.contains(&name)) {
                        self.ledger.left_out(line, *why);
                    }
                }
            }
        }
    }

    /// Sets durations; the longest of the file counts, since Shoal has them once.
    fn time(&mut self, table: &'static str, keys: &[&'static str], directive: &Directive) {
        let line = directive.line;
        let Some(seconds) = seconds(directive.word(0)) else {
            self.ledger.left_out(line, "it names no time");
            return;
        };
        let seconds = seconds.clamp(1, 86_400);
        for key in keys {
            let value = crate::value::Value::seconds(seconds);
            let section = self.document.table(table);
            let old = section.get(key).and_then(|old| match old {
                crate::value::Value::Text(text) => shoal_core::parse_duration(text).ok(),
                _ => None,
            });
            match old {
                Some(old) if old.as_secs() > seconds => {
                    self.ledger.approximated(line, "Shoal has one such time; the longest counts");
                }
                Some(old) if old.as_secs() < seconds => {
                    section.set(key, value, &[line]);
                    self.ledger.approximated(line, "Shoal has one such time; the longest counts");
                }
                _ => {
                    section.set(key, value, &[line]);
                    self.ledger.carried(line);
                }
            }
        }
    }

    fn access_log(&mut self, directive: &Directive) {
        let line = directive.line;
        if directive.word(0) == "off" {
            self.ledger.needless(line, "there is no access log unless one is named");
            return;
        }
        let log = self.document.table("log");
        log.set("access", "stdout", &[line]);
        log.set("format", "combined", &[line]);
        self.ledger.approximated(line, LOG_TO_STDOUT);
    }

    fn error_log(&mut self, directive: &Directive) {
        let level = match directive.word(1) {
            "debug" => "debug",
            "info" | "notice" => "info",
            "warn" => "warn",
            _ => "error",
        };
        if directive.words.len() > 1 {
            self.document.table("log").set("level", level, &[directive.line]);
        }
        self.ledger.approximated(directive.line, "the error log goes to stderr");
    }

    fn finish(&mut self, name: &str) -> Result<(), Error> {
        crate::nginx_server::restrict(self);
        if self.document.sites.is_empty() {
            let why = "no server of it has an upstream that Shoal could ask (proxy_pass)";
            return Err(Error::Nothing(format!("{name}: {why}")));
        }
        let cache = self.document.table("cache");
        cache.note("nginx has no heuristic lifetimes, keeps no error by itself, and serves nothing stale");
        cache.note("unless proxy_cache_use_stale says so.");
        cache.set("heuristic_fraction", crate::value::Value::Fraction(0.0), &[]);
        cache.set("negative_ttl", "0 s", &[]);
        cache.set("stale_if_error", "0 s", &[]);
        if !self.caches {
            let store = self.document.table("store");
            store.note("Nothing is cached, so that no disk is needed.");
            store.set("directory", "none", &[]);
        }
        self.document.tables.retain(|(_, section)| !section.entries.is_empty());
        Ok(())
    }
}

/// Reads a time such as `60`, `10m`, `1h30m`, `500ms`. Parts of a second count as one.
pub fn seconds(text: &str) -> Option<u64> {
    let mut total = 0u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let scale = match rest[..unit_end].trim() {
            "ms" => {
                total = total.checked_add(number.div_ceil(1000))?;
                rest = &rest[unit_end..];
                continue;
            }
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            "M" => 2_592_000,
            "y" => 31_536_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(scale)?)?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

/// Reads a size such as `10g`, `512k`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let scale = match &text[end..] {
        "" | "b" => 1u64,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(scale)
}

/// Difference of every access log.
pub const LOG_TO_STDOUT: &str =
    "the log goes to stdout: name a file in `log.access` once its folder exists and Shoal may write there";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        for (text, value) in [
            ("60", Some(60)),
            ("1h30m", Some(5400)),
            ("500ms", Some(1)),
            ("1y", Some(31_536_000)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), value, "{text}");
        }
        assert_eq!((bytes("10g"), bytes("5k"), bytes("1x")), (Some(10 << 30), Some(5120), None));
    }
}
