//! Hashes of `go.sum` in a checksum database, or in a file beside the zip.
//!
//! ```text
//!   /MODULE/@v/VERSION.zip ─► /sumdb/NAME/lookup/MODULE@VERSION ─► MODULE VERSION h1:...
//!                          └► /MODULE/@v/VERSION.ziphash ────────► h1:...
//!   /MODULE/@v/VERSION.mod ─► the same record ───────────────────► MODULE VERSION/go.mod h1:...
//! ```

use super::{ModulePart, is_canonical};
use crate::Place;
use crate::registries::ZIPHASH;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the place of the record about a file.
pub(super) fn place_of(file: &Place, database: &str) -> Option<Place> {
    let (path, _, version, extension) = parts(file)?;
    let (module, escaped) = path.strip_suffix(extension)?.strip_suffix('.')?.split_once("/@v/")?;
    debug_assert!(is_canonical(&version), "other versions have no record");
    Some(Place::Below(match database {
        ZIPHASH if extension == "zip" => format!("{module}/@v/{escaped}.ziphash"),
        ZIPHASH => return None,
        name => format!("/sumdb/{name}/lookup{module}@{escaped}"),
    }))
}

/// Reads the hash of a file in its record.
pub(super) fn read(file: &Place, document: &str) -> Option<[u8; 32]> {
    let (_, module, version, extension) = parts(file)?;
    let named = if extension == "mod" { format!("{version}/go.mod") } else { version };
    let line = document.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [about, of, hash] => (about == module && of == named).then_some(hash),
            // The file beside a zip has its hash alone.
            [hash] => hash.starts_with("h1:").then_some(hash),
            _ => None,
        }
    });
    STANDARD.decode(line?.strip_prefix("h1:")?).ok()?.try_into().ok()
}

/// Returns path, module, version and extension of a `.zip` or `.mod` of a canonical version.
fn parts(file: &Place) -> Option<(&str, String, String, &str)> {
    let Place::Below(path) = file else { return None };
    let part = ModulePart::parse(path)?;
    let (version, extension) = part.version()?;
    let has_hash = matches!(extension, "zip" | "mod") && is_canonical(&version);
    has_hash.then_some((path, part.module, version, extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &str) -> Place {
        Place::Below(path.to_owned())
    }

    #[test]
    fn records_are_found_and_read() {
        let (zip, module) = (below("/a.test/!b/@v/v1.0.0.zip"), below("/a.test/!b/@v/v1.0.0.mod"));
        let record = below("/sumdb/sum.test/lookup/a.test/!b@v1.0.0");
        assert_eq!(place_of(&zip, "sum.test"), Some(record.clone()));
        assert_eq!(place_of(&module, "sum.test"), Some(record));
        assert_eq!(place_of(&zip, ZIPHASH), Some(below("/a.test/!b/@v/v1.0.0.ziphash")));
        assert_eq!(place_of(&module, ZIPHASH), None);
        for other in ["/a.test/b/@v/v1.0.0.info", "/a.test/b/@v/main.zip", "/sumdb/sum.test/latest"] {
            assert_eq!(place_of(&below(other), "sum.test"), None, "{other}");
        }
        let hash = |byte: u8| format!("h1:{}", STANDARD.encode([byte; 32]));
        let text = format!(
            "7\na.test/B v1.0.0 {}\na.test/B v1.0.0/go.mod {}\n\ngo.sum database tree\n9\n",
            hash(1),
            hash(2)
        );
        assert_eq!(read(&zip, &text), Some([1; 32]));
        assert_eq!(read(&module, &text), Some([2; 32]));
        assert_eq!(read(&zip, &hash(3)), Some([3; 32]));
        for odd in ["", "a.test/B v1.0.0 h1:AAAA", "a.test/b v1.0.0 h1:", "<html>"] {
            assert_eq!(read(&zip, odd), None, "{odd}");
        }
    }
}
