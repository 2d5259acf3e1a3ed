//! The options of `shoal run`, each an override of a setting.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::mirror::MirrorWish;
use shoal_settings::{Forward, Listen, Override, Rule, Settings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Run a node: a forward proxy without options, a reverse proxy with --to
///
/// Without --config and --to, the node reads the file that SHOAL_CONFIG names. Without that file,
/// the built-in defaults make a forward proxy on 127.0.0.1:3128 with its cache under ./shoal-cache.
/// No other place is searched: name /etc/shoal/shoal.toml with --config to have it read. SHOAL_
/// variables override the file (SHOAL_CACHE__RAM=512MB), and options override both.
///
/// Signals: HUP reads the settings again, and keeps the old ones if the new ones have mistakes.
/// USR1 opens the logs again. USR2 hands over to a new process (shoal upgrade). TERM, INT and QUIT
/// let requests in flight finish (drain_timeout). A second such signal does not wait for them.
#[derive(clap::Args, Default)]
pub struct RunOptions {
    /// Read this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve this origin as a reverse proxy, on 127.0.0.1:8080 or on the address of --listen
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Mirror a package registry, under the path of its kind: npm, pypi, cargo, go, maven, deb,
    /// rubygems, oci, generic or buildcache; may be given several times, and KIND:NAME=URL for a
    /// second one of a kind. Without a URL, the tool of this machine is asked for its registry
    #[arg(long, value_name = "KIND[=URL]")]
    mirror: Vec<MirrorWish>,
    /// Answer https of forward clients to this host from the cache, with certificates of `shoal ca
    /// init`: a name, *.name, or `mirrors` for the registries of all mirrors; may be given several
    /// times
    #[arg(long, value_name = "HOST")]
    intercept: Vec<String>,
    /// Listen on this address and port; 3128 alone is 127.0.0.1:3128, and :3128 is port 3128 of all
    /// IPv4 addresses
    #[arg(long, value_name = "ADDRESS", value_parser = shoal_settings::listen_address)]
    listen: Option<SocketAddr>,
    /// Folder of the cache on disk; none for RAM alone
    #[arg(long, value_name = "FOLDER")]
    store: Option<String>,
    /// RAM for the cache
    #[arg(long, value_name = "SIZE")]
    ram: Option<String>,
    /// Disk space for the cache
    #[arg(long, value_name = "SIZE")]
    disk: Option<String>,
    /// Give answers without a lifetime of the origin this one, such as 10m; origins that say
    /// nothing about caching are cached then
    #[arg(long, value_name = "TIME", value_parser = shoal_core::parse_duration)]
    fresh: Option<Duration>,
    /// Answer reloads of clients (no-cache, Pragma, max-age=0) from the cache, as pip and browsers
    /// send them
    #[arg(long)]
    ignore_client_no_cache: bool,
    /// Serve clients of this network and of this machine, and no others, on every listener; may be
    /// given several times. Without it a forward proxy serves this machine, and a reverse proxy all
    /// clients
    #[arg(long, value_name = "NET")]
    allow_clients: Vec<String>,
    /// Serve this host or network although it is loopback, link-local or private; may be given
    /// several times
    #[arg(long, value_name = "HOST|NET")]
    allow_private: Vec<String>,
    /// Admin listener: an address and port, unix:/path, or none
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Take part in the cluster of this name; needs --peer
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Address and port at which the other nodes of the cluster reach this one, over TCP and UDP
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddr>,
    /// Join these members: addresses, or DNS names with ports; may be given several times
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    join: Vec<String>,
    /// Set any other setting, such as cache.collapse=false; lists with commas or as TOML; may be
    /// given several times
    #[arg(long, value_name = "SETTING=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

/// Splits `cache.ram=1GB` into setting and value.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as SETTING=VALUE, such as cache.ram=1GB")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl RunOptions {
    pub fn perform(self) -> Result<(), Failure> {
        if self.config.is_some() && self.to.is_some() {
            return Err(Failure::Usage(
                "--to makes a reverse proxy without a file; with --config write a [[site]] into the file, or give \
                 --set 'site=[{ hosts = [\"*\"], upstreams = [{ url = \"http://origin\" }] }]'"
                    .into(),
            ));
        }
        super::run(self.configuration()?)
    }

    fn configuration(mut self) -> Result<Configuration, Failure> {
        let mirrors = self.mirror.drain(..).map(MirrorWish::found).collect::<Result<_, _>>()?;
        self.mirror = mirrors;
        let is_alone = self.to.is_some() || !self.mirror.is_empty() && self.config.is_none();
        let mut configuration = match is_alone {
            true => Configuration::default(),
            false => Configuration::find(self.config.clone()),
        };
        configuration.options = self.overrides();
        Ok(configuration)
    }

    /// The rule that `--fresh` and `--ignore-client-no-cache` make.
    fn rule(&self) -> Option<Override> {
        let ignore_client_no_cache = self.ignore_client_no_cache.then_some(true);
        if self.fresh.is_none() && ignore_client_no_cache.is_none() {
            return None;
        }
        let origin = if self.fresh.is_some() { "--fresh" } else { "--ignore-client-no-cache" };
        let lifetime_default = self.fresh;
        let name = "command line".to_owned();
        let rule = Rule { name, lifetime_default, ignore_client_no_cache, ..Rule::empty() };
        Some(Override::rule(origin, rule))
    }

    fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        if let Some(url) = &self.to {
            overrides.push(Override::site("--to", url));
        }
        // With a file, the file's listeners serve the mirrors.
        if self.to.is_none() && self.config.is_none() && !self.mirror.is_empty() {
            overrides.push(match self.intercept.is_empty() {
                true => super::reverse_listener("--mirror"),
                false => Override::listeners("--intercept", &both_listeners()),
            });
        }
        overrides.extend(self.mirror.iter().map(|wish| wish.clone().into_override()));
        match (&self.to, self.listen) {
            (Some(_), None) => overrides.push(Override::listen("--to", REVERSE_ADDRESS.into(), true)),
            (_, Some(address)) => overrides.push(Override::listen_address("--listen", address)),
            (None, None) => {}
        }
        overrides.extend(self.rule());
        let store = self.store.as_deref().map(|folder| if folder == "none" { "" } else { folder });
        let peer = self.peer.map(|peer| peer.to_string());
        let intercept = (!self.intercept.is_empty()).then(|| self.intercept.join(","));
        let join = (!self.join.is_empty()).then(|| self.join.join(","));
        let private = (!self.allow_private.is_empty()).then(|| self.allow_private.join(","));
        if !self.allow_clients.is_empty() {
            let own = Forward::default().allow_clients;
            let own = own.iter().map(ToString::to_string);
            let clients: Vec<_> = own.chain(self.allow_clients.iter().cloned()).collect();
            overrides.push(Override::clients("--allow-clients", &clients));
        }
        for (origin, key, value) in [
            ("--store", "store.directory", store),
            ("--ram", "cache.ram", self.ram.as_deref()),
            ("--disk", "store.disk", self.disk.as_deref()),
            ("--allow-private", "forward.allow_private_destinations", private.as_deref()),
            ("--admin", "admin.listen", self.admin.as_deref()),
            ("--intercept", "intercept.hosts", intercept.as_deref()),
            ("--cluster", "cluster.name", self.cluster.as_deref()),
            ("--peer", "cluster.peer", peer.as_deref()),
            ("--join", "cluster.join", join.as_deref()),
        ] {
            if let Some(value) = value {
                overrides.push(Override { origin: origin.into(), key: key.into(), value: value.into() });
            }
        }
        let set = |(key, value): &(String, String)| Override {
            origin: "--set".into(),
            key: key.clone(),
            value: value.clone(),
        };
        overrides.extend(self.set.iter().map(set));
        overrides
    }
}

/// Returns the listener of a reverse proxy that has no file.
pub fn reverse_listener(origin: &str) -> Override {
    Override::listen(origin, REVERSE_ADDRESS.into(), true)
}

/// Returns the listeners for clients of mirrors, and for clients that are intercepted.
fn both_listeners() -> [Listen; 2] {
    let forward = Settings::default().listen.remove(0);
    debug_assert!(forward.address.port() != REVERSE_ADDRESS.1, "two addresses");
    [Listen::reverse(REVERSE_ADDRESS.into()), forward]
}

/// Default address of a reverse proxy.
const REVERSE_ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{Mode, SettingsSource};

    fn settings(options: RunOptions) -> Result<Settings, Vec<String>> {
        let overrides = options.overrides();
        let source = SettingsSource {
            file: "built-in",
            text: "",
            overrides,
            readable: &|_| Ok(()),
            further: &|_| Vec::new(),
        };
        source.read().map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn no_options_are_the_defaults() {
        assert_eq!(settings(RunOptions::default()), Ok(Settings::default()));
    }

    #[test]
    fn to_makes_a_reverse_proxy() {
        let to = || Some("http://127.0.0.1:8000".to_owned());
        let listen = Some(([127, 0, 0, 1], 9090).into());
        let settings_of =
            |listen| settings(RunOptions { to: to(), listen, ..RunOptions::default() }).expect("valid");
        assert_eq!(settings_of(None).listen[0].address, REVERSE_ADDRESS.into());
        let settings = settings_of(listen);
        assert_eq!((settings.listen[0].address.port(), settings.listen[0].mode), (9090, Mode::Reverse));
        assert_eq!(settings.site[0].upstreams[0].url, "http://127.0.0.1:8000");
    }

    #[test]
    fn options_set_settings_and_mistakes_name_them() {
        let settings_of = settings(RunOptions {
            listen: Some(([127, 0, 0, 1], 3000).into()),
            store: Some("none".into()),
            ram: Some("64 MB".into()),
            allow_clients: vec!["10.0.0.0/8".into(), "192.0.2.7".into()],
            allow_private: vec!["127.0.0.1".into(), "*.corp.example".into()],
            admin: Some("none".into()),
            ..RunOptions::default()
        });
        let taken = settings_of.expect("valid");
        assert_eq!(taken.listen[0].mode, Mode::Forward);
        assert_eq!(taken.store.directory.as_os_str(), "");
        assert_eq!(taken.forward.allow_private_destinations, ["127.0.0.1", "*.corp.example"]);
        let clients: Vec<String> = taken.forward.allow_clients.iter().map(ToString::to_string).collect();
        assert_eq!(clients, ["127.0.0.0/8", "::1/128", "10.0.0.0/8", "192.0.2.7/32"]);
        assert_eq!(taken.admin.listen, None);
        let reverse = settings(RunOptions {
            to: Some("http://127.0.0.1:8000".into()),
            allow_clients: vec!["10.0.0.0/8".into()],
            ..RunOptions::default()
        });
        let served = reverse.expect("valid").listen[0].allow_clients.clone().expect("a list");
        assert_eq!(
            served,
            ["127.0.0.0/8", "::1/128", "10.0.0.0/8"].map(|net| net.parse().expect("a network"))
        );
        let refused =
            settings(RunOptions { ram: Some("lots".into()), ..RunOptions::default() }).expect_err("no size");
        assert!(refused[0].starts_with("--ram: cache.ram: "), "{refused:?}");
    }

    #[test]
    fn cluster_options_set_the_section() {
        let options = |peer: Option<&str>| RunOptions {
            cluster: Some("prod".into()),
            peer: peer.map(|peer| peer.parse().expect("an address")),
            join: vec!["127.0.0.2:3131".into(), "cache.internal:3131".into()],
            ..RunOptions::default()
        };
        let section = settings(options(Some("127.0.0.1:3131"))).expect("valid").cluster;
        assert_eq!(section.name, "prod");
        assert_eq!(section.peer, Some(([127, 0, 0, 1], 3131).into()));
        assert_eq!(section.join, ["127.0.0.2:3131", "cache.internal:3131"]);
        assert!(settings(options(None)).expect_err("no peer")[0].contains("cluster.peer"));
        assert!(settings(options(Some("10.0.0.1:3131"))).expect_err("no key")[0].contains("cluster init"));
    }

    #[test]
    fn mirrors_make_a_reverse_proxy() {
        let mirror = ["npm=http://a.test", "npm:own=http://b.test/c"];
        let mirror = || mirror.iter().map(|wish| wish.parse().expect("a wish")).collect();
        let made = settings(RunOptions { mirror: mirror(), ..RunOptions::default() }).expect("valid");
        assert_eq!((made.listen[0].mode, made.listen[0].address), (Mode::Reverse, REVERSE_ADDRESS.into()));
        let names: Vec<_> = made.mirror.iter().map(|mirror| (mirror.name(), mirror.upstream())).collect();
        assert_eq!(names, [("npm", "http://a.test"), ("own", "http://b.test/c")]);
        let listen = Some(([127, 0, 0, 1], 9090).into());
        let made = settings(RunOptions { mirror: mirror(), listen, ..RunOptions::default() }).expect("valid");
        assert_eq!((made.listen[0].mode, made.listen[0].address.port()), (Mode::Reverse, 9090));
        let twice = vec!["npm=http://a.test".parse().expect("a wish"); 2];
        let refused = settings(RunOptions { mirror: twice, ..RunOptions::default() }).expect_err("one name");
        assert!(refused[0].contains("there is a mirror called \"npm\" already"), "{refused:?}");
    }

    #[test]
    fn intercept_adds_a_forward_listener() {
        let mirror = vec!["npm=https://a.test".parse().expect("a wish")];
        let intercept = vec!["mirrors".to_owned(), "*.b.test".to_owned()];
        let made = settings(RunOptions { mirror, intercept: intercept.clone(), ..RunOptions::default() });
        let made = made.expect("valid");
        let listeners: Vec<_> = made.listen.iter().map(|it| (it.mode, it.address.port())).collect();
        assert_eq!(listeners, [(Mode::Reverse, 8080), (Mode::Forward, 3128)]);
        assert_eq!(made.intercept.hosts, intercept);
        assert_eq!(made.intercepted_registries(), [("a.test".to_owned(), 443)]);
        let alone = RunOptions { intercept: vec!["a.test".into()], ..RunOptions::default() };
        assert_eq!(settings(alone).expect("valid").listen[0].mode, Mode::Forward);
    }

    #[test]
    fn fresh_makes_a_rule() {
        let fresh = Some(Duration::from_secs(600));
        let made = settings(RunOptions { fresh, ignore_client_no_cache: true, ..RunOptions::default() });
        let rules = made.expect("valid").rule;
        assert_eq!(rules.len(), 1);
        assert_eq!((rules[0].lifetime_default, rules[0].ignore_client_no_cache), (fresh, Some(true)));
    }

    #[test]
    fn any_setting_can_be_set_and_mistakes_name_it() {
        let set = |text: &str| {
            let set = vec![assignment(text).expect("two parts")];
            settings(RunOptions { set, ..RunOptions::default() })
        };
        assert!(!set("cache.collapse=false").expect("valid").cache.collapse);
        assert_eq!(
            set("forward.connect_ports = 443,8443").expect("valid").forward.connect_ports,
            [443, 8443]
        );
        let listen = set("listen=[{ address = \"127.0.0.1:1\", mode = \"forward\" }]").expect("valid").listen;
        assert_eq!(listen[0].address.port(), 1);
        for (text, why) in [
            ("cache.colapse=false", "--set: cache.colapse: no such setting (did you mean `cache.collapse`?)"),
            ("cache=1", "--set: cache: a section, not a setting (name one of its settings: cache.…)"),
            ("cache.collapse=perhaps", "--set: cache.collapse: expected true or false"),
        ] {
            let refused = set(text).expect_err(text);
            assert!(refused[0].starts_with(why), "{refused:?}");
        }
        assert!(assignment("cache.ram").is_err());
    }
}
