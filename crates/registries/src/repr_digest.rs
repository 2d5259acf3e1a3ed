//! Digests of a body in its own field: Repr-Digest (RFC 9530).
//!
//! A file that was checked is stored with the digest that it was checked against. Clients may
//! compare, and the node does when a newer index comes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use shoal_core::Fields;
use shoal_mirrors::{Algorithm, Digest};

/// Name of the field.
pub const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Returns the field's value for this digest: `sha-256=:BASE64:`.
pub fn written(digest: &Digest) -> String {
    debug_assert_eq!(digest.bytes().len(), digest.algorithm().byte_count(), "a whole digest");
    format!("{}=:{}:", name(digest.algorithm()), STANDARD.encode(digest.bytes()))
}

/// Returns the digests of a body with these fields.
pub fn read_digests(fields: &impl Fields) -> Vec<Digest> {
    let lines = fields.values(&REPR_DIGEST).map(String::from_utf8_lossy).collect::<Vec<_>>();
    let members = lines.iter().flat_map(|line| line.split(','));
    let read = members.filter_map(|member| {
        let (key, value) = member.trim().split_once('=')?;
        let algorithm = ALGORITHMS.into_iter().find(|algorithm| name(*algorithm) == key)?;
        let bytes = STANDARD.decode(value.strip_prefix(':')?.strip_suffix(':')?).ok()?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Digest::from_hex(algorithm, &hex)
    });
    read.collect()
}

/// Returns the name of a hash function in the field.
const fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Md5 => "md5",
        Algorithm::Sha1 => "sha",
        Algorithm::Sha256 => "sha-256",
        Algorithm::Sha512 => "sha-512",
    }
}

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::FieldLines;
    use shoal_mirrors::Hasher;

    #[test]
    fn written_digests_are_read_back() {
        for algorithm in ALGORITHMS {
            let mut hasher = Hasher::new(algorithm);
            hasher.push(b"body");
            let digest = hasher.finish();
            let fields: FieldLines = [("repr-digest", written(&digest))].into_iter().collect();
            assert_eq!(read_digests(&fields), [digest]);
        }
        for odd in ["sha-256=:AAAA:", "sha-256=x", "sha-256", "crc=:AAAA:", ""] {
            let fields: FieldLines = [("repr-digest", odd)].into_iter().collect();
            assert!(read_digests(&fields).is_empty(), "{odd}");
        }
    }
}
