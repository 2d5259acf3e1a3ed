//! Squid beside, above and below Shoal: each protocol in both directions, with Debian's Squid.

use shoal_testkit::squid::{NeighbourPorts, Squid};
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal, missing, wait};
use std::net::SocketAddr;

/// Asks a proxy for a URL.
fn through(proxy: SocketAddr, url: &str) -> Response {
    let host = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    Connection::open(proxy).ask(&Request::get(url), host)
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 3600));
    origin
}

/// A Shoal that Squids may ask.
fn asked(ports: NeighbourPorts) -> Setup {
    Setup::bare()
        .set("neighbours.icp_listen", format!("{}:{}", ports.ip, ports.icp))
        .set("neighbours.htcp_listen", format!("{}:{}", ports.ip, ports.htcp))
        .set_list("neighbours.allow", &["127.0.0.0/8"])
        .listen("neighbours", "mode = 'forward'")
        .neighbours_port(ports.proxy())
}

fn fetched(shoal: &Shoal, kind: &str) -> u64 {
    shoal.metric("shoal_neighbour_fetches_total", &format!("kind=\"{kind}\""))
}

/// Name of the Squid that asked the origin for this path, by its Via.
fn asked_by(origin: &Origin, path: &str) -> String {
    let via = origin.last(path).fields.joined("via");
    via.split_whitespace().find(|word| word.starts_with("squid-")).unwrap_or_default().to_owned()
}

#[test]
fn squid_as_sibling_by_icp_and_htcp() {
    for protocol in ["icp", "htcp"] {
        let origin = origin();
        let Some(squid) = Squid::start(NeighbourPorts::fresh(), "") else { return missing::skip("squid") };
        let NeighbourPorts { ip, http, icp, htcp } = squid.ports();
        let port = if protocol == "icp" { icp } else { htcp };
        let neighbour =
            format!("host = '{ip}'\nkind = 'sibling'\nhttp_port = {http}\n{protocol}_port = {port}");
        let shoal = Setup::bare().neighbour(&neighbour).start();
        let url = |number: usize| format!("{}/{number}", origin.url());
        for number in 0..HELD {
            through(squid.ports().proxy(), &url(number)).expect_body("body");
        }
        let get = |number: usize| {
            shoal.ask_forward(&Request::get(&url(number))).expect_status(200).expect_body("body");
        };
        // On a busy machine Squid answers late now and then, and is not waited for. A further URL
        // is asked for then.
        let silent = || shoal.metric("shoal_neighbour_silent_total", "") as usize;
        let asked =
            (0..HELD).inspect(|number| get(*number)).take_while(|_| fetched(&shoal, "sibling") < 10).count()
                + 1;
        let late = silent();
        assert_eq!(fetched(&shoal, "sibling"), 10, "{protocol}, {late} late: {}", squid.logs());
        assert_eq!(asked, 10 + late, "{protocol}: each URL that Squid answers for in time is had there");
        assert_eq!(origin.total(), HELD + late, "each once, but for late answers");
        (HELD..HELD + 10).for_each(get);
        assert_eq!(origin.total(), HELD + late + 10, "each once");
        assert_eq!(shoal.metric("shoal_neighbour_false_hits_total", ""), 0);
        let answers = shoal.metric("shoal_neighbour_answers_total", "") as usize;
        assert_eq!(answers + silent(), asked + 10, "{protocol}");
    }
}

/// Objects that Squid holds.
const HELD: usize = 60;

#[test]
fn squid_as_sibling_by_digest() {
    let origin = origin();
    let lines = "cache_dir ufs {folder}/cache 64 16 64";
    let Some(squid) = Squid::start(NeighbourPorts::fresh(), lines) else { return missing::skip("squid") };
    let NeighbourPorts { ip, http, .. } = squid.ports();
    let url = |number: usize| format!("{}/{number}", origin.url());
    for number in 0..40 {
        through(squid.ports().proxy(), &url(number)).expect_body("body");
    }
    let neighbour = format!("host = '{ip}'\nkind = 'sibling'\nhttp_port = {http}\ndigest = true");
    let shoal = Setup::bare().set("neighbours.digest_refresh", "1 s").neighbour(&neighbour).start();
    // Squid builds its digest anew every few seconds here; the first ones may lack what came last.
    let taken = || shoal.metric("shoal_neighbour_digests_fetched_total", "");
    wait::until("digests are fetched", || taken() >= 1);
    let first = taken();
    wait::until("a later digest is fetched", || taken() >= first + 3);
    for number in 0..40 {
        shoal.ask_forward(&Request::get(&url(number))).expect_body("body");
    }
    assert_eq!(fetched(&shoal, "sibling"), 40, "{}\n{}", shoal.log(), squid.logs());
    assert_eq!(origin.total(), 40, "each once");
}

#[test]
fn squid_as_parent() {
    let origin = origin();
    let Some(squid) = Squid::start(NeighbourPorts::fresh(), "") else { return missing::skip("squid") };
    let NeighbourPorts { ip, http, .. } = squid.ports();
    let neighbour = format!("host = '{ip}'\nkind = 'parent'\nhttp_port = {http}");
    let shoal = Setup::bare().neighbour(&neighbour).start();
    let url = format!("{}/a", origin.url());
    shoal.ask_forward(&Request::get(&url)).expect_body("body").expect_forwarded("uri-miss");
    assert_eq!(asked_by(&origin, "/a"), format!("squid-{http}"));
    shoal.ask_forward(&Request::get(&url)).expect_hit();
    assert_eq!((origin.total(), fetched(&shoal, "parent")), (1, 1));
    drop(squid);
    shoal.ask_forward(&Request::get(&format!("{}/b", origin.url()))).expect_body("body");
}

/// A Squid and a Shoal choose the same parent for each URL, under Squid's rule.
#[test]
fn squid_and_shoal_choose_alike_by_carp() {
    let origin = origin();
    let start = |lines: &str| Squid::start(NeighbourPorts::fresh(), lines);
    let Some(first) = start("cache deny all") else { return missing::skip("squid") };
    let (second, third) =
        (start("cache deny all").expect("it starts"), start("cache deny all").expect("it starts"));
    let parents = [(&first, 1), (&second, 1), (&third, 3)];
    let mut lines = String::from("cache deny all\nnever_direct allow all\n");
    let mut setup = Setup::bare().set("neighbours.carp_rule", "squid");
    for (squid, weight) in parents {
        let NeighbourPorts { ip, http, .. } = squid.ports();
        lines += &format!("cache_peer {ip} parent {http} 0 no-query no-digest carp weight={weight}\n");
        setup = setup.neighbour(&format!(
            "host = '{ip}'\nkind = 'parent'\nhttp_port = {http}\ncarp = true\nweight = {weight}"
        ));
    }
    let child = start(&lines).expect("it starts");
    let shoal = setup.start();
    let mut of_third = 0;
    for number in 0..60 {
        let path = format!("/{number}/Page?x=%C3%A4");
        let url = format!("{}{path}", origin.url());
        through(child.ports().proxy(), &url).expect_body("body");
        let chosen = |count: usize| {
            let all = origin.received();
            let all: Vec<_> = all.iter().filter(|request| request.target == path).collect();
            assert_eq!(all.len(), count, "each asks once");
            let via = all[count - 1].fields.joined("via");
            let names: Vec<String> = via
                .split_whitespace()
                .filter(|word| word.starts_with("squid-"))
                .map(|word| word.trim_end_matches(',').to_owned())
                .collect();
            names.last().cloned().unwrap_or_default()
        };
        let by_squid = chosen(1);
        shoal.ask_forward(&Request::get(&url)).expect_body("body");
        assert_eq!(chosen(2), by_squid, "{url}");
        of_third += usize::from(by_squid == format!("squid-{}", third.ports().http));
    }
    assert!((20..55).contains(&of_third), "{of_third} of 60 by a share of three fifths");
}

#[test]
fn shoal_as_sibling_of_squid() {
    for protocol in ["icp", "htcp"] {
        let origin = origin();
        let ports = NeighbourPorts::fresh();
        let shoal = asked(ports).start();
        let (port, word) = if protocol == "icp" { (ports.icp, "") } else { (ports.htcp, "htcp") };
        let peer =
            format!("cache_peer {} sibling {} {port} no-digest proxy-only {word}", ports.ip, ports.http);
        // Squid would wait for twice the usual time of an answer, which a busy machine exceeds.
        let lines = format!("{peer}\nicp_query_timeout 10000");
        let Some(squid) = Squid::start(NeighbourPorts::fresh(), &lines) else {
            return missing::skip("squid");
        };
        let url = |number: usize| format!("{}/{number}", origin.url());
        for number in 0..10 {
            shoal.ask_forward(&Request::get(&url(number))).expect_body("body");
        }
        for number in 0..20 {
            through(squid.ports().proxy(), &url(number)).expect_status(200).expect_body("body");
        }
        // Squid writes its log behind its answers.
        wait::until("the last line is written", || squid.access_log().contains("/19 - "));
        let log = squid.access_log();
        assert_eq!(log.matches("SIBLING_HIT").count(), 10, "{protocol}:\n{log}");
        assert_eq!(origin.total(), 20, "each once");
        let answered = shoal.metric("shoal_neighbour_questions_total", &format!("protocol=\"{protocol}\""));
        assert_eq!(answered, 20, "{protocol}");
        assert_eq!(shoal.metric("shoal_neighbour_hits_told_total", ""), 10);
    }
}

#[test]
fn shoal_as_sibling_of_squid_by_digest() {
    let origin = origin();
    let ports = NeighbourPorts::fresh();
    let shoal = asked(ports).set("neighbours.digest_rebuild", "2 s").start();
    let url = |number: usize| format!("{}/{number}", origin.url());
    for number in 0..100 {
        shoal.ask_forward(&Request::get(&url(number))).expect_body("body");
    }
    let digest = format!("http://{}/squid-internal-periodic/store_digest", ports.proxy());
    wait::until("the digest has all", || {
        let answer = through(ports.proxy(), &digest);
        answer.status == 200 && answer.body[8..12] == 100u32.to_be_bytes()
    });
    let peer = format!("cache_peer {} sibling {} 0 no-query proxy-only", ports.ip, ports.http);
    let Some(squid) = Squid::start(NeighbourPorts::fresh(), &peer) else { return missing::skip("squid") };
    let served = || shoal.metric("shoal_neighbour_digests_served_total", "");
    let before = served();
    // The first request makes Squid fetch the digest of its peer.
    through(squid.ports().proxy(), &format!("{}/first", origin.url())).expect_body("body");
    wait::until("Squid fetches the digest", || served() > before);
    let found = |line: &&str| line.contains("CD_SIBLING_HIT") || line.contains("CACHE_DIGEST_HIT");
    let mut number = 0;
    wait::until("Squid finds by digest", || {
        through(squid.ports().proxy(), &url(number)).expect_body("body");
        number += 1;
        squid.access_log().lines().any(|line| found(&line))
    });
    for number in number..100 {
        through(squid.ports().proxy(), &url(number)).expect_body("body");
    }
    // Squid writes its log behind its answers.
    wait::until("the last line is written", || squid.access_log().contains("/99 - "));
    let log = squid.access_log();
    let missing = log.lines().skip_while(|line| !found(line)).find(|line| !found(line));
    assert_eq!(missing, None, "Squid asked elsewhere although the digest has it:\n{log}");
}

#[test]
fn shoal_as_parent_of_squid() {
    for word in ["default", "carp"] {
        let origin = origin();
        let ports = NeighbourPorts::fresh();
        let shoal = asked(ports).start();
        let peer = format!(
            "cache deny all\nnever_direct allow all\ncache_peer {} parent {} 0 no-query no-digest {word}",
            ports.ip, ports.http
        );
        let Some(squid) = Squid::start(NeighbourPorts::fresh(), &peer) else { return missing::skip("squid") };
        let url = format!("{}/a", origin.url());
        for _ in 0..3 {
            through(squid.ports().proxy(), &url).expect_body("body");
        }
        assert_eq!(origin.total(), 1, "{word}: Shoal holds it");
        shoal.expect_responses("memory_hit", 2);
        let log = squid.access_log();
        let code = if word == "carp" { "CARP" } else { "PARENT" };
        assert_eq!(log.matches(code).count(), 3, "{log}");
    }
}
