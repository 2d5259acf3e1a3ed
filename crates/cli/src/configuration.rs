//! Sources of a command's settings: a file, the environment, the command line.

use crate::failure::Failure;
use shoal_core::ByteCount;
use shoal_settings::{Override, Settings, SettingsSource};
use std::fs::File;
use std::io::ErrorKind;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Sources of settings. A running node keeps them and reads them again on reload.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Configuration file; `None` for the built-in defaults.
    pub file: Option<PathBuf>,
    /// Settings of the command line. They override the environment, and the environment overrides
    /// the file.
    pub options: Vec<Override>,
}

impl Configuration {
    /// Returns the file named by `--config`, else by `SHOAL_CONFIG`, else none. No other place is
    /// searched, so that a node never depends on a file that merely exists somewhere.
    pub fn find(option: Option<PathBuf>) -> Self {
        let variable = || std::env::var_os("SHOAL_CONFIG").filter(|path| !path.is_empty());
        Self { file: option.or_else(|| variable().map(PathBuf::from)), options: Vec::new() }
    }

    /// Returns the line of a setting such as `rule[1]` in the file; `None` if it is not there, or
    /// an option or variable takes the place of its list.
    pub fn line_of(&self, text: &str, key: &str) -> Option<usize> {
        let list = key.split('[').next().unwrap_or_default();
        let replaces = |over: &Override| {
            // Further entries come behind those of the file.
            over.key.split(['[', '.']).next() == Some(list) && !over.key.contains("[+]")
        };
        let is_replaced = self.options.iter().chain(&self.variables()).any(replaces);
        if is_replaced { None } else { Settings::line_of(text, key) }
    }

    /// Returns the text of the file; empty without one.
    pub fn text(&self) -> Result<String, Failure> {
        self.file.as_deref().map_or(Ok(String::new()), text_of)
    }

    fn variables(&self) -> Vec<Override> {
        // Variables that are not Unicode set nothing of ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Override::from_environment(variables)
    }

    /// Reads and checks all sources, without the files that they name.
    pub fn load_alone(&self) -> Result<Settings, Failure> {
        self.load_with(&|_| Ok(()), &|_| Vec::new())
    }

    /// Reads and checks all sources.
    pub fn load(&self) -> Result<Settings, Failure> {
        self.load_with_size().map(|(settings, _)| settings)
    }

    /// Reads and checks all sources. Returns also the size of the store, if the sources leave it
    /// open.
    pub fn load_with_size(&self) -> Result<(Settings, Option<ByteCount>), Failure> {
        self.load_with(&readable, &further).map(|mut settings| {
            let chosen = shoal_proxy::node::settle_size(&mut settings);
            (settings, chosen)
        })
    }

    fn load_with(
        &self,
        readable: &dyn Fn(&Path) -> Result<(), String>,
        further: &dyn Fn(&Settings) -> Vec<(String, String)>,
    ) -> Result<Settings, Failure> {
        let text = self.text()?;
        let file = self.file.as_ref().map_or("built-in".into(), |path| path.display().to_string());
        let mut overrides = self.variables();
        overrides.extend(self.options.iter().cloned());
        SettingsSource { file: &file, text: &text, overrides, readable, further }
            .read()
            .map_err(Failure::Configuration)
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(&error))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(failed(&"it has more than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        failed(&format!("line {line} is not UTF-8"))
    })
}

/// Returns mistakes in rules, and in files that a node reads with its settings.
fn further(settings: &Settings) -> Vec<(String, String)> {
    let mut mistakes = shoal_rules::mistakes(settings);
    mistakes.extend(shoal_proxy::node::file_mistakes(settings));
    for (_, message) in &mut mistakes {
        if message.ends_with(NOT_FOUND) && !message.contains(" /") {
            message.push_str(WORKING_DIRECTORY);
        }
    }
    mistakes
}

/// End of the message about a file that does not exist.
const NOT_FOUND: &str = "(os error 2)";
const WORKING_DIRECTORY: &str = "; a relative path starts at the working directory, not at the settings file";

fn readable(path: &Path) -> Result<(), String> {
    match File::open(path).and_then(|file| file.metadata()) {
        Ok(data) if data.is_dir() => Err("it is a folder".into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_relative() => {
            Err(format!("{error}{WORKING_DIRECTORY}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Most bytes of a settings file.
const FILE_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packaged_settings_have_no_mistakes() {
        for file in ["debian/shoal.toml", "container/shoal.toml"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(file);
            let settings = Configuration { file: Some(path), options: Vec::new() }.load();
            let settings = settings.map_err(|failure| failure.lines()).expect(file);
            assert_eq!(settings.listen.len(), 1, "{file}");
        }
    }
}
