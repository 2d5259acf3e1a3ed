//! A look at a running node: the documents by which `shoal status` judges it.

use crate::admin_client::AdminNode;
use crate::failure::Failure;
use serde_json::Value;
use shoal_dashboard::documents::NowDocument;
use shoal_proxy::admin::Status;
use std::time::SystemTime;

/// Documents of one moment.
#[derive(Debug)]
pub struct NodeLook {
    /// `GET /status`.
    pub status: Status,
    /// `GET /status`, as it came.
    pub status_json: Value,
    /// The dashboard's page "Now"; `None` where it is not shown.
    pub now: Option<NowDocument>,
    /// `GET /cluster`; `None` if the node is in none.
    pub cluster: Option<Value>,
    /// Time of day here, in milliseconds since 1970.
    pub own_unix_ms: u64,
}

impl NodeLook {
    /// Asks the node for its documents.
    pub fn at(node: &AdminNode) -> Result<Self, Failure> {
        let answer = node.ask("GET", "/status", "")?;
        let wrong = |why: &str| Failure::Runtime(format!("{node} answers {}: {why}", answer.status));
        if answer.status != 200 {
            return Err(wrong(answer.body.trim()));
        }
        let status_json: Value =
            serde_json::from_str(&answer.body).map_err(|error| wrong(&error.to_string()))?;
        let status =
            serde_json::from_value(status_json.clone()).map_err(|error| wrong(&error.to_string()))?;
        let own_unix_ms = unix_ms();
        Ok(Self {
            status,
            status_json,
            now: document(node, "/ui/data/now").and_then(|value| serde_json::from_value(value).ok()),
            cluster: document(node, "/cluster"),
            own_unix_ms,
        })
    }
}

/// Asks for a document that the node may not have or not show.
fn document(node: &AdminNode, path: &str) -> Option<Value> {
    let answer = node.ask("GET", path, "").ok()?;
    if answer.status == 200 { serde_json::from_str(&answer.body).ok() } else { None }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
