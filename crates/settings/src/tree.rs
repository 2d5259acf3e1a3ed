//! A configuration as values with their places. A place is a byte of the file, or an override's
//! name.

use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Place at which a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceLocation {
    /// In the file, from this byte on.
    File { offset: usize },
    /// In an environment variable or command line option of this name.
    Override(Rc<str>),
    /// Nowhere: a default.
    Nowhere,
}

/// Value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub place: SourceLocation,
    pub value: Value,
}

/// Types of values in TOML.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    /// Wider than any setting, so that a number out of range differs from a value that is not a
    /// number.
    Integer(i128),
    Float(f64),
    Text(String),
    Datetime,
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// Returns the type's name with its article, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::Datetime => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Names and values, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Vec<(Name, Node)>);

/// Key with its place.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub text: String,
    pub place: SourceLocation,
}

impl Table {
    /// Returns the value of `name`.
    pub fn value(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    /// Returns `true` if `name` is set within the table called `section`.
    pub fn holds(&self, section: &str, name: &str) -> bool {
        let section = self.value(section).map(|node| &node.value);
        matches!(section, Some(Value::Table(table)) if table.value(name).is_some())
    }

    /// Returns every name.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Sets `name` to `node` in place of any earlier value.
    pub fn set(&mut self, name: &str, node: Node) {
        self.0.retain(|(key, _)| key.text != name);
        self.0.push((Name { text: name.into(), place: node.place.clone() }, node));
        debug_assert_eq!(self.0.iter().filter(|(key, _)| key.text == name).count(), 1, "{name} stands once");
    }

    /// Returns the table called `name`. Makes the table if there is none or another value in its
    /// place.
    pub fn table_mut(&mut self, name: &str, place: &SourceLocation) -> &mut Table {
        let index = match self.0.iter().position(|(key, _)| key.text == name) {
            Some(index) => index,
            None => {
                self.set(name, Node { place: place.clone(), value: Value::Table(Table::default()) });
                self.0.len() - 1
            }
        };
        let value = &mut self.0[index].1.value;
        if !matches!(value, Value::Table(_)) {
            *value = Value::Table(Table::default());
        }
        match value {
            Value::Table(table) => table,
            _ => unreachable!("made a table just above"),
        }
    }

    /// Returns the tables of the list called `name`.
    pub fn tables_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Table> {
        let node = self.0.iter_mut().find(|(key, _)| key.text == name).map(|(_, node)| &mut node.value);
        let list = match node {
            Some(Value::List(list)) => &mut list[..],
            _ => &mut [],
        };
        list.iter_mut().filter_map(|item| match &mut item.value {
            Value::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Returns the place of a key path such as `site[0].hosts[1]`, or of its nearest enclosing
    /// value.
    pub fn locate(&self, path: &str) -> SourceLocation {
        let mut place = SourceLocation::Nowhere;
        let mut table = self;
        let mut parts = path.split(['.', '[']).peekable();
        'path: while let Some(part) = parts.next() {
            let Some(mut node) = table.value(part) else { break };
            place = node.place.clone();
            while let Some(index) = parts.peek().and_then(|part| part.strip_suffix(']')) {
                let Value::List(list) = &node.value else { break 'path };
                let Some(item) = index.parse().ok().and_then(|index: usize| list.get(index)) else {
                    break 'path;
                };
                node = item;
                place = node.place.clone();
                parts.next();
            }
            match &node.value {
                Value::Table(inner) => table = inner,
                _ => break,
            }
        }
        place
    }

    /// Returns the node of a key path such as `site[0].rule[1]`, if it is there.
    pub fn find(&self, path: &str) -> Option<&Node> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let mut parts = first.split('[');
        let mut node = self.value(parts.next()?)?;
        for index in parts {
            let Value::List(list) = &node.value else { return None };
            node = list.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
        }
        match (rest, &node.value) {
            (None, _) => Some(node),
            (Some(rest), Value::Table(inner)) => inner.find(rest),
            _ => None,
        }
    }

    /// Parses a file. Errors are (offset, message).
    pub fn parse(text: &str) -> Result<Self, Vec<(usize, String)>> {
        let (document, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self::from_toml(document.get_ref(), None));
        }
        Err(errors
            .iter()
            .map(|error| (error.span().map_or(0, |span| span.start), error.message().replace('\n', ", ")))
            .collect())
    }

    fn from_toml(table: &DeTable<'_>, place: Option<&SourceLocation>) -> Self {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            let name = Name { text: key.get_ref().to_string(), place: place_of(key, place) };
            (name, Node::from_toml(value, place))
        };
        let read = Self(table.iter().map(entry).collect());
        debug_assert_eq!(read.0.len(), table.len(), "no name of the file is lost");
        read
    }
}

impl Node {
    /// Parses one TOML value, all of it at `place`.
    pub fn parse(text: &str, place: &SourceLocation) -> Option<Self> {
        let value = DeValue::parse(text).ok()?;
        Some(Self::from_toml(&value, Some(place)))
    }

    fn from_toml(value: &Spanned<DeValue<'_>>, place: Option<&SourceLocation>) -> Self {
        let converted = match value.get_ref() {
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Integer(number) => {
                // TOML integers have at most 64 bits. A longer one is out of every setting's range.
                Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(items) => {
                Value::List(items.iter().map(|item| Self::from_toml(item, place)).collect())
            }
            DeValue::Table(table) => Value::Table(Table::from_toml(table, place)),
        };
        Self { place: place_of(value, place), value: converted }
    }
}

fn place_of<T>(spanned: &Spanned<T>, place: Option<&SourceLocation>) -> SourceLocation {
    place.cloned().unwrap_or(SourceLocation::File { offset: spanned.span().start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_nearest_place() {
        let text = "a = 1\n[[b]]\nc = [1, { d = 2 }]\n";
        let table = Table::parse(text).expect("valid TOML");
        for (path, found) in [
            ("a", "1\n"),
            ("b[0].c[1].d", "2 }"),
            ("b[0].c[0]", "1, "),
            ("b[0].missing", "[[b]]"),
            ("b[7]", "[[b]]"),
        ] {
            let SourceLocation::File { offset } = table.locate(path) else { panic!("{path} has no place") };
            assert!(text[offset..].starts_with(found), "{path}: {:?}", &text[offset..]);
        }
        assert_eq!(table.locate("z"), SourceLocation::Nowhere);
    }

    #[test]
    fn values_keep_their_type() {
        let table = Table::parse("a = 0xff\nb = -1.5\nc = true\nd = 1979-05-27\ne = 99999999999999999999\n");
        let table = table.expect("valid TOML");
        let value = |name| &table.value(name).expect("present").value;
        assert!(matches!(value("a"), Value::Integer(255)));
        assert!(matches!(value("b"), Value::Float(number) if *number == -1.5));
        assert!(matches!(value("c"), Value::Boolean(true)));
        assert!(matches!(value("d"), Value::Datetime));
        assert!(matches!(value("e"), Value::Integer(number) if *number > i128::from(u64::MAX)));
    }
}
