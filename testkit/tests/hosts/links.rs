//! Links delay, lose and reorder about what they are told, while TCP gets through.

use crate::programs::{Server, fetch, hosts, ping};
use shoal_testkit::hosts::Quality;
use std::time::Duration;

#[test]
fn link_delays_by_what_is_set_while_it_runs() {
    let Some(hosts) = hosts(2) else { return };
    let server = Server::start(&hosts[1]);
    let median = || ping(&hosts[0], server.address, 40)["median_us"].as_u64().expect("answers");
    let direct = median();
    let link = hosts[0].link(1).expect("a link");
    let empty = median();
    let delay = Duration::from_millis(30);
    link.set_outbound(Quality { delay, ..Quality::default() });
    let one_way = median();
    link.set(Quality { delay, ..Quality::default() });
    let both_ways = median();
    assert!(one_way >= 30_000 && one_way < 60_000 + 20 * empty, "{direct} {empty} {one_way} {both_ways}");
    assert!(both_ways >= 60_000 && both_ways > one_way, "{direct} {empty} {one_way} {both_ways}");
    drop(link);
    assert!(median() < 30_000, "the cable is whole again");
}

#[test]
fn link_loses_doubles_and_reorders() {
    let Some(hosts) = hosts(2) else { return };
    let server = Server::start(&hosts[1]);
    let link = hosts[1].link(2).expect("a link");
    link.set_inbound(Quality { loss: 0.3, ..Quality::default() });
    let received = ping(&hosts[0], server.address, 300)["received"].as_u64().expect("a count");
    assert!((150..270).contains(&received), "{received} of 300 at a loss of 0.3");
    let delay = Duration::from_millis(10);
    link.set_inbound(Quality { delay, duplicates: 0.2, reordered: 0.2, ..Quality::default() });
    let found = ping(&hosts[0], server.address, 300);
    assert_eq!(found["received"], 300, "{found}");
    assert!(found["doubled"].as_u64() > Some(20) && found["late"].as_u64() > Some(20), "{found}");
    assert!(link.inbound().lost > 30, "{:?}", link.inbound());
}

/// Megabytes through a link that loses frames, both ways, and to a host without one.
#[test]
fn tcp_gets_through_a_lossy_link() {
    let Some(hosts) = hosts(3) else { return };
    let server = Server::start(&hosts[1]);
    let links = [hosts[0].link(3).expect("a link"), hosts[1].link(4).expect("a link")];
    assert!(hosts[0].link(5).is_err(), "one link a host");
    let quality = Quality { delay: Duration::from_millis(1), loss: 0.01, ..Quality::default() };
    links.iter().for_each(|link| link.set(quality));
    for bytes in [10, 100_000, 2_000_000] {
        fetch(&hosts[0], server.address, bytes).expect("a body through two links");
        fetch(&hosts[2], server.address, bytes).expect("a body through one");
    }
    assert!(links[1].outbound().lost > 0, "{:?}", links[1].outbound());
}

#[test]
fn linked_host_is_unplugged_and_healed() {
    let Some(hosts) = hosts(2) else { return };
    let server = Server::start(&hosts[1]);
    let _link = hosts[0].link(6).expect("a link");
    fetch(&hosts[0], server.address, 10).expect("a body");
    hosts.unplug(0).expect("unplugged");
    assert!(fetch(&hosts[0], server.address, 10).is_err());
    hosts.heal().expect("healed");
    fetch(&hosts[0], server.address, 10).expect("a body");
}
