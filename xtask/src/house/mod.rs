//! `cargo xtask house`: how plainly the house speaks, counted.
//!
//! Each [`Count`] looks at sources and pages and gives a number that should fall ([`prose`],
//! [`names`]). Its limit stands in `xtask/house.toml` and only falls: `cargo xtask tidy` fails when
//! a count is above its limit, and when a count is so far below that the limit should follow.
//! `cargo xtask house --lower` writes the limits down, `--show COUNT` names the places.

mod assertions;
mod names;
mod prose;

use crate::Outcome;
use crate::finding::Finding;
use crate::tidy::Source;
use crate::workspace::{TextFile, text_files};
use assertions::Area;
use std::collections::BTreeMap;
use std::path::Path;

/// Files of the workspace, scanned once for all counts.
pub struct House<'a> {
    /// Rust files below `crates`, with their sources.
    pub sources: Vec<(&'a TextFile, Source)>,
    /// Pages that people write: Markdown but for the pages that commands generate.
    pub pages: Vec<&'a TextFile>,
}

/// A number that should fall.
struct Count {
    /// The key in `xtask/house.toml`.
    name: &'static str,
    /// What is counted, for the table.
    meaning: &'static str,
    count: Counting,
}

/// How a number is taken.
enum Counting {
    /// As many as there are places.
    Places(fn(&House<'_>) -> Vec<Place>),
    Number(fn(&House<'_>) -> usize),
}

/// Line of the house that counts.
pub struct Place {
    path: String,
    /// From 1.
    line: usize,
    text: String,
}

impl Place {
    fn new(file: &TextFile, line: usize, text: &str) -> Self {
        Self { path: file.path.clone(), line, text: text.trim().to_string() }
    }
}

impl Count {
    fn number(&self, house: &House<'_>) -> usize {
        match self.count {
            Counting::Places(find) => find(house).len(),
            Counting::Number(count) => count(house),
        }
    }
}

const COUNTS: &[Count] = &[
    Count {
        name: "free_relatives",
        meaning: "*what*, *who*, *whose*, *whoever*, *whatever* in comments",
        count: Counting::Places(prose::free_relatives),
    },
    Count {
        name: "openings",
        meaning: "comments that begin with a question word, *Whether* or a pronoun",
        count: Counting::Places(prose::openings),
    },
    Count {
        name: "quantities",
        meaning: "*so many*, *so much*, *so few* without *that* or *as* in comments",
        count: Counting::Places(prose::quantities),
    },
    Count {
        name: "long_sentences",
        meaning: "sentences of more than 25 words in comments",
        count: Counting::Places(prose::long_sentences),
    },
    Count {
        name: "long_lines",
        meaning: "lines of comments and pages above 100 columns, tables apart",
        count: Counting::Places(prose::long_lines),
    },
    Count {
        name: "participles",
        meaning: "types named by a participle or gerund",
        count: Counting::Places(names::participles),
    },
    Count {
        name: "shared_names",
        meaning: "definitions of a type name that another type of the crate has too",
        count: Counting::Places(names::shared_names),
    },
    Count {
        name: "test_names",
        meaning: "tests named by more than 50 characters, or with *what*, *who*, *which*",
        count: Counting::Places(names::test_names),
    },
    Count {
        name: "widest_type",
        meaning: "methods of the widest type",
        count: Counting::Number(names::widest_type),
    },
    Count {
        name: "store_calls",
        meaning: "calls of the trait `Store`",
        count: Counting::Number(names::store_calls),
    },
    Count {
        name: "unasserted_store",
        meaning: "product lines for each assertion in the store",
        count: Counting::Number(|house| assertions::lines_for_one(house, Area::Store)),
    },
    Count {
        name: "unasserted_http2",
        meaning: "product lines for each assertion in HTTP/2",
        count: Counting::Number(|house| assertions::lines_for_one(house, Area::Http2)),
    },
    Count {
        name: "unasserted_serving",
        meaning: "product lines for each assertion in the rest of the crates that a request passes",
        count: Counting::Number(|house| assertions::lines_for_one(house, Area::Serving)),
    },
    Count {
        name: "unasserted_rest",
        meaning: "product lines for each assertion in the other crates",
        count: Counting::Number(|house| assertions::lines_for_one(house, Area::Rest)),
    },
];

/// Prints the counts beside their limits; with `--lower` writes the counts down as limits.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let files = text_files(root)?;
    let counts = counts(&files);
    match options {
        [] => Ok(table(&counts, &limits(root)?)),
        ["--lower"] => lower(root, &counts),
        ["--show", name] => show(&files, name, ""),
        ["--show", name, below] => show(&files, name, below),
        _ => Err("cargo xtask house [--lower | --show COUNT [FOLDER]]".into()),
    }
}

/// Counts that are above their limits, and limits that should follow.
pub fn check(root: &Path, files: &[TextFile]) -> Result<Vec<Finding>, String> {
    let limits = limits(root)?;
    let findings = counts(files).into_iter().filter_map(|(name, count)| {
        let limit = limits.get(name).copied().unwrap_or(0);
        let message = match count {
            count if count > limit => format!("`{name}` is {count} where {limit} is the limit; {HOW}"),
            count if count * 50 < limit * 49 => {
                format!("`{name}` has fallen from {limit} to {count}: run `cargo xtask house --lower`")
            }
            _ => return None,
        };
        Some(Finding::new(LIMITS, 0, "house", message))
    });
    Ok(findings.collect())
}

fn counts(files: &[TextFile]) -> Vec<(&'static str, usize)> {
    let house = house(files);
    COUNTS.iter().map(|count| (count.name, count.number(&house))).collect()
}

fn house(files: &[TextFile]) -> House<'_> {
    let is_source = |file: &&TextFile| file.extension() == "rs" && file.path.starts_with("crates/");
    let is_page = |file: &&TextFile| file.extension() == "md" && !GENERATED.contains(&file.path.as_str());
    let sources = files.iter().filter(is_source).map(|file| (file, Source::scan(&file.path, &file.text)));
    House { sources: sources.collect(), pages: files.iter().filter(is_page).collect() }
}

/// The places of one count whose path begins with `below`.
fn show(files: &[TextFile], name: &str, below: &str) -> Outcome {
    let counts = COUNTS.iter().find(|count| count.name == name);
    let Some(Count { count: Counting::Places(find), .. }) = counts else {
        return Err(format!("no count with places is called {name}; xtask/house.toml has the names"));
    };
    let places = find(&house(files));
    let lines = places.iter().filter(|place| place.path.starts_with(below));
    Ok(lines
        .map(|place| format!("{}:{}: {}", place.path, place.line, place.text))
        .collect::<Vec<_>>()
        .join("\n"))
}

fn limits(root: &Path) -> Result<BTreeMap<String, usize>, String> {
    let text =
        std::fs::read_to_string(root.join(LIMITS)).map_err(|why| format!("cannot read {LIMITS}: {why}"))?;
    toml::from_str(&text).map_err(|why| format!("{LIMITS}: {why}"))
}

fn lower(root: &Path, counts: &[(&'static str, usize)]) -> Outcome {
    let old = limits(root)?;
    let least = |(name, count): &(&'static str, usize)| {
        let limit = old.get(*name).map_or(*count, |old| *count.min(old));
        format!("{name} = {limit}\n")
    };
    let text: String = counts.iter().map(least).collect();
    std::fs::write(root.join(LIMITS), format!("{HEAD}{text}"))
        .map_err(|why| format!("cannot write {LIMITS}: {why}"))?;
    Ok(format!("{LIMITS}: {} limits", counts.len()))
}

fn table(counts: &[(&'static str, usize)], limits: &BTreeMap<String, usize>) -> String {
    let meaning =
        |name: &str| COUNTS.iter().find(|count| count.name == name).map_or("", |count| count.meaning);
    let row = |(name, count): &(&'static str, usize)| {
        let limit = limits.get(*name).map_or("none".into(), usize::to_string);
        format!("| {} | {count} | {limit} |", meaning(name))
    };
    let rows: Vec<String> = counts.iter().map(row).collect();
    format!("| counted | now | limit |\n|---|--:|--:|\n{}", rows.join("\n"))
}

const LIMITS: &str = "xtask/house.toml";
const HOW: &str = "CONTRIBUTING.md, \"Names and text\", says how text reads here";
const HEAD: &str = "# Limits of `cargo xtask house`. They only fall: `cargo xtask house --lower`.\n\n";
/// Pages that a command prints, and tests compare.
const GENERATED: &[&str] = &["docs/CONFIG.md", "docs/CONFORMANCE.md", "docs/REASONS.md"];

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    fn count(name: &str, text: &str) -> usize {
        let files = [file("crates/x/src/lib.rs", text)];
        counts(&files).into_iter().find(|(found, _)| *found == name).expect("a count").1
    }

    #[test]
    fn prose_counts() {
        let text = "/// Whoever asks gets what he wants.\n/// More.\nfn one() {}\n\n/// Returns so many bytes.\nfn two() {}\n";
        assert_eq!(count("free_relatives", text), 2);
        assert_eq!(count("openings", text), 1);
        assert_eq!(count("quantities", text), 1);
        let long = format!("/// {}end.\nfn one() {{}}\n", "word ".repeat(25));
        assert_eq!((count("long_sentences", &long), count("long_lines", &long)), (1, 1));
        assert_eq!(count("long_sentences", "/// Short.\nfn one() {}\n"), 0);
    }

    #[test]
    fn name_counts() {
        let text = "struct Begun;\nstruct Keeping;\nmod a {\n    struct Place;\n}\nmod b {\n    pub(super) struct Place;\n}\n\
                    impl Place {\n    fn one() {}\n    fn two() { assert!(true); }\n}\n";
        assert_eq!(count("participles", text), 2);
        assert_eq!(count("shared_names", text), 2);
        assert_eq!(count("widest_type", text), 2);
        let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn what_is_kept_stays() {}\n    #[test]\n    fn kept() {}\n}\n";
        assert_eq!(count("test_names", tests), 1);
    }
}
