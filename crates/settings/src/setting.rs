//! Types of settings: reading, printing and description.

use crate::mistake::{Mistakes, closest};
use crate::tree::{Node, Table, Value};
use ipnet::IpNet;
use shoal_core::{ByteCount, parse_duration};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Type of a setting.
pub(crate) trait Setting: Sized {
    /// Returns the kind of the type, for the reference and for overrides.
    fn kind() -> SettingKind;

    /// Reads the setting. Returns `None` after noting every mistake in it.
    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self>;

    /// Returns the value as spelled in the file. The spelling parses to an equal value.
    fn write(&self) -> TomlText;

    /// Restores the value of `old` for settings that take effect with the next start. Adds the
    /// names of changed ones to `waiting`. `key` is this setting's own name. A value that is not a
    /// section has nothing to restore.
    fn keep_until_restart(&mut self, _old: &Self, _key: &str, _waiting: &mut Vec<String>) {}
}

/// Struct with settings as fields.
pub(crate) trait Section: Sized {
    /// Returns the fields, in the order of the schema.
    fn outline() -> Vec<Field>;

    /// Reads the fields. Returns `None` if a field without a default is missing or wrong.
    fn read_fields(fields: &mut Fields<'_>) -> Option<Self>;

    /// Returns the names and values of the fields.
    fn write_fields(&self) -> Vec<(&'static str, TomlText)>;

    /// Returns an example that an operator might write, shown in the sample file.
    fn example() -> Self;
}

/// Kind of a setting's type: its name, and its spelling in an override.
#[derive(Clone, Debug)]
pub(crate) enum SettingKind {
    /// A value written within quotes.
    Text(String),
    /// A value written bare: a number or a boolean.
    Bare(&'static str),
    /// Several values.
    List(Box<SettingKind>),
    /// One of these words, each with its doc comment.
    Choice(&'static [(&'static str, &'static str)]),
    /// A table of settings.
    Section {
        /// Fields of the section.
        outline: fn() -> Vec<Field>,
        /// Example that an operator might write.
        example: fn() -> TomlText,
    },
}

/// One field of a section, as the reference describes it.
#[derive(Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    /// Doc comment of the field.
    pub text: &'static str,
    pub kind: SettingKind,
    /// Default value; `None` for a required field.
    pub default: Option<TomlText>,
    /// Smallest and largest value.
    pub limits: Option<String>,
    /// `true` if a change takes effect with the next start only.
    pub needs_restart: bool,
}

/// Value ready to be printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TomlText {
    Value(String),
    List(Vec<TomlText>),
    Section(Vec<(&'static str, TomlText)>),
}

/// Returns `"…"`, escaped as in TOML.
pub(crate) fn quoted(text: &str) -> TomlText {
    TomlText::Value(toml::Value::from(text).to_string())
}

/// Writes the value on one line.
impl fmt::Display for TomlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.write_str(value),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Section(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                write!(f, "{{ {} }}", fields.join(", "))
            }
        }
    }
}

/// Reader of one table's fields, which notes unknown names.
pub(crate) struct Fields<'a> {
    table: &'a Table,
    node: Option<&'a Node>,
    key: &'a str,
    mistakes: &'a mut Mistakes,
}

/// Function that returns the reason for refusing a value.
pub(crate) type Check<'a, T> = Option<&'a dyn Fn(&T) -> Result<(), String>>;

impl<'a> Fields<'a> {
    /// Makes a reader of `table`, which is at `node`. The file itself has no node.
    pub fn new(table: &'a Table, node: Option<&'a Node>, key: &'a str, mistakes: &'a mut Mistakes) -> Self {
        Self { table, node, key, mistakes }
    }

    /// Reads one field. A wrong field gives its default, so that the other fields are read too.
    pub fn field<T: Setting>(
        &mut self,
        name: &str,
        default: Option<fn() -> T>,
        check: Check<'_, T>,
    ) -> Option<T> {
        debug_assert!(!name.is_empty() && !name.contains('.'), "{name:?} is one name");
        let key = join(self.key, name);
        let Some(node) = self.table.value(name) else {
            if default.is_none() {
                let place = self.node.map_or(&crate::tree::SourceLocation::Nowhere, |node| &node.place);
                self.mistakes.note(place, &key, format!("`{name}` is missing"), None);
            }
            return default.map(|default| default());
        };
        let value = T::read(node, &key, self.mistakes);
        if let (Some(value), Some(check)) = (&value, check)
            && let Err(message) = check(value)
        {
            self.mistakes.note(&node.place, &key, message, None);
        }
        value.or_else(|| default.map(|default| default()))
    }

    /// Notes every name that is not one of `known`.
    pub fn refuse_others(&mut self, known: &[&str]) {
        debug_assert!(known.iter().enumerate().all(|(at, name)| !known[..at].contains(name)), "{known:?}");
        for name in self.table.names().filter(|name| !known.contains(&name.text.as_str())) {
            let hint = crate::outline::hint_for(self.key, &name.text, known);
            let message = format!("unknown setting `{}`", name.text);
            self.mistakes.note(&name.place, &join(self.key, &name.text), message, hint);
        }
    }
}

/// Reads a section from a table node.
pub(crate) fn read_section<T: Section>(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<T> {
    match &node.value {
        Value::Table(table) => T::read_fields(&mut Fields::new(table, Some(node), key, mistakes)),
        _ => unexpected(node, key, "a table", None, mistakes),
    }
}

/// Refuses values outside `limits`. An absent value is within any limits.
pub(crate) fn check_limits<T: PartialOrd + Setting>(
    value: &T,
    limits: &RangeInclusive<T>,
) -> Result<(), String> {
    debug_assert!(limits.start() <= limits.end(), "limits are from the least to the most");
    if limits.contains(value) || value.write() == quoted("none") {
        return Ok(());
    }
    Err(format!("{} is out of range: {}", value.write(), describe_limits(limits)))
}

/// Returns limits such as `1 to 1024`.
pub(crate) fn describe_limits<T: Setting>(limits: &RangeInclusive<T>) -> String {
    format!("{} to {}", limits.start().write(), limits.end().write())
}

/// Returns `outer.name`, or the name alone at the top.
pub(crate) fn join(outer: &str, name: &str) -> String {
    assert!(!name.is_empty(), "a setting of {outer:?} has a name");
    if outer.is_empty() { name.into() } else { format!("{outer}.{name}") }
}

/// Notes a word that is not one of `words`.
pub(crate) fn refuse_word(node: &Node, key: &str, word: &str, words: &[&str], mistakes: &mut Mistakes) {
    let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let message = format!("{word:?} is not one of {}", listed.join(", "));
    let hint = closest(word, words.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
    mistakes.note(&node.place, key, message, hint);
}

fn unexpected<T>(
    node: &Node,
    key: &str,
    expected: &str,
    hint: Option<&str>,
    mistakes: &mut Mistakes,
) -> Option<T> {
    let message = format!("expected {expected}, found {}", node.value.noun());
    mistakes.note(&node.place, key, message, hint.map(str::to_owned));
    None
}

/// Reads a text with `parse`. The parser's error is the message.
fn read_text<T, E: fmt::Display>(
    node: &Node,
    key: &str,
    mistakes: &mut Mistakes,
    expected: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    let Value::Text(text) = &node.value else { return unexpected(node, key, expected, None, mistakes) };
    parse(text).map_err(|error| mistakes.note(&node.place, key, error.to_string(), None)).ok()
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn kind() -> SettingKind {
                SettingKind::Bare("integer")
            }

            fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
                let Value::Integer(number) = node.value else {
                    return unexpected(node, key, "an integer", None, mistakes);
                };
                let read = Self::try_from(number).ok();
                if read.is_none() {
                    let message = match number < 0 {
                        true => format!("{number} is below 0"),
                        false => format!("{number} is above {}", Self::MAX),
                    };
                    mistakes.note(&node.place, key, message, None);
                }
                read
            }

            fn write(&self) -> TomlText {
                TomlText::Value(self.to_string())
            }
        }
    )*};
}

integers!(u16, u32, u64, usize);

impl Setting for f64 {
    fn kind() -> SettingKind {
        SettingKind::Bare("number")
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        match node.value {
            Value::Float(number) if number.is_finite() => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => unexpected(node, key, "a finite number", None, mistakes),
        }
    }

    fn write(&self) -> TomlText {
        TomlText::Value(format!("{self:?}"))
    }
}

impl Setting for bool {
    fn kind() -> SettingKind {
        SettingKind::Bare("`true` or `false`")
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        match node.value {
            Value::Boolean(value) => Some(value),
            _ => unexpected(node, key, "true or false", Some("without quotes"), mistakes),
        }
    }

    fn write(&self) -> TomlText {
        TomlText::Value(self.to_string())
    }
}

impl Setting for String {
    fn kind() -> SettingKind {
        SettingKind::Text("text".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        read_text(node, key, mistakes, "a text", |text| Ok::<_, fmt::Error>(text.to_owned()))
    }

    fn write(&self) -> TomlText {
        quoted(self)
    }
}

impl Setting for PathBuf {
    fn kind() -> SettingKind {
        SettingKind::Text("path".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        read_text(node, key, mistakes, "a path", |text| match text.contains('\0') {
            false => Ok(Self::from(text)),
            true => Err("a path cannot hold a NUL"),
        })
    }

    fn write(&self) -> TomlText {
        quoted(&self.to_string_lossy())
    }
}

impl Setting for ByteCount {
    fn kind() -> SettingKind {
        SettingKind::Text("size".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        if let Value::Integer(bytes) = node.value {
            return u64::read(node, key, mistakes).map(ByteCount).filter(|_| bytes >= 0);
        }
        read_text(node, key, mistakes, "a size such as \"512 MB\" or \"1.5 GiB\"", str::parse)
    }

    fn write(&self) -> TomlText {
        quoted(&self.to_string())
    }
}

impl Setting for Duration {
    fn kind() -> SettingKind {
        SettingKind::Text("duration".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let expected = "a duration with its unit, such as \"30s\" or \"7 days\"";
        read_text(node, key, mistakes, expected, parse_duration)
    }

    fn write(&self) -> TomlText {
        let (seconds, millis) = (self.as_secs(), self.subsec_millis());
        let unit = [("day", 86_400), ("h", 3600), ("min", 60)]
            .into_iter()
            .find(|(_, scale)| seconds > 0 && seconds.is_multiple_of(*scale));
        quoted(&match (unit, millis) {
            (Some((unit, scale)), 0) => format!("{} {unit}", seconds / scale),
            (_, 0) => format!("{seconds} s"),
            _ => format!("{} ms", self.as_millis()),
        })
    }
}

/// Reads a duration as settings spell it, such as `30d`.
///
/// # Errors
/// If it is none; the text says so.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|_| format!("{text:?} is no duration with its unit, such as 30d"))
}

impl Setting for SocketAddr {
    fn kind() -> SettingKind {
        SettingKind::Text("address:port".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let expected = "an address and port such as \"127.0.0.1:3128\"";
        read_text(node, key, mistakes, expected, crate::listen_address)
    }

    fn write(&self) -> TomlText {
        quoted(&self.to_string())
    }
}

impl Setting for IpNet {
    fn kind() -> SettingKind {
        SettingKind::Text("network".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let expected = "a network such as \"10.0.0.0/8\", or an address";
        read_text(node, key, mistakes, expected, |text| {
            // A single address is a network of one.
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(Self::from));
            network.map_err(|_| format!("{text:?} is not {expected}"))
        })
    }

    fn write(&self) -> TomlText {
        quoted(&self.to_string())
    }
}

/// Absence is spelled `"none"`, so that an operator can remove a default.
impl<T: Setting> Setting for Option<T> {
    fn kind() -> SettingKind {
        match T::kind() {
            SettingKind::Text(noun) => SettingKind::Text(format!("{noun}, or `none`")),
            other => other,
        }
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text.is_empty() || text == "none" => Some(None),
            _ => T::read(node, key, mistakes).map(Some),
        }
    }

    fn write(&self) -> TomlText {
        self.as_ref().map_or_else(|| quoted("none"), T::write)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn kind() -> SettingKind {
        SettingKind::List(Box::new(T::kind()))
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let Value::List(items) = &node.value else {
            let hint = match (T::kind(), key.contains('[')) {
                (SettingKind::Section { .. }, false) => format!("write [[{key}]], once for each"),
                _ => "write [ and ] around it".into(),
            };
            return unexpected(node, key, "a list", Some(&hint), mistakes);
        };
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| T::read(item, &format!("{key}[{index}]"), mistakes))
            .collect();
        read.into_iter().collect()
    }

    fn write(&self) -> TomlText {
        TomlText::List(self.iter().map(T::write).collect())
    }
}
