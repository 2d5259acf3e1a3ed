//! The settings file as text: each setting below the statements that it comes from.

use crate::document::{Document, Section};
use crate::ledger::{Fate, Ledger, LineId, Summary};
use crate::peer::Peer;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Returns the file.
pub fn render(peer: Peer, document: &Document, ledger: &Ledger) -> String {
    // `bare` writes every table, and `prune` has checked only its text.
    assert!(document.tables.iter().all(|(name, _)| TABLES.contains(name)), "a table is not written");
    let mut writer = Writer { ledger, out: String::new(), shown: HashSet::new() };
    writer.head(peer, document, &ledger.summary());
    writer.settings(&document.top);
    for listen in &document.listen {
        writer.section("[[listen]]", listen);
    }
    for name in TABLES {
        for (_, section) in document.tables.iter().filter(|(other, _)| *other == name) {
            writer.section(&format!("[{name}]"), section);
        }
    }
    for neighbour in &document.neighbours {
        writer.section("[[neighbour]]", neighbour);
    }
    for rule in &document.rules {
        writer.section("[[rule]]", rule);
    }
    for site in &document.sites {
        writer.section("[[site]]", &site.section);
        for rule in &site.rules {
            writer.section("[[site.rule]]", rule);
        }
    }
    writer.tail();
    debug_assert!(writer.out.ends_with('\n'), "the last line ends");
    writer.out
}

/// Returns the settings without comments, as the check of settings reads them.
pub fn bare(document: &Document) -> String {
    let mut out = String::new();
    let mut put = |header: &str, section: &Section| {
        if !header.is_empty() {
            out.push_str(header);
            out.push('\n');
        }
        for entry in &section.entries {
            let _ = writeln!(out, "{} = {}", entry.key, entry.value);
        }
    };
    put("", &document.top);
    document.listen.iter().for_each(|listen| put("[[listen]]", listen));
    document.tables.iter().for_each(|(name, section)| put(&format!("[{name}]"), section));
    document.neighbours.iter().for_each(|neighbour| put("[[neighbour]]", neighbour));
    document.rules.iter().for_each(|rule| put("[[rule]]", rule));
    for site in &document.sites {
        put("[[site]]", &site.section);
        site.rules.iter().for_each(|rule| put("[[site.rule]]", rule));
    }
    out
}

/// Order of the tables in the file.
const TABLES: [&str; 8] = ["forward", "cache", "store", "client", "upstream", "neighbours", "log", "admin"];
/// Longest line of a comment.
const COLUMNS: usize = 100;

struct Writer<'a> {
    ledger: &'a Ledger,
    out: String,
    /// Statements that stand in the file already.
    shown: HashSet<LineId>,
}

impl Writer<'_> {
    fn head(&mut self, peer: Peer, document: &Document, summary: &Summary) {
        self.comment("", &format!("Settings of Shoal, made by `shoal migrate` from those of {peer}."));
        let (carried, near, left) = (summary.carried, summary.approximated, summary.left_out);
        self.comment("", &format!("{carried} lines carried, {near} approximated, {left} not carried."));
        self.comment("", "Above each setting stands the line that it comes from. `~` marks a difference.");
        let notices: Vec<LineId> = self.with_fate(|fate| matches!(fate, Fate::Unsafe(_)));
        if !notices.is_empty() {
            self.out.push_str("#\n");
            self.comment("", "ATTENTION: these refusals have no equal here. The settings below refuse more");
            self.comment("", "than the old ones until you have reviewed each:");
            notices.into_iter().for_each(|line| self.told("ATTENTION ", line));
        }
        for note in &document.notes {
            self.out.push_str("#\n");
            self.comment("", note);
        }
        self.out.push('\n');
    }

    fn section(&mut self, header: &str, section: &Section) {
        self.source(&section.from);
        for note in &section.notes {
            self.comment("~ ", note);
        }
        self.out.push_str(header);
        self.out.push('\n');
        self.settings(section);
    }

    fn settings(&mut self, section: &Section) {
        let mut above = section.from.clone();
        for entry in &section.entries {
            let fresh: Vec<LineId> =
                entry.from.iter().filter(|line| !above.contains(line)).copied().collect();
            above.extend(&fresh);
            self.source(&fresh);
            let _ = writeln!(self.out, "{} = {}", entry.key, entry.value);
        }
        if !section.entries.is_empty() {
            self.out.push('\n');
        }
    }

    /// Writes statements as comments; a difference stands below its statement, once.
    fn source(&mut self, lines: &[LineId]) {
        for (number, line) in lines.iter().enumerate() {
            if number == LINES_SHOWN && lines.len() > LINES_SHOWN + 1 {
                self.comment("", &format!("… and {} lines more", lines.len() - LINES_SHOWN));
            }
            let is_new = self.shown.insert(*line);
            if number < LINES_SHOWN || lines.len() <= LINES_SHOWN + 1 {
                let statement = self.ledger.line(*line);
                self.comment("", &format!("{}: {}", statement.place, statement.text));
            }
            if let Some(Fate::Approximated(why)) = self.ledger.line(*line).fate.as_ref().filter(|_| is_new) {
                self.comment("~ ", why);
            }
        }
    }

    /// Writes the statements that no setting comes from.
    fn tail(&mut self) {
        let left = self.with_fate(|fate| matches!(fate, Fate::LeftOut(_)));
        if !left.is_empty() {
            self.comment("", "Not carried over:");
            left.into_iter().for_each(|line| self.told("", line));
            self.out.push('\n');
        }
        let shown = std::mem::take(&mut self.shown);
        let rest = self.with_fate(|fate| !matches!(fate, Fate::LeftOut(_) | Fate::Unsafe(_)));
        let rest: Vec<LineId> = rest.into_iter().filter(|line| !shown.contains(line)).collect();
        if !rest.is_empty() {
            self.comment("", "Done without a setting:");
            rest.into_iter().for_each(|line| self.told("", line));
        }
        self.out.truncate(self.out.trim_end().len());
        self.out.push('\n');
    }

    fn with_fate(&self, is_it: impl Fn(&Fate) -> bool) -> Vec<LineId> {
        let chosen = self.ledger.lines().filter(|(_, line)| line.fate.as_ref().is_some_and(&is_it));
        chosen.map(|(id, _)| id).collect()
    }

    /// Writes a statement with its reason.
    fn told(&mut self, mark: &str, line: LineId) {
        let statement = self.ledger.line(line);
        self.comment(mark, &format!("{}: {}", statement.place, statement.text));
        let why = match statement.fate.as_ref() {
            Some(Fate::Needless(why) | Fate::Approximated(why) | Fate::LeftOut(why) | Fate::Unsafe(why)) => {
                why
            }
            _ => return,
        };
        self.comment("  ", why);
    }

    /// Writes a comment, wrapped.
    fn comment(&mut self, mark: &str, text: &str) {
        let indent = " ".repeat(mark.chars().count());
        let mut line = format!("# {mark}");
        let mut is_empty = true;
        for word in text.split_whitespace() {
            let word: String = word.chars().filter(|c| !c.is_control()).collect();
            if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                self.out.push_str(line.trim_end());
                self.out.push('\n');
                line = format!("# {indent}");
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(&word);
            is_empty = false;
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }
}

/// Most statements above one setting.
const LINES_SHOWN: usize = 20;
