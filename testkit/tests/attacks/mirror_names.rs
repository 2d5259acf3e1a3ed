//! A client spells a refused package in another way, or hides it in the path of another one.

use shoal_testkit::{Answer, Origin, Setup, Shoal};

fn mirror(kind: &str, origin: &Origin, path: &str, more: &str) -> Shoal {
    let upstream = origin.url();
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = '{kind}'\nupstream = '{upstream}{path}'\n{more}"))
        .start()
}

/// Asks for paths of a refused package: none may reach the registry.
fn expect_refused(kind: &str, base: &str, patterns: &str, paths: &[String]) {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("secret"));
    let shoal = mirror(kind, &origin, base, &format!("refuse = {patterns}\nfile_hosts = ['*']"));
    for path in paths {
        let answer = shoal.get(path);
        assert!(answer.status >= 400, "{kind} {path}: {answer:?}");
    }
    let asked: Vec<String> = origin.received().iter().map(|received| received.target.clone()).collect();
    assert!(asked.is_empty(), "{kind}: {asked:?}");
}

fn paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn npm_names_are_refused_in_every_spelling() {
    let spellings = [
        "/npm/bad",
        "/npm/%62ad",
        "/npm/Bad",
        "/npm/bad/1.0.0",
        "/npm/@Scope/bad",
        "/npm/@scope%2fb%61d",
        "/npm/a/-/..%2f..%2fbad%2f-%2fbad-1.0.0.tgz",
        "/npm/a/-/%2e%2e%2f%2e%2e%2fbad%2f-%2fbad-1.0.0.tgz",
        "/npm/-/npm/v1/..%2f..%2f..%2fbad",
        "/npm/-/npm/v1/..;/..;/..;/bad",
        "/npm/-/npm/v1/..%252f..%252f..%252fbad",
        "/npm/-/package/bad/dist-tags",
    ];
    expect_refused("npm", "", "['bad', '@scope/*']", &paths(&spellings));
}

#[test]
fn maven_and_deb_names_are_refused_in_every_spelling() {
    let spellings = [
        "/maven/org/evil/bad/1.0/bad-1.0.jar",
        "/maven/org/%65vil/bad/1.0/bad-1.0.jar",
        "/maven/org/evil/b%61d/maven-metadata.xml",
        "/maven/org%2fevil/bad/1.0/bad-1.0.jar",
        "/maven/org/evil;x=1/bad/1.0/bad-1.0.jar",
        "/maven/org/evil/bad;x/1.0/bad-1.0.jar",
        "/maven/org/evil/bad/1.0;maven-metadata.xml/bad-1.0.jar",
        "/maven/org/evil\\bad/1.0/bad-1.0.jar",
        "/maven//org/evil/bad/1.0/bad-1.0.jar",
        "/maven/org/./evil/bad/1.0/bad-1.0.jar",
        "/maven/x/%2e%2e/org/evil/bad/1.0/bad-1.0.jar",
    ];
    expect_refused("maven", "/maven2", "['org.evil:bad']", &paths(&spellings));
    let spellings = [
        "/deb/pool/main/b/bad/bad_1.0_amd64.deb",
        "/deb/pool/main/b/bad/%62ad_1.0_amd64.deb",
        "/deb/pool/main/b/bad/b%61d%5f1.0_amd64.deb",
        "/deb/pool/main/b/bad/x%2f..%2fbad_1.0_amd64.deb",
        "/deb/pool/main/b/bad/x%2fbad_1.0_amd64.deb",
        "/deb/pool/main/b/bad/bad_1.0_amd64.deb;x",
        "/deb/pool/main/b/bad/bad_1.0_amd64.d%65b",
    ];
    expect_refused("deb", "/debian", "['bad']", &paths(&spellings));
}

#[test]
fn gem_and_crate_names_are_refused_in_every_spelling() {
    let spellings =
        ["/rubygems/info/http-2", "/rubygems/gems/http-2-0.11.0.gem", "/rubygems/gems/http%2d2-0.11.0.gem"];
    expect_refused("rubygems", "", "['http-2']", &paths(&spellings));
    let spellings = [
        "/cargo/ba/d_/bad_crate".to_owned(),
        "/cargo/ba/d-/bad-crate".to_owned(),
        format!("/cargo/crates/bad_crate/1.0.0/{SHA256}/download"),
        format!("/cargo/crates/Bad-Crate/1.0.0/{SHA256}/download"),
        format!("/cargo/crates/%62ad-crate/1.0.0/{SHA256}/download"),
    ];
    expect_refused("cargo", "", "['Bad-Crate']", &spellings);
}

#[test]
fn python_names_are_refused_in_every_spelling() {
    let origin = Origin::start();
    let host = origin.url().replace("http://", "");
    let file = |name: &str| format!("/pypi/files/{host}/p/{name}");
    let mut spellings =
        paths(&["/pypi/simple/bad-project/", "/pypi/simple/Bad_Project", "/pypi/simple/b%61d.project/"]);
    for name in [
        "bad_project-1.0-py3-none-any.whl",
        "Bad.Project-1.0.tar.gz",
        "%62ad_project-1.0-py3-none-any.whl",
        "bad_project-1.0-py3-none-any.wh%6c",
        "x%2fbad_project-1.0-py3-none-any.whl",
        "bad_project-1.0-1.tar.gz",
        "bad_project-1.0.tar.gz;x",
        "bad_project-1.0.tar.gz.metadata",
    ] {
        spellings.push(file(name));
    }
    expect_refused("pypi", "/simple", "['Bad_Project']", &spellings);
}

#[test]
fn image_names_are_refused_with_the_mirrors_name() {
    let spellings = [
        "/v2/library/bad/manifests/latest".to_owned(),
        "/v2/oci/library/bad/manifests/latest".to_owned(),
        format!("/v2/oci/library/bad/blobs/sha256:{SHA256}"),
        "/v2/oci/library/b%61d/tags/list".to_owned(),
    ];
    expect_refused("oci", "", "['library/bad']", &spellings);
}

#[test]
fn owned_names_are_refused_elsewhere_in_every_spelling() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("secret"));
    let url = origin.url();
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'pypi'\nupstream = '{url}/simple'"))
        .mirror(&format!("kind = 'pypi'\nname = 'own'\nupstream = '{url}/own'\nowned = ['My_Company*']"))
        .start();
    for path in ["/pypi/simple/my-company-lib/", "/pypi/simple/My.Company/", "/pypi/simple/mY_companYx"] {
        assert_eq!(shoal.get(path).status, 403, "{path}");
    }
    assert_eq!(origin.total(), 0);
}
