//! Certificates of clients: their authorities, and the names in them.
//!
//! The names are read from DER here, since `webpki` gives the subject as bytes alone. A part that
//! cannot be read is left out, so that no pattern matches it.

use crate::Error;
use crate::settings_file;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConnection};
use shoal_rules::{ATTRIBUTES, CertificateNames};
use shoal_settings::{ClientCertificate, Listen};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use webpki::EndEntityCert;

/// Reads the authorities of `listen`; `None` if clients need no certificate.
///
/// # Errors
/// If the file holds no authority.
pub(super) fn verifier(listen: &Listen) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    let Some(path) = &listen.client_ca else { return Ok(None) };
    let unusable = |problem: String| Error::Certificate { path: path.clone(), problem };
    let builder = WebPkiClientVerifier::builder_with_provider(
        Arc::new(authorities(path)?),
        Arc::new(rustls::crypto::ring::default_provider()),
    );
    let builder = match listen.client_certificate {
        ClientCertificate::Required => builder,
        ClientCertificate::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map(Some).map_err(|error| unusable(error.to_string()))
}

fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let unusable = |problem: String| Error::Certificate { path: path.to_owned(), problem };
    let text = settings_file::read(path).map_err(|error| unusable(error.to_string()))?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(unusable("holds no certificate".into())),
        false => Ok(roots),
    }
}

/// Returns the names in the certificate that the far end of this connection has proven. A resumed
/// session carries the certificate of its first handshake, which is judged again: it may have
/// expired, or its authority may be gone.
///
/// # Errors
/// If the certificate of a resumed session is no longer accepted.
pub(super) fn proven(
    session: &ServerConnection,
    verifier: &dyn ClientCertVerifier,
) -> Result<Option<Arc<CertificateNames>>, rustls::Error> {
    let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    proven_chain(session.peer_certificates(), is_resumed, verifier)
}

/// Returns the names in the certificate at the front of `chain`. With `judges` set, the certificate
/// is judged once more.
///
/// # Errors
/// If the certificate is missing, or no longer accepted.
pub(super) fn proven_chain(
    chain: Option<&[CertificateDer<'static>]>,
    judges: bool,
    verifier: &dyn ClientCertVerifier,
) -> Result<Option<Arc<CertificateNames>>, rustls::Error> {
    let Some([leaf, intermediates @ ..]) = chain else {
        return match verifier.client_auth_mandatory() {
            true => Err(rustls::Error::NoCertificatesPresented),
            false => Ok(None),
        };
    };
    if judges {
        verifier.verify_client_cert(leaf, intermediates, UnixTime::now())?;
    }
    Ok(names(leaf).map(Arc::new))
}

/// Returns the names in the certificate that the far end has shown; `None` without one.
pub(crate) fn shown(session: &ServerConnection) -> Option<CertificateNames> {
    names(session.peer_certificates()?.first()?)
}

/// Returns the names in a certificate; `None` for one that cannot be read.
fn names(leaf: &CertificateDer<'_>) -> Option<CertificateNames> {
    let certificate = EndEntityCert::try_from(leaf).ok()?;
    let attributes = attributes(certificate.subject());
    let dns = certificate.valid_dns_names().map(str::to_ascii_lowercase);
    let uris = certificate.valid_uri_names().map(str::to_owned);
    Some(CertificateNames {
        subject: text_of(&attributes),
        attributes,
        names: dns.chain(uris).take(NAMES_MAX).collect(),
    })
}

/// Returns the parts of a subject, in their order. `subject` is the content of a Name (RFC 5280,
/// 4.1.2.4): sets of sequences of a type and a text.
fn attributes(subject: &[u8]) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    let mut sets = Der(subject);
    while let Some((SET, set)) = sets.element() {
        let mut members = Der(set);
        while let Some((SEQUENCE, member)) = members.element() {
            let mut member = Der(member);
            if let (Some((OID, kind)), Some((tag, value))) = (member.element(), member.element())
                && let Some(place) = OIDS.iter().position(|oid| *oid == kind)
                && let Some(text) = text(tag, value)
                && parts.len() < NAMES_MAX
            {
                parts.push((ATTRIBUTES[place], text));
            }
        }
    }
    parts
}

/// Returns a text of one of the types that certificates have. Control characters make it none.
fn text(tag: u8, value: &[u8]) -> Option<String> {
    let text = match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => std::str::from_utf8(value).ok()?.to_owned(),
        _ => return None,
    };
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// Returns the subject as text, the last part first (RFC 4514, 2.1), in printable ASCII.
fn text_of(attributes: &[(&'static str, String)]) -> String {
    let mut out = String::new();
    for (kind, value) in attributes.iter().rev() {
        if !out.is_empty() {
            out.push(',');
        }
        let _ = write!(out, "{kind}=");
        for (place, byte) in value.bytes().enumerate() {
            let is_edge = place == 0 || place + 1 == value.len();
            match byte {
                b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | b'=' => {
                    let _ = write!(out, "\\{}", char::from(byte));
                }
                b' ' | b'#' if is_edge => {
                    let _ = write!(out, "\\{}", char::from(byte));
                }
                b' '..=b'~' => out.push(char::from(byte)),
                _ => {
                    let _ = write!(out, "\\{byte:02X}");
                }
            }
        }
    }
    debug_assert!(out.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
    out
}

/// Elements of DER, one behind the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element: its tag and content. Lengths have up to two bytes.
    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81 => (usize::from(*rest.first()?), &rest[1..]),
            0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// Object identifiers of [`ATTRIBUTES`], in their order.
const OIDS: [&[u8]; ATTRIBUTES.len()] = [
    &[0x55, 4, 3],
    &[0x55, 4, 10],
    &[0x55, 4, 11],
    &[0x55, 4, 6],
    &[0x55, 4, 7],
    &[0x55, 4, 8],
    &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
    &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
];

/// Most names that are read from a certificate, of each kind.
const NAMES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One element of DER.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, content.len() as u8], content].concat()
    }

    fn part(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        der(SET, &der(SEQUENCE, &[der(OID, oid), der(tag, value)].concat()))
    }

    #[test]
    fn subjects_are_read_and_written_safely() {
        let subject = [
            part(OIDS[1], UTF8_STRING, "Exämple, Inc".as_bytes()),
            part(OIDS[0], PRINTABLE_STRING, b" ann=1"),
            part(OIDS[0], UTF8_STRING, b"a\r\nX: y"),
            part(&[0x55, 4, 99], UTF8_STRING, b"unknown"),
            part(OIDS[0], 0x1e, b"\0b"),
        ];
        let attributes = attributes(&subject.concat());
        assert_eq!(attributes, [("O", "Exämple, Inc".to_owned()), ("CN", " ann=1".to_owned())]);
        assert_eq!(text_of(&attributes), "CN=\\ ann\\=1,O=Ex\\C3\\A4mple\\, Inc");
    }

    proptest! {
        /// Any bytes are read to their end, without a panic.
        #[test]
        fn any_subject_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = text_of(&attributes(&bytes));
            prop_assert!(text.is_ascii());
        }
    }
}
