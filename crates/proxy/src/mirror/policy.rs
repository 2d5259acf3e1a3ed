//! Packages that a mirror refuses by name.

use super::MirrorRoute;

impl MirrorRoute {
    /// Returns the reason for refusing a package, for the client.
    pub fn refuses(&self, package: &str) -> Option<&'static str> {
        let is_named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, package));
        if is_named(&self.settings.refuse) {
            return Some("This mirror refuses the package (mirror.refuse).");
        }
        let is_own = is_named(&self.settings.owned);
        let is_of_other = !is_own && is_named(&self.owned_elsewhere);
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
