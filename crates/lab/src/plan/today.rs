//! The first answers of a plan: hits today, possible hits, and the loss behind each other request.

use super::{Demand, Plan};
use crate::character::{CacheAccount, MissCause};
use crate::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use crate::report::{Section, Table};
use std::fmt::Write;

/// Returns the account of a log's cache, for a terminal. It needs no plan: a log without a storable
/// answer has none.
pub fn today(account: &CacheAccount, demand: Option<&Demand>) -> String {
    let mut text = String::from("Today\n");
    let (Some(hits), Some(possible)) = (account.hit_ratio(), account.possible_hit_ratio()) else {
        let _ = writeln!(text, "  {UNTOLD}");
        if let Some(demand) = demand {
            let _ = writeln!(text, "  {} could: storable, and requested before", share(could(demand)));
        }
        return text;
    };
    let _ = writeln!(
        text,
        "  {} hit, of the {} requests whose outcome the log tells",
        share(hits),
        told(account)
    );
    if account.validated > 0 {
        let validated = account.validated as f64 / account.told as f64;
        let _ =
            writeln!(text, "  {} among them only after their origin confirmed the answer", share(validated));
    }
    let _ = writeln!(text, "  {} could, with room for everything", share(possible));
    let losses = account.losses();
    debug_assert!(hits <= possible && possible <= 1.0, "{hits} of {possible}");
    if !losses.is_empty() {
        text.push_str("  lost to\n");
    }
    let mut forbidden = 0.0;
    for (loss, part) in losses {
        let _ = writeln!(text, "  {:>8}  {:<18}{}", share(part), loss.name(), loss.meaning());
        forbidden += if matches!(loss, MissCause::NotStored(_) | MissCause::Bypass) { part } else { 0.0 };
    }
    if forbidden >= WORTH {
        text.push_str("  --filter get plans as if no reason kept an answer from being stored\n");
    }
    text
}

/// Returns the section of a page that answers the same.
pub(super) fn section(plan: &Plan) -> Section {
    let account = &plan.account;
    let mut table = Table::new("Requests whose outcome the log tells", &["outcome", "share", "meaning"]);
    if let Some(hits) = account.hit_ratio() {
        table.row(&["hit", &share(hits), "answered from the store"]);
        for (loss, part) in account.losses() {
            table.row(&[loss.name(), &share(part), loss.meaning()]);
        }
    }
    let is_told = account.tells_hits();
    let note = match is_told {
        true => format!(
            "Only what is lost to {} is a matter of size: the curves below say how much of it a size wins.",
            MissCause::Room.name()
        ),
        false => UNTOLD.into(),
    };
    Section {
        anchor: "today".into(),
        title: "Today".into(),
        question: "What hits today, what could, and what is the rest lost to?".into(),
        figures: if is_told { vec![losses(account)] } else { Vec::new() },
        tables: if is_told { vec![table] } else { Vec::new() },
        notes: vec![note],
        ..Section::default()
    }
}

/// Returns a picture of the hits and of each loss.
fn losses(account: &CacheAccount) -> Figure {
    let hits = account.hit_ratio().unwrap_or_default();
    let sum: f64 = account.losses().iter().map(|(_, part)| part).sum();
    debug_assert!((hits + sum - 1.0).abs() < 1e-9, "each request is a hit or lost");
    let lost = account.losses().into_iter().map(|(loss, part)| Bar::new(loss.name(), &[part]));
    let bars = Bars {
        axis: Axis::linear("requests whose outcome the log tells", Unit::Share),
        parts: vec!["share".into()],
        bars: [Bar::new("hit", &[hits])].into_iter().chain(lost).collect(),
        claimant: String::new(),
    };
    Figure::new(
        "lost",
        "Hits today, and what the rest is lost to",
        "The largest loss first.",
        Chart::Bars(bars),
    )
}

/// Returns the share of all requests that an infinite cache hits after the warm-up.
pub(super) fn could(demand: &Demand) -> f64 {
    demand.achievable * demand.storable_share()
}

pub(super) fn told(account: &CacheAccount) -> String {
    Unit::Count.shown(account.told as f64)
}

pub(super) fn share(share: f64) -> String {
    Unit::Share.shown(share)
}

/// Share of the requests for which a remedy is worth a plan of its own.
const WORTH: f64 = 0.05;
const UNTOLD: &str =
    "the log does not tell what its cache hit: no Cache-Status, no $upstream_cache_status, no result code";
