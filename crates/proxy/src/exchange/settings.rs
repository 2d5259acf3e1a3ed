//! The settings that the exchange works by, prepared; replaced as a whole on reload.

use super::metadata::ResponseMetadata;
use super::request::RequestContext;
use super::ruling;
use crate::access::{AccessError, ForwardRules, ListenerRules, PurgeRules};
use crate::access_log::AccessLog;
use crate::message::HitFields;
use crate::route::{RouteError, Routes};
use http::{HeaderName, HeaderValue};
use shoal_rules::RuleSet;
use shoal_semantics::status_fields::{CacheStatus, Handling};
use shoal_semantics::{CacheRules, HeuristicQuery, SetCookie, surrogate};
use shoal_settings::{Cache, Settings, Site};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What requests are answered by: of one piece, so that a hit asks for it once.
pub(super) struct ReloadableState {
    /// The settings.
    pub live: Arc<ExchangeSettings>,
    /// The access log.
    pub log: Arc<AccessLog>,
}

/// Settings in force.
pub struct ExchangeSettings {
    /// How responses are judged in forward mode.
    forward_rules: CacheRules,
    /// How those of each site are judged, in the settings' order.
    site_rules: Vec<CacheRules>,
    /// Whether concurrent misses share a fetch.
    pub collapse: bool,
    /// For how long after a reload others are answered from storage.
    pub reload_interval: Duration,
    /// Fields that carry tags.
    pub tag_fields: Vec<HeaderName>,
    /// Our name in Cache-Status and Proxy-Status.
    pub name: String,
    /// Our name in Via and CDN-Loop. The default name is made unique, so that two nodes in a row
    /// that bear it are not taken for a loop.
    pub hop: String,
    /// The rules of the listeners, in the settings' order.
    pub(super) listeners: Vec<ListenerRules>,
    /// Which users and destinations forward mode serves.
    pub forward: Arc<ForwardRules>,
    /// What was asked for before this, in forward mode, came from an address that other rules
    /// allowed. A number of the order of purges, which is known only once these settings are in
    /// force.
    pub(super) forward_since: AtomicU64,
    /// The operator's rules.
    pub(super) rule_set: RuleSet,
    /// The sites of reverse mode.
    pub routes: Routes,
    /// Who may purge.
    pub purge: PurgeRules,
    /// The Proxy-Status of an answer that no origin had a part in.
    pub own_proxy_status: HeaderValue,
    /// What tells an origin that it may address this surrogate; `None` with a name that no field
    /// takes.
    pub surrogate_capability: Option<HeaderValue>,
    /// What a hit's head gets from us.
    pub hit_fields: HitFields,
}

/// Settings that cannot be put in force.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeSettingsError {
    /// Rules of forward mode.
    Access(AccessError),
    /// Sites.
    Route(RouteError),
    /// A name that is no token.
    Name(String),
    /// The operator's rules.
    Rule(String),
}

impl ExchangeSettings {
    /// Prepares `settings`. `own` are the addresses that this process listens on; `identity` is a
    /// number that other nodes do not have; it also spreads timers.
    pub fn new(
        settings: &Settings,
        own: &[SocketAddr],
        identity: u64,
    ) -> Result<Self, ExchangeSettingsError> {
        Self::after(&Routes::default(), settings, own, identity)
    }

    /// As [`Self::new`]; sites that are as in `previous` keep what is known of their upstreams.
    pub fn after(
        previous: &Routes,
        settings: &Settings,
        own: &[SocketAddr],
        identity: u64,
    ) -> Result<Self, ExchangeSettingsError> {
        let cache = &settings.cache;
        let field = |name: &String| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| ExchangeSettingsError::Name(name.clone()))
        };
        let listeners = settings.listen.iter().map(|listen| ListenerRules::new(listen, &settings.forward));
        let own_proxy_status = HeaderValue::from_str(&cache.name)
            .map_err(|_| ExchangeSettingsError::Name(cache.name.clone()))?;
        Ok(Self {
            // targeted fields are for caches that work for the origin (RFC 9213, section 3.1), not
            // for any proxy
            forward_rules: CacheRules { targeted: Vec::new(), ..rules(cache, None) },
            site_rules: settings.site.iter().map(|site| rules(cache, Some(site))).collect(),
            collapse: cache.collapse,
            reload_interval: cache.reload_interval,
            tag_fields: cache.tag_fields.iter().map(field).collect::<Result<_, _>>()?,
            name: cache.name.clone(),
            hop: hop(&cache.name, identity),
            listeners: listeners.collect(),
            forward: Arc::new(
                ForwardRules::new(&settings.forward, own).map_err(ExchangeSettingsError::Access)?,
            ),
            forward_since: AtomicU64::new(0),
            rule_set: ruling::compile(settings).map_err(ExchangeSettingsError::Rule)?,
            routes: Routes::after(previous, &settings.site, identity)
                .map_err(ExchangeSettingsError::Route)?,
            purge: PurgeRules::new(&settings.admin.purge_from),
            hit_fields: HitFields::new(&hit_status(&cache.name), &own_proxy_status),
            surrogate_capability: HeaderValue::try_from(surrogate::capability(&cache.name)).ok(),
            own_proxy_status,
        })
    }

    /// Whether the rules in force allowed the address that a stored response came from, as far as
    /// it was asked for under them. Its host's name is asked about with each request; its address
    /// only a fetch can tell.
    pub fn allowed_address(&self, head: &ResponseMetadata) -> bool {
        head.names.via_site || head.requested.number() >= self.forward_since.load(Relaxed)
    }

    /// How responses to `ask` are judged.
    pub fn rules(&self, ask: &RequestContext) -> &CacheRules {
        ask.site.as_ref().map_or(&self.forward_rules, |site| &self.site_rules[site.site])
    }
}

/// The rules of a site, or of forward mode: what a site does not say, `[cache]` does.
fn rules(cache: &Cache, site: Option<&Site>) -> CacheRules {
    let set_cookie = site.and_then(|site| site.set_cookie).unwrap_or(cache.set_cookie);
    let heuristic_query = site.and_then(|site| site.heuristic_query).unwrap_or(cache.heuristic_query);
    CacheRules {
        heuristic_fraction: site.and_then(|site| site.heuristic_fraction).unwrap_or(cache.heuristic_fraction),
        heuristic_max: cache.heuristic_max,
        heuristic_query: match heuristic_query {
            shoal_settings::HeuristicQuery::Never => HeuristicQuery::Never,
            shoal_settings::HeuristicQuery::Unsigned => HeuristicQuery::Unsigned,
            shoal_settings::HeuristicQuery::Always => HeuristicQuery::Always,
        },
        stale_if_error: cache.stale_if_error,
        negative_ttl: cache.negative_ttl,
        retry_after_max: cache.retry_after_max,
        set_cookie: match set_cookie {
            shoal_settings::SetCookie::Pass => SetCookie::Pass,
            shoal_settings::SetCookie::Strip => SetCookie::Strip,
        },
        surrogate: site.map(|_| cache.name.clone()),
        ..CacheRules::default()
    }
}

fn hit_status(name: &str) -> Box<[u8]> {
    let hit = CacheStatus { cache: name, handling: Handling::Hit, ttl: Some(0), key: None, detail: None };
    let text = hit.to_bytes();
    text.strip_suffix(b"0").expect("a hit's status ends with its time to live").into()
}

fn hop(name: &str, identity: u64) -> String {
    match *name == shoal_settings::Cache::default().name {
        true => format!("{name}-{:08x}", identity as u32),
        false => name.to_owned(),
    }
}

impl fmt::Display for ExchangeSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => write!(f, "{error}"),
            Self::Route(error) => write!(f, "{error}"),
            Self::Rule(error) => write!(f, "{error}"),
            Self::Name(name) => write!(f, "{name:?} cannot be used as a name"),
        }
    }
}

impl std::error::Error for ExchangeSettingsError {}
