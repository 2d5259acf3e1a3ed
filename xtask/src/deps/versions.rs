//! One version of each dependency, unless `xtask/exceptions.toml` says why not.

use super::metadata::Package;
use crate::exceptions::{Duplicate, PATH};
use crate::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Finds packages present in two versions that cargo holds incompatible, and excuses that excuse
/// nothing.
pub fn check(packages: &[Package], excused: &[Duplicate]) -> Vec<Finding> {
    let mut lines: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        lines.entry(&package.name).or_default().insert(compatible_line(&package.version));
    }
    lines.retain(|_, versions| versions.len() > 1);
    let is_excused = |name: &str| excused.iter().any(|duplicate| duplicate.name == name);
    let double = lines.iter().filter(|(name, _)| !is_excused(name)).map(|(name, versions)| {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let message = format!(
            "{name} is present as {}; bring them together (cargo tree -i {name}), or give a reason in {PATH}",
            versions.join(" and ")
        );
        Finding::new("Cargo.lock", 0, "two versions", message)
    });
    let idle = excused.iter().filter(|duplicate| !lines.contains_key(duplicate.name.as_str()));
    let idle = idle.map(|duplicate| {
        Finding::new(PATH, 0, "idle exception", format!("{} is present once; drop this", duplicate.name))
    });
    double.chain(idle).collect()
}

/// The part of a version that changes when compatibility breaks: `1` of 1.4.2, `0.3` of 0.3.9.
fn compatible_line(version: &str) -> String {
    let mut parts: Vec<&str> = version.split(['.', '-', '+']).take(3).collect();
    let significant = parts.iter().position(|part| *part != "0").map_or(parts.len(), |at| at + 1);
    parts.truncate(significant);
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(versions: &[(&str, &str)], excused: &[&str]) -> Vec<&'static str> {
        let package = |(name, version): &(&str, &str)| Package {
            name: name.to_string(),
            version: version.to_string(),
            ..Package::default()
        };
        let packages: Vec<Package> = versions.iter().map(package).collect();
        let excused: Vec<Duplicate> =
            excused.iter().map(|name| Duplicate { name: name.to_string(), reason: "why".into() }).collect();
        check(&packages, &excused).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn incompatible_versions_need_a_reason() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[("a", "1.2.0"), ("a", "1.9.1"), ("b", "0.3.1"), ("b", "0.3.2")], &[]), none);
        assert_eq!(found(&[("a", "1.2.0"), ("a", "2.0.0")], &[]), ["two versions"]);
        assert_eq!(found(&[("a", "0.3.0"), ("a", "0.4.0")], &[]), ["two versions"]);
        assert_eq!(found(&[("a", "0.3.0"), ("a", "0.4.0")], &["a"]), none);
        assert_eq!(found(&[("a", "0.3.0")], &["a"]), ["idle exception"]);
    }
}
