//! The cluster's doors: neither clients, pages in browsers nor strangers speak in a node's name,
//! and their words send no node elsewhere.

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::cluster::{joined, members, setup};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toml::{Table, Value};

fn peer() -> SocketAddr {
    free_port(fresh_ip())
}

/// Message of `members/join` from a node of this name at this address.
fn join(name: &str, at: SocketAddr, weight: f32) -> Vec<u8> {
    let std::net::IpAddr::V4(ip) = at.ip() else { panic!("IPv4") };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let mut body = vec![1, 4];
    body.extend(b"test");
    body.extend(clock.to_be_bytes());
    body.extend(clock.to_be_bytes());
    body.extend([0, 0, 0, 0, 1]);
    body.extend(weight.to_be_bytes());
    body.push(4);
    body.extend(ip.octets());
    body.extend(at.port().to_be_bytes());
    body.push(name.len() as u8);
    body.extend(name.bytes());
    body.extend(0u32.to_be_bytes());
    body
}

/// Calls a node with these fields, and returns the status of its answer.
fn call(node: SocketAddr, name: &str, fields: &str, body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(node).expect("it listens");
    let length = body.len();
    let head = format!("POST /shoal/{name} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
    Connection::over(Box::new(stream)).head().expect("an answer").status
}

#[test]
fn clients_reach_no_listener_for_peers() {
    let origin = Origin::start();
    let peers = [peer(), peer()];
    let ports: Vec<Value> = peers.iter().map(|peer| Value::from(i64::from(peer.port()))).collect();
    let nodes = joined(
        peers
            .iter()
            .map(|own| setup(&origin, *own, &peers).set("forward.connect_ports", ports.clone()).start())
            .collect(),
    );
    // The client's words would leave node 0, whose address is a member's.
    for target in peers {
        let url = format!("http://{target}/shoal/purges/apply");
        for request in [
            Request::new("POST", &url).field("Content-Length", "0"),
            Request::get(&url),
            Request::new("CONNECT", &target.to_string()),
        ] {
            let answer = nodes[0].ask_forward(&request);
            assert!(answer.expect_status(508).text().contains("leads back"), "{target}");
        }
    }
}

#[test]
fn pages_and_proxies_call_nothing() {
    let origin = Origin::start();
    let own = peer();
    let node = setup(&origin, own, &[]).start();
    let other = peer();
    let body = join("page", other, 1.0);
    for fields in [
        "Origin: http://evil.test\r\nContent-Type: text/plain\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
        "Via: 1.1 squid\r\n",
        "X-Forwarded-For: 10.0.0.1\r\n",
    ] {
        assert_eq!(call(own, "members/join", fields, &body), 403, "{fields}");
    }
    assert_eq!(members(&node), 1);
    assert_eq!(call(own, "members/join", "", &body), 200, "a node is let in");
    assert_eq!(members(&node), 2);
}

#[test]
fn members_elsewhere_are_not_believed() {
    let origin = Origin::start();
    let own = peer();
    let node = setup(&origin, own, &[]).start();
    for (at, weight) in [
        ("192.0.2.1:53", 1.0),
        ("10.0.0.1:22", 1.0),
        ("255.255.255.255:53", 1.0),
        ("0.0.0.0:53", 1.0),
        ("127.0.0.1:0", 1.0),
        ("127.0.0.9:4000", f32::INFINITY),
        ("127.0.0.9:4000", f32::NAN),
        ("127.0.0.9:4000", -1.0),
        ("127.0.0.9:4000", 1e30),
    ] {
        let status = call(own, "members/join", "", &join("other", at.parse().expect("an address"), weight));
        assert_eq!(status, 409, "{at} {weight}");
    }
    assert_eq!(members(&node), 1);
    node.get("/").expect_status(404);
}

#[test]
fn strangers_leave_connections_to_members() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let peers = [peer(), peer()];
    let nodes = joined(peers.iter().map(|own| setup(&origin, *own, &peers).start()).collect());
    let open: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(peers[1]).expect("the kernel takes it")).collect();
    let is_closed = |stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let mut stream = stream;
        match stream.read_exact(&mut [0; 1]) {
            Ok(()) => true,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    };
    wait::until("most are closed", || open.iter().filter(|stream| is_closed(stream)).count() >= 136);
    for number in 0..40 {
        nodes[0].get(&format!("/{number}")).expect_body("there");
        nodes[1].get(&format!("/{number}")).expect_body("there");
    }
    assert_eq!(origin.total(), 40, "asks of members are answered");
}

#[test]
fn nodes_of_sites_fetch_from_no_other_host() {
    let (site, inside) = (Origin::start(), Origin::start());
    site.on("/*", Answer::fresh("of the site", 60));
    inside.on("/*", Answer::fresh("inside", 60));
    // On 127.0.0.1, so that this test's address is a member's.
    let own = free_port([127, 0, 0, 1].into());
    let setup = setup(&site, own, &[]);
    let mut listen = Table::new();
    listen.insert("address".into(), setup.address("reverse").to_string().into());
    listen.insert("mode".into(), "reverse".into());
    let node = setup.set("listen", vec![Value::Table(listen)]).set("forward", Table::new()).start();
    let (zero, host) = ("0000000000000000", inside.address());
    let field = format!("Shoal-Peer: 1 home {zero} 127.0.0.1:1 1 {zero} {zero} 1000 forward\r\n");
    let mut stream = TcpStream::connect(own).expect("it listens");
    let request = format!("GET http://{host}/a HTTP/1.1\r\nHost: {host}\r\n{field}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let answer = Connection::over(Box::new(stream)).head().expect("an answer");
    assert!(answer.status >= 400, "{}", answer.status);
    assert_eq!(inside.total(), 0);
    drop(node);
}

/// Message with asks for objects of the site `*` at these URLs.
fn asks_for(urls: &[String]) -> Vec<u8> {
    let mut body = vec![1];
    body.extend([0; 16]);
    body.extend((urls.len() as u16).to_le_bytes());
    for url in urls {
        body.push(1);
        for text in [url.as_bytes(), b"*", b"/"] {
            body.extend((text.len() as u16).to_le_bytes());
            body.extend(text);
        }
    }
    body
}

#[test]
fn offers_lead_to_no_fetch() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    // On 127.0.0.1, so that this test's address is a member's.
    let own = free_port([127, 0, 0, 1].into());
    let node = setup(&origin, own, &[own]).start();
    let urls: Vec<String> = (0..64).map(|number| format!("http://site.test/{number}")).collect();
    for _ in 0..80 {
        let status = call(own, "objects/offer", "", &asks_for(&urls));
        assert!([200, 409].contains(&status), "{status}");
    }
    for body in [&b""[..], b"\x01", &[7; 300], &[&asks_for(&urls)[..], b"x"].concat()] {
        assert_eq!(call(own, "objects/offer", "", body), 400);
        assert_eq!(call(own, "objects/hits", "", body), 400);
    }
    assert_eq!(call(own, "objects/hits", "Via: 1.1 squid\r\n", &asks_for(&urls)), 403, "no node wrote it");
    assert_eq!(call(own, "objects/hits", "", &asks_for(&urls)), 200, "a member asks, and nothing is stored");
    node.get("/own").expect_body("there");
    assert_eq!(origin.total(), 1, "nobody was the home before");
}

#[test]
fn storm_of_joins_and_far_clocks_change_nothing() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let own = peer();
    let node = setup(&origin, own, &[]).start();
    for hours in [-5i64, 5, 100_000] {
        let mut late = join("late", peer(), 1.0);
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        late[6..14].copy_from_slice(&(clock + hours * 3_600_000).to_be_bytes());
        assert_eq!(call(own, "members/join", "", &late), 409, "{hours} hours");
    }
    // Two nodes of one name: the living one keeps the name.
    let living = peer();
    let other = setup(&origin, living, &[own]).start();
    wait::until("both know each other", || members(&node) == 2 && members(&other) == 2);
    assert_eq!(call(own, "members/join", "", &join(&living.to_string(), peer(), 1.0)), 409);
    drop(other);
    std::thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for number in 0..100 {
                    let at = SocketAddr::from(([127, 9, part, number], 3131));
                    let status = call(own, "members/join", "", &join(&format!("n{part}-{number}"), at, 1e-3));
                    assert_eq!(status, 200, "{at}");
                }
            });
        }
    });
    // None of them answers: clients do not wait for long, and the origin serves them.
    for number in 0..20 {
        node.get(&format!("/{number}")).expect_body("there");
    }
    assert_eq!(origin.total(), 20);
}

#[test]
fn hostile_datagrams_change_nothing() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let own = peer();
    let node = setup(&origin, own, &[]).start();
    let victim = TcpListener::bind("127.0.0.1:0").expect("a free port");
    victim.set_nonblocking(true).expect("a listener");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for number in 0..20_000_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = (random >> 40) as usize % 1600;
        let mut datagram: Vec<u8> = (0..length).map(|at| (random >> (at % 57)) as u8).collect();
        // Half of them look like datagrams of a cluster without keys.
        if number % 2 == 0 && datagram.len() > 6 {
            datagram[..6].copy_from_slice(&[b'S', 1, 0, 0, 0, 0]);
        }
        let _ = socket.send_to(&datagram, own);
    }
    assert!(socket.recv(&mut [0; 2000]).is_err(), "nothing is reflected");
    node.get("/").expect_body("there");
    assert_eq!(members(&node), 1);
    assert!(victim.accept().is_err());
}
