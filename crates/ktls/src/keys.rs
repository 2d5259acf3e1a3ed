//! The keys of one direction as the kernel takes them: `struct tls12_crypto_info_*` of
//! `linux/tls.h`.
//!
//! ```text
//!   version u16 │ cipher u16 │ iv │ key │ salt │ sequence number, big endian (8)
//! ```

use rustls::{CipherSuite, ConnectionTrafficSecrets, ProtocolVersion};

/// What the kernel can encrypt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    Chacha20Poly1305,
}

/// The versions that have been agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

/// Whose keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Send,
    Receive,
}

impl Version {
    pub fn of(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Self::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Self::Tls13),
            _ => None,
        }
    }
}

impl Cipher {
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305];

    pub fn of(suite: CipherSuite) -> Option<Self> {
        use CipherSuite as S;
        Some(match suite {
            S::TLS13_AES_128_GCM_SHA256
            | S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | S::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Self::Aes128Gcm,
            S::TLS13_AES_256_GCM_SHA384
            | S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | S::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Self::Aes256Gcm,
            S::TLS13_CHACHA20_POLY1305_SHA256
            | S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | S::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Self::Chacha20Poly1305,
            _ => return None,
        })
    }

    /// Bytes of its key.
    pub fn key_bytes(self) -> usize {
        if self == Self::Aes128Gcm { 16 } else { 32 }
    }

    /// Its number in `linux/tls.h`.
    fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => libc::TLS_CIPHER_AES_GCM_128,
            Self::Aes256Gcm => libc::TLS_CIPHER_AES_GCM_256,
            Self::Chacha20Poly1305 => libc::TLS_CIPHER_CHACHA20_POLY1305,
        }
    }

    /// Bytes of the nonce that stand in `salt`.
    fn salt_bytes(self) -> usize {
        if self == Self::Chacha20Poly1305 { 0 } else { 4 }
    }
}

/// The keys of one direction, whose next record has the number `sequence`; `None` for what the
/// kernel does not know.
pub fn of_secrets(
    version: Version,
    way: Way,
    sequence: u64,
    secrets: &ConnectionTrafficSecrets,
) -> Option<CryptoInfo> {
    use ConnectionTrafficSecrets as S;
    let (cipher, key, iv) = match secrets {
        S::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        S::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        S::Chacha20Poly1305 { key, iv } => (Cipher::Chacha20Poly1305, key, iv),
        _ => return None,
    };
    let iv: [u8; NONCE_BYTES] = iv.as_ref().try_into().ok()?;
    (key.as_ref().len() == cipher.key_bytes())
        .then(|| CryptoInfo::new(version, cipher, way, sequence, key.as_ref(), iv))
}

/// What the option takes. It is overwritten when it goes.
pub struct CryptoInfo(Vec<u8>);

impl CryptoInfo {
    pub fn new(
        version: Version,
        cipher: Cipher,
        way: Way,
        sequence: u64,
        key: &[u8],
        iv: [u8; NONCE_BYTES],
    ) -> Self {
        let (salt, rest) = iv.split_at(cipher.salt_bytes());
        let mut rest = rest.to_vec();
        if way == Way::Send && version == Version::Tls12 && cipher != Cipher::Chacha20Poly1305 {
            set_apart(&mut rest);
        }
        let number = match version {
            Version::Tls12 => libc::TLS_1_2_VERSION,
            Version::Tls13 => libc::TLS_1_3_VERSION,
        };
        let mut bytes = Vec::with_capacity(4 + NONCE_BYTES + key.len() + 8);
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(&cipher.number().to_ne_bytes());
        for part in [&rest, key, salt, &sequence.to_be_bytes()] {
            bytes.extend_from_slice(part);
        }
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for CryptoInfo {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// GCM of TLS 1.2 sends the second part of each nonce along with the record (RFC 5288 section 3),
/// and a nonce may never come twice under one key. rustls makes it of its starting value by XOR
/// with the record's number; the kernel counts up from what it is given. From the starting value
/// itself the kernel would use those of the handshake's records again; from half of all values away
/// it meets none of them, as neither side writes 2^63 records.
fn set_apart(explicit: &mut [u8]) {
    explicit[0] ^= 0x80;
}

/// Bytes of a nonce of every cipher here.
pub const NONCE_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        let sizes = [
            size_of::<libc::tls12_crypto_info_aes_gcm_128>(),
            size_of::<libc::tls12_crypto_info_aes_gcm_256>(),
            size_of::<libc::tls12_crypto_info_chacha20_poly1305>(),
        ];
        for (cipher, size) in Cipher::ALL.into_iter().zip(sizes) {
            let key = vec![7; cipher.key_bytes()];
            let info = CryptoInfo::new(Version::Tls13, cipher, Way::Send, 5, &key, [9; NONCE_BYTES]);
            assert_eq!(info.as_bytes().len(), size, "{cipher:?}");
        }
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let info = CryptoInfo::new(Version::Tls13, Cipher::Aes128Gcm, Way::Send, 0x0102, &[0xee; 16], iv);
        let expected =
            [&[5, 6, 7, 8, 9, 10, 11, 12][..], &[0xee; 16], &[1, 2, 3, 4], &[0, 0, 0, 0, 0, 0, 1, 2]];
        assert_eq!(info.as_bytes()[4..], expected.concat());
    }

    #[test]
    fn a_nonce_that_the_handshake_used_is_not_used_again() {
        for start in [0, 1, 255, u64::MAX >> 1, u64::MAX] {
            let mut iv = [0; NONCE_BYTES];
            iv[4..].copy_from_slice(&start.to_be_bytes());
            let info = |way, version| {
                let info = CryptoInfo::new(version, Cipher::Aes128Gcm, way, 1, &[0; 16], iv);
                u64::from_be_bytes(info.as_bytes()[4..12].try_into().expect("eight"))
            };
            let by_rustls: Vec<u64> = (0..100).map(|number| start ^ number).collect();
            let first = info(Way::Send, Version::Tls12);
            assert!((0..100).all(|count| !by_rustls.contains(&first.wrapping_add(count))), "{start}");
            // Elsewhere the nonce is made of the number, which goes on.
            assert_eq!(info(Way::Send, Version::Tls13), start);
            assert_eq!(info(Way::Receive, Version::Tls12), start);
        }
    }
}
