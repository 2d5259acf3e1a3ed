//! Commands that need no node, as a user runs them: output and exit codes.

mod checks;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn shoal(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SHOAL_") {
            command.env_remove(name);
        }
    }
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("shoal.toml");
    std::fs::write(&path, text).expect("written");
    path
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn the_default_configuration_has_no_mistakes() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, stdout(&shoal(&["config", "default"])));
    let output = shoal(&["check", name(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (told, found) = (stdout(&output), format!("{}: no mistakes\n", path.display()));
    let size = told.strip_suffix(&found).expect("no mistakes");
    // Only a disk with free space suggests a size.
    assert!(size.is_empty() || size.contains("the store may use "), "{told}");
}

#[test]
fn the_reference_is_the_page_in_docs() {
    assert!(stdout(&shoal(&["config", "reference"])) == include_str!("../../../../docs/CONFIG.md"));
    assert!(stdout(&shoal(&["config", "reasons"])) == include_str!("../../../../docs/REASONS.md"));
}

/// The file, the command and the output stand in docs/RULES.md.
#[test]
fn explain_prints_the_sample_in_docs() {
    let docs = include_str!("../../../../docs/RULES.md");
    let section = docs.split("## Which rule decides").nth(1).expect("the section");
    let block = |start: &str| {
        let text = section.split(start).nth(1).expect("a block");
        text.split("\n```").next().expect("its end").trim_start().to_owned()
    };
    let (settings, console) = (block("```toml"), block("```console"));
    let (command, expected) = console.split_once('\n').expect("a command and its output");
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, &settings);
    let words = command.split(' ').skip(2).map(|word| if word == "shoal.toml" { name(&path) } else { word });
    let output = shoal(&words.collect::<Vec<_>>());
    assert_eq!(stdout(&output).trim_end(), expected, "{}", stderr(&output));
}

const BAD: &str =
    "workers = 1\n[cache]\nrum = \"1 GB\"\nram = 5\n[forward]\nusers_file = \"/absent/users\"\n";

#[test]
fn check_names_every_mistake_with_its_line() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, BAD);
    let output = shoal(&["check", name(&path)]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
    let expected = [
        "3:1: cache.rum: unknown setting `rum` (did you mean `ram`?)",
        "4:7: cache.ram: \"5 B\" is out of range: \"4 MiB\" to \"16 TiB\"",
        "6:14: forward.users_file: cannot read /absent/users: No such file or directory (os error 2)",
    ];
    let expected: String = expected.iter().map(|line| format!("{}:{line}\n", path.display())).collect();
    assert_eq!(stderr(&output), expected);
}

#[test]
fn check_warns_of_rules_without_effect() {
    let folder = TempDir::new().expect("a folder");
    let text = "[[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\n\
                [[site]]\nhosts = ['a.test']\nupstreams = [{ url = 'http://b.test' }]\n\
                [[rule]]\npaths = ['/a/*']\nlifetime_default = '7d'\n\
                [[rule]]\nlifetime_default = '1 week 2'\n";
    let checked = |text: &str| shoal(&["check", name(&file(&folder, text))]);
    let refused = checked(text);
    let told = stderr(&refused);
    assert_eq!(
        (refused.status.code(), told.lines().count()),
        (Some(2), 1),
        "one mistake is told once: {told}"
    );
    assert!(
        told.contains(":11:20: rule[1].lifetime_default: ") && told.contains("(ms, s, m, h, d, w)"),
        "{told}"
    );
    let output = checked(&text.replace("1 week 2", "1m"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let warned = stdout(&output);
    assert!(warned.contains(":9:20: warning: rule[0].lifetime_default: \"7 day\" has no effect"), "{warned}");
    let output = checked(&text.replace("1 week 2", "1m'\nhosts = ['c.test']\nname = 'x"));
    assert!(stdout(&output).contains(":12:10: warning: rule[1].hosts[0]: never matches"), "{output:?}");
}

#[test]
fn check_prints_json() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, BAD);
    let output = shoal(&["check", name(&path), "--json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(2), ""));
    let value: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!(value["mistakes"].as_array().map(Vec::len), Some(3));
    assert_eq!(value["mistakes"][0]["line"], 3);
    assert_eq!(value["mistakes"][0]["key"], "cache.rum");
    assert_eq!(value["mistakes"][0]["hint"], "did you mean `ram`?");

    let good = file(&folder, "");
    let output = shoal(&["check", name(&good), "--json"]);
    let value: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!((output.status.code(), value["mistakes"].as_array().map(Vec::len)), (Some(0), Some(0)));
}

/// Mistakes in these files would keep `run` from starting. `check` finds them before a running node
/// is stopped for a new start.
#[test]
fn check_looks_into_the_files_that_are_named() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, "nonsense\n").expect("written");
    let path = path.display();
    let tls = format!("[{{ certificate = {path:?}, key = {path:?} }}]", path = path.to_string());
    for (settings, wrong) in [
        (format!("[forward]\nusers_file = \"{path}\"\n"), "file:1: expected user:password"),
        (format!("[upstream]\nca_file = \"{path}\"\n"), "upstream.ca_file"),
        (
            format!("[[listen]]\naddress = \"127.0.0.1:1\"\nmode = \"forward\"\ntls = {tls}\n"),
            "file: holds no certificate",
        ),
    ] {
        let file = file(&folder, &settings);
        for command in ["check", "run --config"] {
            let mut arguments: Vec<&str> = command.split(' ').collect();
            let name = file.to_string_lossy();
            arguments.push(&name);
            let output = shoal(&arguments);
            assert_eq!(output.status.code(), Some(2), "{command} {settings}");
            assert!(stderr(&output).contains(wrong), "{command}: {}", stderr(&output));
        }
    }
}

/// `run` creates these files, and no node starts without them.
#[test]
fn check_looks_where_files_would_be_made() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path().display();
    let wrong = format!(
        "[log]\naccess = \"{at}/absent/access.log\"\n[admin]\nlisten = \"unix:{at}/missing/admin.sock\"\n"
    );
    let path = file(&folder, &wrong);
    let output = shoal(&["check", name(&path)]);
    let told = format!(
        "{0}: log.access: there is no folder {at}/absent\n{0}: admin.listen: there is no folder {at}/missing\n",
        path.display()
    );
    assert_eq!((output.status.code(), stderr(&output)), (Some(2), &*told));
    let path = file(&folder, &format!("log.access = \"{at}\"\n"));
    let output = shoal(&["check", name(&path)]);
    assert!(stderr(&output).ends_with(&format!("log.access: {at} is a folder\n")), "{}", stderr(&output));
    let path = file(&folder, &wrong.replace("absent/", "").replace("missing/", ""));
    assert_eq!(shoal(&["check", name(&path)]).status.code(), Some(0));
}

#[test]
fn a_file_that_is_no_text_is_told_with_its_line() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("shoal.toml");
    std::fs::write(&path, b"workers = 1\n# caf\xe9\n").expect("written");
    let output = shoal(&["check", name(&path)]);
    let told = format!("shoal: cannot read {}: line 2 is not UTF-8\n", path.display());
    assert_eq!((output.status.code(), stderr(&output)), (Some(2), &*told));
}

#[test]
fn check_takes_the_environment_into_account() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "");
    let output =
        command(&["check", name(&path)]).env("SHOAL_CACHE__RAM", "lots").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("SHOAL_CACHE__RAM: cache.ram: "), "{}", stderr(&output));
}

/// Bad configuration: exit code 2, file and line, and no node starts.
#[test]
fn run_refuses_mistakes_and_starts_nothing() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, BAD);
    for arguments in [
        &["run", "--config", name(&path)][..],
        &["run", "--config", "/absent/shoal.toml"],
        &["run", "--to", "127.0.0.1:8000"],
        &["run", "--ram", "lots"],
        &["run", "--listen", "nowhere"],
        &["run", "--config", name(&path), "--to", "http://a"],
        &["run", "--colour"],
    ] {
        let output = command(arguments).current_dir(folder.path()).output().expect("the binary runs");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
        assert!(!stderr(&output).is_empty(), "{arguments:?}");
    }
    assert!(!folder.path().join("shoal-cache").exists());
    let output = shoal(&["run", "--to", "127.0.0.1:8000"]);
    assert!(stderr(&output).starts_with("--to: site[0].upstreams[0].url: "), "{}", stderr(&output));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = shoal(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("allow-private"), "{shell}");
    }
    assert_eq!(shoal(&["completions", "abacus"]).status.code(), Some(2));
}

#[test]
fn manual_pages_are_written() {
    let folder = TempDir::new().expect("a folder");
    let pages = folder.path().join("man1");
    assert_eq!(shoal(&["man", name(&pages)]).status.code(), Some(0));
    for page in ["shoal.1", "shoal-run.1", "shoal-check.1", "shoal-purge.1", "shoal-config-default.1"] {
        let text = std::fs::read_to_string(pages.join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(stdout(&shoal(&["man"])).contains("Exit codes"));
}

#[test]
fn a_node_that_is_not_there_is_exit_code_3() {
    let folder = TempDir::new().expect("a folder");
    let address = format!("unix:{}/absent.sock", folder.path().display());
    for arguments in [
        &["purge", "--all", "--admin", &address][..],
        &["reload", "--admin", &address],
        &["top", "--once", "--admin", &address],
        &["cluster", "status", "--admin", &address],
    ] {
        let output = shoal(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(3), ""), "{arguments:?}");
        assert!(stderr(&output).contains(&address), "{}", stderr(&output));
    }
}

#[test]
fn purge_names_exactly_one_thing() {
    for arguments in [
        &["purge"][..],
        &["purge", "http://a/", "--all"],
        &["purge", "--group", "http://a"],
        &["purge", "--tag", "a", "--host", "b"],
        &["purge", "--all", "--admin", "nowhere"],
    ] {
        assert_eq!(shoal(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn model_gms_solves_queueing_model() {
    let output =
        shoal(&["model", "gms", "--global-nodes", "7", "--idle", "1", "--method", "exact", "--json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let busy = value["rows"][0]["servers"][0]["utilization"].as_f64().expect("a number");
    assert_eq!((busy * 100.0).round(), 51.0, "Voelker 2000, section 3.3.2");
    let output = shoal(&["model", "gms", "--global-nodes", "1-9:4", "--idle", "2", "--simulate", "2000"]);
    assert_eq!(stdout(&output).lines().count(), 4, "{}", stdout(&output));
    for (bad, told) in [
        (vec!["--idle", "2", "--probabilities", "0.5,0.4"], "sum to 0.9"),
        (vec!["--idle", "2", "--probabilities", "0.5"], "1 values for 2 servers"),
        (vec!["--think-ms", "NaN"], "the think time is NaN"),
        (vec!["--global-nodes", "9-1"], "no range"),
        (vec!["--idle", "0"], "sum to"),
        (vec!["--method", "guess"], "none of schweitzer"),
    ] {
        let output = shoal(&[&["model", "gms"], bad.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert!(stderr(&output).contains(told), "{bad:?}: {}", stderr(&output));
    }
}

/// The long help has the whole comment of a command, not only its first line.
#[test]
fn the_help_of_commands_explains_them() {
    for (command, words) in [
        ("run", "USR1 opens the logs again"),
        ("check", "and starts nothing"),
        ("purge", "not even stale"),
        ("status", "monitoring plugins: 0 well"),
        ("doctor", "changes nothing"),
        ("top", "Without a terminal"),
        ("top misses", "belong into a"),
        ("reload", "keeps its old settings"),
        ("store", "without a lock"),
        ("store verify", "never served"),
        ("store ls", "oldest first"),
        ("store get", "with its content coding"),
        ("store format", "mounted or in use is refused"),
        ("store offline", "its share goes to the other disks"),
        ("store online", "opened anew"),
        ("replay", "disk workload generator"),
        ("trace", "oracleGeneral"),
        ("trace filter", "does not exclude it"),
        ("plan", "cheapest pair"),
        ("lab run", "summary.json"),
        ("lab sweep", "journal in the folder"),
        ("completions", "bash_completion.d"),
        ("model gms", "open one at f times their rate"),
        ("model pgms", "prefetch predicate"),
        ("model wan", "popularity is Zipf-like"),
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = shoal(&arguments);
        // The terminal's width determines the line breaks.
        let told = stdout(&help).split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(told.contains(words), "{command}: {told}");
    }
}

#[test]
fn model_pgms_reports_speedup() {
    let small = ["model", "pgms", "--scale", "64", "--epoch-seconds", "0.1"];
    let output = shoal(&[&small[..], &["--idle", "0-3", "--json"]].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let told: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let seconds =
        |row: usize, system: &str| told["rows"][row][system]["elapsed_seconds"].as_f64().expect("seconds");
    assert_eq!(seconds(0, "gms"), told["alone_seconds"].as_f64().expect("seconds"), "one node without hints");
    assert!(seconds(3, "pgms") < seconds(0, "pgms") && seconds(0, "pgms") < seconds(0, "gms"));
    assert!((told["glfd_bound"].as_f64().expect("a bound") - 1.0854).abs() < 1e-4);
    let more = ["--program", "random", "--rounds", "2", "--hints", "part:0.5", "--prefetch", "dl,dg"];
    let output = shoal(&[&small[..], &more[..]].concat());
    assert!(output.status.success() && stdout(&output).lines().count() == 7, "{}", stdout(&output));
    for (bad, told) in [
        (vec!["--hints", "part:1.5"], "part:SHARE"),
        (vec!["--prefetch", "xy"], "none of all"),
        (vec!["--program", "sort"], "none of render"),
        (vec!["--idle", "4-1"], "no range"),
        (vec!["--disk-ms", "0"], "without a slower disk"),
        (vec!["--disk-ms", "NaN"], "--disk-ms"),
        (vec!["--global-us", "inf"], "--global-us"),
        (vec!["--frames", "2"], "16 to 1073741824"),
        (vec!["--frames", "18446744073709551615"], "16 to 1073741824"),
        (vec!["--idle", "5000"], "5001 nodes"),
        (vec!["--epoch-seconds", "0"], "0.01 to 1000"),
        (vec!["--computing-us", "1e300"], "from 0 to 1000"),
        (vec!["--scale", "0"], "--scale"),
    ] {
        let output = shoal(&[&["model", "pgms"], bad.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{bad:?}: {}", stderr(&output));
    }
}

#[test]
fn model_wan_reports_hit_rates() {
    let output = shoal(&["model", "wan", "--clients", "500e3", "--levels", "50,10", "--json"]);
    let told: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let row = &told["rows"][0];
    let share = row["cacheable_hit_rate"].as_f64().expect("a share");
    assert!((share - 0.922).abs() < 0.001, "{share}");
    assert_eq!(row["schemes"].as_array().map(Vec::len), Some(6));
    let latency = row["schemes"][0]["latency_seconds"].as_f64().expect("seconds");
    assert!((latency - 0.86).abs() < 0.005, "Table 5.4: {latency}");
    let output = shoal(&["model", "wan", "--rates", "slow", "--reach", "0.9"]);
    assert!(stdout(&output).contains("90.0%"));
    let output =
        shoal(&["model", "wan", "--clients", "0,50e3", "--cache-bytes", "1e9", "--change", "pareto-within"]);
    assert!(output.status.success() && !stdout(&output).contains("NaN"));
    for bad in [
        ["--alpha", "NaN"],
        ["--cacheable", "1.5"],
        ["--clients", "-1"],
        ["--documents", "0.5"],
        ["--rates", "quick"],
        ["--change", "pareto"],
        ["--tail", "0.5"],
    ] {
        let tail: &[&str] = if bad[0] == "--tail" { &["--change", "lognormal-between"] } else { &[] };
        let output = shoal(&[&["model", "wan"], bad.as_slice(), tail].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stderr(&output));
    }
}

#[test]
fn locks_are_rewritten_and_checked() {
    let folder = TempDir::new().expect("a folder");
    let lock = folder.path().join("yarn.lock");
    let own = "resolved \"https://npm.example/a/-/a-1.tgz#00\"\r\n";
    std::fs::write(&lock, own).expect("written");
    let run = |direction: &[&str]| {
        let mirror = ["--mirror", "npm=https://npm.example", "--at", "http://cache.test:8080"];
        shoal(&[&["lock"], direction, &mirror[..], &[name(&lock)]].concat())
    };
    assert_eq!(run(&["--to-mirror", "--check"]).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&lock).expect("there"), own, "a check changes nothing");
    assert_eq!(stdout(&run(&["--to-mirror"])), format!("{}: 1 URL changed\n", lock.display()));
    let mirrored = own.replace("https://npm.example", "http://cache.test:8080/npm");
    assert_eq!(std::fs::read_to_string(&lock).expect("there"), mirrored);
    assert_eq!(run(&["--to-origin"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&lock).expect("there"), own);
    assert_eq!(run(&["--to-origin", "--check"]).status.code(), Some(0));
    let both = shoal(&["lock", "--to-origin", "--to-mirror", name(&lock)]);
    assert_eq!(both.status.code(), Some(2));
}
