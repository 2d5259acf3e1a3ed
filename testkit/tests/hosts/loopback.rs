//! Hosts on loopback addresses: processes start and reach each other, and the rest is an error.

use crate::programs::{Server, fetch, ping};
use shoal_testkit::{Answer, Hosts, Origin, Setup, wait};

#[test]
fn loopback_hosts_run_programs_and_refuse_cuts() {
    let hosts = Hosts::loopback(2, "this test wants it so");
    let server = Server::start(&hosts[1]);
    fetch(&hosts[0], server.address, 1000).expect("a body");
    assert_ne!(hosts[0].ip(), hosts[1].ip());
    for refused in [hosts.cut(0, 1), hosts.unplug(0), hosts.heal(), hosts[0].limit_rate(1), hosts.cuts()] {
        assert!(refused.is_err_and(|why| why.contains("this test wants it so")));
    }
    assert!(hosts[0].link(1).is_err());
    let origin = Origin::start_at((hosts.outside(), 0).into());
    origin.on("/a", Answer::ok("a"));
    let shoal = Setup::to_on(&origin, &hosts[0]).start();
    assert_eq!(shoal.get("/a").text(), "a");
    assert_eq!(hosts[0].processes(), [shoal.pid()]);
}

#[test]
fn loopback_host_is_frozen_and_thawed() {
    let hosts = Hosts::loopback(2, "this test wants it so");
    let server = Server::start(&hosts[1]);
    hosts[1].freeze();
    assert_eq!(ping(&hosts[0], server.address, 3)["received"], 0);
    hosts[1].thaw();
    assert!(wait::within(wait::LIMIT, || ping(&hosts[0], server.address, 3)["received"] == 3));
}
