//! Tests of sites with several upstreams: failover, weights and checks.

use super::*;
use shoal_settings::{Balance, HealthCheck, Site, UpstreamServer};

fn group(addresses: &[(SocketAddr, u32)], edit: impl FnOnce(&mut Site)) -> Arc<UpstreamGroup> {
    let server = |(address, weight): &(SocketAddr, u32)| UpstreamServer {
        weight: *weight,
        ..UpstreamServer::at(&format!("http://{address}"))
    };
    let mut site = Site {
        hosts: vec!["*".into()],
        path_prefix: "/".into(),
        upstreams: addresses.iter().map(server).collect(),
        balance: Balance::RoundRobin,
        health: None,
        preserve_host: true,
        set_cookie: None,
        heuristic_fraction: None,
        heuristic_query: None,
        via: true,
        rule: Vec::new(),
        rewrite_location: None,
        ..Site::to("http://u")
    };
    edit(&mut site);
    Arc::new(UpstreamGroup::new(&site, 3).expect("sound URLs"))
}

async fn serving(answer: &'static str) -> RawOrigin {
    RawOrigin::start(vec![[Read, Say(answer)].repeat(50)]).await
}

async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("bound")
}

async fn ask(asker: &Asker, group: &Arc<UpstreamGroup>, method: Method) -> Result<u16, Cause> {
    let destination = Destination::Group { group: Arc::clone(group), key: 1 };
    let request = UpstreamRequest { destination, ..asker.request(method, "/") };
    let response = asker.upstreams.fetch(request).await.map_err(|error| error.cause)?;
    let status = response.status.as_u16();
    whole(response).await.expect("whole");
    Ok(status)
}

#[tokio::test]
async fn requests_are_shared_by_weight() {
    let (heavy, light) = (serving(OK).await, serving(OK).await);
    let asker = Asker::new(&heavy);
    let group = group(&[(heavy.address, 3), (light.address, 1)], |_| ());
    for _ in 0..8 {
        assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200));
    }
    assert_eq!((heavy.requests().len(), light.requests().len()), (6, 2));
    assert_eq!(group.members()[0].requests.value(), 6);
    eventually("nothing is in flight", || group.members().iter().all(|m| m.in_flight.value() == 0)).await;
}

#[tokio::test]
async fn unreachable_upstream_leads_to_the_next() {
    let (alive, dead) = (serving(OK).await, closed_port().await);
    let asker = Asker::new(&alive);
    let group = group(&[(dead, 1), (alive.address, 1)], |_| ());
    for _ in 0..8 {
        // No byte was sent to the dead upstream, so any method may be retried.
        assert_eq!(ask(&asker, &group, Method::POST).await, Ok(200));
    }
    let dead = &group.members()[0];
    assert_eq!((dead.requests.value(), dead.failures.value()), (3, 3), "left out after three failures");
    assert!(!dead.is_in(std::time::Instant::now()));
    assert_eq!(asker.metrics.upstream_failovers.value(), 3);
}

#[tokio::test]
async fn all_upstreams_dead_reports_error_and_asks_again() {
    let dead = closed_port().await;
    let revived = closed_port().await;
    let asker = Asker::with(dead, Scheme::Http, |_| ());
    let group = group(&[(dead, 1), (revived, 1)], |_| ());
    for _ in 0..4 {
        assert_eq!(ask(&asker, &group, Method::GET).await, Err(Cause::ConnectionRefused));
    }
    let listener = TcpListener::bind(revived).await.expect("the port is still free");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        follow(vec![Read, Say(OK)], stream, Arc::default()).await;
    });
    assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200), "asked although it is out");
}

/// Returns the outcome of a request if the first upstream plays `first`, and the number of requests
/// to the second.
async fn after(first: Vec<Step>, method: Method, body: RequestBody) -> (Result<u16, Cause>, usize) {
    let (failing, alive) = (RawOrigin::start(vec![first]).await, serving(OK).await);
    let asker = Asker::new(&alive);
    let group = group(&[(failing.address, 1), (alive.address, 1)], |_| ());
    let destination = Destination::Group { group, key: 1 };
    let request = UpstreamRequest { destination, body, ..asker.request(method, "/") };
    let outcome = asker.upstreams.fetch(request).await.map(|response| response.status.as_u16());
    assert_eq!(failing.connections(), 1);
    assert_eq!(asker.metrics.upstream_failovers.value() as usize, alive.connections());
    (outcome.map_err(|error| error.cause), alive.requests().len())
}

#[tokio::test]
async fn failed_request_goes_to_the_next_if_safe() {
    for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
        assert_eq!(after(vec![Read], method, None).await, (Ok(200), 1));
    }
    assert_eq!(after(vec![ReadHead, Reset], Method::GET, None).await, (Ok(200), 1));
    // Not idempotent: the first may have acted on the request.
    assert_eq!(after(vec![Read], Method::POST, None).await, (Err(Cause::Terminated), 0));
    // The body has been sent.
    assert_eq!(after(vec![Read], Method::PUT, body("data")).await, (Err(Cause::Terminated), 0));
    // The upstream began to answer.
    let partial = vec![Read, Say("HTTP/1.1 200")];
    assert_eq!(after(partial, Method::GET, None).await, (Err(Cause::Incomplete), 0));
    assert_eq!(after(vec![Read, Say("nonsense\r\n")], Method::GET, None).await, (Err(Cause::Malformed), 0));
    // The upstream may still be working on the request.
    assert_eq!(after(vec![Read, Hang], Method::GET, None).await, (Err(Cause::ResponseTimeout), 0));
}

#[tokio::test]
async fn fatal_request_does_not_reach_all_upstreams() {
    let mut origins = Vec::new();
    for _ in 0..4 {
        origins.push(RawOrigin::start(vec![vec![Read]]).await);
    }
    let asker = Asker::new(&origins[0]);
    let addresses: Vec<_> = origins.iter().map(|origin| (origin.address, 1)).collect();
    let group = group(&addresses, |_| ());
    assert_eq!(ask(&asker, &group, Method::GET).await, Err(Cause::Terminated));
    let got: usize = origins.iter().map(|origin| origin.requests().len()).sum();
    assert_eq!((got, asker.metrics.upstream_failovers.value()), (2, 1));
    assert_eq!(group.members().iter().map(|member| member.failures.value()).sum::<u64>(), 2);
}

#[tokio::test]
async fn dead_connection_leads_to_fresh_then_next_upstream() {
    let alive = serving(OK).await;
    let dying = RawOrigin::start(vec![vec![Read, Say(OK), Read], vec![Read]]).await;
    let asker = Asker::new(&alive);
    let group = group(&[(dying.address, 1), (alive.address, 1)], |_| ());
    for _ in 0..2 {
        assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200));
    assert_eq!((dying.requests().len(), dying.connections(), alive.requests().len()), (3, 2, 2));
    let metrics = &asker.metrics;
    assert_eq!((metrics.upstream_retries.value(), metrics.upstream_failovers.value()), (1, 1));
}

#[tokio::test]
async fn an_error_status_is_an_answer() {
    let broken = serving("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n").await;
    let asker = Asker::new(&broken);
    let group = group(&[(broken.address, 1)], |_| ());
    for _ in 0..5 {
        assert_eq!(ask(&asker, &group, Method::GET).await, Ok(500));
    }
    assert!(group.members()[0].is_in(std::time::Instant::now()));
}

#[tokio::test]
async fn hashing_keeps_a_key_with_its_upstream() {
    let (one, other) = (serving(OK).await, serving(OK).await);
    let asker = Asker::new(&one);
    let group = group(&[(one.address, 1), (other.address, 1)], |site| site.balance = Balance::Hash);
    for _ in 0..6 {
        assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200));
    }
    let counts = [one.requests().len(), other.requests().len()];
    assert!(counts == [6, 0] || counts == [0, 6], "{counts:?}");
}

#[tokio::test]
async fn the_least_busy_upstream_is_asked() {
    let slow = RawOrigin::start(vec![vec![Read, Wait(200), Say(OK)]]).await;
    let quick = serving(OK).await;
    let asker = Asker::new(&quick);
    let group = group(&[(slow.address, 1), (quick.address, 1)], |site| site.balance = Balance::LeastRequests);
    let (first, ()) = tokio::join!(ask(&asker, &group, Method::GET), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..4 {
            assert_eq!(ask(&asker, &group, Method::GET).await, Ok(200));
        }
    });
    assert_eq!((first, slow.requests().len(), quick.requests().len()), (Ok(200), 1, 4));
}

#[tokio::test]
async fn checks_take_an_upstream_out_and_bring_it_back() {
    let sick = "HTTP/1.1 503 Sick\r\nContent-Length: 0\r\n\r\n";
    let script = [[Read, Say(sick)].repeat(3), [Read, Say(OK)].repeat(100)].concat();
    let origin = RawOrigin::start(vec![script]).await;
    let asker = Asker::new(&origin);
    let group = group(&[(origin.address, 1)], |site| {
        let interval = Duration::from_millis(40);
        site.health = Some(HealthCheck { path: "/health".into(), interval, threshold: 2 });
    });
    asker.upstreams.watch(&group);
    let is_in = || group.members()[0].is_in(std::time::Instant::now());
    eventually("it is taken out", || !is_in()).await;
    eventually("it is brought back", is_in).await;
    assert!(origin.requests()[0].starts_with("GET /health HTTP/1.1\r\n"));
    assert_eq!(asker.metrics.upstream_checks_failed.value(), 3);
    assert_eq!(origin.connections(), 1, "checks keep their connection");

    let weak = Arc::downgrade(&group);
    drop(group);
    let made = asker.metrics.upstream_checks.value();
    eventually("the group is freed", || weak.strong_count() == 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(asker.metrics.upstream_checks.value() <= made + 1, "checks end with their group");
}
