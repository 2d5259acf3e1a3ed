//! Where the binary under test is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `shoal` binary: `SHOAL_BIN` when set, else what `cargo build --package shoal`
/// makes in the profile of the running test. Built once a process; cargo notices when there is
/// nothing to do.
pub fn binary() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("SHOAL_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a process has an executable");
    // target/PROFILE/deps/TEST-HASH
    let profile = test.parent().and_then(Path::parent).expect("tests run from target/PROFILE/deps");
    let target = profile.parent().expect("a profile's folder stands in the target folder");
    let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    let name = if name == "debug" { "dev" } else { name };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "shoal", "--profile", name, "--target-dir"])
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output();
    let failure = match built {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(failure) = failure {
        panic!(
            "the binary under test could not be built; run `cargo build --package shoal`, or set SHOAL_BIN\n{failure}"
        );
    }
    profile.join("shoal")
}
