//! The authority's answers.

use super::jose::{Jose, bytes_of, encoded, thumbprint};
use super::{Desk, Fault, Order, lock, proof, unix_now};
use crate::certificates::Authority;
use crate::origin::{After, Answer, Framing, Received};
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;

/// Answers a request.
pub fn answer(desk: &Mutex<Desk>, signer: &Authority, request: &Received) -> Answer {
    let path = request.path().to_owned();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let fault = lock(desk).fault.clone();
    match (&fault, parts[0]) {
        (Some(Fault::Endless), _) => return endless(),
        (Some(Fault::Garbage), _) => return Answer::ok("<html>no JSON</html>"),
        (Some(Fault::Circle), "new-order") => return Answer::new(307).field("Location", &path),
        (Some(Fault::ServerError), "new-order") => {
            return lock(desk).problem(500, "serverInternal", "told to fail");
        }
        (Some(Fault::RateLimited(wait)), "new-order") => {
            return lock(desk).problem(429, "rateLimited", "too many orders").field("Retry-After", wait);
        }
        _ => {}
    }
    match (request.method.as_str(), parts[0]) {
        ("GET", "directory") => directory(&mut lock(desk), fault),
        ("HEAD" | "GET", "new-nonce") => {
            let nonce = lock(desk).nonce();
            Answer::new(200).field("Replay-Nonce", &nonce)
        }
        ("GET", "renewal") => window(&mut lock(desk)),
        ("POST", _) => signed(desk, signer, request, &parts),
        _ => Answer::new(405),
    }
}

fn directory(desk: &mut Desk, fault: Option<Fault>) -> Answer {
    let url = match fault {
        Some(Fault::ForeignHost(other)) => other,
        _ => desk.url.clone(),
    };
    let mut names = json!({});
    for (name, path) in [
        ("newNonce", "new-nonce"),
        ("newAccount", "new-account"),
        ("newOrder", "new-order"),
        ("revokeCert", "revoke"),
        ("keyChange", "key-change"),
    ] {
        names[name] = format!("{url}/{path}").into();
    }
    if desk.window.is_some() {
        names["renewalInfo"] = format!("{url}/renewal").into();
    }
    Answer::ok(names.to_string()).field("Content-Type", "application/json")
}

fn window(desk: &mut Desk) -> Answer {
    let Some((start, end)) = desk.window else { return Answer::new(404) };
    let window = json!({ "suggestedWindow": { "start": rfc3339(start), "end": rfc3339(end) } });
    Answer::ok(window.to_string()).field("Retry-After", "1")
}

fn signed(desk: &Mutex<Desk>, signer: &Authority, request: &Received, parts: &[&str]) -> Answer {
    let (payload, account, jose) = match lock(desk).checked(request) {
        Ok(checked) => checked,
        Err(refusal) => return *refusal,
    };
    let number = |at: usize| parts.get(at).and_then(|part| part.parse::<usize>().ok()).unwrap_or(usize::MAX);
    match parts[0] {
        "new-account" => new_account(&mut lock(desk), &payload, &jose),
        "account" => {
            let mut desk = lock(desk);
            desk.contact = payload["contact"].clone();
            desk.answer(200, &json!({ "status": "valid" }))
        }
        "new-order" => new_order(&mut lock(desk), &payload),
        "order" if parts.get(2) == Some(&"finalize") => {
            finalize(&mut lock(desk), signer, number(1), &payload)
        }
        "order" => order(&mut lock(desk), number(1), 200),
        "authorization" => authorization(&mut lock(desk), number(1), number(2)),
        "challenge" => challenge(desk, account, (number(1), number(2)), parts.get(3).unwrap_or(&"")),
        "certificate" => {
            let mut desk = lock(desk);
            let chain = desk.orders.get(number(1)).and_then(|order| order.chain.clone());
            let nonce = desk.nonce();
            Answer::ok(chain.unwrap_or_default()).field("Replay-Nonce", &nonce)
        }
        _ => lock(desk).problem(404, "malformed", "no such place"),
    }
}

fn new_account(desk: &mut Desk, payload: &Value, jose: &Jose) -> Answer {
    let key = jose.own_key().unwrap_or_default();
    if payload["termsOfServiceAgreed"] != true {
        return desk.problem(403, "userActionRequired", "the terms are not agreed to");
    }
    if let Some((id, secret)) = desk.binding.clone() {
        let binding = Jose::of(&payload["externalAccountBinding"]);
        if !binding.is_some_and(|binding| binding.is_bound_by(&id, &secret, &key)) {
            return desk.problem(401, "externalAccountRequired", "no binding, or a wrong one");
        }
    }
    desk.accounts.push(key);
    desk.contact = payload["contact"].clone();
    let place = format!("{}/account/{}", desk.url, desk.accounts.len());
    desk.answer(201, &json!({ "status": "valid" })).field("Location", &place)
}

fn new_order(desk: &mut Desk, payload: &Value) -> Answer {
    let identifiers = payload["identifiers"].as_array().cloned().unwrap_or_default();
    let names: Vec<String> =
        identifiers.iter().filter_map(|it| it["value"].as_str().map(str::to_owned)).collect();
    let proven = vec![false; names.len()];
    let replaces = payload["replaces"].as_str().map(str::to_owned);
    desk.orders.push(Order { names, proven, failed: None, chain: None, replaces });
    let number = desk.orders.len() - 1;
    let place = format!("{}/order/{number}", desk.url);
    order(desk, number, 201).field("Location", &place)
}

fn order(desk: &mut Desk, number: usize, status: u16) -> Answer {
    let Some(order) = desk.orders.get(number) else {
        return desk.problem(404, "malformed", "no such order");
    };
    let is_stuck = desk.fault == Some(Fault::NeverReady);
    let state = match order {
        _ if is_stuck => "pending",
        Order { failed: Some(_), .. } => "invalid",
        Order { chain: Some(_), .. } => "valid",
        Order { proven, .. } if proven.iter().all(|it| *it) => "ready",
        _ => "pending",
    };
    let url = &desk.url;
    let places = (0..order.names.len()).map(|at| format!("{url}/authorization/{number}/{at}"));
    let mut value = json!({
        "status": state,
        "identifiers": order.names.iter().map(|it| json!({ "type": "dns", "value": it })).collect::<Vec<_>>(),
        "authorizations": places.collect::<Vec<_>>(),
        "finalize": format!("{url}/order/{number}/finalize"),
    });
    if order.chain.is_some() {
        value["certificate"] = format!("{url}/certificate/{number}").into();
    }
    if let Some(replaces) = &order.replaces {
        value["replaces"] = replaces.clone().into();
    }
    let answer = desk.answer(status, &value);
    if is_stuck { answer.field("Retry-After", "3600") } else { answer }
}

fn authorization(desk: &mut Desk, number: usize, at: usize) -> Answer {
    let Some(order) = desk.orders.get(number).filter(|order| at < order.names.len()) else {
        return desk.problem(404, "malformed", "no such authorization");
    };
    let status = match (order.proven[at], &order.failed) {
        (true, _) => "valid",
        (false, Some(_)) => "invalid",
        (false, None) => "pending",
    };
    let name = match &desk.fault {
        Some(Fault::OtherName(other)) => (*other).to_owned(),
        _ => order.names[at].clone(),
    };
    let challenge = |kind: &str| {
        let mut value = json!({
            "type": kind,
            "url": format!("{}/challenge/{number}/{at}/{kind}", desk.url),
            "token": token(number, at),
            "status": status,
        });
        if let Some(why) = &order.failed {
            value["error"] = json!({ "type": "urn:ietf:params:acme:error:unauthorized", "detail": why });
        }
        value
    };
    let value = json!({
        "status": status,
        "identifier": { "type": "dns", "value": name },
        "challenges": [challenge("http-01"), challenge("tls-alpn-01")],
    });
    desk.answer(200, &value)
}

/// Looks for the proof, and then answers. No lock is held while it looks: the node may ask
/// meanwhile.
fn challenge(desk: &Mutex<Desk>, account: usize, (number, at): (usize, usize), kind: &str) -> Answer {
    let (name, address, key) = {
        let desk = lock(desk);
        let name = desk.orders.get(number).and_then(|order| order.names.get(at).cloned());
        let key = account.checked_sub(1).and_then(|account| desk.accounts.get(account).cloned());
        (name.unwrap_or_default(), desk.served_at.get(kind).copied(), key.unwrap_or_default())
    };
    let token = token(number, at);
    let expected = format!("{token}.{}", thumbprint(&key));
    let found = match address {
        None => Err("nobody serves this".to_owned()),
        Some(address) if kind == "http-01" => proof::over_http(address, &name, &token, &expected),
        Some(address) => proof::over_tls(address, &name, &expected),
    };
    let mut desk = lock(desk);
    let url = format!("{}/challenge/{number}/{at}/{kind}", desk.url);
    if let Some(order) = desk.orders.get_mut(number) {
        match found {
            Ok(()) => order.proven[at] = true,
            Err(why) => order.failed = Some(why),
        }
    }
    let value = json!({ "type": kind, "url": url, "token": token, "status": "processing" });
    desk.answer(200, &value)
}

fn finalize(desk: &mut Desk, signer: &Authority, number: usize, payload: &Value) -> Answer {
    let Some(order) = desk.orders.get(number).filter(|order| order.proven.iter().all(|it| *it)) else {
        return desk.problem(403, "orderNotReady", "the proofs are missing");
    };
    let names = match &desk.fault {
        Some(Fault::WrongName(name)) => vec![(*name).to_owned()],
        _ => order.names.clone(),
    };
    let request = bytes_of(&payload["csr"]);
    // Head of the key in the request: a bit string of an uncompressed point of P-256.
    let head = [0x03, 0x42, 0x00, 0x04];
    let Some(at) = request.windows(head.len()).position(|part| part == head) else {
        return desk.problem(400, "badCSR", "no key of P-256");
    };
    let mut point = request[at + 3..at + 68].to_vec();
    if desk.fault == Some(Fault::WrongKey) {
        let other = rcgen::KeyPair::generate().expect("ring makes P-256 keys");
        point = other.public_key_raw().to_vec();
    }
    let lifetime = desk.lifetime.unwrap_or(Duration::from_secs(90 * 86_400));
    let chain = signer.issue_for(&names, &PointOfP256(point), lifetime);
    desk.orders[number].chain = Some(chain);
    self::order(desk, number, 200)
}

/// Public key of a request.
struct PointOfP256(Vec<u8>);

impl PublicKeyData for PointOfP256 {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn token(order: usize, at: usize) -> String {
    encoded(format!("token-{order}-{at}-of-the-test-authority").as_bytes())
}

/// An answer that goes on for as long as anybody listens.
fn endless() -> Answer {
    let mut answer = Answer::new(200).framed(Framing::Chunked).then(After::Close);
    for _ in 0..200 {
        answer = answer.piece(vec![b'x'; 64 << 10]);
    }
    answer
}

/// Seconds since 1970 as a time of RFC 3339.
fn rfc3339(seconds: u64) -> String {
    let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
    // "Fri, 15 May 2015 15:34:21 GMT"
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|month| *month == &date[8..11]).map_or(0, |at| at + 1);
    debug_assert!(unix_now() > 0 && month > 0);
    format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25])
}
