//! Tests of every failure of an origin, and of the client's status.

use super::*;

async fn check_script(script: Vec<Step>, cause: Cause, status: u16) {
    let origin = RawOrigin::start(vec![script]).await;
    let asker = Asker::new(&origin);
    let error = asker.get("/").await.map(|response| response.status).expect_err("an error");
    assert_eq!((&error.cause, error.status().as_u16()), (&cause, status), "{error}");
    assert_eq!(cause.counter(&asker.metrics).value(), 1);
    eventually("the connection is closed", || asker.metrics.upstream_connections.value() == 0).await;
}

#[tokio::test]
async fn an_origin_that_closes() {
    check_script(vec![Read], Cause::Terminated, 502).await;
    check_script(vec![], Cause::Terminated, 502).await;
    check_script(vec![Read, Reset], Cause::Terminated, 502).await;
    check_script(vec![Read, Say("HTTP/1.1 200 OK\r\nContent-")], Cause::Incomplete, 502).await;
}

#[tokio::test]
async fn an_origin_that_is_silent() {
    check_script(vec![Read, Hang], Cause::ResponseTimeout, 504).await;
    check_script(vec![Read, Say("HTTP/1.1 200 OK\r\n"), Hang], Cause::ResponseTimeout, 504).await;
}

#[tokio::test]
async fn an_origin_that_sends_something_else() {
    for garbage in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "<html>HTTP/0.9</html>",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
    ] {
        check_script(vec![Read, Say(garbage), Hang], Cause::Malformed, 502).await;
    }
}

#[tokio::test]
async fn heads_have_limits() {
    let many = "x: y\r\n".repeat(200);
    let many = format!("HTTP/1.1 200 OK\r\n{many}\r\n");
    check_script(vec![Read, Say(made(many)), Hang], Cause::HeadTooLarge, 502).await;
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    check_script(vec![Read, Say(made(long)), Hang], Cause::HeadTooLarge, 502).await;
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(300_000));
    check_script(vec![Read, Say(made(endless)), Hang], Cause::HeadTooLarge, 502).await;
}

#[tokio::test]
async fn interim_responses_have_a_limit() {
    let flood = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(100);
    check_script(vec![Read, Say(made(flood)), Hang], Cause::Malformed, 502).await;
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let asker = Asker::with(address, Scheme::Http, |_| ());
    let error = asker.get("/").await.map(drop).expect_err("an error");
    assert_eq!((error.cause, error.next_hop), (Cause::ConnectionRefused, address.to_string()));
}

#[tokio::test]
async fn no_route() {
    let asker = Asker::with("255.255.255.255:80".parse().expect("an address"), Scheme::Http, |_| ());
    let forward = Forward { allow_private_destinations: vec!["0.0.0.0/0".into()], ..Forward::default() };
    let rules = Arc::new(ForwardRules::new(&forward, &[]).expect("sound rules"));
    let error = Asker { rules, ..asker }.get("/").await.map(drop).expect_err("an error");
    assert_eq!(error.cause, Cause::Unreachable, "{error}");
}

#[tokio::test]
async fn connecting_takes_too_long() {
    // The TCP connection stands, but no TLS handshake comes.
    let origin = RawOrigin::start(vec![vec![Hang]]).await;
    let asker = Asker::with(origin.address, Scheme::Https, |upstream| {
        upstream.connect_timeout = Duration::from_millis(100);
        upstream.ca_file = Some(super::tls::ca_file().into());
    });
    let error = asker.get("/").await.map(drop).expect_err("an error");
    assert_eq!((&error.cause, error.status().as_u16()), (&Cause::ConnectTimeout, 504), "{error}");
}

struct Failing;

impl Resolve for Failing {
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            match host {
                "slow.example" => std::future::pending().await,
                "empty.example" => Ok([].into()),
                _ => Err(io::Error::other("no such name")),
            }
        })
    }
}

#[tokio::test]
async fn names_that_do_not_resolve() {
    let metrics = Arc::new(Metrics::default());
    let settings = settings(|upstream| upstream.connect_timeout = Duration::from_millis(100));
    let upstreams = Upstreams::with_resolver(&settings, metrics, Arc::new(Failing)).expect("sound settings");
    let rules = open_rules();
    for (host, cause, status) in [
        ("none.example", Cause::DnsError, 502),
        ("empty.example", Cause::DnsError, 502),
        ("slow.example", Cause::DnsTimeout, 504),
    ] {
        let origin = Origin::new(Scheme::Http, host, 80);
        let error = upstreams.dial(&origin, &rules, &Caller::default()).await.map(drop).expect_err(host);
        assert_eq!((&error.cause, error.status().as_u16()), (&cause, status), "{error}");
    }
}

#[tokio::test]
async fn public_name_with_private_address_is_refused() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let metrics = Arc::new(Metrics::default());
    let rules = Arc::new(ForwardRules::new(&Forward::default(), &[]).expect("sound rules"));
    for inside in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "64:ff9b::7f00:1"] {
        let resolver = Arc::new(Always(vec![inside.parse().expect("an address")]));
        let upstreams = Upstreams::with_resolver(&settings(|_| ()), Arc::clone(&metrics), resolver);
        let upstreams = upstreams.expect("sound settings");
        let named = Origin::new(Scheme::Http, "public.example", origin.address.port());
        let asker =
            Asker { upstreams, metrics: Arc::clone(&metrics), rules: Arc::clone(&rules), origin: named };
        let by_get = asker.get("/").await.map(drop).expect_err("refused");
        let by_connect = asker
            .upstreams
            .dial(&asker.origin, &rules, &Caller::default())
            .await
            .map(drop)
            .expect_err("refused");
        for error in [by_get, by_connect] {
            assert_eq!(error.status(), 403, "{error}");
            assert_eq!(error.proxy_status().as_str(), "destination_ip_prohibited", "{error}");
        }
    }
    assert_eq!(origin.connections(), 0, "nothing was connected to");
    assert_eq!(metrics.upstream_errors_refused.value(), 8);
}

#[tokio::test]
async fn numeric_hosts_are_checked_by_their_address() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let (upstreams, _) = upstreams(|_| ());
    let rules = Arc::new(ForwardRules::new(&Forward::default(), &[]).expect("sound rules"));
    for host in
        ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "0", "[::1]", "[::ffff:7f00:1]"]
    {
        let named = Origin::new(Scheme::Http, host, origin.address.port());
        let error = upstreams.dial(&named, &rules, &Caller::default()).await.map(drop).expect_err(host);
        assert_eq!(error.status(), 403, "{error}");
    }
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn only_public_or_allowed_addresses_are_tried() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let forward = Forward { allow_private_destinations: vec!["127.0.0.1".into()], ..Forward::default() };
    let rules = Arc::new(ForwardRules::new(&forward, &[]).expect("sound rules"));
    let found = ["::1", "127.0.0.2", "127.0.0.1"].map(|address| address.parse().expect("an address"));
    let metrics = Arc::new(Metrics::default());
    let resolver = Arc::new(Always(found.into()));
    let upstreams = Upstreams::with_resolver(&settings(|_| ()), metrics, resolver).expect("sound settings");
    let named = Origin::new(Scheme::Http, "mixed.example", origin.address.port());
    let (_, peer) = upstreams.dial(&named, &rules, &Caller::default()).await.expect("the allowed address");
    assert_eq!(peer, origin.address);
}

#[tokio::test]
async fn an_address_that_refuses_leads_to_the_next() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let found = ["127.0.0.9", "::1", "127.0.0.1"].map(|address| address.parse().expect("an address"));
    let forward = Forward {
        allow_private_destinations: vec!["127.0.0.0/8".into(), "::1".into()],
        ..Forward::default()
    };
    let rules = Arc::new(ForwardRules::new(&forward, &[]).expect("sound rules"));
    let metrics = Arc::new(Metrics::default());
    let resolver = Arc::new(Always(found.into()));
    let upstreams = Upstreams::with_resolver(&settings(|_| ()), metrics, resolver).expect("sound settings");
    let named = Origin::new(Scheme::Http, "many.example", origin.address.port());
    let asker = Asker { upstreams, metrics: Arc::default(), rules, origin: named };
    assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
    assert!(origin.requests()[0].to_ascii_lowercase().contains("\r\nhost: many.example:"));
}

#[tokio::test]
async fn the_proxy_itself_is_no_destination() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let forward = Forward { allow_private_destinations: vec!["127.0.0.0/8".into()], ..Forward::default() };
    let everywhere = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), origin.address.port());
    let rules = Arc::new(ForwardRules::new(&forward, &[everywhere]).expect("sound rules"));
    let error = Asker { rules, ..Asker::new(&origin) }.get("/").await.map(drop).expect_err("refused");
    assert_eq!((error.status().as_u16(), error.proxy_status().as_str()), (508, "proxy_loop_detected"));
}

#[tokio::test]
async fn a_request_body_that_fails_is_the_clients_fault() {
    let origin = RawOrigin::start(vec![vec![Read, Hang]]).await;
    let asker = Asker::new(&origin);
    let (sender, body) = channel_body();
    sender.send(Err(BodyError::Cut("client left".into()))).await.expect("room");
    let request = UpstreamRequest { body, ..asker.request(Method::PUT, "/") };
    let error = asker.upstreams.fetch(request).await.map(drop).expect_err("an error");
    assert_eq!((&error.cause, error.status().as_u16()), (&Cause::RequestBody, 400), "{error}");
}

#[tokio::test]
async fn an_upload_that_does_not_move_is_given_up() {
    let origin = RawOrigin::start(vec![vec![ReadHead, Hang]]).await;
    let asker = Asker::new(&origin);
    let (_sender, body) = channel_body();
    let request = UpstreamRequest { body, ..asker.request(Method::PUT, "/") };
    let error = asker.upstreams.fetch(request).await.map(drop).expect_err("an error");
    assert_eq!((&error.cause, error.status().as_u16()), (&Cause::WriteTimeout, 504), "{error}");
}
