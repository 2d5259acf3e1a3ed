//! The key exchange X25519MLKEM768 with Go's crypto/tls, which shares no code with ours.
//!
//! The program is built from `testkit/handshake`. It takes no module from elsewhere.

use crate::workshop::{Workshop, installed, run};
use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Origin, Setup};
use std::path::Path;
use std::process::Command;

#[test]
fn go_agrees_on_the_hybrid_group() {
    let shop = Workshop::new();
    if !installed("go") {
        return;
    }
    let program = shop.folder("programs").join("handshake");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("handshake"));
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-build"));
    run(go.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0"));

    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let ca = shop.write("ca.pem", &authority.pem());
    let setup = Setup::to(&origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |end: &str| setup.folder().join(format!("a.test.{end}")).to_string_lossy().into_owned();
    let pair = format!("tls = [{{ certificate = '{}', key = '{}' }}]", file("pem"), file("key"));
    let listen = |more: &str| format!("mode = 'reverse'\n{pair}\n{more}");
    let shoal = setup
        .listen("default", &listen(""))
        .listen("classical", &listen("tls_groups = ['x25519']"))
        .listen("hybrid", &listen("tls_groups = ['x25519mlkem768']\ntls_min_version = '1.3'"))
        .start();
    // Listener, options of the client, and the outcome; `None` if they must not agree.
    let cases: [(&str, &[&str], Option<&str>); 8] = [
        ("default", &[], Some("TLS 1.3 X25519MLKEM768 200\n")),
        ("default", &["-groups", "hybrid"], Some("TLS 1.3 X25519MLKEM768 200\n")),
        ("default", &["-groups", "x25519"], Some("TLS 1.3 X25519 200\n")),
        ("default", &["-groups", "p384"], Some("TLS 1.3 CurveP384 200\n")),
        ("default", &["-tls12"], Some("TLS 1.2 X25519 200\n")),
        ("classical", &[], Some("TLS 1.3 X25519 200\n")),
        ("hybrid", &[], Some("TLS 1.3 X25519MLKEM768 200\n")),
        ("hybrid", &["-groups", "x25519"], None),
    ];
    for (listener, options, expected) in cases {
        let mut client = shop.command(&program, None);
        client.args(["-name", "a.test", "-address", &shoal.address(listener).to_string(), "-ca"]).arg(&ca);
        let output = client.args(options).output().expect("the client was built");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        let agreed = output.status.success().then_some(said.as_str());
        assert_eq!(agreed, expected, "{listener} {options:?}: {error}");
    }
}
