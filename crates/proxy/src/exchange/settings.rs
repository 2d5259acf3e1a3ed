//! The exchange's settings, prepared; replaced as a whole on reload.

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

/// State for answering requests, in one piece, so that a hit loads it once.
pub(super) struct ReloadableState {
    /// The settings.
    pub live: Arc<ExchangeSettings>,
    /// The access log.
    pub log: Arc<AccessLog>,
}

/// Settings in force.
pub struct ExchangeSettings {
    /// Caching rules of forward mode.
    forward_rules: CacheRules,
    /// Caching rules of each site, in the settings' order.
    site_rules: Vec<CacheRules>,
    /// `true` if concurrent misses share a fetch.
    pub collapse: bool,
    /// Time after a reload during which further reloads are answered from storage.
    pub reload_interval: Duration,
    /// Fields that carry tags.
    pub tag_fields: Vec<HeaderName>,
    /// Node name in Cache-Status and Proxy-Status.
    pub name: String,
    /// Node name in Via and CDN-Loop. The default name is made unique, so that two nodes in a row
    /// with this name do not look like a loop.
    pub hop: String,
    /// The rules of the listeners, in the settings' order.
    pub(super) listeners: Vec<ListenerRules>,
    /// Users and destinations that forward mode serves.
    pub forward: Arc<ForwardRules>,
    /// Position in the order of purges. Earlier responses of forward mode came from addresses
    /// allowed by other rules. The position is known only once these settings are in force.
    pub(super) forward_since: AtomicU64,
    /// The operator's rules.
    pub(super) rule_set: RuleSet,
    /// The sites of reverse mode.
    pub routes: Routes,
    /// Clients that may purge.
    pub purge: PurgeRules,
    /// Proxy-Status of an answer without an origin's part.
    pub own_proxy_status: HeaderValue,
    /// Announces this surrogate to an origin; `None` if the node name is not a valid field value.
    pub surrogate_capability: Option<HeaderValue>,
    /// Fields that this node adds to a hit's head.
    pub hit_fields: HitFields,
}

/// Settings that cannot be put in force.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeSettingsError {
    /// Invalid rules of forward mode.
    Access(AccessError),
    /// Invalid sites.
    Route(RouteError),
    /// A name that is not a token.
    Name(String),
    /// The operator's rules.
    Rule(String),
}

impl ExchangeSettings {
    /// Prepares `settings`. `own` are the addresses on which this process listens. `identity` is a
    /// number unique to this node, which also spreads timers.
    pub fn new(
        settings: &Settings,
        own: &[SocketAddr],
        identity: u64,
    ) -> Result<Self, ExchangeSettingsError> {
        Self::after(&Routes::default(), settings, own, identity)
    }

    /// Prepares settings like [`Self::new`]; unchanged sites keep the state of their upstreams from
    /// `previous`.
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

    /// Returns `true` if the rules in force allowed the address of a stored response. Only
    /// responses fetched under these rules are known to be allowed. The host's name is checked with
    /// each request, but only a fetch knows the address.
    pub fn allowed_address(&self, head: &ResponseMetadata) -> bool {
        head.names.via_site || head.requested.number() >= self.forward_since.load(Relaxed)
    }

    /// Returns the caching rules for responses to `ask`.
    pub fn rules(&self, ask: &RequestContext) -> &CacheRules {
        ask.site.as_ref().map_or(&self.forward_rules, |site| &self.site_rules[site.site])
    }
}

/// Builds the rules of a site, or of forward mode. `[cache]` supplies values that the site omits.
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
