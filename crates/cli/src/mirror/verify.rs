//! `shoal mirror verify`: stored bodies of mirrors, compared with the promises of their indexes.

use super::node::{MirrorStores, failed};
use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::show::{self, print};
use serde_json::{Value, json};
use shoal_proxy::admin::PurgeRequest;
use shoal_registries::{HeldFinding, VerifyCounts, verify_held};
use std::fmt::Write;
use std::path::PathBuf;

/// Read the objects of mirrors on the disks and compare them with the digests of their indexes;
/// exit code 1 if any differs
///
/// A file is compared with the digest in its URL, in a stored index document, or in its own fields.
/// A document is read to its end. Nothing is fetched: a file counts as unpromised if its
/// index is not stored. The disks are read without a lock. Objects of the last second, and objects
/// in RAM alone, are not seen.
#[derive(clap::Args)]
pub struct MirrorVerifyOptions {
    /// Name of a mirror; all without
    name: Option<String>,
    #[command(flatten)]
    node: NodeOptions,
    /// Folder or device of the store; may be given more than once. Without it, the node's disks are
    /// read
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// Have the running node remove the objects that differ
    #[arg(long)]
    purge: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An object that differs, or is damaged.
struct Fault {
    url: String,
    why: String,
}

impl MirrorVerifyOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let found = MirrorStores::find(&self.node, &self.stores)?;
        let has_name = |name: &&str| found.mirrors.all().iter().any(|it| it.settings.name() == *name);
        if let Some(name) = self.name.as_deref().filter(|name| !has_name(name)) {
            return Err(Failure::Usage(format!("no mirror is called {name:?}")));
        }
        let mut faults = Vec::new();
        let mut tell = |url: &str, finding: &HeldFinding| {
            let why = match finding {
                HeldFinding::Differs(why) => (*why).to_owned(),
                HeldFinding::Damaged => "damaged on disk; it is never served".to_owned(),
                HeldFinding::Sound | HeldFinding::Unpromised | HeldFinding::Gone => return,
            };
            faults.push(Fault { url: url.to_owned(), why });
        };
        let counts = verify_held(&found.mirrors, &found.stores(), self.name.as_deref(), &mut tell);
        let counts = counts.map_err(failed)?;
        debug_assert!(faults.len() as u64 >= counts.iter().map(|row| row.differing).sum::<u64>());
        if self.purge {
            self.remove(&faults)?;
        }
        match self.json {
            true => print(&format!("{}\n", as_json(&counts, &faults, self.purge)))?,
            false => print(&render(&counts, &faults, self.purge))?,
        }
        match faults.is_empty() || self.purge {
            true => Ok(()),
            false => {
                let count = show::counted(faults.len() as u64, "object");
                Err(Failure::Runtime(format!("{count} differ or are damaged; --purge removes them")))
            }
        }
    }

    /// Has the node purge these URLs.
    fn remove(&self, faults: &[Fault]) -> Result<(), Failure> {
        let node = self.node.node()?;
        for fault in faults {
            let request = PurgeRequest::Url(fault.url.clone());
            let body =
                serde_json::to_string(&request).map_err(|error| Failure::Runtime(error.to_string()))?;
            let answer = node.ask("POST", "/purge", &body)?;
            if !matches!(answer.status, 200 | 202) {
                return Err(Failure::Runtime(format!("{} is not purged: {}", fault.url, answer.body.trim())));
            }
        }
        Ok(())
    }
}

fn render(counts: &[VerifyCounts], faults: &[Fault], purged: bool) -> String {
    let mut text = String::new();
    for row in counts {
        let _ = writeln!(
            text,
            "{}: {} sound, {}; {} unpromised, {} differ, {} damaged",
            row.mirror,
            show::counted(row.sound, "object"),
            show::size(row.sound_bytes),
            show::count(row.unpromised),
            show::count(row.differing),
            show::count(row.damaged)
        );
    }
    let done = if purged { "purged: " } else { "" };
    for fault in faults {
        let _ = writeln!(text, "  {done}{}: {}", fault.url, fault.why);
    }
    text
}

fn as_json(counts: &[VerifyCounts], faults: &[Fault], purged: bool) -> Value {
    let mirrors = counts.iter().map(|row| {
        json!({
            "mirror": row.mirror,
            "sound": row.sound,
            "sound_bytes": row.sound_bytes,
            "unpromised": row.unpromised,
            "differing": row.differing,
            "damaged": row.damaged,
        })
    });
    let faults = faults.iter().map(|fault| json!({ "url": fault.url, "why": fault.why, "purged": purged }));
    json!({ "mirrors": mirrors.collect::<Vec<_>>(), "faults": faults.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_with_their_reason() {
        let row = VerifyCounts {
            mirror: "npm".into(),
            sound: 2,
            sound_bytes: 5,
            differing: 1,
            ..VerifyCounts::default()
        };
        let faults = [Fault { url: "http://a.test/b".into(), why: "another digest".into() }];
        let expected = "\
npm: 2 objects sound, 5 B; 0 unpromised, 1 differ, 0 damaged
  purged: http://a.test/b: another digest
";
        assert_eq!(render(&[row], &faults, true), expected);
    }
}
