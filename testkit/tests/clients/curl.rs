//! curl, in every mode that Shoal serves.

use crate::rounds::twice;
use crate::workshop::{Workshop, installed, line, run};
use shoal_testkit::certificates::Authority;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Resource, Setup, Shoal};
use std::process::Command;

fn curl(shop: &Workshop, arguments: &[&str]) -> Command {
    let mut command = shop.command("curl", None);
    command.args(["-q", "--silent", "--show-error", "--max-time", "20"]).args(arguments);
    command
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.serve("/a", Resource::new(body("/a", 30_000)).etag("\"a\"").cache_control("max-age=600"));
    origin.on_request("/echo", |request| Answer::ok(request.body.clone()).field("Cache-Control", "no-store"));
    origin
}

fn proxy(shoal: &Shoal) -> String {
    format!("http://{}", shoal.address("forward"))
}

#[test]
fn curl_fetches_files_twice() {
    if !installed("curl") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    origin.on_request("/file/*", |request| Answer::fresh(body(request.path(), 40_000), 600));
    let shoal = Setup::bare().start();
    let url = format!("{}/file/[1-20]", origin.url());
    let [first, second] = twice("curl", "20 files of 40 kB", &origin, |round| {
        let out = shop.folder(&format!("round-{round}"));
        run(curl(&shop, &["-x", &proxy(&shoal), "-o", "#1", &url]).current_dir(&out));
        for number in 1..=20 {
            let read = std::fs::read(out.join(number.to_string())).expect("curl wrote it");
            assert!(read == body(&format!("/file/{number}"), 40_000), "file {number} of round {round}");
        }
    });
    assert_eq!((first.requests, second.requests), (20, 0));
}

#[test]
fn curl_speaks_every_mode() {
    if !installed("curl") {
        return;
    }
    let (shop, origin, authority) = (Workshop::new(), origin(), Authority::new());
    let setup = Setup::to(&origin);
    authority.issue(&["site.test"]).write(setup.folder(), "site");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let tls = format!(
        "mode = 'reverse'\ntls = [{{ certificate = '{}', key = '{}' }}]",
        file("site.pem"),
        file("site.key")
    );
    let ca = setup.file("ca.pem", &authority.pem()).to_string_lossy().into_owned();
    let port = i64::from(origin.address().port());
    let shoal = setup
        .listen("tls", &tls)
        .listen("proxied", "mode = 'reverse'\nproxy_protocol_from = ['127.0.0.0/8']")
        .set("forward.connect_ports", vec![port])
        .start();
    let plain = format!("http://{}/a", shoal.address("reverse"));
    let direct = format!("{}/a", origin.url());
    let secure = format!("https://site.test:{}/a", shoal.address("tls").port());
    let resolve = format!("site.test:{}:{}", shoal.address("tls").port(), shoal.address("tls").ip());
    let proxied = format!("http://{}/a", shoal.address("proxied"));
    let proxy = proxy(&shoal);
    let modes: [(&str, &[&str]); 9] = [
        ("reverse", &[&plain]),
        ("reverse, HTTP/1.0", &["--http1.0", &plain]),
        ("reverse, HTTP/2 by prior knowledge", &["--http2-prior-knowledge", &plain]),
        ("reverse, asking to upgrade to HTTP/2", &["--http2", &plain]),
        ("TLS with HTTP/2", &["--cacert", &ca, "--resolve", &resolve, "--http2", &secure]),
        ("TLS with HTTP/1.1", &["--cacert", &ca, "--resolve", &resolve, "--http1.1", &secure]),
        ("the PROXY protocol", &["--haproxy-protocol", &proxied]),
        ("forward", &["-x", &proxy, &direct]),
        ("a CONNECT tunnel", &["-x", &proxy, "--proxytunnel", &direct]),
    ];
    for (mode, arguments) in modes {
        for _ in 0..2 {
            assert!(run(&mut curl(&shop, arguments)) == body("/a", 30_000), "{mode}");
        }
    }
    let version =
        ["-o", "/dev/null", "-w", "%{http_version}", "--cacert", &ca, "--resolve", &resolve, &secure];
    assert_eq!(line(&mut curl(&shop, &version)), "2");
}

#[test]
fn curl_asks_for_parts_heads_and_changes() {
    if !installed("curl") {
        return;
    }
    let (shop, origin) = (Workshop::new(), origin());
    let shoal = Setup::to(&origin).start();
    let url = format!("http://{}/a", shoal.address("reverse"));
    run(&mut curl(&shop, &["-o", "whole", &url]));
    assert!(run(&mut curl(&shop, &["-r", "100-199", &url])) == body("/a", 30_000)[100..200]);
    let head = line(&mut curl(&shop, &["-I", &url]));
    assert!(
        head.starts_with("HTTP/1.1 200") && head.to_lowercase().contains("content-length: 30000"),
        "{head}"
    );
    shop.write("etag", "\"a\"\n");
    let unchanged = ["--etag-compare", "etag", "-o", "/dev/null", "-w", "%{http_code}", &url];
    assert_eq!(line(&mut curl(&shop, &unchanged)), "304");
    assert_eq!(origin.count("/a"), 1);

    // a download that stopped half way is resumed with a range
    shop.write("partial", "");
    std::fs::write(shop.path("partial"), &body("/a", 30_000)[..12_345]).expect("writable");
    run(&mut curl(&shop, &["-C", "-", "-o", "partial", &url]));
    assert!(std::fs::read(shop.path("partial")).expect("readable") == body("/a", 30_000));

    // curl expects 100 (Continue) before a large upload
    std::fs::write(shop.path("upload"), body("upload", 3_000_000)).expect("writable");
    let echo = format!("http://{}/echo", shoal.address("reverse"));
    for upload in [["-T", "upload"], ["--data-binary", "@upload"]] {
        let chunked = ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"];
        assert!(run(curl(&shop, &upload).arg(&echo)) == body("upload", 3_000_000));
        assert!(run(curl(&shop, &upload).args(chunked).arg(&echo)) == body("upload", 3_000_000));
    }
}

#[test]
fn curl_authenticates_to_the_proxy() {
    if !installed("curl") {
        return;
    }
    let (shop, origin) = (Workshop::new(), origin());
    let setup = Setup::bare();
    let users = setup.file("users", "ann:sesame\n").to_string_lossy().into_owned();
    let shoal = setup.set("forward.users_file", users).start();
    let url = format!("{}/a", origin.url());
    let code = |user: &str| {
        let arguments = ["-x", &proxy(&shoal), "-U", user, "-o", "/dev/null", "-w", "%{http_code}", &url];
        line(&mut curl(&shop, &arguments))
    };
    assert_eq!((code("ann:sesame").as_str(), code("ann:wrong").as_str()), ("200", "407"));
}
