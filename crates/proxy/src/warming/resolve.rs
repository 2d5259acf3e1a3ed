//! From entries of a list to places at mirrors and sites of this node.
//!
//! A URL belongs to the mirror of the registry that it names, to this node's own address, or to a
//! site by its host. On demand, a listener in forward mode takes all others. Else they are refused
//! and named: a lockfile comes with a pull request, and shall not choose the hosts that are asked.

use super::WarmRequest;
use super::report::WarmReport;
use crate::exchange::ExchangeSettings;
use crate::message::target::Target;
use crate::mirror::{MirrorRoute, kind_of};
use shoal_mirrors::wanted::{IndexPage, ListEntry, Need, NeededFile, Wishes, need};
use shoal_mirrors::{Class, Fetch, Kind, Question, Route};
use shoal_settings::{Mode, Settings};
use std::net::SocketAddr;
use std::sync::Arc;

/// Work for one entry.
pub(super) struct EntryTask {
    /// Name of the entry.
    pub what: String,
    /// Place of the entry.
    pub place: TaskPlace,
}

/// Place of an entry.
pub(super) enum TaskPlace {
    /// At a mirror of this name.
    Mirror(String, Need),
    /// At a site, or anywhere by forward mode, through the listener of this number.
    Url(String, usize),
}

/// Place of a URL.
enum Spot<'a> {
    Mirror(&'a Arc<MirrorRoute>, String),
    Url(usize),
}

/// Knows the mirrors and sites.
pub(super) struct Resolver<'a> {
    live: &'a ExchangeSettings,
    /// Authorities of this node, in lower case.
    own: Vec<String>,
    any_host: bool,
    reverse: Option<usize>,
    forward: Option<usize>,
}

impl<'a> Resolver<'a> {
    /// Prepares for one request. `bound` has the addresses of the listeners, in their order.
    pub fn new(
        live: &'a ExchangeSettings,
        (settings, bound): (&Settings, &[SocketAddr]),
        request: &WarmRequest,
    ) -> Self {
        let listener = |mode: Mode| settings.listen.iter().position(|listen| listen.mode == mode);
        let reverse = settings.listen.iter().zip(bound).filter(|(listen, _)| listen.mode == Mode::Reverse);
        let own = reverse.flat_map(|(_, address)| {
            let (ip, port) = (address.ip(), address.port());
            let is_any = ip.is_unspecified();
            let local = [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
            let local = local.into_iter().filter(move |_| is_any || ip.is_loopback());
            local.chain([address.to_string()])
        });
        let at = request
            .at
            .iter()
            .filter_map(|url| Target::parse(url).ok().map(|target| target.authority().to_owned()));
        Self {
            live,
            own: own.chain(at).collect(),
            any_host: request.any_host,
            reverse: listener(Mode::Reverse),
            forward: listener(Mode::Forward),
        }
    }

    /// Resolves all entries.
    pub fn resolve(&self, wishes: Wishes) -> (Vec<EntryTask>, WarmReport) {
        let mut report = WarmReport::default();
        for left in &wishes.left_out {
            report.left_out.add(&left.what, left.why);
        }
        let mut tasks = Vec::with_capacity(wishes.wanted.len());
        for wanted in &wishes.wanted {
            match self.place(wanted) {
                Ok(place) => tasks.push(EntryTask { what: wanted.title(), place }),
                Err(why) => report.refused.add(&wanted.title(), why),
            }
        }
        report.entries = tasks.len() as u64;
        debug_assert_eq!(report.entries + report.refused.count, wishes.wanted.len() as u64, "none is lost");
        (tasks, report)
    }

    fn place(&self, wanted: &ListEntry) -> Result<TaskPlace, String> {
        let url = wanted.url.as_deref();
        let Some(kind) = wanted.kind else {
            let url = url.unwrap_or_default();
            return match self.spot(url).ok_or_else(|| self.stranger(url))? {
                Spot::Mirror(mirror, below) => Ok(at_mirror(mirror, of_url(mirror, &below, wanted))),
                Spot::Url(listener) => Ok(TaskPlace::Url(url.to_owned(), listener)),
            };
        };
        let spot = url.and_then(|url| self.spot(url));
        let registry = wanted.registry.as_deref().map(|registry| self.mirror_of(registry, kind));
        let (mirror, below) = match (registry, spot) {
            (Some(Some(mirror)), _) => (mirror, None),
            (None, Some(Spot::Mirror(mirror, below))) => (mirror, Some(below)),
            (None, None) if url.is_none() => (self.usual(wanted, kind)?, None),
            _ if self.any_host => (self.usual(wanted, kind)?, None),
            _ => return Err(self.stranger(wanted.registry.as_deref().or(url).unwrap_or_default())),
        };
        if let Some(why) = mirror.refuses_package(&wanted.name) {
            return Err(why.to_owned());
        }
        if kind_of(mirror.settings.kind) != kind {
            // A file of a package, kept at a mirror of files.
            let below = below.unwrap_or_default();
            return Ok(at_mirror(mirror, Need::of_file(&below, wanted)));
        }
        let of_file = || url.and_then(|url| mirror.registry.path_of_file(&mirror.as_registry(), url));
        let below = below.or_else(of_file);
        Ok(at_mirror(mirror, need(wanted, kind, below.as_deref())?))
    }

    /// Returns the mirror of a registry's URL.
    fn mirror_of(&self, registry: &str, kind: Kind) -> Option<&Arc<MirrorRoute>> {
        let plain = registry.strip_prefix("https://").filter(|_| kind == Kind::Oci);
        // A reference of an image says nothing of the scheme.
        let by_http = plain.map(|host| format!("http://{host}/"));
        let urls = [Some(format!("{registry}/")), by_http];
        urls.into_iter().flatten().find_map(|url| match self.spot(&url)? {
            Spot::Mirror(mirror, _) => (kind_of(mirror.settings.kind) == kind).then_some(mirror),
            Spot::Url(_) => None,
        })
    }

    /// Returns the mirror of a kind for a package of this name.
    fn usual(&self, wanted: &ListEntry, kind: Kind) -> Result<&Arc<MirrorRoute>, String> {
        let mirrors =
            || self.live.mirrors.all().iter().filter(|mirror| kind_of(mirror.settings.kind) == kind);
        let taking = mirrors().find(|mirror| mirror.refuses_package(&wanted.name).is_none());
        let first = || mirrors().find_map(|mirror| mirror.refuses_package(&wanted.name)).map(str::to_owned);
        taking.ok_or_else(|| first().unwrap_or_else(|| format!("no [[mirror]] of the kind {kind}")))
    }

    /// Returns the place of a URL at this node.
    fn spot(&self, url: &str) -> Option<Spot<'_>> {
        let target = Target::parse(url).ok()?;
        let scheme = if target.https { "https" } else { "http" };
        let (authority, path) = (target.authority(), target.path());
        if let Some((mirror, below)) = self.live.mirrors.for_origin_url(scheme, authority, path) {
            return Some(Spot::Mirror(mirror, below));
        }
        let site = self.live.routes.find(authority.as_bytes(), path);
        let mirror = site.and_then(|site| self.live.mirrors.of_site(site.site));
        match (site, mirror) {
            (_, Some(mirror)) if self.is_own(authority) || names(mirror, target.host()) => {
                Some(Spot::Mirror(mirror, mirror.below(path).to_owned()))
            }
            (Some(_), None) => self.reverse.map(Spot::Url),
            _ => self.forward.filter(|_| self.any_host).map(Spot::Url),
        }
    }

    fn is_own(&self, authority: &str) -> bool {
        self.own.iter().any(|own| own == authority)
    }

    fn stranger(&self, url: &str) -> String {
        let host = Target::parse(url).map_or_else(|_| url.to_owned(), |target| target.authority().to_owned());
        format!("{host} is no mirror's registry, no site, and not this node's address")
    }
}

/// Returns `true` if the settings of a mirror name a host.
fn names(mirror: &MirrorRoute, host: &str) -> bool {
    mirror.settings.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
}

fn at_mirror(mirror: &MirrorRoute, need: Need) -> TaskPlace {
    TaskPlace::Mirror(mirror.settings.name().to_owned(), need)
}

/// Returns the need of a URL at a mirror: a page, which is validated, or a file.
fn of_url(mirror: &MirrorRoute, below: &str, wanted: &ListEntry) -> Need {
    let (path, query) = below.split_once('?').map_or((below, None), |(path, query)| (path, Some(query)));
    let question = Question { method: "GET", path, query, field: &|_| None };
    match mirror.registry.route(&mirror.as_registry(), &question) {
        Route::Fetch(Fetch { class: Class::Document(_), .. }) => {
            Need { pages: vec![IndexPage { path: below.to_owned(), accept: None }], ..Need::default() }
        }
        _ => Need {
            files: vec![NeededFile {
                path: below.to_owned(),
                check: wanted.check.clone(),
                size: wanted.size,
                may_lack: false,
            }],
            ..Need::default()
        },
    }
}
