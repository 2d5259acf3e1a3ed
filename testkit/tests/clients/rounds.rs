//! A client run twice, what the origin had to do each time, and the table of it.

use shoal_testkit::{Origin, Setup, Shoal};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What an origin did: requests answered, bytes sent.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Requests answered.
    pub requests: usize,
    /// Bytes sent, heads included.
    pub bytes: u64,
}

/// What an origin says about caching.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Lifetimes and validators.
    Lifetimes,
    /// Nothing. Shoal gives answers a lifetime and answers reloads, as with `--fresh` and
    /// `--ignore-client-no-cache`.
    Nothing,
}

impl Says {
    /// Serves `folder` below `prefix`, with this Cache-Control where the origin says something.
    pub fn serve(self, origin: &Origin, prefix: &str, folder: std::path::PathBuf, cache_control: &str) {
        match self {
            Self::Lifetimes => origin.serve_folder(prefix, folder, &[("Cache-Control", cache_control)]),
            Self::Nothing => origin.serve_silently(prefix, folder),
        };
    }

    /// Starts a forward proxy for such an origin.
    pub fn start(self) -> Shoal {
        let rule = || -> toml::Value {
            let rule = "lifetime_default = '10m'\nignore_client_no_cache = true";
            rule.parse::<toml::Table>().expect("a rule").into()
        };
        match self {
            Self::Lifetimes => Setup::bare().start(),
            Self::Nothing => Setup::bare().set("rule", vec![rule()]).start(),
        }
    }

    /// The task in the table.
    pub fn task(self, task: &str) -> String {
        match self {
            Self::Lifetimes => task.into(),
            Self::Nothing => format!("{task}, silent origin, `--fresh`"),
        }
    }
}

/// Runs `client` with the number of the round, twice, and notes what each cost the origin.
pub fn twice(name: &str, task: &str, origin: &Origin, mut client: impl FnMut(usize)) -> [Work; 2] {
    let measured = [1, 2].map(|round| {
        let before = (origin.total(), origin.bytes_sent());
        client(round);
        Work { requests: origin.total() - before.0, bytes: origin.bytes_sent() - before.1 }
    });
    note(Row { client: name.into(), task: task.into(), measured });
    measured
}

struct Row {
    client: String,
    task: String,
    measured: [Work; 2],
}

/// Rows of clients of the forward proxy, and those of clients of mirrors: client, task and the
/// registry's requests of each round.
type Rows = (Vec<Row>, Vec<(String, String, [usize; 3])>);

static ROWS: Mutex<Rows> = Mutex::new((Vec::new(), Vec::new()));

fn note(row: Row) {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.0.push(row);
    rows.0.sort_by(|a, b| (&a.client, &a.task).cmp(&(&b.client, &b.task)));
    show(&rows);
}

/// Notes the requests of a registry behind a mirror: cold, warm and offline.
pub fn note_mirrored((client, task): (&str, &str), requests: [usize; 3]) {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.1.push((client.into(), task.into(), requests));
    rows.1.sort_by_key(|(client, task, _)| (client.to_lowercase(), task.clone()));
    show(&rows);
}

fn show(rows: &Rows) {
    let (table, mirrored) = (table(&rows.0), mirrored_table(&rows.1));
    println!("\n{table}\n{mirrored}");
    if std::env::var_os("SHOAL_WRITE_DOCS").is_some() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments/clients.md");
        std::fs::create_dir_all(page.parent().expect("docs/experiments")).expect("docs takes folders");
        let text = format!("{PREFACE}\n{table}\n{MIRRORED}\n{mirrored}");
        std::fs::write(page, text).expect("docs takes files");
    }
}

fn mirrored_table(rows: &[(String, String, [usize; 3])]) -> String {
    let head =
        "| client | task | requests of the registry, cold | warm | offline |\n|---|---|---:|---:|---:|\n";
    let row = |(client, task, [cold, warm, offline]): &(String, String, [usize; 3])| {
        format!("| {client} | {task} | {cold} | {warm} | {offline} |\n")
    };
    head.to_owned() + &rows.iter().map(row).collect::<String>()
}

fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| client | task | requests, first | second | kB, first | second | bytes saved |\n|---|---|---:|---:|---:|---:|---:|\n",
    );
    for Row { client, task, measured: [first, second] } in rows {
        let saved = 100 * first.bytes.saturating_sub(second.bytes) / first.bytes.max(1);
        let kilobytes = |work: &Work| work.bytes.div_ceil(1000);
        let _ = writeln!(
            table,
            "| {client} | {task} | {} | {} | {} | {} | {saved}% |",
            first.requests,
            second.requests,
            kilobytes(first),
            kilobytes(second)
        );
    }
    table
}

const PREFACE: &str = "# What real clients save

Question: when a client does the same work a second time on a fresh machine (its own caches empty),
how much does the origin still have to do behind a Shoal in forward mode?

Expectation: nothing, where the origin declares freshness, or a rule gives it; revalidation or the
whole again, where it must not be cached (git's smart protocol).

Setting: origins on loopback made by the test from small hand-made packages; Shoal as `http_proxy`,
RAM 16 MiB, disk 64 MiB; every client with an empty home before each round. A silent origin sends
no Cache-Control, Expires, ETag or Last-Modified; Shoal then runs with the rule of `--fresh 10m` and
`--ignore-client-no-cache`. The table is written by

    SHOAL_WRITE_DOCS=1 SHOAL_CLIENTS=FOLDER \\
      cargo test -p shoal-testkit --test clients -- --nocapture --include-ignored

FOLDER has the clients that are no packages of the system ([testing](../TESTING.md)).
";

const MIRRORED: &str = "## Through a mirror

Question: how often does a registry hear of a client that comes by a mirror, its own caches empty
each time: cold, warm, and with `offline = true`?

Expectation: once for each document and file in the cold round, and never after. Locks that name no
URL equal those made without the mirror.

Setting: registries over TLS made by the test, with their files at another host, in two manners. A
round is an install without a lock and one with the lock, where the client has locks. The other
cells of the matrix are in [mirrors](mirrors.md#each-client-and-mirror). For build caches the rounds
are a build, the same build with empty caches, and none: there is no registry.
";
