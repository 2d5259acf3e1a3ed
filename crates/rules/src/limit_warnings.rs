//! Warnings about limits and guards that do nothing, refuse everybody, or show passwords.
//!
//! Rules combine, so a setting that needs another one is sound if any rule that may match the same
//! request has the other one.

use crate::mistakes::keyed;
use shoal_settings::{Listen, Mode, Rule, Satisfy, Settings, Site};

/// Returns the warnings, each with its setting.
pub(crate) fn limit_warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let sites = settings.site.iter().enumerate();
    warnings.extend(sites.flat_map(|(at, site)| idle_queue(&format!("site[{at}]"), site)));
    for (at, listen) in settings.listen.iter().enumerate() {
        warnings.extend(listener(&format!("listen[{at}]"), listen));
    }
    if settings.forward.users_file.is_none() && settings.forward.realm != PLAIN_REALM {
        warnings.push(no_users("forward"));
    }
    let guards = Guards::of(settings);
    let has_users = guards.all[1] || settings.listen.iter().any(|listen| listen.users_file.is_some());
    for (key, rule) in keyed(settings) {
        let site = site_of(&key);
        if rule.forward_authorization.is_some() && !has_users {
            warnings.push(format!("{key}.forward_authorization: has no effect without users_file"));
        }
        warnings.extend(unmet(guards.beside(site), &key, rule));
        warnings.extend(by_listener(settings, &key, site, rule));
    }
    warnings
}

/// Guards that rules have: networks, users, certificates.
struct Guards {
    general: [bool; 3],
    sites: Vec<[bool; 3]>,
    all: [bool; 3],
}

impl Guards {
    fn of(settings: &Settings) -> Self {
        let union = |one: [bool; 3], two: [bool; 3]| std::array::from_fn(|at| one[at] || two[at]);
        let of_rule = |rule: &Rule| {
            [rule.allow_clients.is_some(), rule.users_file.is_some(), rule.allow_certificates.is_some()]
        };
        let of = |rules: &[Rule]| rules.iter().map(of_rule).fold([false; 3], union);
        let (general, sites) = (of(&settings.rule), settings.site.iter().map(|site| of(&site.rule)));
        let sites: Vec<[bool; 3]> = sites.map(|site| union(site, general)).collect();
        assert_eq!(sites.len(), settings.site.len(), "guards for each site");
        Self { general, all: sites.iter().copied().fold(general, union), sites }
    }

    /// Returns the guards of rules that may match with a rule of this site.
    fn beside(&self, site: Option<usize>) -> [bool; 3] {
        let of_site = |site: usize| self.sites.get(site).copied().unwrap_or(self.general);
        site.map_or(self.all, of_site)
    }
}

/// Settings of a queue that no request enters.
fn idle_queue(key: &str, site: &Site) -> Option<String> {
    let plain = Site::to("http://localhost");
    let is_set = (site.queue, site.queue_timeout) != (plain.queue, plain.queue_timeout);
    let name = if site.queue != plain.queue { "queue" } else { "queue_timeout" };
    let why = "without concurrency no request waits; set concurrency, or leave this out";
    (is_set && site.concurrency.is_none()).then(|| format!("{key}.{name}: {why}"))
}

fn listener(key: &str, listen: &Listen) -> Vec<String> {
    let mut warnings = Vec::new();
    if listen.users_file.is_none() && listen.realm != PLAIN_REALM {
        warnings.push(no_users(key));
    }
    if listen.users_file.is_some() && listen.mode == Mode::Reverse && shows_passwords(listen) {
        warnings.push(format!("{key}.users_file: {key} has no tls, so that {IN_CLEAR}"));
    }
    warnings
}

/// Settings of a rule that need another one, in this rule or in one that may match with it.
fn unmet([networks, users, certificates]: [bool; 3], key: &str, rule: &Rule) -> Vec<String> {
    let guards = [networks, users, certificates].into_iter().filter(|is_set| *is_set).count();
    let mut warnings = Vec::new();
    if rule.satisfy.is_some() && guards < 2 {
        warnings.push(format!(
            "{key}.satisfy: there is nothing to choose between; it takes two of allow_clients, users_file and \
             allow_certificates"
        ));
    }
    if rule.realm.is_some() && !users {
        warnings.push(no_users(key));
    }
    warnings
}

/// Settings of a rule that do harm on some of the listeners.
fn by_listener(settings: &Settings, key: &str, site: Option<usize>, rule: &Rule) -> Vec<String> {
    let listeners = |is_meant: &dyn Fn(&Listen) -> bool| {
        let serves = |listen: &Listen| site.is_none() || listen.mode == Mode::Reverse;
        let meant = settings.listen.iter().enumerate();
        let meant = meant.filter(|(_, listen)| serves(listen) && is_meant(listen));
        meant.map(|(at, _)| format!("listen[{at}]")).collect::<Vec<_>>().join(", ")
    };
    let mut warnings = Vec::new();
    if rule.allow_certificates.is_some() && rule.satisfy != Some(Satisfy::Any) {
        let asks_none = listeners(&|listen| listen.client_ca.is_none());
        if !asks_none.is_empty() {
            warnings.push(format!(
                "{key}.allow_certificates: every client of {asks_none} gets 403, since no certificate is asked \
                 for there; set client_ca"
            ));
        }
    }
    if rule.users_file.is_some() {
        let plain = listeners(&shows_passwords);
        if !plain.is_empty() {
            warnings.push(format!("{key}.users_file: {plain} without tls, so that {IN_CLEAR}"));
        }
    }
    warnings
}

/// Returns `true` if passwords reach the listener over a network as they are. A proxy in front may
/// speak TLS with clients.
fn shows_passwords(listen: &Listen) -> bool {
    let is_behind = !listen.trusted_proxies.is_empty() || !listen.proxy_protocol_from.is_empty();
    !listen.is_tls() && !listen.address.ip().is_loopback() && !is_behind
}

fn no_users(key: &str) -> String {
    format!("{key}.realm: no challenge names it without users_file")
}

/// Returns the number of the site in a rule's key; `None` for a general rule.
fn site_of(key: &str) -> Option<usize> {
    key.strip_prefix("site[")?.split(']').next()?.parse().ok()
}

const PLAIN_REALM: &str = "shoal";
const IN_CLEAR: &str = "passwords cross the network in clear";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warnings of settings with a site, without those that `text` has.
    fn warnings(listen: &str, site: &str, rules: &str) -> Vec<String> {
        let text = format!(
            "[[listen]]\naddress = \"{listen}\nmode = \"reverse\"\n[[site]]\nhosts = [\"*\"]\n\
             upstreams = [{{ url = \"http://10.0.0.2\" }}]\n{site}\n{rules}\n"
        );
        limit_warnings(&Settings::parse(&text, "t.toml").expect("sound settings"))
    }

    const LOCAL: &str = "127.0.0.1:80\"";
    const OPEN: &str = "0.0.0.0:80\"";

    #[test]
    fn settings_without_effect_are_told() {
        for (site, rules, found) in [
            ("queue = 5", "", "site[0].queue: "),
            ("queue_timeout = \"1s\"", "", "site[0].queue_timeout: "),
            ("", "[[rule]]\nallow_clients = []\nsatisfy = \"any\"", "rule[0].satisfy: "),
            ("", "[[site.rule]]\nstore = false\nrealm = \"a\"", "site[0].rule[0].realm: "),
            ("", "[[rule]]\nforward_authorization = true\nstore = false", "rule[0].forward_authorization: "),
            ("", "[forward]\nrealm = \"a\"", "forward.realm: "),
            ("", "[[rule]]\nallow_certificates = [\"CN=a\"]", "rule[0].allow_certificates: "),
        ] {
            let told = warnings(LOCAL, site, rules);
            assert!(told.len() == 1 && told[0].starts_with(found), "{site} {rules}: {told:?}");
        }
    }

    #[test]
    fn sound_settings_are_not_told() {
        for (site, rules) in [
            ("queue = 5\nconcurrency = 3", ""),
            ("", "[[rule]]\nallow_clients = []\nusers_file = \"u\"\nsatisfy = \"any\"\nrealm = \"a\""),
            // The rules combine.
            ("", "[[site.rule]]\nsatisfy = \"any\"\nallow_clients = []\n[[rule]]\nusers_file = \"u\""),
            ("", "[[rule]]\nrealm = \"a\"\nstore = false\n[[site.rule]]\nusers_file = \"u\""),
            ("", "[[rule]]\nallow_clients = []\nallow_certificates = [\"CN=a\"]\nsatisfy = \"any\""),
        ] {
            assert_eq!(warnings(LOCAL, site, rules), [] as [String; 0], "{site} {rules}");
        }
    }

    #[test]
    fn passwords_in_clear_are_told() {
        let rule = "[[rule]]\nusers_file = \"u\"";
        let told = warnings(OPEN, "", rule);
        assert!(told.len() == 1 && told[0].starts_with("rule[0].users_file: listen[0] "), "{told:?}");
        assert_eq!(warnings("127.0.0.1:80\"\nusers_file = \"u\"", "", rule), [] as [String; 0]);
        assert_eq!(warnings("0.0.0.0:80\"\nusers_file = \"u\"", "", "").len(), 1);
        let behind = "0.0.0.0:80\"\ntrusted_proxies = [\"10.0.0.0/8\"]";
        assert_eq!(warnings(behind, "", rule), [] as [String; 0]);
    }
}
