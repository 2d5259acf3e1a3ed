//! A reload takes up everything of the new settings that can change, or nothing; what cannot change
//! stays as it was.

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::time::Duration;

/// Found by its place in the file, a listener would get another's mode: one of sites, which all the
/// world reaches, that of a forward proxy.
#[test]
fn a_listener_that_is_added_before_others_leaves_them_as_they_are() {
    let origin = anything();
    let mut shoal = Setup::to(&origin).start();
    let url = format!("{}/a", origin.url());
    let modes_hold = |shoal: &Shoal, when: &str| {
        assert_eq!(shoal.ask_forward(&Request::get(&url)).status, 200, "{when}: the forward listener");
        let tunnel = shoal.connect().ask(&Request::new("CONNECT", "site.test:443"), "site.test:443");
        assert_eq!(tunnel.status, 405, "{when}: the reverse listener makes no tunnels");
        assert_eq!(shoal.get("/a").status, 200, "{when}: the reverse listener");
    };
    modes_hold(&shoal, "at the start");
    let entry = format!("[[listen]]\naddress = \"{}\"\nmode = \"reverse\"\n\n", free_port(fresh_ip()));
    shoal.change(|text| text.replacen("[[listen]]", &(entry + "[[listen]]"), 1));
    reload(&shoal);
    modes_hold(&shoal, "with another before them");
    assert!(shoal.log().contains("take effect with the next start: listen"), "{}", shoal.log());
}

/// Its entry is gone, but it listens until the next start.
#[test]
fn a_listener_that_is_removed_stays_what_it_was() {
    let origin = anything();
    let setup = Setup::to(&origin).listen("second", "mode = 'forward'");
    let second = setup.address("second");
    let mut shoal = setup.start();
    // A forward listener makes tunnels, though not to this port; a reverse listener makes none.
    let ask = || Connection::open(second).ask(&Request::new("CONNECT", "site.test:1"), "site.test:1").status;
    assert_eq!(ask(), 403);
    let entry = format!("[[listen]]\naddress = \"{second}\"\nmode = \"forward\"\n");
    shoal.change(|text| {
        assert!(text.contains(&entry), "{text}");
        text.replace(&entry, "")
    });
    reload(&shoal);
    assert_eq!(ask(), 403);
}

/// The mode itself may change.
#[test]
fn a_listener_takes_up_another_mode() {
    let origin = anything();
    let mut shoal = Setup::to(&origin).listen("second", "mode = 'forward'").start();
    let reverse = format!("address = \"{}\"\nmode = \"reverse\"", shoal.address("reverse"));
    shoal.change(|text| text.replace(&reverse, &reverse.replace("reverse", "forward")));
    // The site has no listener then, which would be a mistake.
    let second = format!("address = \"{}\"\nmode = \"forward\"", shoal.address("second"));
    shoal.change(|text| text.replace(&second, &second.replace("forward", "reverse")));
    reload(&shoal);
    let request = Request::get(&format!("{}/a", origin.url()));
    assert_eq!(shoal.connect().ask(&request, &origin.address().to_string()).status, 200);
    let mut second = Connection::open(shoal.address("second"));
    assert_eq!(second.ask(&Request::get("/a"), "site.test").status, 200);
}

/// Clients of the proxy that may reach loopback must not reach the admin listener, where it listens
/// and not where it will.
#[test]
fn the_admin_listener_is_no_destination_after_its_address_was_changed() {
    let mut shoal = Setup::bare().start();
    let (admin, next) = (shoal.admin(), free_port(fresh_ip()));
    let request = Request::get(&format!("http://{admin}/version"));
    shoal.ask_forward(&request).expect_status(508);
    shoal.change(|text| text.replace(&admin.to_string(), &next.to_string()));
    reload(&shoal);
    shoal.ask_forward(&request).expect_status(508);
}

#[test]
fn what_cannot_be_taken_up_leaves_all_as_it_was() {
    let origin = anything();
    let authority = Authority::new();
    let setup = Setup::to(&origin).set("client.target_max", "4 KiB");
    let issued = authority.issue(&["a.test"]);
    issued.write(setup.folder(), "a.test");
    let setup =
        setup.listen("tls", "mode = 'reverse'\ntls = [{ certificate = 'a.test.pem', key = 'a.test.key' }]");
    let mut shoal = setup.start();
    std::fs::write(shoal.folder().join("a.test.pem"), "not a certificate").expect("writable");
    let log = shoal.folder().join("other.log");
    shoal.change(|text| text.replace("access.log", "other.log").replace("4 KiB", "256 B"));
    assert_eq!(shoal.ask_admin(&Request::new("POST", "/reload")).status, 422);
    let long = format!("/{}", "x".repeat(1000));
    assert_eq!(shoal.get(&long).status, 200, "limits on clients are the old ones");
    assert!(shoal.access_log(1)[0].contains("xxx"));
    assert_eq!(std::fs::read_to_string(log).unwrap_or_default(), "", "the log is written where it was");
}

/// A site that did not change goes on with what it knows of its upstreams: one that was found ill
/// gets no requests, until it would be found so again.
#[test]
fn an_upstream_that_is_out_of_service_stays_out() {
    let (good, ill) = (anything(), anything());
    ill.on("/health", Answer::new(503));
    let site = |interval: &str| {
        format!(
            "hosts = ['*']\nhealth = {{ path = '/health', interval = '{interval}', threshold = 2 }}\n\
             upstreams = [{{ url = '{}' }}, {{ url = '{}' }}]",
            good.url(),
            ill.url()
        )
    };
    let mut shoal = Setup::to(&good).without_sites().site(&site("2s")).start();
    let healthy = |shoal: &Shoal| {
        let status = shoal.status();
        let upstreams = status["upstreams"].as_array().expect("a list").clone();
        upstreams.iter().filter(|upstream| upstream["healthy"] == true).count()
    };
    wait::until("the ill upstream is taken out", || healthy(&shoal) == 1);
    shoal.change(|text| text.replace("[cache]", "[cache]\ncollapse = false"));
    reload(&shoal);
    assert_eq!(healthy(&shoal), 1);
    let checks = ill.count("/health");
    for number in 0..6 {
        shoal.get(&format!("/{number}")).expect_body("body");
    }
    assert_eq!(ill.total(), checks, "only checks reach it");
    // It is still looked after, and by one alone.
    ill.on("/health", Answer::new(200));
    wait::until("it is back in service", || healthy(&shoal) == 2);
    // A site that changed begins anew.
    ill.on("/health", Answer::new(503));
    wait::until("the ill upstream is taken out", || healthy(&shoal) == 1);
    shoal.change(|text| text.replace("\"2s\"", "\"1day\""));
    reload(&shoal);
    assert_eq!(healthy(&shoal), 2);
}

/// Its files may be on a disk that hangs; here one is a pipe, whose other end says nothing.
#[test]
fn a_reload_that_waits_for_a_file_keeps_nobody_from_looking_and_from_stopping() {
    for by_signal in [true, false] {
        let origin = anything();
        let setup = Setup::to(&origin).set("forward.users_file", "users");
        let users = setup.file("users", "user:password\n");
        let mut shoal = setup.start();
        std::fs::remove_file(&users).expect("it is there");
        mknodat(CWD, &users, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let mut asking = Connection::open(shoal.admin());
        match by_signal {
            true => shoal.signal(Signal::HUP),
            false => asking.send(Request::new("POST", "/reload").to_bytes("localhost")),
        }
        let mut silent = None;
        wait::until("the reload opens the pipe", || {
            silent = rustix::fs::open(&users, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
            silent.is_some()
        });
        // it looks at the pipe first, and then reads it
        std::thread::sleep(Duration::from_millis(300));
        for path in ["/status", "/metrics", "/healthz"] {
            shoal.ask_admin(&Request::get(path)).expect_status(200);
        }
        shoal.get("/a").expect_body("body");
        shoal.signal(Signal::TERM);
        let status = shoal.wait_for_exit(Duration::from_secs(10)).expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", shoal.log());
        drop(silent);
    }
}

/// What needs another start is said with each reload until then, and the status tells what is at
/// work.
#[test]
fn what_needs_a_start_is_named_until_it_comes() {
    let mut shoal = Setup::bare().start();
    shoal.change(|text| {
        format!("max_connections = 77\n{text}").replace("[store]", "[store]\narchitecture = \"squid\"")
    });
    shoal.change(|text| {
        text.replace("workers = 2", "workers = 3").replace("[cache]", "[cache]\nram_object_max = \"1 KiB\"")
    });
    for times in 1..=2 {
        reload(&shoal);
        let named = "take effect with the next start: workers, max_connections, cache.ram_object_max, store";
        assert_eq!(shoal.log().matches(named).count(), times, "{}", shoal.log());
    }
    assert_eq!(shoal.status()["store"]["architecture"], "volume");
}

fn anything() -> Origin {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 60));
    origin
}

fn reload(shoal: &Shoal) {
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
}

/// Less RAM evicts at once, more admits at once, and no object on disk is lost by either.
#[test]
fn ram_of_the_cache_changes_while_serving() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x".repeat(20_000), 600));
    let mut shoal = Setup::to(&origin).set("cache.ram", "16 MiB").set("store.admission", "always").start();
    let ask = |shoal: &Shoal| (0..400).for_each(|number| drop(shoal.get(&format!("/{number}"))));
    ask(&shoal);
    let ram = |shoal: &Shoal, name: &str| shoal.status()["ram"][name].as_u64().expect("a number");
    let reload = |shoal: &mut Shoal, from: &str, to: &str| {
        shoal.change(|text| text.replace(&format!("ram = \"{from}\""), &format!("ram = \"{to}\"")));
        let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
        assert!(!answer.expect_status(200).text().contains("cache.ram"), "it does not wait for a start");
    };
    let before = ram(&shoal, "objects");
    assert!(before > 300, "{before}");
    reload(&mut shoal, "16 MiB", "6 MiB");
    assert!(ram(&shoal, "bytes") <= 6 << 20 && ram(&shoal, "bytes_max") == 6 << 20);
    assert!(ram(&shoal, "objects") < before);
    ask(&shoal);
    assert!(ram(&shoal, "bytes") <= 6 << 20);
    reload(&mut shoal, "6 MiB", "32 MiB");
    ask(&shoal);
    assert!(ram(&shoal, "objects") >= before && ram(&shoal, "bytes_max") == 32 << 20);
    assert_eq!(origin.total(), 400, "each was fetched once: the disk has what RAM has not");
}
