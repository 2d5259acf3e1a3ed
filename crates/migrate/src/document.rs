//! The settings that come out, each with the statements that it comes from.

use crate::ledger::LineId;
use crate::value::Value;

/// One setting.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name in its table.
    pub key: &'static str,
    /// Value.
    pub value: Value,
    /// Statements that it comes from.
    pub from: Vec<LineId>,
}

/// A table of settings: `[cache]`, a `[[listen]]`, a rule.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Statements that the table as a whole comes from.
    pub from: Vec<LineId>,
    /// Remarks above the table.
    pub notes: Vec<String>,
    /// Settings.
    pub entries: Vec<Entry>,
    /// `true` if the table refuses something, so that its loss would widen access.
    pub is_guard: bool,
}

/// A `[[site]]` with its rules.
#[derive(Clone, Debug, Default)]
pub struct SiteSection {
    /// Settings of the site.
    pub section: Section,
    /// Rules of the site.
    pub rules: Vec<Section>,
}

/// The whole file.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Remarks at the top.
    pub notes: Vec<String>,
    /// Settings at the top.
    pub top: Section,
    /// Listeners.
    pub listen: Vec<Section>,
    /// Neighbours.
    pub neighbours: Vec<Section>,
    /// Sites.
    pub sites: Vec<SiteSection>,
    /// General rules.
    pub rules: Vec<Section>,
    /// Tables by name, in the order of their first use.
    pub tables: Vec<(&'static str, Section)>,
}

impl Section {
    /// Makes an empty table that comes from these statements.
    pub fn of(from: &[LineId]) -> Self {
        Self { from: from.to_vec(), ..Self::default() }
    }

    /// Sets a value; an earlier one goes, its statements stay beside it.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>, from: &[LineId]) {
        debug_assert!(!key.is_empty() && !key.contains(['.', ' ', '=']), "{key:?} is no bare key");
        let value = value.into();
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => {
                entry.value = value;
                add_lines(&mut entry.from, from);
            }
            None => self.entries.push(Entry { key, value, from: from.to_vec() }),
        }
    }

    /// As [`Self::set`], for building a table in one expression.
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.set(key, value, &[]);
        self
    }

    /// Adds values to a list, without repetitions.
    pub fn extend(&mut self, key: &'static str, values: impl IntoIterator<Item = Value>, from: &[LineId]) {
        let at = match self.entries.iter().position(|entry| entry.key == key) {
            Some(at) => at,
            None => {
                self.entries.push(Entry { key, value: Value::List(Vec::new()), from: Vec::new() });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[at];
        add_lines(&mut entry.from, from);
        debug_assert!(matches!(entry.value, Value::List(_)), "{key} is no list to extend");
        if let Value::List(list) = &mut entry.value {
            for value in values {
                if !list.contains(&value) {
                    list.push(value);
                }
            }
        }
    }

    /// Returns the value of a setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Sets a value before all others, unless there is one.
    pub fn set_first(&mut self, key: &'static str, value: Value) {
        if self.get(key).is_none() {
            self.entries.insert(0, Entry { key, value, from: Vec::new() });
        }
    }

    /// Adds a remark.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Checks that each key, each statement and each remark stands once.
    fn invariants(&self) {
        for (at, entry) in self.entries.iter().enumerate() {
            let before = &self.entries[..at];
            assert!(before.iter().all(|other| other.key != entry.key), "{} stands once", entry.key);
        }
        for (at, note) in self.notes.iter().enumerate() {
            assert!(!self.notes[..at].contains(note), "a remark stands once: {note}");
        }
    }

    /// Marks the table as one that refuses something.
    pub fn guard(mut self) -> Self {
        self.is_guard = true;
        self
    }

    /// Returns every statement of the table and of its settings.
    pub fn lines(&self) -> Vec<LineId> {
        let mut lines = self.from.clone();
        self.entries.iter().for_each(|entry| add_lines(&mut lines, &entry.from));
        debug_assert!(self.from.iter().all(|line| lines.contains(line)), "no statement is lost");
        lines
    }
}

impl Document {
    /// Returns a table, made when it is first asked for.
    pub fn table(&mut self, name: &'static str) -> &mut Section {
        if let Some(at) = self.tables.iter().position(|(other, _)| *other == name) {
            return &mut self.tables[at].1;
        }
        self.tables.push((name, Section::default()));
        let (_, section) = self.tables.last_mut().expect("one was added");
        section
    }

    /// Checks that each key stands once in its table, and each table once in the file. All their
    /// statements are among the first `statements` of the ledger.
    pub fn invariants(&self, statements: usize) {
        let sites = self.sites.iter().flat_map(|site| site.rules.iter().chain([&site.section]));
        let tables = self.tables.iter().map(|(_, section)| section);
        let lists = [&self.listen, &self.neighbours, &self.rules].into_iter().flatten();
        for section in lists.chain(sites).chain(tables).chain([&self.top]) {
            section.invariants();
            let is_known = |line: &LineId| line.is_below(statements);
            assert!(section.lines().iter().all(is_known), "a setting comes from a statement");
        }
        for (at, (name, _)) in self.tables.iter().enumerate() {
            assert!(self.tables[..at].iter().all(|(other, _)| other != name), "[{name}] stands once");
        }
    }

    /// Adds a remark at the top.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

fn add_lines(lines: &mut Vec<LineId>, more: &[LineId]) {
    for line in more {
        if !lines.contains(line) {
            lines.push(*line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_and_values_are_replaced() {
        let mut section = Section::default();
        section.extend("hosts", ["a".into(), "a".into(), "b".into()], &[]);
        section.set("weight", 1, &[]);
        section.set("weight", 2, &[]);
        assert_eq!(section.get("hosts"), Some(&Value::texts(["a", "b"])));
        assert_eq!(section.get("weight"), Some(&Value::Whole(2)));
        assert_eq!(section.entries.len(), 2);
    }

    #[test]
    fn tables_are_made_once() {
        let mut document = Document::default();
        document.table("cache").set("ram", Value::bytes(1), &[]);
        document.table("store");
        document.table("cache");
        assert_eq!(document.tables.len(), 2);
    }
}
