//! Routes of the admin listener: a method, a path and a body in, an answer out.

use super::{Control, PurgeOutcome, Readiness, TopRequest, exposition, hints, purge, query, warm};
use bytes::Bytes;
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

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Path of the URLs that cost origins most.
const TOP_MISSES: &str = "/top/misses";

/// Path of the whereabouts of an object in the cluster.
const WHERE: &str = "/cluster/where";

/// Path of warming. Its body may be larger than others.
pub(super) const WARM: &str = "/warm";

/// Path of hints. Its body may be larger than others.
pub(super) const HINTS: &str = "/hints";

/// Every route, with its method and purpose.
const ROUTES: [(&str, &str, &str); 19] = [
    ("GET", METRICS, "counters and gauges in Prometheus' text format"),
    ("GET", "/status", "what the node is and holds, as JSON"),
    ("GET", "/mirrors", "mirrors of package registries with their counts, as JSON"),
    ("GET", HEALTH, "200 when the node accepts clients, else 503; ready, or degraded: no store"),
    ("GET", "/version", "the version at work"),
    ("GET", TOP_MISSES, "URLs that cost origins most: ?by=requests, bytes or time, &site=, &n="),
    ("GET", WHERE, "homes of an object in the cluster, and the nodes that hold it: ?url="),
    ("POST", "/purge", "removes stored responses: ?url=, ?tag=, ?host=, ?origin=&group= or ?all"),
    ("GET", "/cluster", "the cluster as this node sees it, as JSON"),
    ("POST", "/cluster/drain", "takes the node out of the homes of its cluster"),
    ("POST", "/cluster/join", "makes the node a home again, after a drain"),
    ("POST", WARM, "fetches the files of the lockfile in the body: ?file=, &plan and more"),
    ("GET", WARM, "jobs of warming and their progress, as JSON: ?job="),
    ("POST", "/warm/stop", "stops a job of warming: ?job="),
    ("POST", HINTS, "requests that clients will make soon, as JSON lines: {\"url\": \"...\"}"),
    ("GET", HINTS, "prefetching: hints that wait, and each source's account, as JSON"),
    ("POST", "/reload", "reads the settings again"),
    ("POST", "/explain", "says what would be done with a request, and changes nothing: {\"url\": \"...\"}"),
    (
        "POST",
        "/disk",
        "takes a disk out of service or brings it back: {\"path\": \"...\", \"online\": false}",
    ),
];

/// Answer to other requests at the listener of metrics.
pub(super) const METRICS_ALONE: &str =
    "this listener has GET /metrics and GET /healthz alone; admin.listen has the rest\n";

/// Returns `true` for the requests of a scraper: metrics and health.
pub(super) fn is_of_metrics(method: &Method, path: &str) -> bool {
    method.is_safe() && (path == METRICS || path == HEALTH)
}

/// Answers one request. May block, as [`Control`] may.
pub(super) fn answer(
    control: &dyn Control,
    method: &Method,
    path: &str,
    query: Option<&str>,
    body: &Bytes,
) -> AdminResponse {
    let mut routes = ROUTES.iter().filter(|(_, route, _)| *route == path).peekable();
    if routes.peek().is_none() {
        return text(StatusCode::NOT_FOUND, listing(path));
    }
    let fits = |allowed: &str| method.as_str() == allowed || (allowed == "GET" && method == Method::HEAD);
    debug_assert!(path.starts_with('/'), "routes are paths");
    let allowed: Vec<&str> = routes.map(|(allowed, ..)| *allowed).collect();
    if !allowed.iter().any(|allowed| fits(allowed)) {
        let allow = match allowed[..] {
            ["GET"] => "GET, HEAD",
            ["POST"] => "POST",
            _ => "GET, HEAD, POST",
        };
        let body = format!("{path} takes {allow}\n");
        return AdminResponse { allow: Some(allow), ..text(StatusCode::METHOD_NOT_ALLOWED, body) };
    }
    match path {
        METRICS => AdminResponse {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..text(StatusCode::OK, exposition::page(control.metrics(), &control.status()))
        },
        "/status" => status(control),
        "/mirrors" => json(StatusCode::OK, &json!(control.status().mirrors)),
        HEALTH => health(control.readiness()),
        "/version" => text(StatusCode::OK, format!("shoal {}\n", control.status().version)),
        "/cluster" => match control.cluster() {
            Some(status) => json(StatusCode::OK, &json!(status)),
            None => no_cluster(),
        },
        "/cluster/drain" if control.drain_cluster() => json(StatusCode::OK, &json!({ "draining": true })),
        "/cluster/join" if control.rejoin_cluster() => json(StatusCode::OK, &json!({ "draining": false })),
        "/cluster/drain" | "/cluster/join" => no_cluster(),
        "/purge" => purged(control, query, body),
        WARM if *method == Method::POST => answered(warm::started(control, query, body.clone())),
        WARM => answered(warm::told(control, query)),
        HINTS if *method == Method::POST => answered(hints::taken(control, body)),
        HINTS => json(StatusCode::OK, &json!(control.status().prefetch)),
        "/warm/stop" => answered(warm::stopped(control, query)),
        "/disk" => disk_set(control, body),
        TOP_MISSES => top_misses(control, query),
        WHERE => whereabouts(control, query),
        "/explain" => explained(control, body),
        _ => reloaded(control),
    }
}

fn answered((status, value): (StatusCode, serde_json::Value)) -> AdminResponse {
    json(status, &value)
}

fn no_cluster() -> AdminResponse {
    let why = "this node is in no cluster; set cluster.name and cluster.peer";
    json(StatusCode::NOT_FOUND, &json!({ "error": why }))
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

fn top_misses(control: &dyn Control, query: Option<&str>) -> AdminResponse {
    match TopRequest::parse(query) {
        Ok(request) => json(StatusCode::OK, &json!(control.top_misses(&request))),
        Err(why) => json(StatusCode::BAD_REQUEST, &json!({ "error": why })),
    }
}

fn whereabouts(control: &dyn Control, query: Option<&str>) -> AdminResponse {
    let found = query::parameters(query.unwrap_or_default()).and_then(|parameters| match &*parameters {
        [("url", url)] => control.whereabouts(url),
        _ => Err("?url= names the object, and nothing else".to_owned()),
    });
    match found {
        Ok(found) => json(StatusCode::OK, &json!(found)),
        Err(why) => json(StatusCode::BAD_REQUEST, &json!({ "error": why })),
    }
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
        PurgeOutcome::Spread { responses, confirmed, missing } => {
            let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::ACCEPTED };
            let nodes = json!({ "confirmed": confirmed, "missing": missing });
            json(status, &json!({ "purged": { "responses": responses }, "nodes": nodes }))
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

fn explained(control: &dyn Control, body: &[u8]) -> AdminResponse {
    let explanation = match serde_json::from_slice(body) {
        Ok(request) => control.explain(request),
        Err(error) => Err(error.to_string()),
    };
    match explanation.and_then(|view| serde_json::to_value(view).map_err(|error| error.to_string())) {
        Ok(value) => json(StatusCode::OK, &value),
        Err(why) => json(StatusCode::BAD_REQUEST, &json!({ "error": why })),
    }
}

fn listing(path: &str) -> String {
    let routes: String =
        ROUTES.iter().map(|(method, path, about)| format!("{method:4} {path:14} {about}\n")).collect();
    format!("nothing at {path}; there is\n{routes}GET  /ui/           the dashboard\n")
}

fn json(status: StatusCode, value: &serde_json::Value) -> AdminResponse {
    AdminResponse { status, content_type: "application/json", allow: None, body: format!("{value}\n") }
}

/// Builds a plain text answer.
pub(super) fn text(status: StatusCode, body: String) -> AdminResponse {
    AdminResponse { status, content_type: "text/plain; charset=utf-8", allow: None, body }
}
