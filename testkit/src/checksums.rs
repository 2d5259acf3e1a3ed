//! A checksum database of Go modules: signed records and the tiles of their tree, as files.
//!
//! ```text
//!   /sumdb/NAME/supported                    the proxy answers for this database
//!   /sumdb/NAME/latest                       signed root of the tree
//!   /sumdb/NAME/lookup/MODULE@VERSION        record, and a signed root that covers it
//!   /sumdb/NAME/tile/8/0/000.p/COUNT         hashes of the records
//! ```
//!
//! The tree is that of certificate transparency: Laurie, Langley and Kasper, "Certificate
//! Transparency", RFC 6962, 2013. It has one tile, so that a database takes 255 records at most.

use crate::seeded;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha2::{Digest, Sha256};
use std::path::Path;

/// A database whose key follows from its name.
pub struct ChecksumDatabase {
    name: String,
    key: Ed25519KeyPair,
    /// Module with its version, and the lines of `go.sum`.
    records: Vec<(String, String)>,
}

impl ChecksumDatabase {
    /// Makes an empty database.
    pub fn new(name: &str) -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&seeded::body(name, 32));
        Self { name: name.into(), key: key.expect("32 bytes are a seed"), records: Vec::new() }
    }

    /// Adds a version with the hashes of its zip and of its `go.mod`.
    pub fn add(&mut self, module: &str, version: &str, (zip, go_mod): (&str, &str)) {
        assert!(self.records.len() < RECORDS_MAX, "one tile has no more records");
        let lines = format!("{module} {version} {zip}\n{module} {version}/go.mod {go_mod}\n");
        self.records.push((format!("{module}@{version}"), lines));
    }

    /// Key that clients check signatures with, as `GOSUMDB` names it.
    pub fn verifier(&self) -> String {
        let (key, id) = self.public_key();
        format!("{}+{id:08x}+{}", self.name, STANDARD.encode(key))
    }

    /// Writes the database below the folder of a module proxy.
    pub fn write(&self, proxy: &Path) {
        let below = proxy.join("sumdb").join(&self.name);
        let write = |path: &str, bytes: &[u8]| {
            let path = below.join(path);
            std::fs::create_dir_all(path.parent().expect("files stand in folders")).expect("writable");
            std::fs::write(path, bytes).expect("writable");
        };
        let leaves: Vec<Hash> =
            self.records.iter().map(|(_, lines)| hash(&[&[0], lines.as_bytes()])).collect();
        let latest = self.signed(&root(&leaves));
        write("supported", b"");
        write("latest", latest.as_bytes());
        write(&format!("tile/8/0/000.p/{}", leaves.len()), &leaves.concat());
        for (number, (version, lines)) in self.records.iter().enumerate() {
            write(&format!("lookup/{version}"), format!("{number}\n{lines}\n{latest}").as_bytes());
        }
    }

    /// Signed note of the tree with this root.
    fn signed(&self, root: &Hash) -> String {
        let text = format!("go.sum database tree\n{}\n{}\n", self.records.len(), STANDARD.encode(root));
        let signature = self.key.sign(text.as_bytes());
        let (_, id) = self.public_key();
        let signed = [&id.to_be_bytes()[..], signature.as_ref()].concat();
        format!("{text}\n\u{2014} {} {}\n", self.name, STANDARD.encode(signed))
    }

    /// Key with the number of its algorithm, and its id.
    fn public_key(&self) -> (Vec<u8>, u32) {
        let key = [&[ED25519][..], self.key.public_key().as_ref()].concat();
        let [a, b, c, d, ..] = hash(&[self.name.as_bytes(), b"\n", &key]);
        (key, u32::from_be_bytes([a, b, c, d]))
    }
}

type Hash = [u8; 32];

fn hash(parts: &[&[u8]]) -> Hash {
    Sha256::digest(parts.concat()).into()
}

/// Hash of a tree: its left half has the largest power of two of leaves below their number.
fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            hash(&[&[1], &root(left), &root(right)])
        }
    }
}

/// Number of the algorithm Ed25519 in keys of notes.
const ED25519: u8 = 1;
/// Most records of one tile that is not full.
const RECORDS_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_those_of_the_rfc() {
        // The tree of RFC 6962, 2.1.3: seven leaves, d0 to d6.
        let leaves: Vec<Hash> = (0..7).map(|leaf| hash(&[&[0], &[leaf]])).collect();
        let pair = |left: &Hash, right: &Hash| hash(&[&[1], left, right]);
        let (g, h) = (pair(&leaves[0], &leaves[1]), pair(&leaves[2], &leaves[3]));
        let (i, j) = (pair(&leaves[4], &leaves[5]), leaves[6]);
        assert_eq!(root(&leaves), pair(&pair(&g, &h), &pair(&i, &j)));
        assert_eq!(root(&leaves[..4]), pair(&g, &h));
    }

    #[test]
    fn verifier_has_the_form_of_notes() {
        let verifier = ChecksumDatabase::new("sum.test").verifier();
        let [name, id, key] = verifier.splitn(3, '+').collect::<Vec<_>>()[..] else {
            panic!("{verifier}");
        };
        assert_eq!((name, id.len(), STANDARD.decode(key).expect("base64").len()), ("sum.test", 8, 33));
    }
}
