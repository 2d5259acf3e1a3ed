//! Checks of drawn figures and pages: their text is well-formed XML, and labels cover no curve.
//! Tests of reports call them.

use super::style::text_width;

/// Checks that every element is closed in order and no text holds a bare bracket or ampersand.
pub fn check_well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag is closed");
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<'), "a bracket within a tag: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !tag.starts_with('!') && !["meta", "br"].contains(&name_of(tag)) {
            open.push(name_of(tag));
        }
        rest = &rest[end + 1..];
        // The text of scripts and styles is no markup.
        if let Some(name @ ("script" | "style")) = open.last().copied() {
            rest = rest.find(&format!("</{name}>")).map_or("", |end| &rest[end..]);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

fn name_of(tag: &str) -> &str {
    tag.split([' ', '\n']).next().unwrap_or(tag)
}

/// Checks that no label of a drawn plot covers one of its curves.
pub fn check_labels(svg: &str) {
    let lines = || svg.lines();
    let curves: Vec<(f64, f64)> =
        lines().filter(|line| line.contains(" curve\" d=")).flat_map(trail).collect();
    for label in lines().filter(|line| line.starts_with("<text") && line.contains("halo")) {
        let (left, right, base) = extent_of(label);
        let inside = |(x, y): (f64, f64)| (left..right).contains(&x) && (base - 9.0..base).contains(&y);
        let covered = curves.iter().filter(|at| inside(**at)).count();
        assert!(covered == 0, "{covered} points of curves lie below {label}");
    }
}

/// Returns the left and right end of a text, and its base line.
fn extent_of(text: &str) -> (f64, f64, f64) {
    let (x, base) = (attribute(text, "x"), attribute(text, "y"));
    let words =
        text.split_once('>').and_then(|(_, rest)| rest.split_once('<')).map_or("", |(words, _)| words);
    (x, x + text_width(words), base)
}

fn attribute(tag: &str, name: &str) -> f64 {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).expect("the attribute");
    rest.split('"').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Returns points of a path, every hundredth of each of its lines.
fn trail(path: &str) -> Vec<(f64, f64)> {
    let (_, rest) = path.split_once(" d=\"M").expect("a path");
    let corners = rest.split('"').next().expect("points").split('L');
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let corners = corners.map(|corner| corner.split_once(' ').expect("two numbers"));
    let corners: Vec<(f64, f64)> = corners.map(|(x, y)| (number(x), number(y))).collect();
    let part = |from: f64, to: f64, step: u32| from + (to - from) * f64::from(step) / 100.0;
    let line = |ends: &[(f64, f64)]| {
        let (from, to) = (ends[0], ends[1]);
        (0..=100).map(move |step| (part(from.0, to.0, step), part(from.1, to.1, step)))
    };
    corners.windows(2).flat_map(line).collect()
}
