//! `shoal explain`: the handling of a request by a running node or a settings file, with reasons.

mod demands;
mod mirror;
mod render;

pub use render::page;

use crate::admin_client::{AdminNode, AdminOptions};
use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use shoal_proxy::admin::{ExplainRequest, Explanation, SupposedResponse};
use std::net::IpAddr;
use std::path::PathBuf;

/// Explain the handling of a request
///
/// Asks the running node, and prints the listener, the site, the rules and the cache key. Then
/// come the stored response and its use for this request, and the storing of the origin's answer.
/// Each decision names the section of an RFC, or the setting, that makes it. Nothing is fetched,
/// counted or changed. With --config, a settings file is asked alone, and no node.
#[derive(clap::Args)]
pub struct ExplainOptions {
    /// Absolute URL; for --method CONNECT, host:port
    url: String,
    /// Method of the request
    #[arg(long, default_value = "GET")]
    method: String,
    /// Field of the request, such as 'Cookie: a=b'; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    client: IpAddr,
    /// Mode of the listener: forward or reverse; without it, the mode that serves the URL
    #[arg(long, value_parser = ["forward", "reverse"])]
    mode: Option<String>,
    /// Suppose that the origin answers with this status
    #[arg(long)]
    status: Option<u16>,
    /// Suppose that the answer has this field; may be given several times
    #[arg(long = "response-header", value_name = "NAME: VALUE")]
    response_headers: Vec<String>,
    /// Explain by this settings file alone, without a node
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    #[command(flatten)]
    node: AdminOptions,
    /// Print JSON; its names are stable
    #[arg(long)]
    json: bool,
}

impl ExplainOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let request = self.request()?;
        let explanation = match &self.config {
            Some(file) => by_settings(file.clone(), &request)?,
            None => by_node(&self.node.node(None)?, &request)?,
        };
        if self.json {
            let text = serde_json::to_string_pretty(&explanation);
            return print(&format!("{}\n", text.map_err(|error| Failure::Runtime(error.to_string()))?));
        }
        print(&render::page(&explanation))
    }

    fn request(&self) -> Result<ExplainRequest, Failure> {
        let is_supposed = self.status.is_some() || !self.response_headers.is_empty();
        let response = match is_supposed {
            true => Some(SupposedResponse {
                status: self.status.unwrap_or(200),
                fields: fields("--response-header", &self.response_headers)?,
            }),
            false => None,
        };
        Ok(ExplainRequest {
            url: self.url.clone(),
            method: Some(self.method.clone()),
            fields: fields("--header", &self.headers)?,
            client: Some(self.client),
            mode: self.mode.clone(),
            response,
        })
    }
}

/// Adds the lines of the settings file to the keys in an explanation.
pub fn add_lines(configuration: &Configuration, explanation: &mut Explanation) {
    let Ok(text) = configuration.text() else { return };
    for rule in &mut explanation.rules.matching {
        rule.line = configuration.line_of(&text, &rule.key);
    }
    if let Some(site) = &mut explanation.site {
        site.line = configuration.line_of(&text, &site.key);
    }
}

fn by_settings(file: PathBuf, request: &ExplainRequest) -> Result<Explanation, Failure> {
    let configuration = Configuration::find(Some(file));
    let settings = configuration.load()?;
    let explained = shoal_proxy::node::explain_settings(&settings, request);
    let mut explanation = explained.map_err(Failure::Usage)?;
    add_lines(&configuration, &mut explanation);
    Ok(explanation)
}

/// Asks a running node for an explanation.
pub fn by_node(node: &AdminNode, request: &ExplainRequest) -> Result<Explanation, Failure> {
    let body = serde_json::to_string(request).map_err(|error| Failure::Usage(error.to_string()))?;
    let answer = node.ask("POST", "/explain", &body)?;
    if answer.status != 200 {
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let why = value["error"].as_str().unwrap_or(answer.body.trim()).to_owned();
        return Err(if answer.status == 400 { Failure::Usage(why) } else { Failure::Runtime(why) });
    }
    let unreadable = |error| Failure::Runtime(format!("the node's answer cannot be read: {error}"));
    serde_json::from_str(&answer.body).map_err(unreadable)
}

fn fields(option: &str, lines: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let read = |line: &String| {
        let Some((name, value)) = line.split_once(':') else {
            return Err(Failure::Usage(format!("{option} {line:?} is no field: write 'Name: value'")));
        };
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.iter().map(read).collect()
}
