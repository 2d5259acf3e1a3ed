//! The view "Now": rates, sources, limits, latency, sites.

use super::canvas::{BAD, BOLD, Canvas, Column, DIM, GOOD, LINK, PLAIN, TableCell, WARN};
use super::{byte_rate, micros, percent, rate};
use crate::show;
use crate::top::state::RowOrder;
use ratatui_core::style::{Color, Style};
use shoal_dashboard::documents::{AnswerRow, Heat, Limits, NowDocument, SiteRow};
use std::cmp::Reverse;

/// Draws the view.
pub(super) fn draw(now: &NowDocument, sorting: RowOrder, scroll: usize, canvas: &mut Canvas<'_>) {
    tiles(now, canvas);
    for warning in now.warnings.iter().take(WARNINGS) {
        canvas.line(&format!("! {warning}"), WARN);
    }
    canvas.skip(1);
    let width = canvas.width();
    let rows = if width >= WIDE {
        let half = width / 5 * 3;
        let left = {
            let mut part = canvas.part(0, half.saturating_sub(2));
            answers(&now.answers, &mut part);
            part.drawn()
        };
        let mut part = canvas.part(half, width - half);
        limits(&now.limits, &mut part);
        left.max(part.drawn())
    } else {
        let mut part = canvas.part(0, width);
        answers(&now.answers, &mut part);
        part.skip(1);
        limits(&now.limits, &mut part);
        part.drawn()
    };
    canvas.skip(rows + 1);
    if canvas.rows_left() > HEAT_ROWS + 6 && now.heat.sources.values().any(|columns| !columns.is_empty()) {
        heat(&now.heat, canvas);
        canvas.skip(1);
    }
    sites(now, sorting, scroll, canvas);
}

/// Draws the large numbers, side by side as far as they fit.
fn tiles(now: &NowDocument, canvas: &mut Canvas<'_>) {
    let tiles = [
        ("requests/s", rate(now.requests_per_s), format!("{} in all", show::short(now.requests))),
        ("hits", percent(now.hit_ratio), format!("{} over the day", percent(now.hit_ratio_day))),
        (
            "byte hits",
            percent(now.byte_hit_ratio),
            format!("{} over the day", percent(now.byte_hit_ratio_day)),
        ),
        ("sent", byte_rate(now.bytes_per_s), format!("{} of origins", byte_rate(now.origin_bytes_per_s))),
        ("spared origins", show::size(now.origin_bytes_saved), "since the start".to_owned()),
    ];
    let a_row = usize::from((canvas.width() / TILE).clamp(1, tiles.len() as u16));
    for tiles in tiles.chunks(a_row) {
        for (line, style) in [(0, DIM), (1, BOLD.fg(Color::Cyan)), (2, DIM)] {
            for (at, (title, value, more)) in tiles.iter().enumerate() {
                let text = [*title, value, more][line];
                canvas.text(at as u16 * TILE, TILE - 1, text, style);
            }
            canvas.skip(1);
        }
    }
}

fn answers(answers: &[AnswerRow], canvas: &mut Canvas<'_>) {
    let all: f64 = answers.iter().map(|row| row.requests_per_s).sum();
    let wide = canvas.width() >= 56;
    canvas.text(0, 13, "Answers from", BOLD);
    let bar = canvas.width().saturating_sub(if wide { 47 } else { 30 }).max(4);
    let columns =
        [(13 + bar, 8, "a second"), (22 + bar, 7, "share"), (30 + bar, 8, "50%"), (39 + bar, 8, "99%")];
    for (column, width, title) in columns.iter().take(if wide { 4 } else { 2 }) {
        canvas.text(*column, *width, &format!("{title:>0$}", usize::from(*width)), BOLD);
    }
    canvas.skip(1);
    let mut rows: Vec<&AnswerRow> = answers.iter().filter(|row| row.requests > 0).collect();
    rows.sort_by_key(|row| Reverse((row.requests_per_s * 1000.0) as u64));
    if rows.is_empty() {
        return canvas.line("no request yet", DIM);
    }
    for row in rows {
        let share = if all > 0.0 { row.requests_per_s / all } else { 0.0 };
        let style = source_style(&row.source);
        canvas.text(0, 12, source_name(&row.source), style);
        canvas.bar(13, bar, share, style);
        let share = if all > 0.0 { percent(Some(share)) } else { "-".into() };
        let cells = [rate(row.requests_per_s), share, micros(row.p50_us), micros(row.p99_us)];
        for ((column, width, _), text) in columns.iter().zip(&cells).take(if wide { 4 } else { 2 }) {
            canvas.text(*column, *width, &format!("{text:>0$}", usize::from(*width)), PLAIN);
        }
        canvas.skip(1);
    }
}

/// Returns the name of a source as the dashboard has it.
fn source_name(source: &str) -> &str {
    match source {
        "ram" => "RAM",
        "disk" => "Disk",
        "neighbourhood" => "Neighbours",
        "peer" => "Peer",
        "origin" => "Origin",
        "stale" => "Stale",
        "error" => "Error",
        "tunnel" => "Tunnel",
        "own" => "This node",
        other => other,
    }
}

fn source_style(source: &str) -> Style {
    match source {
        "ram" | "disk" | "neighbourhood" => GOOD,
        "peer" => LINK,
        "origin" => Style::new().fg(Color::Blue),
        "stale" => WARN,
        "error" => BAD,
        _ => DIM,
    }
}

fn limits(limits: &Limits, canvas: &mut Canvas<'_>) {
    canvas.line("Limits", BOLD);
    let share = |used: f64, limit: f64| if limit > 0.0 { used / limit } else { 0.0 };
    let of_bytes = |used: u64, limit: u64| {
        (share(used as f64, limit as f64), format!("{} of {}", show::size(used), show::limit(limit)))
    };
    let (connections, most) = (limits.connections, limits.max_connections);
    let rows = [
        (
            "CPU",
            true,
            (
                share(limits.cpu_cores_used, limits.cores as f64),
                format!("{:.2} of {} cores", limits.cpu_cores_used, limits.cores),
            ),
        ),
        (
            "Clients",
            true,
            (
                share(connections as f64, most as f64),
                format!("{} of {}", show::short(connections), show::short(most)),
            ),
        ),
        // RAM tier and disk are full in normal work.
        ("RAM tier", false, of_bytes(limits.ram_used, limits.ram_limit)),
        ("Disk", false, of_bytes(limits.disk_used, limits.disk_limit)),
    ];
    let bar = canvas.width().saturating_sub(10 + 22).clamp(4, 40);
    for (title, warns, (share, text)) in rows {
        let style = match share {
            share if warns && share >= 0.97 => BAD,
            share if warns && share >= 0.85 => WARN,
            _ => LINK,
        };
        canvas.text(0, 9, title, PLAIN);
        canvas.bar(10, bar, share, style);
        canvas.text(11 + bar, canvas.width(), &text, PLAIN);
        canvas.skip(1);
    }
    canvas.line(
        &format!(
            "{} resident, {} connections to origins",
            show::size(limits.rss),
            show::short(limits.origin_connections)
        ),
        DIM,
    );
}

/// Draws times to answer of the last minutes: a column for each ten seconds, a row for each power
/// of ten. The scale is the logarithm of the number of answers.
fn heat(heat: &Heat, canvas: &mut Canvas<'_>) {
    let columns = heat.sources.values().map(Vec::len).max().unwrap_or(0);
    let mut counts = vec![[0_u64; HEAT_CLASSES.len()]; columns];
    for source in heat.sources.values() {
        // The newest columns of all sources are at the right.
        let offset = columns - source.len();
        for (at, buckets) in source.iter().enumerate() {
            for (bucket, count) in buckets.iter().enumerate() {
                counts[offset + at][class_of(heat, bucket)] += u64::from(*count);
            }
        }
    }
    debug_assert!(heat.sources.values().all(|source| source.len() <= columns), "the longest has them all");
    let room = usize::from(canvas.width().saturating_sub(HEAT_TITLE));
    let shown = &counts[columns.saturating_sub(room)..];
    let most = shown.iter().flatten().copied().max().unwrap_or(0);
    let span = show::duration(shown.len() as u64 * heat.column_s);
    canvas.line(&format!("Times to answer, the last {span}, newest at the right"), BOLD);
    for (class, (_, title)) in HEAT_CLASSES.iter().enumerate().rev() {
        canvas.text(0, HEAT_TITLE - 1, &format!("{title:>0$}", usize::from(HEAT_TITLE) - 1), DIM);
        for (at, column) in shown.iter().enumerate() {
            let (cell, style) = shade(column[class], most);
            canvas.text(HEAT_TITLE + at as u16, 1, cell, style);
        }
        canvas.skip(1);
    }
}

/// Returns the class of a bucket, by its upper bound. The last bucket has none.
fn class_of(heat: &Heat, bucket: usize) -> usize {
    let edge = heat.edges_us.get(bucket).copied().unwrap_or(u64::MAX);
    HEAT_CLASSES.iter().position(|(most, _)| edge <= *most).unwrap_or(HEAT_CLASSES.len() - 1)
}

fn shade(count: u64, most: u64) -> (&'static str, Style) {
    if count == 0 {
        return ("·", DIM);
    }
    debug_assert!(count <= most, "{most} is the largest");
    let share = (count as f64 + 1.0).ln() / (most as f64 + 1.0).ln().max(f64::MIN_POSITIVE);
    let step = ((share * SHADES.len() as f64).ceil() as usize).clamp(1, SHADES.len()) - 1;
    (SHADES[step].0, Style::new().fg(Color::Indexed(SHADES[step].1)))
}

fn sites(now: &NowDocument, sorting: RowOrder, scroll: usize, canvas: &mut Canvas<'_>) {
    let mirrors = now.mirrors.iter().map(|mirror| (&mirror.site, mirror.kind.as_str()));
    let mut all: Vec<(&SiteRow, &str)> = now.sites.iter().map(|site| (site, "")).chain(mirrors).collect();
    match sorting {
        RowOrder::Requests => {
            all.sort_by_key(|(site, _)| Reverse(((site.requests_per_s * 1000.0) as u64, site.requests)))
        }
        RowOrder::Bytes => all.sort_by_key(|(site, _)| Reverse((site.bytes_per_s as u64, site.requests))),
        RowOrder::Time => all.sort_by_key(|(site, _)| Reverse(site.p99_us)),
    }
    let row = |(site, kind): &(&SiteRow, &str)| {
        let name = if kind.is_empty() { site.name.clone() } else { format!("{} ({kind})", site.name) };
        vec![
            TableCell::plain(name),
            TableCell::plain(rate(site.requests_per_s)),
            TableCell::plain(show::short(site.requests)),
            TableCell::plain(percent(site.hit_ratio)),
            TableCell::plain(percent(site.byte_hit_ratio)),
            TableCell::plain(byte_rate(site.bytes_per_s)),
            TableCell::plain(micros(site.p99_us)),
            TableCell::new(show::short(site.errors), if site.errors > 0 { BAD } else { DIM }),
        ]
    };
    let rows: Vec<Vec<TableCell>> = all.iter().map(row).collect();
    if rows.is_empty() {
        return canvas.line("No site has had a request yet.", DIM);
    }
    let sorted = match sorting {
        RowOrder::Requests => 1,
        RowOrder::Bytes => 5,
        RowOrder::Time => 6,
    };
    canvas.table(&SITES, Some(sorted), &rows, scroll);
    if now.sites_others > 0 {
        canvas.line(&format!("{} further sites have no row of their own", now.sites_others), DIM);
    }
}

const SITES: [Column; 8] = [
    Column::left("Site", 0, 0),
    Column::right("a second", 8, 0),
    Column::right("requests", 9, 60),
    Column::right("hits", 7, 0),
    Column::right("byte hits", 9, 80),
    Column::right("sent", 10, 50),
    Column::right("99%", 8, 70),
    Column::right("errors", 7, 90),
];

/// Classes of times: the longest, and the title.
const HEAT_CLASSES: [(u64, &str); 6] = [
    (100, "100 µs"),
    (1_000, "1 ms"),
    (10_000, "10 ms"),
    (100_000, "100 ms"),
    (1_000_000, "1 s"),
    (u64::MAX, "more"),
];

/// Signs and colours of the heat map, from few answers to many.
const SHADES: [(&str, u8); 4] = [("░", 24), ("▒", 31), ("▓", 38), ("█", 51)];

/// Rows of the heat map, its title too.
const HEAT_ROWS: u16 = 7;

/// Cells of the titles of the heat map's rows.
const HEAT_TITLE: u16 = 8;

/// Cells of a large number.
const TILE: u16 = 21;

/// Columns from which on two parts stand side by side.
const WIDE: u16 = 100;

/// Warnings that are shown.
const WARNINGS: usize = 4;
