//! Bounds that have no attack of their own: each test tries to pass one, and others are served
//! meanwhile.

use shoal_testkit::{Answer, Gate, Origin, Request, Setup, wait};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Counts the connections to this address that are open at the node's end.
fn connections_to(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else { panic!("the origin has an IPv4 address") };
    let remote = format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel lists its connections");
    let rows = table.lines().skip(1).map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    // Established, or closed by the origin alone. The table may repeat rows while it changes.
    let open = rows.filter(|row| row[2] == remote && ["01", "08"].contains(&row[3]));
    open.map(|row| row[1].to_owned()).collect::<HashSet<_>>().len()
}

#[test]
fn idle_connections_to_an_origin_stay_within_their_number() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.on("/*", Answer::ok("x").field("Cache-Control", "no-store").held_by(&gate));
    let shoal = Setup::to(&origin).set("upstream.idle_per_origin", 3).start();
    let clients: Vec<_> = (0..40)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/{number}")).to_bytes("site.test"));
            client
        })
        .collect();
    wait::until("all are asked for", || origin.total() == 40);
    assert_eq!(connections_to(origin.address()), 40);
    gate.open();
    for mut client in clients {
        client.response("GET").expect_body("x");
    }
    wait::until("idle connections are closed", || connections_to(origin.address()) <= 3);
}

/// The 1,024 that may wait for a connection are a client's own share of them at most.
#[test]
fn requests_beyond_those_that_may_wait_are_refused() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.on("/slow/*", Answer::ok("x").field("Cache-Control", "no-store").held_by(&gate));
    origin.on("/stored", Answer::fresh("stored", 60));
    let shoal = Setup::to(&origin).set("upstream.connections_per_origin", 2).start();
    shoal.get("/stored").expect_body("stored");
    let mut clients: Vec<_> = (0..1_300)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/slow/{number}")).to_bytes("site.test"));
            client
        })
        .collect();
    let mut refused = 0;
    wait::until("some are refused", || {
        clients.retain_mut(|client| {
            client.limit(Duration::from_millis(1));
            match client.head() {
                Ok(head) => {
                    assert_eq!(head.status, 503);
                    refused += 1;
                    false
                }
                Err(_) => true,
            }
        });
        refused > 0
    });
    shoal.get("/stored").expect_hit();
    gate.open();
}
