//! Tables in plain text: columns as wide as their widest cell.

use std::fmt::Write;

/// Formats rows in columns. The first row is the heading. Columns in `left` start at the left edge,
/// the others end at the right one.
pub fn table<const N: usize>(rows: &[[String; N]], left: &[usize]) -> String {
    assert!(left.iter().all(|column| *column < N), "a column of the table");
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let width = widths[column];
            let _ = match left.contains(&column) {
                true => write!(line, "{gap}{cell:<width$}"),
                false => write!(line, "{gap}{cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["site", "hits", "why"], ["é.test/", "1,000", ""], ["b/", "2", "stale"]];
        let rows = rows.map(|row| row.map(String::from));
        let expected = "\
site      hits  why
é.test/  1,000
b/           2  stale
";
        assert_eq!(table(&rows, &[0, 2]), expected);
    }
}
