//! What is wrong with rules, and what an operator should know about sound ones.

use crate::set::RuleSet;
use shoal_settings::{OriginDirective, Rule, Settings};
use std::fmt;

/// A setting of a rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMistake {
    /// The setting: `rule[0].paths[1]`.
    pub key: String,
    /// What is wrong.
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
    found.into_iter().map(|mistake| (mistake.key, mistake.message)).collect()
}

/// Returns what sound rules override, and what that may leak.
pub fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, rule) in keyed(settings) {
        warnings.extend(leaks(rule).into_iter().map(|leak| format!("{key}: {leak}")));
    }
    warnings
}

/// Every rule with its key: the general ones, then those of each site.
fn keyed(settings: &Settings) -> impl Iterator<Item = (String, &Rule)> {
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
    if rule.lifetime.is_some() || rule.lifetime_min.is_some() {
        leaks.push("lifetime: answers may be served for longer than the origin allows".into());
    }
    leaks
}
