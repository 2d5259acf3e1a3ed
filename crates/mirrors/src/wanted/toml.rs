//! Lockfiles in TOML as lines of tables and pairs: the shapes that tools write, nothing more.
//!
//! A value of many lines ends where its brackets close. Inline tables are read as flat pairs, so
//! that nothing recurses; a value that cannot be read has no pairs.

/// An event of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// `[name]`, or `[[name]]` for an entry of an array.
    Table { name: &'a str, is_entry: bool },
    /// A key, and its value as it stands.
    Pair(&'a str, &'a str),
}

/// Returns the events of a file.
pub(super) fn events(text: &str) -> impl Iterator<Item = Event<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return None;
            }
            let line = rest.lines().next().unwrap_or_default();
            let after_line = &rest[line.len()..];
            if line.starts_with('[') {
                rest = after_line;
                let is_entry = line.starts_with("[[");
                let name = line.trim_end().trim_start_matches('[').trim_end_matches(']').trim();
                return Some(Event::Table { name, is_entry });
            }
            let pair = if line.starts_with('#') { None } else { key(line) };
            let Some((key, start)) = pair else {
                rest = after_line;
                continue;
            };
            let value = &rest[start..];
            debug_assert!(start > 0 && start <= line.len(), "a value begins on its key's line");
            let (value, after) = value.split_at(end_of_value(value));
            rest = after;
            return Some(Event::Pair(key, value.trim()));
        }
    })
}

/// Returns the key of a line, and the offset behind its equals sign.
fn key(line: &str) -> Option<(&str, usize)> {
    let end = match line.as_bytes().first()? {
        b'"' => 2 + line[1..].find('"')?,
        _ => line.find('=')?,
    };
    let equals = end + line[end..].find('=')?;
    Some((line[..end].trim().trim_matches('"'), equals + 1))
}

/// Returns the offset of the line's end at which all brackets of a value are closed.
fn end_of_value(value: &str) -> usize {
    let (mut depth, mut quote, mut is_escaped, mut is_comment) = (0_usize, None, false, false);
    for (place, byte) in value.bytes().enumerate() {
        match (quote, byte) {
            // No string of a lockfile has many lines: a quote that stays open ends with its line.
            (_, b'\n') => {
                (quote, is_comment, is_escaped) = (None, false, false);
                if depth == 0 {
                    return place;
                }
            }
            _ if is_comment => {}
            (Some(b'"'), _) if is_escaped => is_escaped = false,
            (Some(b'"'), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'#') => is_comment = true,
            (None, b'[' | b'{') => depth += 1,
            (None, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    value.len()
}

/// Returns the text of a string in quotes.
pub(super) fn string(value: &str) -> Option<&str> {
    let inner = |quote: char| value.strip_prefix(quote)?.split(quote).next();
    inner('"').or_else(|| inner('\''))
}

/// Returns the inline tables of a value, `{…}` or `[{…}, …]`, each as its pairs. Pairs of a table
/// within a table stand among those of the outer one.
pub(super) fn tables(value: &str) -> Vec<Vec<(&str, &str)>> {
    let mut tables: Vec<Vec<(&str, &str)>> = Vec::new();
    let (mut depth, mut key, mut rest) = (0_usize, "", value);
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '{' => {
                depth += 1;
                if depth == 1 {
                    tables.push(Vec::new());
                }
            }
            '}' => depth = depth.saturating_sub(1),
            '#' => taken = rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => {
                let text = rest[1..].split(first).next().unwrap_or_default();
                taken = (text.len() + 2).min(rest.len());
                add(&mut tables, depth, &mut key, text);
            }
            _ if first.is_ascii_alphanumeric() => {
                let is_part = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
                let end = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                taken = end;
                match after.trim_start().starts_with('=') {
                    true => key = word,
                    false => add(&mut tables, depth, &mut key, word),
                }
            }
            _ => {}
        }
        debug_assert!(taken > 0 && taken <= rest.len(), "each turn takes something");
        rest = &rest[taken..];
    }
    tables
}

fn add<'a>(tables: &mut [Vec<(&'a str, &'a str)>], depth: usize, key: &mut &'a str, value: &'a str) {
    if let (true, Some(table)) = (depth > 0 && !key.is_empty(), tables.last_mut()) {
        table.push((std::mem::take(key), value));
    }
}

/// Returns the value of a key in a table.
pub(super) fn get<'a>(table: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    table.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_pairs_are_events() {
        let text = "# c\nversion = 1\n\n[[package]]\nname = \"a\" # c ]\nfiles = [\n  {file = \"x]\", hash = \"sha256:0\"}, # {\n]\r\n[package.source]\nurl = 'b'\n\"k = 1\" = \"v\"";
        let found: Vec<_> = events(text).collect();
        assert_eq!(found.len(), 7);
        assert_eq!(found[1], Event::Table { name: "package", is_entry: true });
        assert_eq!(found[2], Event::Pair("name", "\"a\" # c ]"));
        assert_eq!(found[4], Event::Table { name: "package.source", is_entry: false });
        assert_eq!(found[6], Event::Pair("k = 1", "\"v\""));
        let Event::Pair("files", value) = found[3] else { panic!("{:?}", found[3]) };
        assert_eq!(tables(value), [[("file", "x]"), ("hash", "sha256:0")]]);
    }

    #[test]
    fn inner_tables_are_flat() {
        let value = "{ url = \"u\", size = 12, hashes = { sha256 = \"0\" }, t = 2020-01-01 }";
        let expected = [("url", "u"), ("size", "12"), ("sha256", "0"), ("t", "2020-01-01")];
        assert_eq!(tables(value), [expected]);
        assert_eq!(string("\"a\" # b"), Some("a"));
        assert_eq!(string("1"), None);
        assert!(tables("{ a = \"").len() == 1 && tables("}}{{{").len() == 1);
    }
}
