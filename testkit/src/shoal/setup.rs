//! The settings of an instance under test.

use super::process::Shoal;
use crate::address::{free_port, fresh_ip};
use crate::hosts::Host;
use crate::origin::Origin;
use crate::shim::Shim;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use toml::{Table, Value};

/// Settings in the making: small limits, two workers, a store, and a log in a folder of its own.
///
/// There is a reverse listener, whose site `*` is the origin, and a forward listener, which may
/// reach loopback; tests add to them and change them.
pub struct Setup {
    pub(super) folder: TempDir,
    pub(super) settings: Table,
    pub(super) listeners: Vec<(String, SocketAddr)>,
    pub(super) admin: SocketAddr,
    pub(super) environment: Vec<(String, String)>,
    pub(super) host: Option<Host>,
    ip: std::net::IpAddr,
}

impl Setup {
    /// A reverse proxy for `origin`, which is also a forward proxy.
    pub fn to(origin: &Origin) -> Self {
        Self::bare().reverse_to(origin)
    }

    /// A forward proxy alone.
    pub fn bare() -> Self {
        Self::placed(None)
    }

    /// The same as [`Setup::to`], on a host.
    pub fn to_on(origin: &Origin, host: &Host) -> Self {
        Self::bare_on(host).reverse_to(origin)
    }

    /// A forward proxy alone on a host, for clients and origins of the hosts' network.
    pub fn bare_on(host: &Host) -> Self {
        let network = host.network();
        Self::placed(Some(host.clone()))
            .set_list("forward.allow_clients", &[&network, LOOPBACK])
            .set_list("forward.allow_private_destinations", &[&network, LOOPBACK])
            .set_list("admin.purge_from", &[&network, LOOPBACK])
    }

    fn reverse_to(self, origin: &Origin) -> Self {
        self.listen("reverse", "mode = 'reverse'").site(&format!(
            "hosts = ['*']\nupstreams = [{{ url = '{}', h2c = {} }}]\n",
            origin.url(),
            origin.is_h2c()
        ))
    }

    fn placed(host: Option<Host>) -> Self {
        let folder = tempfile::Builder::new().prefix("shoal-test-").tempdir().expect("a temporary folder");
        let ip = host.as_ref().map_or_else(fresh_ip, Host::ip);
        let admin = host.as_ref().map_or_else(|| free_port(ip), Host::free_port);
        let mut settings: Table = DEFAULTS.parse().expect("the text below is TOML");
        settings.insert("listen".into(), Value::Array(Vec::new()));
        let setup =
            Self { folder, settings, listeners: Vec::new(), admin, environment: Vec::new(), host, ip };
        let path = |name: &str| setup.folder.path().join(name).to_string_lossy().into_owned();
        let (store, log) = (path("store"), path("access.log"));
        setup
            .set("admin.listen", admin.to_string())
            .set("store.directory", store)
            .set("log.access", log)
            .listen("forward", "mode = 'forward'")
    }

    /// Sets `table.key` to a value.
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut table = &mut self.settings;
        for name in tables.split('.').filter(|name| !name.is_empty()) {
            let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().expect("a settings path names tables");
        }
        table.insert(key.into(), value.into());
        self
    }

    /// Sets `table.key` to an array of strings.
    pub fn set_list(self, path: &str, values: &[&str]) -> Self {
        self.set(path, values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>())
    }

    /// Has these disks instead of one: names of folders below the instance's own, and the space of
    /// each.
    pub fn disks(mut self, disks: &[(&str, &str)]) -> Self {
        let store = self.settings["store"].as_table_mut().expect("the defaults have a store");
        store.remove("disk");
        let table = |(name, bytes): &(&str, &str)| {
            let path = self.folder.path().join(name).to_string_lossy().into_owned();
            Value::Table(Table::from_iter([("path".into(), path.into()), ("bytes".into(), (*bytes).into())]))
        };
        let disks = disks.iter().map(table).collect();
        store.insert("disks".into(), Value::Array(disks));
        self
    }

    /// Adds a listener named for the test's use; `body` is the inside of its `[[listen]]`, without
    /// the address.
    pub fn listen(mut self, name: &str, body: &str) -> Self {
        let address = self.host.as_ref().map_or_else(|| free_port(self.ip), Host::free_port);
        let mut listen: Table = body.parse().unwrap_or_else(|error| panic!("{body}: {error}"));
        listen.insert("address".into(), address.to_string().into());
        self.listeners.push((name.into(), address));
        self.array("listen", listen)
    }

    /// Adds a site; `body` is the inside of its `[[site]]`.
    pub fn site(self, body: &str) -> Self {
        let site: Table = body.parse().unwrap_or_else(|error| panic!("{body}: {error}"));
        self.array("site", site)
    }

    /// Moves the listener added last to this address.
    pub fn neighbours_port(mut self, address: SocketAddr) -> Self {
        self.listeners.last_mut().expect("a listener was added").1 = address;
        let listeners = self.settings["listen"].as_array_mut().expect("listeners are an array");
        let last = listeners.last_mut().and_then(Value::as_table_mut).expect("a listener is a table");
        last.insert("address".into(), address.to_string().into());
        self
    }

    /// Adds a neighbour; `body` is the inside of its `[[neighbour]]`.
    pub fn neighbour(self, body: &str) -> Self {
        let neighbour: Table = body.parse().unwrap_or_else(|error| panic!("{body}: {error}"));
        self.array("neighbour", neighbour)
    }

    /// Adds a rule for parents; `body` is the inside of its `[[cluster.parent]]`.
    pub fn parent(mut self, body: &str) -> Self {
        let parent: Table = body.parse().unwrap_or_else(|error| panic!("{body}: {error}"));
        let cluster = self.settings["cluster"].as_table_mut().expect("a node of a cluster");
        let all = cluster.entry("parent").or_insert_with(|| Value::Array(Vec::new()));
        all.as_array_mut().expect("rules are an array").push(Value::Table(parent));
        self
    }

    /// Adds a mirror; `body` is the inside of its `[[mirror]]`.
    pub fn mirror(self, body: &str) -> Self {
        let mirror: Table = body.parse().unwrap_or_else(|error| panic!("{body}: {error}"));
        self.array("mirror", mirror)
    }

    /// Leaves out the sites added so far.
    pub fn without_sites(mut self) -> Self {
        self.settings.remove("site");
        self
    }

    /// The address that the listener called `name` will have.
    pub fn address(&self, name: &str) -> SocketAddr {
        let listener = self.listeners.iter().find(|(given, _)| given == name);
        listener.unwrap_or_else(|| panic!("no listener is called {name}")).1
    }

    /// The admin listener's address.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Adds a variable to the environment of the process.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs under a shim, which may fail its calls to files in the folder of this name below the
    /// instance's own, and set its clock.
    pub fn shim(mut self, shim: &Shim, folder: &str) -> Self {
        for (name, value) in shim.environment(&self.folder.path().join(folder)) {
            self = self.environment(name, &value);
        }
        self
    }

    /// The folder of this instance: settings, store, logs, and whatever a test puts there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder and gives its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a temporary folder takes files");
        path
    }

    /// The settings as the file that the binary reads.
    pub fn text(&self) -> String {
        toml::to_string(&self.settings).expect("a table is TOML")
    }

    /// Starts it and waits until it serves.
    pub fn start(self) -> Shoal {
        Shoal::start(self)
    }

    fn array(mut self, name: &str, table: Table) -> Self {
        let entry = self.settings.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        entry.as_array_mut().expect("listeners and sites are arrays").push(table.into());
        self
    }
}

const LOOPBACK: &str = "127.0.0.0/8";

const DEFAULTS: &str = "
workers = 2
[cache]
ram = '16 MiB'
name = 'shoal'
[store]
disk = '64 MiB'
io_threads = 4
[forward]
allow_clients = ['127.0.0.0/8', '::1/128']
allow_private_destinations = ['127.0.0.0/8']
[log]
format = 'json'
level = 'info'
[admin]
purge_from = ['127.0.0.0/8']
";
