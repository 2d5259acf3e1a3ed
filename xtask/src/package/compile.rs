//! The binary of a package: profile `dist`, with the paths of this machine taken out.

use super::output;
use crate::workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target without a C library of the system: one file that runs on any Linux of its machine.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The target that rustc builds for by itself.
pub(super) fn host() -> Result<String, String> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| format!("rustc names no host: {said}"))
}

/// The host, and the static target where rustc has its library. A given binary is the host's.
pub(super) fn targets(given: bool) -> Result<Vec<String>, String> {
    let mut targets = vec![host()?];
    let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(root.trim()).join("lib/rustlib").join(STATIC).join("lib");
    match library.is_dir() {
        _ if given => {}
        true => targets.push(STATIC.into()),
        false => {
            println!("package: SKIPPED: the static binary, since `rustup target add {STATIC}` was not run")
        }
    }
    Ok(targets)
}

/// Builds for `target`, in a folder of its own for each `build`, and gives the binary. Other targets
/// than the host have other names of functions than `profile`, and are built without.
pub(super) fn binary(
    root: &Path,
    target: &str,
    build: &str,
    profile: Option<&Path>,
) -> Result<PathBuf, String> {
    let folder = super::target_folder(root).join("package").join(build);
    let folder_text = folder.to_string_lossy();
    let is_host = target == host()?;
    let profile = profile.filter(|_| is_host);
    if profile.is_some() {
        // cargo does not see that a profile changes, and would keep what an older one has made.
        super::remove(&folder.join(target))?;
    }
    let flags = flags(root, &folder, target != STATIC, profile)?;
    let arguments =
        ["build", "--profile", "dist", "--locked", "--package", "shoal", "--target", target, "--target-dir"];
    let arguments: Vec<&str> = arguments.into_iter().chain([&*folder_text]).collect();
    let environment = [
        ("CARGO_ENCODED_RUSTFLAGS", flags.as_str()),
        ("CARGO_INCREMENTAL", "0"),
        ("CC_x86_64_unknown_linux_musl", "musl-gcc"),
        ("CFLAGS", &format!("-ffile-prefix-map={}=/build", folder.display())),
    ];
    if !workspace::cargo(root, &arguments, &environment)? {
        return Err(format!("package: the build for {target} failed; what the compiler says stands above"));
    }
    Ok(folder.join(target).join("dist/shoal"))
}

/// Sources are named by crate, not by where they lie here. The linker of the host's target folds
/// equal functions, which takes some percent off the file.
fn flags(root: &Path, folder: &Path, folds: bool, profile: Option<&Path>) -> Result<String, String> {
    let cargo = match std::env::var("CARGO_HOME") {
        Ok(set) => set,
        Err(_) => format!("{}/.cargo", std::env::var("HOME").map_err(|_| "package: HOME is not set")?),
    };
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let mut flags = vec![
        format!("--remap-path-prefix={}=/build", folder.display()),
        format!("--remap-path-prefix={}=/shoal", root.display()),
        format!("--remap-path-prefix={cargo}=/cargo"),
        format!("--remap-path-prefix={}=/rust", sysroot.trim()),
        "-Clink-arg=-Wl,--build-id=none".into(),
        "-Clink-arg=-s".into(),
    ];
    if folds {
        flags.push("-Clink-arg=-Wl,--icf=safe".into());
    }
    flags.extend(profile.map(|profile| format!("-Cprofile-use={}", profile.display())));
    Ok(flags.join("\u{1f}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_this_machine_is_left() {
        let profile = Path::new("/here/dist.profdata");
        let flags = flags(Path::new("/here/shoal"), Path::new("/here/target"), true, Some(profile)).unwrap();
        for part in
            ["/here/shoal=/shoal", "/here/target=/build", "=/cargo", "=/rust", "use=/here/dist.profdata"]
        {
            assert!(flags.contains(part), "{flags}");
        }
    }

    #[test]
    fn a_given_binary_is_the_host_s() {
        assert_eq!(targets(true).unwrap(), [host().unwrap()]);
    }
}
