//! The views that are one table: reasons, origins, objects.

use super::canvas::{BAD, Canvas, Column, DIM, GOOD, LINK, PLAIN, TableCell, WARN};
use super::{micros, percent, rate};
use crate::show;
use crate::top::state::RowOrder;
use shoal_dashboard::documents::{
    ObjectRow, ObjectsDocument, OriginRow, OriginsDocument, ReasonRow, ReasonsDocument,
};
use std::cmp::Reverse;

/// Draws the reasons of misses, then those for which answers are not stored.
pub(super) fn reasons(document: &ReasonsDocument, scroll: usize, canvas: &mut Canvas<'_>) {
    let row = |kind: &'static str, reason: &ReasonRow| {
        let sample = reason.samples.first().cloned().unwrap_or_default();
        vec![
            TableCell::new(reason.reason.clone(), LINK),
            TableCell::new(kind, DIM),
            TableCell::plain(show::short(reason.requests)),
            TableCell::plain(percent(Some(reason.share))),
            TableCell::plain(show::size(reason.bytes)),
            TableCell::plain(if reason.settings.is_empty() {
                "-".to_owned()
            } else {
                reason.settings.join(", ")
            }),
            TableCell::new(sample, DIM),
        ]
    };
    let misses = document.misses.iter().map(|reason| row("miss", reason));
    let not_stored = document.not_stored.iter().map(|reason| row("not stored", reason));
    let rows: Vec<Vec<TableCell>> = misses.chain(not_stored).collect();
    if rows.is_empty() {
        return canvas.line("No request has gone to an origin.", DIM);
    }
    canvas.table(&REASONS, None, &rows, scroll);
    if canvas.rows_left() > 1 {
        canvas.skip(1);
        canvas.line("`shoal explain URL` names the rule that decides; docs/REASONS.md has each remedy.", DIM);
    }
}

/// Draws the origins.
pub(super) fn origins(document: &OriginsDocument, sorting: RowOrder, scroll: usize, canvas: &mut Canvas<'_>) {
    let mut all: Vec<&OriginRow> = document.origins.iter().collect();
    match sorting {
        RowOrder::Requests => {
            all.sort_by_key(|row| Reverse(((row.requests_per_s * 1000.0) as u64, row.requests)))
        }
        RowOrder::Bytes => all.sort_by_key(|row| Reverse(row.errors)),
        RowOrder::Time => all.sort_by_key(|row| Reverse(row.p99_us)),
    }
    let row = |row: &&OriginRow| {
        let style = match row.state.as_str() {
            "up" => GOOD,
            "down" => BAD,
            _ => WARN,
        };
        vec![
            TableCell::plain(row.name.clone()),
            TableCell::new(row.state.clone(), style),
            TableCell::new(show::duration(row.since_ms / 1000), DIM),
            TableCell::plain(rate(row.requests_per_s)),
            TableCell::new(show::short(row.errors), if row.errors > 0 { BAD } else { DIM }),
            TableCell::plain(micros(row.p50_us)),
            TableCell::plain(micros(row.p99_us)),
            TableCell::plain(format!("{}/{}", row.connections, row.max_connections)),
            TableCell::plain(show::short(row.stale_served)),
            TableCell::new(row.site.clone(), DIM),
        ]
    };
    let rows: Vec<Vec<TableCell>> = all.iter().map(row).collect();
    if rows.is_empty() {
        return canvas.line("No site has origins; forward mode asks any.", DIM);
    }
    let sorted = match sorting {
        RowOrder::Requests => 3,
        RowOrder::Bytes => 4,
        RowOrder::Time => 6,
    };
    canvas.table(&ORIGINS, Some(sorted), &rows, scroll);
    if document.others > 0 {
        canvas.line(&format!("{} further origins", document.others), DIM);
    }
}

/// Draws the objects, in the order that the node has chosen.
pub(super) fn objects(document: &ObjectsDocument, sorting: RowOrder, scroll: usize, canvas: &mut Canvas<'_>) {
    let row = |row: &ObjectRow| {
        let style = match row.place.as_str() {
            "ram" | "disk" => GOOD,
            _ => DIM,
        };
        vec![
            TableCell::plain(show::short(row.requests)),
            TableCell::plain(show::size(row.bytes)),
            TableCell::plain(row.origin_ms.map_or("-".into(), |ms| show::micros(ms.saturating_mul(1000)))),
            TableCell::plain(show::size(row.size)),
            TableCell::new(row.place.clone(), style),
            TableCell::new(row.url.clone(), PLAIN),
        ]
    };
    let rows: Vec<Vec<TableCell>> = document.objects.iter().map(row).collect();
    if rows.is_empty() {
        return canvas.line("No object has had a request yet.", DIM);
    }
    let sorted = match sorting {
        RowOrder::Requests => 0,
        RowOrder::Bytes => 1,
        RowOrder::Time => 2,
    };
    canvas.table(&OBJECTS, Some(sorted), &rows, scroll);
    if canvas.rows_left() > 1 {
        canvas.skip(1);
        canvas.line(&format!("Hits in RAM are counted one in {}.", document.sampled_one_in), DIM);
    }
}

const REASONS: [Column; 7] = [
    Column::left("Reason", 22, 0),
    Column::left("of", 10, 70),
    Column::right("requests", 9, 0),
    Column::right("share", 7, 0),
    Column::right("bytes", 8, 90),
    Column::left("settings", 26, 130),
    Column::left("sample", 0, 0),
];

const ORIGINS: [Column; 10] = [
    Column::left("Origin", 0, 0),
    Column::left("state", 8, 0),
    Column::right("for", 12, 90),
    Column::right("a second", 8, 0),
    Column::right("errors", 7, 0),
    Column::right("50%", 8, 80),
    Column::right("99%", 8, 60),
    Column::right("in use", 9, 110),
    Column::right("stale", 7, 120),
    Column::left("site", 16, 100),
];

const OBJECTS: [Column; 6] = [
    Column::right("requests", 9, 0),
    Column::right("bytes", 8, 0),
    Column::right("origin", 11, 70),
    Column::right("size", 8, 60),
    Column::left("in", 4, 50),
    Column::left("URL", 0, 0),
];
