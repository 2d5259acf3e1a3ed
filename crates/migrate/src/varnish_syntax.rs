//! The grammar of VCL 4, as a tree.

use crate::ledger::{Ledger, LineId};
use crate::varnish_lexer::{Token, Word, words};
use crate::{DEPTH_MAX, Error, FILES_MAX, Files, SourceText};

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One of them holds.
    Any(Vec<Condition>),
    /// All of them hold.
    All(Vec<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
    /// A comparison: name, operator, value; without an operator the name is there.
    Test(String, &'static str, String),
    /// Anything else.
    Opaque(String),
}

/// A step of a subroutine.
#[derive(Clone, Debug)]
pub struct Step {
    /// Action.
    pub act: Act,
    /// Statement.
    pub line: LineId,
}

/// Kinds of steps.
#[derive(Clone, Debug)]
pub enum Act {
    /// Branches, each with its statement; the last may have no condition.
    If(Vec<(Option<Condition>, Vec<Step>, LineId)>),
    /// `set`: target and value.
    Set(String, Vec<Token>),
    /// `unset`.
    Unset(String),
    /// `return`, with its argument.
    Return(String, Vec<Token>),
    /// `call`.
    Call(String),
    /// `new`: name and constructor.
    New(String, String),
    /// A call of a method or function.
    Invoke(String, Vec<Token>),
}

/// A field of a backend, an acl or a probe.
pub type Field = (String, Vec<Token>, LineId);

/// A declaration.
#[derive(Clone, Debug)]
pub enum Item {
    /// Backend with its fields.
    Backend(String, Vec<Field>, LineId),
    /// Probe with its fields.
    Probe(String, Vec<Field>, LineId),
    /// Access list, its entries as written.
    Acl(String, Vec<Token>, LineId),
    /// Subroutine.
    Sub(String, Vec<Step>),
}

/// Reads a file with its includes.
///
/// # Errors
/// A text that breaks the grammar, or a limit.
pub fn parse(file: &SourceText, files: &dyn Files, ledger: &mut Ledger) -> Result<Vec<Item>, Error> {
    let mut count = 0;
    read(file, files, ledger, &mut count)
}

fn read(
    file: &SourceText,
    files: &dyn Files,
    ledger: &mut Ledger,
    count: &mut usize,
) -> Result<Vec<Item>, Error> {
    *count += 1;
    if *count > FILES_MAX.min(100) {
        return Err(Error::Limit("too many files are included".into()));
    }
    let tokens = words(&file.name, &file.text)?;
    let mut parser = Parser { file: &file.name, tokens: &tokens, at: 0, ledger };
    let mut items = Vec::new();
    let mut includes = Vec::new();
    while parser.peek().is_some() {
        let before = parser.at;
        parser.item(&mut items, &mut includes)?;
        assert!(parser.at > before, "each declaration takes words");
    }
    assert_eq!(parser.at, tokens.len(), "{} is read to its end", file.name);
    for (name, line) in includes {
        match files.read(&name).map(|found| (found.is_empty(), found)) {
            Ok((false, found)) => {
                ledger.carried(line);
                for file in found {
                    items.extend(read(&file, files, ledger, count)?);
                }
            }
            Ok((true, _)) | Err(_) => {
                ledger.unsafe_line(line, "cannot read it: refusals in it are not carried over");
                items.push(Item::Sub("vcl_recv".into(), vec![Step { act: Act::Call(ABSENT.into()), line }]));
            }
        }
    }
    Ok(items)
}

struct Parser<'a> {
    file: &'a str,
    tokens: &'a [Token],
    at: usize,
    ledger: &'a mut Ledger,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn wrong(&self, why: &str) -> Error {
        let last = self.peek().or(self.tokens.last()).map_or(1, |token| token.line);
        Error::Syntax(self.file.into(), last, why.into())
    }

    fn next(&mut self) -> Result<Token, Error> {
        let token = self.peek().cloned().ok_or_else(|| self.wrong("the text ends in the middle"))?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| token.is(sign));
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<(), Error> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("{sign} is missing"))),
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        let token = self.next()?;
        match token.word {
            Word::Name(name) | Word::Text(name) => Ok(name),
            Word::Sign(_) => Err(self.wrong("a name is missing")),
        }
    }

    /// Adds the statement between two places.
    fn line(&mut self, from: usize, to: usize) -> Result<LineId, Error> {
        assert!(from <= to, "a statement ends after its beginning");
        let tokens = &self.tokens[from..to.min(self.tokens.len())];
        let text: Vec<String> = tokens.iter().take(60).map(Token::shown).collect();
        let line = tokens.first().map_or(1, |token| token.line);
        self.ledger.add(
            self.file,
            line,
            &text.join(" ").replace(" ;", ";").replace("( ", "(").replace(" )", ")"),
        )
    }

    /// Takes words up to the sign, which is taken too.
    fn until(&mut self, sign: &str) -> Result<Vec<Token>, Error> {
        let mut found = Vec::new();
        loop {
            let token = self.next()?;
            if token.is(sign) {
                return Ok(found);
            }
            found.push(token);
        }
    }

    fn item(&mut self, items: &mut Vec<Item>, includes: &mut Vec<(String, LineId)>) -> Result<(), Error> {
        let start = self.at;
        match self.name()?.as_str() {
            "vcl" | "import" => {
                self.until(";")?;
                let line = self.line(start, self.at)?;
                self.ledger.needless(line, "rules stand in the settings, without a version or modules");
            }
            "include" => {
                let name = self.until(";")?.last().map(Token::shown).unwrap_or_default();
                let line = self.line(start, self.at)?;
                includes.push((name.trim_matches('"').to_owned(), line));
            }
            kind @ ("backend" | "probe") => {
                let name = self.name()?;
                let line = self.line(start, self.at)?;
                if self.peek().is_some_and(|token| token.name() == Some("none")) {
                    self.until(";")?;
                    items.push(Item::Backend(name, Vec::new(), line));
                    return Ok(());
                }
                self.expect("{")?;
                let fields = self.fields()?;
                items.push(match kind {
                    "backend" => Item::Backend(name, fields, line),
                    _ => Item::Probe(name, fields, line),
                });
            }
            "acl" => {
                let name = self.name()?;
                self.until("{")?;
                let entries = self.until("}")?;
                let line = self.line(start, self.at)?;
                items.push(Item::Acl(name, entries, line));
            }
            "sub" => {
                let name = self.name()?;
                self.expect("{")?;
                let steps = self.block(0)?;
                items.push(Item::Sub(name, steps));
            }
            "C{}C" => {
                let line = self.line(start, self.at)?;
                self.ledger.left_out(line, "inline C has no equal");
            }
            other => return Err(self.wrong(&format!("{other:?} begins no declaration"))),
        }
        Ok(())
    }

    /// Reads `.name = value;` up to the closing brace.
    fn fields(&mut self) -> Result<Vec<Field>, Error> {
        let mut found = Vec::new();
        while !self.takes("}") {
            let start = self.at;
            let name = self.name()?;
            self.expect("=")?;
            let mut value = Vec::new();
            let mut depth = 0usize;
            loop {
                let token = self.next()?;
                if token.is(";") && depth == 0 {
                    break;
                }
                depth += usize::from(token.is("{"));
                if token.is("}") {
                    depth = depth.checked_sub(1).ok_or_else(|| self.wrong("a brace closes nothing"))?;
                }
                value.push(token);
                // A probe within a backend ends with its brace.
                if depth == 0 && value.last().is_some_and(|token| token.is("}")) {
                    self.takes(";");
                    break;
                }
            }
            let line = self.line(start, self.at)?;
            found.push((name.trim_start_matches('.').to_owned(), value, line));
        }
        Ok(found)
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Step>, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Limit(format!("blocks nest deeper than {DEPTH_MAX}")));
        }
        let mut steps = Vec::new();
        while !self.takes("}") {
            if self.takes(";") {
                continue;
            }
            if self.takes("{") {
                steps.extend(self.block(depth + 1)?);
                continue;
            }
            steps.push(self.step(depth)?);
        }
        Ok(steps)
    }

    fn step(&mut self, depth: usize) -> Result<Step, Error> {
        let start = self.at;
        let word = self.name()?;
        if word == "if" {
            return self.branches(start, depth);
        }
        if word == "C{}C" {
            let line = self.line(start, self.at)?;
            return Ok(Step { act: Act::Invoke(word, Vec::new()), line });
        }
        let rest = self.until(";")?;
        let line = self.line(start, self.at)?;
        let first = rest.first().and_then(Token::name).unwrap_or_default().to_owned();
        let act = match word.as_str() {
            "set" => {
                if !matches!(rest.get(1).map(|token| &token.word), Some(Word::Sign(_))) {
                    return Err(self.wrong("set needs = behind its name"));
                }
                Act::Set(lower(&first), rest[2..].to_vec())
            }
            "unset" | "remove" => Act::Unset(lower(&first)),
            "call" => Act::Call(first),
            "return" => {
                let inner: Vec<Token> = rest.into_iter().skip(1).collect();
                let action = inner.first().and_then(Token::name).unwrap_or_default().to_owned();
                let arguments = inner.into_iter().skip(2).collect();
                Act::Return(action, arguments)
            }
            "new" => {
                let constructor = rest.get(2).and_then(Token::name).unwrap_or_default().to_owned();
                Act::New(first, constructor)
            }
            _ => Act::Invoke(word, rest),
        };
        Ok(Step { act, line })
    }

    fn branches(&mut self, start: usize, depth: usize) -> Result<Step, Error> {
        let mut branches = Vec::new();
        let mut start = start;
        loop {
            self.expect("(")?;
            let condition = self.any(depth)?;
            self.expect(")")?;
            let line = self.line(start, self.at)?;
            self.expect("{")?;
            branches.push((Some(condition), self.block(depth + 1)?, line));
            start = self.at;
            match self.peek().and_then(Token::name) {
                Some("elseif" | "elsif" | "elif") => self.at += 1,
                Some("else") => {
                    self.at += 1;
                    if self.peek().and_then(Token::name) == Some("if") {
                        self.at += 1;
                        continue;
                    }
                    let line = self.line(start, self.at)?;
                    self.expect("{")?;
                    branches.push((None, self.block(depth + 1)?, line));
                    break;
                }
                _ => break,
            }
        }
        let line = branches[0].2;
        Ok(Step { act: Act::If(branches), line })
    }

    fn any(&mut self, depth: usize) -> Result<Condition, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Limit(format!("conditions nest deeper than {DEPTH_MAX}")));
        }
        let mut list = vec![self.all(depth)?];
        while self.takes("||") {
            list.push(self.all(depth)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Condition::Any(list) })
    }

    fn all(&mut self, depth: usize) -> Result<Condition, Error> {
        let mut list = vec![self.unary(depth)?];
        while self.takes("&&") {
            list.push(self.unary(depth)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Condition::All(list) })
    }

    fn unary(&mut self, depth: usize) -> Result<Condition, Error> {
        if self.takes("!") {
            if depth > DEPTH_MAX {
                return Err(Error::Limit(format!("conditions nest deeper than {DEPTH_MAX}")));
            }
            return Ok(Condition::Not(Box::new(self.unary(depth + 1)?)));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.test()
    }

    /// Reads a comparison. Its sides may be calls or sums; then it is opaque.
    fn test(&mut self) -> Result<Condition, Error> {
        let start = self.at;
        let (mut depth, mut sign, mut sides) = (0usize, None, (Vec::new(), Vec::new()));
        while let Some(token) = self.peek().cloned() {
            if depth == 0 && [")", "&&", "||", "{", "}", ";"].iter().any(|end| token.is(end)) {
                break;
            }
            depth += usize::from(token.is("("));
            if token.is(")") {
                depth -= 1;
            }
            self.at += 1;
            match (&token.word, sign) {
                (Word::Sign(found), None) if depth == 0 && COMPARISONS.contains(found) => sign = Some(*found),
                (_, None) => sides.0.push(token),
                _ => sides.1.push(token),
            }
        }
        if start == self.at {
            return Err(self.wrong("a condition is missing"));
        }
        let one = |side: &[Token]| match side {
            [Token { word: Word::Name(text) | Word::Text(text), .. }] => Some(text.clone()),
            _ => None,
        };
        let value = sides.1.iter().all(|token| !matches!(token.word, Word::Sign(_)) || token.is("+"));
        let joined: String = sides.1.iter().filter_map(|token| one(std::slice::from_ref(token))).collect();
        Ok(match (one(&sides.0), sign) {
            (Some(name), None) => Condition::Test(lower(&name), "", String::new()),
            (Some(name), Some(sign)) if value => Condition::Test(lower(&name), sign, joined),
            _ => {
                let shown: Vec<String> = self.tokens[start..self.at].iter().map(Token::shown).collect();
                Condition::Opaque(shown.join(" "))
            }
        })
    }
}

/// Names of variables, with fields in lower case, so that they can be compared.
fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}

const COMPARISONS: [&str; 8] = ["==", "!=", "~", "!~", "<", ">", "<=", ">="];
/// Subroutine that stands for a file that cannot be read.
pub const ABSENT: &str = " absent";
