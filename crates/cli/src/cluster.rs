//! `shoal cluster`: keys of a cluster, and its state as a running node sees it.

use crate::admin_client::{NodeOptions, push_encoded};
use crate::failure::Failure;
use crate::show::print;
use serde_json::Value;
use shoal_cluster::ClusterError;
use shoal_cluster::keys::KeyFile;
use std::path::{Path, PathBuf};

/// Make and rotate a cluster's keys, show its members, find an object, drain a node
#[derive(clap::Args)]
pub struct ClusterOptions {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(clap::Subcommand)]
enum ClusterCommand {
    /// Write a new key file, readable by its owner alone; a file of this name is not overwritten
    Init {
        /// File to write
        file: PathBuf,
    },
    /// Change the keys of a file by one of three steps: --add, --use, --remove
    ///
    /// After each step copy the file to every node and run `shoal reload` there, and only then take
    /// the next step. Nodes of two neighbouring steps understand each other.
    Rotate(RotateOptions),
    /// Show this node's cluster: state, key, view, datagrams and members
    Status(ViewOptions),
    /// List the members, and how this node's asks of each other node went
    ///
    /// P99 is the time to the other node's first sign of life. LAG counts purges of this node that
    /// the other one has not confirmed. The last column says why a node is not asked.
    Peers(ViewOptions),
    /// Show the homes of an object, and the nodes that hold it now
    Where(WhereOptions),
    /// Take this node out of the homes; it stays a member and answers clients
    ///
    /// The new homes ask this node's cache before the origin, as long as it runs. Stop the node
    /// when `shoal_cluster_moved_total` of the others hardly grows. `join` undoes a drain.
    Drain(ViewOptions),
    /// Make this node a home again, after a drain
    Join(ViewOptions),
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("step").required(true))]
struct RotateOptions {
    /// First step: add a new key that is accepted and does not seal yet
    #[arg(long, group = "step")]
    add: bool,
    /// Second step: seal with the second key, and accept the first one
    #[arg(long = "use", group = "step")]
    use_second: bool,
    /// Third step: keep the sealing key alone
    #[arg(long, group = "step")]
    remove: bool,
    /// File of the keys
    file: PathBuf,
}

#[derive(clap::Args)]
struct ViewOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// Print the node's own JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct WhereOptions {
    /// URL of the object, such as http://a.example/logo.png; for a site its host and path as
    /// clients ask for them
    url: String,
    #[command(flatten)]
    view: ViewOptions,
}

impl ClusterOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            ClusterCommand::Init { file } => init(&file),
            ClusterCommand::Rotate(options) => rotate(&options),
            ClusterCommand::Status(options) => options.show("GET", "/cluster", status_text),
            ClusterCommand::Peers(options) => options.show("GET", "/cluster", |it| {
                members_text(it) + "\n" + &peers_text(it) + &servers_text(&it["shared_memory"])
            }),
            ClusterCommand::Drain(options) => options.show("POST", "/cluster/drain", |_| DRAINING.into()),
            ClusterCommand::Join(options) => options.show("POST", "/cluster/join", |_| JOINED.into()),
            ClusterCommand::Where(WhereOptions { url, view }) => {
                let mut path = "/cluster/where?url=".to_owned();
                push_encoded(&mut path, &url);
                view.show("GET", &path, where_text)
            }
        }
    }
}

impl ViewOptions {
    fn show(self, method: &str, path: &str, text: fn(&Value) -> String) -> Result<(), Failure> {
        let answer = self.node.node()?.ask(method, path, "")?;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        match answer.status {
            200 if self.json => print(&answer.body),
            200 => print(&text(&value)),
            _ => Err(Failure::Runtime(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned())),
        }
    }
}

fn init(path: &Path) -> Result<(), Failure> {
    KeyFile::generate().and_then(|file| file.create(path)).map_err(failure)?;
    print(&format!(
        "wrote {0}; copy it to each node, readable by the user of Shoal alone, and set there\n\n[cluster]\nkey_file = \
         \"{0}\"\n",
        path.display()
    ))
}

fn rotate(options: &RotateOptions) -> Result<(), Failure> {
    let file = KeyFile::read(&options.file).map_err(failure)?;
    let keys = file.keys().len();
    let one_key = || Failure::Usage("the file has one key; begin with --add".into());
    let (file, done, next) = if options.add {
        if keys > 1 {
            return Err(Failure::Usage(
                "the file has several keys; end the last rotation with --remove".into(),
            ));
        }
        let done = "a new key is accepted and does not seal yet";
        (file.with_key_added().map_err(failure)?, done, "shoal cluster rotate --use")
    } else if options.use_second {
        let done = "the new key seals, the old one is accepted";
        (file.with_second_first().ok_or_else(one_key)?, done, "shoal cluster rotate --remove")
    } else {
        (file.with_first_alone().ok_or_else(one_key)?, "the old key is gone", "")
    };
    file.replace(&options.file).map_err(failure)?;
    let then = match next {
        "" => "the rotation is then at its end".to_owned(),
        next => format!("when all nodes have it, run: {next} {}", options.file.display()),
    };
    print(&format!("{done}\ncopy the file to each node and run `shoal reload` there; {then}\n"))
}

fn failure(error: ClusterError) -> Failure {
    Failure::Runtime(error.to_string())
}

fn status_text(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let datagrams = &value["datagrams"];
    let rate = |key: &str| datagrams[key].as_f64().unwrap_or_default();
    let mut out = format!(
        "cluster    {}\nnode       {} at {}, {}\nkey        {}\nview       {}\ngossip     {:.1} datagrams and {:.0} bytes \
         sent a second\n",
        text("cluster"),
        text("node"),
        text("address"),
        text("state"),
        text("key"),
        text("view"),
        rate("sent_per_second"),
        rate("sent_bytes_per_second"),
    );
    for (reason, count) in datagrams["dropped"].as_object().into_iter().flatten() {
        out += &format!("dropped    {count} datagrams: {reason}\n");
    }
    if let Some(why) = value["refused"].as_str() {
        out += &format!("alone      {why}\n");
    }
    out += &memory_line(&value["shared_memory"]);
    out + "\n" + &members_text(value)
}

/// Returns the line about shared memory; nothing if it is off.
fn memory_line(memory: &Value) -> String {
    let number = |key: &str| memory[key].as_u64().unwrap_or_default();
    match memory["role"].as_str() {
        Some(role) => format!(
            "memory     {role}: holds {} objects in {} bytes for others, has {} in {} bytes there, b = {:.2}\n",
            number("guest_pages"),
            number("guest_bytes"),
            number("placed_pages"),
            number("placed_bytes"),
            memory["balance"].as_f64().unwrap_or_default(),
        ),
        None => String::new(),
    }
}

/// Returns a table of the other nodes as servers of memory; nothing if it is off.
fn servers_text(memory: &Value) -> String {
    let Some(servers) = memory["servers"].as_array() else { return String::new() };
    let time = |value: &Value| value.as_f64().map_or("-".into(), |us| format!("{us:.0} µs"));
    let mut out = format!(
        "\nshared memory; the own disk takes {}\n{:<24} {:>9} {:>6} {:>9} {:>9} {:>8} {:>8} {:>6} {:>12}  {}\n",
        time(&memory["disk_us"]),
        "OTHER NODE",
        "A PAGE",
        "SHARE",
        "PUTS",
        "GETS",
        "GONE",
        "FAILED",
        "WRONG",
        "HELD HERE",
        "STATE"
    );
    for server in servers {
        let text = |key: &str| server[key].as_str().unwrap_or_default();
        let number = |key: &str| server[key].as_u64().unwrap_or_default();
        out += &format!(
            "{:<24} {:>9} {:>5.0}% {:>9} {:>9} {:>8} {:>8} {:>6} {:>12}  {}\n",
            text("name"),
            time(&server["page_us"]),
            server["share"].as_f64().unwrap_or_default() * 100.0,
            number("puts"),
            number("gets"),
            number("gone"),
            number("failed"),
            number("wrong"),
            number("guest_bytes"),
            text("state"),
        );
    }
    out
}

fn members_text(value: &Value) -> String {
    let mut out = format!("{:<24} {:<22} {:<9} {:>6} {:>9}\n", "NODE", "ADDRESS", "STATE", "SHARE", "HEARD");
    for member in value["members"].as_array().into_iter().flatten() {
        let text = |key: &str| member[key].as_str().unwrap_or_default();
        let share = member["share"].as_f64().unwrap_or_default() * 100.0;
        let heard = match member["last_contact_ms"].as_u64() {
            Some(milliseconds) => format!("{:.1} s", milliseconds as f64 / 1000.0),
            None if text("name") == value["node"].as_str().unwrap_or_default() => "this node".into(),
            None => "never".into(),
        };
        out += &format!(
            "{:<24} {:<22} {:<9} {share:>5.1}% {heard:>9}\n",
            text("name"),
            text("address"),
            text("state")
        );
    }
    out
}

fn peers_text(value: &Value) -> String {
    let mut out = format!(
        "{:<24} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>6} {:>12} {:>6}  {}\n",
        "OTHER NODE",
        "P99",
        "SERVED",
        "DECLINED",
        "FAILED",
        "REFUSED",
        "LATE",
        "WRONG",
        "BYTES",
        "LAG",
        "STATE"
    );
    for peer in value["peers"].as_array().into_iter().flatten() {
        let text = |key: &str| peer[key].as_str().unwrap_or_default();
        let count = |key: &str| peer["asks"][key].as_u64().unwrap_or_default();
        let number = |key: &str| peer[key].as_u64().unwrap_or_default();
        out += &format!(
            "{:<24} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>6} {:>12} {:>6}  {}\n",
            text("name"),
            milliseconds(&peer["p99_ms"]),
            count("served"),
            count("declined"),
            count("failed"),
            count("refused"),
            count("late"),
            count("wrong"),
            number("received_bytes"),
            number("purges_lag"),
            text("state"),
        );
    }
    out
}

fn where_text(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let mut out = format!("{} ({})\n\n", text("url"), text("mode"));
    out +=
        &format!("{:<24} {:<22} {:<6} {:<8} {:>9}  {}\n", "NODE", "ADDRESS", "HOME", "HOLDS", "P99", "STATE");
    for node in value["nodes"].as_array().into_iter().flatten() {
        let text = |key: &str| node[key].as_str().unwrap_or_default();
        let home = match node["home"].as_u64() {
            Some(1) => "first",
            Some(2) => "second",
            Some(3) => "third",
            _ => "-",
        };
        let holds = node["holds"].as_bool().map_or("unknown", |holds| if holds { "yes" } else { "no" });
        let p99 = milliseconds(&node["p99_ms"]);
        out += &format!(
            "{:<24} {:<22} {home:<6} {holds:<8} {p99:>9}  {}\n",
            text("name"),
            text("address"),
            text("state")
        );
    }
    out
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or("-".into(), |milliseconds| format!("{milliseconds:.1} ms"))
}

const DRAINING: &str = "draining; see `shoal cluster peers`\n";

const JOINED: &str = "this node is a home again; see `shoal cluster peers`\n";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shared_memory_is_told_if_it_is_on() {
        let memory = json!({
            "role": "global", "guest_pages": 3, "guest_bytes": 4096, "placed_pages": 70, "placed_bytes": 1,
            "balance": 0.5, "disk_us": 4000.0,
            "servers": [{ "name": "b", "state": "slower than the disk", "page_us": 250.0, "share": 0.25, "puts": 9 }],
        });
        let line = memory_line(&memory);
        assert!(
            line.contains("global: holds 3 objects in 4096 bytes") && line.contains("b = 0.50"),
            "{line}"
        );
        let table = servers_text(&memory);
        for part in ["4000 µs", "250 µs", " 25%", "slower than the disk"] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert_eq!((memory_line(&Value::Null), servers_text(&Value::Null)), (String::new(), String::new()));
    }

    #[test]
    fn peers_are_listed_with_share_and_contact() {
        let member = |name: &str, contact: Option<u64>| json!({ "name": name, "address": "10.0.0.1:1", "state": "in", "share": 0.5, "last_contact_ms": contact });
        let text = status_text(&json!({
            "node": "a",
            "refused": "another name",
            "datagrams": { "dropped": { "forged": 3 } },
            "members": [member("a", None), member("b", Some(1500)), member("c", None)],
        }));
        for line in ["forged", "another name", "this node", "1.5 s", "never", " 50.0%"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn asks_of_peers_and_homes_are_listed() {
        let asks = json!({ "served": 7, "declined": 1, "late": 2 });
        let peer = json!({ "name": "b", "state": "refuses connections", "p99_ms": 1.25, "asks": asks, "purges_lag": 3 });
        let text = peers_text(&json!({ "peers": [peer] }));
        let cells: Vec<_> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        let expected = ["b", "1.2", "ms", "7", "1", "0", "0", "2", "0", "0", "3", "refuses", "connections"];
        assert_eq!(cells, expected);
        let node = |home: u64, holds: Option<bool>| json!({ "name": "n", "address": "10.0.0.1:1", "home": home, "state": "asked", "p99_ms": null, "holds": holds });
        let nodes = [node(1, Some(true)), node(2, Some(false)), node(0, None)];
        let text = where_text(&json!({ "url": "http://a/", "mode": "site", "nodes": nodes }));
        for line in ["http://a/ (site)", "first  yes ", "second no ", "-      unknown "] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn rotation_takes_its_steps_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys");
        init(&file).expect("a new file");
        assert!(init(&file).is_err(), "not overwritten");
        let step = |add, use_second, remove| {
            rotate(&RotateOptions { add, use_second, remove, file: file.clone() }).map_err(|_| ())
        };
        assert_eq!(step(false, true, false), Err(()));
        assert_eq!(step(true, false, false), Ok(()));
        assert_eq!(step(true, false, false), Err(()));
        assert_eq!(step(false, true, false), Ok(()));
        assert_eq!(step(false, false, true), Ok(()));
        assert_eq!(step(false, false, true), Err(()));
    }
}
