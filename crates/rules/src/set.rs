//! All rules in force, and the request that they are asked about.

use crate::access::ClientRate;
use crate::compile::{CompiledRule, compile};
use crate::condition::Conditions;
use crate::effects::{RequestEffects, ResponseEffects, Values};
use crate::failures::{PageContent, StaleErrors};
use crate::host::normal_host;
use crate::index::{Index, Numbers};
use crate::mistakes::RuleMistake;
use crate::url::normal_path;
use http::{Method, StatusCode};
use shoal_core::Fields;
use shoal_settings::{Rule, Settings};
use std::path::Path;

/// All rules, compiled.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<CompiledRule>,
    index: Index,
    /// `true` if a rule changes requests.
    changes_requests: bool,
    /// `true` if a rule has a page for errors.
    has_pages: bool,
    /// `true` if a rule limits the rate of requests.
    limits_rates: bool,
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
        Self::only(settings, |_| true)
    }

    /// Compiles the rules that `keep` takes, as [`Self::new`] does. A look at a few rules need not
    /// pay for the regular expressions of all.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn only(settings: &Settings, keep: impl Fn(&Rule) -> bool) -> Result<Self, Vec<RuleMistake>> {
        let general = settings.rule.iter().enumerate().map(|(at, rule)| (format!("rule[{at}]"), None, rule));
        let of_sites = settings.site.iter().enumerate().flat_map(|(site, entry)| {
            let rules = entry.rule.iter().enumerate();
            rules.map(move |(at, rule)| (format!("site[{site}].rule[{at}]"), Some(site), rule))
        });
        let (mut set, mut mistakes) = (Self::default(), Vec::new());
        for (key, site, rule) in general.chain(of_sites).filter(|(.., rule)| keep(rule)) {
            match compile(&key, site, rule) {
                Ok(rule) => set.add(rule),
                Err(found) => mistakes.extend(found),
            }
        }
        if mistakes.is_empty() { Ok(set) } else { Err(mistakes) }
    }

    fn add(&mut self, rule: CompiledRule) {
        let number = self.rules.len() as u32;
        let changes = !rule.request.is_empty()
            || !rule.response.is_empty()
            || !rule.failures.is_empty()
            || rule.rate.is_some();
        assert!(changes, "a rule changes something");
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
        self.has_pages |= rule.failures.page.is_some();
        self.limits_rates |= rule.rate.is_some();
        self.rules.push(rule);
        debug_assert_eq!(self.rules.len(), number as usize + 1, "the index has the rule's number");
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

    /// Returns `true` if some rule limits the rate of requests.
    #[inline]
    pub fn limits_rates(&self) -> bool {
        self.limits_rates
    }

    /// Returns the rate of each rule that has one, with the rule's number and name.
    pub fn rates(&self) -> impl Iterator<Item = (usize, &str, ClientRate)> {
        let rules = self.rules.iter().enumerate();
        rules.filter_map(|(number, rule)| Some((number, rule.name.as_str(), rule.rate?)))
    }

    /// Returns the key of the rule with this number: `rule[0]`.
    pub fn key(&self, number: usize) -> Option<&str> {
        self.rules.get(number).map(|rule| rule.key.as_str())
    }

    /// Returns the numbers of the matching rules that limit the rate of requests.
    pub fn limiting<'a>(&'a self, matching: &'a MatchedRules) -> impl Iterator<Item = usize> {
        let numbers = matching.0.iter().map(|number| *number as usize);
        numbers.filter(|number| self.rules[*number].rate.is_some())
    }

    /// Returns the rules that limit the rate of plain requests for a URL; `None` if one of them
    /// asks for more than the URL.
    pub fn limiting_url(
        &self,
        site: Option<usize>,
        host: &str,
        path_and_query: &str,
    ) -> Option<MatchedRules> {
        let mut numbers = self.matching_url(site, host, path_and_query);
        numbers.retain(|number| self.rules[*number as usize].rate.is_some());
        let asks_more = |number: &u32| self.rules[*number as usize].conditions.asks_request();
        (!numbers.iter().any(asks_more)).then_some(MatchedRules(numbers))
    }

    /// Returns each file of users that a rule names.
    pub fn users_files(&self) -> impl Iterator<Item = &std::sync::Arc<std::path::Path>> {
        self.rules.iter().filter_map(|rule| rule.request.access.users_file.as_ref())
    }

    /// Returns the rules with conditions that hold for the request.
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

    /// Returns the rules with conditions that hold for the URL.
    fn matching_url(&self, site: Option<usize>, host: &str, path_and_query: &str) -> Numbers {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        let path = normal_path(path);
        let mut numbers = self.index.candidates(&normal_host(host), &path);
        numbers.retain(|number| self.rules[*number as usize].conditions.match_url(site, &path, query));
        debug_assert!(numbers.is_sorted(), "later rules win");
        numbers
    }

    /// Returns the changes of the request by the matching rules; `None` without any.
    pub fn request_effects(&self, matching: &MatchedRules) -> Option<RequestEffects> {
        let mut effects: Option<RequestEffects> = None;
        for rule in self.of(matching).filter(|rule| !rule.request.is_empty()) {
            effects.get_or_insert_default().merge(&rule.request);
        }
        effects
    }

    /// Returns the URL effects of the rules that match a URL. Rules that change URLs ask for
    /// nothing else, so the answer holds for each request and for purges.
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

    /// Returns the target of the redirect that a request for this URL gets, by its URL alone. Takes
    /// the number of compared rules from `looks`.
    pub(crate) fn redirect_of(&self, site: Option<usize>, url: &str, looks: &mut usize) -> Option<String> {
        let variables = values(url, "");
        let start = url.find("://").map_or(0, |at| at + "://".len()) + variables.host.len();
        let host = variables.host.split(':').next().unwrap_or_default();
        let mut effects = RequestEffects::default();
        *looks = looks.saturating_sub(1 + self.candidates_of(host, &url[start..]));
        for number in self.matching_url(site, host, &url[start..]) {
            effects.merge(&self.rules[number as usize].request);
        }
        let (to, _) = effects.redirect.filter(|_| effects.deny.is_none())?;
        Some(to.fill_target(&variables))
    }

    /// Returns the number of rules that a look-up of this URL compares.
    fn candidates_of(&self, host: &str, path_and_query: &str) -> usize {
        let path = path_and_query.split('?').next().unwrap_or_default();
        self.index.candidates(host.trim_end_matches('.'), &normal_path(path)).len()
    }

    /// Returns `true` if rules may change a plain request for this URL, so that it would get
    /// another answer than the stored one; `is_variant` says that fields selected the stored one.
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

    /// Returns the changes of this response by the matching rules; `None` without any.
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

    /// Fills the pages for errors with the contents of their files, which `read` returns.
    ///
    /// # Errors
    /// Every page that cannot be read.
    pub fn read_pages(
        &mut self,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<(), Vec<RuleMistake>> {
        let mut mistakes = Vec::new();
        for rule in &mut self.rules {
            let Some(page) = &mut rule.failures.page else { continue };
            match read(&page.path) {
                Ok(body) => page.fill(body),
                Err(why) => {
                    let message = format!("cannot read {}: {why}", page.path.display());
                    mistakes.push(RuleMistake { key: format!("{}.error_page", rule.key), message });
                }
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// Returns `true` if a rule has a page for errors.
    pub fn has_pages(&self) -> bool {
        self.has_pages
    }

    /// Returns the page in place of the body of an error; `is_origins` says that the origin has
    /// sent the error. The last rule with a page wins.
    pub fn error_page(
        &self,
        matching: &MatchedRules,
        (status, is_origins): (StatusCode, bool),
        fields: &impl Fields,
    ) -> Option<&PageContent> {
        self.page_rule(matching, (status, is_origins), fields)?.failures.page.as_ref()?.content.as_deref()
    }

    /// Returns the key of the rule with the page that [`Self::error_page`] returns, and its file.
    pub fn error_page_file(
        &self,
        matching: &MatchedRules,
        (status, is_origins): (StatusCode, bool),
        fields: &impl Fields,
    ) -> Option<(&str, &Path)> {
        let rule = self.page_rule(matching, (status, is_origins), fields)?;
        Some((&rule.key, &rule.failures.page.as_ref()?.path))
    }

    fn page_rule(
        &self,
        matching: &MatchedRules,
        (status, is_origins): (StatusCode, bool),
        fields: &impl Fields,
    ) -> Option<&CompiledRule> {
        if !self.has_pages || !(status.is_client_error() || status.is_server_error()) {
            return None;
        }
        let rules = self.of(matching).filter(|rule| rule.conditions.match_response(status, fields));
        let has_page = |rule: &&CompiledRule| {
            rule.failures.page.as_ref().is_some_and(|page| page.is_for_origin || !is_origins)
        };
        rules.filter(has_page).last()
    }

    /// Returns the errors in place of which a stale response is served; `None` for the default.
    pub fn stale_on(&self, matching: &MatchedRules) -> Option<&StaleErrors> {
        self.of(matching).filter_map(|rule| rule.failures.stale_on.as_deref()).last()
    }

    /// Returns the names of the matching rules, for people: `rule[0] "npm"`.
    pub fn names<'a>(&'a self, matching: &'a MatchedRules) -> impl Iterator<Item = &'a str> {
        self.of(matching).map(|rule| rule.name.as_str())
    }

    /// Returns the places of the matching rules in the settings.
    pub(crate) fn numbers(&self, matching: &MatchedRules) -> impl Iterator<Item = usize> {
        matching.0.iter().map(|number| *number as usize)
    }

    /// Returns the conditions of the rule at this place.
    pub(crate) fn conditions(&self, number: usize) -> &Conditions {
        &self.rules[number].conditions
    }

    fn of<'a>(&'a self, matching: &MatchedRules) -> impl Iterator<Item = &'a CompiledRule> {
        matching.0.iter().map(|number| &self.rules[*number as usize])
    }
}

/// Returns `true` for the statuses that a lifetime is meant for where its rule names none: a
/// lifetime for pages must not keep an error. nginx has the same default with three of them.
pub(crate) fn has_common_lifetime(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 302 | 307 | 308)
}

/// Returns the values of the variables for a URL and a client.
pub fn values<'a>(url: &'a str, client: &'a str) -> Values<'a> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let start = rest.find('/').unwrap_or(rest.len());
    let (host, path_and_query) = rest.split_at(start);
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    Values { scheme, host, path, query, url, client, certificate: "" }
}

#[cfg(test)]
#[path = "set/tests.rs"]
mod tests;
