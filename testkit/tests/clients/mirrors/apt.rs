//! apt through a mirror of an archive that redirects to its packages. One archive has lists by name
//! and no signature, the other has lists by digest and a signed release.

use super::{Client, Lock, Place, Registry, Row};
use crate::apt::{Source, download, download_version, packages, release, repository, settings, update};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, line, run};
use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_testkit::{Request, registry, wait};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

struct Apt;

impl Client for Apt {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        repository(shop);
        registry.redirecting("/debian/", &shop.path("debian"), ".deb");
    }

    fn work(&self, place: &Place<'_>, app: &str, _: Option<&str>) -> String {
        download(place.shop, Source { archive: &place.url, proxy: None, signed_by: None }, app);
        String::new()
    }

    fn list(&self, _: &Workshop, registry: &Registry) -> Option<String> {
        let lists = ["dists/stable/Release", "dists/stable/main/binary-amd64/Packages"].map(str::to_owned);
        Some(urls(registry, lists))
    }
}

struct SignedApt;

impl Client for SignedApt {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        let key = Key::new(shop);
        let generation = Generation::new(shop, &key, 1);
        generation.write_lists(shop);
        generation.write_release(shop);
        registry.redirecting("/debian/", &shop.path("debian"), ".deb");
    }

    fn work(&self, place: &Place<'_>, app: &str, _: Option<&str>) -> String {
        let key = Key::file(place.shop);
        download(place.shop, Source { archive: &place.url, proxy: None, signed_by: Some(&key) }, app);
        String::new()
    }

    fn list(&self, shop: &Workshop, registry: &Registry) -> Option<String> {
        let below = format!("{LISTS}/by-hash/SHA256");
        let names = std::fs::read_dir(shop.path(&format!("debian/{below}"))).expect("lists");
        let names = names.map(|name| name.expect("a name").file_name().to_string_lossy().into_owned());
        let lists = names.map(|name| format!("{below}/{name}"));
        Some(urls(registry, [format!("{RELEASES}/InRelease")].into_iter().chain(lists)))
    }
}

/// URLs of documents of the archive, and those of its packages.
fn urls(registry: &Registry, documents: impl IntoIterator<Item = String>) -> String {
    let packages = ["shoal-a", "shoal-b", "shoal-c"].map(|name| format!("pool/{name}_1.0_all.deb"));
    documents.into_iter().chain(packages).fold(String::new(), |mut urls, path| {
        let _ = writeln!(urls, "{}/debian/{path}", registry.url());
        urls
    })
}

/// Key that signs releases.
struct Key {
    home: PathBuf,
}

impl Key {
    fn new(shop: &Workshop) -> Self {
        let key = Self { home: shop.folder("gnupg") };
        let make = ["--quick-gen-key", "Archive <archive@example.org>", "ed25519", "sign", "never"];
        run(key.gpg(shop).args(make));
        run(key.gpg(shop).arg("--output").arg(Self::file(shop)).arg("--export"));
        key
    }

    /// Public key, by which clients check.
    fn file(shop: &Workshop) -> PathBuf {
        shop.path("archive.gpg")
    }

    fn gpg(&self, shop: &Workshop) -> std::process::Command {
        let mut gpg = shop.command("gpg", None);
        gpg.arg("--homedir").arg(&self.home).args(["--batch", "--yes", "--quiet"]);
        gpg.args(["--pinentry-mode", "loopback", "--passphrase", ""]);
        gpg
    }
}

impl Drop for Key {
    /// Ends the agent that gpg started.
    fn drop(&mut self) {
        let mut end = std::process::Command::new("gpgconf");
        let _ = end.arg("--homedir").arg(&self.home).args(["--kill", "all"]).status();
    }
}

/// A release with its lists by digest.
struct Generation {
    /// `InRelease`, signed.
    release: Vec<u8>,
    /// Digest and bytes of each list.
    lists: Vec<(String, Vec<u8>)>,
    /// Version of its packages.
    version: String,
}

impl Generation {
    fn new(shop: &Workshop, key: &Key, number: u32) -> Self {
        let version = format!("{number}.0");
        let plain = packages(shop, &version).into_bytes();
        let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
        coder.write_all(&plain).expect("memory takes bytes");
        let lists = [("Packages", plain), ("Packages.gz", coder.finish().expect("memory takes bytes"))];
        let named =
            lists.each_ref().map(|(name, list)| ((*name).to_owned(), registry::sha256(list), list.len()));
        // Each is a minute younger than the one before, and none is of the future.
        let time = SystemTime::now() - Duration::from_secs(3600) + Duration::from_secs(60) * number;
        let text = shop.write("Release", &release(time, "Acquire-By-Hash: yes\n", &named));
        let signed = run(key.gpg(shop).args(["--clearsign", "--output", "-"]).arg(text));
        let lists = lists.map(|(_, list)| (registry::sha256(&list), list)).into();
        Self { release: signed, lists, version }
    }

    fn write_release(&self, shop: &Workshop) {
        let next = shop.write("InRelease.next", "");
        std::fs::write(&next, &self.release).expect("writable");
        let folder = shop.folder(&format!("debian/{RELEASES}"));
        std::fs::rename(next, folder.join("InRelease")).expect("one file system");
    }

    fn write_lists(&self, shop: &Workshop) {
        let folder = shop.folder(&format!("debian/{LISTS}/by-hash/SHA256"));
        for (digest, list) in &self.lists {
            std::fs::write(folder.join(digest), list).expect("writable");
        }
    }
}

/// apt with lists of its own, which it keeps between updates.
struct Machine<'a> {
    shop: &'a Workshop,
    name: String,
}

impl<'a> Machine<'a> {
    fn new(shop: &'a Workshop, archive: &str, name: &str) -> Self {
        let key = Key::file(shop);
        settings(shop, Source { archive, proxy: None, signed_by: Some(&key) }, name);
        Self { shop, name: name.to_owned() }
    }

    /// Updates without a single failure, and gives the version that apt would install.
    fn update(&self) -> String {
        run(update(self.shop, &self.name).args(["-o", "APT::Update::Error-Mode=any"]));
        let mut next = crate::apt::apt(self.shop, &self.name);
        let found = line(next.args(["--print-uris", "download", "shoal-a"]));
        let version = found.split('_').nth(1).unwrap_or_else(|| panic!("no version: {found}"));
        version.to_owned()
    }
}

/// The archive's releases come before their lists, and one comes back: no machine sees a list that
/// does not fit, or a step back.
#[test]
fn apt_sees_whole_generations_only() {
    if !can_sign() {
        return;
    }
    let (shop, registry) = (Workshop::new(), Registry::start(Says::Lifetimes));
    let key = Key::new(&shop);
    let [first, second, third] = [1, 2, 3].map(|number| Generation::new(&shop, &key, number));
    first.write_lists(&shop);
    first.write_release(&shop);
    registry.redirecting("/debian/", &shop.path("debian"), ".deb");
    let Some(mut shoal) = registry.mirrored("deb", "/debian") else { return };
    let soon = "index_lifetime = \"1 s\"\nabsence_lifetime = \"1 s\"";
    shoal.change(|text| text.replace("index_lifetime = \"1h\"", soon));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    let archive = format!("http://{}/deb", shoal.address("reverse"));
    let kept = Machine::new(&shop, &archive, "kept");
    assert_eq!(kept.update(), first.version);
    for (before, after) in [(&first, &second), (&second, &third)] {
        after.write_release(&shop);
        std::thread::sleep(LIFETIME);
        let fresh = Machine::new(&shop, &archive, &format!("fresh-{}", after.version));
        for machine in [&kept, &fresh] {
            assert_eq!(machine.update(), before.version, "the lists are not there");
        }
        after.write_lists(&shop);
        wait::until("the newer release is published", || kept.update() == after.version);
        assert_eq!(fresh.update(), after.version);
        download_version(&shop, "kept", &after.version);
    }
    second.write_release(&shop);
    std::thread::sleep(LIFETIME);
    assert_eq!(kept.update(), third.version, "a step back");
    assert_eq!(Machine::new(&shop, &archive, "last").update(), third.version);
}

/// A release that another key signed is refused by apt itself.
#[test]
fn release_of_a_wrong_key_is_refused_by_apt() {
    if !can_sign() {
        return;
    }
    let (shop, other, registry) = (Workshop::new(), Workshop::new(), Registry::start(Says::Lifetimes));
    SignedApt.publish(&shop, &registry);
    let Some(shoal) = registry.mirrored("deb", "/debian") else { return };
    let archive = format!("http://{}/deb", shoal.address("reverse"));
    assert_eq!(Machine::new(&shop, &archive, "right").update(), "1.0");
    drop(Key::new(&other));
    std::fs::copy(Key::file(&other), Key::file(&shop)).expect("writable");
    Machine::new(&shop, &archive, "wrong");
    let output = update(&shop, "wrong").output().expect("apt starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("NO_PUBKEY"), "{said}");
}

pub const APT: Row = Row {
    client: "apt",
    task: "`update` and `download` of 3 packages",
    kind: "deb",
    path: "/debian",
    lock: Lock::None,
    list: ("URLs", "format=urls"),
    unlisted: &["/InRelease", "/Release.gpg"],
    absent: "/deb/dists/absent/InRelease",
    prepare: || is_there().then(|| Box::new(Apt) as Box<dyn Client>),
};

pub const APT_SIGNED: Row = Row {
    client: "apt, `signed-by`",
    task: "the same by a signed `InRelease`, lists by digest",
    unlisted: &[],
    prepare: || can_sign().then(|| Box::new(SignedApt) as Box<dyn Client>),
    ..APT
};

fn is_there() -> bool {
    installed("apt-get") && installed("dpkg-deb")
}

fn can_sign() -> bool {
    is_there() && installed("gpg") && installed("gpgv")
}

const RELEASES: &str = "dists/stable";
const LISTS: &str = "dists/stable/main/binary-amd64";

/// A little more than `index_lifetime` and `absence_lifetime` of the test.
const LIFETIME: Duration = Duration::from_millis(1_100);
