//! The small file that says which architecture made a store, for when no index says it.
//!
//! One line of text: `shoal store 1: NAME P P P P CHECK`, the name, the naming's four parameters, and the XXH3-64 of what
//! stands before it, in hexadecimal. It is written and brought to disk before anything else of the store is made.

use super::Naming;
use crate::Error;
use crate::door::{Access, FileSystem, read_full, write_full};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Who made a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    pub(super) architecture: String,
    pub(super) parameters: [u32; 4],
}

impl Signature {
    /// What is to be written for a new store.
    pub(super) fn of(architecture: &str, naming: &dyn Naming) -> Self {
        Self { architecture: architecture.to_owned(), parameters: naming.parameters() }
    }

    /// Reads it. `None` when there is none, or none that is whole.
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

    /// Writes it, in place of one that is not whole, and returns when it is on disk.
    pub(super) fn write(&self, files: &dyn FileSystem) -> io::Result<()> {
        let mut created = files.create(PATH);
        if matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            created = files.unlink(PATH).and_then(|()| files.create(PATH));
        }
        write_full(&*created?, self.text().as_bytes(), 0)?;
        files.sync()
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
        let [a, b, c, d] = self.parameters;
        let text = format!("{PREFIX}{} {a} {b} {c} {d}", self.architecture);
        format!("{text} {:016x}\n", xxh3_64(text.as_bytes()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(PREFIX)?.split_ascii_whitespace();
        let architecture = words.next()?.to_owned();
        let mut parameters = [0; 4];
        for parameter in &mut parameters {
            *parameter = words.next()?.parse().ok()?;
        }
        let signature = Self { architecture, parameters };
        (signature.text() == text).then_some(signature)
    }
}

/// Where it stands.
pub(super) const PATH: &str = "architecture";
const PREFIX: &str = "shoal store 1: ";
const BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Memory;

    #[test]
    fn comes_back_as_written_and_not_at_all_when_damaged() {
        let signature = Signature { architecture: "squid_lowest".into(), parameters: [1, 22, 192, 0] };
        let files = Memory::new(1 << 20);
        assert_eq!(Signature::read(&files).unwrap(), None);
        signature.write(&files).unwrap();
        assert_eq!(Signature::read(&files).unwrap(), Some(signature.clone()));
        for bit in 0..8 * signature.text().len() {
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            assert_eq!(Signature::read(&files).unwrap(), None, "bit {bit}");
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        files.tamper(PATH, |bytes| bytes.truncate(20));
        assert_eq!(Signature::read(&files).unwrap(), None);
        signature.write(&files).unwrap();
        assert_eq!(Signature::read(&files).unwrap(), Some(signature));
    }
}
