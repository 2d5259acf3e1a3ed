//! `shoal mirror pin`: packages that stay on the disks of a running node for a time.

use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::warm::WarmOptions;

/// Keep packages on the disks of a running node for a time
///
/// Packages are named by their package URLs, such as `pkg:npm/left-pad@1.3.0`. Files that are not
/// held are fetched and checked. The pins of all packages have `store.pin_max` at most, and outlast
/// restarts. `shoal warm --pin` does the same for a lockfile, and the setting `mirror.pin` keeps
/// packages by name as long as it is there.
#[derive(clap::Args)]
pub struct MirrorPinOptions {
    /// Package URLs: pkg:npm/NAME@VERSION, and pypi, cargo, golang, maven, gem and oci alike
    #[arg(required = true, value_name = "PACKAGE", value_parser = package)]
    packages: Vec<String>,
    /// Time for which they stay, from now on
    #[arg(long = "for", value_name = "TIME", default_value = "30d")]
    time: String,
    #[command(flatten)]
    node: NodeOptions,
}

impl MirrorPinOptions {
    pub fn perform(self) -> Result<(), Failure> {
        WarmOptions::pinning(self.node, self.time).warm_list("packages", self.packages.join("\n").as_bytes())
    }
}

/// Reads a package URL. Without its version it names no file.
fn package(text: &str) -> Result<String, String> {
    let is_line = text.bytes().all(|byte| byte.is_ascii_graphic());
    let name = text.strip_prefix("pkg:").filter(|_| is_line);
    let name = name.ok_or("a package is named like pkg:npm/left-pad@1.3.0")?;
    match name.trim_start_matches("npm/@").contains('@') {
        true => Ok(text.to_owned()),
        false => Err("name the version too, as in pkg:npm/left-pad@1.3.0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_a_kind_and_a_version() {
        for sound in ["pkg:npm/left-pad@1.3.0", "pkg:npm/%40scope/a@1.0.0", "pkg:npm/@scope/a@1.0.0"] {
            assert_eq!(package(sound).as_deref(), Ok(sound));
        }
        for bad in ["left-pad@1.3.0", "pkg:npm/left-pad", "pkg:npm/@scope/a", "pkg:npm/a@1\npkg:npm/b@1"] {
            assert!(package(bad).is_err(), "{bad}");
        }
    }
}
