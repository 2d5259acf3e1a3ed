//! Places of labels: beside the named thing, and never over a curve or another label.

use super::style::text_width;

/// Places that are taken: drawn points, and texts.
#[derive(Default)]
pub(super) struct Labels {
    drawn: Vec<(f64, f64)>,
    written: Vec<TextBox>,
}

/// Left end and base line of a text.
pub(super) type TextPlace = (f64, f64);

/// Rectangle of a text.
#[derive(Clone, Copy)]
struct TextBox {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl TextBox {
    fn of((left, base): TextPlace, width: f64) -> Self {
        debug_assert!(width >= 0.0, "a text of {width} pixels");
        Self { left: left - 3.0, right: left + width + 3.0, top: base - ASCENT, bottom: base + DESCENT }
    }

    fn contains(&self, (x, y): (f64, f64)) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

impl Labels {
    /// Creates labels for a picture in which these points are drawn, every few pixels of a curve.
    pub(super) fn over(drawn: Vec<(f64, f64)>) -> Self {
        Self { drawn, written: Vec::new() }
    }

    /// Takes the first place at which a text covers nothing. Takes none if there is no such place.
    pub(super) fn free(&mut self, text: &str, places: &[TextPlace]) -> Option<TextPlace> {
        let width = text_width(text);
        let place = places.iter().copied().find(|place| self.covered(TextBox::of(*place, width)) == 0)?;
        self.take(text, place);
        Some(place)
    }

    /// Takes the place at which a text covers least. `places` has one at least.
    pub(super) fn best(&mut self, text: &str, places: &[TextPlace]) -> TextPlace {
        assert!(!places.is_empty(), "{text:?} has a place");
        let width = text_width(text);
        let least = places.iter().copied().min_by_key(|place| self.covered(TextBox::of(*place, width)));
        let place = least.unwrap_or((0.0, ASCENT));
        self.take(text, place);
        place
    }

    /// Takes a place for a text.
    pub(super) fn take(&mut self, text: &str, place: TextPlace) {
        self.written.push(TextBox::of(place, text_width(text)));
    }

    fn covered(&self, text: TextBox) -> usize {
        let drawn = self.drawn.iter().filter(|at| text.contains(**at)).count();
        drawn + self.written.iter().filter(|other| text.meets(other)).count() * OTHER_TEXT
    }
}

/// Height of letters above the base line, in pixels.
const ASCENT: f64 = 12.0;
const DESCENT: f64 = 5.0;
/// Points of a curve that weigh as much as another text.
const OTHER_TEXT: usize = 50;
