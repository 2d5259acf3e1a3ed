//! `cargo xtask quick [BASE]`: format, clippy and unit tests of what has changed, before a push.
//!
//! Changed are the crates with a file that differs from the commit BASE (`HEAD` by default) or is
//! new. Their dependents are checked and tested too. The whole is `cargo xtask ci`.

use crate::{Outcome, workspace};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// One crate of the workspace.
struct Member {
    name: String,
    /// Its folder from the root.
    folder: String,
    /// Names of all packages that it depends on.
    depends_on: Vec<String>,
    has_library: bool,
}

/// Runs the three steps and prints the time of each.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let base = match options {
        [] => "HEAD",
        [base] => base,
        _ => return Err("cargo xtask quick [BASE]".into()),
    };
    let members = members(root)?;
    let chosen = with_dependents(&members, &changed(root, base)?);
    if chosen.is_empty() {
        return Ok(format!("quick: no crate differs from {base}"));
    }
    println!("quick: {}", chosen.iter().cloned().collect::<Vec<_>>().join(", "));
    let packages: Vec<&str> = chosen.iter().flat_map(|name| ["-p", name.as_str()]).collect();
    let clippy =
        [&["clippy"], &packages[..], &["--all-targets", "--locked", "--", "-D", "warnings"]].concat();
    let has_library = members.iter().any(|member| member.has_library && chosen.contains(&member.name));
    let targets: &[&str] =
        if has_library { &["--lib", "--bins", "--locked"] } else { &["--bins", "--locked"] };
    let tests = [&["test"], &packages[..], targets].concat();
    let steps = [("format", vec!["fmt", "--all", "--check"]), ("clippy", clippy), ("tests", tests)];
    for (name, arguments) in steps {
        let begun = Instant::now();
        if !workspace::cargo(root, &arguments, &[])? {
            return Err(format!("quick: {name} failed: cargo {}", arguments.join(" ")));
        }
        println!("<== {name}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    Ok(format!("quick: {} crates passed; `cargo xtask ci` runs the rest", chosen.len()))
}

/// Paths that differ from `base`, and those that git does not know.
fn changed(root: &Path, base: &str) -> Result<Vec<String>, String> {
    let differing = git(root, &["diff", "--name-only", base, "--"])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(differing.lines().chain(new.lines()).map(str::to_string).collect())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let output = output.map_err(|why| format!("cannot run git: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))),
    }
}

fn members(root: &Path) -> Result<Vec<Member>, String> {
    let output =
        workspace::cargo_output(root, &["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_slice(&output).map_err(|why| format!("cargo metadata: {why}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let is_library = |target: &Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"))
    };
    let member = |package: &Value| {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(root).ok());
        let names = package["dependencies"].as_array().into_iter().flatten();
        Member {
            name: text(&package["name"]),
            folder: folder.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default(),
            depends_on: names.map(|dependency| text(&dependency["name"])).collect(),
            has_library: package["targets"].as_array().into_iter().flatten().any(is_library),
        }
    };
    Ok(packages.iter().map(member).collect())
}

/// Names of the crates that own a changed path, and of all that depend on them. All crates if the
/// workspace's own manifest or lock file changed.
fn with_dependents(members: &[Member], changed: &[String]) -> BTreeSet<String> {
    if changed.iter().any(|path| ["Cargo.toml", "Cargo.lock"].contains(&path.as_str())) {
        return members.iter().map(|member| member.name.clone()).collect();
    }
    let owns = |member: &&Member| changed.iter().any(|path| path.starts_with(&format!("{}/", member.folder)));
    let mut chosen: BTreeSet<String> =
        members.iter().filter(owns).map(|member| member.name.clone()).collect();
    loop {
        let depends = |member: &&Member| member.depends_on.iter().any(|name| chosen.contains(name));
        let more: Vec<String> = members.iter().filter(depends).map(|member| member.name.clone()).collect();
        let before = chosen.len();
        chosen.extend(more);
        if chosen.len() == before {
            return chosen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, depends_on: &[&str]) -> Member {
        let depends_on = depends_on.iter().map(|name| (*name).to_string()).collect();
        Member { name: name.into(), folder: format!("crates/{name}"), depends_on, has_library: true }
    }

    #[test]
    fn dependents_of_a_changed_crate_are_tested_too() {
        let members = [
            member("core", &[]),
            member("store", &["core"]),
            member("cli", &["store"]),
            member("wire", &["core"]),
        ];
        let chosen = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_string()).collect();
            with_dependents(&members, &paths).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(chosen(&["crates/store/src/lib.rs"]), ["cli", "store"]);
        assert_eq!(chosen(&["crates/core/src/lib.rs"]), ["cli", "core", "store", "wire"]);
        assert_eq!(chosen(&["docs/TESTING.md", "crates/storehouse/x"]), [""; 0]);
        assert_eq!(chosen(&["Cargo.lock"]).len(), 4);
    }
}
