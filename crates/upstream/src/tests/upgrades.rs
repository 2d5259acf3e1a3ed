//! Tests of protocol switches and tunnels.

use super::*;

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: Echo\r\n\r\nhello";

async fn offer(asker: &Asker, protocols: Option<&'static str>) -> Result<UpstreamResponse, UpstreamError> {
    let upgrade = protocols.map(HeaderValue::from_static);
    let request = UpstreamRequest { upgrade, ..asker.request(Method::GET, "/") };
    asker.upstreams.fetch(request).await
}

#[tokio::test]
async fn a_switched_connection_is_a_tunnel() {
    let origin = RawOrigin::start(vec![vec![Read, Say(SWITCH), ReadBytes(4), Say("pong")]]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| upstream.tunnels_per_origin = 1);
    let response = offer(&asker, Some("echo, other")).await.expect("switched");
    assert_eq!(
        (response.status.as_u16(), &response.fields.to_map()["upgrade"]),
        (101, &HeaderValue::from_static("Echo"))
    );
    let mut tunnel = response.upgraded.expect("a tunnel");
    let mut greeting = [0; 5];
    tunnel.read_exact(&mut greeting).await.expect("bytes that came with the head");
    tunnel.write_all(b"ping").await.expect("room");
    let mut rest = String::new();
    tunnel.read_to_string(&mut rest).await.expect("the rest");
    assert_eq!((&greeting, rest.as_str()), (b"hello", "pong"));
    let head = &origin.requests()[0];
    assert!(head.contains("connection: upgrade\r\n") && head.contains("upgrade: echo, other\r\n"), "{head}");

    // The tunnel counts against the limit as long as it is held.
    let another = offer(&asker, Some("echo")).await.map(drop).expect_err("as many as are allowed");
    assert_eq!((&another.cause, another.status().as_u16()), (&Cause::ConnectionLimit, 503), "{another}");
    drop(tunnel);
    assert_eq!(offer(&asker, Some("echo")).await.expect("switched").status, 101);
}

#[tokio::test]
async fn a_tunnel_gives_its_connection_to_others() {
    let scripts = vec![vec![Read, Say(SWITCH), Hang], vec![Read, Say(OK), Hang]];
    let origin = RawOrigin::start(scripts).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| upstream.connections_per_origin = 1);
    let tunnel = offer(&asker, Some("echo")).await.expect("switched");
    assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
    drop(tunnel);
}

#[tokio::test]
async fn an_offer_may_be_declined() {
    let origin = RawOrigin::start(vec![[Read, Say(OK)].repeat(2)]).await;
    let asker = Asker::new(&origin);
    let response = offer(&asker, Some("websocket")).await.expect("a response");
    assert!(response.upgraded.is_none());
    assert_eq!(whole(response).await.expect("whole"), "ok");
    tokio::time::sleep(Duration::from_millis(20)).await;
    asker.get_whole("/").await;
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn switches_that_were_not_offered_are_refused() {
    for (offered, sent) in [
        (None, SWITCH),
        (Some("websocket"), SWITCH),
        (Some("echo"), "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n"),
    ] {
        let origin = RawOrigin::start(vec![vec![Read, Say(sent), Hang]]).await;
        let asker = Asker::new(&origin);
        let error = offer(&asker, offered).await.map(drop).expect_err("refused");
        assert_eq!((&error.cause, error.status().as_u16()), (&Cause::UpgradeFailed, 502), "{error}");
        eventually("the connection is closed", || asker.metrics.upstream_connections.value() == 0).await;
    }
}

#[tokio::test]
async fn https_origins_are_offered_a_switch_over_http1() {
    let acceptor = super::tls::acceptor("127.0.0.1", true, &["h2", "http/1.1"]);
    let address = super::tls::origin(acceptor, |mut stream| async move {
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request"));
        }
        stream.write_all(SWITCH.as_bytes()).await.expect("room");
        stream.flush().await.expect("room");
        std::future::pending().await
    })
    .await;
    let response = offer(&super::tls::trusting(address), Some("echo")).await.expect("switched");
    let mut greeting = [0; 5];
    response.upgraded.expect("a tunnel").read_exact(&mut greeting).await.expect("the greeting");
    assert_eq!(&greeting, b"hello");
}

#[tokio::test]
async fn connect_tunnels_where_the_rules_allow() {
    let origin = RawOrigin::start(vec![vec![ReadBytes(4), Say("pong")]]).await;
    let asker = Asker::new(&origin);
    let port = origin.address.port();
    let tunnel =
        crate::tunnel::connect(&asker.upstreams, &asker.rules, "127.0.0.1", port, &Caller::default()).await;
    let mut tunnel = tunnel.expect("a tunnel");
    assert_eq!(tunnel.peer, origin.address);
    tunnel.io.write_all(b"ping").await.expect("room");
    let mut answer = String::new();
    tunnel.io.read_to_string(&mut answer).await.expect("the answer");
    assert_eq!(answer, "pong");

    let rules = Arc::new(ForwardRules::new(&Forward::default(), &[]).expect("sound rules"));
    for (host, port, proxy_status) in
        [("127.0.0.1", 443, "destination_ip_prohibited"), ("[::1]", 443, "destination_ip_prohibited")]
    {
        let refused = crate::tunnel::connect(&asker.upstreams, &rules, host, port, &Caller::default()).await;
        let error = refused.map(drop).expect_err("refused");
        assert_eq!((error.status().as_u16(), error.proxy_status().as_str()), (403, proxy_status), "{error}");
    }
    assert_eq!(origin.connections(), 1);
}
