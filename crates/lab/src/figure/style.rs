//! The look that all figures share: one style sheet with a light and a dark face.

/// Colours that a series may have.
pub(super) const COLOURS: usize = 6;

/// Styles that tell series apart: each colour drawn through, then each colour dashed, with open
/// dots. A series after the last has the first style again.
pub(super) const STYLES: usize = 2 * COLOURS;

/// Returns the classes of the series' style.
pub(super) fn colour(index: usize) -> String {
    let dashed = if index % STYLES < COLOURS { "" } else { " dashed" };
    format!("c{}{dashed}", index % COLOURS)
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

/// The style sheet. The colours are those of Okabe and Ito, which readers with colour blindness can
/// tell apart; dark surfaces take lighter ones. All rules stand below `.shoal-figure`, so that
/// several figures can share a page.
pub(super) const STYLE: &str = "\
.shoal-figure{--ink:#1d2733;--soft:#5b6875;--rule:#dfe4ea;--paper:#b3261e;--face:#ffffff;\
--c0:#1f6fb2;--c1:#d9811e;--c2:#1d8f6a;--c3:#a5529a;--c4:#7a8794;--c5:#b8a000;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;font-size:12px}\
@media (prefers-color-scheme:dark){.shoal-figure{--ink:#e4e9ef;--soft:#9aa7b4;--rule:#333d48;--paper:#ff8a80;--face:#14191f;\
--c0:#63b1ee;--c1:#f2ab57;--c2:#4cc79c;--c3:#d58bca;--c4:#8d99a6;--c5:#e2cc4a}}\
.shoal-figure text{fill:var(--ink)}.shoal-figure .soft{fill:var(--soft)}.shoal-figure .bold{font-weight:600}\
.shoal-figure .grid{stroke:var(--rule);stroke-width:1}.shoal-figure .axis{stroke:var(--soft);stroke-width:1}\
.shoal-figure .claim{stroke:var(--paper);stroke-width:1.5;stroke-dasharray:4 3;fill:none}.shoal-figure .claimed{fill:var(--paper)}\
.shoal-figure .tick{stroke:var(--paper);stroke-width:2.5}\
.shoal-figure .curve{fill:none;stroke-width:2;stroke-linejoin:round}.shoal-figure .edge{stroke:var(--face);stroke-width:1}\
.shoal-figure .halo{paint-order:stroke;stroke:var(--face);stroke-width:4px;stroke-linejoin:round}\
.shoal-figure path.dashed{stroke-dasharray:7 4}.shoal-figure .sample{stroke:var(--c);stroke-width:2}\
.shoal-figure .sample.dashed{stroke-dasharray:5 3}.shoal-figure .leader{stroke:var(--soft);stroke-width:.7;stroke-dasharray:1 2}\
.shoal-figure .interval{stroke:var(--c);stroke-width:1.2}.shoal-figure .hover{fill:transparent}.shoal-figure .hover:hover{fill:var(--c)}\
.shoal-figure .outline{fill:none;stroke:var(--soft);stroke-width:1}\
.shoal-figure .c0{--c:var(--c0)}.shoal-figure .c1{--c:var(--c1)}.shoal-figure .c2{--c:var(--c2)}\
.shoal-figure .c3{--c:var(--c3)}.shoal-figure .c4{--c:var(--c4)}.shoal-figure .c5{--c:var(--c5)}\
.shoal-figure .fill{fill:var(--c)}.shoal-figure rect.dashed{fill-opacity:.45}\
.shoal-figure circle.dashed.fill,.shoal-figure .empty{fill:var(--face);stroke:var(--c);stroke-width:1.6}\
.shoal-figure .curve{stroke:var(--c)}.shoal-figure text.named{fill:var(--c)}";
