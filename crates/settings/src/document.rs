//! Sample file and reference page, printed from the schema.

use crate::Settings;
use crate::setting::{Field, Section, SettingKind, TomlText, join};
use std::fmt::Write;

impl Settings {
    /// Returns a file with every default, each setting with its comment. The file parses to the
    /// default settings.
    pub fn sample() -> String {
        let mut page = SAMPLE_HEAD.to_owned();
        let fields = Settings::outline();
        // TOML requires keys without a heading before the first heading.
        for field in fields.iter().filter(|field| !has_heading(&field.kind)) {
            page.push('\n');
            setting(&mut page, field, field.default.as_ref(), "");
        }
        for field in fields.iter().filter(|field| has_heading(&field.kind)) {
            page.push('\n');
            comment(&mut page, field.text);
            section(&mut page, field);
        }
        page
    }

    /// Returns the reference page in Markdown.
    pub fn reference() -> String {
        let mut page = REFERENCE_HEAD.to_owned();
        let (headed, bare): (Vec<Field>, Vec<Field>) =
            Settings::outline().into_iter().partition(|field| has_heading(&field.kind));
        let _ = writeln!(page, "\n## At the top of the file\n");
        rows(&mut page, &bare, ("", false));
        for field in &headed {
            chapter(&mut page, field, "##", ("", false));
        }
        page
    }
}

const SAMPLE_HEAD: &str = "\
# Shoal's settings, each at its default. What you do not set rests at its default; unknown names are mistakes.
# Sizes: \"512 MB\" is 512,000,000 bytes, \"512 MiB\" is 536,870,912. Durations: \"250 ms\", \"30 s\", \"5 min\", \"2 h\", \"7 days\".
# Relative paths start at the working directory. `shoal check FILE` names every mistake with its line.
";

const REFERENCE_HEAD: &str = "\
# Settings

<!-- Printed by `shoal config reference`; edit crates/settings/src/schema.rs instead. -->

`shoal run --config shoal.toml` reads this file. Without `--config` it reads the file that
`SHOAL_CONFIG` names, or takes the built-in defaults. `shoal config default` prints these as a
commented file. `shoal check FILE` names every mistake with its line and column, and exits with code
2 when there is one. Unknown settings are mistakes.

`shoal reload`, or the signal HUP, has a running node read it again. The column *change* says when a
changed setting takes effect: at the next `reload`, or at the next `start`. A reload names the
changes that wait for a start.

- **Sizes** carry their unit: `\"512 MB\"` is 512,000,000 bytes, `\"512 MiB\"` is 536,870,912.
- **Durations** carry their unit: `\"250 ms\"`, `\"30 s\"`, `\"5 min\"`, `\"2 h\"`, `\"7 days\"`, `\"7d\"`.
- **Networks** are written `\"10.0.0.0/8\"`; an address alone stands for itself.
- **Paths** that are relative start at the working directory.
- **Absent** is written `\"none\"` where a setting takes it.
- **Environment**: `SHOAL_CACHE__RAM=512MB` sets `cache.ram`, and so for every other. Two underscores
  part the section from the setting. Lists are written with commas, lists of tables as TOML. Command
  line options win over the environment, and it over the file.
";

fn has_heading(kind: &SettingKind) -> bool {
    match kind {
        SettingKind::Section { .. } => true,
        SettingKind::List(inner) => has_heading(inner),
        _ => false,
    }
}

/// Returns the fields and an example of a section, or of the entries of a list of sections.
fn inside(kind: &SettingKind) -> Option<(Vec<Field>, TomlText)> {
    match kind {
        SettingKind::Section { outline, example } => Some((outline(), example())),
        SettingKind::List(inner) => inside(inner),
        _ => None,
    }
}

/// Writes a section with its heading, or every entry of a list of sections. For an empty list the
/// page shows an example, commented out.
fn section(page: &mut String, field: &Field) {
    let Some((fields, example)) = inside(&field.kind) else { return };
    let (heading, entries, mark) = match &field.default {
        Some(TomlText::List(entries)) if entries.is_empty() => {
            (format!("[[{}]]", field.name), vec![example], "#")
        }
        Some(TomlText::List(entries)) => (format!("[[{}]]", field.name), entries.clone(), ""),
        Some(value) => (format!("[{}]", field.name), vec![value.clone()], ""),
        None => return,
    };
    for entry in entries {
        let _ = writeln!(page, "{mark}{heading}");
        let TomlText::Section(values) = &entry else { continue };
        assert_eq!(fields.len(), values.len(), "each setting has a value");
        for (field, (name, value)) in fields.iter().zip(values) {
            assert_eq!(field.name, *name, "settings and values are in one order");
            setting(page, field, Some(value), mark);
        }
    }
}

/// Writes one setting under its comment.
fn setting(page: &mut String, field: &Field, value: Option<&TomlText>, mark: &str) {
    comment(page, &described(field));
    for (name, words) in words(&field.kind) {
        comment(page, &format!("  {name}: {words}"));
    }
    if let Some(value) = value {
        let _ = writeln!(page, "{mark}{} = {value}", field.name);
    }
}

fn comment(page: &mut String, text: &str) {
    for line in text.trim_end().lines() {
        let _ = writeln!(page, "# {}", line.strip_prefix(' ').unwrap_or(line));
    }
}

/// Returns the comment of a setting with its limits.
fn described(field: &Field) -> String {
    let text = field.text.trim_end();
    match &field.limits {
        Some(limits) => format!("{text} ({})", limits.replace('"', "")),
        None => text.into(),
    }
}

/// Returns the words of a choice, or the fields of an inline table, each with its meaning on one
/// line.
fn words(kind: &SettingKind) -> Vec<(String, String)> {
    match (choices(kind), inside(kind)) {
        ([], Some((fields, _))) => {
            fields.iter().map(|field| (field.name.to_owned(), one_line(&described(field)))).collect()
        }
        (words, _) => words.iter().map(|(word, text)| (format!("\"{word}\""), one_line(text))).collect(),
    }
}

/// Returns the words that a setting, or an entry of its list, accepts, each with its meaning.
fn choices(kind: &SettingKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        SettingKind::Choice(words) => words,
        SettingKind::List(inner) => choices(inner),
        _ => &[],
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes a section of the reference with its settings, then the tables within the section.
fn chapter(page: &mut String, field: &Field, level: &str, (outer, needs_restart): (&str, bool)) {
    let Some((fields, example)) = inside(&field.kind) else { return };
    let name = join(outer, field.name);
    let heading = match (&field.kind, outer.is_empty()) {
        (SettingKind::List(_), true) => format!("`[[{name}]]`"),
        (_, true) => format!("`[{name}]`"),
        (SettingKind::List(_), false) => format!("Entries of `{name}`"),
        (_, false) => format!("`{name}`"),
    };
    let _ = writeln!(page, "\n{level} {heading}\n\n{}\n", one_line(field.text));
    let needs_restart = needs_restart || field.needs_restart;
    rows(page, &fields, (&name, needs_restart));
    if !outer.is_empty() {
        let _ = writeln!(page, "\nFor example `{example}`.");
    }
    for inner in fields.iter().filter(|field| has_heading(&field.kind)) {
        chapter(page, inner, "###", (&name, needs_restart));
    }
}

/// Writes one row a setting, with the first sentence of its text. The rest follows below the table.
/// `outer` is the section's name, with `true` if the whole section takes effect with the next
/// start.
fn rows(page: &mut String, fields: &[Field], outer: (&str, bool)) {
    let _ = writeln!(page, "| setting | type | default | change | |\n|---|---|---|---|---|");
    let mut notes = String::new();
    for field in fields {
        let default = match &field.default {
            Some(value) => format!("`{value}`"),
            None => "required".into(),
        };
        let text = one_line(field.text);
        let (mut first, rest) = first_sentence(&text);
        let limits =
            field.limits.as_ref().map(|limits| limits.replace('"', "").replacen(" to ", " up to ", 1));
        let limited = limits.map(|limits| format!("{first} From {limits}."));
        let choices = choices(&field.kind);
        if !(rest.is_empty() && choices.is_empty()) {
            note(&mut notes, field.name, rest, choices);
        }
        first = limited.as_deref().unwrap_or(first);
        assert!(!first.is_empty(), "`{}` has no text", field.name);
        assert!(!first.contains('\n'), "`{}` has a text of several lines in its row", field.name);
        let kind = type_name(&field.kind, &join(outer.0, field.name));
        let change = if outer.1 || field.needs_restart { "start" } else { "reload" };
        let cells = [&*format!("`{}`", field.name), &kind, &default, change, first];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    if !notes.is_empty() {
        let _ = write!(page, "\n{notes}");
    }
}

/// Writes the rest of a setting's text, and the words that the setting accepts, as an item of a
/// list.
fn note(page: &mut String, name: &str, rest: &str, choices: &[(&str, &str)]) {
    wrapped(page, "- ", &format!("**`{name}`**: {rest}"));
    for (word, meaning) in choices {
        wrapped(page, "  - ", &format!("`{word}`: {}", one_line(meaning)));
    }
}

/// Writes an item of a list in lines of 100 columns.
fn wrapped(page: &mut String, mark: &str, text: &str) {
    let mut line = mark.to_owned();
    let indent = " ".repeat(mark.len());
    let mut is_first = true;
    for word in text.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(page, "{line}");
            line.clone_from(&indent);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    let _ = writeln!(page, "{line}");
}

/// Width of the page's prose, in columns.
const COLUMNS: usize = 100;

/// Splits a text into its first sentence and the rest.
fn first_sentence(text: &str) -> (&str, &str) {
    let is_end = |at: usize, length: usize| {
        let next = text[at + length..].chars().next();
        next.is_some_and(|next| next.is_uppercase() || next == '`')
    };
    let end = text.match_indices(". ").find(|(at, mark)| is_end(*at, mark.len()));
    let (first, rest) = end.map_or((text, ""), |(at, _)| (&text[..=at], &text[at + 2..]));
    debug_assert!(rest.is_empty() || first.len() + 1 + rest.len() == text.len(), "nothing is lost");
    (first, rest)
}

fn type_name(kind: &SettingKind, name: &str) -> String {
    // Anchors that Markdown makes from the headings of `chapter`.
    let anchor = name.replace('.', "");
    match kind {
        SettingKind::Text(noun) => noun.clone(),
        SettingKind::Bare(noun) => (*noun).into(),
        SettingKind::Choice(_) => "one of these".into(),
        SettingKind::Section { .. } => format!("[table](#{anchor})"),
        SettingKind::List(inner) if has_heading(inner) => format!("[list of tables](#entries-of-{anchor})"),
        SettingKind::List(inner) if matches!(**inner, SettingKind::Choice(_)) => "list of these words".into(),
        SettingKind::List(inner) => format!("list of {}", several(&type_name(inner, name))),
    }
}

/// Returns the plural of a noun, or of each of several: "port or range" becomes "ports or ranges".
fn several(nouns: &str) -> String {
    let plural = |noun: &str| match noun.split_once(" of ") {
        // The noun after "of" is plural already.
        Some((noun, of)) => format!("{noun}s of {of}"),
        None if noun.ends_with('s') => format!("{noun}es"),
        None => match noun.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{noun}s"),
        },
    };
    assert!(!nouns.is_empty(), "a plural of nothing");
    nouns.split(" or ").map(plural).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_reads_back_as_the_defaults() {
        assert_eq!(Settings::parse(&Settings::sample(), "sample"), Ok(Settings::default()));
    }

    #[test]
    fn every_list_is_of_a_plural() {
        for (noun, nouns) in [
            ("port or range of ports", "ports or ranges of ports"),
            ("network", "networks"),
            ("address", "addresses"),
            ("entry", "entries"),
        ] {
            assert_eq!(several(noun), nouns);
        }
        let page = Settings::reference();
        let lists = page.split("list of ").skip(1).filter_map(|rest| rest.split(" |").next());
        for nouns in lists.filter(|nouns| !nouns.starts_with("tables")) {
            assert!(nouns.ends_with('s') && !nouns.ends_with("ss"), "list of {nouns}");
        }
    }

    #[test]
    fn the_sample_sets_every_setting() {
        let sample = Settings::sample();
        for path in crate::outline::paths() {
            let (section, name) = path.rsplit_once('.').unwrap_or(("", &path));
            let after =
                if section.is_empty() { 0 } else { sample.find(&format!("[{section}]")).expect("a heading") };
            let rest = &sample[after..];
            assert!(
                rest.contains(&format!("\n{name} = ")) || rest.contains(&format!("[[{name}]]")),
                "{path}"
            );
        }
    }

    #[test]
    fn commented_sample_settings_are_valid() {
        let uncommented: String = Settings::sample()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        // A site needs a listener in reverse mode, and the rules of forward mode need one in
        // forward mode.
        let reverse = "\n[[listen]]\naddress = \"127.0.0.1:8080\"\nmode = \"reverse\"\n";
        let settings = Settings::parse(&(uncommented + reverse), "sample").expect("a valid file");
        assert_eq!(settings.site, [crate::Site::example()]);
    }

    #[test]
    fn the_reference_page_is_up_to_date() {
        let page = include_str!("../../../docs/CONFIG.md");
        assert!(
            page == Settings::reference(),
            "run: cargo run -p shoal -- config reference > docs/CONFIG.md"
        );
    }
}
