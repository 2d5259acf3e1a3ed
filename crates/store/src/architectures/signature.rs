//! Small file that names the architecture that made a store, for use without an index, and the
//! secret of the store's keys.
//!
//! ```text
//! shoal store 1: NAME P P P P CHECK      the naming's four parameters
//! shoal keys 1: SECRET SINCE CHECK       32 hexadecimal digits; `made` or `later`
//! ```
//!
//! Each check is the XXH3-64 of the bytes before it in its line, in hexadecimal. The file is on
//! disk before any other part of the store is made. A store of an earlier version has the first
//! line alone. Opening such a store adds the second line, with `later`: the objects already in the
//! store are keyed without a secret.

use super::Naming;
use crate::Error;
use crate::fs::{Access, FileSystem, read_full, write_full};
use shoal_core::KeySecret;
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Architecture and keys of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    pub(super) architecture: String,
    pub(super) parameters: [u32; 4],
    /// `None` in a store of an earlier version, or where the line is damaged.
    pub(super) keys: Option<Keys>,
}

/// Hashing of a store's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    pub(super) secret: KeySecret,
    /// The store may hold objects of an earlier version, with keys hashed without a secret.
    pub(super) came_later: bool,
}

impl Signature {
    /// Returns the signature of a new store, which uses the secret of this process.
    pub(super) fn of(architecture: &str, naming: &dyn Naming) -> Self {
        Self::with_parameters(architecture, naming.parameters())
    }

    /// Returns the signature of a new store of an architecture without a naming.
    pub(super) fn with_parameters(architecture: &str, parameters: [u32; 4]) -> Self {
        let keys = Keys { secret: KeySecret::installed(), came_later: false };
        Self { architecture: architecture.to_owned(), parameters, keys: Some(keys) }
    }

    /// Reads the signature. Returns `None` when there is none, or when it is not whole.
    pub(super) fn read(files: &dyn FileSystem) -> io::Result<Option<Self>> {
        let file = match files.open(PATH, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; BYTES_MAX];
        let read = read_full(&*file, &mut bytes, 0)?;
        Ok(std::str::from_utf8(&bytes[..read]).ok().and_then(Self::parse))
    }

    /// Writes the signature, in place of a damaged one, and returns when it is on disk.
    pub(super) fn write(&self, files: &dyn FileSystem) -> io::Result<()> {
        let mut created = files.create(PATH);
        if matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            created = files.unlink(PATH).and_then(|()| files.create(PATH));
        }
        write_full(&*created?, self.text().as_bytes(), 0)?;
        files.sync()
    }

    /// Adds the line of the keys to a store without one, and returns when it is on disk. No object
    /// uses these keys earlier.
    pub(super) fn add_keys(&mut self, keys: Keys, files: &dyn FileSystem) -> io::Result<()> {
        let file = files.open(PATH, Access::Write)?;
        write_full(&*file, keys.text().as_bytes(), self.maker_text().len() as u64)?;
        file.sync()?;
        self.keys = Some(keys);
        Ok(())
    }

    /// Refuses a store that another architecture has made.
    pub(super) fn check(made_as: &str, wanted: &str) -> Result<(), Error> {
        if made_as == wanted {
            return Ok(());
        }
        Err(Error::Unusable(format!(
            "the store there was made by the architecture {made_as}, and this is {wanted}; set the architecture to \
             {made_as}, or give {wanted} another directory"
        )))
    }

    fn text(&self) -> String {
        self.maker_text() + &self.keys.map_or(String::new(), Keys::text)
    }

    fn maker_text(&self) -> String {
        let [a, b, c, d] = self.parameters;
        checked(format!("{PREFIX}{} {a} {b} {c} {d}", self.architecture))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.strip_prefix(PREFIX)?.split_ascii_whitespace();
        let architecture = words.next()?.to_owned();
        let mut parameters = [0; 4];
        for parameter in &mut parameters {
            *parameter = words.next()?.parse().ok()?;
        }
        let signature = Self { architecture, parameters, keys: None };
        let keys = text.strip_prefix(&signature.maker_text())?;
        Some(Self { keys: Keys::parse(keys), ..signature })
    }
}

impl Keys {
    fn text(self) -> String {
        let since = if self.came_later { LATER } else { MADE };
        let secret = u128::from_le_bytes(self.secret.to_bytes());
        checked(format!("{KEYS_PREFIX}{secret:032x} {since}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(KEYS_PREFIX)?.split_ascii_whitespace();
        let secret = u128::from_str_radix(words.next()?, 16).ok()?;
        let came_later = words.next()? == LATER;
        let keys = Self { secret: KeySecret::new(secret.to_le_bytes()), came_later };
        (keys.text() == text).then_some(keys)
    }
}

/// Returns the line with its check.
fn checked(line: String) -> String {
    let check = xxh3_64(line.as_bytes());
    format!("{line} {check:016x}\n")
}

/// Path of the signature in the store.
pub(super) const PATH: &str = "architecture";
const PREFIX: &str = "shoal store 1: ";
const KEYS_PREFIX: &str = "shoal keys 1: ";
const MADE: &str = "made";
const LATER: &str = "later";
const BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;

    fn signature() -> Signature {
        let keys = Keys { secret: KeySecret::new(*b"a secret of keys"), came_later: false };
        let architecture = "squid_lowest".into();
        Signature { architecture, parameters: [1, 22, 192, 0], keys: Some(keys) }
    }

    #[test]
    fn signature_reads_back_or_not_at_all_when_damaged() {
        let signature = signature();
        let files = MemoryFs::new(1 << 20);
        assert_eq!(Signature::read(&files).unwrap(), None);
        signature.write(&files).unwrap();
        assert_eq!(Signature::read(&files).unwrap(), Some(signature.clone()));
        let maker_bits = 8 * signature.maker_text().len();
        for bit in 0..8 * signature.text().len() {
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let read = Signature::read(&files).unwrap();
            // Text that is not UTF-8 counts as no signature.
            let is_none = read.as_ref().is_none_or(|read| bit >= maker_bits && read.keys.is_none());
            assert!(is_none, "bit {bit}: {read:?}");
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        files.tamper(PATH, |bytes| bytes.truncate(20));
        assert_eq!(Signature::read(&files).unwrap(), None);
        signature.write(&files).unwrap();
        assert_eq!(Signature::read(&files).unwrap(), Some(signature));
    }

    #[test]
    fn keys_are_added_to_an_earlier_signature() {
        let files = MemoryFs::new(1 << 20);
        let mut earlier = Signature { keys: None, ..signature() };
        earlier.write(&files).unwrap();
        assert_eq!(Signature::read(&files).unwrap(), Some(earlier.clone()));
        let keys = Keys { came_later: true, ..signature().keys.unwrap() };
        earlier.add_keys(keys, &files).unwrap();
        assert_eq!(earlier.keys, Some(keys));
        assert_eq!(Signature::read(&files).unwrap(), Some(earlier));
    }
}
