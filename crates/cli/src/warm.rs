//! `shoal warm`: a running node fetches the files of lockfiles before clients ask for them.

mod told;

use crate::admin_client::{AdminNode, Answer, NodeOptions, push_encoded};
use crate::failure::Failure;
use crate::show::print;
use shoal_mirrors::wanted::{Format, LIST_MAX};
use shoal_proxy::warming::WarmReport;
use shoal_trace::{Input, ReadOptions, Reader, Record};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use told::Teller;

/// Fetch the files of lockfiles into a running node, before clients ask for them
///
/// Reads the locks of npm, Yarn, pnpm, Bun, pip, poetry, PDM, uv, pipenv, cargo, Go, bundler and
/// Gradle. Reads SBOMs and package URLs, references of images, URLs, and access logs, too. The node
/// asks for each index page once, tells the numbers of held and missing files, and fetches the rest
/// by `warm.connections` and `warm.rate`. Each file is checked against the list and the registry's
/// index.
///
/// A second run skips the files that are held. The job goes on in the node if this command ends.
#[derive(clap::Args)]
pub struct WarmOptions {
    /// Lockfiles and lists; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "stop")]
    files: Vec<PathBuf>,
    /// Format of the files: npm, yarn, pnpm, bun, requirements, poetry, pdm, uv, pylock, pipfile,
    /// cargo, go, bundler, gradle, gradle-verification, maven, purls, images or urls; detected if
    /// not given
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
    /// The files are access logs or traces: warm the URLs that were fetched with success
    #[arg(long, conflicts_with = "format")]
    log: bool,
    /// End with the plan: held files, missing files, bytes
    #[arg(long, visible_alias = "dry-run")]
    plan: bool,
    /// Hand the files over to prefetching and end: a client, such as a build that starts now, will
    /// ask for them in about this order
    #[arg(long, conflicts_with_all = ["plan", "pin", "verify"])]
    ahead: bool,
    /// Wheels to take, by name with *, such as '*-cp312-*linux*x86_64*'; wheels for any platform
    /// are always taken, a source if no wheel fits
    #[arg(long, value_name = "PATTERN")]
    wheels: Vec<String>,
    /// Platforms of images, such as linux/amd64; default: that of this machine. `all` for all
    #[arg(long, value_name = "PLATFORM")]
    platform: Vec<String>,
    /// Address of the node in the lock, if it is not the address of a listener
    #[arg(long, value_name = "URL")]
    at: Vec<String>,
    /// Take packages of registries that are no mirror's from the mirror of their kind, and fetch
    /// URLs of any host by forward mode
    #[arg(long)]
    any_host: bool,
    /// Time for which the files stay on disk when space is made for others, up to `store.pin_max`,
    /// such as 30d
    #[arg(long, value_name = "TIME")]
    pin: Option<String>,
    /// Read held files too, and check them against the list
    #[arg(long)]
    verify: bool,
    /// Stop a job of the node
    #[arg(long, value_name = "JOB", conflicts_with = "files")]
    stop: Option<u64>,
    #[command(flatten)]
    node: NodeOptions,
    /// Print the node's own JSON, one report a file
    #[arg(long)]
    json: bool,
}

impl WarmOptions {
    /// Takes the options that fetch packages, and keep them for this time.
    pub fn pinning(node: NodeOptions, time: String) -> Self {
        Self {
            files: Vec::new(),
            format: Some(Format::Purls),
            log: false,
            plan: false,
            ahead: false,
            wheels: Vec::new(),
            platform: Vec::new(),
            at: Vec::new(),
            any_host: true,
            pin: Some(time),
            verify: false,
            stop: None,
            node,
            json: false,
        }
    }

    /// Warms the packages of a list, and prints the result.
    pub fn warm_list(&self, name: &str, list: &[u8]) -> Result<(), Failure> {
        let report = self.warm(&self.node.node()?, Path::new(name), list)?;
        print(&told::result(&report))?;
        match report.failures.count + report.refused.count {
            0 => Ok(()),
            failed => Err(Failure::Runtime(format!("{failed} entries or files were not warmed"))),
        }
    }

    pub fn perform(self) -> Result<(), Failure> {
        let node = self.node.node()?;
        if let Some(job) = self.stop {
            let answer = node.send("POST", &format!("/warm/stop?job={job}"), b"")?;
            return told_ok(&answer, 200).map(drop);
        }
        let mut failed = 0;
        for file in &self.files {
            let list = if self.log { urls_of_log(file)? } else { read(file)? };
            let report = self.warm(&node, file, &list)?;
            failed += report.failures.count + report.refused.count;
            match self.json {
                true => print(&(serde_json::to_string(&report).unwrap_or_default() + "\n"))?,
                false => print(&told::result(&report))?,
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Runtime(format!("{failed} entries or files were not warmed"))),
        }
    }

    /// Starts the job of one file and waits for its end.
    fn warm(&self, node: &AdminNode, file: &Path, list: &[u8]) -> Result<WarmReport, Failure> {
        let answer = node.send("POST", &self.path(file), list)?;
        let mut report = report(&answer, 202, file)?;
        let mut teller = Teller::new(file);
        while !report.state.is_end() {
            teller.tell(&report);
            std::thread::sleep(PAUSE);
            let answer = node.send("GET", &format!("/warm?job={}", report.job), b"")?;
            report = self::report(&answer, 200, file)?;
        }
        teller.end(&report);
        Ok(report)
    }

    /// Returns the path of the request.
    fn path(&self, file: &Path) -> String {
        let mut path = "/warm?file=".to_owned();
        push_encoded(&mut path, &file.file_name().unwrap_or_default().to_string_lossy());
        let format = if self.log { Some(Format::Urls) } else { self.format };
        let list = |words: &[String]| words.join(",");
        let platforms = match self.platform.iter().any(|platform| platform == "all") {
            true => String::new(),
            false if self.platform.is_empty() => own_platform(),
            false => list(&self.platform),
        };
        for (name, value) in [
            ("format", format.map_or_else(String::new, |format| format.name().to_owned())),
            ("wheels", list(&self.wheels)),
            ("platforms", platforms),
            ("at", list(&self.at)),
            ("pin", self.pin.clone().unwrap_or_default()),
        ] {
            if !value.is_empty() {
                path += &format!("&{name}=");
                push_encoded(&mut path, &value);
            }
        }
        for (name, is_set) in
            [("plan", self.plan), ("ahead", self.ahead), ("any-host", self.any_host), ("verify", self.verify)]
        {
            path += &if is_set { format!("&{name}") } else { String::new() };
        }
        path
    }
}

fn report(answer: &Answer, status: u16, file: &Path) -> Result<WarmReport, Failure> {
    let failed = |why: &str| Failure::Runtime(format!("{}: {why}", file.display()));
    told_ok(answer, status).map_err(|failure| failed(&failure.lines().join("; ")))?;
    serde_json::from_str(&answer.body).map_err(|error| failed(&error.to_string()))
}

/// Returns the answer of a node that agrees.
fn told_ok(answer: &Answer, status: u16) -> Result<&Answer, Failure> {
    let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    match answer.status {
        found if found == status => Ok(answer),
        400 => Err(Failure::Usage(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned())),
        _ => Err(Failure::Runtime(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned())),
    }
}

/// Reads a list.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::Runtime(format!("{}: {why}", file.display()));
    let mut bytes = Vec::new();
    let limit = LIST_MAX as u64 + 1;
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(limit).read_to_end(&mut bytes),
        false => File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| failed(&error))?;
    match bytes.len() > LIST_MAX {
        true => Err(failed(&"larger than 32 MiB; this is no lockfile")),
        false => Ok(bytes),
    }
}

/// Returns the URLs of a log that were fetched with success, each once, one a line.
fn urls_of_log(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::Runtime(format!("{}: {why}", file.display()));
    let input = match file.as_os_str() == "-" {
        true => Input::new(std::io::stdin()),
        false => Input::new(File::open(file).map_err(|error| failed(&error))?),
    };
    let input = input.map_err(|error| failed(&error))?;
    let mut reader = Reader::of(input, &ReadOptions::default()).map_err(|error| failed(&error))?;
    let (mut seen, mut list) = (HashSet::new(), Vec::new());
    let mut take = |record: &Record<'_>| {
        let is_get = record.method.as_deref().is_none_or(|method| method == "GET");
        let is_found = record.status.is_none_or(|status| matches!(status, 200 | 206 | 304));
        let is_url = record.url.starts_with("http://") || record.url.starts_with("https://");
        if is_get && is_found && is_url && list.len() <= LIST_MAX && !seen.contains(&*record.url) {
            list.extend_from_slice(record.url.as_bytes());
            list.push(b'\n');
            seen.insert(record.url.to_string());
        }
    };
    while reader.next(&mut take).map_err(|error| failed(&error))?.is_some() {}
    debug_assert!(seen.len() <= list.len(), "a line for each URL");
    if list.len() > LIST_MAX {
        return Err(failed(&"more than 32 MiB of distinct URLs; take a part of it by `shoal trace filter`"));
    }
    match list.is_empty() {
        true => Err(failed(&"no absolute URL in it was fetched with success")),
        false => Ok(list),
    }
}

/// Returns the platform of this machine, as images name it.
fn own_platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("linux/{architecture}")
}

/// Time between two looks at a job.
const PAUSE: Duration = Duration::from_millis(200);
