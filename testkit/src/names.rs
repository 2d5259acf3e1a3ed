//! Host names for instances under test: each name below `.test` is 127.0.0.1, without a name
//! server and without the machine's hosts file.
//!
//! `names.c` stands in for libc's resolver, and is compiled by `cc` when the first test asks for
//! it. Programs that resolve names without libc do not see these names: they come through an
//! instance as their proxy.

use crate::shoal::Setup;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

impl Setup {
    /// Resolves names below `.test`. An error is the reason why that cannot be had here.
    pub fn with_test_names(self) -> Result<Self, String> {
        static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(compile).clone()?;
        Ok(self.environment("LD_PRELOAD", &library.to_string_lossy()))
    }
}

/// Compiles the library beside the test's executable, which stands in the target folder.
fn compile() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let library = program.with_file_name("libshoal_names.so");
    // Other test processes may do the same at this moment: each replaces the file as a whole.
    let own = library.with_extension(format!("{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-x", "c", "-o"]).arg(&own);
    compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/names/names.c")).arg("-ldl");
    let output = compiler.stdin(Stdio::null()).output().map_err(|error| format!("cc: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    std::fs::rename(&own, &library).map_err(|error| error.to_string())?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use crate::{Answer, Origin, Request, Setup};

    #[test]
    fn names_below_test_are_loopback() {
        let setup = match Setup::bare().with_test_names() {
            Ok(setup) => setup,
            Err(why) => return eprintln!("skipped: no names can be had here: {why}"),
        };
        let (origin, shoal) = (Origin::start(), setup.start());
        origin.on("/a", Answer::ok("a"));
        let url = |host: &str| format!("http://{host}:{}/a", origin.address().port());
        let answer = shoal.ask_forward(&Request::get(&url("registry.test")));
        assert_eq!(answer.expect_status(200).text(), "a");
        shoal.ask_forward(&Request::get(&url("registry.invalid"))).expect_status(502);
    }
}
