//! A picture of a packing: pages side by side, the objects in them, and those that cross from one
//! page to the next.

use super::csv::CsvTable;
use super::style::colour;
use super::svg::{Anchor, Canvas};

/// Objects in the first pages of a file, once for each way of placing them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// Number of pages drawn.
    pub pages: u64,
    /// Rows, one for each way of placing, with its objects.
    pub rows: Vec<(String, Vec<PlacedObject>)>,
}

/// One object in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedObject {
    /// Number of the object, in order of arrival.
    pub number: u64,
    /// Offset of the object, in bytes from the file's start.
    pub offset: u64,
    /// Size of the object, in bytes.
    pub bytes: u64,
}

impl PlacedObject {
    /// Returns `true` if the object lies in more than one page.
    pub fn crosses(&self, page_bytes: u64) -> bool {
        self.bytes > 0 && self.offset / page_bytes != (self.offset + self.bytes - 1) / page_bytes
    }
}

impl Pages {
    pub(super) fn table(&self) -> CsvTable {
        let mut table =
            CsvTable::new(&["placing", "object", "offset [bytes]", "length [bytes]", "crosses a page"]);
        for (name, objects) in &self.rows {
            for object in objects {
                let cells = [object.number, object.offset, object.bytes].map(|cell| cell.to_string());
                let crosses = if object.crosses(self.page_bytes) { "yes" } else { "no" };
                table.row(&[name, &cells[0], &cells[1], &cells[2], crosses]);
            }
        }
        table
    }

    pub(super) fn draw(&self) -> Canvas {
        let mut canvas = Canvas::new(WIDTH, 26.0 + self.rows.len() as f64 * ROW);
        for (index, (name, objects)) in self.rows.iter().enumerate() {
            self.row(&mut canvas, name, objects, 8.0 + index as f64 * ROW);
        }
        let bottom = 8.0 + self.rows.len() as f64 * ROW;
        let text = format!(
            "pages of {} bytes; numbers are the order of arrival; outlined in red: objects that cross a page",
            self.page_bytes
        );
        canvas.text("soft", Anchor::Start, (LEFT, bottom + 6.0), &text);
        canvas
    }

    fn row(&self, canvas: &mut Canvas, name: &str, objects: &[PlacedObject], top: f64) {
        canvas.text("bold", Anchor::Start, (LEFT, top + 12.0), name);
        let top = top + 20.0;
        let shown = self.pages * self.page_bytes;
        let place = |offset: u64| LEFT + offset.min(shown) as f64 / shown as f64 * (WIDTH - 2.0 * LEFT);
        for object in objects.iter().filter(|object| object.offset < shown) {
            let (from, to) = (place(object.offset), place(object.offset + object.bytes));
            let hint = format!("object {}: {} bytes at {}", object.number, object.bytes, object.offset);
            let size = object.bytes.max(1).ilog2() as usize;
            let class = format!("{} fill edge", colour(size));
            canvas.rectangle(&class, (from, top), (to - from, HEIGHT), &hint);
            if object.crosses(self.page_bytes) {
                canvas.rectangle("claim", (from + 1.5, top + 1.5), (to - from - 3.0, HEIGHT - 3.0), "");
            }
            if to - from >= 13.0 {
                let middle = ((from + to) / 2.0, top + HEIGHT / 2.0 + 4.0);
                canvas.text("bold", Anchor::Middle, middle, &object.number.to_string());
            }
        }
        for page in 0..self.pages {
            let (from, to) = (place(page * self.page_bytes), place((page + 1) * self.page_bytes));
            canvas.rectangle("outline", (from, top - 4.0), (to - from, HEIGHT + 8.0), "");
        }
    }
}

const WIDTH: f64 = 680.0;
const LEFT: f64 = 12.0;
const HEIGHT: f64 = 30.0;
const ROW: f64 = 74.0;
