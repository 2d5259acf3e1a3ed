//! Client certificates of nginx: `ssl_verify_client` with its authorities.
//!
//! nginx asks by server, Shoal by listener. All servers must therefore name the same authorities:
//! otherwise a client of one server could enter another.

use crate::Files;
use crate::document::Section;
use crate::ledger::LineId;
use crate::nginx::Nginx;
use crate::nginx_location::{Location, in_force};
use crate::nginx_syntax::Directive;
use crate::value::Value;

/// Returns the one file of authorities of all servers; `None` if no server asks for certificates.
///
/// # Errors
/// The reason why certificates cannot be asked for.
pub fn authority(levels: &[&[Directive]], files: &dyn Files) -> Result<Option<String>, &'static str> {
    let mut found: Option<String> = None;
    for level in levels {
        for server in level.iter().filter(|directive| directive.name == "server") {
            let levels = [*level, server.block.as_slice()];
            if verification(&levels).is_none() {
                continue;
            }
            if !in_force(&levels, &["ssl_crl"]).is_empty() {
                return Err("revoked certificates (ssl_crl) could not be refused");
            }
            let file = in_force(&levels, &["ssl_client_certificate"]);
            let file = file.last().ok_or("it names no authorities")?.word(0).to_owned();
            match &found {
                Some(other) if *other != file => return Err("servers name different authorities"),
                _ => found = Some(file),
            }
        }
    }
    match &found {
        Some(file) if !files.is_readable(file) => Err("the authorities cannot be read here"),
        _ => Ok(found),
    }
}

/// Returns the directive in force by which a server asks for certificates.
fn verification<'a>(levels: &[&'a [Directive]]) -> Option<&'a Directive> {
    in_force(levels, &["ssl_verify_client"]).into_iter().last().filter(|one| one.word(0) != "off")
}

/// Has a listener with TLS ask for certificates, if the server does.
pub fn listener(nginx: &mut Nginx<'_>, levels: &[&[Directive]], section: &mut Section) {
    let Some(directive) = verification(levels) else { return };
    if directive.word(0) == "optional_no_ca" || section.get("tls").is_none() {
        return;
    }
    let Ok(Some(file)) = nginx.authority.clone() else { return };
    let mut from: Vec<LineId> = vec![directive.line];
    from.extend(in_force(levels, &["ssl_client_certificate"]).iter().map(|one| one.line));
    from.iter().for_each(|line| nginx.ledger.carried(*line));
    debug_assert!(!from.is_empty(), "a statement asks for certificates");
    section.set("client_ca", file, &from);
    section.set("client_certificate", "optional", &[]);
}

/// Refuses clients without a certificate at a server that wants one.
pub fn guard(nginx: &mut Nginx<'_>, levels: &[&[Directive]], rules: &mut Vec<Section>) {
    let Some(directive) = verification(levels) else { return };
    let line = directive.line;
    match (directive.word(0), nginx.authority.clone()) {
        ("optional_no_ca", _) => {
            nginx.ledger.left_out(line, "certificates that nobody has checked are not told to origins");
        }
        ("optional", Ok(_)) => nginx.ledger.carried(line),
        ("optional", Err(why)) => {
            nginx.ledger.left_out(line, format!("{why}; no certificates are asked for"))
        }
        (_, Ok(_)) => {
            nginx.ledger.approximated(line, NEEDS_NAME);
            rules.push(with_certificate(Section::of(&[line])));
        }
        (_, Err(why)) => {
            nginx.ledger.unsafe_line(
                line,
                format!("{why}: no client certificates are asked for; the server refuses all"),
            );
            rules.push(Section::of(&[line]).with("deny", 403).guard());
        }
    }
}

/// Returns `true` if a server or one of its locations refuses clients without a certificate.
pub fn is_wanted(levels: &[&[Directive]], all: &[Location<'_>]) -> bool {
    let own = levels.last().copied().unwrap_or_default();
    let blocks = all.iter().map(Location::own).chain([own]);
    let asks = |one: &Directive| one.name == "if" && asks_certificate(&one.words);
    verification(levels).is_some_and(|one| one.word(0) == "on") || blocks.into_iter().flatten().any(asks)
}

/// Makes a rule that refuses clients without a certificate.
pub fn with_certificate(rule: Section) -> Section {
    rule.with("allow_certificates", Value::texts(["CN=*"])).guard()
}

/// Returns `true` if the condition holds for clients without a certificate.
pub fn asks_certificate(words: &[String]) -> bool {
    let text = words.join(" ").replace(['(', ')', '"', '\''], "");
    let parts: Vec<&str> = text.split_whitespace().collect();
    matches!(parts.as_slice(), ["$ssl_client_verify", "!=" | "!~" | "!~*", value]
        if value.trim_matches(['^', '$']) == "SUCCESS")
}

/// Difference of the rule.
pub const NEEDS_NAME: &str = "clients without a certificate get 403, and so do certificates without a CN";
