//! The access log by a template, to a syslog socket, and rotated by the node itself.

use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Setup};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

#[test]
fn syslog_gets_templated_lines_that_no_client_forges() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 60));
    let setup = Setup::to(&origin);
    let path = setup.folder().join("syslog");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let shoal = setup
        .set("log.access", format!("syslog+unix://{}", path.display()))
        .set("log.template", "{method} {url} {status} {user_agent:quoted}")
        .start();
    let hostile = Request::get("/a").field("User-Agent", "x\" 200 <13>1 forged");
    shoal.ask(&hostile).expect_body("body");
    let mut buffer = vec![0; 1 << 16];
    let read = socket.recv(&mut buffer).expect("a message");
    let message = std::str::from_utf8(&buffer[..read]).expect("UTF-8");
    assert!(message.starts_with("<30>1 ") && message.contains(" shoal "), "{message}");
    let line = message.split(" access - ").nth(1).expect("a message of RFC 5424");
    assert_eq!(line, "GET http://site.test/a 200 \"x\\\" 200 <13>1 forged\"");
    shoal.expect_metric("shoal_log_lines_dropped_total", "", 0);
    drop(socket);
    std::fs::remove_file(&path).expect("there");
    shoal.get("/b").expect_body("body");
    wait::until("the line is counted", || shoal.metric("shoal_log_lines_dropped_total", "") > 0);
}

#[test]
fn full_file_is_rotated_and_compressed() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 60));
    let setup = Setup::to(&origin);
    let log = setup.folder().join("access.log");
    let shoal = setup
        .set("log.access", log.display().to_string())
        .set("log.rotate_size", 2000)
        .set("log.rotate_keep", 2)
        .set("log.rotate_gzip", true)
        .start();
    let rotated = || {
        let entries = std::fs::read_dir(shoal.folder()).expect("a folder");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with("access.log.2") && name.ends_with(".gz")).count()
    };
    wait::until("a file is rotated", || {
        (0..50).for_each(|number| drop(shoal.get(&format!("/{number}"))));
        rotated() > 0
    });
    assert!(log.exists(), "a new file was begun");
}
