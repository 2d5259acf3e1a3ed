//! Settings of mirrors.

use super::{Site, UpstreamServer};
use std::path::PathBuf;
use std::time::Duration;

entry! {
    /// One mirror of a package registry, for clients of reverse listeners. Clients get the lines
    /// for their settings from `shoal mirror lines`.
    pub struct Mirror {
        /// Kind of the registry.
        pub kind: MirrorKind,
        /// URL of the registry, perhaps with a path. `shoal run --mirror KIND` asks the tool of
        /// this machine for the one that it uses. A build cache has none.
        pub upstream: String = String::new(),
        /// Name of the mirror, and its path: `/NAME`. `none` means the name of the kind. Several
        /// mirrors of one kind need names.
        pub name: Option<String> = None,
        /// Host names under which the mirror is served; `*` is any host.
        pub hosts: Vec<String> = vec!["*".into()],
        /// Path under which the mirror is served. `none` means `/NAME`; with `hosts` of its own, a
        /// mirror may have `/`.
        pub path: Option<String> = None,
        /// File with the credentials of this node at the registry, as `credentials` of an upstream.
        /// The Authorization of clients then reaches no registry. Clients share the answers that
        /// these credentials open: limit them by `allow_clients` of the `[[listen]]`.
        pub credentials: Option<PathBuf> = None,
        /// Further paths at the registry's host below which `credentials`, or those of clients, are
        /// sent. Without them, that is the path of `upstream` alone. Of an index for Python or
        /// cargo, it is the path above a last part `simple` or `index`.
        pub credentials_below: Vec<String> = Vec::new(),
        /// Way in which the registry says which clients may have its answers. With `client` it gets
        /// the Authorization of each client, and a stored answer is served after it has let that
        /// client in.
        pub rights: MirrorRights = MirrorRights::Shared,
        /// Time for which the registry's word about one client and one package is remembered. While
        /// the registry cannot be reached, it holds for `stale`.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub rights_lifetime: Duration = Duration::from_secs(600),
        /// Time for which the registry's refusal of one client and one package is remembered.
        #[limits(Duration::ZERO..=Duration::from_secs(600))]
        pub refusal_lifetime: Duration = Duration::from_secs(10),
        /// Further certificate authorities of the registry and of `file_hosts`, PEM. They are
        /// trusted for these hosts alone; `upstream.ca_file` is trusted for every origin.
        #[takes_effect(restart)]
        pub ca_file: Option<PathBuf> = None,
        /// Time for which an index document is used without asking the registry.
        #[limits(Duration::from_secs(1)..=Duration::from_secs(30 * 86_400))]
        pub index_lifetime: Duration = Duration::from_secs(300),
        /// Time for which the absence of a document or file (404, 410) is remembered.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub absence_lifetime: Duration = Duration::from_secs(60),
        /// Time after its lifetime for which a document stands in while the registry fails or
        /// answers 429.
        #[limits(Duration::ZERO..=Duration::from_secs(365 * 86_400))]
        pub stale: Duration = Duration::from_secs(30 * 86_400),
        /// Answer from the cache alone: stored documents at any age, and 504 for the rest.
        pub offline: bool = false,
        /// Least age of a release by its publication time. Younger versions are left out of indexes
        /// and their files are refused; a version without a known time is refused too. 0 for no
        /// such rule.
        #[limits(Duration::ZERO..=Duration::from_secs(3650 * 86_400))]
        pub minimum_age: Duration = Duration::ZERO,
        /// Checksum database of Go that the registry serves below `/sumdb/`, by name: its record is
        /// asked for before a zip or `go.mod` is fetched, and checks it. `ziphash` means the files
        /// of this extension beside zips. With `none`, records that clients have asked for check
        /// files.
        pub checksum_database: Option<String> = None,
        /// Packages without `minimum_age`; `*` at the end of a name matches the rest.
        pub minimum_age_except: Vec<String> = Vec::new(),
        /// Packages that this mirror alone answers for; `*` at the end of a name matches the rest.
        /// Other mirrors of the kind refuse them.
        pub owned: Vec<String> = Vec::new(),
        /// Packages that are refused with 403; `*` at the end of a name matches the rest.
        pub refuse: Vec<String> = Vec::new(),
        /// Packages that stay on disk, with their index, when space is made for others, up to
        /// `store.pin_max`; `*` at the end of a name matches the rest. Takes `store.architecture =
        /// "volume"`.
        pub pin: Vec<String> = Vec::new(),
        /// Names by which clients of images call the registry, as containerd does in `ns`. A client
        /// that names another registry gets 404. Without names, the mirror answers for all.
        pub namespaces: Vec<String> = Vec::new(),
        /// Hosts, other than the registry's, from which files may be fetched although no document
        /// names them. Names, or `*.suffix`.
        pub file_hosts: Vec<String> = Vec::new(),
    }
    example { Self::of(MirrorKind::Npm, "https://registry.example.org") }
}

choice! {
    /// Way in which a registry says which clients may have its answers.
    pub enum MirrorRights {
        /// All clients share the answers of this node.
        Shared = "shared",
        /// The registry is asked for each client, with that client's Authorization.
        Client = "client",
    }
}

choice! {
    /// Kind of a package registry.
    pub enum MirrorKind {
        /// npm, pnpm, Yarn, Bun.
        Npm = "npm",
        /// pip, uv, poetry.
        Pypi = "pypi",
        /// cargo's sparse index and crate files.
        Cargo = "cargo",
        /// Go's module proxy and checksum database.
        Go = "go",
        /// Maven and Gradle.
        Maven = "maven",
        /// apt.
        Deb = "deb",
        /// bundler and gem.
        RubyGems = "rubygems",
        /// Container images.
        Oci = "oci",
        /// Files by URL: toolchains, releases.
        Generic = "generic",
        /// Build caches that clients also write.
        BuildCache = "buildcache",
    }
}

impl Mirror {
    /// Makes a mirror of this registry with the defaults.
    pub fn of(kind: MirrorKind, upstream: &str) -> Self {
        Self {
            kind,
            upstream: upstream.to_owned(),
            name: None,
            hosts: vec!["*".into()],
            path: None,
            credentials: None,
            credentials_below: Vec::new(),
            rights: MirrorRights::Shared,
            rights_lifetime: Duration::from_secs(600),
            refusal_lifetime: Duration::from_secs(10),
            ca_file: None,
            index_lifetime: Duration::from_secs(300),
            absence_lifetime: Duration::from_secs(60),
            stale: Duration::from_secs(30 * 86_400),
            offline: false,
            minimum_age: Duration::ZERO,
            minimum_age_except: Vec::new(),
            checksum_database: None,
            owned: Vec::new(),
            refuse: Vec::new(),
            pin: Vec::new(),
            namespaces: Vec::new(),
            file_hosts: Vec::new(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// Returns the path without a slash at its end; empty for the root.
    pub fn path(&self) -> String {
        let path = self.path.clone().unwrap_or_else(|| format!("/{}", self.name()));
        path.trim_end_matches('/').to_owned()
    }

    /// Returns the upstream without a slash at its end.
    pub fn upstream(&self) -> &str {
        self.upstream.trim_end_matches('/')
    }

    /// Returns scheme and authority of the upstream. Documents name files anywhere below.
    pub fn upstream_origin(&self) -> &str {
        let upstream = self.upstream();
        let authority = upstream.find("://").map_or(0, |place| place + 3);
        let end = upstream[authority..].find('/').map_or(upstream.len(), |place| authority + place);
        &upstream[..end]
    }

    /// Returns the paths at the registry's host below which credentials are sent; none means all.
    pub fn credential_paths(&self) -> Vec<String> {
        let path = &self.upstream()[self.upstream_origin().len()..];
        let own = match (self.kind, path.rsplit_once('/')) {
            (MirrorKind::Pypi, Some((above, "simple" | "+simple"))) => above,
            (MirrorKind::Cargo, Some((above, "index"))) => above,
            _ => path,
        };
        match own {
            "" => Vec::new(),
            own => std::iter::once(own.to_owned()).chain(self.credentials_below.clone()).collect(),
        }
    }

    /// Returns the site under which the mirror is served.
    pub fn site(&self) -> Site {
        let path = self.path();
        Site {
            hosts: self.hosts.clone(),
            path_prefix: if path.is_empty() { "/".into() } else { path },
            upstreams: vec![UpstreamServer {
                credentials: self.credentials.clone(),
                credentials_below: self.credential_paths(),
                ..UpstreamServer::at(self.upstream_origin())
            }],
            via: false,
            rewrite_location: Some(false),
            ..Site::to(self.upstream_origin())
        }
    }
}
