//! Rules between settings, beyond the type and limits of each setting.
//!
//! A rule reports nothing about a setting with an earlier mistake, since the setting's value is
//! then not the intended one.

mod acme;
mod admin;
mod cluster;
mod compress;
mod edge;
mod intercept;
mod mirrors;
mod neighbours;

use crate::host::{
    check_authority, check_destination, check_host, check_host_pattern, check_upstream_url, is_token,
};
use crate::mistake::{Mistakes, closest};
use crate::tree::Table;
use crate::{AdminAddress, LogTarget, LogTemplate, Mode, Settings, Site, Store, collector};
use shoal_core::ByteCount;
use std::path::Path;
use std::time::Duration;

/// Checks the rules between `settings`, which were read from `table`, and notes each violation.
pub(crate) fn check(
    settings: &Settings,
    table: &Table,
    readable: &dyn Fn(&Path) -> Result<(), String>,
    mistakes: &mut Mistakes,
) {
    let mut rules = Rules { table, mistakes };
    rules.listeners(settings);
    rules.modes(settings);
    for (index, site) in settings.site.iter().enumerate() {
        rules.site(index, site, &settings.site[..index]);
    }
    rules.mirrors(settings);
    rules.forward(settings);
    rules.acme(settings);
    rules.classical_hosts(&settings.upstream.classical_hosts);
    rules.intercept(settings);
    rules.cache(settings);
    rules.compress(settings);
    rules.store(settings);
    rules.cluster(settings);
    rules.files(settings, readable);
    rules.without_effect(settings);
    rules.neighbours(settings);
    rules.admin(settings);
    rules.log(settings);
}

struct Rules<'a> {
    table: &'a Table,
    mistakes: &'a mut Mistakes,
}

impl Rules<'_> {
    fn fault(&mut self, key: &str, message: impl Into<String>) {
        self.fault_with(key, message, None);
    }

    fn fault_with(&mut self, key: &str, message: impl Into<String>, hint: Option<String>) {
        if !self.mistakes.touches(key) {
            self.mistakes.note(&self.table.locate(key), key, message, hint);
        }
    }

    fn result(&mut self, key: &str, result: Result<(), String>) {
        if let Err(message) = result {
            self.fault(key, message);
        }
    }

    fn cluster(&mut self, settings: &Settings) {
        cluster::check(self, settings);
    }

    fn log(&mut self, settings: &Settings) {
        let log = &settings.log;
        let target = LogTarget::parse(&log.access);
        if !log.template.is_empty() {
            self.result("log.template", LogTemplate::parse(&log.template).map(drop));
        }
        let rotates =
            [("log.rotate_size", log.rotate_size.0 > 0), ("log.rotate_age", log.rotate_age > Duration::ZERO)];
        if target.as_ref().is_ok_and(|target| target.file().is_none()) {
            for (key, _) in rotates.into_iter().filter(|(_, is_set)| *is_set) {
                self.fault_with(key, "only a file is rotated", Some("name a file in log.access".into()));
            }
        }
        self.result("log.access", target.map(drop));
        if !settings.otlp.endpoint.is_empty() {
            self.result("otlp.endpoint", collector(&settings.otlp.endpoint).map(drop));
        }
    }

    fn listeners(&mut self, settings: &Settings) {
        if settings.listen.is_empty() {
            self.fault("listen", "there must be at least one listener");
        }
        for (index, listen) in settings.listen.iter().enumerate() {
            let earlier = &settings.listen[..index];
            if listen.client_ca.is_some() && !listen.is_tls() {
                let hint = Some("add [[listen.tls]] with a certificate and a key".into());
                let key = format!("listen[{index}].client_ca");
                self.fault_with(&key, "clients present certificates over TLS alone", hint);
            }
            self.edge(index, listen);
            if !is_realm(&listen.realm) {
                self.fault(&format!("listen[{index}].realm"), BAD_REALM);
            }
            // Port 0 takes a free port, a different one each time.
            if listen.address.port() != 0 && earlier.iter().any(|other| other.address == listen.address) {
                self.fault(
                    &format!("listen[{index}].address"),
                    format!("{} is listened on twice", listen.address),
                );
            }
        }
        if let Some(AdminAddress::Tcp(admin)) = &settings.admin.listen
            && admin.port() != 0
            && settings.listen.iter().any(|listen| listen.address == *admin)
        {
            self.fault("admin.listen", format!("{admin} is a listener for clients too"));
        }
        for (index, host) in settings.admin.hosts.iter().enumerate() {
            self.result(&format!("admin.hosts[{index}]"), check_host(host));
        }
    }

    fn modes(&mut self, settings: &Settings) {
        let reverse = settings.listen.iter().position(|listen| listen.mode == Mode::Reverse);
        let has_no_site = settings.site.is_empty() && settings.mirror.is_empty();
        match reverse {
            Some(index)
                if has_no_site && !self.mistakes.touches("site") && !self.mistakes.touches("mirror") =>
            {
                self.fault_with(
                    &format!("listen[{index}].mode"),
                    "a reverse listener without a site to serve",
                    Some("add a [[site]] or a [[mirror]]".into()),
                )
            }
            None if !has_no_site && !self.mistakes.touches("listen") => self.fault_with(
                if settings.site.is_empty() { "mirror[0]" } else { "site[0]" },
                "no listener would serve it",
                Some("set the mode of a [[listen]] to \"reverse\"".into()),
            ),
            _ => {}
        }
    }

    fn site(&mut self, index: usize, site: &Site, earlier: &[Site]) {
        let at = |name: &str| format!("site[{index}].{name}");
        if site.hosts.is_empty() {
            self.fault(&at("hosts"), "a site needs at least one host; \"*\" is any");
        }
        for (number, host) in site.hosts.iter().enumerate() {
            let key = format!("site[{index}].hosts[{number}]");
            self.result(&key, check_host_pattern(host));
            let taken = earlier
                .iter()
                .any(|other| other.path_prefix == site.path_prefix && other.hosts.contains(host))
                || site.hosts[..number].contains(host);
            if taken {
                self.fault(
                    &key,
                    format!("{host:?} with path prefix {:?} is served already", site.path_prefix),
                );
            }
        }
        self.result(&at("path_prefix"), check_path(&site.path_prefix));
        if site.upstreams.is_empty() {
            self.fault(&at("upstreams"), "a site needs at least one upstream");
        }
        for (number, upstream) in site.upstreams.iter().enumerate() {
            let key = |name: &str| format!("site[{index}].upstreams[{number}].{name}");
            match check_upstream_url(&upstream.url) {
                Err(message) => self.fault(&key("url"), message),
                Ok(true) if upstream.h2c => {
                    self.fault(&key("h2c"), "h2c is HTTP/2 without TLS, and this upstream is https");
                }
                Ok(is_tls) => {
                    if upstream.server_name.is_some() && !is_tls {
                        self.fault(&key("server_name"), "only an https upstream has a name in TLS");
                    }
                }
            }
            self.result(&key("host"), upstream.host.as_deref().map_or(Ok(()), check_authority));
            self.result(&key("server_name"), upstream.server_name.as_deref().map_or(Ok(()), check_host));
        }
        if let Some(health) = &site.health {
            self.result(&at("health.path"), check_path(&health.path));
        }
    }

    /// Refuses lists of `[forward]` that no listener would apply, since their author believes that
    /// they protect something.
    fn without_effect(&mut self, settings: &Settings) {
        if settings.listen.is_empty() || self.mistakes.touches("listen") {
            return;
        }
        let mut forward = settings.listen.iter().filter(|listen| listen.mode == Mode::Forward).peekable();
        if forward.peek().is_none() {
            // Mirrors connect to the hosts that documents name, under the rules for destinations.
            let holds_for_mirrors =
                |name: &str| !settings.mirror.is_empty() && name.ends_with("_destinations");
            let is_useless = |name: &&&str| self.table.holds("forward", name) && !holds_for_mirrors(name);
            for name in FORWARD_RULES.iter().filter(is_useless) {
                let hint = match *name {
                    "allow_clients" => "set allow_clients in [[listen]], which holds in reverse mode too",
                    _ => "remove it, or add a [[listen]] in forward mode",
                };
                let message = "no listener is in forward mode, so that it would have no effect";
                self.fault_with(&format!("forward.{name}"), message, Some(hint.into()));
            }
        } else if forward.all(|listen| listen.allow_clients.is_some())
            && self.table.holds("forward", "allow_clients")
        {
            self.fault_with(
                "forward.allow_clients",
                "every listener in forward mode has a list of its own, so that it would have no effect",
                Some("remove it, or allow_clients in a [[listen]]".into()),
            );
        }
    }

    fn forward(&mut self, settings: &Settings) {
        let forward = &settings.forward;
        let lists = [
            ("deny_destinations", &forward.deny_destinations),
            ("allow_private_destinations", &forward.allow_private_destinations),
        ];
        for (name, list) in lists {
            for (index, destination) in list.iter().enumerate() {
                self.result(&format!("forward.{name}[{index}]"), check_destination(destination));
            }
        }
        for (index, port) in forward.connect_ports.iter().enumerate() {
            if *port == 0 {
                self.fault(&format!("forward.connect_ports[{index}]"), "ports are 1 to 65535");
            }
        }
        if !is_realm(&forward.realm) {
            self.fault("forward.realm", BAD_REALM);
        }
    }

    fn cache(&mut self, settings: &Settings) {
        let cache = &settings.cache;
        if cache.ram_object_max > cache.ram && !self.mistakes.touches("cache.ram") {
            let message = format!("{} is more than cache.ram, {}", cache.ram_object_max, cache.ram);
            self.fault("cache.ram_object_max", message);
        }
        self.one_of("cache.ram_policy", "replacement policy", &cache.ram_policy, REPLACEMENTS);
        // A Via pseudonym is a token. Cache-Status begins with an sf-token, which begins with a
        // letter (RFC 9651, 3.3.4).
        if !is_token(&cache.name) || !cache.name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            self.fault("cache.name", format!("{:?} is not a token that begins with a letter", cache.name));
        }
        for (index, field) in cache.tag_fields.iter().enumerate() {
            if !is_token(field) {
                self.fault(&format!("cache.tag_fields[{index}]"), format!("{field:?} is not a field name"));
            }
        }
    }

    /// Checks that the value is one of the known ones.
    fn one_of(&mut self, key: &str, what: &str, value: &str, known: &'static [&'static str]) {
        if !known.contains(&value) {
            let hint = closest(value, known.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
            self.fault_with(key, format!("unknown {what} {value:?}; known: {}", known.join(", ")), hint);
        }
    }

    fn store(&mut self, settings: &Settings) {
        let store = &settings.store;
        self.one_of("store.architecture", "architecture", &store.architecture, ARCHITECTURES);
        self.one_of("store.replacement", "replacement policy", &store.replacement, REPLACEMENTS);
        if ["volume", "cern"].contains(&store.architecture.as_str()) && store.replacement != REPLACEMENTS[0] {
            let (name, wanted) = (&store.architecture, &store.replacement);
            let message = format!("{name} knows no replacement by {wanted}; leave it at clock");
            self.fault("store.replacement", message);
        }
        if store.required == Some(true) && store.all_disks().is_empty() {
            let hint = Some("name one in `store.directory`, or remove this".into());
            self.fault_with("store.required", "there is no disk that could be required", hint);
        }
        self.disks(store);
        self.pins(store);
        let (smallest, its_name) = match store.disks.is_empty() {
            true => (store.disk, "store.disk"),
            false => (store.smallest_disk(), "the smallest of store.disks"),
        };
        if store.object_max > smallest && (!store.disks.is_empty() || !self.mistakes.touches("store.disk")) {
            let message = format!("{} is more than {its_name}, {smallest}", store.object_max);
            self.fault("store.object_max", message);
        }
    }

    fn pins(&mut self, store: &Store) {
        let half = ByteCount(store.disk_bytes() / 2);
        if store.pin_max > half && !store.all_disks().is_empty() {
            let message = format!("{} is more than half of the disks, {half}", store.pin_max);
            self.fault("store.pin_max", message);
        }
    }

    fn disks(&mut self, store: &Store) {
        for (index, disk) in store.disks.iter().enumerate() {
            let key = format!("store.disks[{index}].path");
            if disk.path.as_os_str().is_empty() {
                self.fault(&key, "a disk needs a folder");
            } else if store.disks[..index].iter().any(|other| other.path == disk.path) {
                self.fault(&key, format!("{} is a disk already", disk.path.display()));
            }
        }
        if store.disks.is_empty() {
            return;
        }
        if store.directory.as_os_str().is_empty() {
            let hint = Some("name a folder on a disk that lasts".into());
            self.fault_with("store.directory", "with store.disks it holds the table of purges", hint);
        }
        if self.table.holds("store", "disk") {
            let hint = Some("remove it, or the [[store.disks]]".into());
            self.fault_with("store.disk", "is for one folder; each of store.disks has its own bytes", hint);
        }
    }

    fn files(&mut self, settings: &Settings, readable: &dyn Fn(&Path) -> Result<(), String>) {
        let mut files = Vec::new();
        for (index, listen) in settings.listen.iter().enumerate() {
            for (number, pair) in listen.tls.iter().enumerate() {
                files.push((format!("listen[{index}].tls[{number}].certificate"), &pair.certificate));
                files.push((format!("listen[{index}].tls[{number}].key"), &pair.key));
            }
        }
        for (index, listen) in settings.listen.iter().enumerate() {
            files.extend(listen.users_file.iter().map(|path| (format!("listen[{index}].users_file"), path)));
            files.extend(listen.client_ca.iter().map(|path| (format!("listen[{index}].client_ca"), path)));
        }
        let general = settings.rule.iter().enumerate().map(|(at, rule)| (format!("rule[{at}]"), rule));
        let of_sites = settings.site.iter().enumerate().flat_map(|(site, entry)| {
            let rules = entry.rule.iter().enumerate();
            rules.map(move |(at, rule)| (format!("site[{site}].rule[{at}]"), rule))
        });
        for (key, rule) in general.chain(of_sites) {
            files.extend(rule.users_file.iter().map(|path| (format!("{key}.users_file"), path)));
        }
        files.extend(settings.forward.users_file.iter().map(|path| ("forward.users_file".into(), path)));
        if !settings.cluster.name.is_empty() {
            files.extend(settings.cluster.key_file.iter().map(|path| ("cluster.key_file".into(), path)));
        }
        let own = &settings.neighbours.htcp_key_file;
        files.extend(own.iter().map(|path| ("neighbours.htcp_key_file".into(), path)));
        for (index, neighbour) in settings.neighbour.iter().enumerate() {
            let credentials = neighbour.credentials.iter();
            files.extend(credentials.map(|path| (format!("neighbour[{index}].credentials"), path)));
        }
        let mirrors = settings.mirror.iter().enumerate();
        files.extend(mirrors.filter_map(|(index, mirror)| {
            Some((format!("mirror[{index}].ca_file"), mirror.ca_file.as_ref()?))
        }));
        files.extend(settings.acme.ca_file.iter().map(|path| ("acme.ca_file".into(), path)));
        let binding_key = settings.acme.binding_key_file.iter();
        files.extend(binding_key.map(|path| ("acme.binding_key_file".into(), path)));
        files.extend(settings.upstream.ca_file.iter().map(|path| ("upstream.ca_file".into(), path)));
        for (key, path) in files {
            let result = readable(path).map_err(|why| format!("cannot read {}: {why}", path.display()));
            self.result(&key, result);
        }
    }
}

/// Returns `true` if a challenge may name this realm.
fn is_realm(realm: &str) -> bool {
    realm.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

const BAD_REALM: &str = "a realm is made of printable ASCII characters";

/// Checks a path as in a request: absolute, without query, fragment, blanks or controls.
fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("{path:?} does not begin with \"/\""));
    }
    match path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#') {
        true => Ok(()),
        false => Err(format!("{path:?} is not a path: it has no query and no fragment, and blanks are %20")),
    }
}

/// Settings of `[forward]` that allow or refuse clients or destinations.
const FORWARD_RULES: &[&str] = &[
    "allow_clients",
    "connect_ports",
    "request_ports",
    "deny_destinations",
    "allow_private_destinations",
    "users_file",
];

/// Names of the cache architectures that the store supports.
pub const ARCHITECTURES: &[&str] = &[
    "volume",
    "cern",
    "squid",
    "squid_monotonic",
    "squid_lowest",
    "squidl",
    "squidm",
    "squidml",
    "squidmla",
];

/// Names of the replacement policies of the store and of the RAM tier.
pub const REPLACEMENTS: &[&str] =
    &["clock", "fifo", "lru", "slru", "lfu_da", "gdsf", "s3_fifo", "sieve", "w_tinylfu"];
