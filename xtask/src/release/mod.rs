//! `cargo xtask release`: the release binary, laid out by a profile of itself at work.
//!
//! ```text
//!  cargo build -Cprofile-generate ─► counting binary ─► shoal-train ─► raw profiles ─► llvm-profdata ─► profile
//!  cargo build -Cprofile-use=profile ─► release-profiled/shoal
//! ```
//!
//! The compiler then knows which branches a hit takes, what is worth inlining, and what is hardly
//! ever done and may lie elsewhere. The load is `shoal_testkit::training`. Both builds have folders
//! of their own below the target folder, so the ordinary release build stays as it is; of the
//! first, what did not change is kept from run to run. It takes two release builds and a minute or
//! two, and `llvm-profdata` ([`profdata`]).

mod profdata;

use crate::{Outcome, workspace};
use profdata::Profdata;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Builds, trains, and builds again.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    if let [unknown, ..] = options {
        return Err(format!("release takes no options, not {unknown:?}"));
    }
    let profile = trained_profile(root, "release")?;
    let (folders, host) = (Folders::below(&target_folder(root)), profdata::Rustc::ask()?.host);
    let optimized = folders.build("optimized");
    step("building the release by its profile, some minutes", || {
        // cargo sees that flags change, not that the profile does, and would keep what an older one
        // has made.
        remove(&optimized)?;
        build(root, &optimized, &host, "release", &format!("-Cprofile-use={}", profile.display()))
    })?;
    let result = folders.0.join("shoal");
    remove(&result)?;
    std::fs::copy(binary(&optimized, &host, "release"), &result)
        .map_err(|why| format!("{}: {why}", result.display()))?;
    Ok(format!("release: {}", result.display()))
}

/// Builds a binary that counts, trains it, and returns the file of what it counted. Names of
/// functions depend on the profile of cargo (`built_as`), so that only builds as this one find
/// themselves in the file.
pub fn trained_profile(root: &Path, built_as: &str) -> Result<PathBuf, String> {
    let rustc = profdata::Rustc::ask()?;
    let profdata = Profdata::find(&rustc)?;
    println!("release: profiles are merged by {}", profdata.program.display());
    let folders = Folders::below(&target_folder(root));
    let counting = folders.build("counting");
    step("building the binary that counts, some minutes", || {
        build(root, &counting, &rustc.host, built_as, "-Cprofile-generate")
    })?;
    let profile = folders.0.join(format!("{built_as}.profdata"));
    step("training it, a minute or two", || {
        // What an earlier run left would be merged too.
        remove(&folders.raw())?;
        let done = train(root, &binary(&counting, &rustc.host, built_as), &folders.raw())
            .and_then(|()| profdata.merge(&folders.raw(), &profile));
        let removed = remove(&folders.raw());
        done.and(removed)
    })?;
    Ok(profile)
}

/// The binary of a build in `folder`.
fn binary(folder: &Path, host: &str, built_as: &str) -> PathBuf {
    folder.join(host).join(built_as).join("shoal")
}

/// Where everything of a profiled release stands.
struct Folders(PathBuf);

impl Folders {
    fn below(target: &Path) -> Self {
        Self(target.join("release-profiled"))
    }

    /// The target folder of one of the builds.
    fn build(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Raw profiles, one for each process that was trained.
    fn raw(&self) -> PathBuf {
        self.0.join("raw")
    }
}

/// The target folder that cargo uses.
fn target_folder(root: &Path) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    root.join(folder)
}

fn step(what: &str, does: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("release: {what}");
    let begun = Instant::now();
    does().map_err(|why| format!("release: {why}"))?;
    println!("release: done in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// A build with one more flag. With a named target the flags are not for build scripts and macros,
/// which would write profiles of their own.
fn build(root: &Path, folder: &Path, host: &str, built_as: &str, flag: &str) -> Result<(), String> {
    let arguments = build_arguments(folder, host, built_as);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let set = |name: &str| std::env::var(name).ok();
    let flags = flags(set("CARGO_ENCODED_RUSTFLAGS"), set("RUSTFLAGS"), flag);
    let environment = [("CARGO_ENCODED_RUSTFLAGS", flags.as_str()), ("CARGO_INCREMENTAL", "0")];
    match workspace::cargo(root, &arguments, &environment)? {
        true => Ok(()),
        false => Err(format!("the build with {flag} failed; what the compiler says stands above")),
    }
}

fn build_arguments(folder: &Path, host: &str, built_as: &str) -> Vec<String> {
    let fixed =
        ["build", "--profile", built_as, "--locked", "--package", "shoal", "--target", host, "--target-dir"];
    fixed.into_iter().map(String::from).chain([folder.to_string_lossy().into_owned()]).collect()
}

/// Flags as cargo takes them encoded, so that a path may have spaces: what a developer has set, and
/// one more.
fn flags(encoded: Option<String>, plain: Option<String>, flag: &str) -> String {
    const PARTED_BY: &str = "\u{1f}";
    let plain = || plain.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(PARTED_BY);
    let set = encoded.unwrap_or_else(plain);
    if set.is_empty() { flag.into() } else { [&set, flag].join(PARTED_BY) }
}

/// Has testkit drive the binary, every process of which leaves a file in `raw`.
fn train(root: &Path, binary: &Path, raw: &Path) -> Result<(), String> {
    let pattern = raw.join("%m-%p.profraw");
    let environment: [(&str, &OsStr); 2] =
        [("SHOAL_BIN", binary.as_os_str()), ("LLVM_PROFILE_FILE", pattern.as_os_str())];
    let arguments = ["run", "--quiet", "--locked", "--package", "shoal-testkit", "--bin", "shoal-train"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo).args(arguments).envs(environment).current_dir(root).status();
    match status.map_err(|why| format!("cannot run cargo: {why}"))?.success() {
        true => Ok(()),
        false => {
            Err("the training failed, and what it had started is ended; `cargo run -p shoal-testkit --bin \
            shoal-train` with SHOAL_BIN set to an ordinary build shows whether the profile has to do with it"
                .into())
        }
    }
}

/// Removes a file or a folder with all in it, where there is one.
fn remove(path: &Path) -> Result<(), String> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {why}", path.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_refused() {
        assert!(run(Path::new("."), &["--fast"]).is_err_and(|why| why.contains("--fast")));
    }

    #[test]
    fn flags_of_the_developer_stay() {
        let set = |text: &str| Some(text.to_string());
        let cases = [
            (None, None, "-Cx"),
            (None, set("-Ca  -Cb"), "-Ca\u{1f}-Cb\u{1f}-Cx"),
            (set("-Ca b\u{1f}-Cc"), set("-Cd"), "-Ca b\u{1f}-Cc\u{1f}-Cx"),
            (set(""), set("-Cd"), "-Cx"),
        ];
        for (encoded, plain, expected) in cases {
            assert_eq!(flags(encoded.clone(), plain.clone(), "-Cx"), expected, "{encoded:?} {plain:?}");
        }
    }

    #[test]
    fn the_builds_are_release_builds_apart_from_others() {
        let line = build_arguments(Path::new("t/release-profiled/counting"), "some-host", "dist").join(" ");
        assert_eq!(
            line,
            "build --profile dist --locked --package shoal --target some-host --target-dir t/release-profiled/counting"
        );
    }

    #[test]
    fn what_is_not_there_is_removed_already() {
        let path = std::env::temp_dir().join(format!("xtask-release-{}", std::process::id()));
        assert_eq!(remove(&path), Ok(()));
        std::fs::create_dir_all(path.join("raw")).expect("a temporary folder");
        assert_eq!(remove(&path), Ok(()));
        assert!(!path.exists());
    }
}
