//! Certificates of listeners, and those that they ask of clients.

use crate::Files;
use crate::document::Section;
use crate::ledger::LineId;
use crate::value::Value;

/// Adds a certificate to a listener. Where it cannot be read here, the listener moves to loopback
/// and stays without TLS; the reason is returned.
pub fn add(
    section: &mut Section,
    pair: Option<(&str, &str)>,
    files: &dyn Files,
    from: &[LineId],
) -> Option<&'static str> {
    let why = match pair {
        Some((chain, key)) if files.is_readable(chain) && files.is_readable(key) => {
            let entry = Value::Inline(vec![("certificate", chain.into()), ("key", key.into())]);
            section.extend("tls", [entry], from);
            return None;
        }
        Some((chain, key)) => {
            let (chain, key) = (Value::from(chain), Value::from(key));
            section.note(format!("Once both can be read: tls = [{{ certificate = {chain}, key = {key} }}]"));
            "its certificate or key cannot be read here, so that the listener is on loopback without TLS"
        }
        None => "it names no certificate, so that the listener is on loopback without TLS",
    };
    let port = match section.get("address") {
        Some(Value::Text(address)) => address.rsplit(':').next().unwrap_or("443").to_owned(),
        _ => "443".into(),
    };
    section.set("address", format!("127.0.0.1:{port}"), from);
    Some(why)
}

/// Has a listener with TLS ask clients for certificates of these authorities.
///
/// # Errors
/// The reason why it cannot, so that the listener may not be opened.
pub fn ask(
    section: &mut Section,
    authorities: &str,
    (is_required, has_revoked): (bool, bool),
    files: &dyn Files,
    from: &[LineId],
) -> Result<(), &'static str> {
    if has_revoked {
        return Err("revoked certificates could not be refused, so that the listener is left out");
    }
    if section.get("tls").is_none() || !files.is_readable(authorities) {
        return Err("clients' certificates cannot be checked, so that the listener is left out");
    }
    section.set("client_ca", authorities, from);
    section.set("client_certificate", if is_required { "required" } else { "optional" }, &[]);
    Ok(())
}
