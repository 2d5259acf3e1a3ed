//! Packages that a mirror refuses by name.

use super::MirrorRoute;
use crate::clock;
use shoal_core::Timestamp;
use shoal_mirrors::Registry;

impl MirrorRoute {
    /// Returns the latest publication time that is old enough for a request of this path below the
    /// mirror, which may have a query; `None` if age does not matter.
    pub fn age_limit_of(&self, below: &str, packages: &[String], now: Timestamp) -> Option<i64> {
        let path = below.split('?').next().unwrap_or_default();
        self.age_limit(packages, now).filter(|_| self.registry.has_releases(path))
    }

    /// Returns the latest publication time that is old enough, in seconds since 1970; `None` if
    /// releases of the package may have any age. A package that may have several names must be
    /// excepted under each.
    fn age_limit(&self, packages: &[String], now: Timestamp) -> Option<i64> {
        let except = &self.patterns.excepted;
        let is_one = |package: &String| except.iter().any(|pattern| matches(pattern, package));
        let is_excepted = !packages.is_empty() && packages.iter().all(is_one);
        let age = self.settings.minimum_age.as_secs();
        let limit = clock::date_at(now).seconds().saturating_sub(age);
        (age > 0 && !is_excepted).then(|| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Returns `true` if this mirror owns a package that may have these names.
    pub fn owns(&self, packages: &[String]) -> bool {
        let owned = &self.patterns.owned;
        packages
            .iter()
            .any(|package| owned.iter().any(|pattern| matches(pattern, &package.to_ascii_lowercase())))
    }

    /// Returns `true` if the responses of a package that may have these names stay on disk.
    pub fn pins(&self, packages: &[String]) -> bool {
        let pinned = &self.patterns.pinned;
        packages.iter().any(|package| pinned.iter().any(|pattern| matches(pattern, package)))
    }

    /// Returns the reason for refusing a package that may have these names, for the client. One
    /// name that is refused suffices. Case is ignored: some registries ignore it, too.
    pub fn refuses(&self, packages: &[String]) -> Option<&'static str> {
        let folded = packages.iter().map(|package| package.to_ascii_lowercase());
        folded.filter_map(|package| self.refuses_name(&package)).next()
    }

    /// Returns the reason for refusing a package by the name that a list has for it.
    pub fn refuses_package(&self, name: &str) -> Option<&'static str> {
        self.refuses(&[self.registry.spelling(name)])
    }

    fn refuses_name(&self, package: &str) -> Option<&'static str> {
        let is_named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, package));
        if is_named(&self.patterns.refused) {
            return Some("This mirror refuses the package (mirror.refuse).");
        }
        let is_own = is_named(&self.patterns.owned);
        let is_of_other = !is_own && is_named(&self.patterns.owned_elsewhere);
        is_of_other.then_some("Another mirror owns packages of this name (mirror.owned).")
    }
}

/// Patterns of packages, in the spelling of the registry's code.
pub(super) struct PackagePatterns {
    /// Packages without a minimum age.
    excepted: Vec<String>,
    /// Packages that stay on disk.
    pinned: Vec<String>,
    /// Packages that are refused, in lower case, as all below.
    refused: Vec<String>,
    /// Packages that this mirror alone answers for.
    owned: Vec<String>,
    /// Packages that other mirrors of the kind answer for.
    owned_elsewhere: Vec<String>,
}

impl PackagePatterns {
    /// Takes the patterns of a mirror, and those that `others` of its kind own.
    pub fn new<'m>(
        registry: &dyn Registry,
        mirror: &shoal_settings::Mirror,
        others: impl Iterator<Item = &'m shoal_settings::Mirror>,
    ) -> Self {
        let spelt = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => format!("{}*", registry.spelling(start)),
            None => registry.spelling(pattern),
        };
        let folded = |patterns: &[String]| -> Vec<String> {
            patterns.iter().map(|pattern| spelt(pattern).to_ascii_lowercase()).collect()
        };
        Self {
            excepted: mirror.minimum_age_except.iter().map(spelt).collect(),
            pinned: mirror.pin.iter().map(spelt).collect(),
            refused: folded(&mirror.refuse),
            owned: folded(&mirror.owned),
            owned_elsewhere: others.flat_map(|other| folded(&other.owned)).collect(),
        }
    }
}

/// Returns `true` if the pattern is the name, or its beginning before a star.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_or_beginnings() {
        for (pattern, name, is_match) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("@s/*", "@s/a", true),
            ("@s/*", "@sx/a", false),
            ("*", "a", true),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
