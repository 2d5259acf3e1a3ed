//! Reading a specification: every mistake is found and told with its line.
//!
//! ```toml
//! [trace.proxy]                  # a trace, by the name that grids use
//! file = "access.log.gz"
//!
//! [[policy]]                     # a grid of one kind; there may be several of each
//! trace = "proxy"
//! policy = ["lru", "s3_fifo"]
//! cache = ["64 MB", "256 MB"]
//! ```
//!
//! The cells of a grid are the product of its lists, the last parameter changing fastest. A
//! parameter that does not matter for a cell (the chances of N-chance forwarding for another
//! system) has no value there. Cells that are then equal become one.

use super::kind::{KINDS, QuestionKind, named};
use super::parameter::Parameter;
use super::source::TraceSource;
use super::{Cell, Sweep, Value};
use std::collections::HashSet;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// The key concerned; empty where the text is no TOML.
    pub key: String,
    /// Description of the mistake.
    pub message: String,
}

impl std::fmt::Display for Mistake {
    /// Writes `line:column: key: message`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Mistakes found so far, by the byte where they are.
#[derive(Default)]
pub(super) struct Mistakes {
    found: Vec<(usize, String, String)>,
}

impl Mistakes {
    pub(super) fn note(&mut self, offset: usize, key: &str, message: String) {
        self.found.push((offset, key.into(), message));
    }

    fn placed(mut self, text: &str) -> Vec<Mistake> {
        self.found.sort();
        let place = |(offset, key, message): (usize, String, String)| {
            let before = String::from_utf8_lossy(&text.as_bytes()[..offset.min(text.len())]).into_owned();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Mistake {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                key,
                message,
            }
        };
        self.found.into_iter().map(place).collect()
    }
}

/// See [`Sweep::parse`].
pub(super) fn parse(text: &str, folder: &Path) -> Result<Sweep, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        mistakes.note(offset, "", error.message().replace('\n', ", "));
    }
    if !errors.is_empty() {
        return Err(mistakes.placed(text));
    }
    let document = document.get_ref();
    let traces = traces(document, folder, &mut mistakes);
    let names: Vec<&str> = traces.iter().map(|source| source.name.as_str()).collect();
    let mut cells = Cells::default();
    for (kind, grid) in grids(document, &mut mistakes) {
        read_grid(kind, grid, &names, &mut cells, &mut mistakes);
    }
    if cells.cells.is_empty() && mistakes.found.is_empty() {
        mistakes.note(0, "", "there is nothing to compute: no [[policy]], [[cluster]] or other grid".into());
    }
    let cells = cells.cells;
    if mistakes.found.is_empty() { Ok(Sweep { traces, cells }) } else { Err(mistakes.placed(text)) }
}

/// Returns the grids of all kinds, in the order of the text.
fn grids<'a, 'b>(
    document: &'a DeTable<'b>,
    mistakes: &mut Mistakes,
) -> Vec<(&'static QuestionKind, &'a Spanned<DeValue<'b>>)> {
    let mut grids = Vec::new();
    for (name, value) in document.iter() {
        let key = name.get_ref().as_ref();
        match (named(key), value.get_ref()) {
            (Some(kind), DeValue::Array(list)) => grids.extend(list.iter().map(|grid| (kind, grid))),
            (Some(_), _) => mistakes.note(name.span().start, key, format!("a grid is headed [[{key}]]")),
            (None, _) if key == "trace" => {}
            (None, _) => {
                let known: Vec<String> = KINDS.iter().map(|kind| format!("[[{}]]", kind.name)).collect();
                let known = format!("not known; there are [trace.NAME], {}", known.join(", "));
                mistakes.note(name.span().start, key, known);
            }
        }
    }
    grids.sort_by_key(|(_, grid)| grid.span().start);
    grids
}

/// Cells in their order, each once.
#[derive(Default)]
struct Cells {
    cells: Vec<Cell>,
    known: HashSet<String>,
}

impl Cells {
    fn add(&mut self, cell: Cell) {
        let written: Vec<String> = cell.inputs.iter().map(Value::written).collect();
        if self.known.insert(format!("{} {}", cell.kind.name, written.join("\t"))) {
            self.cells.push(cell);
        }
    }
}

fn traces(document: &DeTable<'_>, folder: &Path, mistakes: &mut Mistakes) -> Vec<TraceSource> {
    let Some((name, value)) = document.get_key_value("trace") else { return Vec::new() };
    let DeValue::Table(table) = value.get_ref() else {
        mistakes.note(name.span().start, "trace", "a trace is headed [trace.NAME]".into());
        return Vec::new();
    };
    let mut sources = Vec::new();
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in entries {
        let key = format!("trace.{}", name.get_ref());
        match value.get_ref() {
            DeValue::Table(settings) => {
                sources.extend(TraceSource::read(
                    name.get_ref(),
                    settings,
                    name.span().start,
                    folder,
                    mistakes,
                ));
            }
            _ => mistakes.note(name.span().start, &key, "a trace is headed [trace.NAME]".into()),
        }
    }
    sources
}

fn read_grid(
    kind: &'static QuestionKind,
    grid: &Spanned<DeValue<'_>>,
    traces: &[&str],
    cells: &mut Cells,
    mistakes: &mut Mistakes,
) {
    let DeValue::Table(table) = grid.get_ref() else {
        mistakes.note(grid.span().start, kind.name, format!("a grid is headed [[{}]]", kind.name));
        return;
    };
    for (name, _) in table.iter() {
        let key = name.get_ref().as_ref();
        if !kind.parameters.iter().any(|parameter| parameter.name == key) {
            let known: Vec<&str> = kind.parameters.iter().map(|parameter| parameter.name).collect();
            let message = format!("[[{}]] has no such parameter; it has: {}", kind.name, known.join(", "));
            mistakes.note(name.span().start, key, message);
        }
    }
    let before = mistakes.found.len();
    let mut axes = Vec::new();
    for parameter in kind.parameters {
        axes.push(match (table.get(parameter.name), parameter.default_value()) {
            (Some(given), _) => parameter.axis(given, traces, mistakes),
            (None, Some(default)) => vec![default],
            (None, None) => {
                let message = format!("[[{}]] needs it: {}", kind.name, parameter.meaning);
                mistakes.note(grid.span().start, parameter.name, message);
                Vec::new()
            }
        });
    }
    let count = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.len()));
    if count.is_none_or(|count| count + cells.cells.len() > MOST_CELLS) {
        let message = format!("the grid has more cells than the {MOST_CELLS} that a sweep may have");
        mistakes.note(grid.span().start, kind.name, message);
    } else if mistakes.found.len() == before {
        product(kind, &axes, traces, cells);
    }
}

fn product(kind: &'static QuestionKind, axes: &[Vec<Value>], traces: &[&str], cells: &mut Cells) {
    let mut at = vec![0usize; axes.len()];
    loop {
        let mut inputs: Vec<Value> = at.iter().zip(axes).map(|(at, axis)| axis[*at].clone()).collect();
        drop_idle(kind.parameters, &mut inputs);
        let trace = kind.parameters.iter().position(|parameter| parameter.name == "trace");
        let trace = trace.and_then(|at| match &inputs[at] {
            Value::Text(name) => traces.iter().position(|trace| trace == name),
            _ => None,
        });
        cells.add(Cell { kind, inputs, trace });
        let Some(turn) = (0..axes.len()).rev().find(|axis| at[*axis] + 1 < axes[*axis].len()) else { break };
        at[turn] += 1;
        at[turn + 1..].fill(0);
    }
}

/// Clears the values of parameters that do not matter for this cell.
fn drop_idle(parameters: &[Parameter], inputs: &mut [Value]) {
    for (at, parameter) in parameters.iter().enumerate() {
        let Some((other, values)) = parameter.only_for else { continue };
        let deciding = parameters.iter().position(|parameter| parameter.name == other).map(|at| &inputs[at]);
        let matters = matches!(deciding, Some(Value::Text(text)) if values.contains(&text.as_str()));
        if !matters {
            inputs[at] = Value::None;
        }
    }
}

/// Largest number of cells: more would take too long.
const MOST_CELLS: usize = 1_000_000;
