//! Certificates of nodes: each key of the cluster gives an authority, and a node signs for itself.
//!
//! The key's HKDF output is the seed of an Ed25519 key pair. Any node that has the key can
//! therefore make the authority again, and no file holds it. At its start a node draws a key pair
//! of its own and signs a leaf with the authority of the first key. The authorities of all keys are
//! accepted, so that a rotation cuts nobody off.
//!
//! The leaf holds the address of the node's peer listener, by which clients check it, and the
//! node's name, by which servers know the caller. Names may hold characters that DNS forbids; the
//! leaf has them in hexadecimal, under `.node.shoal.invalid` (RFC 6761: never resolved).

use super::KeyRing;
use super::datagram::key_id;
use crate::ClusterError;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};
use rustls::crypto::{CryptoProvider, ring::default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;

/// Node that a certificate is for.
#[derive(Clone, Debug)]
pub struct PeerIdentity {
    /// Name of the node.
    pub name: Arc<str>,
    /// Address of its peer listener.
    pub address: SocketAddr,
}

/// TLS between nodes: settings of both sides, made from one ring. A rotation makes others.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// Settings of the peer listener, which asks every client for a certificate of the cluster.
    pub server: Arc<ServerConfig>,
    /// Settings of connections to other nodes' peer listeners.
    pub client: Arc<ClientConfig>,
}

impl PeerTls {
    /// Signs a certificate for the node and makes the settings; `None` for a ring without keys.
    pub fn new(ring: &KeyRing, node: &PeerIdentity) -> Result<Option<Self>, ClusterError> {
        let Some(authorities) = authorities(ring)? else { return Ok(None) };
        let (certificate, key) = leaf(node, &authorities[0].issuer)?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.certificate.clone()).map_err(|error| fault(&error))?;
        }
        let (provider, roots) = (Arc::new(default_provider()), Arc::new(roots));
        let server = server(&provider, &roots, certificate.clone(), key.clone_key())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|client| {
                client.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key)
            })
            .map_err(|error| fault(&error))?;
        Ok(Some(Self { server, client: Arc::new(client) }))
    }

    /// Returns the name under which the peer listener at an address is checked.
    pub fn server_name(address: SocketAddr) -> ServerName<'static> {
        ServerName::IpAddress(address.ip().into())
    }
}

/// Returns the name of the node that a certificate is for. Call this after the certificate's
/// authority was checked.
pub fn node_name_in(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    certificate.valid_dns_names().find_map(node_name_of)
}

/// Returns the name of the node that a DNS name in a certificate stands for.
pub fn node_name_of(dns_name: &str) -> Option<Arc<str>> {
    let coded = dns_name.strip_suffix(NAME_END)?;
    let digits: Vec<u8> = coded.bytes().filter(|byte| *byte != b'.').collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    let value = |digit: u8| char::from(digit).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| Some((value(*high)? << 4 | value(*low)?) as u8));
    let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())?;
    Some(String::from_utf8(bytes).ok()?.into())
}

/// Authority that a key gives.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

fn authorities(ring: &KeyRing) -> Result<Option<Vec<Authority>>, ClusterError> {
    let authority = |key: &super::ClusterKey| {
        let seed = key.derived("authority", &[ring.cluster().as_bytes()]);
        let pkcs8 = PrivatePkcs8KeyDer::from([PKCS8_HEAD, &seed].concat());
        let pair =
            KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519).map_err(|error| fault(&error))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = format!("Shoal cluster {} key {:08x}", ring.cluster(), key_id(key, ring.cluster()));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&pair).map_err(|error| fault(&error))?.der().clone();
        Ok(Authority { issuer: Issuer::new(params, pair), certificate })
    };
    if ring.is_keyless() {
        return Ok(None);
    }
    ring.keys().iter().map(authority).collect::<Result<_, _>>().map(Some)
}

type Signed = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn leaf(node: &PeerIdentity, issuer: &Issuer<'static, KeyPair>) -> Result<Signed, ClusterError> {
    let names = vec![node.address.ip().to_string(), coded_name(&node.name)];
    let mut params = CertificateParams::new(names).map_err(|error| fault(&error))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, &*node.name);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let pair = KeyPair::generate_for(&PKCS_ED25519).map_err(|error| fault(&error))?;
    let certificate = params.signed_by(&pair, issuer).map_err(|error| fault(&error))?;
    let key = PrivatePkcs8KeyDer::from(pair.serialize_der());
    Ok((certificate.der().clone(), key.into()))
}

fn server(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, ClusterError> {
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider));
    let clients = clients.build().map_err(|error| fault(&error))?;
    let server = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|server| {
            server.with_client_cert_verifier(clients).with_single_cert(vec![certificate], key)
        });
    Ok(Arc::new(server.map_err(|error| fault(&error))?))
}

/// Returns a name as DNS labels of hexadecimal digits.
fn coded_name(name: &str) -> String {
    assert!(name.len() <= crate::NODE_NAME_BYTES_MAX, "longer names are refused before");
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    let labels: Vec<&str> =
        digits.as_bytes().chunks(LABEL_DIGITS).filter_map(|label| str::from_utf8(label).ok()).collect();
    labels.join(".") + NAME_END
}

fn fault(error: &dyn std::fmt::Display) -> ClusterError {
    ClusterError::Certificate(error.to_string())
}

/// Head of an Ed25519 seed as PKCS#8 (RFC 8410, section 7).
const PKCS8_HEAD: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

const NAME_END: &str = ".node.shoal.invalid";

/// Digits of a label; DNS allows 63.
const LABEL_DIGITS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyFile;
    use rustls::{ClientConnection, ServerConnection};

    fn tls(ring: &KeyRing, name: &str, address: &str) -> PeerTls {
        let node = PeerIdentity { name: name.into(), address: address.parse().expect("an address") };
        PeerTls::new(ring, &node).expect("certificates").expect("keys")
    }

    /// Shakes hands in memory. Returns the name that the server knows the client by.
    fn handshake(
        client: &PeerTls,
        server: &PeerTls,
        address: &str,
    ) -> Result<Option<Arc<str>>, rustls::Error> {
        let name = PeerTls::server_name(address.parse().expect("an address"));
        let mut client = ClientConnection::new(Arc::clone(&client.client), name)?;
        let mut server = ServerConnection::new(Arc::clone(&server.server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("memory");
            server.read_tls(&mut &bytes[..]).expect("memory");
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).expect("memory");
            client.read_tls(&mut &bytes[..]).expect("memory");
            client.process_new_packets()?;
        }
        Ok(server.peer_certificates().and_then(|chain| node_name_in(&chain[0])))
    }

    fn roots(ring: &KeyRing) -> Vec<rustls::pki_types::TrustAnchor<'static>> {
        let authorities = authorities(ring).expect("certificates").expect("keys");
        let mut store = RootCertStore::empty();
        authorities.into_iter().for_each(|authority| store.add(authority.certificate).expect("valid"));
        store.roots
    }

    #[test]
    fn nodes_of_a_cluster_know_each_other() {
        let ring = KeyRing::new("prod", &KeyFile::generate().expect("randomness"));
        let long = "a".repeat(crate::NODE_NAME_BYTES_MAX);
        for name in ["cache-1", "10.0.0.1:3131", "[2001:db8::1]:3131", &long] {
            let (client, server) = (tls(&ring, name, "10.0.0.1:3131"), tls(&ring, "b", "[2001:db8::2]:3131"));
            assert_eq!(handshake(&client, &server, "[2001:db8::2]:3131"), Ok(Some(name.into())));
        }
    }

    #[test]
    fn strangers_and_other_addresses_are_refused() {
        let file = KeyFile::generate().expect("randomness");
        let ring = KeyRing::new("prod", &file);
        let (one, two) = (tls(&ring, "a", "10.0.0.1:1"), tls(&ring, "b", "10.0.0.2:1"));
        assert!(handshake(&one, &two, "10.0.0.3:1").is_err(), "another address");
        let others =
            [KeyRing::new("prod", &KeyFile::generate().expect("randomness")), KeyRing::new("test", &file)];
        for other in others {
            let stranger = tls(&other, "c", "10.0.0.2:1");
            assert!(handshake(&stranger, &two, "10.0.0.2:1").is_err());
            assert!(handshake(&two, &stranger, "10.0.0.2:1").is_err());
        }
        let roots = Arc::new(RootCertStore { roots: roots(&ring) });
        let bare = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let bare = PeerTls { server: Arc::clone(&one.server), client: Arc::new(bare) };
        assert!(handshake(&bare, &two, "10.0.0.2:1").is_err(), "no certificate");
    }

    #[test]
    fn neighbouring_steps_of_a_rotation_connect() {
        let old = KeyFile::generate().expect("randomness");
        let added = old.clone().with_key_added().expect("randomness");
        let turned = added.clone().with_second_first().expect("two keys");
        let last = turned.clone().with_first_alone().expect("two keys");
        let steps = [old, added, turned, last].map(|file| tls(&KeyRing::new("a", &file), "n", "10.0.0.1:1"));
        for pair in steps.windows(2) {
            assert!(handshake(&pair[0], &pair[1], "10.0.0.1:1").is_ok());
            assert!(handshake(&pair[1], &pair[0], "10.0.0.1:1").is_ok());
        }
        assert!(handshake(&steps[0], &steps[3], "10.0.0.1:1").is_err());
    }

    #[test]
    fn ring_without_keys_has_no_certificate() {
        let node = PeerIdentity { name: "a".into(), address: ([127, 0, 0, 1], 1).into() };
        assert!(PeerTls::new(&KeyRing::keyless("a"), &node).expect("nothing to fail").is_none());
    }
}
