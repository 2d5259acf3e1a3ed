//! Programs that a test drives and that are not ours: without them a test is skipped by hand, and
//! fails where it counts.
//!
//! A test that is passed over in silence is no test. So continuous integration, which sets `CI`,
//! takes a missing program for a failure, and whoever runs the tests on a machine of their own is
//! told what was not looked at.

/// Says that a test is skipped since there is no `program`.
///
/// # Panics
///
/// With `CI` set.
pub fn skip(program: &str) {
    let in_ci = std::env::var_os("CI").is_some();
    assert!(!in_ci, "{program} is not installed, and with CI set no test may be skipped");
    eprintln!("skipped: {program} is not installed");
}
