//! Package lists of Debian's archives: digest and size of each package by its place.
//!
//! ```text
//!   Package: a
//!   Filename: pool/main/a/a_1_amd64.deb
//!   Size: 1234
//!   SHA256: HEX
//! ```
//!
//! An index of a list has 56 bytes for each package. Places are kept as hashes of 128 bits.

use crate::{Algorithm, Digest};
use shoal_core::{Key, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

/// Index of one list.
#[derive(Debug, Default)]
pub struct PackageList(HashMap<Key, ([u8; 32], u64)>);

impl PackageList {
    /// Reads a list; the extension of its path tells its coding. `None` if it cannot be read.
    pub fn read(path: &str, list: &[u8]) -> Option<Self> {
        let source: Box<dyn Read + '_> = match path.rsplit('.').next()? {
            "xz" => Box::new(lzma_rust2::XzReader::new(list, true)),
            "gz" => Box::new(flate2::read::MultiGzDecoder::new(list)),
            _ if path.ends_with("/Packages") => Box::new(list),
            _ => return None,
        };
        let mut lines = BufReader::with_capacity(BUFFER, source.take(DECODED_MAX));
        let (mut index, mut entry, mut line) = (Self::default(), PackageEntry::default(), Vec::new());
        loop {
            line.clear();
            let taken = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line).ok()?;
            let text = line.trim_ascii_end();
            if taken > 0 && !text.is_empty() {
                entry.take(text);
                continue;
            }
            index.add(std::mem::take(&mut entry));
            if taken == 0 || index.0.len() >= PACKAGES_MAX {
                return Some(index);
            }
        }
    }

    /// Returns digest and size of the package at this place.
    pub fn promise(&self, path: &str) -> Option<(Digest, u64)> {
        let (bytes, size) = self.0.get(&hashed(path.as_bytes()))?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some((Digest::from_hex(Algorithm::Sha256, &hex)?, *size))
    }

    fn add(&mut self, entry: PackageEntry) {
        if let PackageEntry { place: Some(place), digest: Some(digest), size: Some(size) } = entry {
            self.0.insert(place, (digest, size));
        }
    }
}

#[derive(Default)]
struct PackageEntry {
    place: Option<Key>,
    digest: Option<[u8; 32]>,
    size: Option<u64>,
}

impl PackageEntry {
    fn take(&mut self, line: &[u8]) {
        let value = |name: &[u8]| line.strip_prefix(name).map(<[u8]>::trim_ascii);
        let text = |value: &[u8]| std::str::from_utf8(value).ok().map(str::to_owned);
        if let Some(place) = value(b"Filename:") {
            self.place = Some(hashed(place));
        } else if let Some(size) = value(b"Size:") {
            self.size = text(size).and_then(|size| size.parse().ok());
        } else if let Some(hex) = value(b"SHA256:") {
            let digest = text(hex).and_then(|hex| Digest::from_hex(Algorithm::Sha256, &hex));
            self.digest = digest.and_then(|digest| digest.bytes().try_into().ok());
        }
    }
}

/// Hashes a place below the archive, with or without `/` or `./` before it.
fn hashed(place: &[u8]) -> Key {
    let place = place.strip_prefix(b"./").or(place.strip_prefix(b"/")).unwrap_or(place);
    Key::unkeyed(place)
}

/// Indexes of the lists that were read last, and lists that are not stored.
#[derive(Debug, Default)]
pub struct PackageLists(VecDeque<(Digest, Option<Arc<PackageList>>, Timestamp)>);

impl PackageLists {
    /// Returns the index of a list, or its absence if that is known; `None` if nothing is known.
    pub fn of(&self, digest: &Digest, now: Timestamp) -> Option<Option<Arc<PackageList>>> {
        let (_, index, since) = self.0.iter().find(|(known, ..)| known == digest)?;
        (index.is_some() || now < since.plus(ABSENCE)).then(|| index.clone())
    }

    /// Keeps the index of a list, or its absence.
    pub fn keep(&mut self, digest: &Digest, index: Option<Arc<PackageList>>, now: Timestamp) {
        self.0.retain(|(known, ..)| known != digest);
        self.0.push_front((digest.clone(), index, now));
        let mut packages = 0;
        self.0.retain(|(_, index, _)| {
            packages += index.as_ref().map_or(0, |index| index.0.len());
            packages <= KEPT_MAX
        });
        self.0.truncate(LISTS_MAX);
        debug_assert!(packages <= KEPT_MAX || self.0.len() <= LISTS_MAX, "the indexes are bounded");
    }
}

/// Most packages of one list. Debian has 70,000 in its largest.
const PACKAGES_MAX: usize = 300_000;
/// Most packages in all indexes of a mirror: 20 MB.
const KEPT_MAX: usize = 320_000;
/// Most lists that are remembered.
const LISTS_MAX: usize = 1_024;
/// Time for which the absence of a list is remembered.
const ABSENCE: Duration = Duration::from_secs(30);
/// Most bytes of a decoded list.
const DECODED_MAX: u64 = 1 << 30;
/// Longest line that is read at once.
const LINE_MAX: u64 = 1 << 20;
const BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    const LIST: &str = "Package: a\nFilename: pool/a_1.deb\nSize: 3\nSHA256: \
        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nDescription: x\n y\n\n\
        Package: b\nFilename: ./b_1.deb\nSize: 3\nSHA256: \
        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n\n\
        Package: c\nFilename: pool/c.deb\nSize: 3\n";

    #[test]
    fn packages_are_found_by_their_place() {
        let mut coded = GzEncoder::new(Vec::new(), Compression::default());
        coded.write_all(LIST.as_bytes()).expect("memory");
        let gzip = coded.finish().expect("memory");
        for (path, bytes) in [("/d/Packages", LIST.as_bytes()), ("/d/Packages.gz", &gzip)] {
            let index = PackageList::read(path, bytes).expect("a list");
            let (digest, size) = index.promise("/pool/a_1.deb").expect("named");
            assert_eq!((&digest.hex()[..8], size), ("ba7816bf", 3));
            assert!(index.promise("/b_1.deb").is_some());
            assert!(index.promise("/pool/c.deb").is_none(), "without a digest");
        }
        assert!(PackageList::read("/d/Packages.xz", b"no xz").is_none());
        assert!(PackageList::read("/d/Packages.gz", &gzip[..20]).is_none(), "cut");
        assert!(PackageList::read("/d/Packages.zst", b"").is_none());
    }

    #[test]
    fn indexes_are_bounded_and_absence_ends() {
        let (mut lists, now) = (PackageLists::default(), Timestamp::from_seconds(1000));
        let digest =
            |number: usize| Digest::from_hex(Algorithm::Sha256, &format!("{number:064x}")).expect("a digest");
        for number in 0..LISTS_MAX + 5 {
            lists.keep(&digest(number), None, now);
        }
        assert_eq!(lists.0.len(), LISTS_MAX);
        assert!(lists.of(&digest(LISTS_MAX), now).is_some_and(|index| index.is_none()));
        assert!(lists.of(&digest(LISTS_MAX), now.plus(ABSENCE)).is_none());
        let index = Arc::new(PackageList::read("/Packages", LIST.as_bytes()).expect("a list"));
        lists.keep(&digest(1), Some(index), now);
        assert!(lists.of(&digest(1), now.plus(ABSENCE)).is_some_and(|index| index.is_some()));
    }
}
