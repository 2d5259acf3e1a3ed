//! Banned code, with what to write instead.
//!
//! Who may read a clock, open a file or a socket is a column of the crate table; a ban names its
//! column.

use super::source::{Source, words};
use crate::crate_table::CrateTable;
use crate::finding::Finding;

/// Code that only some places may contain.
struct Ban {
    /// The rule's name.
    rule: &'static str,
    /// The crate table's column that permits it; `None` when nothing does.
    power: Option<&'static str>,
    /// Whether test code is free to.
    free_in_tests: bool,
    /// What it looks like, as whole words.
    patterns: &'static [&'static str],
    /// What to do instead.
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        rule: "clock",
        power: Some("clock"),
        free_in_tests: false,
        patterns: &["SystemTime::now", "Instant::now", "thread::sleep", ".elapsed()"],
        instead: "take the time as an argument, so that the same input gives the same result",
    },
    Ban {
        rule: "randomness",
        power: Some("randomness"),
        free_in_tests: false,
        patterns: &["rand::", "fastrand::", "getrandom", "RandomState::new"],
        instead: "take a seed as an argument",
    },
    Ban {
        rule: "environment",
        power: Some("environment"),
        free_in_tests: true,
        patterns: &["std::env", "env::var", "env::args", "env::current_dir", "process::exit"],
        instead: "read arguments and environment in crates/cli and pass in what they say",
    },
    Ban {
        rule: "files",
        power: Some("files"),
        free_in_tests: true,
        patterns: &["std::fs", "tokio::fs", "rustix::fs", "File::open", "File::create"],
        instead: "object bytes go through the store's `fs` module; text of settings is read in crates/cli",
    },
    Ban {
        rule: "sockets",
        power: Some("sockets"),
        free_in_tests: true,
        patterns: &[
            "TcpListener",
            "TcpStream",
            "UdpSocket",
            "UnixListener",
            "UnixStream",
            "tokio::net",
            "socket2::",
        ],
        instead: "sockets live where the crate table grants them",
    },
    Ban {
        rule: "terminal",
        power: Some("terminal"),
        free_in_tests: true,
        patterns: &["println!", "print!", "eprintln!", "eprint!"],
        instead: "return the text to crates/cli, or log it with tracing",
    },
    Ban {
        rule: "unsafe",
        power: Some("unsafe"),
        free_in_tests: false,
        patterns: &["unsafe"],
        instead: "unsafe code lives in the one `sys` module that the crate table names",
    },
    Ban {
        rule: "unwrap",
        power: None,
        free_in_tests: true,
        patterns: &[".unwrap()"],
        instead: "use `?`, or `expect(\"why it holds\")` where the reason is visible nearby",
    },
];

/// Every use of banned code in one file.
pub fn check(path: &str, source: &Source, table: &CrateTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in BANS {
        if ban.power.is_some_and(|power| table.allows(path, power)) {
            continue;
        }
        for (number, line, test) in source.lines() {
            let used = ban.patterns.iter().find(|pattern| !words(line, pattern).is_empty());
            if let Some(pattern) = used.filter(|_| !(test && ban.free_in_tests)) {
                findings.push(Finding::new(
                    path,
                    number,
                    ban.rule,
                    format!("`{pattern}` here: {}", ban.instead),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crate_table::tests::SAMPLE;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let table = CrateTable::parse(SAMPLE).expect("the sample is valid");
        check(path, &Source::scan(path, text), &table).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_ban_fails_where_it_should_and_passes_where_it_may() {
        let (store, proxy) = ("crates/store/src/index.rs", "crates/proxy/src/server.rs");
        for (rule, path, code) in [
            ("clock", store, "let t = Instant::now();"),
            ("randomness", store, "let r = rand::random();"),
            ("environment", store, "let v = env::var(NAME);"),
            ("files", store, "use std::fs::read;"),
            ("sockets", store, "let s: tokio::net::TcpStream;"),
            ("terminal", store, "println!();"),
            ("unsafe", store, "unsafe { x() }"),
            ("unwrap", store, "x().unwrap();"),
            ("unwrap", proxy, "x().unwrap();"),
        ] {
            assert_eq!(rules(path, code), [rule], "{code}");
        }
        for (path, code) in [
            (proxy, "let t = Instant::now(); let s: TcpStream;"),
            ("crates/store/src/fs/real.rs", "use std::fs::read;"),
            ("crates/store/src/sys.rs", "unsafe { x() }"),
            (store, "// std::fs\nlet s = \"println!\"; x.unwrap_or(1); #![forbid(unsafe_code)]"),
            (store, "#[cfg(test)]\nmod tests {\n fn t() { std::fs::read(x).unwrap(); }\n}"),
            ("crates/store/tests/crash.rs", "std::fs::read(x).unwrap();"),
        ] {
            assert_eq!(rules(path, code), Vec::<&str>::new(), "{code}");
        }
    }

    #[test]
    fn tests_of_pure_crates_read_no_clock_either() {
        assert_eq!(rules("crates/core/src/x/tests.rs", "Instant::now()"), ["clock"]);
    }
}
