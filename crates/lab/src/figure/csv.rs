//! A table as comma-separated values (RFC 4180, with plain line feeds).

/// Rows of cells under a heading.
pub(crate) struct CsvTable {
    text: String,
}

impl CsvTable {
    /// Creates a table with this heading.
    pub fn new(heading: &[&str]) -> Self {
        let mut table = Self { text: String::new() };
        table.row(heading);
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&str]) {
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.cell(cell);
        }
        self.text.push('\n');
    }

    /// Returns the whole text.
    pub fn text(self) -> String {
        self.text
    }

    fn cell(&mut self, cell: &str) {
        if cell.contains(['"', ',', '\n', '\r']) {
            self.text.push('"');
            self.text.push_str(&cell.replace('"', "\"\""));
            self.text.push('"');
        } else {
            self.text.push_str(cell);
        }
    }
}

/// Formats a number with at most six decimals and no trailing zeros, enough to compute on and short
/// enough to read. Small numbers have seven digits and a power of ten, so that none becomes 0.
pub(crate) fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{:e}", format!("{value:.6e}").parse::<f64>().unwrap_or(value));
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}
