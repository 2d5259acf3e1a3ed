//! The registries that the tools of this machine use.
//!
//! Each tool knows best where its registry is, by its own settings, the user's and the project's. A
//! command that only prints the setting asks the tool, or its settings are read.

use shoal_settings::MirrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A registry that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Discovery {
    /// URL of the registry.
    pub url: String,
    /// The command or file that named it.
    pub source: String,
}

/// Finds the registry of a kind.
///
/// # Errors
/// The places that were looked at in vain, in a line.
pub fn discover(kind: MirrorKind) -> Result<Discovery, String> {
    match kind {
        MirrorKind::Npm => by_command("npm", &["config", "get", "registry"]),
        MirrorKind::Go => by_command("go", &["env", "GOPROXY"]),
        MirrorKind::Pypi => by_variables(&["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
            .map_or_else(|| by_command("pip", &["config", "get", "global.index-url"]), Ok)
            .or_else(|why| by_command("python3", &["-c", PIP_DEFAULT]).map_err(|_| why)),
        MirrorKind::Cargo => by_files(&cargo_files(), cargo_registry),
        MirrorKind::Deb => by_files(&apt_files(), apt_archive),
        MirrorKind::RubyGems => by_command("bundle", &["config", "get", "--parseable", "mirror.all"])
            .or_else(|_| by_command("gem", &["sources", "--list"])),
        MirrorKind::Maven | MirrorKind::Oci | MirrorKind::Generic | MirrorKind::BuildCache => {
            Err("no tool of this machine tells a registry of this kind".to_owned())
        }
    }
}

/// Takes the first URL in the output of a command.
fn by_command(program: &str, arguments: &[&str]) -> Result<Discovery, String> {
    let source = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{source}` cannot be run ({error})"))?;
    match first_url(&String::from_utf8_lossy(&output.stdout)) {
        Some(url) => Ok(Discovery { url, source: format!("`{source}`") }),
        None => Err(format!("`{source}` names no URL")),
    }
}

fn by_variables(names: &[&str]) -> Option<Discovery> {
    names.iter().find_map(|name| {
        let url = first_url(&std::env::var(name).ok()?)?;
        Some(Discovery { url, source: format!("the variable {name}") })
    })
}

/// Reads the files, the first first, until one names a registry.
fn by_files(files: &[PathBuf], read: fn(&str) -> Option<String>) -> Result<Discovery, String> {
    let found = files.iter().find_map(|path| {
        let url = read(&std::fs::read_to_string(path).ok()?)?;
        Some(Discovery { url, source: path.display().to_string() })
    });
    let shown = || files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("no registry is named in {}", shown()))
}

/// Returns the first word that is an http URL. Lists have commas or bars between their members.
fn first_url(text: &str) -> Option<String> {
    let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    let separators = |char: char| char.is_whitespace() || matches!(char, ',' | '|' | '"' | '\'' | '=');
    let word = text.split(separators).find(is_url)?;
    Some(word.trim_end_matches('/').to_owned())
}

fn cargo_files() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let folders = [Some(PathBuf::from(".cargo")), home].into_iter().flatten();
    folders.flat_map(|folder| [folder.join("config.toml"), folder.join("config")]).collect()
}

/// Returns the sparse index that takes the place of cargo's default one.
fn cargo_registry(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let sources = table.get("source")?.as_table()?;
    let replacement = sources.get("crates-io")?.get("replace-with")?.as_str()?;
    let registry = sources.get(replacement)?.get("registry")?.as_str()?;
    first_url(registry.strip_prefix("sparse+")?)
}

fn apt_files() -> Vec<PathBuf> {
    let folder = Path::new("/etc/apt");
    let mut files = vec![folder.join("sources.list")];
    let further = std::fs::read_dir(folder.join("sources.list.d")).into_iter().flatten().flatten();
    let mut further: Vec<PathBuf> = further.map(|entry| entry.path()).collect();
    further.sort();
    files.extend(further);
    files
}

/// Returns the first archive of a list of sources, in either of apt's two formats.
fn apt_archive(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter(|line| line.starts_with("deb ") || line.starts_with("URIs:")).find_map(first_url)
}

/// Prints the index that pip asks without any setting.
const PIP_DEFAULT: &str = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_tools_are_found() {
        for (said, url) in [
            ("https://npm.example/\n", Some("https://npm.example")),
            ("https://go.example|direct\n", Some("https://go.example")),
            ("off,https://go.example/p,direct", Some("https://go.example/p")),
            ("*** CURRENT SOURCES ***\n\nhttps://gems.example/\n", Some("https://gems.example")),
            ("mirror.all=https://gems.example", Some("https://gems.example")),
            ("undefined\n", None),
            ("direct", None),
        ] {
            assert_eq!(first_url(said).as_deref(), url, "{said}");
        }
    }

    #[test]
    fn files_of_tools_are_read() {
        let cargo = "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://c.example/i/\"";
        assert_eq!(cargo_registry(cargo).as_deref(), Some("https://c.example/i"));
        assert_eq!(cargo_registry("[source.crates-io]\nreplace-with = \"m\""), None);
        for (list, url) in [
            (
                "# deb http://old.example x\ndeb [signed-by=/k] http://a.example/debian stable main\n",
                "http://a.example/debian",
            ),
            ("Types: deb\nURIs: https://a.example/debian/\nSuites: stable\n", "https://a.example/debian"),
        ] {
            assert_eq!(apt_archive(list).as_deref(), Some(url));
        }
        assert_eq!(apt_archive("deb cdrom:[x]/ stable main"), None);
    }

    #[test]
    fn a_missing_tool_is_named() {
        let why = by_command("shoal-no-such-tool", &["config"]).expect_err("no such tool");
        assert!(why.starts_with("`shoal-no-such-tool config` cannot be run"), "{why}");
    }
}
