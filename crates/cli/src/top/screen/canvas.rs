//! Cells of a screen: text that is cut and obeys nothing, bars, tables. Nothing is drawn outside.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Span;
use shoal_dashboard::shown;

/// Part of a screen, filled from above.
pub struct Canvas<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    /// First free row, counted from the area's top.
    row: u16,
}

/// Column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    /// Cells; 0 takes the rest.
    pub width: u16,
    pub is_right: bool,
    /// Least width of the table at which the column is shown.
    pub least: u16,
}

/// Cell of a table.
pub struct TableCell {
    pub text: String,
    pub style: Style,
}

impl<'b> Canvas<'b> {
    /// Covers a part of the buffer.
    pub fn new(buffer: &'b mut Buffer, area: Rect) -> Self {
        let area = area.intersection(*buffer.area());
        Self { buffer, area, row: 0 }
    }

    /// Returns the columns.
    pub fn width(&self) -> u16 {
        self.area.width
    }

    /// Returns the number of free rows.
    pub fn rows_left(&self) -> u16 {
        self.area.height.saturating_sub(self.row)
    }

    /// Leaves rows empty.
    pub fn skip(&mut self, rows: u16) {
        self.row = self.row.saturating_add(rows);
    }

    /// Divides the free rows: returns a canvas of the left columns, which draws from here on. The
    /// rows stay free here.
    pub fn part(&mut self, from: u16, width: u16) -> Canvas<'_> {
        let left = self.area.x.saturating_add(from).min(self.area.right());
        let area = Rect {
            x: left,
            y: self.area.y.saturating_add(self.row).min(self.area.bottom()),
            width: width.min(self.area.right() - left),
            height: self.rows_left(),
        };
        Canvas { buffer: self.buffer, area, row: 0 }
    }

    /// Returns the number of rows that are drawn.
    pub fn drawn(&self) -> u16 {
        self.row.min(self.area.height)
    }

    /// Writes text at a column of the current row, within `width` cells. Returns the next column.
    /// Characters that a terminal obeys are escaped; text that is cut ends with an ellipsis.
    pub fn text(&mut self, column: u16, width: u16, text: &str, style: Style) -> u16 {
        if self.rows_left() == 0 || column >= self.area.width {
            return column;
        }
        let width = width.min(self.area.width - column);
        let (x, y) = (self.area.x + column, self.area.y + self.row);
        let text = shown(text);
        let is_cut = Span::raw(text.as_str()).width() > usize::from(width);
        let room = if is_cut { width.saturating_sub(1) } else { width };
        let (end, _) = self.buffer.set_stringn(x, y, &text, usize::from(room), style);
        let end = match is_cut && width > 0 {
            true => self.buffer.set_stringn(end, y, "…", 1, style).0,
            false => end,
        };
        debug_assert!(end <= self.area.right(), "text stays in its part");
        end - self.area.x
    }

    /// Writes text that ends at a column.
    fn text_right(&mut self, column: u16, width: u16, text: &str, style: Style) {
        let length = u16::try_from(Span::raw(shown(text).as_str()).width()).unwrap_or(u16::MAX).min(width);
        self.text(column + width - length, length, text, style);
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str, style: Style) {
        self.text(0, self.area.width, text, style);
        self.row = self.row.saturating_add(1);
    }

    /// Writes parts one after the other on the current row, and ends it.
    pub fn parts(&mut self, parts: &[(&str, Style)]) {
        let mut column = 0;
        for (text, style) in parts {
            column = self.text(column, self.area.width, text, *style);
        }
        self.row = self.row.saturating_add(1);
    }

    /// Draws a bar in eighths of a cell at a column of the current row.
    pub fn bar(&mut self, column: u16, width: u16, share: f64, style: Style) {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let mut eighths = (share * f64::from(width) * 8.0).round() as usize;
        debug_assert!(eighths <= usize::from(width) * 8, "a bar has an end");
        if share > 0.0 {
            eighths = eighths.max(1);
        }
        let mut bar = "█".repeat(eighths / 8);
        bar.extend(EIGHTHS.chars().nth((eighths % 8).wrapping_sub(1)));
        let end = self.text(column, width, &bar, style);
        let rest = (column + width).saturating_sub(end);
        self.text(end, rest, &"·".repeat(usize::from(rest)), DIM);
    }

    /// Draws a table from `scroll` on, in the rows that are free. Rows below are counted.
    pub fn table(
        &mut self,
        columns: &[Column],
        sorted: Option<usize>,
        rows: &[Vec<TableCell>],
        scroll: usize,
    ) {
        let shown: Vec<usize> =
            (0..columns.len()).filter(|at| columns[*at].least <= self.area.width).collect();
        let fixed: u16 = shown.iter().map(|at| columns[*at].width + GAP).sum();
        let rest = self.area.width.saturating_sub(fixed);
        let width = |at: usize| if columns[at].width == 0 { rest } else { columns[at].width };
        let mut column = 0;
        for at in &shown {
            let style = if sorted == Some(*at) { BOLD.add_modifier(Modifier::UNDERLINED) } else { BOLD };
            self.cell(column, width(*at), columns[*at].is_right, columns[*at].title, style);
            column += width(*at) + GAP;
        }
        self.skip(1);
        let room = usize::from(self.rows_left());
        let scroll = scroll.min(rows.len().saturating_sub(1));
        let is_cut = rows.len() > scroll + room;
        let most = if is_cut { room.saturating_sub(1) } else { room };
        for row in rows.iter().skip(scroll).take(most) {
            let mut column = 0;
            for at in &shown {
                let Some(cell) = row.get(*at) else { continue };
                self.cell(column, width(*at), columns[*at].is_right, &cell.text, cell.style);
                column += width(*at) + GAP;
            }
            self.skip(1);
        }
        debug_assert!(most <= room, "rows stay in the part");
        if is_cut {
            let below = rows.len() - scroll - most;
            self.line(&format!("… {below} more rows: ↓"), DIM);
        }
    }

    fn cell(&mut self, column: u16, width: u16, is_right: bool, text: &str, style: Style) {
        match is_right {
            true => self.text_right(column, width, text, style),
            false => drop(self.text(column, width, text, style)),
        }
    }
}

impl Column {
    /// Creates a column of texts.
    pub const fn left(title: &'static str, width: u16, least: u16) -> Self {
        Self { title, width, is_right: false, least }
    }

    /// Creates a column of numbers.
    pub const fn right(title: &'static str, width: u16, least: u16) -> Self {
        Self { title, width, is_right: true, least }
    }
}

impl TableCell {
    /// Creates a cell.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    /// Creates a cell in the plain style.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, PLAIN)
    }
}

/// Style of ordinary text: the terminal's own.
pub const PLAIN: Style = Style::new();
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub const DIM: Style = Style::new().fg(Color::DarkGray);
pub const GOOD: Style = Style::new().fg(Color::Green);
pub const WARN: Style = Style::new().fg(Color::Yellow);
pub const BAD: Style = Style::new().fg(Color::Red);
pub const LINK: Style = Style::new().fg(Color::Cyan);

/// Cells between columns.
const GAP: u16 = 1;

/// Parts of a cell, from one eighth on.
const EIGHTHS: &str = "▏▎▍▌▋▊▉";

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: u16, height: u16, draw: impl FnOnce(&mut Canvas<'_>)) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let area = *buffer.area();
        draw(&mut Canvas::new(&mut buffer, area));
        super::super::lines(&buffer)
    }

    #[test]
    fn text_is_cut_and_obeys_nothing() {
        assert_eq!(drawn(6, 1, |canvas| canvas.line("abcdefgh", PLAIN)), ["abcde…"]);
        assert_eq!(drawn(6, 1, |canvas| canvas.line("abcdef", PLAIN)), ["abcdef"]);
        assert_eq!(drawn(5, 1, |canvas| canvas.line("猫猫猫", PLAIN)), ["猫猫…"]);
        assert_eq!(
            drawn(24, 1, |canvas| canvas.line("a\u{1b}[2J\u{202e}b", PLAIN)),
            ["a\\u{1B}[2J\\u{202E}b"]
        );
        let long = "x".repeat(8192);
        assert_eq!(drawn(4, 1, |canvas| canvas.line(&long, PLAIN)), ["xxx…"]);
        assert_eq!(drawn(0, 0, |canvas| canvas.line("a", PLAIN)), [""; 0]);
        assert_eq!(drawn(4, 1, |canvas| (0..9).for_each(|_| canvas.line("a", PLAIN))), ["a"]);
    }

    #[test]
    fn bars_fill_their_share() {
        let bar = |share: f64| drawn(8, 1, |canvas| canvas.bar(0, 8, share, GOOD)).remove(0);
        assert_eq!(bar(0.0), "········");
        assert_eq!(bar(0.5), "████····");
        assert_eq!(bar(1.0), "████████");
        assert_eq!(bar(7.0), "████████");
        assert_eq!(bar(1e-9), "▏·······");
        assert_eq!(bar(f64::NAN), "········");
    }

    #[test]
    fn tables_fit_and_scroll() {
        let columns = [Column::left("site", 0, 0), Column::right("n", 4, 0), Column::right("more", 5, 30)];
        let rows: Vec<Vec<TableCell>> = (0..5)
            .map(|at| {
                vec![
                    TableCell::plain(format!("s{at}")),
                    TableCell::plain(at.to_string()),
                    TableCell::plain("x"),
                ]
            })
            .collect();
        let table = |width, height, scroll| {
            drawn(width, height, |canvas| canvas.table(&columns, Some(1), &rows, scroll))
        };
        assert_eq!(table(12, 4, 0), ["site      n", "s0        0", "s1        1", "… 3 more ro…"]);
        assert_eq!(table(12, 4, 3), ["site      n", "s3        3", "s4        4", ""]);
        assert_eq!(table(12, 3, 99), ["site      n", "s4        4", ""]);
        assert!(table(30, 3, 0)[0].ends_with("more"));
        assert_eq!(table(3, 2, 0).len(), 2);
    }
}
