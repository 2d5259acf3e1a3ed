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
    let made = joined_by_dashes(name);
    debug_assert!(!made.is_empty() && !made.ends_with('-'), "a name ends with a letter or digit");
    Some(made)
}

/// Returns lower case with one dash for each run of `-`, `_` and `.`.
pub(super) fn joined_by_dashes(name: &str) -> String {
    let mut made = String::with_capacity(name.len());
    for char in name.chars() {
        match char {
            '-' | '_' | '.' if made.ends_with('-') => {}
            '-' | '_' | '.' => made.push('-'),
            char => made.push(char.to_ascii_lowercase()),
        }
    }
    made
}

/// Returns the projects that a file may belong to, the likeliest first: a wheel's first part, or
/// the parts of another file before one that begins with a digit. Names and versions may have
/// dashes. The metadata of a file belongs to the file.
pub(super) fn projects_of(file: &str) -> Vec<String> {
    let file = file.strip_suffix(METADATA).unwrap_or(file);
    if WHEELS.iter().any(|end| file.ends_with(end)) {
        return file.split('-').next().and_then(normalized).into_iter().collect();
    }
    let is_digit = |char: char| char.is_ascii_digit();
    let cuts = file.rmatch_indices('-').filter(|(place, _)| file[place + 1..].starts_with(is_digit));
    let mut projects: Vec<String> = cuts.filter_map(|(place, _)| normalized(&file[..place])).collect();
    projects.dedup();
    debug_assert!(projects.iter().all(|project| normalized(project).as_ref() == Some(project)), "names");
    projects
}

/// Returns `true` for files of which pages of projects promise the digest.
pub(super) fn is_archive(file: &str) -> bool {
    let file = file.strip_suffix(METADATA).unwrap_or(file);
    WHEELS.iter().chain(&ARCHIVES).any(|end| file.ends_with(end))
}

/// Returns the version in a file's name: a wheel's second part, or the end of a source archive's.
pub(super) fn version_of(file: &str) -> Option<&str> {
    if file.ends_with(".whl") || file.ends_with(".egg") {
        return file.split('-').nth(1);
    }
    let stem = ARCHIVES.iter().find_map(|end| file.strip_suffix(end))?;
    stem.rsplit_once('-').map(|(_, version)| version)
}

/// End of the core metadata's URL (PEP 658).
pub(super) const METADATA: &str = ".metadata";
const WHEELS: [&str; 2] = [".whl", ".egg"];
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
        for (file, projects, is_known) in [
            ("zope.interface-5.4-cp39-cp39-manylinux2010_x86_64.whl", &["zope-interface"][..], true),
            ("ruamel_yaml-0.18-py3-none-any.whl.metadata", &["ruamel-yaml"], true),
            ("python-dateutil-2.9.0.post0.tar.gz", &["python-dateutil"], true),
            ("a-b-1.0.zip", &["a-b"], true),
            ("a-1.0-1.tar.gz", &["a-1-0", "a"], true),
            ("a-1.0.exe", &["a"], false),
            ("a.tar.gz", &[], true),
            ("a-b.tar.gz", &[], true),
            ("a.txt", &[], false),
        ] {
            assert_eq!(
                (&*projects_of(file), is_archive(file)),
                (&projects.iter().map(ToString::to_string).collect::<Vec<_>>()[..], is_known),
                "{file}"
            );
        }
    }
}
