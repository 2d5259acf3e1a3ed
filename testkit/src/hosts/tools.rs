//! Running `ip` and `tc`, and what they say when they fail.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `ip` with these words.
pub(super) fn ip(words: &[&str]) -> Result<String, String> {
    run("ip", words, "")
}

/// Runs lines of `ip` in one process, in a namespace or in the test's own.
pub(super) fn ip_lines(namespace: Option<&str>, lines: &[String]) -> Result<(), String> {
    let mut words = namespace.map_or_else(Vec::new, |name| vec!["-n", name]);
    words.extend(["-batch", "-"]);
    run("ip", &words, &(lines.join("\n") + "\n")).map(drop)
}

/// Runs lines of `ip` in one process, the next one when one fails, too.
pub(super) fn ip_lines_as_far_as_possible(lines: &[String]) -> Result<(), String> {
    run("ip", &["-force", "-batch", "-"], &(lines.join("\n") + "\n")).map(drop)
}

/// Runs `tc` in a namespace or in the test's own.
pub(super) fn tc(namespace: Option<&str>, words: &[&str]) -> Result<(), String> {
    let mut all = namespace.map_or_else(Vec::new, |name| vec!["-n", name]);
    all.extend(words);
    run("tc", &all, "").map(drop)
}

/// A program of the system, found where the path of an ordinary user does not lead, too.
pub(super) fn program(name: &str) -> String {
    let outside = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    let found = outside.iter().find(|path| path.exists());
    found.map_or_else(|| name.into(), |path| path.to_string_lossy().into_owned())
}

fn run(name: &str, words: &[&str], input: &str) -> Result<String, String> {
    let failed = |why: String| format!("{name} {}: {why}", words.join(" "));
    let mut child = Command::new(program(name))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut stdin = child.stdin.take().expect("it was piped");
    // A program that ends early says why on its standard error.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()))
}
