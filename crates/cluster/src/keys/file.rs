//! Key file of a cluster: the keys, and the secret of placement, as lines of text.
//!
//! ```text
//! # comment
//! key BASE64            32 bytes; the first key seals, all keys are accepted
//! placement BASE64      16 bytes, at most once; stays when keys are rotated
//! ```

use super::{ClusterKey, KEYS_MAX};
use crate::ClusterError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Contents of a key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    keys: Vec<ClusterKey>,
    placement: Option<[u8; 16]>,
}

impl KeyFile {
    /// Makes a file of one new key and a new secret of placement.
    pub fn generate() -> Result<Self, ClusterError> {
        let mut placement = [0; 16];
        super::fill_random(&mut placement)?;
        Ok(Self { keys: vec![ClusterKey::generate()?], placement: Some(placement) })
    }

    /// Makes a file of these keys, without a secret of placement.
    pub fn of(keys: Vec<ClusterKey>) -> Self {
        assert!(!keys.is_empty() && keys.len() <= KEYS_MAX, "one to eight keys");
        Self { keys, placement: None }
    }

    /// Reads a file that only its owner and group may read.
    pub fn read(path: &Path) -> Result<Self, ClusterError> {
        let fault = |why: String| ClusterError::KeyFile { path: path.to_owned(), why };
        // A pipe would be waited for without an end.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(fault("this is no file".into()));
        }
        let file = std::fs::File::open(path).map_err(|error| fault(error.to_string()))?;
        let mode = file.metadata().map_err(|error| fault(error.to_string()))?.permissions().mode();
        if mode & 0o007 != 0 {
            let why =
                format!("every user can read this file (mode {:03o}); run chmod 600 on it", mode & 0o777);
            return Err(fault(why));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| fault(error.to_string()))?;
        Self::parse(&text).map_err(fault)
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() as u64 >= FILE_BYTES_MAX {
            return Err(format!("the file is longer than {FILE_BYTES_MAX} bytes"));
        }
        let (mut keys, mut placement) = (Vec::new(), None);
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some((word, value)) = line.split_once(char::is_whitespace) else {
                if line.is_empty() {
                    continue;
                }
                return Err(format!("line {number}: expected `key BASE64` or `placement BASE64`"));
            };
            match word {
                "key" => keys.push(ClusterKey::new(decoded(value, number)?)),
                "placement" if placement.is_some() => {
                    return Err(format!("line {number}: a second line `placement`; keep one"));
                }
                "placement" => placement = Some(decoded(value, number)?),
                _ => return Err(format!("line {number}: neither `key` nor `placement` begins this line")),
            }
        }
        if keys.is_empty() {
            return Err("no line `key BASE64`; make a file with `shoal cluster init FILE`".into());
        }
        if keys.len() > KEYS_MAX {
            return Err(format!("{} keys, at most {KEYS_MAX} can be accepted; remove old ones", keys.len()));
        }
        if (1..keys.len()).any(|at| keys[..at].contains(&keys[at])) {
            return Err("one key stands on two lines; remove one of them".into());
        }
        Ok(Self { keys, placement })
    }

    /// Returns the file with a new key in second place: accepted, not yet sealing.
    pub fn with_key_added(mut self) -> Result<Self, ClusterError> {
        self.keys.insert(1, ClusterKey::generate()?);
        Ok(self)
    }

    /// Returns the file with its second key first, or `None` if there is one key.
    pub fn with_second_first(mut self) -> Option<Self> {
        (self.keys.len() > 1).then(|| {
            self.keys.swap(0, 1);
            self
        })
    }

    /// Returns the file with its first key alone, or `None` if there is one key.
    pub fn with_first_alone(mut self) -> Option<Self> {
        (self.keys.len() > 1).then(|| {
            self.keys.truncate(1);
            self
        })
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut text = String::from(HEAD);
        for key in &self.keys {
            text += &format!("key {}\n", STANDARD.encode(key.bytes()));
        }
        if let Some(placement) = self.placement {
            text += &format!("placement {}\n", STANDARD.encode(placement));
        }
        text
    }

    /// Writes a new file that only its owner can read. A file of this name is not overwritten.
    pub fn create(&self, path: &Path) -> Result<(), ClusterError> {
        let fault =
            |error: std::io::Error| ClusterError::KeyFile { path: path.into(), why: creation_fault(&error) };
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(fault)?;
        file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all()).map_err(fault)
    }

    /// Replaces a file whole: readers see the old text or the new one.
    pub fn replace(&self, path: &Path) -> Result<(), ClusterError> {
        let fault =
            |error: std::io::Error| ClusterError::KeyFile { path: path.into(), why: error.to_string() };
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = std::path::PathBuf::from(new);
        let permissions = std::fs::metadata(path).map_err(fault)?.permissions();
        self.create(&new)?;
        let renamed = std::fs::set_permissions(&new, permissions).and_then(|()| std::fs::rename(&new, path));
        renamed.map_err(|error| {
            // The file of before stays as it was.
            std::fs::remove_file(&new).ok();
            fault(error)
        })
    }

    /// Returns the keys, the sealing one first.
    pub fn keys(&self) -> &[ClusterKey] {
        &self.keys
    }

    /// Returns the secret of placement, if the file has one.
    pub fn placement(&self) -> Option<[u8; 16]> {
        self.placement
    }
}

fn decoded<const LENGTH: usize>(value: &str, line: usize) -> Result<[u8; LENGTH], String> {
    let bytes = STANDARD.decode(value.trim()).map_err(|_| format!("line {line}: not base64"))?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| format!("line {line}: {length} bytes, expected {LENGTH}"))
}

const HEAD: &str = "\
# Keys of a Shoal cluster: the same file on each node, readable by the user of Shoal alone.
# The first key seals, all keys are accepted. `shoal cluster rotate` changes them.
";

/// Length at which a file is refused.
const FILE_BYTES_MAX: u64 = 64 << 10;

fn creation_fault(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            "exists and is not overwritten; name another file, or remove it if no node needs it".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_reads_back_as_written() {
        let file = KeyFile::generate().expect("randomness");
        assert_eq!(KeyFile::parse(&file.text()), Ok(file.clone()));
        assert!(file.placement().is_some());
        assert!(!format!("{file:?}").contains(&STANDARD.encode(file.keys()[0].bytes())), "hidden");
    }

    #[test]
    fn mistakes_name_their_line() {
        let key = format!("key {}", STANDARD.encode([7; 32]));
        for (text, why) in [
            ("".to_owned(), "no line `key BASE64`"),
            ("# nothing\n\n".to_owned(), "no line `key BASE64`"),
            ("key\n".to_owned(), "line 1: expected"),
            (format!("{key}\nkey AAAA\n"), "line 2: 3 bytes, expected 32"),
            ("key ***\n".to_owned(), "line 1: not base64"),
            (format!("secret {key}\n"), "line 1: neither"),
            (format!("{key}\n{key}\n"), "one key stands on two lines"),
            (
                format!("{key}\nplacement AAAAAAAAAAAAAAAAAAAAAA==\nplacement AAAAAAAAAAAAAAAAAAAAAA==\n"),
                "line 3",
            ),
            ("x".repeat(70_000), "the file is longer"),
        ] {
            let found = KeyFile::parse(&text).expect_err(&text);
            assert!(found.starts_with(why), "{found}");
        }
        let many: String = (0..9).map(|byte| format!("key {}\n", STANDARD.encode([byte; 32]))).collect();
        assert!(KeyFile::parse(&many).expect_err("too many").starts_with("9 keys"));
    }

    #[test]
    fn rotation_keeps_one_key_common_at_each_step() {
        let old = KeyFile::generate().expect("randomness");
        let added = old.clone().with_key_added().expect("randomness");
        let turned = added.clone().with_second_first().expect("two keys");
        let last = turned.clone().with_first_alone().expect("two keys");
        for (before, after) in [(&old, &added), (&added, &turned), (&turned, &last)] {
            assert!(before.keys().contains(&after.keys()[0]) && after.keys().contains(&before.keys()[0]));
            assert_eq!(before.placement(), after.placement());
        }
        assert_ne!(old.keys(), last.keys());
        assert_eq!(last.clone().with_second_first(), None);
        assert_eq!(last.with_first_alone(), None);
    }

    #[test]
    fn open_file_is_refused_and_none_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let file = KeyFile::generate().expect("randomness");
        file.create(&path).expect("a new file");
        assert_eq!(std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
        assert_eq!(KeyFile::read(&path).expect("its owner reads it"), file);
        assert!(file.create(&path).is_err(), "a file of this name stays");
        let other = file.clone().with_key_added().expect("randomness");
        other.replace(&path).expect("replaced");
        assert_eq!(KeyFile::read(&path).expect("the new text"), other);
        for other in ["/dev/zero", folder.path().to_str().expect("text")] {
            let refused = KeyFile::read(Path::new(other)).expect_err("no file").to_string();
            assert!(refused.contains("no file"), "{refused}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).expect("its owner may");
        let refused = KeyFile::read(&path).expect_err("others can read it").to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }
}
