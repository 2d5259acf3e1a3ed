//! `apt-get update` and `download` from a repository made with `dpkg-deb`, with settings of their
//! own.

use crate::rounds::twice;
use crate::workshop::{Workshop, installed, line, run, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Origin, Setup, Shoal};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

#[test]
fn apt_updates_and_downloads_twice() {
    if !installed("apt-get") || !installed("dpkg-deb") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    repository(&shop);
    origin.serve_folder("/debian/", shop.path("debian"), &[("Cache-Control", "max-age=600")]);
    let shoal = Setup::bare().start();
    let [first, second] = twice("apt", "apt-get update and 3 packages", &origin, |round| {
        let archive = format!("{}/debian", origin.url());
        let source = Source { archive: &archive, proxy: Some(&shoal), signed_by: None };
        download(&shop, source, &format!("round-{round}"));
    });
    assert!(first.requests >= 5, "{first:?}");
    // apt asks for its indexes with max-age=0, so they are validated; packages come from the cache
    assert!(second.requests <= 4 && second.bytes < first.bytes / 20, "{first:?} {second:?}");
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        assert_eq!(origin.count(&format!("/debian/pool/{name}_1.0_all.deb")), 1, "{name}");
    }
}

/// Archive that an apt asks, and its trust in it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// URL of the archive.
    pub archive: &'a str,
    /// Proxy to it.
    pub proxy: Option<&'a Shoal>,
    /// File with the key that signs releases; without one, apt trusts the archive.
    pub signed_by: Option<&'a Path>,
}

/// Updates, and downloads the three packages.
pub(crate) fn download(shop: &Workshop, source: Source<'_>, round: &str) {
    settings(shop, source, round);
    run(&mut update(shop, round));
    download_version(shop, round, "1.0");
}

/// Prepares an update by the settings of a round.
pub(crate) fn update(shop: &Workshop, round: &str) -> Command {
    let mut apt = apt(shop, round);
    apt.arg("update");
    apt
}

/// Downloads the three packages, and checks that they are of this version.
pub(crate) fn download_version(shop: &Workshop, round: &str, version: &str) {
    let folder = shop.path(round);
    run(apt(shop, round).args(["download", "shoal-a", "shoal-b", "shoal-c"]).current_dir(&folder));
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        let got = sha256(&folder.join(format!("{name}_{version}_all.deb")));
        assert_eq!(got, sha256(&shop.path(&format!("debian/pool/{name}_{version}_all.deb"))), "{name}");
    }
}

/// Returns apt-get with the settings of a round.
pub(crate) fn apt(shop: &Workshop, round: &str) -> Command {
    let mut apt = shop.command("apt-get", None);
    apt.arg("-qq").env("APT_CONFIG", shop.path(&format!("{round}/apt.conf")));
    apt
}

/// Writes settings that keep apt within its folder and away from the machine's.
pub(crate) fn settings(shop: &Workshop, source: Source<'_>, round: &str) {
    let folder = shop.folder(round);
    for name in ["state/lists/partial", "cache/archives/partial", "etc"] {
        shop.folder(&format!("{round}/{name}"));
    }
    let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
    shop.write(&format!("{round}/status"), "");
    let trust =
        source.signed_by.map_or("trusted=yes".to_owned(), |key| format!("signed-by={}", key.display()));
    let sources = format!("deb [{trust}] {} stable main\n", source.archive);
    shop.write(&format!("{round}/etc/sources.list"), &sources);
    let proxy =
        source.proxy.map_or("DIRECT".to_owned(), |shoal| format!("http://{}", shoal.address("forward")));
    let mut conf = format!(
        "Dir::State \"{}\";\nDir::State::status \"{}\";\nDir::Cache \"{}\";\nDir::Etc::main \"/dev/null\";\n\
         Dir::Etc::parts \"/dev/null\";\nDir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\nDir::Log \"{}\";\nAcquire::http::Proxy \"{proxy}\";\n\
         Acquire::Languages \"none\";\nAcquire::Retries \"0\";\nAPT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\n",
        inside("state"),
        inside("status"),
        inside("cache"),
        inside("etc/sources.list"),
        inside("."),
    );
    // apt otherwise gives up its rights to a user who may not enter a temporary folder
    let user = line(Command::new("id").arg("-un"));
    conf += &format!("APT::Sandbox::User \"{user}\";\n");
    shop.write(&format!("{round}/apt.conf"), &conf);
}

/// A repository of three packages: `pool/`, `dists/stable/main/binary-amd64/Packages`,
/// `dists/stable/Release`.
pub(crate) fn repository(shop: &Workshop) {
    let packages = packages(shop, "1.0");
    let list = shop.write("debian/dists/stable/main/binary-amd64/Packages", &packages);
    let named = [("Packages".to_owned(), sha256(&list), packages.len())];
    shop.write("debian/dists/stable/Release", &release(SystemTime::now(), "", &named));
}

/// Makes three packages of a version, and gives their list.
pub(crate) fn packages(shop: &Workshop, version: &str) -> String {
    let mut list = String::new();
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: {name}\n"
        );
        shop.write(&format!("debs/{name}/DEBIAN/control"), &control);
        let data = shop.write(&format!("debs/{name}/usr/share/{name}/data"), "");
        std::fs::write(data, body(&format!("{name} {version}"), 60_000)).expect("writable");
        let file = format!("{name}_{version}_all.deb");
        let deb = shop.folder("debian/pool").join(&file);
        run(shop
            .command("dpkg-deb", None)
            .args(["--build", "--root-owner-group", "-Znone"])
            .arg(shop.path(&format!("debs/{name}")))
            .arg(&deb));
        let size = deb.metadata().expect("the package was made").len();
        list += &format!("{control}Filename: pool/{file}\nSize: {size}\nSHA256: {}\n\n", sha256(&deb));
    }
    list
}

/// A release of this time with lists: their names, digests and lengths.
pub(crate) fn release(time: SystemTime, more: &str, lists: &[(String, String, usize)]) -> String {
    let date = httpdate::fmt_http_date(time).replace("GMT", "UTC");
    let line =
        |(name, sum, size): &(String, String, usize)| format!(" {sum} {size} main/binary-amd64/{name}\n");
    let lines: String = lists.iter().map(line).collect();
    format!(
        "Origin: test\nSuite: stable\nCodename: stable\nDate: {date}\nArchitectures: amd64\nComponents: main\n{more}SHA256:\n{lines}"
    )
}
