//! Looks for the proofs, as an authority does.

use crate::certificates::AnyCertificate;
use crate::client::{Connection, Request};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Asks for a token over http (RFC 8555, section 8.3).
pub fn over_http(address: SocketAddr, name: &str, token: &str, expected: &str) -> Result<(), String> {
    let mut connection = Connection::open(address);
    connection.limit(LIMIT);
    connection.send(Request::get(&format!("/.well-known/acme-challenge/{token}")).to_bytes(name));
    let answer = connection.try_response("GET")?;
    match (answer.status, answer.text().trim_end()) {
        (200, text) if text == expected => Ok(()),
        (status, text) => Err(format!("{name} answers {status}: {text:?}")),
    }
}

/// Makes a handshake of `acme-tls/1` (RFC 8737, section 3).
pub fn over_tls(address: SocketAddr, name: &str, expected: &str) -> Result<(), String> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("ring speaks TLS 1.2 and 1.3").dangerous();
    // The certificate signs itself: it is looked at, not trusted. rustls reads no certificate with a
    // critical extension that it does not know, and so not the key of this one.
    let verifier = Arc::new(AnyCertificate::unread());
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let mut session = ClientConnection::new(Arc::new(config), server).map_err(|error| error.to_string())?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(LIMIT)).map_err(|error| error.to_string())?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| format!("{name}: {error}"))?;
    }
    if session.alpn_protocol() != Some(b"acme-tls/1") {
        return Err(format!("{name} does not speak acme-tls/1"));
    }
    let certificate = session.peer_certificates().and_then(|chain| chain.first()).ok_or("no certificate")?;
    let digest = ring::digest::digest(&ring::digest::SHA256, expected.as_bytes());
    // The extension's value: an octet string of the digest, in the extension's octet string.
    let extension = [&[0x04, 0x22, 0x04, 0x20], digest.as_ref()].concat();
    match certificate.windows(extension.len()).any(|part| part == extension) {
        true => Ok(()),
        false => Err(format!("{name} shows another certificate")),
    }
}

/// The longest wait for a proof.
const LIMIT: Duration = Duration::from_secs(10);
