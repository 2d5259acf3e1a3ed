//! The rules of forward mode, case by case.

use super::*;

fn rules(edit: impl FnOnce(&mut Forward)) -> ForwardRules {
    let mut forward = Forward::default();
    edit(&mut forward);
    let own = ["127.0.0.1:3129", "0.0.0.0:3128", "192.0.2.9:8080"].map(|own| own.parse().unwrap());
    ForwardRules::new(&forward, &own).expect("sound rules")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

#[test]
fn connect_reaches_listed_ports() {
    let rules = rules(|_| ());
    assert_eq!(rules.connect_port(443), Ok(()));
    assert_eq!(rules.connect_port(25), Err(AccessRefusal::Port(25)));
}

#[test]
fn other_requests_reach_listed_ports() {
    let usual = rules(|_| ());
    for port in [80, 443, 1024, 8080, 65535] {
        assert_eq!(usual.request_port(port), Ok(()));
    }
    for port in [1, 25, 79, 81, 1023] {
        assert_eq!(usual.request_port(port), Err(AccessRefusal::RequestPort(port)));
    }
    let few = rules(|forward| forward.request_ports = vec![Ports::new(8000, 8001)]);
    assert_eq!(
        [80, 7999, 8001, 8002].map(|port| few.request_port(port).is_ok()),
        [false, false, true, false]
    );
    assert_eq!(few.request_port(80).unwrap_err().status(), 403);
}

#[test]
fn denied_destinations_by_name_and_by_network() {
    let rules = rules(|forward| {
        forward.deny_destinations = ["ads.example", "*.ads.example", "8.8.8.0/24"].map(String::from).into();
    });
    for host in ["ads.example", "x.ads.example", "8.8.8.8"] {
        assert_eq!(rules.destination(host), Err(AccessRefusal::Denied(host.into())));
    }
    for host in ["ads.example.", "ads.example..", "x.ads.example..."] {
        assert!(rules.destination(host).is_err(), "{host}");
    }
    assert_eq!(rules.destination("example"), Ok(()));
    for address in ["8.8.8.8:80", "[::ffff:8.8.8.8]:80", "[64:ff9b::8.8.8.8]:80"] {
        assert_eq!(
            rules.address("dns.example", socket(address)),
            Err(AccessRefusal::Denied("8.8.8.8".into()))
        );
    }
    assert_eq!(rules.address("dns.example", socket("8.8.4.4:80")), Ok(()));
}

#[test]
fn address_rules_compare_apart_from_name_rules() {
    let of = |deny: &[&str], private: &[&str]| {
        let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect();
        rules(|forward| {
            forward.deny_destinations = list(deny);
            forward.allow_private_destinations = list(private);
        })
    };
    let before = of(&["a.example", "8.8.8.0/24"], &["intranet"]);
    assert!(of(&["b.example", "*.c.example", "8.8.8.0/24"], &["intranet"]).judges_addresses_as(&before));
    for (deny, private) in
        [(&["a.example"][..], &["intranet"][..]), (&["8.8.8.0/24"], &[]), (&["8.8.0.0/16"], &["intranet"])]
    {
        assert!(!of(deny, private).judges_addresses_as(&before), "{deny:?} {private:?}");
    }
}

#[test]
fn inside_addresses_need_leave_by_name_or_network() {
    let rules = rules(|forward| {
        forward.allow_private_destinations =
            ["intranet", "*.corp.example", "10.9.0.0/16"].map(String::from).into();
    });
    for (host, address, allowed) in [
        ("public.example", "10.0.0.1:80", false),
        ("public.example", "10.9.1.1:80", true),
        ("public.example", "[::ffff:10.9.1.1]:80", true),
        ("public.example", "[64:ff9b::10.9.1.1]:80", true),
        ("public.example", "[::1]:80", false),
        ("intranet", "10.0.0.1:80", true),
        ("git.corp.example", "192.168.0.1:443", true),
        ("corp.example", "192.168.0.1:443", false),
        ("public.example", "93.184.216.34:80", true),
    ] {
        assert_eq!(rules.address(host, socket(address)).is_ok(), allowed, "{host} {address}");
    }
    let refusal = rules.address("x", socket("169.254.169.254:80")).unwrap_err();
    assert_eq!(
        (refusal.status().as_u16(), refusal.proxy_status().as_str()),
        (403, "destination_ip_prohibited")
    );
}

#[test]
fn own_address_is_refused_with_loopback_allowed() {
    let rules = rules(|forward| forward.allow_private_destinations = vec!["127.0.0.0/8".into()]);
    for address in
        ["127.0.0.1:3129", "127.0.0.1:3128", "127.8.8.8:3128", "[::ffff:127.0.0.1]:3129", "192.0.2.9:8080"]
    {
        let refusal = rules.address("localhost", socket(address)).unwrap_err();
        assert_eq!(refusal.proxy_status().as_str(), "proxy_loop_detected", "{address}");
    }
    assert_eq!(rules.address("localhost", socket("127.0.0.1:8080")), Ok(()));
    // 0.0.0.0:3128 also answers at every other address of this machine.
    assert!(rules.connected(socket("203.0.113.5:50000"), socket("203.0.113.5:3128")).is_err());
    assert!(rules.connected(socket("203.0.113.5:50000"), socket("203.0.113.6:3128")).is_ok());
    assert!(rules.connected(socket("203.0.113.5:50000"), socket("203.0.113.5:3129")).is_ok());
}

#[test]
fn unspecified_address_counts_as_loopback() {
    let rules = rules(|forward| forward.allow_private_destinations = vec!["*".into()]);
    // Linux connects to 127.0.0.1 when asked for 0.0.0.0.
    for address in ["0.0.0.0:3129", "[::ffff:0.0.0.0]:3129", "0.0.0.0:3128"] {
        let refusal = rules.address("x", socket(address)).unwrap_err();
        assert_eq!(refusal.proxy_status().as_str(), "proxy_loop_detected", "{address}");
    }
    assert_eq!(rules.address("x", socket("0.0.0.0:8080")), Ok(()));
    // The connection's actual peer is checked once more.
    assert!(rules.connected(socket("127.0.0.1:50000"), socket("127.0.0.1:3129")).is_err());
    assert!(rules.connected(socket("127.0.0.1:50000"), socket("127.0.0.1:3130")).is_ok());
}

#[test]
fn users_must_prove_themselves_when_there_is_a_file() {
    let open = rules(|_| ());
    assert_eq!(open.authenticate(None), Ok(None));

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users");
    std::fs::write(&path, "ann:secret\n").expect("written");
    let closed = rules(|forward| {
        forward.users_file = Some(path.clone());
        forward.realm = "a \"b\"".into();
    });
    assert_eq!(closed.authenticate(None), Err(AccessRefusal::Credentials));
    assert_eq!(AccessRefusal::Credentials.status(), 407);
    let good = HeaderValue::from_static("Basic YW5uOnNlY3JldA==");
    assert_eq!(closed.authenticate(Some(&good)), Ok(Some("ann".into())));
    assert_eq!(closed.challenge(), "Basic realm=\"a \\\"b\\\"\", charset=\"UTF-8\"");

    std::fs::write(&path, "ann\n").expect("written");
    let forward = Forward { users_file: Some(path), ..Forward::default() };
    let error = ForwardRules::new(&forward, &[]).expect_err("a bad line").to_string();
    assert!(error.ends_with("users:1: expected user:password"), "{error}");
}

#[test]
fn senseless_rules_are_errors() {
    for forward in [
        Forward { deny_destinations: vec!["http://x".into()], ..Forward::default() },
        Forward { allow_private_destinations: vec![String::new()], ..Forward::default() },
        Forward { users_file: Some("/nonexistent/users".into()), ..Forward::default() },
        Forward { realm: "line\nbreak".into(), ..Forward::default() },
    ] {
        assert!(ForwardRules::new(&forward, &[]).is_err());
    }
}

#[test]
fn purging_is_for_listed_networks() {
    let rules = PurgeRules::new(&["10.0.0.0/8".parse().unwrap()]);
    assert!(rules.client(ip("10.0.0.1")).is_ok() && rules.client(ip("::ffff:10.0.0.1")).is_ok());
    assert!(rules.client(ip("127.0.0.1")).is_err() && PurgeRules::new(&[]).client(ip("::1")).is_err());
}
