//! A small SVG writer: shapes with classes, text escaped, numbers in tenths of a pixel.

use super::style::STYLE;
use shoal_dashboard::shown_as_number;
use std::fmt::Write;

/// A drawing surface; x grows to the right and y downwards, in pixels.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// End of a text at which its position lies.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// Creates an empty surface.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Draws a straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(pixel);
        let _ = writeln!(self.body, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }

    /// Draws a line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(data, "{}{} {}", if index == 0 { "M" } else { "L" }, pixel(*x), pixel(*y));
        }
        let _ = writeln!(self.body, r#"<path class="{class}" d="{data}"/>"#);
    }

    /// Draws a rectangle, with a hint for a pointer that rests on it.
    pub fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), hint: &str) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(pixel);
        let title = title(hint);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}">{title}</rect>"#
        );
    }

    /// Draws a dot, with a hint for a pointer that rests on it.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, hint: &str) {
        let [x, y, radius] = [x, y, radius].map(pixel);
        let title = title(hint);
        let _ =
            writeln!(self.body, r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}">{title}</circle>"#);
    }

    /// Draws an outline around a place, with a hint for a pointer that rests on it.
    pub fn mark(&mut self, class: &str, (x, y): (f64, f64), outline: &str, hint: &str) {
        let [x, y] = [x, y].map(pixel);
        let title = title(hint);
        let _ = writeln!(
            self.body,
            r#"<path class="{class}" d="{outline}" transform="translate({x} {y})">{title}</path>"#
        );
    }

    /// Writes a text.
    pub fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let [x, y] = [x, y].map(pixel);
        let anchor = anchor.name();
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// Writes a text that reads upwards, centred.
    pub fn upright_text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let [x, y] = [x, y].map(pixel);
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" transform="translate({x} {y}) rotate(-90)" text-anchor="middle">{text}</text>"#
        );
    }

    /// Returns the whole element.
    pub fn finish(self, title: &str, description: &str) -> String {
        let [width, height] = [self.width, self.height].map(pixel);
        format!(
            "<svg class=\"shoal-figure\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n{}</svg>\n",
            escaped(title),
            escaped(description),
            *STYLE,
            self.body
        )
    }
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Returns a text escaped for XML and HTML. Control, directional and invisible characters, which
/// may come from a log, are written as `\u{202E}`; line ends stay.
pub(crate) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\n' | '\t' => written.push(letter),
            // XML cannot carry these.
            '\u{fffe}' | '\u{ffff}' => written.push('\u{fffd}'),
            _ if shown_as_number(letter) => drop(write!(written, "\\u{{{:02X}}}", u32::from(letter))),
            _ => written.push(letter),
        }
    }
    written
}

fn title(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(hint)) }
}

/// Formats a length in tenths of a pixel. NaN and infinity become 0.
fn pixel(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}
