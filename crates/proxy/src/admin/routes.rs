//! Routes of the admin listener: a method, a path and a body in, an answer out.

use super::{Control, PurgeOutcome, Readiness, exposition, purge};
use http::{Method, StatusCode};
use serde_json::json;

/// An answer, ready to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AdminResponse {
    pub status: StatusCode,
    pub content_type: &'static str,
    /// Methods that the route accepts, for a 405.
    pub allow: Option<&'static str>,
    pub body: String,
}

/// Path of the health check. The answer never blocks, like [`Control::readiness`].
pub(super) const HEALTH: &str = "/healthz";

/// Every route, with its method and purpose.
const ROUTES: [(&str, &str, &str); 7] = [
    ("GET", "/metrics", "counters and gauges in Prometheus' text format"),
    ("GET", "/status", "what the node is and holds, as JSON"),
    ("GET", HEALTH, "200 when the node accepts clients, else 503; ready, or degraded: no store"),
    ("GET", "/version", "the version at work"),
    ("POST", "/purge", "removes stored responses: ?url=, ?tag=, ?host=, ?origin=&group= or ?all"),
    ("POST", "/reload", "reads the settings again"),
    (
        "POST",
        "/disk",
        "takes a disk out of service or brings it back: {\"path\": \"...\", \"online\": false}",
    ),
];

/// Answers one request. May block, as [`Control`] may.
pub(super) fn answer(
    control: &dyn Control,
    method: &Method,
    path: &str,
    query: Option<&str>,
    body: &[u8],
) -> AdminResponse {
    let Some((allowed, route, _)) = ROUTES.iter().find(|(_, route, _)| *route == path) else {
        return text(StatusCode::NOT_FOUND, listing(path));
    };
    let fits = method.as_str() == *allowed || (*allowed == "GET" && method == Method::HEAD);
    if !fits {
        let allow = if *allowed == "GET" { "GET, HEAD" } else { "POST" };
        let body = format!("{path} takes {allow}\n");
        return AdminResponse { allow: Some(allow), ..text(StatusCode::METHOD_NOT_ALLOWED, body) };
    }
    match *route {
        "/metrics" => AdminResponse {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..text(StatusCode::OK, exposition::page(control.metrics(), &control.status()))
        },
        "/status" => status(control),
        HEALTH => health(control.readiness()),
        "/version" => text(StatusCode::OK, format!("shoal {}\n", control.status().version)),
        "/purge" => purged(control, query, body),
        "/disk" => disk_set(control, body),
        _ => reloaded(control),
    }
}

fn status(control: &dyn Control) -> AdminResponse {
    match serde_json::to_value(control.status()) {
        Ok(value) => json(StatusCode::OK, &value),
        Err(error) => json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": error.to_string() })),
    }
}

fn health(readiness: Readiness) -> AdminResponse {
    let status = if readiness.accepts() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text(status, format!("{}\n", readiness.name()))
}

fn purged(control: &dyn Control, query: Option<&str>, body: &[u8]) -> AdminResponse {
    let outcome = match purge::parse(query, body) {
        Ok(request) => control.purge(request),
        Err(why) => PurgeOutcome::Invalid(why),
    };
    match outcome {
        PurgeOutcome::Purged { responses } => {
            json(StatusCode::OK, &json!({ "purged": { "responses": responses } }))
        }
        PurgeOutcome::Invalid(why) => json(StatusCode::BAD_REQUEST, &json!({ "error": why })),
        PurgeOutcome::Failed(why) => json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": why })),
    }
}

fn reloaded(control: &dyn Control) -> AdminResponse {
    match control.reload() {
        Ok(waiting) => json(StatusCode::OK, &json!({ "reloaded": true, "waiting": waiting })),
        Err(mistakes) => {
            json(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "reloaded": false, "mistakes": mistakes }))
        }
    }
}

fn disk_set(control: &dyn Control, body: &[u8]) -> AdminResponse {
    let request = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return json(StatusCode::BAD_REQUEST, &json!({ "error": error.to_string() })),
    };
    match control.set_disk(request) {
        Ok(changed) => json(StatusCode::OK, &json!({ "changed": changed })),
        Err(why) => json(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "error": why })),
    }
}

fn listing(path: &str) -> String {
    let routes: String =
        ROUTES.iter().map(|(method, path, about)| format!("{method:4} {path:9} {about}\n")).collect();
    format!("nothing at {path}; there is\n{routes}")
}

fn json(status: StatusCode, value: &serde_json::Value) -> AdminResponse {
    AdminResponse { status, content_type: "application/json", allow: None, body: format!("{value}\n") }
}

/// Builds a plain text answer.
pub(super) fn text(status: StatusCode, body: String) -> AdminResponse {
    AdminResponse { status, content_type: "text/plain; charset=utf-8", allow: None, body }
}
