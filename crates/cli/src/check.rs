//! `shoal check`: reports every mistake of a configuration file.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use serde_json::json;
use shoal_proxy::node::NodeError;
use shoal_settings::{AdminAddress, LogTarget, Mistake, Settings};
use std::path::{Path, PathBuf};

/// Check a configuration file and name every mistake
///
/// Reads the file as `shoal run --config FILE` would, with SHOAL_ variables and the files named in
/// it, and starts nothing. The folders of the access log and of the admin socket must exist. A disk
/// with less free space on this machine than its setting, or that does not answer, is a warning.
/// So are rules that set an origin's word aside, that never match, or that a later rule overrules.
/// Each mistake is one line: file:line:column: setting: reason. Exits with code 2 when there is a
/// mistake.
#[derive(clap::Args)]
pub struct CheckOptions {
    /// File to check
    file: PathBuf,
    /// Print {"file": …, "mistakes": […], "warnings": […]} to stdout
    #[arg(long)]
    json: bool,
}

impl CheckOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let configuration = Configuration { file: Some(self.file.clone()), options: Vec::new() };
        let loaded = configuration.load_with_size();
        let chosen = loaded.as_ref().ok().and_then(|(_, chosen)| *chosen);
        let loaded = loaded.map(|(settings, _)| settings);
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
                // stdout has the mistakes already; stderr does not repeat them.
                if found == 0 { Ok(()) } else { Err(Failure::Configuration(Vec::new())) }
            }
            (false, 0) => {
                let lines = placed(&warnings, &file, &configuration.text().unwrap_or_default());
                let size = chosen.map_or(String::new(), |bytes| {
                    format!("{file}: the store may use {bytes} of disk (store.disk is at its default)\n")
                });
                print(&format!("{}{size}{file}: no mistakes\n", lines.concat()))
            }
            (false, _) => result,
        }
    }

    /// Checks the files that valid settings name: certificates and users. Also checks whether the
    /// files that a node creates could be created.
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

/// Returns reasons why these settings would fail on this machine, although they may be right on
/// another.
fn warnings(settings: &Settings) -> Vec<String> {
    let of_disk = |at: usize| match settings.store.disks.is_empty() {
        true => "store.disk".to_owned(),
        false => format!("store.disks[{at}].bytes"),
    };
    let misfits = shoal_proxy::node::misfits(settings).into_iter();
    let misfits = misfits.map(|(at, why)| format!("{}: {why}", of_disk(at)));
    let of_files = shoal_proxy::node::file_warnings(settings);
    let warnings = misfits.chain(shoal_rules::warnings(settings)).chain(of_files);
    warnings.chain(settings.stop_warning()).collect()
}

/// Returns the warnings as lines, each with its place in the text of the file.
fn placed(warnings: &[String], file: &str, text: &str) -> Vec<String> {
    let keys: Vec<&str> = warnings.iter().map(|it| it.split(": ").next().unwrap_or_default()).collect();
    let places = Settings::places_of(text, &keys);
    debug_assert_eq!(places.len(), warnings.len());
    let mut lines: Vec<_> = places.into_iter().zip(warnings).collect();
    // In the order of the file; warnings of one place keep theirs.
    lines.sort_by_key(|(place, _)| *place);
    let line = |(place, warning): (Option<(usize, usize)>, &String)| match place {
        Some((line, column)) => format!("{file}:{line}:{column}: warning: {warning}\n"),
        None => format!("{file}: warning: {warning}\n"),
    };
    lines.into_iter().map(line).collect()
}

/// Returns the files that a node must create to start, each with its setting.
fn places(settings: &Settings) -> Vec<(&'static str, &Path)> {
    let mut places = Vec::new();
    if let Ok(LogTarget::File(_)) = LogTarget::parse(&settings.log.access) {
        places.push(("log.access", Path::new(&settings.log.access)));
    }
    if let Some(AdminAddress::Unix(path)) = &settings.admin.listen {
        places.push(("admin.listen", path.as_path()));
    }
    places
}

/// Returns the reason why a file of this name cannot be created or written, as far as names show.
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
