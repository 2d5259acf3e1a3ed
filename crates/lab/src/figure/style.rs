//! The look that all figures share: one style sheet with a light and a dark face. Lines have the
//! styles of the dashboard.

use shoal_dashboard::{COLOURS as PAIRS, LINE_STYLES, mark_of};
use std::fmt::Write;
use std::sync::LazyLock;

/// Colours that a series may have.
pub(super) const COLOURS: usize = PAIRS.len();

/// Returns the class of the series' style. A series after the twelfth has the first colour and dash
/// again, with another mark.
pub(super) fn colour(index: usize) -> String {
    format!("s{}", index % LINE_STYLES.len())
}

/// Returns the outline of the series' mark, and its class.
pub(super) fn mark(index: usize) -> (&'static str, String) {
    let (outline, is_open) = mark_of(index);
    (outline, format!("{} {}", colour(index), if is_open { "open" } else { "fill edge" }))
}

/// Returns the approximate width of a text at the size of labels: its width in bold in the wider
/// sans-serif fonts.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> f64 {
    match letter {
        'i' | 'l' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | ' ' | 'j' | 'I' => 4.8,
        'm' | 'w' | 'M' | 'W' | '%' => 11.5,
        _ if letter.is_uppercase() => 9.0,
        _ => 7.8,
    }
}

/// The style sheet. All rules stand below `.shoal-figure`, so that several figures can share a
/// page.
pub(crate) static STYLE: LazyLock<String> = LazyLock::new(|| {
    let face = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let colour = |(at, pair)| format!("--c{at}:{}", pick(pair));
        PAIRS.iter().enumerate().map(colour).collect::<Vec<_>>().join(";")
    };
    let (light, dark) = (face(|pair| pair.0), face(|pair| pair.1));
    let mut style = format!(
        ".shoal-figure{{{LIGHT};{light};{FONT}}}@media (prefers-color-scheme:dark){{.shoal-figure{{{DARK};{dark}}}}}{RULES}"
    );
    for (at, line) in LINE_STYLES.iter().enumerate() {
        let _ = write!(style, ".shoal-figure .s{at}{{--c:var(--c{});--dash:{}}}", line.colour, line.dash);
        if at >= COLOURS {
            let _ = write!(style, ".shoal-figure rect.s{at}{{fill-opacity:.45}}");
        }
    }
    style
});

const LIGHT: &str = "--ink:#16222b;--soft:#52626f;--rule:#dde4e9;--paper:#b3261e;--face:#ffffff";
const DARK: &str = "--ink:#e3ebf0;--soft:#93a5b2;--rule:#24313a;--paper:#ff8a80;--face:#131b21";
const FONT: &str = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;font-size:12px";
const RULES: &str = "\
.shoal-figure text{fill:var(--ink)}.shoal-figure .soft{fill:var(--soft)}.shoal-figure .bold{font-weight:600}\
.shoal-figure .grid{stroke:var(--rule);stroke-width:1}.shoal-figure .axis{stroke:var(--soft);stroke-width:1}\
.shoal-figure .claim{stroke:var(--paper);stroke-width:1.5;stroke-dasharray:4 3;fill:none}.shoal-figure .claimed{fill:var(--paper)}\
.shoal-figure .tick{stroke:var(--paper);stroke-width:2.5}\
.shoal-figure .curve{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-dasharray:var(--dash)}\
.shoal-figure .edge{stroke:var(--face);stroke-width:1}\
.shoal-figure .halo{paint-order:stroke;stroke:var(--face);stroke-width:4px;stroke-linejoin:round}\
.shoal-figure .sample{stroke:var(--c);stroke-width:2;stroke-dasharray:var(--dash)}\
.shoal-figure .leader{stroke:var(--soft);stroke-width:.7;stroke-dasharray:1 2}\
.shoal-figure .interval{stroke:var(--c);stroke-width:1.2}.shoal-figure .hover{fill:transparent}.shoal-figure .hover:hover{fill:var(--c)}\
.shoal-figure .outline{fill:none;stroke:var(--soft);stroke-width:1}.shoal-figure .fill{fill:var(--c)}\
.shoal-figure .open,.shoal-figure .empty{fill:var(--face);stroke:var(--c);stroke-width:1.6}\
.shoal-figure text.named{fill:var(--c)}";
