//! Files that settings name, such as those of users and certificates.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a regular file of at most [`BYTES_MAX`] bytes. A pipe or device may never end, or give no
/// byte at all, while a reload waits for it.
///
/// # Errors
/// If it is no such file, or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !std::fs::metadata(path)?.is_file() {
        return refused("it is no file");
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return refused("it has more than 16 MiB");
    }
    Ok(bytes)
}

/// Most bytes of a file.
const BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_no_files() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            let error = read(Path::new(path)).expect_err(path);
            assert_eq!(error.to_string(), "it is no file");
        }
    }

    #[test]
    fn long_files_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("users");
        std::fs::write(&path, b"ann:a\n").expect("written");
        assert_eq!(read(&path).expect("short"), b"ann:a\n");
        File::options().write(true).open(&path).and_then(|file| file.set_len(BYTES_MAX + 1)).expect("longer");
        assert!(read(&path).is_err());
    }
}
