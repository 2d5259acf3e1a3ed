//! The trial in `docs/CLUSTER.md`: its commands run as printed, with free addresses in place of the
//! page's, and do what the page says.

use rustix::process::{Pid, Signal, kill_process_group};
use shoal_testkit::address::free_port;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, missing, wait};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const PAGE: &str = include_str!("../../../docs/CLUSTER.md");

/// Shell commands of the page's trial, with the addresses of this test.
struct Trial {
    blocks: Vec<String>,
    folder: tempfile::TempDir,
}

/// Nodes of the trial, killed when dropped.
struct Nodes(Child);

impl Trial {
    fn of_page(origin: &Origin) -> Self {
        let (_, rest) = PAGE.split_once("## Try it on one machine").expect("the page has a trial");
        let (section, _) = rest.split_once("\n## ").expect("more follows");
        let network = network();
        let [clients, admin, peers] = [(); 3].map(|()| common_port(network).to_string());
        let fitted = |block: &str| {
            let [_, high, low] = network;
            block
                .replace("127.0.0.", &format!("127.{high}.{low}."))
                .replace(":8080", &format!(":{clients}"))
                .replace(":3129", &format!(":{admin}"))
                .replace(":3131", &format!(":{peers}"))
                .replace("http://origin.example", &origin.url())
        };
        let blocks =
            section.split("```sh\n").skip(1).map(|part| part.split("```").next().unwrap_or_default());
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("bin")).expect("the folder is ours");
        symlink(binary(), folder.path().join("bin/shoal")).expect("the folder is ours");
        Self { blocks: blocks.map(fitted).collect(), folder }
    }

    fn shell(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.folder.path());
        // Shoal takes variables that begin so for settings.
        shell.env_remove("SHOAL_BIN");
        shell.env("PATH", format!("{}/bin:{path}", self.folder.path().display()));
        shell
    }

    /// Runs a block and returns its words on standard output.
    fn run(&self, block: usize) -> String {
        self.output(&self.blocks[block])
    }

    fn output(&self, script: &str) -> String {
        let output = self.shell(script).output().expect("there is a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Nodes {
    fn start(trial: &Trial) -> Self {
        let mut shell = trial.shell(&format!("{}\nwait", trial.blocks[0]));
        Self(
            shell
                .process_group(0)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("there is a shell"),
        )
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// The first three numbers of a network that other tests leave alone.
fn network() -> [u8; 3] {
    let [_, _, high, low] = (std::process::id() & 0x3fff).to_be_bytes();
    [127, high + 65, low]
}

/// A port that is free at the first three addresses of a network.
fn common_port([first, high, low]: [u8; 3]) -> u16 {
    let ip = |last| IpAddr::V4(Ipv4Addr::new(first, high, low, last));
    loop {
        let port = free_port(ip(1)).port();
        if [2, 3].iter().all(|last| TcpListener::bind((ip(*last), port)).is_ok()) {
            return port;
        }
    }
}

#[test]
fn page_trial_makes_three_nodes_one_cache() {
    if Command::new("curl").arg("--version").output().is_err() {
        return missing::skip("curl");
    }
    let origin = Origin::start();
    // The page's `--fresh` gives the lifetime.
    origin.on("/", Answer::ok("front page"));
    let trial = Trial::of_page(&origin);
    assert_eq!(trial.blocks.len(), 4, "start, status, questions, purge");
    let _nodes = Nodes::start(&trial);
    wait::until("each node lists three members that are in", || {
        let status = trial.run(1);
        status.matches(" in ").count() == 3 && !status.contains("never")
    });
    // Node 1 knows all; the others know all too once they agree with it.
    let others = |n: u8| trial.blocks[1].replace(".1:", &format!(".{n}:"));
    let view = |script: &str| {
        let text = trial.output(script);
        text.lines().find(|line| line.starts_with("view")).map(str::to_owned)
    };
    wait::until("all have one view", || {
        let own = view(&trial.blocks[1]);
        own.is_some() && own == view(&others(2)) && own == view(&others(3))
    });

    let said = trial.run(2);
    assert_eq!(said.matches("node ").count(), 3, "{said}");
    assert_eq!(origin.count("/"), 1, "one fetch for all: {said}");
    assert_eq!(said.matches(";stored").count(), 1, "the home alone stores: {said}");
    assert_eq!(said.matches(";hit").count(), 2, "the other two nodes get hits: {said}");

    let purged = trial.run(3);
    assert!(purged.starts_with("purged"), "{purged}");
    let confirmed = purged.lines().find(|line| line.starts_with("confirmed by ")).unwrap_or_default();
    assert_eq!(confirmed.matches(':').count(), 2, "both other nodes: {purged}");
    trial.run(2);
    assert_eq!(origin.count("/"), 2, "fetched once more");

    let admin = trial.blocks[1].trim().rsplit(' ').next().expect("the last word is the address");
    let metrics = || trial.output(&format!("curl -s http://{admin}/metrics"));
    wait::until("the gauge shows three members", || metrics().contains("\nshoal_cluster_members 3\n"));
    let metrics = metrics();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `shoal_cluster_"));
    let names: Vec<&str> = rows.filter_map(|row| row.split(['`', '{']).next()).collect();
    assert!(names.len() >= 9, "{names:?}");
    for name in names {
        assert!(metrics.contains(&format!("# TYPE shoal_cluster_{name} ")), "the page names {name}");
    }
}
