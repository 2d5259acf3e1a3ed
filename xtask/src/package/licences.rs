//! Licence texts of the crates in the binary, as their terms ask for.

use super::components::{Component, Components};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Beginnings of the names of files with terms or notices, in lower case.
const NAMES: &[&str] = &["license", "licence", "copying", "notice", "unlicense", "copyright"];

/// One text: a list of the crates, then each different text once with the crates that it covers.
pub(super) fn texts(components: &Components) -> Result<String, String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut whole = String::from("Shoal contains these works of others, under these terms.\n\n");
    for component in &components.0 {
        let title = format!("{} {}", component.name, component.version);
        let _ = writeln!(whole, "{title}: {}", component.license);
        for text in of(component)? {
            by_text.entry(text).or_default().push(title.clone());
        }
    }
    for (text, titles) in &by_text {
        let _ = write!(whole, "\n{}\n{}\n\n{}\n", "=".repeat(78), titles.join(", "), text.trim_end());
    }
    Ok(whole)
}

/// The texts in a crate's own folder; a crate without any is named in the list alone.
fn of(component: &Component) -> Result<Vec<String>, String> {
    let told = |why: std::io::Error| format!("{}: {why}", component.folder.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(&component.folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning)) {
            texts.push(String::from_utf8_lossy(&std::fs::read(&path).map_err(told)?).replace('\r', ""));
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn one_text_covers_many_crates() {
        let components = Components::read(&workspace::root()).unwrap();
        let whole = texts(&components).unwrap();
        assert!(whole.contains("\ntokio 1."), "the list names a crate");
        assert!(whole.contains("Permission is hereby granted, free of charge"));
        let without = components.0.iter().filter(|component| of(component).unwrap().is_empty()).count();
        assert!(without * 10 < components.0.len(), "{without} of {} have no text", components.0.len());
    }
}
