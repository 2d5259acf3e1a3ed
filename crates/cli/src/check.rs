//! `shoal check`: names every mistake of a configuration file.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use serde_json::json;
use shoal_proxy::node::NodeError;
use shoal_settings::{Mistake, Settings};
use std::path::PathBuf;

/// Check a configuration file and name every mistake
///
/// Reads the file as `shoal run --config FILE` would, SHOAL_ variables and the files that it names included, and starts
/// nothing. Each mistake is one line: file:line:column: setting: what is wrong. Exits with code 2 when there is one.
#[derive(clap::Args)]
pub struct Options {
    /// The file to check
    file: PathBuf,
    /// Print {"file": …, "mistakes": […]} to stdout
    #[arg(long)]
    json: bool,
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        let configuration = Configuration { file: Some(self.file.clone()), options: Vec::new() };
        let result = configuration.load().and_then(|settings| self.check_contents(&settings));
        let mistakes = match &result {
            Err(Failure::Configuration(mistakes)) => mistakes.as_slice(),
            Err(_) => return result,
            Ok(_) => &[],
        };
        let file = self.file.display().to_string();
        match (self.json, mistakes.len()) {
            (true, found) => {
                let mistakes: Vec<_> = mistakes.iter().map(as_json).collect();
                print(&format!("{}\n", json!({ "file": file, "mistakes": mistakes })))?;
                // stderr repeats nothing that stdout has told
                if found == 0 { Ok(()) } else { Err(Failure::Configuration(Vec::new())) }
            }
            (false, 0) => print(&format!("{file}: no mistakes\n")),
            (false, _) => result,
        }
    }

    /// What is wrong in the files that sound settings name: certificates, users.
    fn check_contents(&self, settings: &Settings) -> Result<(), Failure> {
        let mistake = |error: &NodeError| Mistake {
            file: self.file.display().to_string(),
            line: None,
            column: None,
            key: String::new(),
            message: error.to_string(),
            hint: None,
        };
        match shoal_proxy::node::check(settings).iter().map(mistake).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            mistakes => Err(Failure::Configuration(mistakes)),
        }
    }
}

fn as_json(mistake: &Mistake) -> serde_json::Value {
    json!({
        "file": mistake.file,
        "line": mistake.line,
        "column": mistake.column,
        "key": mistake.key,
        "message": mistake.message,
        "hint": mistake.hint,
    })
}
