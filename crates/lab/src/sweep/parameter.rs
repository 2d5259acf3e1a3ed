//! Values that a parameter takes, and their forms: one, a list, or a range.
//!
//! ```text
//! nodes = 8                                  one value
//! nodes = [4, 8, 16]                         each of them
//! nodes = { from = 1, to = 31, step = 5 }    1, 6, 11 … 31
//! cache = { from = "1 MB", to = "1 GB", factor = 2 }    each twice the one before
//! ```

use super::Value;
use super::spec::Mistakes;
use shoal_core::ByteCount;
use shoal_trace::parquet::{ColumnKind, Field};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One parameter of a kind of question.
#[derive(Debug)]
pub struct Parameter {
    /// Name in the specification and in the results.
    pub name: &'static str,
    /// Meaning in the field's terms, with its unit.
    pub meaning: &'static str,
    /// Values that the parameter takes.
    pub take: Take,
    /// Value where the specification gives none.
    pub default: Default,
    /// Another parameter, with the values of it for which this parameter matters.
    pub only_for: Option<(&'static str, &'static [&'static str])>,
}

/// Values that a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Take {
    /// The name of a trace of the specification.
    Trace,
    /// One of these names.
    Name(fn() -> Vec<&'static str>),
    /// A whole number between these.
    Count(u64, u64),
    /// A number between these.
    Number(f64, f64),
    /// Bytes, such as "64 MB", or a share of all objects' bytes, such as 0.1.
    Size,
    /// Latencies in milliseconds with commas between them.
    Latencies,
}

/// Value of a parameter that the specification leaves out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// The specification must give a value.
    Required,
    /// The parameter then has no value.
    Absent,
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// A name.
    Text(&'static str),
}

impl Parameter {
    /// Creates a parameter that must be given.
    pub const fn required(name: &'static str, take: Take, meaning: &'static str) -> Self {
        Self { name, meaning, take, default: Default::Required, only_for: None }
    }

    /// Creates a parameter with a default.
    pub const fn optional(name: &'static str, take: Take, default: Default, meaning: &'static str) -> Self {
        Self { name, meaning, take, default, only_for: None }
    }

    /// Returns the parameter limited to these values of another parameter.
    pub const fn only_for(mut self, other: &'static str, values: &'static [&'static str]) -> Self {
        self.only_for = Some((other, values));
        self
    }

    /// Returns the parameter's column among the results.
    pub fn field(&self) -> Field {
        let kind = match self.take {
            Take::Count(..) => ColumnKind::Int64,
            Take::Number(..) => ColumnKind::Double,
            Take::Trace | Take::Name(_) | Take::Size | Take::Latencies => ColumnKind::Text,
        };
        Field::optional(self.name, kind)
    }

    /// Returns the accepted values and the default, for a reference.
    pub fn reference_text(&self) -> (String, String) {
        let takes = match self.take {
            Take::Trace => "the name of a `[trace.NAME]`".into(),
            Take::Name(names) => {
                names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            }
            Take::Count(least, u64::MAX) => format!("a whole number from {least}"),
            Take::Count(least, most) => format!("a whole number from {least} to {most}"),
            Take::Number(least, f64::INFINITY) => format!("a number from {least}"),
            Take::Number(least, most) => format!("a number from {least} to {most}"),
            Take::Size => "bytes such as `\"64 MB\"`, or a share of all objects' bytes such as `0.1`".into(),
            Take::Latencies => "milliseconds with commas between them, such as `\"50,10\"`".into(),
        };
        let default = match self.default {
            Default::Required => "must be given".into(),
            Default::Absent => "none".into(),
            Default::Count(number) => number.to_string(),
            Default::Number(number) => number.to_string(),
            Default::Text(text) => format!("`{text}`"),
        };
        (takes, default)
    }

    /// Returns the default value; `None` when the specification must give one.
    pub(super) fn default_value(&self) -> Option<Value> {
        match self.default {
            Default::Required => None,
            Default::Absent => Some(Value::None),
            Default::Count(number) => Some(Value::Count(number)),
            Default::Number(number) => Some(Value::Number(number)),
            Default::Text(text) => Some(Value::Text(text.into())),
        }
    }

    /// Returns the values that a specification gives the parameter. `traces` are the names of its
    /// traces.
    pub(super) fn axis(
        &self,
        given: &Spanned<DeValue<'_>>,
        traces: &[&str],
        mistakes: &mut Mistakes,
    ) -> Vec<Value> {
        match given.get_ref() {
            DeValue::Array(items) => {
                if items.is_empty() {
                    mistakes.note(given.span().start, self.name, "the list is empty".into());
                }
                items.iter().filter_map(|item| self.one(item, traces, mistakes)).collect()
            }
            DeValue::Table(range) => self.range(range, given.span().start, mistakes),
            _ => self.one(given, traces, mistakes).into_iter().collect(),
        }
    }

    fn one(&self, given: &Spanned<DeValue<'_>>, traces: &[&str], mistakes: &mut Mistakes) -> Option<Value> {
        let read = match (self.take, given.get_ref()) {
            (Take::Trace, DeValue::String(text)) => among(text, traces, "trace"),
            (Take::Name(names), DeValue::String(text)) => among(text, &names(), self.name),
            (Take::Count(least, most), _) => number(given).and_then(|number| count(number, least, most)),
            (Take::Number(least, most), _) => number(given).and_then(|number| within(number, least, most)),
            (Take::Size, DeValue::String(text)) => size(text),
            (Take::Size, DeValue::Float(_)) => number(given).and_then(share),
            (Take::Size, DeValue::Integer(_)) => number(given).and_then(bytes),
            (Take::Latencies, DeValue::String(text)) => latencies(text),
            (Take::Trace, _) => Err("a trace's name is needed".into()),
            _ => Err("a text is needed".into()),
        };
        read.map_err(|why| mistakes.note(given.span().start, self.name, why)).ok()
    }

    /// Reads `{ from, to, step }` or `{ from, to, factor }`.
    fn range(&self, range: &DeTable<'_>, offset: usize, mistakes: &mut Mistakes) -> Vec<Value> {
        let wrong = |mistakes: &mut Mistakes, why: &str| {
            mistakes.note(offset, self.name, why.into());
            Vec::new()
        };
        let known = ["from", "to", "step", "factor"];
        if let Some((name, _)) = range.iter().find(|(name, _)| !known.contains(&name.get_ref().as_ref())) {
            mistakes.note(
                name.span().start,
                self.name,
                format!("a range has from, to, and step or factor, not {:?}", name.get_ref()),
            );
            return Vec::new();
        }
        let bound = |name: &str| {
            range.get(name).map(|value| match (self.take, value.get_ref()) {
                (Take::Size, DeValue::String(text)) => {
                    text.parse::<ByteCount>().map(|bytes| bytes.0 as f64).map_err(|error| error.to_string())
                }
                _ => number(value),
            })
        };
        let (Some(Ok(from)), Some(Ok(to))) = (bound("from"), bound("to")) else {
            return wrong(mistakes, "a range is written { from = 1, to = 31, step = 5 } or with factor = 2");
        };
        let next: Box<dyn Fn(f64) -> f64> = match (bound("step"), bound("factor")) {
            (Some(Ok(step)), None) if step > 0.0 => Box::new(move |at| from + step * at),
            (None, Some(Ok(factor))) if factor > 1.0 && from > 0.0 => {
                Box::new(move |at| from * factor.powf(at))
            }
            _ => {
                return wrong(
                    mistakes,
                    "a range needs a step above 0, or a factor above 1 and a beginning above 0",
                );
            }
        };
        let last = to * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        let values = (0..=MOST_VALUES).map(|at| next(f64::from(at))).take_while(|value| *value <= last);
        let values: Vec<f64> = values.collect();
        if values.is_empty() || values.len() > MOST_VALUES as usize {
            return wrong(mistakes, &format!("a range holds 1 to {MOST_VALUES} values"));
        }
        let one = |value: f64| self.of_range(value).map_err(|why| mistakes.note(offset, self.name, why)).ok();
        values.into_iter().map_while(one).collect()
    }

    fn of_range(&self, value: f64) -> Result<Value, String> {
        match self.take {
            Take::Count(least, most) => count(value.round(), least, most),
            Take::Number(least, most) => within(value, least, most),
            Take::Size if value <= 1.0 => share(value),
            Take::Size => bytes(value.round()),
            _ => Err("names have no range; write a list".into()),
        }
    }
}

fn among(text: &str, names: &[&str], what: &str) -> Result<Value, String> {
    match names.contains(&text) {
        true => Ok(Value::Text(text.into())),
        false => Err(format!("{text:?} is no {what}; there are: {}", names.join(", "))),
    }
}

fn number(given: &Spanned<DeValue<'_>>) -> Result<f64, String> {
    let number = match given.get_ref() {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| "a number is needed".into())
}

fn count(number: f64, least: u64, most: u64) -> Result<Value, String> {
    let is_whole = number.fract() == 0.0 && (0.0..=1e15).contains(&number);
    match is_whole && (least..=most).contains(&(number as u64)) {
        true => Ok(Value::Count(number as u64)),
        false if most == u64::MAX => Err(format!("{number} is no whole number from {least} to 10^15")),
        false => Err(format!("{number} is no whole number from {least} to {most}")),
    }
}

fn within(number: f64, least: f64, most: f64) -> Result<Value, String> {
    match (least..=most).contains(&number) && number.is_finite() {
        true => Ok(Value::Number(number)),
        false if most.is_infinite() => Err(format!("{number} is not a number from {least}")),
        false => Err(format!("{number} is not between {least} and {most}")),
    }
}

fn share(number: f64) -> Result<Value, String> {
    match number > 0.0 && number <= 1.0 {
        true => Ok(Value::Text(number.to_string())),
        false => {
            Err(format!("{number} is no share above 0 and up to 1; sizes in bytes are written \"64 MB\""))
        }
    }
}

fn bytes(number: f64) -> Result<Value, String> {
    count(number, 1, u64::MAX).map(|_| Value::Text(ByteCount(number as u64).to_string()))
}

fn size(text: &str) -> Result<Value, String> {
    let bytes = text.parse::<ByteCount>().map_err(|error| error.to_string())?;
    if bytes.0 == 0 {
        Err("a cache has at least one byte".into())
    } else {
        Ok(Value::Text(bytes.to_string()))
    }
}

fn latencies(text: &str) -> Result<Value, String> {
    let is_latency = |part: &str| part.trim().parse::<f64>().is_ok_and(|ms| ms.is_finite() && ms >= 0.0);
    match text.split(',').all(is_latency) {
        true => Ok(Value::Text(text.split(',').map(str::trim).collect::<Vec<_>>().join(","))),
        false => Err(format!("{text:?} is no list of latencies in milliseconds such as \"50,10\"")),
    }
}

/// Largest number of values of one range.
const MOST_VALUES: u32 = 100_000;
