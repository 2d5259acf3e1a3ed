//! Packages that a mirror refuses by name.

use super::MirrorRoute;
use crate::clock;
use shoal_core::Timestamp;

impl MirrorRoute {
    /// Returns the latest publication time that is old enough for a request of this path below the
    /// mirror, which may have a query; `None` if age does not matter.
    pub fn age_limit_of(&self, below: &str, now: Timestamp) -> Option<i64> {
        let path = below.split('?').next().unwrap_or_default();
        let package = self.registry.package(path);
        self.age_limit(package.as_deref(), now).filter(|_| self.registry.has_releases(path))
    }

    /// Returns the latest publication time that is old enough, in seconds since 1970; `None` if
    /// releases of the package may have any age.
    fn age_limit(&self, package: Option<&str>, now: Timestamp) -> Option<i64> {
        let except = &self.settings.minimum_age_except;
        let is_excepted =
            package.is_some_and(|package| except.iter().any(|pattern| matches(pattern, package)));
        let age = self.settings.minimum_age.as_secs();
        let limit = clock::date_at(now).seconds().saturating_sub(age);
        (age > 0 && !is_excepted).then(|| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Returns `true` if this mirror owns a package by its name.
    pub fn owns(&self, package: &str) -> bool {
        self.settings.owned.iter().any(|pattern| matches(pattern, package))
    }

    /// Returns `true` if the responses of a package stay on disk.
    pub fn pins(&self, package: &str) -> bool {
        self.settings.pin.iter().any(|pattern| matches(pattern, package))
    }

    /// Returns the reason for refusing a package, for the client.
    pub fn refuses(&self, package: &str) -> Option<&'static str> {
        let is_named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, package));
        if is_named(&self.settings.refuse) {
            return Some("This mirror refuses the package (mirror.refuse).");
        }
        let is_of_other = !self.owns(package) && is_named(&self.owned_elsewhere);
        is_of_other.then_some("Another mirror owns packages of this name (mirror.owned).")
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
