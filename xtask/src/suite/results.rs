//! The outcome of one run of a test program, read from the lines of Rust's test harness.

use super::program::Program;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of one run.
#[derive(Debug)]
pub struct Results {
    /// The program.
    pub program: Arc<Program>,
    /// True if it ended with success.
    pub passed: bool,
    /// Number of tests that passed.
    pub passed_tests: usize,
    /// Names of the tests that failed.
    pub failed_tests: Vec<String>,
    /// Everything that it printed.
    pub output: String,
    /// Wall time.
    pub took: Duration,
}

/// Gives the number of passed tests and the names of failed ones.
pub fn read(output: &str) -> (usize, Vec<String>) {
    let verdicts = || output.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    let passed = verdicts().filter(|(_, verdict)| *verdict == "ok").count();
    let listed = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    // The last list repeats every failed test, one an indented line.
    let mut failed: Vec<String> =
        listed.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_string).collect();
    failed.extend(verdicts().filter(|(_, verdict)| *verdict == "FAILED").map(|(name, _)| name.to_string()));
    failed.sort();
    failed.dedup();
    (passed, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_found_in_both_lists() {
        let output = "
running 3 tests
test a::holds ... ok
test a::breaks ... FAILED
test a::is_torn ... text of another thread
test b::holds ... ok

failures:

---- a::breaks stdout ----
thread panicked

failures:
    a::breaks
    a::is_torn

test result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
";
        assert_eq!(read(output), (2, vec!["a::breaks".to_string(), "a::is_torn".to_string()]));
        assert_eq!(read("no harness"), (0, Vec::new()));
    }
}
