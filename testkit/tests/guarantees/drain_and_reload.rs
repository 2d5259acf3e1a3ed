//! Signals: HUP reloads, TERM drains, USR1 reopens logs; and reload through the admin listener.

use rustix::process::Signal;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn term_lets_what_is_in_flight_end_and_takes_nothing_new() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/slow", Answer::fresh("first ", 60).wait_for(&gate).piece("second"));
    origin.on("/a", Answer::fresh("body", 60));
    let mut shoal = Setup::to(&origin).start();
    let mut idle = shoal.connect();
    idle.ask(&Request::get("/a"), "site.test").expect_body("body");
    let mut busy = shoal.connect();
    busy.send(Request::get("/slow").to_bytes("site.test"));
    assert!(busy.head().is_ok());
    assert_eq!(busy.exactly(6), Ok(b"first ".to_vec()));
    shoal.signal(Signal::TERM);
    let address = shoal.address("reverse");
    wait::until("new connections are refused", || TcpStream::connect(address).is_err());
    assert!(idle.closes(), "idle connections end");
    assert!(shoal.running(), "a response is still being sent");
    gate.open();
    assert_eq!(busy.exactly(6), Ok(b"second".to_vec()));
    let status = shoal.wait_for_exit(Duration::from_secs(10)).expect("it ends when all is sent");
    assert_eq!(status.code(), Some(0), "{}", shoal.log());
    shoal.restart();
    shoal.get("/slow").expect_body("first second").expect_hit();
    shoal.get("/a").expect_body("body").expect_hit();
}

#[test]
fn int_ends_it_as_well() {
    let origin = Origin::start();
    let mut shoal = Setup::to(&origin).start();
    shoal.signal(Signal::INT);
    assert_eq!(shoal.wait_for_exit(Duration::from_secs(10)).and_then(|status| status.code()), Some(0));
}

#[test]
fn hup_takes_up_new_settings_under_running_connections() {
    let (first, second) = (Origin::start(), Origin::start());
    for (origin, name) in [(&first, "first"), (&second, "second")] {
        origin.on("/*", Answer::ok(name).field("Cache-Control", "no-store"));
    }
    first.on("/cached", Answer::fresh("cached", 600));
    let mut shoal = Setup::to(&first).start();
    let mut open = shoal.connect();
    open.ask(&Request::get("/a"), "site.test").expect_body("first");
    shoal.get("/cached").expect_body("cached");
    let (old, new) = (first.address().to_string(), second.address().to_string());
    shoal.change(|text| text.replace(&old, &new));
    shoal.signal(Signal::HUP);
    wait::until("the new upstream is asked", || shoal.get("/b").body == b"second");
    open.ask(&Request::get("/c"), "site.test").expect_body("second");
    shoal.get("/cached").expect_body("cached").expect_hit();
}

#[test]
fn reload_through_the_admin_listener_does_the_same() {
    let (first, second) = (Origin::start(), Origin::start());
    first.on("/*", Answer::ok("first").field("Cache-Control", "no-store"));
    second.on("/*", Answer::ok("second").field("Cache-Control", "no-store"));
    let mut shoal = Setup::to(&first).start();
    shoal.get("/a").expect_body("first");
    shoal.change(|text| text.replace(&first.address().to_string(), &second.address().to_string()));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.get("/a").expect_body("second");
}

#[test]
fn a_mistake_on_reload_leaves_the_old_settings_at_work() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("body").field("Cache-Control", "no-store"));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    shoal.change(|text| format!("nonsense = true\n{text}"));
    let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("nonsense"), "{}", answer.text());
    shoal.signal(Signal::HUP);
    wait::until("the log names the mistake", || shoal.log().contains("nonsense"));
    shoal.get("/b").expect_body("body");
    assert!(shoal.running());
}

#[test]
fn usr1_reopens_the_access_log() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).start();
    shoal.get("/before").expect_status(200);
    shoal.access_log(1);
    let log = shoal.folder().join("access.log");
    let moved = shoal.folder().join("access.log.1");
    std::fs::rename(&log, &moved).expect("the log is there");
    shoal.signal(Signal::USR1);
    wait::until("a new log file", || log.exists());
    shoal.get("/after").expect_status(200);
    assert!(shoal.access_log(1).iter().all(|line| line.contains("/after")));
    assert!(
        std::fs::read_to_string(moved).is_ok_and(|text| text.contains("/before") && !text.contains("/after"))
    );
}

#[test]
fn health_says_draining_while_it_drains() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/slow", Answer::ok("x").held_by(&gate));
    let mut shoal = Setup::to(&origin).start();
    let mut busy = shoal.connect();
    busy.send(Request::get("/slow").to_bytes("site.test"));
    origin.wait_for("/slow", 1);
    shoal.signal(Signal::TERM);
    let admin = shoal.admin();
    wait::until("the health check turns", || {
        let Ok(stream) = TcpStream::connect(admin) else { return true };
        let mut client = Connection::over(Box::new(stream));
        client.send(Request::get("/healthz").to_bytes("localhost"));
        client.try_response("GET").is_ok_and(|answer| answer.status == 503)
    });
    gate.open();
    busy.response("GET").expect_body("x");
    assert!(shoal.wait_for_exit(Duration::from_secs(10)).is_some());
}
