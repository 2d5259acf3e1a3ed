//! One test program: how cargo names it, and one run of it.

use super::results::{Results, read};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// A program that cargo has built from the tests of one target.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Package and target: `shoal-testkit guarantees`.
    pub name: String,
    /// The executable file.
    pub path: PathBuf,
    /// Folder of its package: tests find their files from there.
    pub folder: PathBuf,
}

/// Builds the test programs of all packages.
pub fn build_all(root: &Path) -> Result<Vec<Arc<Program>>, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .args(["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped());
    let output = command.spawn().and_then(|child| child.wait_with_output());
    let output = output.map_err(|why| format!("cannot run cargo: {why}"))?;
    if !output.status.success() {
        return Err("tests: they do not build".into());
    }
    Ok(programs(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads cargo's messages, one JSON object a line.
fn programs(messages: &str) -> Vec<Arc<Program>> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter_map(|message| program(&message)).map(Arc::new).collect()
}

fn program(message: &Value) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = match kind {
        "test" => format!("{package} {target}"),
        other => format!("{package} {other}"),
    };
    Some(Program { name, path, folder })
}

impl Program {
    /// Returns `true` for programs whose tests wait for other processes most of their time.
    pub fn waits(&self) -> bool {
        self.name.starts_with("testkit ")
    }

    /// Returns the number of tests to run at a time.
    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.waits() { 2 * cores } else { cores }
    }

    /// Runs it to its end and reads what it prints.
    pub fn run(self: &Arc<Self>, arguments: &[&str]) -> Results {
        let begun = Instant::now();
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .args(arguments)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", self.threads().to_string())
            .stdin(Stdio::null());
        let (output, passed) = match command.output() {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                (String::from_utf8_lossy(&text).into_owned(), output.status.success())
            }
            Err(why) => (format!("cannot run {}: {why}", self.path.display()), false),
        };
        let (passed_tests, failed_tests) = read(&output);
        Results {
            program: Arc::clone(self),
            passed,
            passed_tests,
            failed_tests,
            output,
            took: begun.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_messages_name_test_programs() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["lib"],"name":"shoal_core"},"profile":{"test":true},"executable":"/t/debug/deps/shoal_core-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["lib"],"name":"shoal_core"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"shoal"},"profile":{"test":false},"executable":"/t/debug/shoal"}
{"reason":"compiler-artifact","manifest_path":"/w/testkit/Cargo.toml","target":{"kind":["test"],"name":"attacks"},"profile":{"test":true},"executable":"/t/debug/deps/attacks-2"}
{"reason":"build-finished","success":true}"#;
        let found = programs(messages);
        let names: Vec<&str> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["core lib", "testkit attacks"]);
        assert_eq!(found[1].folder, Path::new("/w/testkit"));
    }
}
