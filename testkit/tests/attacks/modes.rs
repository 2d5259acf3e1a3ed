//! A URL that a site serves, and that clients of the forward proxy ask for: each gets what is meant
//! for it, under its own head.
//!
//! Both modes ask for the same four URLs at once. Every version of a response says in its body and
//! in its ETag whose it is; versions change often, are stored, validated and replaced, in RAM and
//! on the disk. `SHOAL_REQUESTS` sets how many requests each course has.

use shoal_testkit::seeded::{Random, seed};
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// An origin of four resources, whose versions follow from how often they were asked for.
fn versioned(name: &'static str) -> Origin {
    let origin = Origin::start();
    let asked = Arc::new(AtomicU64::new(0));
    origin.on_request("/*", move |request| {
        let version = asked.fetch_add(1, Relaxed) / 3;
        let tag = format!("\"{name}{}-{version}\"", request.path().replace('/', "-"));
        let lifetime = format!("max-age={}", version % 2);
        let answer = match request.fields.joined("if-none-match") == tag {
            true => Answer::new(304),
            // Of one length, so that a body fits under another's head.
            false => Answer::ok(format!("{tag:>60}").repeat(40)),
        };
        answer.field("ETag", &tag).field("Cache-Control", &lifetime)
    });
    origin
}

/// Both modes ask until each client has asked so often. Counts wrong answers, and the others.
fn ask_in_both_modes(shoal: &Shoal, host: &str, requests: u64, seed: u64) -> (u64, u64) {
    let client = |number: u64| {
        let mut random = Random::new(seed.wrapping_add(number));
        let is_forward = number.is_multiple_of(2);
        let mut connection = if is_forward { shoal.connect_forward() } else { shoal.connect() };
        let (mut wrong, mut right) = (0, 0);
        for _ in 0..requests {
            let path = format!("/hot/{}", random.below(4));
            let (target, name) = match is_forward {
                true => (format!("http://{host}{path}"), "host"),
                false => (path.clone(), "site"),
            };
            let mut request = Request::get(&target);
            if random.below(8) == 0 {
                request = request.field("Cache-Control", "no-cache");
            }
            let response = connection.ask(&request, host);
            let tag = response.field("etag").unwrap_or_default().to_owned();
            let is_right = response.status == 200
                && tag.starts_with(&format!("\"{name}{}-", path.replace('/', "-")))
                && response.text() == format!("{tag:>60}").repeat(40);
            if !is_right {
                let text = response.text();
                eprintln!("{target}: {} {tag} {}", response.status, text.trim().get(..40).unwrap_or(&text));
            }
            *(if is_right { &mut right } else { &mut wrong }) += 1;
        }
        (wrong, right)
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        let counts = clients.into_iter().map(|client| client.join().expect("no panic"));
        counts.fold((0, 0), |(wrong, right), more| (wrong + more.0, right + more.1))
    })
}

fn setup(site: &Origin) -> Setup {
    Setup::to(site).set("store.admission", "always").set("log.access", "none")
}

fn requests() -> u64 {
    std::env::var("SHOAL_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000) / CLIENTS
}

#[test]
fn both_modes_get_their_own_bodies_out_of_ram() {
    let (site, host) = (versioned("site"), versioned("host"));
    let shoal = setup(&site).start();
    let (wrong, right) = ask_in_both_modes(&shoal, &host.address().to_string(), requests(), seed(24));
    assert!(wrong == 0 && right > 0, "{wrong} of {} answers are wrong", wrong + right);
}

#[test]
fn both_modes_get_their_own_bodies_off_the_disk() {
    let (site, host) = (versioned("site"), versioned("host"));
    let mut shoal = setup(&site).set("cache.ram_object_max", "1 B").start();
    for round in 0..2 {
        let course = seed(25) + round;
        let (wrong, right) = ask_in_both_modes(&shoal, &host.address().to_string(), requests() / 2, course);
        assert!(wrong == 0 && right > 0, "{wrong} of {} answers are wrong", wrong + right);
        // What the last second brought may be lost; heads and bodies that are left belong together.
        shoal.kill();
        shoal.restart();
    }
}

#[test]
fn purge_of_a_url_reaches_both_modes() {
    let (site, host) = (Origin::start(), Origin::start());
    site.on("/a", Answer::fresh("the site's", 600));
    host.on("/a", Answer::fresh("the host's", 600));
    let shoal = Setup::to(&site).start();
    let name = host.address().to_string();
    let url = format!("http://{name}/a");
    let ask = || {
        shoal.connect().ask(&Request::get("/a"), &name).expect_body("the site's");
        shoal.ask_forward(&Request::get(&url)).expect_body("the host's");
    };
    let both = |count: usize| site.count("/a") == count && host.count("/a") == count;
    ask();
    assert!(wait::within(Duration::from_secs(10), || {
        ask();
        both(1)
    }));
    let body = format!("url={url}");
    let purge = Request::new("POST", &format!("/purge?{body}"));
    shoal.ask_admin(&purge).expect_status(200);
    ask();
    assert!(both(2), "{} and {} fetches", site.count("/a"), host.count("/a"));
}

/// Half of them of each mode.
const CLIENTS: u64 = 8;
