//! The screen of `shoal top` as a function: state in, cells out.

mod canvas;
mod now;
mod tables;
#[cfg(test)]
mod tests;

use super::keys::HELP;
use super::state::{Document, NodeFacts, RowOrder, ScreenState, View};
use crate::show;
use canvas::{BAD, BOLD, Canvas, DIM, GOOD, LINK, PLAIN, WARN};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};

/// Draws the screen.
pub fn draw(state: &ScreenState, buffer: &mut Buffer) {
    let area = *buffer.area();
    buffer.reset();
    let [top, footer] = [area.height.saturating_sub(1), area.height.min(1)];
    let mut canvas = Canvas::new(buffer, Rect { height: top, ..area });
    head(state, &mut canvas);
    if state.shows_help {
        help(&mut canvas);
    } else {
        body(state, &mut canvas);
    }
    let mut canvas = Canvas::new(buffer, Rect { y: area.y + top, height: footer, ..area });
    foot(state, &mut canvas);
}

/// Returns one screen as text, as high as it needs to be.
pub fn text(state: &ScreenState, width: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, TEXT_ROWS));
    let area = *buffer.area();
    let mut canvas = Canvas::new(&mut buffer, area);
    head(state, &mut canvas);
    body(state, &mut canvas);
    let mut lines = lines(&buffer);
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// Returns the rows of a buffer without the blanks at their ends. A wide character is followed by
/// a blank cell, which is left out.
fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area().width);
    if width == 0 {
        return Vec::new();
    }
    let line = |cells: &[ratatui_core::buffer::Cell]| {
        let (mut line, mut skip) = (String::new(), 0);
        for cell in cells {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skip = ratatui_core::text::Span::raw(cell.symbol()).width().saturating_sub(1);
        }
        line.trim_end().to_owned()
    };
    buffer.content().chunks(width).map(line).collect()
}

fn head(state: &ScreenState, canvas: &mut Canvas<'_>) {
    let none = NodeFacts::default();
    let facts = state.answer.as_ref().map_or(&none, |answer| &answer.facts);
    let name = if facts.node.is_empty() { &state.address } else { &facts.node };
    let mut parts = vec![("shoal ".to_owned(), DIM), (name.clone(), BOLD)];
    if state.answer.is_some() {
        parts.push((format!(" {} ", facts.state), state_style(&facts.state)));
        parts.push((format!("up {}, {} ", show::duration(facts.uptime_s), facts.version), DIM));
        parts.push((format!("at {} ", clock(facts.unix_ms)), DIM));
    }
    if let Some(site) = &state.site {
        parts.push((format!("site {site} "), LINK));
    }
    if state.is_paused {
        parts.push(("PAUSED".to_owned(), WARN.add_modifier(Modifier::REVERSED)));
    }
    let parts: Vec<(&str, Style)> = parts.iter().map(|(text, style)| (text.as_str(), *style)).collect();
    canvas.parts(&parts);
    let mut column = 0;
    for (number, view) in View::ALL.into_iter().enumerate() {
        let style = if view == state.view { BOLD.add_modifier(Modifier::REVERSED) } else { PLAIN };
        column = canvas.text(column, canvas.width(), &format!(" {} {} ", number + 1, view.title()), style);
    }
    canvas.skip(1);
    if let Some(why) = &state.trouble {
        canvas.line(&format!("The numbers are old: {why}"), BAD);
    }
    canvas.skip(1);
}

fn state_style(state: &str) -> Style {
    match state {
        "ready" => GOOD,
        "degraded" | "draining" => WARN,
        _ => BAD,
    }
}

fn body(state: &ScreenState, canvas: &mut Canvas<'_>) {
    let (sorting, scroll) = (state.sorting(), state.scroll);
    match state.document() {
        None if state.trouble.is_some() => {}
        None => canvas.line("asking …", DIM),
        Some(Document::Now(now)) => now::draw(now, sorting, scroll, canvas),
        Some(Document::Reasons(reasons)) => tables::reasons(reasons, scroll, canvas),
        Some(Document::Origins(origins)) => tables::origins(origins, sorting, scroll, canvas),
        Some(Document::Objects(objects)) => tables::objects(objects, sorting, scroll, canvas),
    }
}

fn help(canvas: &mut Canvas<'_>) {
    for (keys, meaning) in HELP {
        canvas.text(2, 12, keys, BOLD);
        canvas.text(15, canvas.width(), meaning, PLAIN);
        canvas.skip(1);
    }
    canvas.skip(1);
    canvas.line("  docs/DASHBOARD.md explains the views.", DIM);
}

fn foot(state: &ScreenState, canvas: &mut Canvas<'_>) {
    let order = match (state.view, state.sorting()) {
        (View::Reasons, _) => String::new(),
        (View::Origins, RowOrder::Bytes) => "by errors".to_owned(),
        (_, RowOrder::Requests) => "by requests".to_owned(),
        (_, RowOrder::Bytes) => "by bytes".to_owned(),
        (_, RowOrder::Time) => "by time".to_owned(),
    };
    canvas.line(&format!("1-4 views  s order {order}  p pause  ? help  q end"), DIM);
}

/// Formats the time of day, UTC.
fn clock(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats a share.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1}%", share * 100.0))
}

/// Formats a time.
fn micros(micros: Option<u64>) -> String {
    micros.map_or("-".into(), show::micros)
}

/// Formats a rate in few characters.
fn rate(per_s: f64) -> String {
    match per_s {
        per_s if !per_s.is_finite() || per_s <= 0.0 => "0".into(),
        per_s if per_s < 99.95 => format!("{per_s:.1}"),
        per_s => show::short(per_s.round() as u64),
    }
}

/// Formats bytes a second.
fn byte_rate(per_s: f64) -> String {
    let bytes = if per_s.is_finite() { per_s.max(0.0) as u64 } else { 0 };
    format!("{}/s", show::size(bytes))
}

/// Rows of a screen as text.
const TEXT_ROWS: u16 = 160;
