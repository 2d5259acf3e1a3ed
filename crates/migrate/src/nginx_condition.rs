//! Conditions of nginx over variables, read as conditions of rules.

use crate::document::Section;
use crate::expressions;
use crate::value::Value;

/// Conditions on a request, one of which must hold.
#[derive(Clone, Debug, Default)]
pub struct RequestTest {
    /// Rules that have conditions alone.
    pub sections: Vec<Section>,
    /// `true` if fewer requests meet the conditions than those of nginx.
    pub is_near: bool,
    /// `true` if more requests meet them.
    pub is_wide: bool,
}

/// Reads the condition of an `if`.
///
/// # Errors
/// The reason why rules cannot ask it.
pub fn condition(words: &[String]) -> Result<RequestTest, String> {
    let text = words.join(" ");
    let text = text.trim().trim_start_matches('(').trim();
    let text = text.strip_suffix(')').unwrap_or(text).trim();
    let mut parts = text.splitn(3, ' ');
    let (name, operator, value) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    variable_test(name, operator, value.trim().trim_matches(['"', '\'']))
}

/// Reads a comparison of a variable; without an operator the variable must not be empty.
///
/// # Errors
/// The reason why rules cannot ask it.
pub fn variable_test(name: &str, operator: &str, value: &str) -> Result<RequestTest, String> {
    let is_present = operator.is_empty() || operator == "!=" && (value.is_empty() || value == "0");
    let list = || match operator {
        "=" => Some(vec![value.to_owned()]),
        "~" | "~*" => {
            let text = value.trim_start_matches('^').trim_end_matches('$');
            expressions::alternatives(text)?.into_iter().map(expressions::literal).collect()
        }
        _ => None,
    };
    let why = || format!("rules cannot ask {name} {operator} {value}");
    let one = |key, values| Ok(one(key, values));
    let bare = name.trim_start_matches('$');
    match bare {
        "request_method" if operator.starts_with('!') => {
            let text = value.trim_start_matches('^').trim_end_matches('$');
            let kept = expressions::alternatives(text).ok_or_else(why)?;
            let others =
                METHODS.iter().filter(|method| !kept.contains(method)).map(|method| (*method).into());
            Ok(RequestTest { is_near: true, ..one("methods", others.collect())? })
        }
        "request_method" => one("methods", list().ok_or_else(why)?),
        "host" | "http_host" if operator == "=" => one("hosts", vec![value.to_ascii_lowercase()]),
        "host" | "http_host" if operator.starts_with('~') => one("hosts", expressions::host(value)?),
        "uri" | "document_uri" | "request_uri" if operator == "=" => one("paths", vec![value.into()]),
        "uri" | "document_uri" | "request_uri" if operator.starts_with('~') => {
            path_test(bare, operator, value)
        }
        "args" | "query_string" if is_present => one("query", vec!["*".into()]),
        name if name.starts_with("arg_") && is_present => one("query", vec![name[4..].into()]),
        name if name.starts_with("arg_") && operator == "=" => {
            one("query", vec![format!("{}={value}", &name[4..])])
        }
        name if name.starts_with("cookie_") && is_present => {
            one("request_fields", vec![format!("Cookie: *{}=*", &name[7..])])
        }
        name if name.starts_with("cookie_") && operator == "=" => {
            one("request_fields", vec![format!("Cookie: *{}={value}*", &name[7..])])
        }
        name if name.starts_with("http_") => {
            let literals = list();
            field_test(&field_name(&name[5..]), (operator, value), is_present, literals).ok_or_else(why)
        }
        _ => Err(why()),
    }
}

fn one(key: &'static str, values: Vec<String>) -> RequestTest {
    RequestTest {
        sections: vec![Section::default().with(key, Value::texts(values))],
        ..RequestTest::default()
    }
}

/// Reads an expression over the path; that of `$request_uri` sees the query too.
fn path_test(name: &str, operator: &str, value: &str) -> Result<RequestTest, String> {
    let sees_query = name == "request_uri";
    let shape = expressions::path(value, operator == "~*", sees_query)?;
    let mut section = Section::default();
    if let Some(path) = shape.path {
        section.set("path_regex", path, &[]);
    }
    if !shape.query.is_empty() {
        section.set("query", Value::texts(shape.query), &[]);
    }
    let too = expressions::in_query(value).filter(|_| sees_query);
    let too = too.map(|found| if operator == "~" { found } else { Vec::new() });
    let is_near = too.as_ref().is_some_and(Vec::is_empty);
    let more = too.filter(|patterns| !patterns.is_empty());
    let more = more.map(|patterns| Section::default().with("query", Value::texts(patterns)));
    let sections = [section].into_iter().chain(more).collect();
    Ok(RequestTest { sections, is_near, ..RequestTest::default() })
}

/// Reads a comparison of a request field; `literals` are the alternatives of its expression.
fn field_test(
    field: &str,
    (operator, value): (&str, &str),
    is_present: bool,
    literals: Option<Vec<String>>,
) -> Option<RequestTest> {
    if is_present {
        return Some(one("request_fields", vec![field.to_owned()]));
    }
    if operator == "=" {
        return Some(one("request_fields", vec![format!("{field}: {value}")]));
    }
    let ignores_case = operator == "~*" && field != "Cookie";
    let (literals, is_wide) = match (literals, operator) {
        (Some(literals), _) => (literals, false),
        (None, "~" | "~*") => (beginnings(value)?, true),
        _ => return None,
    };
    let patterns = literals.iter().flat_map(|text| spellings(text, ignores_case));
    let patterns = patterns.map(|text| format!("{field}: *{text}*")).collect();
    Some(RequestTest { is_near: ignores_case, is_wide, ..one("request_fields", patterns) })
}

/// Returns the literal beginning of each alternative; `None` if one of them has none to speak of.
fn beginnings(expression: &str) -> Option<Vec<String>> {
    let list = expressions::alternatives(expression.trim_start_matches('^'))?;
    let beginning = |text: &str| {
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || "_-/=".contains(c))).unwrap_or(text.len());
        // A sign of repetition would take the last character away.
        let is_repeated = text[end..].starts_with(['?', '*', '{']);
        let end = if is_repeated { end.saturating_sub(1) } else { end };
        (end >= 4).then(|| text[..end].to_owned())
    };
    list.into_iter().map(beginning).collect()
}

/// Writes a field's name as people do: `X-Real-Ip`.
fn field_name(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut chars = word.chars();
        chars.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + chars.as_str())
    });
    words.collect::<Vec<_>>().join("-")
}

/// Returns a text in its usual cases.
pub fn spellings(text: &str, ignores_case: bool) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    if ignores_case {
        let lower = text.to_ascii_lowercase();
        let mut title = lower.clone();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        all.extend([lower, title, text.to_ascii_uppercase()]);
        all.sort();
        all.dedup();
    }
    all
}

/// Methods of standards.
const METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
];
