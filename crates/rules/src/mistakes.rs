//! Mistakes in rules, and warnings about sound ones.

use crate::limit_warnings::limit_warnings;
use crate::loops::redirect_loops;
use crate::set::RuleSet;
use crate::shadows::shadowed;
use crate::vain::vain;
use shoal_settings::{OriginDirective, Rule, Settings};
use std::fmt;

/// A setting of a rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMistake {
    /// The setting: `rule[0].paths[1]`.
    pub key: String,
    /// The mistake.
    pub message: String,
}

impl fmt::Display for RuleMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Returns every mistake in the rules of these settings, as setting and message.
pub fn mistakes(settings: &Settings) -> Vec<(String, String)> {
    let found = RuleSet::new(settings).err().unwrap_or_default();
    let found = found.into_iter().map(|mistake| (mistake.key, mistake.message));
    found.chain(unusable_pins(settings)).collect()
}

/// Returns the rules that pin where the store cannot.
fn unusable_pins(settings: &Settings) -> Vec<(String, String)> {
    if settings.store.architecture == "volume" {
        return Vec::new();
    }
    let message = format!("takes store.architecture = \"volume\", not {:?}", settings.store.architecture);
    let pins = keyed(settings).filter(|(_, rule)| rule.pin == Some(true));
    pins.map(|(key, _)| (format!("{key}.pin"), message.clone())).collect()
}

/// Returns the dangers of sound rules: overrides, redirects in a circle, rules that never match,
/// settings, limits and guards without effect. Each begins with the setting.
pub fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, rule) in keyed(settings) {
        warnings.extend(leaks(rule).into_iter().map(|leak| format!("{key}: {leak}")));
    }
    warnings.extend(redirect_loops(settings));
    warnings.extend(vain(settings));
    warnings.extend(shadowed(settings));
    warnings.extend(limit_warnings(settings));
    warnings
}

/// Every rule with its key: the general ones, then those of each site.
pub(crate) fn keyed(settings: &Settings) -> impl Iterator<Item = (String, &Rule)> {
    let general = settings.rule.iter().enumerate().map(|(at, rule)| (format!("rule[{at}]"), rule));
    let of_sites = settings.site.iter().enumerate().flat_map(|(site, entry)| {
        let rules = entry.rule.iter().enumerate();
        rules.map(move |(at, rule)| (format!("site[{site}].rule[{at}]"), rule))
    });
    general.chain(of_sites)
}

fn leaks(rule: &Rule) -> Vec<String> {
    let mut leaks = Vec::new();
    let ignored = rule.ignore_origin.as_deref().unwrap_or_default();
    for directive in ignored {
        if matches!(directive, OriginDirective::NoStore | OriginDirective::Private) {
            leaks.push(format!(
                "sets the origin's {directive} aside: pages made for one client may reach others"
            ));
        }
    }
    if ignored.contains(&OriginDirective::MustRevalidate) {
        leaks.push("sets the origin's must-revalidate aside: stale answers may be served".into());
    }
    if rule.share_private {
        leaks.push("share_private: answers to requests with credentials are shared by all clients".into());
    }
    if rule.ignore_vary.is_some() {
        leaks.push("ignore_vary: a client may get an answer that was chosen for another's fields".into());
    }
    let edits = [&rule.response_set, &rule.response_add, &rule.response_remove].into_iter().flatten();
    let edits_vary =
        |text: &String| text.split(':').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("vary"));
    if edits.clone().any(edits_vary) {
        leaks.push("edits Vary: a client may get an answer that was chosen for another's fields".into());
    }
    let allows_all = |text: &String| {
        let text = text.to_ascii_lowercase();
        let is_control = text.split(':').next().is_some_and(|name| name.trim().ends_with("cache-control"));
        is_control && ["public", "s-maxage", "must-revalidate"].iter().any(|word| text.contains(word))
    };
    if edits.clone().any(allows_all) {
        leaks.push(
            "its Cache-Control shares answers to requests with credentials, as if the origin had said so"
                .into(),
        );
    }
    if rule.lifetime.is_some() || rule.lifetime_min.is_some() {
        leaks.push("lifetime: answers may be served for longer than the origin allows".into());
    }
    leaks
}
