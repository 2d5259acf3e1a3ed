//! `cargo xtask package`: what users install, each file the same from every build.
//!
//! ```text
//!  compile ─► binary ─┬─► tree ─┬─► debian    shoal_VERSION_amd64.deb
//!  components ────────┤         └─► archive   shoal-VERSION-TARGET.tar.gz
//!   (cargo metadata)  ├─► licences            THIRD-PARTY.txt
//!                     └─► bill of materials   shoal-VERSION.cdx.json
//!  contrib/container, contrib/helm ─► archive shoal-VERSION-container.tar.gz, shoal-VERSION-chart.tar.gz
//! ```
//!
//! `--trained` builds the host's binary by the counts of a training (`release`), and `--profile FILE`
//! by those of an earlier one, which gives the same bytes again.
//!
//! Times in the files are the last commit's; paths of this machine are taken out of the binary; owner
//! and order of every archive are fixed. `--twice` builds all of it again in another folder and
//! compares the bytes.

mod archive;
mod bill;
mod compile;
mod components;
mod debian;
mod licences;
mod options;
mod tree;

use crate::Outcome;
use components::Components;
use options::PackageOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::Tree;

/// Builds the packages, and again for a comparison if that is asked for.
pub fn run(root: &Path, arguments: &[&str]) -> Outcome {
    let mut options = PackageOptions::parse(root, arguments)?;
    if options.trained {
        options.profile = Some(crate::release::trained_profile(root, "dist")?);
    }
    let release = Release::read(root)?;
    let files = build(root, &options, &release, &options.into, "first")?;
    if options.twice {
        let again = options.into.join("again");
        let second = build(root, &options, &release, &again, "second")?;
        compare(&files, &second)?;
        remove(&again)?;
    }
    let list = checksums(&options.into, &files)?;
    Ok(format!("{list}package: {} files in {}", files.len() + 1, options.into.display()))
}

/// The release that is packed.
struct Release {
    /// The workspace's version.
    version: String,
    /// Unix seconds of the last commit: every time in the packages.
    epoch: u64,
}

impl Release {
    fn read(root: &Path) -> Result<Self, String> {
        let manifest =
            std::fs::read_to_string(root.join("Cargo.toml")).map_err(|why| format!("Cargo.toml: {why}"))?;
        let manifest: toml::Value = toml::from_str(&manifest).map_err(|why| format!("Cargo.toml: {why}"))?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.ok_or("Cargo.toml: workspace.package.version is missing")?.to_string();
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(set) => set,
            Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?,
        };
        let epoch = epoch.trim().parse().map_err(|_| format!("{epoch:?} is no time in Unix seconds"))?;
        Ok(Self { version, epoch })
    }
}

/// Every file of one build, in the order of the table above.
fn build(
    root: &Path,
    options: &PackageOptions,
    release: &Release,
    into: &Path,
    build: &str,
) -> Result<Vec<PathBuf>, String> {
    std::fs::create_dir_all(into).map_err(|why| format!("{}: {why}", into.display()))?;
    let components = Components::read(root)?;
    let bill = into.join(format!("shoal-{}.cdx.json", release.version));
    write(&bill, bill::cyclonedx(&components, release).as_bytes())?;
    let licences = into.join("THIRD-PARTY.txt");
    let texts = licences::texts(&components)?;
    write(&licences, texts.as_bytes())?;
    let mut files = vec![bill, licences];
    let host = compile::host()?;
    let mut shown = None;
    for target in &options.targets {
        let binary = match &options.binary {
            Some(given) => given.clone(),
            None => compile::binary(root, target, build, options.profile.as_deref())?,
        };
        // Pages and completions come from a binary that runs here.
        let talking = if *target == host { binary.clone() } else { shown.clone().unwrap_or(binary.clone()) };
        let mut tree = Tree::of(root, &binary, &talking, release)?;
        tree.add("usr/share/doc/shoal/THIRD-PARTY.txt.gz", tree::gzip(texts.as_bytes())?, false);
        let stem = format!("shoal-{}-{target}", release.version);
        files.push(archive::tar_gz(&tree.below(&stem), &stem, into, release)?);
        if *target == host {
            files.push(debian::package(root, &tree, &binary, into, release)?);
        }
        shown.get_or_insert(talking);
    }
    for (folder, name) in [("contrib/container", "container"), ("contrib/helm/shoal", "chart")] {
        let stem = format!("shoal-{}-{name}", release.version);
        let tree = Tree::of_folder(root, folder)?;
        files.push(archive::tar_gz(&tree.below("shoal"), &stem, into, release)?);
    }
    Ok(files)
}

/// Two builds must give the same bytes.
fn compare(first: &[PathBuf], second: &[PathBuf]) -> Result<(), String> {
    assert_eq!(first.len(), second.len(), "both builds have the same files");
    for (one, other) in first.iter().zip(second) {
        let read = |path: &Path| std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()));
        let (left, right) = (read(one)?, read(other)?);
        if left != right {
            let at = left.iter().zip(&right).position(|(a, b)| a != b).unwrap_or(left.len().min(right.len()));
            return Err(format!("package: {} differs between two builds from byte {at} on", one.display()));
        }
        println!("package: {} is the same twice", one.display());
    }
    Ok(())
}

/// Writes `SHA256SUMS` and gives the table that is printed.
fn checksums(into: &Path, files: &[PathBuf]) -> Result<String, String> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output(Command::new("sha256sum").args(names).current_dir(into))?;
    write(&into.join("SHA256SUMS"), sums.as_bytes())?;
    let mut table = String::new();
    for file in files {
        let bytes = std::fs::metadata(file).map_err(|why| format!("{}: {why}", file.display()))?.len();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.push_str(&format!("{bytes:>12}  {name}\n"));
    }
    Ok(table)
}

/// Runs a command and gives its output, or what it said.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| format!("package: cannot run {program}: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            Err(format!("package: {program} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|why| format!("{}: {why}", path.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {why}", folder.display())),
        _ => Ok(()),
    }
}

/// The target folder that cargo uses.
fn target_folder(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn two_builds_that_differ_are_told() {
        let folder = std::env::temp_dir().join(format!("shoal-package-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (one, same, other) = (file("one", b"abcd"), file("same", b"abcd"), file("other", b"abXd"));
        assert_eq!(compare(std::slice::from_ref(&one), &[same]), Ok(()));
        let told = compare(&[one], &[other]).unwrap_err();
        assert!(told.ends_with("from byte 2 on"), "{told}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_version_is_the_workspace_s() {
        let release = Release::read(&workspace::root()).unwrap();
        assert!(release.version.split('.').count() == 3, "{}", release.version);
        assert!(release.epoch > 1_700_000_000, "{}", release.epoch);
    }
}
