//! The parts of an explanation that no Cache-Status repeats: stored variants, gaps between parts,
//! access, rates, pages for errors, credentials. A look has no effect on any of them.

use super::explain::explain;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shoal_testkit::{Answer, Origin, Request, Resource, Setup, Shoal};

#[test]
fn variants_are_listed_with_their_values() {
    let origin = Origin::start();
    origin
        .on_request("/v", |_| Answer::fresh("body", 600).field("Vary", "Accept-Language, Cookie, X-Device"));
    let shoal = Setup::to(&origin).start();
    for number in 0..30 {
        let request = Request::get("/v").field("X-Device", &format!("d{number}"));
        shoal.ask(&request.field("Cookie", "id=secret-of-a-client"));
    }
    let ask = |device: &str| {
        let fields = [("X-Device", device), ("Cookie", "id=secret-of-a-client")];
        explain(&shoal, json!({ "url": "http://site.test/v", "mode": "reverse", "fields": fields }))
    };
    let claim = ask("d7");
    let variants = claim["stored"]["variants"].as_array().expect("a list");
    let own = json!([["accept-language", null], ["cookie", "(not shown)"], ["x-device", "d7"]]);
    assert_eq!((&variants[0]["fields"], &variants[0]["is_selected"]), (&own, &json!(true)), "{claim:#}");
    assert_eq!((variants.len(), &claim["stored"]["variants_left_out"]), (20, &json!(10)), "{claim:#}");
    assert!(!claim.to_string().contains("secret-of-a-client") && variants[5]["tier"] == "ram");
    let absent = ask("other");
    assert_eq!(absent["stored"]["variants"][0]["tier"], "none");
    assert_eq!(absent["reuse"]["fwd"], "vary-miss");
}

#[test]
fn gaps_between_parts_are_told() {
    let origin = Origin::start();
    let whole: Vec<u8> = vec![b'x'; 1000];
    origin.serve("/parts", Resource::new(whole).etag("\"a\"").cache_control("max-age=600"));
    let shoal = Setup::to(&origin).start();
    for range in ["bytes=100-199", "bytes=150-299", "bytes=500-599"] {
        shoal.ask(&Request::get("/parts").field("Range", range)).expect_status(206);
    }
    let claim = explain(&shoal, json!({ "url": "http://site.test/parts", "mode": "reverse" }));
    assert_eq!(claim["stored"]["gaps"], json!([[0, 99], [300, 499], [600, 999]]), "{claim:#}");
    assert_eq!(claim["stored"]["complete_bytes"], 1000);
}

const GUARDED: &str = "
[[rule]]
paths = ['/private*']
users_file = 'USERS'
realm = 'inner'
error_page = 'PAGE'
statuses = []
[[rule]]
paths = ['/certified*']
allow_certificates = ['CN=*']
[[rule]]
paths = ['/slow*']
client_rate = 0.01
client_burst = 2
[[rule]]
paths = ['/slow/er*']
client_rate = 0.02
";

/// A node with users, rates, a page and credentials of its own.
fn limited(origin: &Origin) -> Shoal {
    let setup = Setup::to(origin).without_sites();
    let users = setup.file("users", "ann:secret\n").display().to_string();
    let page = setup.file("down.html", "<p>down</p>").display().to_string();
    let key = setup.file("packages.key", "node:top-secret\n");
    let rules: toml::Table = GUARDED.replace("USERS", &users).replace("PAGE", &page).parse().expect("TOML");
    let upstream = format!("{{ url = '{}', credentials = '{}' }}", origin.url(), key.display());
    setup.site(&format!("hosts = ['*']\nupstreams = [{upstream}]")).set("rule", rules["rule"].clone()).start()
}

#[test]
fn access_rates_pages_and_credentials_are_told() {
    let origin = Origin::start();
    origin.on_request("/*", |_| Answer::fresh("body", 600));
    let shoal = limited(&origin);
    let ask = |path: &str, fields: Value| {
        let url = format!("http://site.test{path}");
        explain(&shoal, json!({ "url": url, "mode": "reverse", "fields": fields }))
    };
    let private = ask("/private/a", json!([]));
    assert_eq!(
        (&private["refusal"]["setting"], &private["refusal"]["status"]),
        (&json!("rule[0].users_file"), &json!(401)),
        "{private:#}"
    );
    assert_eq!(private["guards"][0], json!({ "setting": "rule[0].users_file", "value": "\"users\"" }));
    assert_eq!(private["guards"][1]["value"], "\"inner\"");
    let page = &private["error_pages"][0];
    assert_eq!((&page["file"], &page["setting"]), (&json!("down.html"), &json!("rule[0].error_page")));
    assert!(page["statuses"].as_array().is_some_and(|statuses| statuses.contains(&json!(503))));
    let open = ask("/open", json!([]));
    assert_eq!(open["site"]["upstreams"][0]["credentials"], "packages.key");
    assert!(!open.to_string().contains("top-secret"));
    let certified = ask("/certified", json!([]));
    assert_eq!(certified["refusal"]["setting"], "rule[1].allow_certificates");
    let slower = ask("/slow/er", json!([]));
    let settings = |claim: &Value| {
        let rates = claim["rates"].as_array().expect("a list").iter();
        rates.map(|rate| rate["setting"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(settings(&slower), ["rule[2].client_rate", "rule[3].client_rate"]);
    assert!(!slower["rules"].to_string().contains("overruled\""), "each rate counts by itself: {slower:#}");
    assert_eq!(slower["refusal"], Value::Null);
    shoal.get("/slow/a");
    shoal.get("/slow/a");
    let late = ask("/slow/a", json!([]));
    assert_eq!(
        (&late["refusal"]["status"], &late["refusal"]["setting"]),
        (&json!(429), &json!("rule[2].client_rate")),
        "{late:#}"
    );
    shoal.get("/slow/a").expect_status(429);
}

/// Wrong passwords in supposed requests are nobody's guesses.
#[test]
fn supposed_credentials_are_not_counted() {
    let origin = Origin::start();
    origin.on_request("/*", |_| Answer::fresh("body", 600));
    let shoal = limited(&origin);
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let request = json!({
        "url": "http://site.test/private/a",
        "mode": "reverse",
        "fields": [["Authorization", basic("ann:wrong")]],
    });
    for _ in 0..15 {
        let claim = explain(&shoal, request.clone());
        assert_eq!(claim["refusal"]["status"], 401, "{claim:#}");
    }
    let proven = Request::get("/private/a").field("Authorization", &basic("ann:secret"));
    shoal.ask(&proven).expect_body("body");
    // Real ones count still, and a look tells.
    for _ in 0..11 {
        shoal.ask(&Request::get("/private/a").field("Authorization", &basic("ann:wrong")));
    }
    assert_eq!(explain(&shoal, request)["refusal"]["status"], 429);
}
