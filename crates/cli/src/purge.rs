//! `shoal purge`: removes stored responses from a running node.

use crate::admin_client::ask;
use crate::configuration::admin_address;
use crate::failure::Failure;
use crate::show::print;
use shoal_proxy::admin::PurgeRequest;
use shoal_settings::AdminAddress;
use std::path::PathBuf;

/// Remove stored responses from a running node
///
/// Names one thing: a URL, a tag, a cache group of an origin, a host, or everything. What is removed is not served
/// again, not even stale.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Options {
    /// Every variant stored under this absolute URL
    #[arg(group = "what")]
    url: Option<String>,
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
    /// The node's admin address, such as 127.0.0.1:3129 or unix:/run/shoal/admin.sock
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminAddress>,
    /// Take the admin address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the node's own JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        let (json, request) = (self.json, self.request()?);
        let body = serde_json::to_string(&request).map_err(|error| Failure::Usage(error.to_string()))?;
        let address = admin_address(self.admin, self.config)?;
        let answer = ask(&address, "POST", "/purge", &body)?;
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let why = || value["error"].as_str().unwrap_or(answer.body.trim()).to_owned();
        match answer.status {
            200 if json => print(&answer.body),
            200 => print(&told(value["purged"]["responses"].as_u64())),
            400 => Err(Failure::Usage(why())),
            _ => Err(Failure::Runtime(why())),
        }
    }

    fn request(&self) -> Result<PurgeRequest, Failure> {
        match self {
            Self { url: Some(url), .. } => Ok(PurgeRequest::Url(url.clone())),
            Self { tag: Some(tag), .. } => Ok(PurgeRequest::Tag(tag.clone())),
            Self { host: Some(host), .. } => Ok(PurgeRequest::Host(host.clone())),
            Self { group: Some(values), .. } => match values.as_slice() {
                [origin, group] => Ok(PurgeRequest::Group { origin: origin.clone(), group: group.clone() }),
                _ => Err(Failure::Usage("--group takes an origin and a group".into())),
            },
            Self { all: true, .. } => Ok(PurgeRequest::All),
            _ => Err(Failure::Usage("name what to purge".into())),
        }
    }
}

fn told(responses: Option<u64>) -> String {
    match responses {
        Some(count) => format!("purged {}\n", crate::show::counted(count, "response")),
        None => "purged\n".into(),
    }
}
