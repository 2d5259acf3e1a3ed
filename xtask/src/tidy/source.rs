//! Rust source as the rules see it: code with comments and literals blanked, which lines are tests,
//! and where each function begins and ends.
//!
//! This is a scanner, not a parser: it knows comments, strings, characters and braces, which is
//! enough to say where code is, and it fails towards silence on text that does not compile anyway.

/// One Rust file, scanned.
pub struct Source {
    /// The text with every comment and every literal's inside replaced by spaces; same length and
    /// lines.
    pub code: String,
    /// For each line whether it is test code.
    pub is_test: Vec<bool>,
}

/// A function: its name, and its first and last line from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`.
    pub first: usize,
    /// The line of its closing brace.
    pub last: usize,
}

impl Source {
    /// Scans the file at `path`.
    pub fn scan(path: &str, text: &str) -> Self {
        let code = blank(text);
        let mut is_test = vec![is_test_file(path); code.lines().count()];
        for (first, last) in test_regions(&code) {
            is_test[first - 1..last].fill(true);
        }
        Self { code, is_test }
    }

    /// Lines of code with their number from 1 and whether they are tests.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        self.code.lines().zip(&self.is_test).enumerate().map(|(at, (line, test))| (at + 1, line, *test))
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for start in words(&self.code, "fn") {
            let rest = self.code[start + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            if name.is_empty() {
                continue; // a function pointer type
            }
            if let Some((_, close)) = block_after(&self.code, start) {
                functions.push(Function {
                    name,
                    first: line_at(&self.code, start),
                    last: line_at(&self.code, close),
                });
            }
        }
        functions
    }
}

/// Byte positions where `word` stands in `code` with no letter, digit or underscore beside it.
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let ends_free = |at: usize| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let free = |edge: Option<char>, beside: Option<char>| {
            !(edge.is_some_and(is_word) && beside.is_some_and(is_word))
        };
        free(word.chars().next(), before) && free(word.chars().next_back(), after)
    };
    code.match_indices(word).map(|(at, _)| at).filter(|at| ends_free(*at)).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The line number, from 1, of a byte position.
fn line_at(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Whether everything in the file at `path` is test code.
fn is_test_file(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().expect("split gives at least one part");
    *name == "tests.rs"
        || folders.contains(&"tests")
        || folders.contains(&"benches")
        || folders[..].first() == Some(&"testkit")
}

/// First and last line of each item under an attribute `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_regions(code: &str) -> Vec<(usize, usize)> {
    let attributes = code.match_indices("#[cfg(").filter(|(at, _)| {
        let inside = code[*at..].split(']').next().unwrap_or_default();
        !words(inside, "test").is_empty()
            && words(inside, "not").is_empty()
            && words(inside, "any").is_empty()
    });
    let regions = attributes.filter_map(|(at, _)| {
        let after = at + code[at..].find(']')?;
        let (_, close) = block_after(code, after + 1)?;
        Some((line_at(code, at), line_at(code, close)))
    });
    regions.collect()
}

/// The braces of the first block after `start`, unless a `;` ends the item before one opens.
fn block_after(code: &str, start: usize) -> Option<(usize, usize)> {
    let bytes = code.as_bytes();
    let mut nested = 0i32;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested -= 1,
            b';' if nested == 0 => return None,
            b'{' if nested == 0 => return closing(bytes, at).map(|close| (at, close)),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the brace opened at `open` closes.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// `text` with comments and the insides of literals replaced by spaces, byte for byte.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_or_comment_end(bytes, at);
        match end {
            Some(end) => {
                let end = end.min(bytes.len());
                code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            None => at += 1,
        }
    }
    String::from_utf8(code).expect("whole literals and comments became spaces, so no character was split")
}

/// Where the comment or literal that starts at `at` ends; `None` when none starts there.
fn literal_or_comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Some(at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(block_comment_end(bytes, at)),
        [b'"', ..] => Some(string_end(bytes, at + 1)),
        [b'\'', ..] => character_end(bytes, at),
        [b'r', b'"' | b'#', ..] if starts_word => raw_string_end(bytes, at + 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if starts_word => raw_string_end(bytes, at + 2),
        _ => None,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// The end of a raw string whose hashes or quote start at `at`; `None` for a raw identifier such as
/// `r#type`.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at..].iter().take_while(|byte| **byte == b'#').count();
    let body = at + hashes + 1;
    if bytes.get(at + hashes) != Some(&b'"') {
        return None;
    }
    let closes = |from: usize| {
        bytes[from] == b'"' && bytes[from + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes
    };
    (body..bytes.len()).find(|from| closes(*from)).map_or(Some(bytes.len()), |from| Some(from + 1 + hashes))
}

/// The end of a character literal, or `None` when the quote begins a lifetime.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'\\' => bytes.get(at + 3..)?.iter().position(|byte| *byte == b'\'').map(|more| at + 3 + more + 1),
        first => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xE0 => 2,
                0xE0..0xF0 => 3,
                _ => 4,
            };
            (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"}{", 'y')"#, "f(        ,    )"),
            ("r#\"{\"# + 1", "       + 1"),
            ("br##\"\"#\"## + r#type", "           + r#type"),
            ("'a: loop { '}' '\\'' '\\u{7d}' 'é' }", "'a: loop {                        }"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("let br = bar\"\";", "let br = bar  ;"),
        ] {
            let expected: String = code.into();
            assert_eq!(
                blank(text).split_whitespace().collect::<Vec<_>>(),
                expected.split_whitespace().collect::<Vec<_>>(),
                "{text}"
            );
            assert_eq!(blank(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn test_code_is_told_from_other_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { '}'; }\n}\n#[cfg(not(test))]\nfn c() {}\n#[cfg(test)]\nmod t;\nfn d() {}\n";
        let source = Source::scan("crates/a/src/lib.rs", text);
        assert_eq!(source.is_test, [false, true, true, true, true, false, false, false, false, false]);
        for (path, test) in [
            ("crates/a/src/b/tests.rs", true),
            ("crates/a/tests/x.rs", true),
            ("testkit/src/lib.rs", true),
            ("crates/a/src/latests.rs", false),
        ] {
            assert_eq!(Source::scan(path, "fn x() {}").is_test, [test], "{path}");
        }
    }

    #[test]
    fn functions_are_found_with_their_extent() {
        let text = "trait T { fn none(&self) -> [u8; 4]; }\nfn one<F: Fn(u8) -> u8>(f: F)\nwhere\n    F: Copy,\n{\n    let s = \"}\";\n    fn inner() {\n    }\n}\ntype P = fn(u8);\n";
        let functions = Source::scan("x.rs", text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.first, f.last)).collect();
        assert_eq!(found, [("one", 2, 9), ("inner", 7, 8)]);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("unsafe_code unsafe x.unwrap() unwrap_or()", "unsafe"), [12]);
        assert_eq!(words("x.unwrap() x.unwrap_or(1)", ".unwrap()"), [1]);
    }

    #[test]
    fn any_bytes_are_scanned_without_harm() {
        for text in
            ["\"", "'", "'\\", "r#", "r#\"", "/*", "b", "\"\\", "'é", "fn", "fn x(", "#[cfg(test", "{"]
        {
            let source = Source::scan("x.rs", text);
            assert_eq!(source.code.len(), text.len(), "{text}");
            assert_eq!(source.functions(), [], "{text}");
        }
    }
}
