//! Rules that pin: responses stay on disk when space is made for others.

use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};

/// A node with a small disk, next to no RAM, and a rule that pins `/kept/*`.
fn shoal(origin: &Origin) -> Shoal {
    let rules: toml::Table = "[[rule]]\npaths = ['/kept/*']\npin = true\n".parse().expect("TOML");
    Setup::to(origin)
        .set("rule", rules["rule"].clone())
        .set("cache.ram", "4 MiB")
        .set("cache.ram_object_max", "128 KiB")
        .set("store.disk", "12 MB")
        .set("store.pin_max", "3 MB")
        .set("store.admission", "always")
        .start()
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/kept/varied", |request| {
        let coding = request.fields.joined("Accept-Encoding");
        Answer::fresh(coding, 3600).field("Vary", "Accept-Encoding")
    });
    origin.on("/kept/small", Answer::fresh("s".repeat(3000), 3600));
    origin.on("/kept/large", Answer::fresh("l".repeat(700_000), 3600));
    origin.on("/plain", Answer::fresh("p".repeat(3000), 3600));
    for number in 0..500 {
        origin.on(&format!("/other/{number}"), Answer::fresh("o".repeat(60_000), 3600));
    }
    origin
}

#[test]
fn pinned_responses_outlast_others_and_a_restart() {
    let origin = origin();
    let mut shoal = shoal(&origin);
    let varied = Request::get("/kept/varied").field("Accept-Encoding", "br");
    for path in ["/kept/small", "/kept/large"] {
        shoal.get(path).expect_status(200);
    }
    shoal.ask(&varied).expect_body("br");
    for number in 0..500 {
        // Not beside a piece of a large pinned body: such a stripe stays whole.
        if number == 100 {
            shoal.get("/plain").expect_status(200);
        }
        shoal.get(&format!("/other/{number}")).expect_status(200);
        if number % 25 == 0 {
            // An insert is declined while too much waits.
            shoal.wait_until_written();
        }
        if number == 250 {
            shoal.restart();
        }
    }
    shoal.restart();
    shoal.get("/kept/small").expect_hit();
    shoal.get("/kept/large").expect_hit();
    shoal.ask(&varied).expect_body("br").expect_hit();
    assert!(!shoal.get("/plain").hit(), "nobody pinned it");
}
