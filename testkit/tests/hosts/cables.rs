//! Hosts reach each other until cables are cut, slowed or limits set.

use crate::programs::{Server, fetch, hosts, ping};
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, wait};
use std::time::{Duration, Instant};

/// Panics unless a fetch succeeds or fails as said.
#[track_caller]
fn expect(fetched: Result<u64, String>, reached: bool) {
    assert_eq!(fetched.is_ok(), reached, "{fetched:?}");
}

#[test]
fn sixteen_hosts_start_soon_and_reach_each_other() {
    let begin = Instant::now();
    let Some(hosts) = hosts(16) else { return };
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    let server = Server::start(&hosts[15]);
    for host in [0, 7, 14, 15] {
        expect(fetch(&hosts[host], server.address, 10_000), true);
    }
    assert_eq!(hosts[15].processes().len(), 1, "the server's alone");
}

#[test]
fn cut_takes_one_way_and_heals() {
    let Some(hosts) = hosts(3) else { return };
    let server = Server::start(&hosts[1]);
    hosts.cut(0, 1).expect("a cut");
    expect(fetch(&hosts[0], server.address, 10), false);
    expect(fetch(&hosts[2], server.address, 10), true);
    hosts.heal().expect("healed");
    expect(fetch(&hosts[0], server.address, 10), true);
    // The other way alone: what is sent arrives, and no answer comes back.
    hosts.cut(1, 0).expect("a cut");
    assert_eq!(ping(&hosts[0], server.address, 5)["received"], 0);
    hosts.heal().expect("healed");
    assert_eq!(ping(&hosts[0], server.address, 5)["received"], 5);
}

#[test]
fn split_parts_two_groups() {
    let Some(hosts) = hosts(4) else { return };
    let servers = [Server::start(&hosts[0]), Server::start(&hosts[3])];
    hosts.split(&[0, 1]).expect("a split");
    expect(fetch(&hosts[1], servers[0].address, 10), true);
    expect(fetch(&hosts[2], servers[1].address, 10), true);
    expect(fetch(&hosts[2], servers[0].address, 10), false);
    expect(fetch(&hosts[1], servers[1].address, 10), false);
    hosts.heal().expect("healed");
    expect(fetch(&hosts[2], servers[0].address, 10), true);
}

#[test]
fn unplugged_host_reaches_nobody_until_healed() {
    let Some(hosts) = hosts(2) else { return };
    let origin = Origin::start_at((hosts.outside(), 0).into());
    origin.on("/a", Answer::ok("a").field("Cache-Control", "max-age=60"));
    let shoal = Setup::to_on(&origin, &hosts[0]).start();
    assert_eq!(shoal.get("/a").expect_status(200).text(), "a");
    hosts.unplug(0).expect("unplugged");
    let server = Server::start(&hosts[1]);
    expect(fetch(&hosts[0], server.address, 10), false);
    hosts.heal().expect("healed");
    expect(fetch(&hosts[0], server.address, 10), true);
    assert_eq!(shoal.get("/a").expect_status(200).text(), "a");
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn rate_is_about_what_was_asked() {
    let Some(hosts) = hosts(2) else { return };
    let server = Server::start(&hosts[1]);
    let bytes = 2 << 20;
    let free = fetch(&hosts[0], server.address, bytes).expect("a fetch");
    // 2 MiB at 20 Mbit/s take 0.84 seconds.
    hosts[1].limit_rate(20_000_000).expect("a rate");
    let limited = fetch(&hosts[0], server.address, bytes).expect("a fetch");
    assert!(limited > 600_000 && limited > free, "{limited} µs limited, {free} µs free");
    let before = hosts.bytes_between().expect("counts");
    hosts[1].limit_rate(1_000_000_000).expect("a rate");
    fetch(&hosts[0], server.address, bytes).expect("a fetch");
    let sent = hosts.bytes_between().expect("counts") - before;
    assert!((bytes as u64..2 * bytes as u64).contains(&sent), "{sent} bytes for {bytes}");
}

#[test]
fn frozen_host_answers_nothing_until_thawed() {
    let Some(hosts) = hosts(2) else { return };
    let server = Server::start(&hosts[1]);
    hosts[1].freeze();
    assert_eq!(ping(&hosts[0], server.address, 3)["received"], 0);
    hosts[1].thaw();
    assert!(wait::within(wait::LIMIT, || ping(&hosts[0], server.address, 3)["received"] == 3));
}

#[test]
fn hosts_send_as_linux_comes() {
    let Some(hosts) = hosts(2) else { return };
    for host in 0..2 {
        let told = hosts[host].command("cat").arg("/proc/sys/net/ipv4/tcp_congestion_control").output();
        let told = String::from_utf8_lossy(&told.expect("there is a cat").stdout).trim().to_string();
        assert!(["cubic", "reno"].contains(&&*told), "host {host} has {told}");
    }
}

#[test]
fn memory_limit_holds_for_processes_of_a_host() {
    let Some(hosts) = hosts(2) else { return };
    if let Err(why) = hosts[0].limit_memory(32 << 20) {
        return shoal_testkit::missing::skip(&format!("a control group of memory ({why})"));
    }
    hosts[0].limit_cpu(50).expect("where memory is limited, CPU is");
    let take = |bytes: &str| {
        let words = ["-c", "head -c \"$0\" /dev/zero | tail -c 1 | wc -c", bytes];
        let output = hosts[0].command("sh").args(words).output().expect("there is a shell");
        String::from_utf8_lossy(&output.stdout).trim() == "1"
    };
    assert!(take("1000000"));
    let hog = hosts[0].command("sh").args(["-c", "exec 2>&1; s=x; while :; do s=$s$s; done"]).output();
    let status = hog.expect("there is a shell").status;
    assert!(!status.success(), "a shell doubled a string for ever: {status}");
}

#[test]
fn process_on_a_host_is_the_program_itself() {
    let Some(hosts) = hosts(2) else { return };
    let origin = Origin::start_at((hosts.outside(), 0).into());
    origin.on("/b", Answer::ok("b"));
    let mut shoal = Setup::to_on(&origin, &hosts[1]).start();
    assert_eq!(hosts[1].processes(), [shoal.pid()]);
    shoal.restart();
    let response = Connection::open(shoal.address("reverse")).ask(&Request::get("/b"), "site.test");
    assert_eq!(response.text(), "b");
    // An origin has to go before the address that it listens at.
    drop(origin);
    drop(hosts);
    assert!(shoal.wait_for_exit(wait::LIMIT).is_some(), "a host's processes end with it");
}
