//! Options of `cargo xtask package`.

use super::compile;
use std::path::{Path, PathBuf};

/// What to pack, from what, and where to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackageOptions {
    /// Targets of rustc, the host's first.
    pub targets: Vec<String>,
    /// A binary that exists already; then nothing is compiled.
    pub binary: Option<PathBuf>,
    /// Counts of a training by which the host's binary is built.
    pub profile: Option<PathBuf>,
    /// Train a binary first, and build by what it counted.
    pub trained: bool,
    /// Folder of the packages.
    pub into: PathBuf,
    /// Build all of it twice and compare.
    pub twice: bool,
}

impl PackageOptions {
    pub(super) fn parse(root: &Path, arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            targets: Vec::new(),
            binary: None,
            profile: None,
            trained: false,
            into: super::target_folder(root).join("packages"),
            twice: false,
        };
        let mut arguments = arguments.iter();
        while let Some(&name) = arguments.next() {
            let mut value =
                || arguments.next().copied().ok_or_else(|| format!("package: {name} wants a value"));
            match name {
                "--target" => options.targets.push(value()?.to_string()),
                "--binary" => options.binary = Some(root.join(value()?)),
                "--profile" => options.profile = Some(root.join(value()?)),
                "--trained" => options.trained = true,
                "--into" => options.into = root.join(value()?),
                "--twice" => options.twice = true,
                _ => {
                    return Err(format!(
                        "package knows --target TRIPLE, --binary FILE, --trained, --profile FILE, --into FOLDER and --twice, \
                         not {name:?}"
                    ));
                }
            }
        }
        let sources = [options.binary.is_some(), options.profile.is_some(), options.trained];
        if sources.iter().filter(|given| **given).count() > 1 {
            return Err("package takes one of --binary FILE, --profile FILE and --trained".into());
        }
        if options.targets.is_empty() {
            options.targets = compile::targets(options.binary.is_some())?;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = PackageOptions::parse(
            Path::new("/r"),
            &["--profile", "x/dist.profdata", "--into", "out", "--twice", "--target", "t"],
        );
        let expected = PackageOptions {
            targets: vec!["t".into()],
            binary: None,
            profile: Some("/r/x/dist.profdata".into()),
            trained: false,
            into: "/r/out".into(),
            twice: true,
        };
        assert_eq!(options, Ok(expected));
    }

    #[test]
    fn unknown_and_cut_options_are_refused() {
        let cases = [
            (&["--fast"][..], "--fast"),
            (&["--into"][..], "wants a value"),
            (&["--binary", "x", "--trained"][..], "takes one of"),
        ];
        for (arguments, part) in cases {
            let told = PackageOptions::parse(Path::new("/r"), arguments).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }
}
