//! `shoal check`: names every mistake of a configuration file.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use serde_json::json;
use shoal_proxy::node::NodeError;
use shoal_settings::{AdminAddress, Mistake, Settings};
use std::path::{Path, PathBuf};

/// Check a configuration file and name every mistake
///
/// Reads the file as `shoal run --config FILE` would, SHOAL_ variables and the files that it names
/// included, and starts nothing; folders that log and admin socket would be made in have to be
/// there. A disk that has less room on this machine than it is given, or does not answer, is a
/// warning. Each mistake is one line: file:line:column: setting: what is wrong. Exits with code 2
/// when there is one.
#[derive(clap::Args)]
pub struct Options {
    /// The file to check
    file: PathBuf,
    /// Print {"file": …, "mistakes": […], "warnings": […]} to stdout
    #[arg(long)]
    json: bool,
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        let configuration = Configuration { file: Some(self.file.clone()), options: Vec::new() };
        let loaded = configuration.load();
        let warnings = loaded.as_ref().map(warnings).unwrap_or_default();
        let result = loaded.and_then(|settings| self.check_contents(&settings));
        let mistakes = match &result {
            Err(Failure::Configuration(mistakes)) => mistakes.as_slice(),
            Err(_) => return result,
            Ok(_) => &[],
        };
        let file = self.file.display().to_string();
        match (self.json, mistakes.len()) {
            (true, found) => {
                let mistakes: Vec<_> = mistakes.iter().map(as_json).collect();
                let found_all = json!({ "file": file, "mistakes": mistakes, "warnings": warnings });
                print(&format!("{found_all}\n"))?;
                // stderr repeats nothing that stdout has told
                if found == 0 { Ok(()) } else { Err(Failure::Configuration(Vec::new())) }
            }
            (false, 0) => {
                let lines = warnings.iter().map(|warning| format!("{file}: warning: {warning}\n"));
                print(&format!("{}{file}: no mistakes\n", lines.collect::<String>()))
            }
            (false, _) => result,
        }
    }

    /// What is wrong in the files that sound settings name: certificates, users; and where others
    /// could not be made.
    fn check_contents(&self, settings: &Settings) -> Result<(), Failure> {
        let mistake = |key: &str, message: String| Mistake {
            file: self.file.display().to_string(),
            line: None,
            column: None,
            key: key.into(),
            message,
            hint: None,
        };
        let contents = shoal_proxy::node::check(settings);
        let contents = contents.iter().map(|error: &NodeError| mistake("", error.to_string()));
        let places = places(settings).into_iter().filter_map(|(key, path)| Some(mistake(key, unfit(path)?)));
        match contents.chain(places).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            mistakes => Err(Failure::Configuration(mistakes)),
        }
    }
}

/// What would keep these settings from working on this machine, and may be right on another.
fn warnings(settings: &Settings) -> Vec<String> {
    let of_disk = |at: usize| match settings.store.disks.is_empty() {
        true => "store.disk".to_owned(),
        false => format!("store.disks[{at}].bytes"),
    };
    let misfits = shoal_proxy::node::misfits(settings).into_iter();
    let misfits = misfits.map(|(at, why)| format!("{}: {why}", of_disk(at)));
    misfits.chain(shoal_rules::warnings(settings)).collect()
}

/// What a node makes when it starts, and does not start without.
fn places(settings: &Settings) -> Vec<(&'static str, &Path)> {
    let mut places = Vec::new();
    if !["", "none", "stdout"].contains(&&*settings.log.access) {
        places.push(("log.access", Path::new(&settings.log.access)));
    }
    if let Some(AdminAddress::Unix(path)) = &settings.admin.listen {
        places.push(("admin.listen", path.as_path()));
    }
    places
}

/// Why a file of this name cannot be made or written to, as far as names tell.
fn unfit(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(format!("{} is a folder", path.display()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    (!folder.is_dir()).then(|| format!("there is no folder {}", folder.display()))
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
