//! `shoal store verify`: reads and checks a whole store.

use super::StoreSelection;
use crate::failure::Failure;
use crate::show::{self, print};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use shoal_store::inspect::VerifyReport;
use std::fmt::Write;

/// Read and check a whole store; exit code 1 if anything is damaged
///
/// Checks the ends and contents of each write, the record of each entry of the index, and the
/// bodies of large objects piece by piece. Damaged data is never served: a request for it is a
/// miss. An entry that leads to another object's record is no damage: after a crash, or while a
/// node is writing, the index may be older than the log.
#[derive(clap::Args)]
pub struct StoreVerifyOptions {
    #[command(flatten)]
    which: StoreSelection,
    /// Print JSON, one line a store
    #[arg(long)]
    json: bool,
}

impl StoreVerifyOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let (mut text, mut damaged, mut stores) = (String::new(), 0, self.which.open()?);
        for (folder, store) in &stores.seen {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} stripes, {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            let verified = store.verify(&mut |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            damaged += verified.damaged;
            let folder = folder.display().to_string();
            match self.json {
                true => drop(writeln!(text, "{}", as_json(&folder, &verified))),
                false => text.push_str(&render(&folder, &verified)),
            }
        }
        print(&text)?;
        if damaged > 0 {
            stores.failures.push(format!("{} damaged", show::counted(damaged, "place")));
        }
        stores.end()
    }
}

fn render(folder: &str, verified: &VerifyReport) -> String {
    let mut text = format!(
        "{folder}: {} whole, {} of bodies, {} sound, outdated index entries: {}, {} damaged\n",
        show::counted(verified.objects, "object"),
        show::size(verified.body_bytes),
        show::counted(verified.stripes, "stripe"),
        show::count(verified.stale_entries),
        show::count(verified.damaged),
    );
    for damage in &verified.damage {
        let _ = writeln!(text, "  {:>16} {}", damage.position, damage.part);
    }
    if verified.damaged > verified.damage.len() as u64 {
        let _ = writeln!(text, "  and {} more", show::count(verified.damaged - verified.damage.len() as u64));
    }
    text
}

fn as_json(folder: &str, verified: &VerifyReport) -> serde_json::Value {
    let places = verified.damage.iter();
    let places: Vec<_> =
        places.map(|damage| json!({ "position": damage.position, "part": damage.part })).collect();
    json!({
        "store": folder,
        "objects": verified.objects,
        "body_bytes": verified.body_bytes,
        "stripes": verified.stripes,
        "stale_entries": verified.stale_entries,
        "damaged": verified.damaged,
        "damage": places,
    })
}
