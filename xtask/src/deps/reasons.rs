//! Every dependency of the workspace stands in its manifest with the reason why it is taken.

use crate::finding::Finding;

/// Checks that each line of `[workspace.dependencies]` has a comment right above it. The
/// workspace's own crates need none.
pub fn check(manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    let mut above = "";
    for (at, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        } else if inside && let Some(name) = dependency(line) {
            let reason =
                above.strip_prefix('#').is_some_and(|comment| !comment.trim_start().starts_with("--"));
            if !reason && !line.contains("path = ") {
                let message = format!("say in a comment above {name} why it is taken");
                findings.push(Finding::new("Cargo.toml", at + 1, "reason", message));
            }
        }
        above = line;
    }
    findings
}

fn dependency(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim_end();
    name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_above_each_dependency() {
        let manifest = "[workspace]\nresolver = \"3\"\n[workspace.dependencies]\nown = { path = \"own\" }\n# why\na = \"1\"\nb = \"2\"\n# -- heading ---\nc = { version = \"1\" }\n[profile.dev]\ndebug = 1\n";
        let found: Vec<_> = check(manifest).into_iter().map(|finding| finding.line).collect();
        assert_eq!(found, [7, 9]);
    }
}
