//! `shoal reload`: tells a running node to read its settings again.

use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::show::print;

/// Have a running node read its settings again
///
/// The node reads the file that it was started with. The output names changed settings that take
/// effect only with the next start. If the settings have mistakes, the output names the mistakes,
/// the node keeps its old settings, and this command exits with code 2.
#[derive(clap::Args)]
pub struct ReloadOptions {
    #[command(flatten)]
    node: NodeOptions,
}

impl ReloadOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let node = self.node.node()?;
        let answer = node.ask("POST", "/reload", "")?;
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        match answer.status {
            200 => print(&render(&texts(&value["waiting"]))),
            422 => {
                let mut lines = vec!["the node keeps its old settings"];
                lines.extend(texts(&value["mistakes"]));
                Err(Failure::Usage(lines.join("\n")))
            }
            status => Err(Failure::Runtime(format!("{node} answers {status}: {}", answer.body.trim()))),
        }
    }
}

fn render(waiting: &[&str]) -> String {
    match waiting {
        [] => "reloaded\n".into(),
        _ => format!("reloaded; changes to these take effect with the next start: {}\n", waiting.join(", ")),
    }
}

fn texts(list: &serde_json::Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str()).collect()
}
