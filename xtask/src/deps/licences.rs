//! Every dependency's licence lets anyone use the binary: permissive ones only.

use super::metadata::Package;
use crate::finding::Finding;

/// Licences that ask for no more than a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages under a licence that asks for more than a notice, each taken for a reason. The MPL
/// covers the package's own files: changes to these must be published, and nothing else.
const TAKEN_BY_EXCEPTION: &[(&str, &str)] = &[("foca", "MPL-2.0")];

/// Finds packages that cannot be had under permissive licences alone.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let is_good = |package: &Package| {
        let licence = package.license.as_deref().unwrap_or_default();
        is_permissive(licence) || TAKEN_BY_EXCEPTION.contains(&(&*package.name, licence))
    };
    let bad = packages.iter().filter(|package| !is_good(package));
    let finding = |package: &Package| {
        let licence = package.license.as_deref().unwrap_or("none stated");
        let message = format!(
            "{} {} has the licence {licence:?}; choose another, or add it to PERMISSIVE if it is",
            package.name, package.version
        );
        Finding::new("Cargo.lock", 0, "licence", message)
    };
    bad.map(finding).collect()
}

/// Evaluates an SPDX expression: `AND` needs both, `OR` (and the old `/`) needs one.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let holds = any_of(&mut rest);
    holds && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut holds = all_of(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        holds |= all_of(words);
    }
    holds
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut holds = one(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        holds &= one(words);
    }
    holds
}

fn one(words: &mut &[&str]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let holds = any_of(words);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            holds && closed
        }
        [licence, "WITH", exception, rest @ ..] => {
            let whole = format!("{licence} WITH {exception}");
            *words = rest;
            PERMISSIVE.contains(&whole.as_str())
        }
        [licence, rest @ ..] => {
            let holds = PERMISSIVE.contains(licence);
            *words = rest;
            holds
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_weighed() {
        for (expression, permissive) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR Apache-2.0) AND NCSA", true),
            ("(MIT OR Apache-2.0) AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("MPL-2.0", false),
            ("(MIT", false),
            ("MIT)", false),
            ("", false),
        ] {
            assert_eq!(is_permissive(expression), permissive, "{expression}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_found() {
        let package =
            |licence: Option<&str>| Package { license: licence.map(str::to_string), ..Package::default() };
        assert_eq!(check(&[package(Some("MIT"))]), []);
        assert_eq!(check(&[package(None), package(Some("GPL-3.0"))]).len(), 2);
    }
}
