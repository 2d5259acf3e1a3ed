//! Keys that collide lead to nobody else's response.
//!
//! XXH3-128, which keys were hashed with, multiplies the halves of each eight bytes, mixed with
//! bytes that everybody knows. A half that equals those makes the product zero, whatever the other
//! half is; what is added beside it can be taken away elsewhere. So two texts of one hash can be
//! written down.

use shoal_core::Key;
use shoal_testkit::{Answer, Gate, Origin, Setup, wait};

/// Two validators that are one to XXH3-128 when these bytes stand before them.
fn colliding(before: &[u8]) -> [Vec<u8>; 2] {
    let mut validators = [1u8, 0].map(|first| {
        let mut full = [before, b"\""].concat();
        assert!(full.len() <= HALVES[0].0, "room for what collides");
        for ((at, known), more) in HALVES.into_iter().zip([first, 1 - first]) {
            full.resize(at, b'x');
            full.extend(known);
            full.extend([b'A' + more, b'A', b'A', b'A']);
        }
        // What ends the text is hashed twice.
        full.resize(300, b'x');
        full.push(b'"');
        full
    });
    let [one, other] = &validators;
    assert!(one != other && Key::unkeyed(one) == Key::unkeyed(other), "they collide");
    validators.iter_mut().for_each(|full| drop(full.drain(..before.len())));
    validators
}

/// Where the second eight bytes of the second and third stripe stand, and the known bytes of each.
const HALVES: [(usize, [u8; 4]); 2] = [(72, [0xde, 0xd4, 0x6d, 0xe9]), (136, [0x72, 0x40, 0xa4, 0xa4])];

#[test]
fn colliding_validators_make_two_fetches() {
    let origin = Origin::start();
    let gate = Gate::new();
    let held = gate.clone();
    origin.on_request("/a", move |request| {
        let validator = request.fields.joined("if-range");
        Answer::fresh(format!("for {}", validator.len()), 60).field("ETag", "\"v\"").held_by(&held)
    });
    let shoal = Setup::to(&origin).start();
    let [one, other] = colliding(b"http://site.test/a\0rangebytes=0-9\0if-range");
    let clients: Vec<_> = [one, other]
        .into_iter()
        .map(|validator| {
            let mut client = shoal.connect();
            let head = b"GET /a HTTP/1.1\r\nHost: site.test\r\nRange: bytes=0-9\r\nIf-Range: ";
            client.send([&head[..], &validator, b"\r\n\r\n"].concat());
            client
        })
        .collect();
    wait::until("both have arrived", || shoal.metric("shoal_requests_total", "") >= 2);
    wait::until("both were sent on", || origin.count("/a") == 2);
    gate.open();
    for mut client in clients {
        client.response("GET").expect_status(200);
    }
}

/// What stands on the disk is found again after a kill: the secret is stored with it.
#[test]
fn secret_outlives_the_process() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("kept", 600));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("kept");
    wait::until("it is on the disk", || shoal.metric("shoal_store_objects", "") >= 1);
    shoal.restart_and_find_all();
    shoal.get("/a").expect_body("kept").expect_hit();
    let signature = std::fs::read_to_string(shoal.store().join("architecture")).expect("it is there");
    let keys = signature.lines().nth(1).expect("a line of the keys");
    let secret = keys.split(' ').nth(3).expect("a secret");
    assert!(keys.starts_with("shoal keys 1: ") && secret.len() == 32, "{keys}");
    let other = Setup::to(&origin).start();
    other.get("/a").expect_body("kept");
    let others = std::fs::read_to_string(other.store().join("architecture")).expect("it is there");
    assert!(!others.contains(secret), "each node draws its own");
}
