//! Request smuggling: no two proxies in a row disagree about where a request ends, and what could
//! be framed in two ways is refused.
//!
//! Shoal stands alone, and before and behind nginx, Squid and itself. Each case of the [`corpus`]
//! is a request that some parsers frame in one way and others in another, with a second request
//! hidden where the disagreement would be. If front and back disagreed, the origin would see a
//! request that the front never answered, or the next client on a shared connection would get the
//! answer to the hidden one.

mod corpus;

use corpus::{Case, corpus};
use shoal_testkit::neighbours::Neighbour;
use shoal_testkit::origin::Received;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, missing, wait};
use std::net::SocketAddr;
use std::time::Duration;

/// An origin whose answers name what was asked, and may be stored as `caching` says.
fn naming_origin(caching: &'static str) -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", move |request| Answer::ok(name(request)).field("Cache-Control", caching));
    origin
}

fn name(request: &Received) -> String {
    format!("{} of {}", request.method, request.path())
}

fn impatient(setup: Setup) -> Shoal {
    setup.set("client.head_timeout", "2s").set("client.idle_timeout", "2s").start()
}

fn shoal_before(next: SocketAddr, origin: &Origin) -> Shoal {
    let site = format!("hosts = ['*']\nupstreams = [{{ url = 'http://{next}' }}]");
    impatient(Setup::to(origin).without_sites().site(&site))
}

/// Whether the answer is asked for or in RAM; each case is followed by one more request.
#[test]
fn what_is_ambiguous_is_refused_and_the_rest_is_read_in_one_way() {
    for caching in ["no-store", "max-age=600"] {
        let origin = naming_origin(caching);
        let shoal = impatient(Setup::to(&origin));
        let corpus = corpus();
        for case in &corpus {
            let path = format!("/a/{:03}", case.number);
            shoal.get(&path).expect_status(200);
            let mut client = shoal.connect();
            let last = format!("/last/{:03}", case.number);
            client.send([case.bytes.as_bytes(), &Request::get(&last).to_bytes("site.test")].concat());
            match case.requests {
                0 => expect_refusal(case, &mut client),
                _ => expect_answers(case, &mut client, &last),
            }
            let hidden = origin.count(&format!("/hidden/{:03}", case.number));
            let asked = usize::from(case.requests > 1);
            assert_eq!(hidden, asked, "{}: of the hidden request", case.name);
            assert!(case.requests > 0 || origin.count(&path) + origin.count(&last) == 1, "{}", case.name);
        }
        let refused = corpus.iter().filter(|case| case.requests == 0).count();
        shoal.expect_metric("shoal_requests_refused_total", "", refused as u64);
    }
}

fn expect_refusal(case: &Case, client: &mut Connection) {
    let response = client.try_response("POST").unwrap_or_else(|why| panic!("{}: {why}", case.name));
    assert!(matches!(response.status, 400 | 417 | 501 | 505), "{}: {}", case.name, response.status);
    assert!(client.closes(), "{}: the connection stays open", case.name);
}

fn expect_answers(case: &Case, client: &mut Connection, last: &str) {
    for expected in case.answers().into_iter().chain([format!("GET of {last}")]) {
        let response = client.try_response("GET").unwrap_or_else(|why| panic!("{}: {why}", case.name));
        assert_eq!((response.status, response.text()), (200, expected), "{}", case.name);
    }
}

/// Sends every case to `front`; whatever the chain makes of it, requests seen are requests
/// answered.
fn check(pair: &str, front: SocketAddr, origin: &Origin) {
    let corpus = corpus();
    let mut answers = Vec::new();
    for case in &corpus {
        let mut attacker = Connection::open(front);
        attacker.send(&case.bytes);
        let mut answered = all_answers(&mut attacker, Duration::from_millis(300));
        let victim = format!("/victim/{:03}", case.number);
        for _ in 0..2 {
            let response = Connection::open(front).ask(&Request::get(&victim), "site.test");
            assert_eq!(
                response.text(),
                format!("GET of {victim}"),
                "{pair}: {}: another's answer",
                case.name
            );
        }
        if unanswered(case, origin, &answered).is_some() {
            // It may only be slow.
            answered.extend(all_answers(&mut attacker, wait::LIMIT));
        }
        answers.push(answered);
    }
    let mut forwarded = 0;
    for (case, answered) in corpus.iter().zip(&answers) {
        let smuggled = unanswered(case, origin, answered);
        assert_eq!(smuggled, None, "{pair}: {} was answered {answered:?}", case.name);
        forwarded += usize::from(seen(case, origin).next().is_some());
    }
    // Sound requests are among the cases, and unsound ones.
    assert!((1..corpus.len() - 10).contains(&forwarded), "{pair}: {forwarded} cases reached the origin");
}

/// The texts of whole answers, up to a pause.
fn all_answers(client: &mut Connection, pause: Duration) -> Vec<String> {
    client.limit(pause);
    let answers = std::iter::from_fn(|| client.try_response("GET").ok());
    answers.take(4).filter(|answer| answer.complete()).map(|answer| answer.text()).collect()
}

/// The requests of a case that have reached the origin.
fn seen(case: &Case, origin: &Origin) -> impl Iterator<Item = String> {
    let end = format!("/{:03}", case.number);
    let is_of_case =
        move |request: &Received| request.path().ends_with(&end) && !request.path().starts_with("/victim");
    origin.received().into_iter().filter(is_of_case).map(|request| name(&request))
}

/// One of them to which there was no answer.
fn unanswered(case: &Case, origin: &Origin, answers: &[String]) -> Option<String> {
    let mut answers = answers.to_vec();
    seen(case, origin).find(|seen| match answers.iter().position(|answer| answer == seen) {
        Some(at) => {
            answers.remove(at);
            false
        }
        None => true,
    })
}

#[test]
fn shoal_before_itself() {
    let origin = naming_origin("no-store");
    let back = Setup::to(&origin).start();
    let front = shoal_before(back.address("reverse"), &origin);
    check("Shoal before Shoal", front.address("reverse"), &origin);
}

#[test]
fn shoal_and_nginx() {
    let origin = naming_origin("no-store");
    let back = Setup::to(&origin).start();
    let Some(front) = Neighbour::nginx(back.address("reverse")) else {
        return missing::skip("nginx");
    };
    check("nginx before Shoal", front.address(), &origin);
    let origin = naming_origin("no-store");
    let nginx = Neighbour::nginx(origin.address()).expect("started above");
    let front = shoal_before(nginx.address(), &origin);
    check("Shoal before nginx", front.address("reverse"), &origin);
}

#[test]
fn shoal_and_squid() {
    let origin = naming_origin("no-store");
    let back = Setup::to(&origin).start();
    let Some(front) = Neighbour::squid(back.address("reverse")) else {
        return missing::skip("squid");
    };
    check("Squid before Shoal", front.address(), &origin);
    let origin = naming_origin("no-store");
    let squid = Neighbour::squid(origin.address()).expect("started above");
    let front = shoal_before(squid.address(), &origin);
    check("Shoal before Squid", front.address("reverse"), &origin);
}
