//! All rules in force, and the request that they are asked about.

use crate::compile::{CompiledRule, compile};
use crate::effects::{RequestEffects, ResponseEffects, Values};
use crate::index::{Index, Numbers};
use crate::mistakes::RuleMistake;
use crate::url::normal_path;
use http::{Method, StatusCode};
use shoal_core::Fields;
use shoal_settings::Settings;

/// All rules, compiled.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<CompiledRule>,
    index: Index,
    /// Whether a rule changes requests.
    changes_requests: bool,
}

/// A request, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a, F> {
    /// Number of the site that serves it; `None` in forward mode.
    pub site: Option<usize>,
    /// Host in lower case, without port.
    pub host: &'a str,
    /// Path and query.
    pub path_and_query: &'a str,
    /// Method.
    pub method: &'a Method,
    /// Fields as the client sent them.
    pub fields: &'a F,
}

/// The rules that match a request; they may still ask something of the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchedRules(Numbers);

impl RuleSet {
    /// Compiles the rules of these settings: the general ones, then those of each site.
    ///
    /// # Errors
    /// Every mistake.
    pub fn new(settings: &Settings) -> Result<Self, Vec<RuleMistake>> {
        let general = settings.rule.iter().enumerate().map(|(at, rule)| (format!("rule[{at}]"), None, rule));
        let of_sites = settings.site.iter().enumerate().flat_map(|(site, entry)| {
            let rules = entry.rule.iter().enumerate();
            rules.map(move |(at, rule)| (format!("site[{site}].rule[{at}]"), Some(site), rule))
        });
        let (mut set, mut mistakes) = (Self::default(), Vec::new());
        for (key, site, rule) in general.chain(of_sites) {
            match compile(&key, site, rule) {
                Ok(rule) => set.add(rule),
                Err(found) => mistakes.extend(found),
            }
        }
        if mistakes.is_empty() { Ok(set) } else { Err(mistakes) }
    }

    fn add(&mut self, rule: CompiledRule) {
        let number = self.rules.len() as u32;
        assert!(!rule.request.is_empty() || !rule.response.is_empty(), "a rule changes something");
        let any_host = ["*".to_owned()];
        let hosts = if rule.conditions.hosts.is_empty() { &any_host[..] } else { &rule.conditions.hosts };
        for host in hosts {
            if rule.conditions.paths.is_empty() {
                self.index.add(host, "", number);
            }
            for path in &rule.conditions.paths {
                self.index.add(host, path.literal_prefix(), number);
            }
        }
        self.changes_requests |= !rule.request.is_empty();
        self.rules.push(rule);
    }

    /// Returns `true` if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns `true` if some rule changes requests.
    #[inline]
    pub fn changes_requests(&self) -> bool {
        self.changes_requests
    }

    /// Returns the rules whose conditions on the request hold.
    pub fn matching<F: Fields>(&self, request: &RequestView<'_, F>) -> MatchedRules {
        if self.rules.is_empty() {
            return MatchedRules::default();
        }
        let mut numbers = self.matching_url(request.site, request.host, request.path_and_query);
        numbers.retain(|number| {
            self.rules[*number as usize].conditions.match_request(request.method, request.fields)
        });
        MatchedRules(numbers)
    }

    /// Returns the rules whose conditions on the URL hold.
    fn matching_url(&self, site: Option<usize>, host: &str, path_and_query: &str) -> Numbers {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        let path = normal_path(path);
        let mut numbers = self.index.candidates(host, &path);
        numbers.retain(|number| self.rules[*number as usize].conditions.match_url(site, &path, query));
        numbers
    }

    /// Returns what the matching rules change in the request; `None` when nothing.
    pub fn request_effects(&self, matching: &MatchedRules) -> Option<RequestEffects> {
        let mut effects: Option<RequestEffects> = None;
        for rule in self.of(matching).filter(|rule| !rule.request.is_empty()) {
            effects.get_or_insert_default().merge(&rule.request);
        }
        effects
    }

    /// Returns the URL effects of the rules that match a URL, whatever the request. Rules that
    /// change URLs ask nothing else, so the answer holds for each request and for purges.
    pub fn url_effects(
        &self,
        site: Option<usize>,
        host: &str,
        path_and_query: &str,
    ) -> Option<RequestEffects> {
        if !self.changes_requests {
            return None;
        }
        let mut effects: Option<RequestEffects> = None;
        for number in self.matching_url(site, host, path_and_query) {
            let rule = &self.rules[number as usize];
            if rule.request.changes_url() {
                effects.get_or_insert_default().merge(&rule.request);
            }
        }
        effects
    }

    /// Returns `true` if rules may change a plain request for this URL, so that it would get another
    /// answer than the one stored under the URL; `is_variant` says that fields selected that answer.
    pub fn may_change(
        &self,
        site: Option<usize>,
        host: &str,
        path_and_query: &str,
        is_variant: bool,
    ) -> bool {
        let origin = format!("http://{host}");
        self.matching_url(site, host, path_and_query).into_iter().any(|number| {
            let effects = &self.rules[number as usize].request;
            let is_moved = || {
                let url = effects.edited_url(&origin, path_and_query);
                url.is_some_and(|url| url.strip_prefix(&origin) != Some(path_and_query))
            };
            effects.answers() || effects.changes_selection() && is_variant || is_moved()
        })
    }

    /// Returns what the matching rules change in this response; `None` when nothing.
    pub fn response_effects(
        &self,
        matching: &MatchedRules,
        status: StatusCode,
        fields: &impl Fields,
    ) -> Option<ResponseEffects> {
        let mut effects: Option<ResponseEffects> = None;
        let rules = self.of(matching).filter(|rule| !rule.response.is_empty());
        for rule in rules.filter(|rule| rule.conditions.match_response(status, fields)) {
            let effects = effects.get_or_insert_default();
            match rule.conditions.statuses.is_empty() && !has_common_lifetime(status) {
                true => effects.merge(&rule.response_without_lifetime()),
                false => effects.merge(&rule.response),
            }
        }
        effects
    }

    /// Returns the names of the matching rules, for people: `rule[0] "npm"`.
    pub fn names<'a>(&'a self, matching: &'a MatchedRules) -> impl Iterator<Item = &'a str> {
        self.of(matching).map(|rule| rule.name.as_str())
    }

    fn of<'a>(&'a self, matching: &'a MatchedRules) -> impl Iterator<Item = &'a CompiledRule> {
        matching.0.iter().map(|number| &self.rules[*number as usize])
    }
}

/// Returns `true` for the statuses that a lifetime is meant for where its rule names none: a
/// lifetime for pages must not keep an error. nginx has the same default with three of them.
fn has_common_lifetime(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 302 | 307 | 308)
}

/// Returns the values of the variables for a URL and a client.
pub fn values<'a>(url: &'a str, client: &'a str) -> Values<'a> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let start = rest.find('/').unwrap_or(rest.len());
    let (host, path_and_query) = rest.split_at(start);
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    Values { scheme, host, path, query, url, client }
}

#[cfg(test)]
#[path = "set/tests.rs"]
mod tests;
