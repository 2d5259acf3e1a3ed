//! Mirrors of package registries: the settings of each, ready for requests.
//!
//! `shoal_mirrors` knows the registries. The exchange asks it for the meaning of a request before
//! the key is made ([`crate::exchange`], `mirrored`). This module has the parts without state:
//!
//! ```text
//!   table, this file   request's place ─► mirror, path below it
//!   shape              fields of an origin's response ─► fields that are stored and sent
//!   checked            body ─► the same body, its last block held back until the digest agrees
//!   derived            stored document ─► the form for one client
//!   entity_tag         the validator of that form
//!   asked              meaning of one request
//!   policy             packages that are refused
//! ```

mod asked;
mod checked;
mod derived;
mod entity_tag;
mod inflated;
mod policy;
mod shape;
mod tokens;

pub(crate) use asked::{FetchSource, MirroredAsk, PromiseLookup};
pub(crate) use checked::{BodyCheck, VerifiedBody};
pub(crate) use derived::{DerivedBody, read_promise, read_survey};
pub(crate) use entity_tag::{FETCHED, entity_tag};
pub(crate) use shape::shape;

use crate::access::{HostPattern, HostPatterns};
use crate::exchange::target::Target;
use crate::route::{Route, Routes};
use shoal_mirrors::{Form, Kind, Mirror, Registry, RootClaim};
use shoal_settings::{MirrorKind, Settings};
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
    pub(crate) tokens: tokens::Tokens,
    file_hosts: HostPatterns,
    /// Patterns of packages that other mirrors of the kind own.
    owned_elsewhere: Vec<String>,
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
                file_hosts: patterns.into_iter().collect(),
                owned_elsewhere: others.flat_map(|other| other.owned.iter().cloned()).collect(),
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

    /// Returns the site of the mirror with clients that ask for `path` at the root of `host`. If
    /// two mirrors could answer, neither does.
    pub fn at_root<'r>(&self, routes: &'r Routes, host: &[u8], path: &str) -> Option<&'r Arc<Route>> {
        let plain = path.split('?').next()?;
        let claims = self.all.iter().filter_map(|mirror| {
            let claim = mirror.registry.root_claim(&mirror.path, plain);
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

    /// Returns the mirror of the registry to which a URL belongs, and the URL's path below the
    /// mirror. Interception shares the keys, digests and rules of that mirror. A file of another
    /// host belongs to the mirror with this host in its settings.
    pub fn for_origin_url(
        &self,
        scheme: &str,
        host: &str,
        path: &str,
    ) -> Option<(&Arc<MirrorRoute>, String)> {
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

    /// Returns scheme, authority without a default port, and path of the registry.
    fn registry_parts(&self) -> Option<(&str, &str, &str)> {
        let (scheme, rest) = self.settings.upstream().split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        Some((scheme, host.strip_suffix(default).unwrap_or(host), path))
    }

    /// Returns the path below the registry's of a URL with this authority; it begins with a slash.
    fn below_upstream(&self, scheme: &str, host: &str, path: &str) -> Option<String> {
        let (own_scheme, own_host, own_path) = self.registry_parts()?;
        let is_same = own_scheme.eq_ignore_ascii_case(scheme) && own_host.eq_ignore_ascii_case(host);
        let below = path.strip_prefix(own_path).filter(|_| is_same)?;
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

    /// Returns `true` if files of this URL's host may be fetched although no document names them.
    pub fn allows_files_at(&self, url: &str) -> bool {
        Target::parse(url).is_ok_and(|target| self.allows_files_of(target.host()))
    }

    /// Returns `true` if the settings name a host of files.
    fn allows_files_of(&self, host: &str) -> bool {
        self.file_hosts.match_name(host)
    }
}

/// Returns the kind that a setting names.
pub(crate) fn kind_of(kind: MirrorKind) -> Kind {
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
