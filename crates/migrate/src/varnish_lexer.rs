//! Words of VCL 4.

use crate::Error;

/// A word with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Kind and text.
    pub word: Word,
    /// Line, from 1.
    pub line: usize,
}

/// Kinds of words.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// Name, number or duration: `req.http.Host`, `120s`.
    Name(String),
    /// String, without quotes.
    Text(String),
    /// Operator or bracket.
    Sign(&'static str),
}

impl Token {
    /// Returns `true` for this sign.
    pub fn is(&self, sign: &str) -> bool {
        self.word == Word::Sign(SIGNS.iter().find(|other| **other == sign).copied().unwrap_or(""))
    }

    /// Returns the text of a name.
    pub fn name(&self) -> Option<&str> {
        match &self.word {
            Word::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the text as it is written.
    pub fn shown(&self) -> String {
        match &self.word {
            Word::Name(name) => name.clone(),
            Word::Text(text) => format!("\"{text}\""),
            Word::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Splits a text into words.
///
/// # Errors
/// A string or comment without an end, or a character that VCL does not have.
pub fn words(file: &str, text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let wrong = |why: &str| Error::Syntax(file.into(), line, why.into());
        let (length, word) = if first.is_whitespace() {
            (first.len_utf8(), None)
        } else if rest.starts_with("//") || first == '#' {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            (comment.find("*/").ok_or_else(|| wrong("a comment does not end"))? + 4, None)
        } else if rest.starts_with("C{") {
            (
                rest.find("}C").ok_or_else(|| wrong("inline C does not end"))? + 2,
                Some(Word::Name("C{}C".into())),
            )
        } else if let Some((length, text)) = string(rest) {
            (length.ok_or_else(|| wrong("a string does not end"))?, Some(Word::Text(text.to_owned())))
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (sign.len(), Some(Word::Sign(sign)))
        } else {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            match rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()) {
                0 => return Err(wrong(&format!("{first:?} begins no word of VCL"))),
                end => (end, Some(Word::Name(rest[..end].to_owned()))),
            }
        };
        tokens.extend(word.map(|word| Token { word, line }));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    Ok(tokens)
}

/// Returns the length and contents of the string that begins here; no length if it does not end.
fn string(rest: &str) -> Option<(Option<usize>, &str)> {
    for (open, close) in [("\"\"\"", "\"\"\""), ("{\"", "\"}"), ("\"", "\"")] {
        if let Some(body) = rest.strip_prefix(open) {
            let end = body.find(close);
            let end = end.filter(|end| open != "\"" || !body[..*end].contains('\n'));
            let text = &body[..end.unwrap_or(0)];
            return Some((end.map(|end| open.len() + end + close.len()), text));
        }
    }
    None
}

/// Signs, the longer ones first.
const SIGNS: [&str; 24] = [
    "==", "!=", "!~", "&&", "||", "<=", ">=", "+=", "-=", "*=", "~", "!", "(", ")", "{", "}", ";", ",", "=",
    "+", "<", ">", "*", "/",
];
