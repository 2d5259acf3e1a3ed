//! Names of projects, and the project of a file.

/// Normalizes a project's name (PEP 503): lower case, one dash for each run of `-`, `_` and `.`.
/// `None` if it is no name.
pub(crate) fn normalized(name: &str) -> Option<String> {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = name.as_bytes();
    if !is_end(bytes.first()) || !is_end(bytes.last()) || !bytes.iter().all(|byte| is_part(*byte)) {
        return None;
    }
    let mut made = String::with_capacity(name.len());
    for char in name.chars() {
        match char {
            '-' | '_' | '.' if made.ends_with('-') => {}
            '-' | '_' | '.' => made.push('-'),
            char => made.push(char.to_ascii_lowercase()),
        }
    }
    debug_assert!(!made.is_empty() && !made.ends_with('-'), "a name ends with a letter or digit");
    Some(made)
}

/// Returns the project of a file's name: a wheel's first part, or a source archive's without its
/// version. The metadata of a file belongs to the file.
pub(super) fn project_of(file: &str) -> Option<String> {
    let file = file.strip_suffix(METADATA).unwrap_or(file);
    if file.ends_with(".whl") || file.ends_with(".egg") {
        return normalized(file.split('-').next()?);
    }
    let stem = ARCHIVES.iter().find_map(|end| file.strip_suffix(end))?;
    // The version is the last part that begins with a digit; names may have dashes.
    let (name, version) = stem.rsplit_once('-')?;
    version.starts_with(|char: char| char.is_ascii_digit()).then(|| normalized(name))?
}

/// End of the core metadata's URL (PEP 658).
pub(super) const METADATA: &str = ".metadata";
const ARCHIVES: [&str; 6] = [".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.Z"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        for (name, made) in [
            ("Flask", Some("flask")),
            ("zope.interface", Some("zope-interface")),
            ("a__-.b", Some("a-b")),
            ("A1", Some("a1")),
            ("-a", None),
            ("a-", None),
            ("", None),
            ("a/b", None),
            ("a%2fb", None),
            ("..", None),
        ] {
            assert_eq!(normalized(name).as_deref(), made, "{name}");
        }
    }

    #[test]
    fn files_belong_to_projects() {
        for (file, project) in [
            ("zope.interface-5.4-cp39-cp39-manylinux2010_x86_64.whl", Some("zope-interface")),
            ("ruamel_yaml-0.18-py3-none-any.whl.metadata", Some("ruamel-yaml")),
            ("python-dateutil-2.9.0.post0.tar.gz", Some("python-dateutil")),
            ("a-b-1.0.zip", Some("a-b")),
            ("a.tar.gz", None),
            ("a-b.tar.gz", None),
            ("a.txt", None),
        ] {
            assert_eq!(project_of(file).as_deref(), project, "{file}");
        }
    }
}
