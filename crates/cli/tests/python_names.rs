//! The Python package has the names and units of the command line: its types are read beside the
//! commands' help and the reference of sweeps.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

fn shoal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the options of a command, as Python spells them.
fn options(command: &[&str]) -> BTreeSet<String> {
    let help = shoal(&[command, &["--help"]].concat());
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let names = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    names.map(|name| name.trim_start_matches('-').trim_end_matches(',').replace('-', "_")).collect()
}

/// Returns the parameters of a kind of sweep.
fn parameters(kind: &str) -> BTreeSet<String> {
    let reference = shoal(&["lab", "sweep", "--reference"]);
    let (_, section) = reference.split_once(&format!("### `[[{kind}]]`")).expect("the kind");
    let section = section.split("\n### ").next().expect("a section");
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

/// Types of the Python package, which its own tests hold against the module.
fn types() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/package/shoal/_shoal.pyi");
    std::fs::read_to_string(path).expect("the types")
}

/// Returns the parameters of a function of a class, or of the module for an empty class.
fn keywords(class: &str, function: &str) -> Vec<String> {
    let types = types();
    let within = match class {
        "" => types.as_str(),
        class => {
            let (_, after) = types.split_once(&format!("\nclass {class}:\n")).expect("the class");
            after.split("\nclass ").next().expect("its body")
        }
    };
    let (_, after) = within.split_once(&format!("def {function}(")).expect("the function");
    let inside = after.split(") ->").next().expect("its parameters");
    let name = |part: &str| part.split(':').next().unwrap_or_default().trim().to_owned();
    // Commas within brackets are none between parameters.
    let mut depth = 0;
    let parts = inside.split(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ',' && depth == 0
    });
    parts.map(name).filter(|name| !matches!(name.as_str(), "" | "*" | "self" | "cls" | "path")).collect()
}

/// Checks that all parameters are known, but for those that only Python has.
fn check(class: &str, function: &str, known: &BTreeSet<String>, own: &[&str]) {
    let found = keywords(class, function);
    assert!(!found.is_empty(), "{class}.{function}");
    for name in &found {
        let is_own = own.contains(&name.as_str());
        assert!(known.contains(name) != is_own, "{class}.{function}: {name}; known are {known:?}");
    }
}

#[test]
fn python_reads_logs_with_the_commands_options() {
    check("Trace", "read", &options(&["trace", "info"]), &[]);
    check("", "plan", &options(&["plan"]), &[]);
    let missing: Vec<String> = options(&["plan"])
        .into_iter()
        .filter(|name| !keywords("", "plan").contains(name))
        .filter(|name| {
            // The logs of a fleet are simulated by the command alone.
            let of_a_fleet = ["node", "balance", "clients", "disk_us", "page_us", "service_us"];
            let not_of_one_log = ["help", "version", "json", "html", "report", "all", "settings"];
            !not_of_one_log.contains(&name.as_str()) && !of_a_fleet.contains(&name.as_str())
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "every option that affects a plan is there");
}

#[test]
fn python_models_have_the_commands_names() {
    check("Wan", "__new__", &options(&["model", "wan"]), &[]);
    check("Gms", "__new__", &options(&["model", "gms"]), &["putpage_rate"]);
    check("Gms", "balanced", &options(&["model", "gms"]), &[]);
    check("Gms", "skewed", &options(&["model", "gms"]), &[]);
    check("Pgms", "__new__", &options(&["model", "pgms"]), &[]);
    check("Pgms", "simulate", &parameters("pgms"), &[]);
    check("Wan", "schemes", &parameters("wan"), &[]);
}

#[test]
fn python_simulators_have_the_sweeps_names() {
    // A sweep names a trace where Python takes its arrays, and a cache's size with its unit.
    check("", "simulate_cluster", &parameters("cluster"), &["objects", "writes", "lose", "lose_after"]);
    check("", "simulate_wide_area", &parameters("wide_area"), &["cache_bytes"]);
    check("Wan", "finite_hit_rate", &parameters("wan"), &[]);
}

#[test]
fn python_curves_have_the_plans_names() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let log = folder.path().join("log.csv");
    let line = |at: u64| format!("{at},/{},{}\n", at * at % 97, 1000 + at % 7);
    let text: String = (0..1200).map(line).collect();
    std::fs::write(&log, format!("time_s,url,bytes\n{text}")).expect("written");
    let plan: Value =
        serde_json::from_str(&shoal(&["plan", "--json", log.to_str().expect("UTF-8")])).expect("JSON");
    let point = plan["ram"]["curves"]["s3_fifo"][0].as_object().expect("a point");
    let (_, curve) =
        types().split_once("\nclass Curve:\n").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("it");
    let curve = curve.split("\n@final").next().expect("its body").to_owned();
    for name in point.keys().filter(|name| *name != "bytes") {
        assert!(curve.contains(&format!("def {name}(self)")), "{name}");
    }
    assert!(curve.contains("def sizes(self)"), "a curve may count objects, so that its sizes name no unit");
}
