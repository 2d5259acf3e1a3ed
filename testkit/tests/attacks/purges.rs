//! An origin purges its own responses alone.

use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal};

fn get(shoal: &Shoal, host: &str, path: &str) -> Response {
    shoal.connect().ask(&Request::get(path), host)
}

fn post(shoal: &Shoal, host: &str) {
    shoal.connect().ask(&Request::new("POST", "/act").body(b"x"), host).expect_status(200);
}

/// Groups had 65,535 slots, shared with hosts, tags and groups of all origins: so many names hit
/// them all.
#[test]
fn origin_that_purges_any_group_purges_no_other_host() {
    let origin = Origin::start();
    let page = Answer::fresh("a page", 600).field("Cache-Groups", "\"pages\"").field("Cache-Tag", "news");
    origin.on("/page", page);
    let shoal = Setup::to(&origin).start();
    let fill = || {
        for host in ["victim.test", "evil.test"] {
            get(&shoal, host, "/page").expect_status(200);
            get(&shoal, host, "/page").expect_hit();
        }
    };
    fill();
    // With 300,000 names 1 of 100 slots is missed; there are three of the victim's.
    for round in 0..300 {
        let groups: Vec<String> = (0..1000).map(|number| format!("\"{round}.{number}\"")).collect();
        origin.on("/act", Answer::new(200).field("Cache-Group-Invalidation", &groups.join(",")));
        post(&shoal, "evil.test");
    }
    get(&shoal, "victim.test", "/page").expect_hit();
    assert!(!get(&shoal, "evil.test", "/page").hit(), "all its own groups are purged at once");
}

#[test]
fn purge_of_a_group_outlives_a_kill() {
    let origin = Origin::start();
    origin.on("/page", Answer::fresh("a page", 600).field("Cache-Groups", "\"pages\""));
    let mut shoal = Setup::to(&origin).start();
    for host in ["one.test", "two.test"] {
        get(&shoal, host, "/page").expect_status(200);
    }
    let request = Request::new("POST", "/purge?group=pages&origin=http://one.test");
    shoal.ask_admin(&request).expect_status(200);
    shoal.restart_and_find_all();
    assert!(!get(&shoal, "one.test", "/page").hit(), "purged");
    get(&shoal, "two.test", "/page").expect_hit();
}
