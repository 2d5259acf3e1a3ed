//! The kinds of questions that a sweep may ask: parameters and results as data, and the function
//! that answers.

mod cluster;
mod gms;
mod pgms;
mod policy;
mod wan;
mod wide_area;

use super::parameter::Parameter;
use super::source::SweepTrace;
use super::{Cell, Value};
use shoal_trace::parquet::Field;

/// A kind of question.
#[derive(Debug)]
pub struct QuestionKind {
    /// Name of the kind: `[[name]]` in a specification, `name.parquet` among the results.
    pub name: &'static str,
    /// Question of the kind, in a sentence.
    pub question: &'static str,
    /// Parameters of the question; the first is the trace, where it has one.
    pub parameters: &'static [Parameter],
    /// Results of the answer.
    pub results: &'static [Field],
    answer: fn(&CellInputs<'_>, Option<&SweepTrace>) -> Result<Vec<Value>, String>,
}

/// Every kind.
pub const KINDS: [&QuestionKind; 6] =
    [&policy::KIND, &cluster::KIND, &wide_area::KIND, &gms::KIND, &pgms::KIND, &wan::KIND];

/// Returns the kind of a name.
pub fn named(name: &str) -> Option<&'static QuestionKind> {
    KINDS.into_iter().find(|kind| kind.name == name)
}

impl PartialEq for QuestionKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl QuestionKind {
    /// Returns `true` if the question is about a trace.
    pub fn has_trace(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == "trace")
    }

    /// Returns the columns of the results: parameters, the trace's digest, results, and the reason
    /// of a refusal.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = self.parameters.iter().map(Parameter::field).collect();
        fields.extend(self.has_trace().then_some(Field::optional("trace_digest", TEXT)));
        fields.extend_from_slice(self.results);
        fields.push(REFUSED);
        fields
    }

    /// Returns the fields of an answer: the results of the kind, and last the reason of a refusal.
    pub fn answers(&self) -> Vec<Field> {
        self.results.iter().copied().chain([REFUSED]).collect()
    }

    /// Answers a cell; a refusal is an answer too.
    pub(super) fn answer(&self, cell: &Cell, loaded: Option<&SweepTrace>) -> Vec<Value> {
        let inputs = CellInputs { parameters: self.parameters, values: &cell.inputs };
        let mut refused = match (self.answer)(&inputs, loaded) {
            Ok(mut results) => {
                debug_assert_eq!(results.len(), self.results.len(), "{}", self.name);
                results.push(Value::None);
                return results;
            }
            Err(why) => vec![Value::Text(why)],
        };
        let mut results = vec![Value::None; self.results.len()];
        results.append(&mut refused);
        results
    }
}

/// A cell's parameters by name.
struct CellInputs<'a> {
    parameters: &'static [Parameter],
    values: &'a [Value],
}

impl CellInputs<'_> {
    fn value(&self, name: &str) -> &Value {
        let at = self.parameters.iter().position(|parameter| parameter.name == name);
        debug_assert!(at.is_some(), "a parameter of this kind is called {name}");
        at.and_then(|at| self.values.get(at)).unwrap_or(&Value::None)
    }

    fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text(text) = self.value(name) { Some(text) } else { None }
    }

    fn count(&self, name: &str) -> Option<u64> {
        if let Value::Count(count) = self.value(name) { Some(*count) } else { None }
    }

    fn number(&self, name: &str) -> Option<f64> {
        if let Value::Number(number) = self.value(name) { Some(*number) } else { None }
    }

    /// Returns latencies in seconds from milliseconds with commas between them.
    fn latencies(&self, name: &str) -> Vec<f64> {
        let parts = self.text(name).into_iter().flat_map(|text| text.split(','));
        parts.filter_map(|part| part.trim().parse::<f64>().ok()).map(|ms| ms / 1e3).collect()
    }
}

/// Returns the trace of a kind that has one.
fn needed(loaded: Option<&SweepTrace>) -> Result<&SweepTrace, String> {
    loaded.ok_or_else(|| "the trace was not loaded".into())
}

const TEXT: shoal_trace::parquet::ColumnKind = shoal_trace::parquet::ColumnKind::Text;
const COUNT: shoal_trace::parquet::ColumnKind = shoal_trace::parquet::ColumnKind::Int64;
const NUMBER: shoal_trace::parquet::ColumnKind = shoal_trace::parquet::ColumnKind::Double;
/// The last column of every table.
const REFUSED: Field = Field::optional("refused", TEXT);
