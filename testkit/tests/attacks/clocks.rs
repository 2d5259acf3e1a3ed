//! A machine whose clock is set, by seconds or by years, while a node runs and while it does not:
//! purges hold, and nothing stays fresh for longer than its lifetime.

use shoal_testkit::shim::Shim;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::thread;
use std::time::{Duration, Instant};

/// An origin of numbered answers: each time another body.
fn counting(path: &str, lifetime: u64) -> Origin {
    let origin = Origin::start();
    let versions = (0..200).map(|version| {
        Answer::fresh(format!("version {version}"), lifetime).field("Cache-Tag", "news").undated()
    });
    origin.on_each(path, versions.collect::<Vec<_>>());
    origin
}

fn started(origin: &Origin) -> Option<(Shoal, Shim)> {
    let shim = match Shim::new() {
        Ok(shim) => shim,
        Err(why) => {
            eprintln!("skipped: no clock can be shifted here: {why}");
            return None;
        }
    };
    let setup = Setup::to(origin)
        .shim(&shim, "store")
        .set("store.admission", "always")
        .set("cache.tag_fields", vec![toml::Value::from("Cache-Tag")]);
    Some((setup.start(), shim))
}

fn purge(shoal: &Shoal) {
    shoal.ask_admin(&Request::new("POST", "/purge?tag=news")).expect_status(200);
}

/// By which the clock is set, in seconds.
const STEPS: [i64; 8] = [5, -5, 3600, -3600, -3 * DAY, 30 * DAY, -400 * DAY, 400 * DAY];
const DAY: i64 = 86_400;

#[test]
fn purges_hold_when_the_clock_is_set_while_a_node_is_stopped() {
    let origin = counting("/a", 1_000_000_000);
    let Some((mut shoal, shim)) = started(&origin) else { return };
    let mut offset = 0;
    for step in STEPS {
        let stored = shoal.get("/a").text();
        shoal.get("/a").expect_hit();
        shoal.wait_until_written();
        // Before: what was stored is purged, and the clock is set.
        purge(&shoal);
        offset += step;
        shim.set_clock_offset(offset);
        shoal.restart();
        let after = shoal.get("/a");
        assert!(!after.hit() && after.text() != stored, "by {step}: {}", after.text());
        // After: it is set, and what was stored before is purged.
        shoal.wait_until_written();
        offset -= 2 * step;
        shim.set_clock_offset(offset);
        shoal.restart();
        purge(&shoal);
        let again = shoal.get("/a");
        assert!(!again.hit() && again.text() != after.text(), "by {}: {}", -2 * step, again.text());
    }
}

#[test]
fn purges_hold_when_the_clock_is_set_while_a_node_runs() {
    let origin = counting("/a", 1_000_000_000);
    let Some((shoal, shim)) = started(&origin) else { return };
    let mut offset = 0;
    for step in STEPS {
        let stored = shoal.get("/a").text();
        offset += step;
        shim.set_clock_offset(offset);
        purge(&shoal);
        let after = shoal.get("/a");
        assert!(!after.hit() && after.text() != stored, "by {step}: {}", after.text());
        let again = shoal.get("/a");
        assert!(again.text() == after.text() || step > 0, "by {step}: it can be kept again");
    }
}

#[test]
fn nothing_stays_fresh_for_longer_when_the_clock_is_set_back() {
    let origin = counting("/a", LIFETIME);
    let Some((mut shoal, shim)) = started(&origin) else { return };
    let (mut offset, mut first, mut since) = (0, String::new(), Instant::now());
    for (round, step) in [-30 * DAY, 7200, -2].into_iter().enumerate() {
        for is_restarted in [false, true] {
            offset += step;
            shim.set_clock_offset(offset);
            if is_restarted {
                shoal.restart();
            }
            let end = Instant::now() + Duration::from_secs(LIFETIME + 2);
            while Instant::now() < end {
                let asked = Instant::now();
                let text = shoal.get("/a").text();
                if text != first {
                    (first, since) = (text, asked);
                }
                // Served out of storage: it was fetched no longer ago than it may be fresh, and
                // what the clocks' seconds are worth.
                let age = Instant::now() - since;
                assert!(age < Duration::from_secs(LIFETIME + 2), "round {round}, by {step}: {age:?}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

const LIFETIME: u64 = 2;
