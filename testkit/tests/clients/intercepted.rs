//! Clients of https through a forward proxy that intercepts: curl with HTTP/1.1 and HTTP/2, to
//! the proxy in cleartext and over TLS, and pip with the printed bundle.

use crate::pip::{NAMES, publish, python};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, line, run};
use shoal_testkit::certificates::Authority;
use shoal_testkit::interception::root;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Setup, Shoal};
use std::path::Path;

/// An https origin called `localhost`, and a proxy that intercepts it, over TLS too.
fn intercepted() -> (Origin, Shoal, Authority) {
    intercepted_with(|setup, _| setup)
}

/// The same, with further settings.
fn intercepted_with(settings: impl FnOnce(Setup, &Origin) -> Setup) -> (Origin, Shoal, Authority) {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost"]));
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    authority.issue(&["proxy.test", "127.0.0.1"]).write(setup.folder(), "proxy");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let tls = format!(
        "mode = 'forward'\ntls = [{{ certificate = '{}', key = '{}' }}]",
        file("proxy.pem"),
        file("proxy.key")
    );
    let setup = setup.listen("tls", &tls).set("upstream.ca_file", trusted);
    let setup = setup.intercepting(&["localhost"], &[origin.address().port()], &["localhost"]);
    let shoal = settings(setup, &origin).start();
    (origin, shoal, authority)
}

#[test]
fn curl_is_served_inside() {
    if !installed("curl") {
        return;
    }
    let ((origin, shoal, authority), shop) = (intercepted(), Workshop::new());
    origin.on("/a", Answer::fresh(body("a", 300_000), 600));
    let url = format!("https://localhost:{}/a", origin.address().port());
    let root = root(shoal.folder()).to_string_lossy().into_owned();
    let origins = shop.write("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    let plain = format!("http://{}", shoal.address("forward"));
    let secure = format!("https://proxy.test:{}", shoal.address("tls").port());
    let resolve = format!("proxy.test:{}:{}", shoal.address("tls").port(), shoal.address("tls").ip());
    let over_tls = ["-x", &secure, "--resolve", &resolve, "--proxy-cacert", &origins];
    let ways: [(&[&str], &str); 3] =
        [(&["-x", &plain, "--http1.1"], "1.1"), (&["-x", &plain, "--http2"], "2"), (&over_tls, "2")];
    for (way, version) in &ways {
        let mut curl = shop.command("curl", None);
        curl.args(["-q", "-sS", "--max-time", "20", "--cacert", &root, "-o", "got", "-w", "%{http_version}"]);
        let spoken = line(curl.args(*way).arg(&url));
        assert_eq!(&spoken, version, "{way:?}");
        assert!(std::fs::read(shop.path("got")).expect("a body") == body("a", 300_000), "{way:?}");
    }
    assert_eq!(origin.count("/a"), 1);
    shoal.expect_metric("shoal_intercepted_connections_total", "", ways.len() as u64);
}

#[test]
fn pip_installs_inside_twice() {
    let Some(python) = python() else { return };
    let requests = install(&python, intercepted());
    assert!(requests[0] >= 6 && requests[1] <= 3, "{requests:?}");
}

/// The index is the upstream of a mirror, whose lifetimes and digests hold inside.
#[test]
fn pip_installs_from_an_intercepted_mirror() {
    let Some(python) = python() else { return };
    let requests = install(
        &python,
        intercepted_with(|setup, origin| {
            let upstream = format!("https://localhost:{}/simple", origin.address().port());
            setup
                .listen("reverse", "mode = 'reverse'")
                .mirror(&format!("kind = 'pypi'\nupstream = '{upstream}'"))
                .set_list("intercept.hosts", &["mirrors"])
                .set("intercept.ports", vec![443_i64])
        }),
    );
    assert!(requests[0] >= 6 && requests[1] == 0, "{requests:?}");
}

/// Installs three wheels twice by the printed line, PIP_CERT. Gives the origin's requests of each
/// round.
fn install(python: &Path, (origin, shoal, _): (Origin, Shoal, Authority)) -> [usize; 2] {
    let shop = Workshop::new();
    publish(&shop, python);
    Says::Lifetimes.serve(&origin, "/simple/", shop.path("simple"), "max-age=600");
    Says::Lifetimes.serve(&origin, "/packages/", shop.path("packages"), "max-age=31536000, immutable");
    let index = format!("https://localhost:{}/simple/", origin.address().port());
    let bundle = shoal.folder().join("ca/bundle.pem");
    let requests = [1, 2].map(|round| {
        let before = origin.total();
        let target = shop.path(&format!("target-{round}"));
        let mut pip = shop.command(python, Some(&shoal));
        pip.env("PIP_CERT", &bundle).env("PIP_CONFIG_FILE", "/dev/null");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--no-cache-dir"]);
        run(pip.args(["--index-url", &index, "--target"]).arg(&target).arg("shoal-one"));
        for name in NAMES {
            assert!(target.join(name).join("data.bin").is_file(), "{name} in {}", target.display());
        }
        origin.total() - before
    });
    for name in NAMES {
        assert_eq!(origin.count(&format!("/packages/{name}-1.0-py3-none-any.whl")), 1, "{name}");
    }
    requests
}
