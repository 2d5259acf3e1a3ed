//! A walk through a JSON document that arrives in pieces: values are replaced or left out, and all
//! other bytes stay as they came.
//!
//! The walk keeps the keys that lead to the current place, one token at most, and the bytes of one
//! member's beginning. A string that nobody asks for is passed on in slices.
//!
//! ```text
//!   {"versions": {"1.0.0": {"dist": {"tarball": "http://…"}}}}
//!     path: versions / 1.0.0 / dist / tarball        scalar: "http://…" with its quotes
//! ```

mod text;

pub use text::{quoted, text};

use crate::BadDocument;

/// Keys from the document's root to the current value. An element of an array has an empty key.
#[derive(Debug, Default)]
pub struct Path {
    /// Keys of the upper levels; deeper ones have none.
    keys: Vec<String>,
    depth: usize,
}

impl Path {
    /// Number of keys.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Key at this level, from 0; empty below eight levels.
    pub fn key(&self, level: usize) -> &str {
        if level < self.depth { self.keys.get(level).map_or("", String::as_str) } else { "" }
    }

    /// Returns `true` if the keys are these; `*` is any key.
    pub fn is(&self, keys: &[&str]) -> bool {
        self.depth == keys.len()
            && keys.iter().enumerate().all(|(level, key)| *key == "*" || *key == self.key(level))
    }

    fn set(&mut self, level: usize, key: &str) {
        debug_assert!(level < KEYS_MAX || key.is_empty(), "deep keys are not kept");
        self.depth = level + 1;
        if level < KEYS_MAX {
            self.keys.resize_with((level + 1).max(self.keys.len()), String::new);
            self.keys[level].clear();
            self.keys[level].push_str(key);
        }
    }
}

/// The part of a walk that knows the document.
pub trait Visitor {
    /// Returns `false` to leave out the member of an object at this path.
    fn keeps(&mut self, _: &Path) -> bool {
        true
    }

    /// Returns `true` if [`Self::scalar`] wants the string, number or word at this path.
    fn wants(&mut self, path: &Path) -> bool;

    /// Takes a value as it stands in the document, and writes its replacement.
    fn scalar(&mut self, path: &Path, raw: &[u8], output: &mut Vec<u8>);

    /// Takes the end of the object or array at this path.
    fn left(&mut self, _: &Path) {}

    /// Returns `true` if the element of an array at this path is held back until its end, where
    /// [`Self::passes`] decides about it.
    fn weighs(&mut self, _: &Path) -> bool {
        false
    }

    /// Returns `false` to leave out an element that was held back.
    fn passes(&mut self, _: &Path) -> bool {
        true
    }
}

/// A walk in progress.
pub struct Walk<V> {
    /// The visitor.
    pub visitor: V,
    path: Path,
    levels: Vec<Level>,
    state: Expectation,
    /// Bytes since the last member's end, until the next member is known to be kept.
    pending: Vec<u8>,
    /// Current token, if it is a key or wanted.
    token: Vec<u8>,
    /// Depth of the member that is left out.
    left_out: Option<usize>,
    /// Element that is held back.
    weighed: Option<WeighedElement>,
    /// Bytes of that element, between two pieces of the document.
    held: Vec<u8>,
    at: u64,
}

/// Element that is kept or left out at its end.
#[derive(Clone, Copy)]
struct WeighedElement {
    /// Depth of the array.
    level: usize,
    /// Place of the element, with the comma before it, in the current output.
    start: usize,
}

struct Level {
    is_object: bool,
    /// `true` if a member was written.
    has_members: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    /// A value begins.
    Value,
    /// The first element of an array, or its end.
    FirstElement,
    /// A key, or the end of an empty object.
    FirstKey,
    /// A key.
    Key,
    /// Within a key; `true` after a backslash.
    InKey(bool),
    Colon,
    /// Within a string: it is wanted; a backslash came before.
    InString(bool, bool),
    /// Within a number or a word; `true` if it is wanted.
    InWord(bool),
    AfterValue,
    End,
}

impl<V: Visitor> Walk<V> {
    /// Begins at a document's start.
    pub fn new(visitor: V) -> Self {
        Self {
            visitor,
            path: Path::default(),
            levels: Vec::new(),
            state: Expectation::Value,
            pending: Vec::new(),
            token: Vec::new(),
            left_out: None,
            weighed: None,
            held: Vec::new(),
            at: 0,
        }
    }

    /// Takes the next piece and appends finished bytes to `output`.
    pub fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let mut rest = input;
        if let Some(weighed) = &mut self.weighed {
            weighed.start = output.len();
            output.append(&mut self.held);
        }
        while let Some(&byte) = rest.first() {
            let taken = match self.state {
                Expectation::InString(wanted, escaped) => self.string(rest, wanted, escaped, output)?,
                Expectation::InKey(escaped) => self.key(rest, escaped, output)?,
                Expectation::InWord(wanted) => self.word(rest, wanted, output)?,
                _ => {
                    self.mark(byte, output)?;
                    1
                }
            };
            self.at += taken as u64;
            rest = &rest[taken..];
        }
        if let Some(weighed) = self.weighed {
            self.held = output.split_off(weighed.start);
            if self.held.len() > ELEMENT_MAX {
                return Err(self.bad("a longer element than any registry has"));
            }
        }
        Ok(())
    }

    /// Takes the end of the document.
    pub fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        if let (Expectation::InWord(wanted), true) = (self.state, self.levels.is_empty()) {
            self.end_word(wanted, output);
        }
        match self.state {
            Expectation::End => Ok(()),
            _ => Err(self.bad("the document ends early")),
        }
    }

    fn bad(&self, why: &'static str) -> BadDocument {
        BadDocument { at: self.at, why }
    }

    /// Takes a byte outside of tokens.
    fn mark(&mut self, byte: u8, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        match (self.state, byte) {
            (Expectation::FirstKey | Expectation::Key, b' ' | b'\t' | b'\r' | b'\n') => {
                self.push_pending(&[byte])?
            }
            // Between a comma and an element.
            (Expectation::Value, b' ' | b'\t' | b'\r' | b'\n') if !self.pending.is_empty() => {
                self.push_pending(&[byte])?
            }
            (_, b' ' | b'\t' | b'\r' | b'\n') => self.write(&[byte], output),
            (Expectation::FirstKey | Expectation::Key, b'"') => {
                self.push_pending(b"\"")?;
                self.token.clear();
                self.token.push(b'"');
                self.state = Expectation::InKey(false);
            }
            (Expectation::FirstKey, b'}') | (Expectation::AfterValue, b'}') => self.close(true, output)?,
            (Expectation::FirstElement, b']') | (Expectation::AfterValue, b']') => {
                self.close(false, output)?
            }
            (Expectation::Colon, b':') => {
                self.write(b":", output);
                self.state = Expectation::Value;
            }
            (Expectation::Value | Expectation::FirstElement, _) => self.begin_value(byte, output)?,
            (Expectation::AfterValue, b',') => match self.levels.last() {
                Some(level) if level.is_object => {
                    self.push_pending(b",")?;
                    self.state = Expectation::Key;
                }
                Some(_) => {
                    self.push_pending(b",")?;
                    self.state = Expectation::Value;
                }
                None => return Err(self.bad("a comma after the document")),
            },
            _ => return Err(self.bad("another byte than JSON has here")),
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        if self.levels.last().is_some_and(|level| !level.is_object) {
            self.begin_element(self.levels.len() - 1, output);
        }
        match byte {
            b'{' | b'[' => {
                if self.levels.len() == DEPTH_MAX {
                    return Err(self.bad("more levels than any registry has"));
                }
                self.write(&[byte], output);
                let is_object = byte == b'{';
                self.levels.push(Level { is_object, has_members: false });
                self.state = if is_object { Expectation::FirstKey } else { Expectation::FirstElement };
            }
            b'"' => {
                let wanted = self.is_wanted();
                self.token.clear();
                self.state = Expectation::InString(wanted, false);
                self.take(b"\"", wanted, output)?;
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                let wanted = self.is_wanted();
                self.token.clear();
                self.state = Expectation::InWord(wanted);
                self.take(&[byte], wanted, output)?;
            }
            _ => return Err(self.bad("another byte than a value begins with")),
        }
        Ok(())
    }

    /// Begins an element of the array at this level.
    fn begin_element(&mut self, level: usize, output: &mut Vec<u8>) {
        self.path.set(level, "");
        let is_free = self.left_out.is_none() && self.weighed.is_none();
        let is_weighed = is_free && self.visitor.weighs(&self.path);
        if is_weighed {
            self.weighed = Some(WeighedElement { level, start: output.len() });
        }
        if self.left_out.is_none() {
            // The elements before were left out: the comma separates nothing.
            let has_comma = self.pending.first() == Some(&b',') && !self.levels[level].has_members;
            output.extend_from_slice(&self.pending[usize::from(has_comma)..]);
        }
        self.pending.clear();
        self.levels[level].has_members |= !is_weighed;
    }

    fn is_wanted(&mut self) -> bool {
        self.left_out.is_none() && self.visitor.wants(&self.path)
    }

    /// Takes a part of a string.
    fn string(
        &mut self,
        rest: &[u8],
        wanted: bool,
        escaped: bool,
        output: &mut Vec<u8>,
    ) -> Result<usize, BadDocument> {
        if escaped {
            self.state = Expectation::InString(wanted, false);
            self.take(&rest[..1], wanted, output)?;
            return Ok(1);
        }
        let found = memchr::memchr2(b'"', b'\\', rest);
        let taken = found.map_or(rest.len(), |place| place + 1);
        self.take(&rest[..taken], wanted, output)?;
        match found.map(|place| rest[place]) {
            Some(b'"') => {
                if wanted {
                    self.visitor.scalar(&self.path, &self.token, output);
                }
                self.value_ended(output);
            }
            Some(_) => self.state = Expectation::InString(wanted, true),
            None => {}
        }
        Ok(taken)
    }

    fn key(&mut self, rest: &[u8], escaped: bool, output: &mut Vec<u8>) -> Result<usize, BadDocument> {
        let found = if escaped { None } else { memchr::memchr2(b'"', b'\\', rest) };
        let taken = if escaped { 1 } else { found.map_or(rest.len(), |place| place + 1) };
        self.push_pending(&rest[..taken])?;
        self.token.extend_from_slice(&rest[..taken]);
        self.state = match found.map(|place| rest[place]) {
            Some(b'"') => {
                self.key_ended(output)?;
                Expectation::Colon
            }
            Some(_) => Expectation::InKey(true),
            None => Expectation::InKey(false),
        };
        Ok(taken)
    }

    /// Decides about a member by its key.
    fn key_ended(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let level = self.levels.len() - 1;
        debug_assert!(self.levels[level].is_object, "keys stand in objects");
        debug_assert!(self.token.len() >= 2, "a key has its quotes");
        if level < KEYS_MAX {
            let key = text(&self.token).ok_or_else(|| self.bad("a key with a wrong escape"))?;
            self.path.set(level, &key);
        } else {
            self.path.set(level, "");
        }
        let pending = std::mem::take(&mut self.pending);
        if self.left_out.is_none() && !self.visitor.keeps(&self.path) {
            self.left_out = Some(level);
        }
        if self.left_out.is_none() {
            // The members before were left out: the comma separates nothing.
            let has_comma = pending.first() == Some(&b',') && !self.levels[level].has_members;
            output.extend_from_slice(&pending[usize::from(has_comma)..]);
            self.levels[level].has_members = true;
        }
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    fn word(&mut self, rest: &[u8], wanted: bool, output: &mut Vec<u8>) -> Result<usize, BadDocument> {
        let is_part = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'E' | b'+' | b'-' | b'.');
        let taken = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.take(&rest[..taken], wanted, output)?;
        if taken < rest.len() {
            self.end_word(wanted, output);
        }
        Ok(taken)
    }

    fn end_word(&mut self, wanted: bool, output: &mut Vec<u8>) {
        if wanted {
            self.visitor.scalar(&self.path, &self.token, output);
        }
        self.value_ended(output);
    }

    fn close(&mut self, is_object: bool, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let closes = self.levels.pop().is_some_and(|level| level.is_object == is_object);
        if !closes {
            return Err(self.bad("the end of another kind of value"));
        }
        let pending = std::mem::take(&mut self.pending);
        self.write(&pending, output);
        self.write(if is_object { b"}" } else { b"]" }, output);
        self.path.depth = self.levels.len();
        debug_assert!(pending.iter().all(u8::is_ascii_whitespace), "no member was begun");
        if self.left_out.is_none() {
            self.visitor.left(&self.path);
        }
        self.value_ended(output);
        Ok(())
    }

    fn value_ended(&mut self, output: &mut Vec<u8>) {
        debug_assert!(self.levels.len() <= DEPTH_MAX);
        if let Some(weighed) = self.weighed.filter(|weighed| weighed.level + 1 == self.levels.len()) {
            debug_assert!(weighed.start <= output.len(), "the element is in this output");
            self.weighed = None;
            match self.visitor.passes(&self.path) {
                true => self.levels[weighed.level].has_members = true,
                false => output.truncate(weighed.start),
            }
        }
        if self.left_out == self.levels.len().checked_sub(1) {
            self.left_out = None;
        }
        self.state = if self.levels.is_empty() { Expectation::End } else { Expectation::AfterValue };
    }

    /// Takes bytes of a token that is wanted or passed on.
    fn take(&mut self, bytes: &[u8], wanted: bool, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        if !wanted {
            self.write(bytes, output);
            return Ok(());
        }
        if self.token.len() + bytes.len() > TOKEN_MAX {
            return Err(self.bad("a longer value than any registry has"));
        }
        self.token.extend_from_slice(bytes);
        debug_assert!(self.left_out.is_none(), "nobody wants a value that is left out");
        Ok(())
    }

    fn push_pending(&mut self, bytes: &[u8]) -> Result<(), BadDocument> {
        if self.pending.len() + bytes.len() > TOKEN_MAX {
            return Err(self.bad("a longer key than any registry has"));
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn write(&self, bytes: &[u8], output: &mut Vec<u8>) {
        if self.left_out.is_none() {
            output.extend_from_slice(bytes);
        }
    }
}

/// Levels with keys that are kept.
const KEYS_MAX: usize = 8;
/// Most levels of a document.
const DEPTH_MAX: usize = 512;
/// Longest element that is held back, in bytes.
const ELEMENT_MAX: usize = 1 << 20;
/// Longest wanted value, and longest beginning of a member, in bytes.
const TOKEN_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests;
