//! The workspace on disk: its root, its files, and cargo run inside it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root: the folder above this crate's. Cargo says where that is today: a binary in
/// a shared target folder may have been built in another checkout.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).parent().expect("this crate lives in a folder of the workspace").to_path_buf()
}

/// A file to check.
pub struct TextFile {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl TextFile {
    /// The part after the last dot of the name, or nothing.
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// Every text file under `root` in path order, but for what is built, fetched, or made by a run.
/// Pictures are there without text, so that pages may show them.
pub fn text_files(root: &Path) -> Result<Vec<TextFile>, String> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<(), String> {
    let cannot = |what: &Path, why: std::io::Error| format!("cannot read {}: {why}", what.display());
    for entry in std::fs::read_dir(folder).map_err(|why| cannot(folder, why))? {
        let path = entry.map_err(|why| cannot(folder, why))?.path();
        let relative = path.strip_prefix(root).expect("a folder's entry lies below it");
        let relative = relative.to_string_lossy().replace('\\', "/");
        let name = relative.rsplit('/').next().unwrap_or_default();
        if SKIPPED_NAMES.contains(&name) || SKIPPED_PATHS.contains(&relative.as_str()) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(text) = String::from_utf8(std::fs::read(&path).map_err(|why| cannot(&path, why))?) {
            files.push(TextFile { path: relative, text });
        } else if relative.ends_with(".png") {
            files.push(TextFile { path: relative, text: String::new() });
        }
    }
    Ok(())
}

/// Runs cargo at the root with its output shown, and says whether it succeeded.
pub fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<bool, String> {
    let status = cargo_command(root, arguments).envs(environment.iter().copied()).status();
    status.map(|status| status.success()).map_err(|why| format!("cannot run cargo: {why}"))
}

/// Runs cargo at the root and returns what it prints.
pub fn cargo_output(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = cargo_command(root, arguments).output().map_err(|why| format!("cannot run cargo: {why}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            Err(format!("cargo {} failed:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
        }
    }
}

fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command
}

const SKIPPED_NAMES: &[&str] =
    &[".git", "target", "node_modules", "__pycache__", ".pytest_cache", ".ipynb_checkpoints", "shoal-cache"];
const SKIPPED_PATHS: &[&str] = &["fuzz/corpus", "fuzz/artifacts", "fuzz/seeds"];
