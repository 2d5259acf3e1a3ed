//! Mirrors of package registries: the settings of each, ready for requests.
//!
//! `shoal_mirrors` knows the registries. The exchange asks it for the meaning of a request before
//! the key is made ([`crate::exchange`], `mirrored`). This module has the parts without state:
//!
//! ```text
//!   table, this file   request's place ─► mirror, path below it
//!   shape              fields of an origin's response ─► fields that are stored and sent
//!   checked            body ─► the same body, its last block held back until the digest agrees
//!   checked_part  part of a body under a check
//!   derived            stored document ─► the form for one client
//!   entity_tag         the validator of that form
//!   asked              meaning of one request
//!   policy             packages that are refused
//!   rights             clients that the registry has let in
//!   bodies             places of bodies by digest
//!   held               objects in a store ─► their mirror, checked against their promises
//! ```

#![forbid(unsafe_code)]

mod asked;
mod bodies;
mod checked;
mod checked_part;
mod derived;
mod entity_tag;
mod held;
mod index_version;
mod inflated;
mod policy;
mod rights;
mod shape;
mod tokens;

pub use asked::{FetchSource, MirroredAsk, PromiseLookup};
pub use checked::{BodyCheck, VerifiedBody};
pub use checked_part::CheckedPart;
pub use derived::{DerivedBody, read_promise, read_survey};
pub use entity_tag::{FETCHED, entity_tag};
pub use held::{HeldCounts, HeldFinding, VerifyCounts, count_held, verify_held};
pub use index_version::IndexVersion;
pub use shape::shape;

use shoal_access as access;
use shoal_cache::metadata;
use shoal_clock as clock;
use shoal_message as message;
use shoal_route as route;
use shoal_telemetry::metrics;
use shoal_upstream as upstream;

use crate::access::{HostPattern, HostPatterns};
use crate::message::target::Target;
use crate::route::{Route, Routes};
use http::HeaderValue;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use shoal_mirrors::generations::Generations;
use shoal_mirrors::url::plain_path;
use shoal_mirrors::{Form, Kind, Mirror, Registry, RootClaim};
use shoal_rules::normal_path;
use shoal_settings::{MirrorKind, MirrorRights, Settings};
use std::sync::Arc;

/// All mirrors of the settings.
#[derive(Default)]
pub struct Mirrors {
    all: Vec<Arc<MirrorRoute>>,
    /// Number of the first mirror's site.
    first_site: usize,
}

/// One mirror.
pub struct MirrorRoute {
    /// Settings of the mirror.
    pub settings: shoal_settings::Mirror,
    /// Code of its kind.
    pub registry: &'static dyn Registry,
    /// Path without a slash at its end; empty for the root.
    pub path: String,
    /// Number of its site.
    pub site: usize,
    /// Tokens that the registry has given.
    pub tokens: tokens::Tokens,
    /// Releases of an archive, and the lists that belong to them.
    pub generations: Mutex<Generations>,
    /// The index of the registry, as this node last saw it.
    pub index_version: Mutex<IndexVersion>,
    /// Clients that the registry has let in.
    pub rights: rights::Rights,
    /// Places of bodies by digest.
    pub bodies: bodies::BodyPlaces,
    /// Last challenge of the registry to clients that look for it.
    pub challenge: Mutex<Option<HeaderValue>>,
    file_hosts: HostPatterns,
    patterns: policy::PackagePatterns,
    /// Part of the keys of its answers. Mirrors that check alike and have the same rights share it.
    pub realm: Box<str>,
}

impl Mirrors {
    /// Prepares the mirrors of these settings.
    ///
    /// # Errors
    /// Names the first mirror that cannot be served, and why.
    pub fn new(settings: &Settings) -> Result<Self, (usize, String)> {
        let first_site = settings.site.len();
        let mirrors = settings.mirror.iter().enumerate();
        let all = mirrors.map(|(index, mirror)| {
            let kind = kind_of(mirror.kind);
            let registry = shoal_mirrors::registries::of(kind);
            let patterns = mirror.file_hosts.iter().map(|host| HostPattern::parse(host));
            let patterns = patterns.collect::<Result<Vec<_>, _>>().map_err(|why| (index, why.to_string()))?;
            let knows_times = Form::ALL_DOCUMENTS.iter().any(|form| registry.dated(*form).is_some());
            if !mirror.minimum_age.is_zero() && !knows_times {
                return Err((index, format!("minimum_age: mirrors of the kind {kind} know no times yet")));
            }
            let others = settings
                .mirror
                .iter()
                .filter(|other| other.kind == mirror.kind && other.name() != mirror.name());
            Ok(Arc::new(MirrorRoute {
                registry,
                path: mirror.path(),
                site: first_site + index,
                tokens: tokens::Tokens::default(),
                generations: Mutex::default(),
                index_version: Mutex::default(),
                rights: rights::Rights::default(),
                challenge: Mutex::default(),
                bodies: bodies::BodyPlaces::default(),
                file_hosts: patterns.into_iter().collect(),
                patterns: policy::PackagePatterns::new(registry, mirror, others),
                realm: realm_of(mirror).into(),
                settings: mirror.clone(),
            }))
        });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        debug_assert_eq!(first_site + all.len(), settings.all_sites().len(), "a site for each mirror");
        Ok(Self { all, first_site })
    }

    /// Returns `true` without any mirror.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns all mirrors, in the order of the settings.
    pub fn all(&self) -> &[Arc<MirrorRoute>] {
        &self.all
    }

    /// Returns the mirror of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<MirrorRoute>> {
        self.all.iter().find(|mirror| mirror.settings.name() == name)
    }

    /// Returns the mirror that is served by the site of this number.
    pub fn of_site(&self, site: usize) -> Option<&Arc<MirrorRoute>> {
        self.all.get(site.checked_sub(self.first_site)?)
    }

    /// Returns the site of the mirror with clients that ask for `path` at the root of `host`, and
    /// may name a registry in the query. If two mirrors could answer, neither does.
    pub fn at_root<'r>(&self, routes: &'r Routes, host: &[u8], path: &str) -> Option<&'r Arc<Route>> {
        let (plain, query) = path.split_once('?').unwrap_or((path, ""));
        let namespace = query.split('&').find_map(|pair| pair.strip_prefix("ns="));
        let claims = self.all.iter().filter_map(|mirror| {
            let claim = match (mirror.registry.root_claim(&mirror.path, plain), namespace) {
                (RootClaim::OfKind, Some(name)) => mirror.claim_of(name),
                (claim, _) => claim,
            };
            let is_of_host = || {
                let below = format!("{}/", mirror.path);
                routes.find(host, &below).is_some_and(|route| route.site == mirror.site)
            };
            (claim > RootClaim::None && is_of_host()).then_some((claim, mirror.site))
        });
        let claims: Vec<(RootClaim, usize)> = claims.collect();
        let best = claims.iter().map(|(claim, _)| *claim).max()?;
        let mut serving = claims.iter().filter(|(claim, _)| *claim == best);
        let (_, site) = serving.next()?;
        debug_assert!(routes.all().len() > *site, "the mirrors of these routes");
        routes.all().get(*site).filter(|_| serving.next().is_none())
    }

    /// Returns the parts of keys that answers of the mirrors have, each once.
    pub fn realms(&self) -> impl Iterator<Item = &str> {
        let is_first = |(index, mirror): &(usize, &Arc<MirrorRoute>)| {
            !self.all[..*index].iter().any(|other| other.realm == mirror.realm)
        };
        self.all.iter().enumerate().filter(is_first).map(|(_, mirror)| &*mirror.realm)
    }

    /// Returns the mirror of the registry to which a URL belongs, and the URL's path below the
    /// mirror. Interception shares the keys, digests and rules of that mirror. A file of another
    /// host belongs to the mirror with this host in its settings.
    pub fn for_origin_url(
        &self,
        scheme: &str,
        host: &str,
        path: &str,
    ) -> Option<(&Arc<MirrorRoute>, String)> {
        if !self.all.iter().any(|mirror| mirror.may_keep_files(scheme, host)) {
            return None;
        }
        // Another spelling is no way round the rules of the mirror.
        let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        let path = &*format!("{}{query}", normal_path(path));
        let registry = self.all.iter().find_map(|mirror| {
            let rest = mirror.below_upstream(scheme, host, path)?;
            Some((mirror, mirror.registry.path_of_place(&mirror.as_registry(), &rest)))
        });
        registry.or_else(|| {
            let url = format!("{scheme}://{host}{path}");
            self.all
                .iter()
                .filter(|mirror| mirror.may_keep_files(scheme, host))
                .find_map(|mirror| Some((mirror, mirror.registry.path_of_file(&mirror.as_registry(), &url)?)))
        })
    }
}

impl MirrorRoute {
    /// Returns the facts for the registry's code, for clients that asked at this origin: scheme and
    /// authority.
    pub fn facts(&self, origin: &str) -> Mirror {
        debug_assert!(origin.contains("://") && !origin.ends_with('/'), "scheme and authority");
        debug_assert!(self.path.is_empty() || self.path.starts_with('/'), "a path");
        Mirror { external: format!("{origin}{}", self.path), upstream: self.settings.upstream().to_owned() }
    }

    /// Returns the facts for clients that ask by the registry's own URLs.
    pub fn as_registry(&self) -> Mirror {
        let upstream = self.settings.upstream().to_owned();
        Mirror { external: upstream.clone(), upstream }
    }

    /// Returns the mirror's claim on requests for images of the registry that clients call so.
    fn claim_of(&self, namespace: &str) -> RootClaim {
        let names = &self.settings.namespaces;
        match names.iter().any(|name| name.eq_ignore_ascii_case(namespace)) {
            true => RootClaim::ByName,
            false if names.is_empty() => RootClaim::OfKind,
            false => RootClaim::None,
        }
    }

    /// Returns `true` if the registry is asked whether a client may have its answers.
    pub fn asks_for_rights(&self) -> bool {
        self.settings.rights == MirrorRights::Client
    }

    /// Returns scheme, authority without a default port, and path of the registry.
    fn registry_parts(&self) -> Option<(&str, &str, &str)> {
        let (scheme, rest) = self.settings.upstream().split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        Some((scheme, host.strip_suffix(default).unwrap_or(host), path))
    }

    /// Returns the path below the registry's of a URL with this authority and a path in normal
    /// form; it begins with a slash.
    fn below_upstream(&self, scheme: &str, host: &str, path: &str) -> Option<String> {
        let (own_scheme, own_host, own_path) = self.registry_parts()?;
        let is_same = own_scheme.eq_ignore_ascii_case(scheme) && own_host.eq_ignore_ascii_case(host);
        let below = path.strip_prefix(&*normal_path(own_path)).filter(|_| is_same)?;
        match below.as_bytes().first() {
            Some(b'/') => Some(below.to_owned()),
            None | Some(b'?') => Some(format!("/{below}")),
            _ => None,
        }
    }

    /// Returns `true` if files of the registry may stand at this authority: the registry's own, or
    /// one that the settings name.
    fn may_keep_files(&self, scheme: &str, authority: &str) -> bool {
        let is_own = self.registry_parts().is_some_and(|(own_scheme, own_host, _)| {
            own_scheme.eq_ignore_ascii_case(scheme) && own_host.eq_ignore_ascii_case(authority)
        });
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        is_own || self.allows_files_of(host)
    }

    /// Returns the path below the mirror's own, with its query. At the root it is the whole path.
    pub fn below<'p>(&self, path: &'p str) -> &'p str {
        match path.strip_prefix(&*self.path) {
            Some("") => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        }
    }

    /// Returns a path below the mirror, with its query, in one spelling. `None` if an origin could
    /// take it for the path of something else.
    pub fn plain(&self, below: &str) -> Option<String> {
        let (path, query) = below.split_at(below.find('?').unwrap_or(below.len()));
        plain_path(path, self.registry.hides_slashes()).map(|path| format!("{path}{query}"))
    }

    /// Returns `true` if files of this URL's host may be fetched although no document names them.
    pub fn allows_files_at(&self, url: &str) -> bool {
        Target::parse(url).is_ok_and(|target| self.allows_files_of(target.host()))
    }

    /// Returns `true` if the settings name a host of files.
    fn allows_files_of(&self, host: &str) -> bool {
        self.file_hosts.match_name(host)
    }
}

/// Returns the part of keys that tells mirrors of one registry apart: by their kind, which decides
/// about checks, and by their credentials or those of clients, which open different answers.
fn realm_of(mirror: &shoal_settings::Mirror) -> String {
    let kind = mirror.kind.name();
    if mirror.rights == MirrorRights::Client {
        return format!("{kind}-client");
    }
    let Some(credentials) = &mirror.credentials else { return kind.to_owned() };
    let digest = digest(&SHA256, credentials.as_os_str().as_encoded_bytes());
    let hex: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{hex}")
}

/// Returns the kind that a setting names.
pub fn kind_of(kind: MirrorKind) -> Kind {
    match kind {
        MirrorKind::Npm => Kind::Npm,
        MirrorKind::Pypi => Kind::Pypi,
        MirrorKind::Cargo => Kind::Cargo,
        MirrorKind::Go => Kind::Go,
        MirrorKind::Maven => Kind::Maven,
        MirrorKind::Deb => Kind::Deb,
        MirrorKind::RubyGems => Kind::RubyGems,
        MirrorKind::Oci => Kind::Oci,
        MirrorKind::Generic => Kind::Generic,
        MirrorKind::BuildCache => Kind::BuildCache,
    }
}

#[cfg(test)]
mod tests;
