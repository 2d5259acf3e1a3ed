//! The matrix of clients and mirrors: each client through a mirror of a registry over TLS with an
//! authority of its own, whose files are kept at another host. The registry writes fields as public
//! ones do, or none about caching.
//!
//! ```text
//!   client ──http──► node with a mirror ──https──► registry.test   documents, redirects
//!     └─ once, CONNECT ─► the same node ──┘  └───► files.test      files
//! ```
//!
//! Each client works cold, warm with empty caches, and offline, without its lock and with it. A
//! second node is warmed from the lock or list. Every document and file is fetched once. A table in
//! `docs/experiments/mirrors.md` has a row for each client. It is made from the same rows as the
//! tests, and `SHOAL_WRITE_DOCS=1` writes it.

mod apt;
mod cargo;
mod gems;
mod go;
mod images;
mod maven;
mod node;
mod poetry;
mod python;
mod registry;

pub use registry::{Place, Registry};

use crate::rounds::{Says, note_mirrored};
use crate::workshop::{Workshop, run};
use serde_json::Value;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Connection, Request, Shoal, wait};
use std::collections::HashSet;
use std::path::Path;

/// A client of a kind of registries.
pub struct Row {
    /// Name in the table.
    client: &'static str,
    /// Work of a round.
    task: &'static str,
    /// Kind of the mirror.
    kind: &'static str,
    /// Path of the registry at its host.
    path: &'static str,
    /// The lock through the mirror, beside the one that is made without it.
    lock: Lock,
    /// List that a node is warmed from: its name in the table, and the query.
    list: (&'static str, &'static str),
    /// Ends of targets that may follow after warming: the registry does not have them, or an index
    /// is validated once.
    unlisted: &'static [&'static str],
    /// Path at the node that no client asks for.
    absent: &'static str,
    /// Makes the client; `None` if a program is missing.
    prepare: fn() -> Option<Box<dyn Client>>,
}

/// A lock made through the mirror, beside one made without it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// The client has no lock.
    None,
    /// The same bytes.
    Same,
    /// The same bytes after `shoal lock`, in either direction.
    Rewritten,
    /// As [`Lock::Rewritten`], but for this beginning of a line: a hash over settings that name the
    /// registry.
    But(&'static str),
}

/// The work of a client.
pub trait Client {
    /// Makes packages, and serves them.
    fn publish(&self, shop: &Workshop, registry: &Registry);

    /// Installs in the folder `app` with empty caches, from a lock if there is one, and checks the
    /// installed files. Gives the lock.
    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String;

    /// List that a node is warmed from; else the lock.
    fn list(&self, _shop: &Workshop, _registry: &Registry) -> Option<String> {
        None
    }
}

impl Row {
    /// Runs all cells of the row.
    fn check(&self, says: Says) {
        let Some(client) = (self.prepare)() else { return };
        let (shop, registry) = (Workshop::new(), Registry::start(says));
        client.publish(&shop, &registry);
        let Some(mut shoal) = registry.mirrored(self.kind, self.path) else { return };
        let direct = (self.lock != Lock::None).then(|| {
            let authority = shoal.folder().join("authority.pem");
            let url = registry.url() + self.path;
            let place = Place { shop: &shop, url, direct: Some((&shoal, authority)) };
            client.work(&place, "direct", None)
        });
        let cell = Cell { row: self, client: &*client, shop: &shop, registry: &registry, direct };
        let mut asked = [0; 3];
        for (round, asked) in asked.iter_mut().enumerate() {
            let before = (registry.origin.total(), registry.files.total());
            cell.round(&shoal, ["cold", "warm", "offline"][round]);
            let targets = registry.since(before);
            *asked = targets.len();
            assert!(round == 0 || targets.is_empty(), "{}, round {round}: {targets:?}", self.client);
            if round == 0 {
                // uv looks at a wheel by HEAD where the index has no metadata.
                let files = registry.files.received().split_off(before.1);
                let got: Vec<_> = files.iter().filter(|file| file.method == "GET").collect();
                let once: HashSet<_> = got.iter().map(|file| file.path()).collect();
                assert_eq!(once.len(), got.len(), "each file once: {targets:?}");
            }
            if round == 1 {
                let offline = "index_lifetime = \"1h\"\noffline = true";
                shoal.change(|text| text.replace("index_lifetime = \"1h\"", offline));
                shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
            }
        }
        self.expect_504(&shoal);
        note_mirrored((self.client, &format!("{}, {}", self.task, manner(says))), asked);
        let mut warmed = cell.warmed();
        drop(registry);
        // Connections that are open would still be answered.
        warmed.restart();
        self.expect_504(&warmed);
    }

    /// A miss without the registry says nothing about the package.
    fn expect_504(&self, shoal: &Shoal) {
        let address = shoal.address("reverse");
        let absent = Request::get(self.absent);
        Connection::open(address).ask(&absent, &address.to_string()).expect_status(504);
    }
}

/// A row under way.
struct Cell<'a> {
    row: &'a Row,
    client: &'a dyn Client,
    shop: &'a Workshop,
    registry: &'a Registry,
    /// The lock that is made without the mirror.
    direct: Option<String>,
}

impl Cell<'_> {
    fn place(&self, shoal: &Shoal) -> Place<'_> {
        let url = format!("http://{}/{}", shoal.address("reverse"), self.row.kind);
        Place { shop: self.shop, url, direct: None }
    }

    /// Installs twice with empty caches: without a lock, and with the one that is made directly.
    fn round(&self, shoal: &Shoal, name: &str) {
        let place = self.place(shoal);
        let own = self.client.work(&place, name, None);
        let Some(direct) = &self.direct else { return };
        let to_origin = || self.rewritten(("--to-origin", &own), &place.url);
        match self.row.lock {
            Lock::None => {}
            Lock::Same => assert_eq!(&own, direct, "the lock is clean"),
            Lock::Rewritten => assert_eq!(&to_origin(), direct),
            Lock::But(beginning) => assert_eq!(without(&to_origin(), beginning), without(direct, beginning)),
        }
        let frozen = self.frozen(direct, &own, &place.url);
        assert_eq!(self.client.work(&place, &format!("{name}-locked"), Some(&frozen)), frozen);
    }

    /// The lock that a client of the mirror follows.
    fn frozen(&self, direct: &str, own: &str, external: &str) -> String {
        let to_mirror = || self.rewritten(("--to-mirror", direct), external);
        match self.row.lock {
            Lock::None | Lock::Same => direct.into(),
            Lock::Rewritten => to_mirror(),
            Lock::But(beginning) => {
                assert_eq!(without(&to_mirror(), beginning), without(own, beginning));
                own.into()
            }
        }
    }

    /// Rewrites the URLs of a lock.
    fn rewritten(&self, (direction, lock): (&str, &str), external: &str) -> String {
        let file = self.shop.write("rewritten.lock", lock);
        let mirror = format!("{}={}{}", self.row.kind, self.registry.url(), self.row.path);
        let at = external.rsplit_once('/').map_or(external, |(at, _)| at);
        let mut shoal = self.shop.command(binary(), None);
        run(shoal.args(["lock", direction, "--mirror", &mirror, "--at", at]).arg(&file));
        std::fs::read_to_string(file).expect("it is there")
    }

    /// Warms a new node. The client then asks the registry for nothing that the list can name.
    fn warmed(&self) -> Shoal {
        let shoal = self.registry.mirrored(self.row.kind, self.row.path).expect("as before");
        let list =
            self.client.list(self.shop, self.registry).or(self.direct.clone()).expect("a lock or list");
        let query = format!("/warm?{}", self.row.list.1);
        let started = shoal.ask_admin(&Request::new("POST", &query).body(list.as_bytes()));
        let report = |text: &str| serde_json::from_str::<Value>(text).expect("a report");
        let job = report(&started.expect_status(202).text())["job"].clone();
        let now = || report(&shoal.ask_admin(&Request::get(&format!("/warm?job={job}"))).text());
        wait::until("the lock is warmed", || now()["state"] == "done");
        let end = now();
        assert_eq!((&end["failures"]["count"], &end["refused"]["count"]), (&0.into(), &0.into()), "{end}");
        let before = (self.registry.origin.total(), self.registry.files.total());
        let place = self.place(&shoal);
        let frozen = match self.row.lock {
            Lock::But(_) => None,
            _ => self.direct.as_ref().map(|direct| self.frozen(direct, direct, &place.url)),
        };
        self.client.work(&place, "warmed", frozen.as_deref());
        let mut asked = self.registry.since(before);
        asked.retain(|target| !self.row.unlisted.iter().any(|ending| target.ends_with(ending)));
        assert!(asked.is_empty(), "{} after warming: {asked:?}", self.row.client);
        shoal
    }
}

/// Leaves out the lines with this beginning.
fn without(text: &str, beginning: &str) -> String {
    text.lines().filter(|line| !line.starts_with(beginning)).collect::<Vec<_>>().join("\n")
}

fn manner(says: Says) -> &'static str {
    match says {
        Says::Lifetimes => "public fields",
        Says::Nothing => "no fields",
    }
}

/// Makes a test of each row in each manner, and the rows of the table. The second list is of
/// clients that are no part of `ci`.
macro_rules! matrix {
    ($($name:ident = $row:expr;)* - $($by_hand:ident = $other:expr;)*) => {
        /// Each row, and `true` if `ci` runs it.
        const ROWS: &[(Row, bool)] = &[$(($row, true),)* $(($other, false),)*];
        matrix!(manner with_fields Lifetimes $($name = $row;)* - $($by_hand = $other;)*);
        matrix!(manner silent Nothing $($name = $row;)* - $($by_hand = $other;)*);
    };
    (manner $manner:ident $says:ident $($name:ident = $row:expr;)* - $($by_hand:ident = $other:expr;)*) => {
        mod $manner {
            use super::*;
            $(#[test] fn $name() { $row.check(Says::$says); })*
            $(#[test] #[ignore = "needs a client that is installed by hand"]
              fn $by_hand() { $other.check(Says::$says); })*
        }
    };
}

matrix! {
    npm = node::NPM;
    pip = python::PIP;
    cargo = cargo::CARGO;
    go = go::GO;
    apt = apt::APT;
    apt_signed = apt::APT_SIGNED;
    bundler = gems::BUNDLER;
    skopeo = images::SKOPEO;
    -
    pnpm = node::PNPM;
    yarn_1 = node::YARN_1;
    yarn_4 = node::YARN_4;
    uv = python::UV;
    poetry = poetry::POETRY;
    maven = maven::MAVEN;
    buildah = images::BUILDAH;
    podman = images::PODMAN;
    containerd = images::CONTAINERD;
}

/// The table of the matrix.
fn table() -> String {
    let head = "| client | mirror | in each manner | second run, caches empty | offline | warmed from | lock | in `ci` |\n\
                |---|---|---|---|---|---|---|---|\n";
    let row = |(row, in_ci): &(Row, bool)| {
        let lock = match row.lock {
            Lock::None => "has none".to_owned(),
            Lock::Same => "the direct one".to_owned(),
            Lock::Rewritten => "the direct one after `shoal lock`".to_owned(),
            Lock::But(line) => format!("the direct one after `shoal lock`, but for `{line}`"),
        };
        let (Row { client, kind, task, list, .. }, in_ci) = (row, if *in_ci { "yes" } else { "by hand" });
        let offline = "all; 504 for the rest";
        format!("| {client} | {kind} | {task} | 0 requests | {offline} | {} | {lock} | {in_ci} |\n", list.0)
    };
    head.to_owned() + &ROWS.iter().map(row).collect::<String>()
}

/// The page's table is that of the tests.
#[test]
fn page_has_the_matrix() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments/mirrors.md");
    let text = std::fs::read_to_string(&page).expect("the page is there");
    let (begin, end) = ("<!-- matrix: written by the tests -->\n\n", "\n<!-- end of matrix -->");
    let (before, rest) = text.split_once(begin).expect("the table has a begin");
    let (found, after) = rest.split_once(end).expect("the table has an end");
    if std::env::var_os("SHOAL_WRITE_DOCS").is_some() {
        std::fs::write(page, format!("{before}{begin}{}{end}{after}", table())).expect("writable");
    } else {
        assert_eq!(found, table());
    }
}
