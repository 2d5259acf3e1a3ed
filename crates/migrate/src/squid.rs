//! Squid: `squid.conf` with its includes.

use crate::document::Document;
use crate::ledger::Ledger;
use crate::squid_acl::{Elements, Test};
use crate::squid_lines::{Line, UNREADABLE, parse};
use crate::value::Value;
use crate::{
    Error, Files, SourceText, squid_access, squid_peers, squid_ports, squid_refresh, squid_settings,
    squid_users,
};

/// Converts a Squid configuration.
pub fn convert(
    file: SourceText,
    files: &dyn Files,
    ledger: &mut Ledger,
    document: &mut Document,
) -> Result<(), Error> {
    let lines = parse(&file, files, ledger)?;
    let users = squid_users::read(&lines, files, ledger);
    let elements = Elements::of(&lines, files, users.as_ref().err().copied(), ledger);
    let ports = squid_ports::ports(&lines, files, ledger, document);
    if document.listen.is_empty() {
        return Err(Error::Nothing(format!("{}: it has no http_port that Shoal could open", file.name)));
    }
    let mut access = squid_access::read(&lines, &elements, ledger);
    for line in &lines {
        if line.name == UNREADABLE {
            access.close_all(line.id, "All clients are refused", ledger);
        } else if FILTERS.contains(&line.name.as_str()) && line.word(0) != "off" {
            let why = "this helper may refuse requests, and Shoal asks no helpers. All requests are refused until \
                       you remove the rule";
            access.close_all(line.id, why, ledger);
        } else if ["http_reply_access", "miss_access", "adapted_http_access"].contains(&line.name.as_str()) {
            match line.words.join(" ").as_str() {
                "allow all" => {
                    ledger.needless(line.id, "answers pass unless http_access refuses the request")
                }
                _ => access.close_all(
                    line.id,
                    "answers are not refused here. All requests are refused",
                    ledger,
                ),
            }
        }
    }
    squid_refresh::patterns(&lines, ledger, document);
    squid_refresh::storing(&lines, &elements, ledger, document);
    squid_settings::settings(&lines, ledger, document);
    let access = access.write(document, ledger, (ports.has_forward, ports.has_reverse), users.as_ref().ok());
    if ports.has_reverse {
        squid_ports::peers(&lines, &elements, &ports, &access, ledger, document);
        let nets = access.clients.iter().map(|net| net.to_string());
        let nets = Value::texts(nets);
        for listen in &mut document.listen {
            if listen.get("mode") == Some(&"reverse".into()) {
                listen.set("allow_clients", nets.clone(), &access.client_lines);
            }
        }
    } else {
        squid_ports::peers(&lines, &elements, &ports, &access, ledger, document);
    }
    squid_peers::own_side(&lines, &elements, ledger, document);
    trusted(&lines, &elements, ledger, document);
    if document.sites.is_empty()
        && document.listen.iter().any(|listen| listen.get("mode") == Some(&"reverse".into()))
    {
        document.listen.retain(|listen| listen.get("mode") != Some(&"reverse".into()));
        document.note(
            "The accelerator's listeners are left out: no cache_peer with originserver stands behind them.",
        );
        if document.listen.is_empty() {
            return Err(Error::Nothing(format!("{}: no origin stands behind its accelerator", file.name)));
        }
    }
    // Elements that no line uses are carried by nothing.
    document.tables.retain(|(_, section)| !section.entries.is_empty());
    Ok(())
}

/// Reads `follow_x_forwarded_for` into the listeners' trusted proxies.
fn trusted(lines: &[Line], elements: &Elements, ledger: &mut Ledger, document: &mut Document) {
    for line in lines.iter().filter(|line| line.name == "follow_x_forwarded_for") {
        match (line.word(0), elements.find(line.word(1)).test, line.words.len()) {
            ("allow", Test::Source(nets), 2) if !crate::networks::is_everyone(&nets) => {
                ledger.carried(line.id);
                let nets: Vec<Value> = nets.iter().map(|net| Value::Text(net.to_string())).collect();
                for listen in &mut document.listen {
                    listen.extend("trusted_proxies", nets.iter().cloned(), &[line.id]);
                }
            }
            ("deny", ..) => ledger.needless(line.id, "other clients' X-Forwarded-For is dropped"),
            _ => ledger.left_out(line.id, "only named networks are trusted to name clients"),
        }
    }
}

/// Helpers that may refuse requests.
const FILTERS: [&str; 8] = [
    "url_rewrite_program",
    "redirect_program",
    "icap_enable",
    "icap_service",
    "adaptation_access",
    "ecap_enable",
    "store_id_program",
    "url_rewrite_access",
];
