//! Regular expressions of peers over URLs, read as conditions of a rule.
//!
//! Rules compare hosts by name and paths by expression. An expression over a whole URL is taken
//! apart where its shape allows; the result says if it matches the same URLs.

/// Conditions that stand for an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlShape {
    /// Hosts; empty means any.
    pub hosts: Vec<String>,
    /// Expression over the path.
    pub path: Option<String>,
    /// `true` if URLs match that the peer's expression does not match, or the other way round.
    pub is_near: bool,
    /// Query parameters.
    pub query: Vec<String>,
}

/// Returns query patterns that stand for an expression where the peer also compares the query. No
/// pattern means that rules cannot compare it there; `None` that it never matches there.
pub fn in_query(expression: &str) -> Option<Vec<String>> {
    if expression.starts_with('^') || expression.contains(r"\?") || expression.contains("[?") {
        return None;
    }
    let literals: Option<Vec<String>> =
        alternatives(expression).and_then(|list| list.into_iter().map(literal).collect());
    let both = |text: String| [format!("*{text}*"), format!("*=*{text}*")];
    let is_plain = |text: &String| !text.contains(['*', '=', '&']);
    Some(
        literals
            .filter(|list| list.iter().all(is_plain))
            .map_or(Vec::new(), |list| list.into_iter().flat_map(both).collect()),
    )
}

/// Reads an expression over a path, such as those of nginx locations and VCL's `req.url`. With
/// `sees_query` the peer compares path and query.
///
/// # Errors
/// The reason why no rule can compare it.
pub fn path(expression: &str, ignores_case: bool, sees_query: bool) -> Result<UrlShape, String> {
    let expression = translated(expression)?;
    if sees_query {
        if let Some(shape) = query_shape(&expression) {
            return Ok(shape);
        }
        if asks_for_query(&expression) {
            return Err("rules compare paths without their query".into());
        }
    }
    let expression = expression.replace(r"(\?.*)?$", "$").replace(r"(\?|$)", "$").replace(r"($|\?)", "$");
    let is_near = sees_query && expression.ends_with('$') && !expression.ends_with(r"\$");
    if ["", ".", ".*", "^", "^/", "/", "^.*", "^.*$"].contains(&expression.as_str()) {
        return Ok(UrlShape::default());
    }
    let flag = if ignores_case && !expression.starts_with("(?i)") { "(?i)" } else { "" };
    Ok(UrlShape { path: Some(format!("{flag}{expression}")), is_near, ..UrlShape::default() })
}

/// Reads an expression over a whole URL, such as those of Squid and Traffic Server.
///
/// # Errors
/// The reason why no rule can compare it.
pub fn url(expression: &str, ignores_case: bool) -> Result<UrlShape, String> {
    let expression = translated(expression)?;
    for scheme in ["^http://", "^https?://", "^https://", "http://", "https?://"] {
        if let Some(rest) = expression.strip_prefix(scheme) {
            return after_scheme(rest, ignores_case);
        }
    }
    let front = expression.split('/').next().unwrap_or_default();
    let is_host =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.\\".contains(&byte));
    if expression.contains('/') && is_host(front) && front.trim_matches(['.', '\\']).contains('.') {
        let front = front.replace('\\', "");
        let name = front.trim_start_matches('.').to_owned();
        let rest = after_scheme(
            &format!(
                "[^/]*\\.{}{}",
                name.replace('.', "\\."),
                &expression[expression.find('/').unwrap_or(0)..]
            ),
            ignores_case,
        )?;
        return Ok(UrlShape { is_near: true, ..rest });
    }
    if expression.starts_with('^') {
        return Err("it begins with neither http:// nor a path".into());
    }
    // A host could contain the text as well, unless it holds a character that no host has.
    let shape = path(&expression, ignores_case, true)?;
    let is_of_path = has_path_byte(&expression) || shape.path.is_none();
    Ok(UrlShape { is_near: shape.is_near || !is_of_path, ..shape })
}

/// Reads an expression over host names.
///
/// # Errors
/// The reason why no list of names stands for it.
pub fn host(expression: &str) -> Result<Vec<String>, String> {
    let text = expression.trim_start_matches("(?i)");
    let (text, is_begun) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
    let (text, is_ended) = text.strip_suffix('$').map_or((text, false), |rest| (rest, true));
    let why = || format!("hosts are compared by name or *.suffix, not by {expression:?}");
    if !is_ended {
        return Err(why());
    }
    let alternatives = alternatives(text).ok_or_else(why)?;
    let mut names = Vec::new();
    for name in alternatives {
        match (literal(name), is_begun) {
            (Some(name), true) if !name.starts_with('.') => names.push(name),
            (Some(name), false) if name.starts_with('.') => names.push(format!("*{name}")),
            (None, true) => {
                let optional = ["(www\\.)?", "(?:www\\.)?"];
                let rest = optional.iter().find_map(|prefix| name.strip_prefix(prefix)).and_then(literal);
                let any = ["(.*\\.)?", "(.+\\.)?", "([^.]+\\.)?"];
                let below = any.iter().find_map(|prefix| name.strip_prefix(prefix)).and_then(literal);
                match (rest, below) {
                    (Some(rest), _) => names.extend([format!("www.{rest}"), rest]),
                    (None, Some(below)) => names.extend([format!("*.{below}"), below]),
                    _ => return Err(why()),
                }
            }
            _ => return Err(why()),
        }
    }
    debug_assert!(!names.is_empty(), "an expression over hosts names one");
    Ok(names)
}

/// Returns the text of an expression without operators; `None` if it has some.
pub fn literal(expression: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) if !next.is_ascii_alphanumeric() => text.push(next),
                _ => return None,
            },
            c if "^$.|?*+()[]{}".contains(c) => return None,
            c => text.push(c),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Splits `a|b` or `(a|b)` at the bars outside of brackets; `None` with unbalanced brackets.
pub fn alternatives(expression: &str) -> Option<Vec<&str>> {
    let inner = expression.strip_prefix("(?:").or_else(|| expression.strip_prefix('('));
    let inner = inner.and_then(|rest| rest.strip_suffix(')')).filter(|inner| is_balanced(inner));
    let text = inner.unwrap_or(expression);
    let (mut parts, mut start, mut depth, mut is_escaped) = (Vec::new(), 0, 0u32, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            '|' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    let bytes: usize = parts.iter().map(|part| part.len() + 1).sum();
    debug_assert_eq!(bytes, text.len() + 1, "parts and bars make up the text");
    (depth == 0).then_some(parts)
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0i64;
    let mut is_escaped = false;
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// Writes POSIX and PCRE forms as the engine of rules reads them.
fn translated(expression: &str) -> Result<String, String> {
    for unknown in ["(?=", "(?!", "(?<=", "(?<!", "(?>", "\\1", "\\2", "*+", "++", "?+"] {
        if expression.contains(unknown) {
            return Err(format!("expressions here run in linear time and have no {unknown}"));
        }
    }
    Ok(expression.replace("\\/", "/"))
}

/// Returns the parameters of `[?&]name=`, where that is the whole expression.
fn query_shape(expression: &str) -> Option<UrlShape> {
    let mut text = expression;
    for prefix in [r"(\?|&)", r"[?&]", r"[\?&]", r"[&?]", r"(?:\?|&)", r"[\?|&]", r"\?(.*&)?"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest;
            let text = text.trim_end_matches(".*");
            let (names, has_value) = text.strip_suffix('=').map_or((text, false), |names| (names, true));
            let names: Option<Vec<String>> = alternatives(names)?.into_iter().map(literal).collect();
            let is_near = !has_value;
            let star = if has_value { "" } else { "*" };
            let query = names?.into_iter().map(|name| format!("{name}{star}")).collect();
            return Some(UrlShape { query, is_near, ..UrlShape::default() });
        }
    }
    if [r"\?", r"\?.*$", r"\?.+$", r"^[^?]*\?", r".*\?.*"].contains(&text) {
        return Some(UrlShape { query: vec!["*".into()], ..UrlShape::default() });
    }
    None
}

/// Returns `true` if the expression speaks of a question mark or of the text behind one.
fn asks_for_query(expression: &str) -> bool {
    let trimmed = expression.replace(r"(\?.*)?$", "").replace(r"(\?|$)", "").replace(r"($|\?)", "");
    let is_class = trimmed.contains("[?") || trimmed.contains("?]") && !trimmed.contains("[^?]");
    trimmed.contains(r"\?") || is_class || trimmed.contains('&') || trimmed.contains('=')
}

fn has_path_byte(expression: &str) -> bool {
    expression.contains('/') || expression.ends_with('$') || expression.contains('_')
}

/// Reads the part of an expression behind `http://`.
fn after_scheme(rest: &str, ignores_case: bool) -> Result<UrlShape, String> {
    let mut is_class = false;
    let end = rest.find(|c: char| {
        is_class = c == '[' || is_class && c != ']';
        c == '/' && !is_class
    });
    let (authority, path_text) = rest.split_at(end.unwrap_or(rest.len()));
    let any = ["", ".*", "[^/]*", "[^/]+", "([^/]*)", ".+"];
    let mut is_near = false;
    let hosts = match authority {
        authority if any.contains(&authority) => Vec::new(),
        authority => {
            let below = ["[^/]*\\.", ".*\\.", "([^/]*\\.)?", "(.*\\.)?", "[^/]+\\."];
            let suffix = below.iter().find_map(|prefix| authority.strip_prefix(prefix)).and_then(literal);
            is_near |= suffix.is_some() || path_text.is_empty();
            match suffix {
                Some(suffix) => vec![format!("*.{suffix}"), suffix],
                None => host(&format!("^{authority}$")).or_else(|_| {
                    // An unescaped dot means a dot in nearly every host.
                    is_near = true;
                    host(&format!("^{}$", authority.replace('.', "\\.").replace("\\\\.", "\\.")))
                })?,
            }
        }
    };
    let begins = if authority.ends_with(".*") { "" } else { "^" };
    let shape = match path_text {
        "" => UrlShape::default(),
        text => path(&format!("{begins}{text}"), ignores_case, true)?,
    };
    Ok(UrlShape { hosts, is_near: is_near || shape.is_near, ..shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(hosts: &[&str], path: &str, query: &[&str], is_near: bool) -> UrlShape {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let path = (!path.is_empty()).then(|| path.to_owned());
        UrlShape { hosts: texts(hosts), path, query: texts(query), is_near }
    }

    #[test]
    fn urls_are_taken_apart() {
        for (text, found) in [
            (".", shape(&[], "", &[], false)),
            (r"\.(jpg|png)$", shape(&[], r"\.(jpg|png)$", &[], true)),
            (r"^http://www\.example\.org/a/", shape(&["www.example.org"], "^/a/", &[], false)),
            (r"^https?://[^/]*\.example\.org/", shape(&["*.example.org", "example.org"], "", &[], true)),
            (r"\?", shape(&[], "", &["*"], false)),
            (r"/cgi-bin/", shape(&[], "/cgi-bin/", &[], false)),
            (r"banner", shape(&[], "banner", &[], true)),
        ] {
            assert_eq!(url(text, false), Ok(found), "{text}");
        }
        for text in [r"a(?=b)", r"/x\?y=1", "^ftp:"] {
            assert!(url(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_keep_flags_and_lose_queries() {
        for (text, ignores_case, sees_query, found) in [
            (r"^/admin", false, true, shape(&[], "^/admin", &[], false)),
            (r"\.css$", true, false, shape(&[], r"(?i)\.css$", &[], false)),
            (r"(?i)\.css(\?.*)?$", false, true, shape(&[], r"(?i)\.css$", &[], true)),
            (r"[?&]utm_source=", false, true, shape(&[], "", &["utm_source"], false)),
            (r"[?&](a|b)=", false, true, shape(&[], "", &["a", "b"], false)),
            (r"^/", false, true, shape(&[], "", &[], false)),
        ] {
            assert_eq!(path(text, ignores_case, sees_query), Ok(found), "{text}");
        }
    }

    #[test]
    fn hosts_are_names_and_suffixes() {
        for (text, names) in [
            (r"^(www\.)?example\.org$", Some(vec!["www.example.org", "example.org"])),
            (r"^a\.example$", Some(vec!["a.example"])),
            (r"\.example\.org$", Some(vec!["*.example.org"])),
            (r"^(a|b)$", Some(vec!["a", "b"])),
            (r"^www\d+$", None),
            ("example", None),
        ] {
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(host(text).ok(), names, "{text}");
        }
    }
}
