//! `shoal purge`: removes stored responses from a running node.

use crate::admin_client::{AdminNode, NodeOptions};
use crate::failure::Failure;
use crate::show::{self, print};
use shoal_proxy::admin::PurgeRequest;
use std::collections::BTreeSet;

/// Remove stored responses from a running node
///
/// Names one thing: URLs, a tag, a cache group of an origin, a host, or everything. A removed
/// response is not served again, not even stale.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct PurgeOptions {
    /// Every variant stored under these absolute URLs; - reads them from standard input, one a line
    #[arg(group = "what", value_name = "URL")]
    urls: Vec<String>,
    /// Every response that carries this tag (Cache-Tag, Surrogate-Key)
    #[arg(long, group = "what")]
    tag: Option<String>,
    /// Every response of this origin (`scheme://host:port`) in this cache group (RFC 9875)
    #[arg(long, group = "what", num_args = 2, value_names = ["ORIGIN", "GROUP"])]
    group: Option<Vec<String>>,
    /// Every response of this host
    #[arg(long, group = "what")]
    host: Option<String>,
    /// Everything
    #[arg(long, group = "what")]
    all: bool,
    #[command(flatten)]
    node: NodeOptions,
    /// Print the node's own JSON
    #[arg(long)]
    json: bool,
}

impl PurgeOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let (json, requests) = (self.json, self.requests()?);
        let node = self.node.node()?;
        let mut responses = Some(0);
        let mut nodes = NodeAnswers::default();
        for (before, request) in requests.iter().enumerate() {
            let so_far = |why: String| match before {
                0 => why,
                _ => format!("{why} ({before} of {} URLs were purged)", show::count(requests.len() as u64)),
            };
            let answer = purge(&node, request, so_far)?;
            if json {
                print(&answer.body)?;
            }
            let purged = answer.value["purged"]["responses"].as_u64();
            responses = responses.zip(purged).map(|(sum, more)| sum + more);
            nodes.add(&answer.value);
        }
        if !json {
            print(&(render(responses) + &nodes.render()))?;
        }
        match nodes.missing.is_empty() {
            true => Ok(()),
            false => Err(Failure::Runtime(nodes.failure())),
        }
    }

    /// Returns the purge requests. Only URLs give several requests.
    fn requests(&self) -> Result<Vec<PurgeRequest>, Failure> {
        let request = match self {
            Self { tag: Some(tag), .. } => PurgeRequest::Tag(tag.clone()),
            Self { host: Some(host), .. } => PurgeRequest::Host(host.clone()),
            Self { group: Some(values), .. } => match values.as_slice() {
                [origin, group] => PurgeRequest::Group { origin: origin.clone(), group: group.clone() },
                _ => return Err(Failure::Usage("--group takes an origin and a group".into())),
            },
            Self { all: true, .. } => PurgeRequest::All,
            Self { urls, .. } if *urls == ["-"] => return from_lines(),
            Self { urls, .. } => return Ok(urls.iter().cloned().map(PurgeRequest::Url).collect()),
        };
        Ok(vec![request])
    }
}

/// Other nodes of the cluster, as the answers to all requests name them.
#[derive(Default)]
struct NodeAnswers {
    confirmed: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl NodeAnswers {
    /// Adds the nodes of an answer. A node that has missed one purge counts as missing.
    fn add(&mut self, answer: &serde_json::Value) {
        let names = |which: &str| {
            let names = answer["nodes"][which].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        self.confirmed.extend(names("confirmed"));
        self.missing.extend(names("missing"));
        self.confirmed.retain(|name| !self.missing.contains(name));
    }

    fn render(&self) -> String {
        let names = self.confirmed.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if names.is_empty() { String::new() } else { format!("confirmed by {names}\n") }
    }

    fn failure(&self) -> String {
        let names = self.missing.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!(
            "not confirmed by {names}: these nodes may serve what was purged until they are reached; each compares with \
             the others before it serves from its disk again"
        )
    }
}

/// Returns the URLs of standard input, without empty lines.
fn from_lines() -> Result<Vec<PurgeRequest>, Failure> {
    let text = std::io::read_to_string(std::io::stdin())
        .map_err(|error| Failure::Runtime(format!("cannot read standard input: {error}")))?;
    let urls = text.lines().map(str::trim).filter(|url| !url.is_empty());
    Ok(urls.map(|url| PurgeRequest::Url(url.to_owned())).collect())
}

/// Response of the node to a completed purge.
struct PurgeAnswer {
    body: String,
    value: serde_json::Value,
}

fn purge(
    node: &AdminNode,
    request: &PurgeRequest,
    so_far: impl Fn(String) -> String,
) -> Result<PurgeAnswer, Failure> {
    let body = serde_json::to_string(request).map_err(|error| Failure::Usage(error.to_string()))?;
    let answer = node.ask("POST", "/purge", &body)?;
    let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let why = || so_far(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned());
    match answer.status {
        200 | 202 => Ok(PurgeAnswer { body: answer.body, value }),
        400 => Err(Failure::Usage(why())),
        _ => Err(Failure::Runtime(why())),
    }
}

fn render(responses: Option<u64>) -> String {
    match responses {
        Some(count) => format!("purged {}\n", show::counted(count, "response")),
        None => "purged\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_nodes_are_named_once() {
        let mut nodes = NodeAnswers::default();
        nodes.add(&serde_json::json!({ "purged": { "responses": 1 } }));
        assert_eq!(nodes.render(), "");
        nodes.add(&serde_json::json!({ "nodes": { "confirmed": ["b", "a"], "missing": [] } }));
        assert!(nodes.missing.is_empty());
        nodes.add(&serde_json::json!({ "nodes": { "confirmed": ["a"], "missing": ["b"] } }));
        assert_eq!(nodes.render(), "confirmed by a\n");
        assert!(nodes.failure().starts_with("not confirmed by b:"));
    }
}
