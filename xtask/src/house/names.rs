//! Counts of names, of methods and of assertions.

use super::{House, Place};
use crate::workspace::TextFile;
use std::collections::HashMap;

/// Types whose name is what happened or happens to something, and no noun.
pub fn participles(house: &House<'_>) -> Vec<Place> {
    let is_one = |name: &&str| {
        let ends = ["ed", "ing"].iter().any(|end| name.ends_with(end));
        let last = name.rfind(char::is_uppercase).map_or(*name, |at| &name[at..]);
        (ends && !NOUNS.contains(&last)) || IRREGULAR.contains(&last)
    };
    types(house).filter(|definition| is_one(&definition.name)).map(|definition| definition.place()).collect()
}

/// Definitions that share their name with another of the crate.
pub fn shared_names(house: &House<'_>) -> Vec<Place> {
    let mut found: HashMap<(&str, &str), usize> = HashMap::new();
    types(house).for_each(|definition| *found.entry(definition.key()).or_default() += 1);
    let is_shared = |definition: &Definition<'_>| found[&definition.key()] > 1;
    types(house).filter(is_shared).map(|definition| definition.place()).collect()
}

/// Tests whose name is a story.
pub fn test_names(house: &House<'_>) -> Vec<Place> {
    let is_story = |name: &str| {
        name.len() > TEST_NAME_MAX
            || name.split('_').any(|word| ["what", "who", "which", "whose", "whom"].contains(&word))
    };
    let mut places = Vec::new();
    for (file, source) in &house.sources {
        let mut is_test = false;
        for (at, line) in source.code.lines().map(str::trim_start).enumerate() {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) = after(line, "fn ").filter(|_| is_test) {
                if is_story(name) {
                    places.push(Place::new(file, at + 1, name));
                }
                is_test = false;
            }
        }
    }
    places
}

/// Methods of the type that has most, over all its `impl` blocks.
pub fn widest_type(house: &House<'_>) -> usize {
    let mut found: HashMap<(&str, String), usize> = HashMap::new();
    for (file, source) in &house.sources {
        let mut of = None;
        for (_, line, is_test) in source.lines().filter(|(_, _, is_test)| !is_test) {
            debug_assert!(!is_test);
            if line.starts_with("impl") && !line.contains(" for ") {
                let name = line.trim_start_matches("impl").trim_start_matches(|c| c != ' ').trim();
                of = Some((crate_of(&file.path), word(name).to_string()));
            } else if line.starts_with('}') {
                of = None;
            } else if let Some(key) = of.clone().filter(|_| line.trim_start().contains("fn ")) {
                *found.entry(key).or_default() += 1;
            }
        }
    }
    found.into_values().max().unwrap_or_default()
}

/// Functions of the trait between the proxy and its stores.
pub fn store_calls(house: &House<'_>) -> usize {
    let is_it = |path: &str| path == "crates/store/src/contract.rs";
    let Some((_, source)) = house.sources.iter().find(|(file, _)| is_it(&file.path)) else { return 0 };
    let lines = source.code.lines().skip_while(|line| !line.starts_with("pub trait Store"));
    lines.take_while(|line| !line.starts_with('}')).filter(|line| line.starts_with("    fn ")).count()
}

/// Definition of a type of the product.
struct Definition<'a> {
    file: &'a TextFile,
    line: usize,
    name: &'a str,
}

impl<'a> Definition<'a> {
    /// Crate and name.
    fn key(&self) -> (&'a str, &'a str) {
        (crate_of(&self.file.path), self.name)
    }

    fn place(&self) -> Place {
        Place::new(self.file, self.line, self.name)
    }
}

/// Types of the product.
fn types<'a>(house: &'a House<'_>) -> impl Iterator<Item = Definition<'a>> {
    house.sources.iter().flat_map(|(file, source)| {
        let product = source.lines().filter(|(_, _, is_test)| !is_test);
        product.filter_map(|(number, line, _)| {
            let line = line.trim_start();
            let line = line
                .strip_prefix("pub")
                .map_or(line, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
            let name =
                ["struct ", "enum ", "trait "].iter().find_map(|kind| line.strip_prefix(kind)).map(word)?;
            Some(Definition { file, line: number, name })
        })
    })
}

/// The word behind `before` in a line.
fn after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    line.find(before).map(|at| word(&line[at + before.len()..]))
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// Nouns that end like participles.
const NOUNS: &[&str] = &[
    "Embedded", "Feed", "Seed", "Speed", "Need", "Shed", "Ring", "String", "Thing", "Setting", "Framing",
    "Encoding", "Coding", "Timing", "Routing", "Naming", "Mapping", "Listing", "Heading", "Padding",
    "Meaning", "Finding",
];
const IRREGULAR: &[&str] = &[
    "Begun", "Held", "Kept", "Told", "Taken", "Found", "Sent", "Lost", "Gone", "Seen", "Done", "Known",
    "Given", "Made", "Written", "Read", "Lent", "Chosen", "Drawn", "Swept", "Said", "Come",
];
const TEST_NAME_MAX: usize = 50;
