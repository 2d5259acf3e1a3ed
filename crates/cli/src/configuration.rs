//! Sources of a command's settings: a file, the environment, the command line.

use crate::failure::Failure;
use shoal_settings::{AdminAddress, Override, Settings, SettingsSource};
use std::fs::File;
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

    /// Reads and checks all sources.
    pub fn load(&self) -> Result<Settings, Failure> {
        let text = self.file.as_deref().map_or(Ok(String::new()), text_of)?;
        let file = self.file.as_ref().map_or("built-in".into(), |path| path.display().to_string());
        // Variables that are not Unicode set nothing of ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut overrides = Override::from_environment(variables);
        overrides.extend(self.options.iter().cloned());
        SettingsSource {
            file: &file,
            text: &text,
            overrides,
            readable: &readable,
            further: &shoal_rules::mistakes,
        }
        .read()
        .map_err(Failure::Configuration)
    }
}

/// Returns the admin address of a command: `--admin`, else the address in the settings.
pub fn admin_address(option: Option<AdminAddress>, config: Option<PathBuf>) -> Result<AdminAddress, Failure> {
    match option {
        Some(address) => Ok(address),
        None => match Configuration::find(config).load() {
            Ok(settings) => settings.admin.listen.ok_or_else(|| {
                Failure::Usage("the settings have no admin listener; name one with --admin".into())
            }),
            // A node may still be running, with the settings of its start.
            Err(failure) => {
                let mut lines =
                    vec!["the settings do not tell where the node is asked; --admin does".to_owned()];
                lines.extend(failure.lines());
                Err(Failure::Usage(lines.join("\n")))
            }
        },
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    String::from_utf8(std::fs::read(path).map_err(|error| failed(&error))?).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        failed(&format!("line {line} is not UTF-8"))
    })
}

fn readable(path: &Path) -> Result<(), String> {
    match File::open(path).and_then(|file| file.metadata()) {
        Ok(data) if data.is_dir() => Err("it is a folder".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
