//! The grammar of nginx: directives, blocks, quotes, includes.

use crate::ledger::{Ledger, LineId};
use crate::{DEPTH_MAX, Error, FILES_MAX, Files, SourceText, TEXT_BYTES_MAX};

/// A directive with its block.
#[derive(Clone, Debug)]
pub struct Directive {
    /// Name.
    pub name: String,
    /// Arguments, without quotes.
    pub words: Vec<String>,
    /// Directives of its block; empty without one.
    pub block: Vec<Directive>,
    /// Statement.
    pub line: LineId,
}

impl Directive {
    /// Returns an argument, or an empty text.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// Reads a file with its includes.
///
/// # Errors
/// Unbalanced braces, an open quote, or a limit.
pub fn parse(file: SourceText, files: &dyn Files, ledger: &mut Ledger) -> Result<Vec<Directive>, Error> {
    let mut reader = FileReader { files, ledger, files_left: FILES_MAX, bytes_left: TEXT_BYTES_MAX };
    reader.file(&file, 0)
}

/// Reader of files and their includes.
struct FileReader<'a> {
    files: &'a dyn Files,
    ledger: &'a mut Ledger,
    files_left: usize,
    bytes_left: usize,
}

impl FileReader<'_> {
    fn file(&mut self, file: &SourceText, depth: usize) -> Result<Vec<Directive>, Error> {
        self.files_left = self.files_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(file.text.len());
        if self.files_left == 0 || self.bytes_left == 0 {
            return Err(Error::Limit("the included files are too many or too long".into()));
        }
        let mut scanner = Scanner { name: &file.name, text: &file.text, at: 0, line: 1 };
        let found = self.block(&mut scanner, depth, None)?;
        assert_eq!(scanner.at, file.text.len(), "{} is read to its end", file.name);
        Ok(found)
    }

    /// Reads directives up to the closing brace, or the end of the file at the top. With `shared`
    /// the directives belong to the statement of their block.
    fn block(
        &mut self,
        scanner: &mut Scanner<'_>,
        depth: usize,
        shared: Option<LineId>,
    ) -> Result<Vec<Directive>, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Limit(format!("blocks nest deeper than {DEPTH_MAX}")));
        }
        let mut found = Vec::new();
        let is_top = scanner.at == 0;
        loop {
            let mut words = Vec::new();
            scanner.skip_blanks();
            let (start, line) = (scanner.at, scanner.line);
            let end = loop {
                match scanner.token()? {
                    Mark::Word(word) => words.push(word),
                    other => break other,
                }
            };
            match end {
                Mark::End | Mark::Close if words.is_empty() => {
                    return match (end, is_top) {
                        (Mark::End, true) | (Mark::Close, false) => Ok(found),
                        (Mark::End, false) => Err(scanner.wrong("a block has no closing brace")),
                        _ => Err(scanner.wrong("a closing brace without a block")),
                    };
                }
                Mark::Semicolon if words.is_empty() => continue,
                Mark::Open if words.is_empty() => return Err(scanner.wrong("a block without a name")),
                Mark::End | Mark::Close => return Err(scanner.wrong("a directive ends without ;")),
                _ => {}
            }
            assert!(!words.is_empty(), "a directive has a name");
            let text = scanner.text[start..scanner.at].to_owned();
            let id = match shared {
                Some(id) => id,
                None => self.ledger.add(scanner.name, line, &text)?,
            };
            let name = words.remove(0);
            if name == "include" && matches!(end, Mark::Semicolon) {
                self.include(&words, id, depth, &mut found)?;
                continue;
            }
            let block = match end {
                Mark::Open if name.ends_with("_by_lua_block") => {
                    scanner.skip_block()?;
                    Vec::new()
                }
                Mark::Open => {
                    let own = OPAQUE.contains(&name.as_str()).then_some(id);
                    self.block(scanner, depth + 1, shared.or(own))?
                }
                _ => Vec::new(),
            };
            found.push(Directive { name, words, block, line: id });
        }
    }

    fn include(
        &mut self,
        words: &[String],
        id: LineId,
        depth: usize,
        found: &mut Vec<Directive>,
    ) -> Result<(), Error> {
        let pattern = words.first().map_or("", String::as_str);
        if pattern.ends_with("mime.types") || pattern.contains("modules-enabled") {
            self.ledger.needless(id, "types of files and modules matter where files are served");
            return Ok(());
        }
        match self.files.read(pattern) {
            Ok(files) => {
                self.ledger.carried(id);
                for file in files {
                    found.extend(self.file(&file, depth + 1)?);
                }
            }
            Err(_) if PARAMETERS.iter().any(|end| pattern.ends_with(end)) => {
                self.ledger.left_out(id, "the file is not there; by its name it sets fields or ciphers");
            }
            Err(why) => {
                // Refusals may stand in the file, so that its level refuses all clients.
                let why = format!("cannot read it: {why}. All clients are refused: migrate again with it");
                self.ledger.unsafe_line(id, why);
                let words = vec!["all".to_owned()];
                found.push(Directive { name: "deny".into(), words, block: Vec::new(), line: id });
            }
        }
        Ok(())
    }
}

/// Ends of names of files that hold no refusals.
const PARAMETERS: [&str; 4] = ["_params", "options-ssl-nginx.conf", "ssl.conf", "snakeoil.conf"];
/// Blocks with lines that are no directives.
const OPAQUE: [&str; 6] = ["types", "map", "geo", "split_clients", "events", "charset_map"];

enum Mark {
    Word(String),
    Open,
    Close,
    Semicolon,
    End,
}

struct Scanner<'a> {
    name: &'a str,
    text: &'a str,
    at: usize,
    line: usize,
}

impl Scanner<'_> {
    fn wrong(&self, why: &str) -> Error {
        Error::Syntax(self.name.into(), self.line, why.into())
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        debug_assert!(self.text.is_char_boundary(self.at), "the scanner stands between characters");
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek() {
            if c == '#' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if c.is_whitespace() {
                self.next();
            } else {
                break;
            }
        }
    }

    fn token(&mut self) -> Result<Mark, Error> {
        self.skip_blanks();
        let Some(first) = self.peek() else { return Ok(Mark::End) };
        match first {
            '{' | '}' | ';' => {
                self.next();
                Ok(match first {
                    '{' => Mark::Open,
                    '}' => Mark::Close,
                    _ => Mark::Semicolon,
                })
            }
            '"' | '\'' => self.quoted(first),
            _ => Ok(Mark::Word(self.bare())),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Mark, Error> {
        self.next();
        let mut word = String::new();
        loop {
            match self.next() {
                None => return Err(self.wrong("a quote does not end")),
                Some(c) if c == quote => return Ok(Mark::Word(word)),
                Some('\\') if matches!(self.peek(), Some('"' | '\'')) => word.extend(self.next()),
                Some(c) => word.push(c),
            }
        }
    }

    /// Reads a word without quotes; braces within `${name}` and `{2,3}` of expressions belong to
    /// it.
    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            let is_variable = c == '{' && word.ends_with('$');
            if c.is_whitespace() || ";}".contains(c) || c == '{' && !is_variable {
                break;
            }
            word.extend(self.next());
            if is_variable {
                while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && *c != ';') {
                    word.extend(self.next());
                    if c == '}' {
                        break;
                    }
                }
            } else if c == '\\' {
                word.extend(self.next());
            }
        }
        word
    }

    /// Skips a block of another language up to its balanced end.
    fn skip_block(&mut self) -> Result<(), Error> {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                None => return Err(self.wrong("a block has no closing brace")),
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct None;

    impl Files for None {
        fn read(&self, _: &str) -> Result<Vec<SourceText>, String> {
            Err("absent".into())
        }

        fn is_readable(&self, _: &str) -> bool {
            false
        }
    }

    fn read(text: &str) -> Result<Vec<Directive>, Error> {
        let file = SourceText { name: "nginx.conf".into(), text: text.into() };
        parse(file, &None, &mut Ledger::default())
    }

    #[test]
    fn blocks_and_quotes_are_read() {
        let found = read("a 'b c' \"d\\\"e\" ${x}y; # z\nhttp { server { listen 80; } }").expect("sound");
        assert_eq!(found[0].words, ["b c", "d\"e", "${x}y"]);
        assert_eq!(found[1].block[0].block[0].words, ["80"]);
    }

    #[test]
    fn broken_texts_are_errors() {
        for text in ["a", "a {", "}", "{ }", "a 'b;", "a { b }"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(matches!(read(&"a {".repeat(100)), Err(Error::Limit(_))));
    }

    #[test]
    fn types_are_one_statement() {
        let mut ledger = Ledger::default();
        let file = SourceText { name: "n".into(), text: "types { a/b c; d/e f; }".into() };
        parse(file, &None, &mut ledger).expect("sound");
        assert_eq!(ledger.lines().count(), 1);
    }
}
