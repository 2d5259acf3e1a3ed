//! The tools of the binary in a training: what looks at logs, plans, simulates, replays and looks
//! at stores.

use crate::shoal::binary;
use crate::wait;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Reads an access log.
pub fn access_log(log: &Path) {
    shoal(Path::new("."), &["trace", "info", &log.to_string_lossy()]);
}

/// Looks at a store whose node has ended.
pub fn store(store: &Path) {
    let store = store.to_string_lossy();
    for command in ["info", "verify", "ls"] {
        shoal(Path::new("."), &["store", command, "--store", &store]);
    }
}

/// Plans, simulates and replays made traffic.
pub fn made_traffic(share: usize, progress: &mut dyn FnMut(&str)) {
    let folder = tempfile::Builder::new().prefix("shoal-training-").tempdir().expect("a temporary folder");
    let folder = folder.path();
    let requests = REQUESTS.div_ceil(share).max(REQUESTS_MIN);
    let made = format!("synthetic:requests={requests},seed=1,clients=40,hit-ratio=0.4");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("a temporary folder takes files");
    };
    write("sweep.toml", &SWEEP.replace("MADE", &made["synthetic:".len()..]));
    for architecture in ARCHITECTURES {
        std::fs::create_dir(folder.join(architecture)).expect("a temporary folder takes folders");
    }
    let replays =
        ARCHITECTURES.iter().map(|name| vec!["replay", &made, "--dir", name, "--architecture", name]);
    let commands = [
        vec!["trace", "convert", &made, "--out", "made.csv"],
        vec!["trace", "info", "made.csv"],
        vec!["plan", "made.csv", "--json"],
        vec!["lab", "sweep", "sweep.toml", "--out", "results"],
    ];
    for command in commands.into_iter().chain(replays) {
        let begun = Instant::now();
        shoal(folder, &command);
        let (words, seconds) = (command.join(" "), begun.elapsed().as_secs_f64());
        progress(&format!("shoal {words}, {seconds:.1} s"));
    }
}

/// Runs a command to its end, which must be a good one and come in time.
fn shoal(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let spawned = command.stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|why| panic!("{}: {why}", binary().display()));
    let ended = wait::within(TIME_MAX, || child.try_wait().expect("the process is ours").is_some());
    if !ended {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("the process is ours");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "shoal {}: {}: {said}", arguments.join(" "), output.status);
}

/// Longer than this no tool takes.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Requests made for each tool: few, since simulating them takes many more steps than serving them.
const REQUESTS: usize = 5_000;

/// Of fewer there are none whose hit ratio is that wanted.
const REQUESTS_MIN: usize = 1_000;

/// Those that are replayed.
const ARCHITECTURES: &[&str] = &["volume", "squidl", "squidmla"];

const SWEEP: &str = "
[trace.made]
synthetic = \"MADE\"
[[policy]]
trace = \"made\"
policy = [\"fifo\", \"clock\", \"lru\", \"slru\", \"lfu_da\", \"gdsf\", \"s3_fifo\", \"sieve\", \"w_tinylfu\", \"belady\", \"belady_size\"]
cache = 0.1
[[cluster]]
trace = \"made\"
system = [\"greedy\", \"n_chance\", \"gms\"]
nodes = 4
node_frames = 100
server_frames = 200
chances = 2
[[wide_area]]
trace = \"made\"
cooperation = [\"alone\", \"hierarchy\", \"rendezvous\", \"summaries\"]
fanout = 8
[[wan]]
clients = 5e5
rates = \"fast\"
";
