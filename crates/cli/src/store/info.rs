//! `shoal store info`: describes a store.

use super::StoreSelection;
use super::told::{now, stored, time};
use crate::failure::Failure;
use crate::show::{self, print};
use serde_json::{Value, json};
use shoal_cache::stored_object::StoredObject;
use shoal_store::Error;
use shoal_store::inspect::{Inspect, StoreInfo};
use std::fmt::Write;

/// Describe a store: geometry, objects, bytes, age, write position, and whether it was closed in
/// order
#[derive(clap::Args)]
pub struct StoreInfoOptions {
    #[command(flatten)]
    which: StoreSelection,
    /// Print JSON, one line a store
    #[arg(long)]
    json: bool,
}

/// Times at which the first and the last response of the log were stored.
struct Ages {
    oldest: Option<String>,
    newest: Option<String>,
}

impl StoreInfoOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let (mut text, mut stores) = (String::new(), self.which.open()?);
        for (folder, store) in &stores.seen {
            let (facts, folder) = (store.facts(), folder.display().to_string());
            let ages = match (end_of(&**store, false), end_of(&**store, true)) {
                (Ok(oldest), Ok(newest)) => Ages { oldest, newest },
                (Err(error), _) | (_, Err(error)) => {
                    stores.failures.push(format!("{folder}: {error}"));
                    Ages { oldest: None, newest: None }
                }
            };
            match self.json {
                true => drop(writeln!(text, "{}", as_json(&folder, &facts, &ages))),
                false => text.push_str(&render(&folder, &facts, &ages)),
            }
        }
        print(&text)?;
        stores.end()
    }
}

/// Returns the time at which the first response from one end of the log was stored.
fn end_of(store: &dyn Inspect, newest: bool) -> Result<Option<String>, Error> {
    let (mut found, mut looked_at, now) = (None, 0, now());
    store.list(newest, &mut |listed| {
        looked_at += 1;
        found = StoredObject::read(listed.key, listed.metadata, now).as_ref().and_then(stored).map(time);
        found.is_none() && looked_at < LOOKED_AT_MAX
    })?;
    Ok(found)
}

fn health(facts: &StoreInfo) -> &'static str {
    match (facts.is_live, facts.is_clean) {
        (true, _) => "in use by a running process",
        (false, true) => "closed in order",
        (false, false) => "not closed in order; what its index lacks is found when it is opened",
    }
}

fn render(folder: &str, facts: &StoreInfo, ages: &Ages) -> String {
    let mut text = format!("{folder}: {}, {}\n", facts.architecture, health(facts));
    let share = facts.objects as f64 / facts.objects_max.max(1) as f64 * 100.0;
    let lines = [
        (
            "objects",
            format!(
                "{} of at most {} ({share:.1}%)",
                show::count(facts.objects),
                show::count(facts.objects_max)
            ),
        ),
        ("bytes", format!("{} written of {}", show::size(facts.bytes), show::size(facts.bytes_max))),
        ("index", show::size(facts.index_bytes)),
        (
            "stripes",
            format!(
                "{} of {}, each {}",
                show::count(facts.written_stripes.into()),
                show::count(facts.stripes.into()),
                show::limit(facts.stripe_bytes)
            ),
        ),
        (
            "cursor",
            format!(
                "stripe {}, {} of it, at sequence number {}",
                show::count(facts.cursor.into()),
                show::size(facts.cursor_bytes),
                show::count(facts.sequence)
            ),
        ),
        ("oldest", ages.oldest.clone().unwrap_or_else(|| "-".into())),
        ("newest", ages.newest.clone().unwrap_or_else(|| "-".into())),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:8} {value}");
    }
    text
}

fn as_json(folder: &str, facts: &StoreInfo, ages: &Ages) -> Value {
    json!({
        "store": folder,
        "architecture": facts.architecture,
        "live": facts.is_live,
        "closed_in_order": facts.is_clean,
        "objects": facts.objects,
        "objects_max": facts.objects_max,
        "bytes": facts.bytes,
        "bytes_max": facts.bytes_max,
        "index_bytes": facts.index_bytes,
        "stripe_bytes": facts.stripe_bytes,
        "stripes": facts.stripes,
        "written_stripes": facts.written_stripes,
        "cursor_stripe": facts.cursor,
        "cursor_bytes": facts.cursor_bytes,
        "sequence": facts.sequence,
        "oldest": ages.oldest,
        "newest": ages.newest,
    })
}

/// Number of objects examined for their age from an end of the log; notes have no age.
const LOOKED_AT_MAX: u32 = 1000;
