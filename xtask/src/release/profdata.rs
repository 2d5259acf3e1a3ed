//! `llvm-profdata`, which makes one profile of many: found where it may be, of the compiler's own
//! version.
//!
//! The form of raw profiles changes with LLVM, and only a tool of the same major version is sure to
//! read what the compiler's runtime writes. It comes with the toolchain (rustup's component
//! `llvm-tools`) or with LLVM, where distributions name it by its version.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What there is to know of the compiler.
pub struct Rustc {
    /// Its folder.
    sysroot: PathBuf,
    /// The target that it builds for by itself.
    pub host: String,
    /// The major version of its LLVM.
    llvm: u32,
}

impl Rustc {
    /// Asks the compiler that cargo uses.
    pub fn ask() -> Result<Self, String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = |arguments: &[&str]| {
            let output = Command::new(&rustc).args(arguments).output();
            let output = output.map_err(|why| format!("release: cannot run rustc: {why}"))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        let version = said(&["-vV"])?;
        let (host, llvm) = (after(&version, "host: "), after(&version, "LLVM version: ").and_then(major));
        match (host, llvm) {
            (Some(host), Some(llvm)) => {
                Ok(Self { sysroot: said(&["--print", "sysroot"])?.into(), host: host.into(), llvm })
            }
            _ => Err(format!(
                "release: this compiler names no host or no LLVM, so it takes no profiles:\n{version}"
            )),
        }
    }
}

/// The tool.
pub struct Profdata {
    /// Its path, or its name where it is found by the search path.
    pub program: PathBuf,
}

impl Profdata {
    /// Looks where it may be.
    pub fn find(rustc: &Rustc) -> Result<Self, String> {
        let chosen = choose(rustc, &|program| {
            // `--version` alone is news to older ones
            let output = Command::new(program).args(["merge", "--version"]).output().ok()?;
            after(&String::from_utf8_lossy(&output.stdout), "LLVM version ").and_then(major)
        });
        chosen.map(|program| Self { program }).ok_or_else(|| missing(rustc.llvm))
    }

    /// Makes `profile` of what lies in `raw`.
    pub fn merge(&self, raw: &Path, profile: &Path) -> Result<(), String> {
        let output = Command::new(&self.program).args(["merge", "-o"]).args([profile, raw]).output();
        let output = output.map_err(|why| format!("cannot run {}: {why}", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(format!("{} cannot merge the profiles of the training: {said}", self.program.display()))
            }
        }
    }
}

/// The first of the places whose tool has the compiler's version, by what `version_of` says of a
/// program.
fn choose(rustc: &Rustc, version_of: &dyn Fn(&Path) -> Option<u32>) -> Option<PathBuf> {
    let toolchain = rustc.sysroot.join("lib/rustlib").join(&rustc.host).join("bin/llvm-profdata");
    let named = PathBuf::from(format!("llvm-profdata-{}", rustc.llvm));
    let places = [toolchain, named, PathBuf::from("llvm-profdata")];
    places.into_iter().find(|program| version_of(program) == Some(rustc.llvm))
}

fn missing(llvm: u32) -> String {
    format!(
        "release: there is no llvm-profdata of LLVM {llvm}, which is the compiler's; install it:\n  \
         rustup component add llvm-tools    where the toolchain is rustup's\n  \
         apt-get install llvm-{llvm}            on Debian and Ubuntu, or what packs LLVM {llvm} elsewhere"
    )
}

/// The word after `mark`.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark).and_then(|(_, rest)| rest.split_whitespace().next())
}

/// The first number of a version such as `22.1.2-rust-1.95.0-stable`.
fn major(version: &str) -> Option<u32> {
    version.split('.').next().and_then(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLCHAIN: &str = "toolchain/lib/rustlib/some-host/bin/llvm-profdata";
    const NAMED: &str = "llvm-profdata-22";
    const PLAIN: &str = "llvm-profdata";

    /// What is chosen for LLVM 22 when these programs have these versions.
    fn chosen(there: &[(&str, u32)]) -> Option<String> {
        let rustc = Rustc { sysroot: "toolchain".into(), host: "some-host".into(), llvm: 22 };
        let version_of = |program: &Path| {
            there.iter().find(|(name, _)| Path::new(name) == program).map(|(_, version)| *version)
        };
        choose(&rustc, &version_of).map(|program| program.to_string_lossy().into_owned())
    }

    #[test]
    fn the_tool_of_the_compilers_version_is_chosen() {
        type There = &'static [(&'static str, u32)];
        let cases: [(There, Option<&str>); 6] = [
            (&[(PLAIN, 22), (NAMED, 22), (TOOLCHAIN, 22)], Some(TOOLCHAIN)),
            (&[(PLAIN, 22), (NAMED, 22), (TOOLCHAIN, 21)], Some(NAMED)),
            (&[(PLAIN, 22)], Some(PLAIN)),
            (&[(PLAIN, 14)], None),
            (&[(PLAIN, 23), ("llvm-profdata-23", 23)], None),
            (&[], None),
        ];
        for (there, expected) in cases {
            assert_eq!(chosen(there).as_deref(), expected, "{there:?}");
        }
    }

    #[test]
    fn versions_are_read_as_the_tools_print_them() {
        let rustc = "rustc 1.95.0\nhost: some-host\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(after(rustc, "LLVM version: ").and_then(major), Some(22));
        assert_eq!(after(rustc, "host: "), Some("some-host"));
        let debian = "Debian LLVM version 22.1.8\n  Optimized build.\n";
        let rustup =
            "LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0-stable\n  Optimized build.\n";
        for tool in [debian, rustup] {
            assert_eq!(after(tool, "LLVM version ").and_then(major), Some(22), "{tool}");
        }
        assert_eq!(after("llvm-profdata: Unknown command!", "LLVM version ").and_then(major), None);
    }

    #[test]
    fn who_misses_it_is_told_what_to_install() {
        let why = missing(22);
        assert!(
            why.contains("apt-get install llvm-22") && why.contains("rustup component add llvm-tools"),
            "{why}"
        );
    }
}
