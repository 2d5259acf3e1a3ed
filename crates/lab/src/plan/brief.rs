//! The ten lines that a plan begins with: hits today, possible hits, the losses, and the machine to
//! buy.

use super::text::{lasting, within};
use super::today::{could, share, told};
use super::{Bound, Plan, bytes};
use crate::character::CacheAccount;
use crate::figure::Unit;
use shoal_dashboard::shown;

/// Returns the first answers for a log of this name, in at most ten lines. `unread` tells of lines
/// that were not read, and may be empty.
pub fn brief(plan: &Plan, log: &str, unread: &str) -> String {
    let more = "--all prints the details; --html FILE draws them; --settings FILE writes shoal.toml";
    let last = ("more".to_owned(), more.to_owned());
    let lines = answers(plan, log, unread).into_iter().chain([last]);
    lines.map(|(name, answer)| format!("{name:<12}{answer}\n")).collect()
}

/// Returns the answers, each with its name.
pub(super) fn answers(plan: &Plan, log: &str, unread: &str) -> Vec<(String, String)> {
    let answers = [
        ("log", read(plan, log, unread)),
        ("hits today", hits_today(plan)),
        ("possible", possible(plan)),
        ("lost to", lost_to(plan)),
        ("buy", buy(plan)),
        ("hits then", hits_then(plan)),
        ("forecast", forecast(plan)),
        ("drive", drive(plan)),
        ("in doubt", in_doubt(plan)),
    ];
    debug_assert!(answers.len() < LINES_MAX, "one line is left for the way to more");
    debug_assert!(answers.iter().all(|(_, answer)| !answer.contains('\n')), "an answer is a line");
    let given = answers.into_iter().filter(|(_, answer)| !answer.is_empty());
    given.map(|(name, answer)| (name.to_owned(), answer)).collect()
}

fn read(plan: &Plan, log: &str, unread: &str) -> String {
    let demand = &plan.demand;
    let unread = if unread.is_empty() { String::new() } else { format!("; {unread}") };
    format!(
        "{}: {} requests, {} of them storable; {} objects, {}{unread}",
        shown(log),
        count(demand.requests),
        share(demand.storable_share()),
        count(demand.objects),
        bytes(demand.unique_bytes)
    )
}

fn hits_today(plan: &Plan) -> String {
    let account = &plan.account;
    match account.hit_ratio() {
        Some(hits) => format!("{} of {} requests whose outcome the log tells", share(hits), told(account)),
        None => "unknown: the log has no Cache-Status, $upstream_cache_status or result code".into(),
    }
}

fn possible(plan: &Plan) -> String {
    match plan.account.possible_hit_ratio() {
        Some(possible) => format!("{} of them, with room for everything", share(possible)),
        None => format!("{} of all requests, with room for everything", share(could(&plan.demand))),
    }
}

/// Returns the largest losses. A log without outcomes leaves those of a cache with room for all.
fn lost_to(plan: &Plan) -> String {
    let losses: Vec<(&str, f64)> = match plan.account.tells_hits() {
        true => told_losses(&plan.account),
        false => {
            let storable = plan.demand.storable_share();
            let first = storable * (1.0 - plan.demand.achievable);
            vec![("first request", first), ("not storable", 1.0 - storable)]
        }
    };
    debug_assert!(losses.iter().map(|(_, part)| part).sum::<f64>() < 1.0 + 1e-9, "each request is lost once");
    let rest: f64 = losses.iter().skip(LOSSES_SHOWN).map(|(_, part)| part).sum();
    let largest = losses.into_iter().take(LOSSES_SHOWN).chain([("others", rest)]);
    let largest = largest.filter(|(_, part)| *part >= LEAST_SHOWN);
    let named: Vec<String> = largest.map(|(name, part)| format!("{name} {}", share(part))).collect();
    if named.is_empty() { "nothing".into() } else { named.join(", ") }
}

fn told_losses(account: &CacheAccount) -> Vec<(&'static str, f64)> {
    account.losses().into_iter().map(|(loss, part)| (loss.name(), part)).collect()
}

fn buy(plan: &Plan) -> String {
    let choice = &plan.choice;
    let disk = match choice.disk_bytes {
        0 => "no disk".into(),
        disk => format!("{} of disk ({})", bytes(disk), choice.architecture),
    };
    format!("{} of RAM, {disk}", bytes(choice.ram_bytes))
}

fn hits_then(plan: &Plan) -> String {
    let (expected, storable) = (&plan.expected, plan.demand.storable_share());
    debug_assert!((0.0..=1.0).contains(&storable), "{storable} of the requests");
    debug_assert!(
        expected.hit_ratio() <= 1.0 + 1e-9 && expected.byte_hit_ratio <= 1.0 + 1e-9,
        "{expected:?}"
    );
    format!(
        "{} of all requests once warm, {} in RAM and {} on disk; {} of the bytes",
        share(expected.hit_ratio() * storable),
        share(expected.ram_hit_ratio * storable),
        share(expected.disk_hit_ratio * storable),
        share(expected.byte_hit_ratio)
    )
}

fn forecast(plan: &Plan) -> String {
    let forecast = &plan.future.forecast;
    let requests = count(forecast.requests as u64);
    format!("{} of the next {requests} storable requests", within(forecast.hit_ratio, forecast.error))
}

/// Returns the work of the recommended disk; empty without a disk.
fn drive(plan: &Plan) -> String {
    let (choice, disk) = (&plan.choice, &plan.disk);
    let wear = disk.wear.iter().find(|wear| wear.architecture == choice.architecture);
    let Some(wear) = wear.filter(|_| choice.disk_bytes > 0) else { return String::new() };
    let Some(peak) = plan.demand.storable_peak() else {
        return "unknown: the log has no times".into();
    };
    debug_assert!(peak >= 0.0, "{peak} requests a second");
    let operations = peak * disk.ios(plan.expected.disk_hit_ratio, plan.expected.write_ratio);
    let written =
        wear.bytes_per_day.map_or(String::new(), |day| format!(", {} written a day", bytes(day as u64)));
    let years = wear.years.map_or(String::new(), |years| format!(", lasts {}", lasting(years)));
    format!("{operations:.1} operations a second at the peak{written}{years}")
}

/// Returns the assumption with the largest effect.
fn in_doubt(plan: &Plan) -> String {
    let effect = |bound: &Bound| bound.otherwise.map_or(0.0, |otherwise| (bound.hit_ratio - otherwise).abs());
    let largest = plan.bounds.iter().max_by(|a, b| effect(a).total_cmp(&effect(b)));
    let Some((bound, otherwise)) = largest.and_then(|bound| Some((bound, bound.otherwise?))) else {
        return String::new();
    };
    format!("{} could hit instead of {} if {}", share(otherwise), share(bound.hit_ratio), bound.other)
}

fn count(number: u64) -> String {
    Unit::Count.shown(number as f64)
}

/// Lines of the first answers.
const LINES_MAX: usize = 10;
/// Losses that are named; the others are summed.
const LOSSES_SHOWN: usize = 4;
/// Smallest share that is shown as more than nothing.
const LEAST_SHOWN: f64 = 5e-4;
