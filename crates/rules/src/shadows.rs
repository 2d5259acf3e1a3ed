//! Warnings about settings that a later rule overrules for every request.
//!
//! A later rule overrules an earlier one if it matches at least the same requests and responses and
//! sets the same thing. Conditions are compared as text, so that only evident cases are named.
//! Cost: the product of rules and rules, of at most [`RULES_MAX`].

use crate::mistakes::keyed;
use crate::pattern::{Glob, host_within};
use crate::report::{SettingReport, is_lifetime, settings_of};
use shoal_settings::{Rule, Settings};

/// Returns a warning for each setting that a later rule always overrules.
pub fn shadowed(settings: &Settings) -> Vec<String> {
    let sites = settings.site.iter().enumerate();
    let of_sites = sites.flat_map(|(at, site)| site.rule.iter().map(move |_| Some(at)));
    let places = settings.rule.iter().map(|_| None).chain(of_sites);
    let placed = keyed(settings).zip(places).take(RULES_MAX);
    let rules: Vec<PlacedRule<'_>> =
        placed.map(|((key, rule), site)| PlacedRule::new(key, rule, site)).collect();
    let mut warnings = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let is_later = |later: &&PlacedRule<'_>| later.site == rule.site && covers(later.rule, rule.rule);
        let later: Vec<&PlacedRule<'_>> = rules[at + 1..].iter().filter(is_later).collect();
        for (thing, setting) in &rule.settings {
            let overrules = |later: &&&PlacedRule<'_>| later.overrules(rule.rule, (thing, setting));
            let Some(by) = later.iter().find(overrules) else { continue };
            warnings.push(format!(
                "{}.{}: {} has no effect: {} comes later, matches the same requests and sets it too; put the \
                 special rule behind the general one",
                rule.key, setting.name, setting.value, by.key
            ));
        }
    }
    warnings
}

/// A rule with the settings that compete, each with the thing that it sets.
struct PlacedRule<'a> {
    key: String,
    rule: &'a Rule,
    site: Option<usize>,
    settings: Vec<(String, SettingReport)>,
}

impl<'a> PlacedRule<'a> {
    fn new(key: String, rule: &'a Rule, site: Option<usize>) -> Self {
        let competing = settings_of(rule).into_iter().filter(|setting| !is_apart(setting.name));
        let settings = competing.map(|setting| (setting.thing(), setting)).collect();
        Self { key, rule, site, settings }
    }

    /// Returns `true` if this rule sets the same thing to another value, for all that `earlier`
    /// matches.
    fn overrules(&self, earlier: &Rule, (thing, setting): (&str, &SettingReport)) -> bool {
        let same = self.settings.iter().find(|(own, _)| own == thing);
        let has_page =
            setting.name != "error_page" || !earlier.error_page_origin || self.rule.error_page_origin;
        let statuses = self.rule.statuses.is_empty() == earlier.statuses.is_empty();
        same.is_some_and(|(_, own)| own.value != setting.value || own.name != setting.name)
            && has_page
            && (statuses || !is_lifetime(setting.name))
    }
}

/// Returns `true` for settings that do not compete: each rate counts by itself, and these flags
/// belong to a setting beside them.
fn is_apart(name: &str) -> bool {
    matches!(name, "client_rate" | "client_burst" | "redirect_status" | "error_page_origin" | "share_private")
}

/// Returns `true` if `wide` matches all that `narrow` matches. Both have the same site.
fn covers(wide: &Rule, narrow: &Rule) -> bool {
    let within = |wide: &[String], narrow: &[String]| {
        wide.is_empty() || !narrow.is_empty() && narrow.iter().all(|text| wide.contains(text))
    };
    let hosts = wide.hosts.is_empty()
        || !narrow.hosts.is_empty()
            && narrow.hosts.iter().all(|host| wide.hosts.iter().any(|outer| host_within(host, outer)));
    // A star of `narrow` is taken by a star of `wide` alone, since no literal of `wide` fits it.
    let has_path = |path: &String| {
        wide.paths
            .iter()
            .filter_map(|outer| Glob::parse(outer).ok())
            .any(|glob| glob.matches(path.as_bytes()))
    };
    let paths = wide.paths.is_empty() || !narrow.paths.is_empty() && narrow.paths.iter().all(has_path);
    hosts
        && paths
        && (wide.path_regex.is_none() || wide.path_regex == narrow.path_regex)
        && within(&wide.query, &narrow.query)
        && within(&wide.methods, &narrow.methods)
        && within(&wide.request_fields, &narrow.request_fields)
        && within(&wide.statuses, &narrow.statuses)
        && within(&wide.content_types, &narrow.content_types)
        && within(&wide.response_fields, &narrow.response_fields)
}

/// Most rules that are compared with each other.
const RULES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(text: &str) -> Vec<String> {
        let start = "[[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\n\
                     [[site]]\nhosts = ['*']\nupstreams = [{ url = 'http://c' }]\n";
        shadowed(&Settings::parse(&format!("{start}{text}"), "test").expect("sound settings"))
    }

    #[test]
    fn overruled_settings_name_the_later_rule() {
        for (text, key) in [
            (
                "[[rule]]\npaths = ['/a/*.js']\nlifetime = '1h'\n[[rule]]\npaths = ['/a/*']\nlifetime = '1m'",
                "lifetime",
            ),
            (
                "[[rule]]\nhosts = ['a.b']\ncookies = ['x']\n[[rule]]\nhosts = ['*.b']\ncookies = []",
                "cookies",
            ),
            (
                "[[rule]]\nstatuses = ['404']\nlifetime = '1h'\n[[rule]]\nstatuses = ['404', '410']\nlifetime = '1m'",
                "lifetime",
            ),
            ("[[rule]]\nrequest_set = ['X-A: 1']\n[[rule]]\nrequest_remove = ['x-a']", "request_set"),
            ("[[rule]]\nmethods = ['POST']\ndeny = 404\n[[rule]]\ndeny = 403", "deny"),
        ] {
            let found = warned(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].starts_with(&format!("rule[0].{key}: ")) && found[0].contains("rule[1]"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn special_rules_behind_general_ones_are_sound() {
        for text in [
            "[[rule]]\nlifetime = '1m'\n[[rule]]\npaths = ['/a/*']\nlifetime = '1h'",
            "[[rule]]\nlifetime = '1m'\n[[site.rule]]\nlifetime = '1h'",
            "[[rule]]\nstatuses = ['404']\nlifetime = '1m'\n[[rule]]\nlifetime = '1h'",
            "[[rule]]\npaths = ['/a*']\nlifetime = '1m'\n[[rule]]\npaths = ['/a/*']\nlifetime = '1h'",
            "[[rule]]\nclient_rate = 1.0\n[[rule]]\nclient_rate = 2.0",
            "[[rule]]\nlifetime = '1m'\n[[rule]]\nlifetime = '1m'",
            "[[rule]]\nrequest_set = ['X-A: 1']\n[[rule]]\nrequest_set = ['X-B: 1']",
        ] {
            assert_eq!(warned(text), [] as [String; 0], "{text}");
        }
    }
}
