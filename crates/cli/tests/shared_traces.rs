//! Golden statistics: the output of `shoal trace info` for the shared traces, and for a generated
//! one.
//!
//! The traces are too large for the repository and have terms of their own. The test looks for them
//! in the folder that `SHOAL_TRACES` names, or in `shared/traces` beside the checkout. If the
//! traces are missing, the test prints a note and passes. The numbers are those published with the
//! traces and, to the last digit, those counted when the test was written.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Statistics of one trace. Shares are compared to a twentieth of a point, the precision of their
/// publication.
struct Golden {
    file: &'static str,
    filter: &'static str,
    format: &'static str,
    /// Requests, objects, hosts, clients.
    counts: [u64; 4],
    /// Bytes requested, and bytes of all objects, each at its last size.
    bytes: Option<(u64, u64)>,
    /// Percentages: hits and bytes hit by an infinite cache, and objects requested once.
    shares: [Option<f64>; 3],
    /// The Zipf exponent, which depends on the ranks considered: to 0.05.
    alpha: Option<f64>,
}

const TRACES: &[Golden] = &[
    Golden {
        file: "bu95-client-nov94-mar95.tsv.zst",
        filter: "none",
        format: "table",
        // 3723 names of servers as written; upper case makes 22 of them.
        counts: [182_612, 68_097, 3701, 39],
        bytes: Some((2_779_512_242, 1_661_349_494)),
        shares: [Some(62.7), Some(40.3), Some(71.5)],
        alpha: Some(0.83),
    },
    Golden {
        file: "nasa-http-1995-08-01.tsv.zst",
        filter: "get,found",
        format: "table",
        counts: [33_256, 1821, 1, 2562],
        bytes: Some((547_000_000, 104_000_000)),
        shares: [Some(94.5), Some(81.7), Some(36.9)],
        alpha: Some(1.17),
    },
    Golden {
        file: "tencent-photo-10k.tsv.zst",
        filter: "none",
        format: "table",
        counts: [10_000, 9694, 1, 0],
        bytes: Some((315_000_000, 306_000_000)),
        shares: [Some(3.1), Some(2.9), Some(97.8)],
        alpha: Some(0.28),
    },
    Golden {
        file: "ibm-docker-registry-725k.txt.zst",
        filter: "none",
        format: "paths",
        counts: [725_242, 121_314, 1, 0],
        bytes: None,
        shares: [Some(83.3), None, Some(81.6)],
        alpha: Some(1.02),
    },
    Golden {
        file: "pages-cloudphysics-w106-2m.txt.zst",
        filter: "none",
        format: "pages",
        counts: [2_000_000, 42_479, 1, 0],
        bytes: None,
        shares: [Some(97.9), None, Some(4.6)],
        alpha: None,
    },
    Golden {
        file: "pages-sprite.txt.zst",
        filter: "none",
        format: "pages",
        counts: [133_996, 7075, 1, 0],
        bytes: None,
        shares: [Some(94.7), None, Some(20.3)],
        alpha: None,
    },
    Golden {
        file: "pages-spec-gcc-4k.txt.zst",
        filter: "none",
        format: "pages",
        counts: [515_683, 294, 1, 0],
        bytes: None,
        shares: [Some(99.9), None, Some(21.4)],
        alpha: None,
    },
    Golden {
        file: "pages-spec-mcf-4k.txt.zst",
        filter: "none",
        format: "pages",
        counts: [727_230, 1442, 1, 0],
        bytes: None,
        shares: [Some(99.8), None, Some(0.6)],
        alpha: None,
    },
];

#[test]
fn shared_traces_match_published_statistics() {
    let Some(folder) = folder() else {
        eprintln!("skipped: the shared traces are not here; SHOAL_TRACES may name their folder");
        return;
    };
    for golden in TRACES {
        let path = folder.join(golden.file);
        if !path.exists() {
            eprintln!("skipped: {} is not here", golden.file);
            continue;
        }
        check(golden, &info(path.to_str().expect("UTF-8"), golden.filter));
    }
}

#[test]
fn a_made_trace_has_the_statistics_that_it_had() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("made.shoal");
    let name = path.to_str().expect("UTF-8");
    run(&["trace", "convert", "synthetic:requests=20000,clients=40", "--out", name]);
    let made = Golden {
        file: "made",
        filter: "none",
        format: "shoal",
        counts: MADE_COUNTS,
        bytes: Some(MADE_BYTES),
        shares: MADE_SHARES,
        alpha: None,
    };
    check(&made, &info(name, "none"));
}

fn check(golden: &Golden, info: &Value) {
    let file = golden.file;
    assert_eq!(
        (&info["reading"]["format"], &info["reading"]["bad"]),
        (&golden.format.into(), &0.into()),
        "{file}"
    );
    let counts =
        ["requests", "objects", "hosts", "clients"].map(|name| info[name].as_u64().unwrap_or_default());
    assert_eq!(counts, golden.counts, "{file}: requests, objects, hosts, clients");
    if let Some((all, unique)) = golden.bytes {
        for (name, expected) in [("bytes", all), ("unique_bytes", unique)] {
            let found = info[name].as_u64().unwrap_or_default();
            // The published numbers are in millions; ours are exact.
            let slack = if expected % 1_000_000 == 0 { 500_000 } else { 0 };
            assert!(found.abs_diff(expected) <= slack, "{file}: {name} {found} for {expected}");
        }
    }
    let infinite = &info["infinite_cache"]["identity"];
    let found = [&infinite["hit_ratio"], &infinite["byte_hit_ratio"], &info["popularity"]["one_hit_objects"]];
    for (found, expected) in found.into_iter().zip(golden.shares) {
        let found = found.as_f64().unwrap_or_default() * 100.0;
        assert!(
            expected.is_none_or(|expected| (found - expected).abs() <= 0.0501),
            "{file}: {found} for {expected:?}"
        );
    }
    let alpha = info["popularity"]["zipf_alpha"].as_f64().unwrap_or_default();
    assert!(golden.alpha.is_none_or(|expected| (alpha - expected).abs() < 0.05), "{file}: alpha {alpha}");
}

fn info(path: &str, filter: &str) -> Value {
    serde_json::from_str(&run(&["trace", "info", "--json", "--filter", filter, path])).expect("JSON")
}

fn run(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn folder() -> Option<PathBuf> {
    let told = std::env::var_os("SHOAL_TRACES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    told.or(Some(beside)).filter(|folder| folder.is_dir())
}

const MADE_COUNTS: [u64; 4] = [20_000, 8208, 164, 40];
const MADE_BYTES: (u64, u64) = (230_671_005, 103_628_901);
const MADE_SHARES: [Option<f64>; 3] = [Some(58.96), Some(55.075), Some(59.49)];
