//! Key exchange X25519MLKEM768: safe while either X25519 or ML-KEM-768 holds.
//!
//! A recorded connection can be read later by a quantum computer, if X25519 alone protects it. The
//! hybrid of draft-ietf-tls-ecdhe-mlkem puts both shares behind one another, ML-KEM's first:
//!
//! ```text
//!   client's share   encapsulation key (1184 bytes)   X25519 (32)
//!   server's share   ciphertext        (1088 bytes)   X25519 (32)
//!   secret           ML-KEM's            (32 bytes)   X25519 (32)
//! ```
//!
//! X25519 is ring's, so that a fault of the younger code leaves a connection as safe as before. It
//! costs a handshake about 1.1 KB more in each direction.

use libcrux_ml_kem::mlkem768::{self, MlKem768Ciphertext, MlKem768KeyPair, MlKem768PublicKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// The group X25519MLKEM768.
#[derive(Debug)]
pub struct X25519MlKem768;

/// Returns ring's code with the hybrid group before its own: far ends that know the hybrid agree on
/// it.
pub fn hybrid_provider() -> CryptoProvider {
    let mut provider = default_provider();
    provider.kx_groups.insert(0, &X25519MlKem768);
    provider
}

/// Exchange of a client that waits for the server's share.
struct ClientExchange {
    classical: Box<dyn ActiveKeyExchange>,
    pair: Box<MlKem768KeyPair>,
    share: Vec<u8>,
}

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let classical = X25519.start()?;
        let pair = Box::new(mlkem768::generate_key_pair(random()?));
        let share = [pair.pk().as_slice(), classical.pub_key()].concat();
        debug_assert_eq!(share.len(), KEY_BYTES + X25519_BYTES);
        Ok(Box::new(ClientExchange { classical, pair, share }))
    }

    fn start_and_complete(&self, client_share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, of_client) = split(client_share, KEY_BYTES)?;
        let key = MlKem768PublicKey::try_from(key).map_err(|_| BAD_SHARE)?;
        // The draft asks for the check of section 7.2 of FIPS 203, and for this alert.
        if !mlkem768::validate_public_key(&key) {
            return Err(BAD_SHARE);
        }
        let classical = X25519.start_and_complete(of_client)?;
        let (ciphertext, secret) = mlkem768::encapsulate(&key, random()?);
        let pub_key = [ciphertext.as_slice(), &classical.pub_key[..]].concat();
        debug_assert_eq!(pub_key.len(), CIPHERTEXT_BYTES + X25519_BYTES);
        let secret = joined(&secret, classical.secret.secret_bytes());
        Ok(CompletedKeyExchange { group: self.name(), pub_key, secret })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

impl ActiveKeyExchange for ClientExchange {
    fn complete(self: Box<Self>, server_share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, of_server) = split(server_share, CIPHERTEXT_BYTES)?;
        let ciphertext = MlKem768Ciphertext::try_from(ciphertext).map_err(|_| BAD_SHARE)?;
        let classical = self.classical.complete(of_server)?;
        let secret = mlkem768::decapsulate(self.pair.private_key(), &ciphertext);
        Ok(joined(&secret, classical.secret_bytes()))
    }

    /// A server without ML-KEM may take the share of X25519 alone.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.classical.group(), self.classical.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, server_share: &[u8]) -> Result<SharedSecret, Error> {
        self.classical.complete(server_share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// Splits a share into the part of ML-KEM, of `first` bytes, and that of X25519.
fn split(share: &[u8], first: usize) -> Result<(&[u8], &[u8]), Error> {
    debug_assert!(first == KEY_BYTES || first == CIPHERTEXT_BYTES);
    match share.len() == first + X25519_BYTES {
        true => Ok(share.split_at(first)),
        false => Err(BAD_SHARE),
    }
}

fn joined(post_quantum: &[u8], classical: &[u8]) -> SharedSecret {
    debug_assert_eq!((post_quantum.len(), classical.len()), (32, 32));
    SharedSecret::from([post_quantum, classical].concat())
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

/// Alert "illegal_parameter".
const BAD_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// Bytes of an encapsulation key of ML-KEM-768 (FIPS 203, table 3).
const KEY_BYTES: usize = 1184;
/// Bytes of a ciphertext of ML-KEM-768.
const CIPHERTEXT_BYTES: usize = 1088;
/// Bytes of a share of X25519.
const X25519_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_get_one_secret() {
        let client = X25519MlKem768.start().expect("randomness");
        assert_eq!(client.pub_key().len(), 1216);
        let server = X25519MlKem768.start_and_complete(client.pub_key()).expect("a sound share");
        assert_eq!(server.pub_key.len(), 1120);
        let secret = client.complete(&server.pub_key).expect("a sound share");
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 64);
    }

    #[test]
    fn bad_shares_are_refused() {
        let client = X25519MlKem768.start().expect("randomness");
        let sound = client.pub_key().to_vec();
        let refused = |share: &[u8]| {
            let error = X25519MlKem768.start_and_complete(share).err().expect("refused");
            assert_eq!(error, BAD_SHARE, "{} bytes", share.len());
        };
        for length in [0, 32, 1184, 1215] {
            refused(&sound[..length]);
        }
        refused(&[&sound[..], &[0]].concat());
        // A coefficient beyond 3328 is no key (FIPS 203, section 7.2).
        let mut wrong = sound.clone();
        wrong[..3].fill(0xff);
        refused(&wrong);
        // A point of small order gives X25519's part away.
        let mut wrong = sound;
        wrong[KEY_BYTES..].fill(0);
        assert!(X25519MlKem768.start_and_complete(&wrong).is_err());
        assert_eq!(client.complete(&[0; 1119]).err(), Some(BAD_SHARE));
    }

    #[test]
    fn damaged_ciphertext_gives_another_secret() {
        let client = X25519MlKem768.start().expect("randomness");
        let mut server = X25519MlKem768.start_and_complete(client.pub_key()).expect("a sound share");
        server.pub_key[0] ^= 1;
        let secret = client.complete(&server.pub_key).expect("no error tells");
        assert_ne!(secret.secret_bytes()[..32], server.secret.secret_bytes()[..32]);
        assert_eq!(secret.secret_bytes()[32..], server.secret.secret_bytes()[32..]);
    }
}
