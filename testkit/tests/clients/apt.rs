//! `apt-get update` and `download` from a repository made with `dpkg-deb`, with settings of their
//! own.

use crate::rounds::twice;
use crate::workshop::{Workshop, installed, line, run, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Origin, Setup, Shoal};
use std::path::PathBuf;
use std::process::Command;

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
        download(&shop, (&format!("{}/debian", origin.url()), Some(&shoal)), &format!("round-{round}"));
    });
    assert!(first.requests >= 5, "{first:?}");
    // apt asks for its indexes with max-age=0, so they are validated; packages come from the cache
    assert!(second.requests <= 4 && second.bytes < first.bytes / 20, "{first:?} {second:?}");
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        assert_eq!(origin.count(&format!("/debian/pool/{name}_1.0_all.deb")), 1, "{name}");
    }
}

/// Updates, and downloads the three packages.
pub(crate) fn download(shop: &Workshop, from: (&str, Option<&Shoal>), round: &str) {
    let folder = settings(shop, from, round);
    run(apt(shop, round).arg("update"));
    run(apt(shop, round).args(["download", "shoal-a", "shoal-b", "shoal-c"]).current_dir(&folder));
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        let got = sha256(&folder.join(format!("{name}_1.0_all.deb")));
        assert_eq!(got, sha256(&shop.path(&format!("debian/pool/{name}_1.0_all.deb"))), "{name}");
    }
}

fn apt(shop: &Workshop, round: &str) -> Command {
    let mut apt = shop.command("apt-get", None);
    apt.arg("-qq").env("APT_CONFIG", shop.path(&format!("{round}/apt.conf")));
    apt
}

/// Settings that keep apt within its folder and away from the machine's.
fn settings(shop: &Workshop, (archive, shoal): (&str, Option<&Shoal>), round: &str) -> PathBuf {
    let folder = shop.folder(round);
    for name in ["state/lists/partial", "cache/archives/partial", "etc"] {
        shop.folder(&format!("{round}/{name}"));
    }
    let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
    shop.write(&format!("{round}/status"), "");
    let source = format!("deb [trusted=yes] {archive} stable main\n");
    shop.write(&format!("{round}/etc/sources.list"), &source);
    let proxy = shoal.map_or("DIRECT".to_owned(), |shoal| format!("http://{}", shoal.address("forward")));
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
    folder
}

/// A repository of three packages: `pool/`, `dists/stable/main/binary-amd64/Packages`,
/// `dists/stable/Release`.
pub(crate) fn repository(shop: &Workshop) {
    let mut index = String::new();
    for name in ["shoal-a", "shoal-b", "shoal-c"] {
        let control = format!(
            "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: {name}\n"
        );
        shop.write(&format!("debs/{name}/DEBIAN/control"), &control);
        let data = shop.write(&format!("debs/{name}/usr/share/{name}/data"), "");
        std::fs::write(data, body(name, 60_000)).expect("writable");
        let deb = shop.folder("debian/pool").join(format!("{name}_1.0_all.deb"));
        run(shop
            .command("dpkg-deb", None)
            .args(["--build", "--root-owner-group", "-Znone"])
            .arg(shop.path(&format!("debs/{name}")))
            .arg(&deb));
        let size = deb.metadata().expect("the package was made").len();
        index += &format!(
            "{control}Filename: pool/{name}_1.0_all.deb\nSize: {size}\nSHA256: {}\n\n",
            sha256(&deb)
        );
    }
    let packages = shop.write("debian/dists/stable/main/binary-amd64/Packages", &index);
    let (sum, size) = (sha256(&packages), index.len());
    let date = httpdate_rfc2822();
    let release = format!(
        "Origin: test\nSuite: stable\nCodename: stable\nDate: {date}\nArchitectures: amd64\nComponents: main\nSHA256:\n {sum} {size} main/binary-amd64/Packages\n"
    );
    shop.write("debian/dists/stable/Release", &release);
}

fn httpdate_rfc2822() -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now()).replace("GMT", "UTC")
}
