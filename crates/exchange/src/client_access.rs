//! Users, certificates and rates that listeners and rules ask for.
//!
//! ```text
//!   request ─► beyond_rate: 429 ─► guard: networks, certificate, user ─► rules, key, origin
//! ```
//!
//! Wrong passwords are limited by client network: a client that guesses gets 429 for each request
//! with credentials, right or wrong, until its allowance is back.

use super::admission::{AdmissionView, Grant};
use super::ruling::RuleOutcome;
use super::settings::{ExchangeSettings, ExchangeSettingsError};
use super::target::{Target, TargetError};
use super::{CacheEngine, answers};
use crate::access::{AccessError, AccessRefusal, ListenerRules, Users, challenge};
use crate::message::{Client, Reply, ReplyHead};
use crate::rate_limit::{RateLimiter, limiter_time, retry_after_seconds};
use crate::route::Route;
use http::{HeaderName, HeaderValue, StatusCode, header};
use shoal_core::{FieldLines, Fields};
use shoal_rules::{ClientRate, MatchedRules, RequestEffects, RequestView, RuleSet};
use shoal_settings::{Mode, Satisfy};
use shoal_wire::{FastPathRequest, RequestParts};
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Users by file, and the buckets of client networks.
#[derive(Debug, Default)]
pub(super) struct ClientAccess {
    users: HashMap<Arc<Path>, Arc<Users>>,
    /// Buckets of the rules with a rate, by number of the rule, with the rule's name.
    rates: HashMap<usize, (String, Arc<RateLimiter>)>,
    /// Buckets of wrong passwords; `None` if no users are asked for.
    failures: Option<Arc<RateLimiter>>,
}

impl ClientAccess {
    /// Reads the files of users that rules name. `asks_users` says that a listener has users.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(rules: &RuleSet, asks_users: bool) -> Result<Self, ExchangeSettingsError> {
        let mut users = HashMap::new();
        for path in rules.users_files() {
            if !users.contains_key(path) {
                let read = Users::read(path).map_err(|error| AccessError::Users("rule.users_file", error));
                users.insert(Arc::clone(path), Arc::new(read.map_err(ExchangeSettingsError::Access)?));
            }
        }
        let places = PLACES.checked_div(rules.rates().count()).unwrap_or(PLACES).max(PLACES_MIN);
        let limiter = |rate| Arc::new(RateLimiter::new(rate, places));
        let rates = rules.rates().map(|(number, name, rate)| (number, (name.to_owned(), limiter(rate))));
        let failures =
            (asks_users || !users.is_empty()).then(|| Arc::new(RateLimiter::new(FAILURES, FAILURE_PLACES)));
        Ok(Self { users, rates: rates.collect(), failures })
    }

    /// Takes over the buckets of rules that have stayed the same, and of wrong passwords.
    pub fn take_over(&mut self, before: &Self) {
        for (number, (name, limiter)) in &mut self.rates {
            let same = before.rates.get(number).filter(|(other, _)| other == name);
            if let Some((_, old)) = same.filter(|(_, old)| old.rate() == limiter.rate()) {
                *limiter = Arc::clone(old);
            }
        }
        if let (Some(own), Some(old)) = (&mut self.failures, &before.failures) {
            *own = Arc::clone(old);
        }
    }

    /// Counts a request of `client` for each of these rules. No rule counts a request that another
    /// one refuses.
    ///
    /// # Errors
    /// The longest time to wait.
    fn take_all(
        &self,
        rules: &RuleSet,
        matching: &MatchedRules,
        client: IpAddr,
        now: u64,
    ) -> Result<(), Duration> {
        let limiters = || rules.limiting(matching).filter_map(|number| Some(&self.rates.get(&number)?.1));
        let waits = limiters().filter_map(|limiter| limiter.check(client, now).err());
        if let Some(wait) = waits.max() {
            return Err(wait);
        }
        debug_assert!(limiters().count() == rules.limiting(matching).count(), "each rate has its buckets");
        limiters().try_for_each(|limiter| limiter.take(client, now))
    }

    /// Returns the user that `given` proves. A client that guesses too often gets no answer to the
    /// question. Nothing is counted here, so that a supposed request has no effect.
    fn prove(
        &self,
        client: IpAddr,
        given: Option<&HeaderValue>,
        prove: impl FnOnce(&HeaderValue) -> Option<String>,
        refusal: AccessRefusal,
    ) -> Result<String, AccessRefusal> {
        let Some(given) = given else { return Err(refusal) };
        let now = limiter_time(Instant::now());
        if let Some(wait) = self.failures.as_ref().and_then(|failures| failures.check(client, now).err()) {
            return Err(AccessRefusal::Guessing(retry_after_seconds(wait)));
        }
        prove(given).ok_or(refusal)
    }

    /// Returns the buckets of the rule with this number.
    pub fn limiter(&self, rule: usize) -> Option<&RateLimiter> {
        self.rates.get(&rule).map(|(_, limiter)| &**limiter)
    }

    /// Counts a wrong password.
    fn note_failure(&self, client: IpAddr) {
        if let Some(failures) = &self.failures {
            let _ = failures.take(client, limiter_time(Instant::now()));
        }
    }
}

impl ExchangeSettings {
    /// Returns the user that a request to this listener proves; `None` if the listener asks for
    /// none.
    ///
    /// # Errors
    /// The refusal, if credentials are missing or wrong.
    #[inline]
    pub(super) fn user_of(
        &self,
        listener: &ListenerRules,
        client: IpAddr,
        authorization: Option<&HeaderValue>,
    ) -> Result<Option<String>, AccessRefusal> {
        let (users, refusal) = match (&listener.users, listener.mode) {
            (None, Mode::Reverse) => return Ok(None),
            (None, Mode::Forward) => match self.forward.users() {
                Some(users) => (users, AccessRefusal::Credentials),
                None => return Ok(None),
            },
            (Some(own), Mode::Forward) => (&own.users, AccessRefusal::Credentials),
            (Some(own), Mode::Reverse) => (&own.users, AccessRefusal::Unauthorized),
        };
        let prove = |value: &HeaderValue| users.authenticate(value.as_bytes());
        self.access.prove(client, authorization, prove, refusal).map(Some)
    }

    /// Checks networks, certificate and user of a request that rules with these effects match.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub(super) fn guard(
        &self,
        effects: &RequestEffects,
        fields: &FieldLines,
        client: &Client,
    ) -> Result<Option<String>, AccessRefusal> {
        let address = client.address.ip().to_canonical();
        let network = effects.allow_clients.as_ref().map(|networks| {
            let is_in = networks.iter().any(|network| network.contains(&address));
            is_in.then_some(None).ok_or(AccessRefusal::Client(address))
        });
        let certificate = effects.access.certificates.as_ref().map(|patterns| {
            let names = client.certificate.as_deref();
            let is_listed = names.is_some_and(|names| patterns.iter().any(|pattern| pattern.matches(names)));
            is_listed.then_some(None).ok_or(AccessRefusal::Certificate)
        });
        let user = || {
            let path = effects.access.users_file.as_ref()?;
            let (name, refusal) = match self.mode(client) {
                Mode::Forward => (header::PROXY_AUTHORIZATION, AccessRefusal::Credentials),
                Mode::Reverse => (header::AUTHORIZATION, AccessRefusal::Unauthorized),
            };
            let users = self.access.users.get(path);
            let prove = |value: &HeaderValue| users?.authenticate(value.as_bytes());
            Some(
                self.access
                    .prove(address, given_credentials(fields, &name, client).as_ref(), prove, refusal)
                    .map(Some),
            )
        };
        let mut last = Ok(None);
        let is_any = effects.access.satisfy == Some(Satisfy::Any);
        // The user comes last: a password is looked at only if need be.
        for outcome in [network, certificate].into_iter().map(Some).chain([None]) {
            let Some(outcome) = outcome.unwrap_or_else(user) else { continue };
            if outcome.is_ok() == is_any {
                return outcome;
            }
            last = outcome;
        }
        last
    }

    /// Answers a request that [`Self::guard`] refused.
    pub(super) fn refused_by_rule(
        &self,
        effects: &RequestEffects,
        refusal: &AccessRefusal,
        head: &RequestParts,
        client: &Client,
    ) -> Reply {
        let mut reply = answers::denied(self, head, client, refusal);
        let field = match refusal {
            AccessRefusal::Credentials => header::PROXY_AUTHENTICATE,
            AccessRefusal::Unauthorized => header::WWW_AUTHENTICATE,
            _ => return reply,
        };
        let realm = effects.access.realm.as_deref().unwrap_or("shoal");
        if let ReplyHead::Built(_, fields) = &mut reply.head
            && let Ok(value) = challenge(realm)
        {
            fields.insert(field, value);
        }
        reply
    }

    /// Removes the client's Authorization field if it is meant for this node.
    pub(super) fn keep_credentials(
        &self,
        effects: Option<&RequestEffects>,
        head: &mut RequestParts,
        client: &Client,
    ) {
        let listener = self.listeners.get(client.listener);
        let is_reverse = self.mode(client) == Mode::Reverse;
        let asks = listener.is_some_and(|listener| listener.users.is_some())
            || effects.is_some_and(|effects| effects.access.users_file.is_some());
        let goes_on = effects.is_some_and(|effects| effects.access.forward_authorization == Some(true));
        if is_reverse && asks && !goes_on && head.fields.has(&header::AUTHORIZATION) {
            head.fields = head.fields.with_only(&header::AUTHORIZATION, None);
            assert!(!head.fields.has(&header::AUTHORIZATION), "the field is this node's");
        }
    }

    /// Counts a plain request that the fast path is about to answer. Returns `false` if the
    /// ordinary path must decide.
    pub(super) fn counts_plain(
        &self,
        plain: &FastPathRequest<'_>,
        mode: Mode,
        client: &Client,
        received: Instant,
    ) -> bool {
        let Ok(host) = std::str::from_utf8(plain.authority.host) else { return false };
        let host = match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(host.to_ascii_lowercase()),
            false => Cow::Borrowed(host),
        };
        let site = match mode {
            Mode::Forward => None,
            Mode::Reverse => self.routes.find(host.as_bytes(), plain.path).map(|site| site.site),
        };
        let Some(matching) = self.rule_set.limiting_url(site, &host, plain.path) else { return false };
        let now = limiter_time(received);
        self.access.take_all(&self.rule_set, &matching, client.address.ip(), now).is_ok()
    }
}

impl CacheEngine {
    /// Returns the permission of a request.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub(super) fn granted<'l>(
        &self,
        live: &'l ExchangeSettings,
        head: &RequestParts,
        target: &Result<Target, TargetError>,
        client: &Client,
    ) -> Result<Grant<'l>, Box<Reply>> {
        let credentials = match live.mode(client) {
            Mode::Forward => header::PROXY_AUTHORIZATION,
            Mode::Reverse => header::AUTHORIZATION,
        };
        let authorization = given_credentials(&head.fields, &credentials, client);
        live.admit(client, authorization.as_ref(), AdmissionView::of(head, target)).map_err(|refusal| {
            let reply = answers::denied(live, head, client, &refusal);
            self.count_refusal(live, &reply, head, client);
            Box::new(reply)
        })
    }

    /// Applies the rules to an admitted request.
    ///
    /// # Errors
    /// The answer, where a rule refuses or redirects the request.
    pub(super) fn ruled_request(
        &self,
        live: &ExchangeSettings,
        head: &mut RequestParts,
        target: &mut Target,
        client: &Client,
        site: Option<&Arc<Route>>,
    ) -> Result<RuleOutcome, Box<Reply>> {
        if live.rule_set.limits_rates() {
            let matching = live.rule_set.matching(&RequestView {
                site: site.map(|site| site.site),
                host: target.host(),
                path_and_query: target.path(),
                method: &head.method,
                fields: &head.fields,
            });
            if let Some(reply) = self.beyond_rate(live, head, &matching, client) {
                return Err(Box::new(reply));
            }
        }
        let outcome = live.apply_to_request(head, target, client, site);
        outcome.inspect_err(|reply| self.count_refusal(live, reply, head, client))
    }

    /// Answers a CONNECT that a rule refuses, or that goes beyond a rate.
    pub(super) fn refused_tunnel(
        &self,
        live: &ExchangeSettings,
        head: &RequestParts,
        client: &Client,
    ) -> Option<Reply> {
        if live.rule_set.limits_rates()
            && let Some(matching) = live.matching_tunnel(head)
            && let Some(reply) = self.beyond_rate(live, head, &matching, client)
        {
            return Some(reply);
        }
        live.refused_tunnel(head, client).inspect(|reply| self.count_refusal(live, reply, head, client))
    }

    /// Counts a request for the rules that limit its rate. Returns the answer to a request beyond
    /// it.
    fn beyond_rate(
        &self,
        live: &ExchangeSettings,
        head: &RequestParts,
        matching: &MatchedRules,
        client: &Client,
    ) -> Option<Reply> {
        let now = limiter_time(Instant::now());
        let wait = live.access.take_all(&live.rule_set, matching, client.address.ip(), now).err()?;
        self.metrics.limited_rate.increment();
        let refusal = AccessRefusal::Rate(retry_after_seconds(wait));
        Some(answers::denied(live, head, client, &refusal))
    }

    /// Counts a refusal for want of a user, and a wrong password.
    fn count_refusal(&self, live: &ExchangeSettings, reply: &Reply, head: &RequestParts, client: &Client) {
        let status = reply.head.status();
        let is_user = [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED];
        if is_user.contains(&status) {
            self.metrics.credentials_refused.increment();
            let (credentials, challenge) = match live.mode(client) {
                Mode::Forward => (header::PROXY_AUTHORIZATION, header::PROXY_AUTHENTICATE),
                Mode::Reverse => (header::AUTHORIZATION, header::WWW_AUTHENTICATE),
            };
            // A rule may refuse with such a status without looking at a password.
            let asks = matches!(&reply.head, ReplyHead::Built(_, fields) if fields.contains_key(challenge));
            if asks && only_value(&head.fields, &credentials).is_some() {
                live.access.note_failure(client.address.ip().to_canonical());
            }
        } else if status == StatusCode::TOO_MANY_REQUESTS {
            self.metrics.limited_guesses.increment();
        }
    }
}

/// Returns the credentials of a request for this node. Inside a CONNECT they are the CONNECT's.
fn given_credentials(fields: &FieldLines, name: &HeaderName, client: &Client) -> Option<HeaderValue> {
    match &client.intercepted {
        Some(connect) => connect.authorization.clone(),
        None => only_value(fields, name),
    }
}

/// Returns the value of a field with one line. Of two lines, the origin might read the other.
fn only_value(fields: &FieldLines, name: &HeaderName) -> Option<HeaderValue> {
    let is_one = fields.values(name).nth(1).is_none();
    fields.shared_value(name).filter(|_| is_one)
}

/// Places of all tables of rates together, and the least for one rule.
const PLACES: usize = 1 << 16;
const PLACES_MIN: usize = 64;
/// Places of the table of wrong passwords.
const FAILURE_PLACES: usize = 1 << 13;
/// Wrong passwords of one client network.
const FAILURES: ClientRate = ClientRate { per_second: 1.0, burst: 10 };

const _: () = {
    assert!(PLACES_MIN <= PLACES);
    assert!(FAILURES.burst > 0 && FAILURES.per_second > 0.0);
};
