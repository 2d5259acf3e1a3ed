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
            .or_else(|why| by_script("pip's own default", PIP_DEFAULT).map_err(|_| why)),
        MirrorKind::Cargo => {
            by_files(&cargo_files(), cargo_registry).or_else(|why| cargo_default(&cargo_home()).ok_or(why))
        }
        MirrorKind::Maven => by_files(&maven_files(), maven_mirror)
            .or_else(|why| by_script("Maven's own default", MAVEN_DEFAULT).map_err(|_| why)),
        MirrorKind::Deb => by_files(&apt_files(), apt_archive),
        MirrorKind::RubyGems => by_command("bundle", &["config", "get", "--parseable", "mirror.all"])
            .or_else(|_| by_command("gem", &["sources", "--list"])),
        MirrorKind::Oci | MirrorKind::Generic | MirrorKind::BuildCache => {
            Err("no tool of this machine tells a registry of this kind".to_owned())
        }
    }
}

/// Takes the first URL in the output of a command.
fn by_command(program: &str, arguments: &[&str]) -> Result<Discovery, String> {
    let source = format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    if program == "python3" {
        // Python looks for modules in the current folder first, where anybody's files may lie.
        command.current_dir("/");
    }
    let output = command.output();
    let output = output.map_err(|error| format!("`{source}` cannot be run ({error})"))?;
    match first_url(&String::from_utf8_lossy(&output.stdout)) {
        Some(url) => Ok(Discovery { url, source: format!("`{source}`") }),
        None => Err(format!("`{source}` names no URL")),
    }
}

/// Takes the first URL that a script for Python prints, as the word of `source`.
fn by_script(source: &str, script: &str) -> Result<Discovery, String> {
    let found = by_command("python3", &["-c", script])?;
    Ok(Discovery { source: source.to_owned(), ..found })
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

/// Folder of cargo's settings and of its own copies of indexes.
fn cargo_home() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.unwrap_or_else(|| home_folder().join(".cargo"))
}

fn home_folder() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

fn cargo_files() -> Vec<PathBuf> {
    let folders = [PathBuf::from(".cargo"), cargo_home()].into_iter();
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

/// Returns the index that cargo asks without any setting, if it has used it. Its copy is in a
/// folder `HOST-HASH`; the hash tells the default index.
fn cargo_default(home: &Path) -> Option<Discovery> {
    let folder = home.join("registry/index");
    let names = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.file_name());
    let hosts = names.filter_map(|name| {
        let (host, hash) = name.to_str()?.rsplit_once('-')?;
        CARGO_DEFAULTS.contains(&hash).then(|| host.to_owned())
    });
    let url = format!("https://{}", hosts.min()?);
    Some(Discovery { url, source: folder.display().to_string() })
}

/// Hashes of cargo's default sparse index: since 1.85, and before.
const CARGO_DEFAULTS: [&str; 2] = ["1949cf8c6b5b557f", "6f17d22bba15001f"];

fn maven_files() -> Vec<PathBuf> {
    let installed = ["MAVEN_HOME", "M2_HOME"].into_iter().filter_map(std::env::var_os);
    let installed = installed.map(|folder| Path::new(&folder).join("conf/settings.xml"));
    let own = [home_folder().join(".m2/settings.xml")].into_iter();
    own.chain(installed).chain([PathBuf::from("/etc/maven/settings.xml")]).collect()
}

/// Returns the mirror in Maven's settings that takes the place of the default repository.
fn maven_mirror(text: &str) -> Option<String> {
    let mut parts = text.split("<!--");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    parts.filter_map(|part| part.split_once("-->")).for_each(|(_, rest)| plain.push_str(rest));
    let mirrors = plain.split("<mirror>").skip(1).filter_map(|rest| rest.split_once("</mirror>"));
    let element = |mirror: &str, name: &str| {
        let (_, rest) = mirror.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.trim().to_owned())
    };
    let names = |of: &str, name: &str| of.split(',').any(|one| one.trim() == name);
    let replaces = |of: &str| {
        !names(of, "!central") && ["*", "central", "external:*"].iter().any(|name| names(of, name))
    };
    mirrors.map(|(mirror, _)| mirror).find_map(|mirror| {
        let is_blocked = element(mirror, "blocked").is_some_and(|blocked| blocked == "true");
        let url = element(mirror, "url").filter(|_| !is_blocked)?;
        element(mirror, "mirrorOf").filter(|of| replaces(of)).and_then(|_| first_url(&unescaped(&url)))
    })
}

/// Returns the text of XML with its five entities.
fn unescaped(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (entity, char)| text.replace(entity, char))
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

/// Prints the repository that Maven asks without any setting.
const MAVEN_DEFAULT: &str = "\
import glob, os, re, shutil, zipfile
home = os.path.dirname(os.path.dirname(os.path.realpath(shutil.which('mvn'))))
jar = zipfile.ZipFile(glob.glob(home + '/lib/maven-model-builder-*.jar')[0])
print(re.search('<url>(.*?)</url>', jar.read('org/apache/maven/model/pom-4.0.0.xml').decode()).group(1))";

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
    fn mirror_of_maven_is_read() {
        let mirror = |of: &str, rest: &str| {
            format!("<mirror><id>m</id><mirrorOf>{of}</mirrorOf><url>https://{rest}</mirror>")
        };
        let blocked = mirror("external:http:*", "0.0.0.0/</url><blocked>true</blocked>");
        for (mirrors, url) in [
            (
                blocked.clone() + &mirror("central", "m.example/maven2/</url>"),
                Some("https://m.example/maven2"),
            ),
            (mirror("*,!own", "m.example</url>"), Some("https://m.example")),
            (mirror("*", "m.example</url><blocked>true</blocked>"), None),
            (format!("<!-- {} -->", mirror("*", "m.example</url>")), None),
            (mirror("other", "m.example</url>"), None),
            (mirror("*,!central", "m.example</url>"), None),
            (mirror("*", "m.example/a&amp;b/</url>"), Some("https://m.example/a&b")),
            (blocked, None),
        ] {
            let text = format!("<!-- a --><settings><mirrors>{mirrors}</mirrors></settings>");
            assert_eq!(maven_mirror(&text).as_deref(), url, "{mirrors}");
        }
    }

    #[test]
    fn default_index_of_cargo_is_found() {
        let home = tempfile::tempdir().expect("a folder");
        assert_eq!(cargo_default(home.path()), None);
        for name in ["other.example-0123456789abcdef", "crates.example-1949cf8c6b5b557f"] {
            std::fs::create_dir_all(home.path().join("registry/index").join(name)).expect("a folder");
        }
        let found = cargo_default(home.path()).map(|found| found.url);
        assert_eq!(found.as_deref(), Some("https://crates.example"));
    }

    #[test]
    fn a_missing_tool_is_named() {
        let why = by_command("shoal-no-such-tool", &["config"]).expect_err("no such tool");
        assert!(why.starts_with("`shoal-no-such-tool config` cannot be run"), "{why}");
    }
}
