//! The exchange's settings, prepared; replaced as a whole on reload.

use super::client_access::ClientAccess;
use super::coding::CompressRules;
use super::judgement::RulesNumber;
use super::metadata::ResponseMetadata;
use super::peers::{ParentRules, PeerHitLines};
use super::request::RequestContext;
use super::ruling;
use super::target::Target;
use crate::access::{AccessError, ForwardRules, ListenerRules, PurgeRules};
use crate::access_log::AccessLog;
use crate::cluster::{ClusterHandle, peer_address};
use crate::intercept::Interception;
use crate::intercept::authority::AuthorityError;
use crate::message::{Client, HitFields};
use crate::mirror::Mirrors;
use crate::route::{Route, RouteError, Routes};
use http::{HeaderName, HeaderValue};
use shoal_core::Key;
use shoal_rules::RuleSet;
use shoal_semantics::status_fields::{CacheStatus, HandlingWay};
use shoal_semantics::{CacheRules, Coding, HeuristicQuery, SetCookie, surrogate};
use shoal_settings::{Cache, Mode, Placement, Prefetch, Settings, Site};
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
    /// Prefetching.
    pub prefetch: Prefetch,
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
    /// Number of these rules and sites, by which judgements are remembered.
    pub(super) rules_number: RulesNumber,
    /// Users that rules ask for, and the buckets of clients.
    pub(super) access: ClientAccess,
    /// The sites of reverse mode.
    pub routes: Routes,
    /// The mirrors, each served by a site behind those of the settings.
    pub mirrors: Mirrors,
    /// Hosts that this node answers CONNECT for itself; `None` if there are none.
    pub interception: Option<Interception>,
    /// Clients that may purge.
    pub purge: PurgeRules,
    /// Proxy-Status of an answer without an origin's part.
    pub own_proxy_status: HeaderValue,
    /// Announces this surrogate to an origin; `None` if the node name is not a valid field value.
    pub surrogate_capability: Option<HeaderValue>,
    /// Fields that this node adds to a hit's head.
    pub hit_fields: HitFields,
    /// Fields that this node adds to a hit's head if the body depends on the client's codings.
    pub varying_hit_fields: HitFields,
    /// Fields of hits with a coded form, by the coding's number.
    pub coded_hit_fields: [HitFields; Coding::ALL.len()],
    /// Compression of text for clients; `None` if nothing is compressed.
    pub(super) compress: Option<CompressRules>,
    /// Lines that this node adds to the head of another node's hit.
    pub(super) peer_hit_lines: PeerHitLines,
    /// This node's part in a cluster.
    pub cluster: Option<Arc<ClusterHandle>>,
    /// `true` if nodes ask the homes of a key.
    pub asks_homes: bool,
    /// `true` if nodes ask the probable holders of a key, by digests.
    pub asks_holders: bool,
    /// Parents that nodes ask in a hierarchy; `None` with another placement.
    pub parents: Option<ParentRules>,
    /// Longest time that a home may take for the head of its answer, while it says that it is at
    /// work: as long as its origin may take, and somewhat longer.
    pub home_patience: Duration,
    /// Name of this node, or of its cluster, in CDN-Loop.
    pub loop_hop: String,
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
    /// A mirror, by its number.
    Mirror(usize, String),
    /// The authority of interception.
    Intercept(AuthorityError),
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
        let (cache, sites) = (&settings.cache, settings.all_sites());
        let field = |name: &String| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| ExchangeSettingsError::Name(name.clone()))
        };
        let listeners = settings.listen.iter().map(|listen| {
            ListenerRules::new(listen, &settings.forward)
                .with_users(listen)
                .map_err(ExchangeSettingsError::Access)
        });
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let rule_set = ruling::compile(settings).map_err(ExchangeSettingsError::Rule)?;
        let asks_users =
            settings.forward.users_file.is_some() || listeners.iter().any(|rules| rules.users.is_some());
        let name = shown_name(settings);
        let own_proxy_status =
            HeaderValue::from_str(&name).map_err(|_| ExchangeSettingsError::Name(cache.name.clone()))?;
        Ok(Self {
            // targeted fields are for caches that work for the origin (RFC 9213, section 3.1), not
            // for any proxy
            forward_rules: CacheRules { targeted: Vec::new(), ..rules(cache, None) },
            site_rules: sites.iter().map(|site| rules(cache, Some(site))).collect(),
            collapse: cache.collapse,
            reload_interval: cache.reload_interval,
            prefetch: settings.prefetch.clone(),
            tag_fields: cache.tag_fields.iter().map(field).collect::<Result<_, _>>()?,
            name: name.clone(),
            hop: hop(&cache.name, identity),
            listeners,
            forward: Arc::new(
                ForwardRules::new(&settings.forward, own).map_err(ExchangeSettingsError::Access)?,
            ),
            forward_since: AtomicU64::new(0),
            access: ClientAccess::new(&rule_set, asks_users)?,
            rule_set,
            rules_number: RulesNumber::next(),
            routes: Routes::after(previous, &sites, identity).map_err(ExchangeSettingsError::Route)?,
            mirrors: Mirrors::new(settings)
                .map_err(|(index, why)| ExchangeSettingsError::Mirror(index, why))?,
            interception: Interception::new(settings).map_err(ExchangeSettingsError::Intercept)?,
            purge: PurgeRules::new(&settings.admin.purge_from),
            cluster: None,
            asks_homes: settings.cluster.placement == Placement::Hash,
            asks_holders: settings.cluster.placement == Placement::Directory,
            parents: ParentRules::new(settings),
            home_patience: settings.upstream.connect_timeout + settings.upstream.first_byte_timeout + MARGIN,
            loop_hop: loop_hop(settings, identity),
            hit_fields: HitFields::new(&hit_status(&name, None), &own_proxy_status),
            varying_hit_fields: HitFields::varying(&hit_status(&name, None), &own_proxy_status),
            coded_hit_fields: Coding::ALL.map(|coding| HitFields {
                coding: coding.name(),
                ..HitFields::varying(&hit_status(&name, Some(coding)), &own_proxy_status)
            }),
            compress: CompressRules::new(&settings.compress),
            surrogate_capability: HeaderValue::try_from(surrogate::capability(&cache.name)).ok(),
            own_proxy_status,
            peer_hit_lines: PeerHitLines::default(),
        })
    }

    /// Gives the settings this node's part in a cluster.
    pub fn enter_cluster(&mut self, cluster: Option<&Arc<ClusterHandle>>) {
        cluster.iter().for_each(|cluster| self.forward.guard_peers(cluster.door().members()));
        self.cluster = cluster.cloned();
        self.peer_hit_lines = PeerHitLines::of(self);
    }

    /// Returns `true` if a listener serves forward mode.
    pub fn serves_forward_mode(&self) -> bool {
        self.listeners.iter().any(|listener| listener.mode == Mode::Forward)
    }

    /// Returns `true` if the rules in force allowed the address of a stored response. Only
    /// responses fetched under these rules are known to be allowed. The host's name is checked with
    /// each request, but only a fetch knows the address.
    pub fn allowed_address(&self, head: &ResponseMetadata) -> bool {
        head.names.via_site || head.requested.number() >= self.forward_since.load(Relaxed)
    }

    /// Returns the site of the mirror of the registry that has this URL. Interception admits
    /// requests for it as that site's.
    pub fn mirror_of_origin(&self, target: &Target) -> Option<&Arc<Route>> {
        let scheme = if target.https { "https" } else { "http" };
        let (mirror, _) = self.mirrors.for_origin_url(scheme, target.authority(), target.path())?;
        self.routes.all().get(mirror.site)
    }

    /// Returns the site of an admitted request. Inside a CONNECT it is that of the registry's
    /// mirror, if there is one.
    pub(super) fn site_of<'a>(
        &'a self,
        granted: Option<&'a Arc<Route>>,
        target: &Target,
        client: &Client,
    ) -> Option<&'a Arc<Route>> {
        if client.intercepted.is_some() { self.mirror_of_origin(target) } else { granted }
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

fn hit_status(name: &str, coding: Option<Coding>) -> Box<[u8]> {
    let hit = CacheStatus {
        cache: name,
        handling: HandlingWay::Hit,
        ttl: Some(0),
        key: None,
        detail: None,
        coding,
    };
    let text = hit.to_bytes();
    text.strip_suffix(b"0").expect("a hit's status ends with its time to live").into()
}

/// Returns the name in Cache-Status and Proxy-Status. In a cluster the default name is followed by
/// that of the node. Each answer thus names the nodes that it came through.
fn shown_name(settings: &Settings) -> String {
    let name = &settings.cache.name;
    let Some(address) = peer_address(settings).filter(|_| *name == Cache::default().name) else {
        return name.clone();
    };
    let node = match settings.cluster.node.as_str() {
        "" => address.to_string(),
        node => node.to_owned(),
    };
    let is_fit = |char: char| char.is_ascii_alphanumeric() || "-._:".contains(char);
    let node: String = node.chars().map(|char| if is_fit(char) { char } else { '-' }).collect();
    format!("{name}-{node}")
}

/// Returns the name under which loops are found. All nodes of a cluster have one name: a request
/// that returns to another node of the cluster goes in a circle too.
fn loop_hop(settings: &Settings, identity: u64) -> String {
    match peer_address(settings) {
        Some(_) => {
            let number = Key::unkeyed(format!("cluster {}", settings.cluster.name).as_bytes()).low();
            format!("shoal-cluster-{:08x}", number as u32)
        }
        None => hop(&settings.cache.name, identity),
    }
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
            Self::Intercept(error) => write!(f, "{error}"),
            Self::Mirror(index, why) => write!(f, "mirror[{index}]: {why}"),
            Self::Name(name) => write!(f, "{name:?} cannot be used as a name"),
        }
    }
}

impl std::error::Error for ExchangeSettingsError {}

/// Time that a home has to pass its origin's failure on.
const MARGIN: Duration = Duration::from_secs(5);
