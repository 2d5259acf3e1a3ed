//! The twelve line styles: colour, dash and mark, the same in the dashboard, in pages that stand
//! alone, and in still pictures.
//!
//! A line has the style of its number. Six colours come twice, with another dash and another mark,
//! so that twelve lines differ in grey as well. `assets/theme.css` and `standalone/marks.js` have
//! the same tables, and a test compares them.

/// One line style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStyle {
    /// Index into [`COLOURS`].
    pub colour: usize,
    /// `stroke-dasharray`, or `none`.
    pub dash: &'static str,
}

/// Colours on light and on dark surfaces.
pub const COLOURS: [(&str, &str); 6] = [
    ("#0b7a75", "#3cc5b7"),
    ("#d1631b", "#ff9a56"),
    ("#2f6fce", "#68a4ff"),
    ("#b8327f", "#f286c0"),
    ("#5b8f14", "#a9d65b"),
    ("#7a4fc4", "#b292f6"),
];

/// Styles of the lines.
pub const LINE_STYLES: [LineStyle; 12] = [
    LineStyle { colour: 0, dash: "none" },
    LineStyle { colour: 1, dash: "7 3" },
    LineStyle { colour: 2, dash: "none" },
    LineStyle { colour: 3, dash: "2 3" },
    LineStyle { colour: 4, dash: "none" },
    LineStyle { colour: 5, dash: "9 3 2 3" },
    LineStyle { colour: 0, dash: "7 3" },
    LineStyle { colour: 1, dash: "none" },
    LineStyle { colour: 2, dash: "2 3" },
    LineStyle { colour: 3, dash: "none" },
    LineStyle { colour: 4, dash: "9 3 2 3" },
    LineStyle { colour: 5, dash: "none" },
];

/// Outlines of marks around 0, 0.
pub const MARKS: [&str; 6] = [
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z",
    "M-2.9-2.9h5.8v5.8h-5.8Z",
    "M0-3.8L3.6 2.6H-3.6Z",
    "M0-4.1L4.1 0L0 4.1L-4.1 0Z",
    "M0 3.8L3.6-2.6H-3.6Z",
    "M-3.4-1.2h2.2v-2.2h2.4v2.2h2.2v2.4h-2.2v2.2h-2.4v-2.2h-2.2Z",
];

/// Returns the mark of a line by its number, and `true` if it is drawn open.
pub fn mark_of(number: usize) -> (&'static str, bool) {
    let turn = number / COLOURS.len();
    let mark = (number + 3 * turn + number / LINE_STYLES.len()) % MARKS.len();
    debug_assert!(number >= LINE_STYLES.len() || turn < 2, "six colours come twice");
    (MARKS[mark], turn % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tables_are_those_of_the_page() {
        let theme = include_str!("../assets/theme.css");
        for (at, (light, dark)) in COLOURS.iter().enumerate() {
            assert!(theme.contains(&format!("--c{at}: light-dark({light}, {dark});")), "colour {at}");
        }
        for (at, style) in LINE_STYLES.iter().enumerate() {
            let rule = format!(".s{at} {{ --own: var(--c{}); --dash: {}; }}", style.colour, style.dash);
            assert!(theme.contains(&rule), "{rule}");
        }
        let script = include_str!("../standalone/marks.js");
        let listed: Vec<&str> =
            script.lines().filter_map(|line| line.trim().strip_prefix("'M")?.strip_suffix("',")).collect();
        let marks: Vec<&str> = MARKS.iter().filter_map(|mark| mark.strip_prefix('M')).collect();
        assert_eq!(listed, marks);
    }

    #[test]
    fn twelve_lines_differ_without_their_colour() {
        let grey: HashSet<_> = (0..12).map(|at| (LINE_STYLES[at].dash, mark_of(at))).collect();
        assert_eq!(grey.len(), 12);
        let coloured: HashSet<_> = LINE_STYLES.iter().map(|style| (style.colour, style.dash)).collect();
        assert_eq!(coloured.len(), 12);
    }
}
