//! Conditions of VCL, read as conditions of rules.

use crate::document::Section;
use crate::expressions;
use crate::nginx_condition::spellings;
use crate::value::Value;
use crate::varnish_syntax::Condition;
use std::collections::HashMap;

/// Access lists by name.
pub type AccessLists = HashMap<String, AccessList>;

/// Access list.
#[derive(Clone, Debug, Default)]
pub struct AccessList {
    /// Networks with clients that are in the list.
    pub networks: Vec<ipnet::IpNet>,
    /// `true` if names stand for further clients.
    pub has_names: bool,
}

/// A conjunction of tests, as a rule can ask it.
#[derive(Clone, Debug, Default)]
pub struct Alternative {
    /// Conditions.
    pub section: Section,
    /// Clients that meet it, or with `true` those that do not.
    pub clients: Option<(Vec<ipnet::IpNet>, bool)>,
    /// `true` if nearly the same requests meet it.
    pub is_near: bool,
    /// Query patterns that the expression over the URL matches too: see [`expressions::in_query`].
    pub in_query: Option<Vec<String>>,
}

/// Reads a condition as alternatives.
///
/// # Errors
/// The reason why rules cannot ask it.
pub fn alternatives(condition: &Condition, lists: &AccessLists) -> Result<Vec<Alternative>, String> {
    let mut found = Vec::new();
    for tests in split(condition, false)? {
        found.push(one(&tests, lists)?);
    }
    Ok(found)
}

/// One comparison, and `true` if it must not hold.
type Signed<'a> = (&'a str, &'static str, &'a str, bool);

/// Writes a condition as alternatives of conjunctions.
fn split(condition: &Condition, is_negated: bool) -> Result<Vec<Vec<Signed<'_>>>, String> {
    Ok(match (condition, is_negated) {
        (Condition::Not(inner), negated) => split(inner, !negated)?,
        (Condition::Any(list), false) | (Condition::All(list), true) => {
            let mut found = Vec::new();
            for inner in list {
                found.extend(split(inner, is_negated)?);
            }
            found
        }
        (Condition::All(list), false) | (Condition::Any(list), true) => {
            let mut found: Vec<Vec<Signed<'_>>> = vec![Vec::new()];
            for inner in list {
                let more = split(inner, is_negated)?;
                if found.len() * more.len() > ALTERNATIVES_MAX {
                    return Err("it has too many alternatives".into());
                }
                found = found
                    .iter()
                    .flat_map(|left| more.iter().map(move |right| [left.clone(), right.clone()].concat()))
                    .collect();
            }
            found
        }
        (Condition::Test(name, sign, value), negated) => vec![vec![(name, sign, value, negated)]],
        (Condition::Opaque(text), _) => return Err(format!("rules cannot ask {text}")),
    })
}

fn one(tests: &[Signed<'_>], lists: &AccessLists) -> Result<Alternative, String> {
    let mut found = Alternative::default();
    for (name, sign, value, is_negated) in tests {
        let (sign, is_negated) = match *sign {
            "!=" => ("==", !is_negated),
            "!~" => ("~", !is_negated),
            sign => (sign, *is_negated),
        };
        if ["client.ip", "remote.ip", "std.ip"].contains(name) && sign == "~" {
            let list = lists.get(*value).ok_or_else(|| format!("there is no acl {value} of networks"))?;
            if list.has_names && !is_negated {
                return Err(format!("the acl {value} has names of hosts"));
            }
            found.clients = Some((list.networks.clone(), is_negated));
            continue;
        }
        // Rules do not concern requests to purge.
        if is_negated && sign == "==" && is_purge(name, value) {
            continue;
        }
        if is_negated {
            return Err(format!("rules ask no opposites: {name} {sign} {value}"));
        }
        let (section, is_near) = test(name, sign, value)?;
        if sign == "~" && name.ends_with("req.url") {
            found.in_query = expressions::in_query(value);
        }
        for entry in section.entries {
            if found.section.get(entry.key).is_some() {
                return Err(format!("a rule asks once for {}", entry.key));
            }
            found.section.entries.push(entry);
        }
        found.is_near |= is_near;
    }
    Ok(found)
}

/// Returns `true` if a comparison asks for a method that purges.
pub fn is_purge(name: &str, value: &str) -> bool {
    ["req.method", "req.request"].contains(&name) && ["PURGE", "BAN"].contains(&value)
}

/// Reads one comparison.
fn test(name: &str, sign: &str, value: &str) -> Result<(Section, bool), String> {
    let why = || format!("rules cannot ask {name} {sign} {value}");
    let with = |key: &'static str, values: Vec<String>| Section::default().with(key, Value::texts(values));
    let name = name.strip_prefix("be").unwrap_or(name);
    match (name, sign) {
        ("req.url", "~") => {
            let shape = expressions::path(value, false, true)?;
            let mut section = Section::default();
            if let Some(path) = shape.path {
                section.set("path_regex", path, &[]);
            }
            if !shape.query.is_empty() {
                section.set("query", Value::texts(shape.query), &[]);
            }
            Ok((section, shape.is_near))
        }
        ("req.url", "==") if !value.contains('?') => Ok((with("paths", vec![value.into()]), false)),
        ("req.http.host", "==") => Ok((with("hosts", vec![value.to_ascii_lowercase()]), false)),
        ("req.http.host", "~") => {
            let text = value.trim_start_matches("(?i)");
            let exact = expressions::host(value);
            let literal =
                expressions::literal(&text.trim_start_matches('^').trim_end_matches('$').replace("(?:", "("));
            match (exact, literal) {
                (Ok(hosts), _) => Ok((with("hosts", hosts), false)),
                (Err(_), Some(name)) if name.contains('.') => {
                    let name = name.trim_start_matches('.').to_ascii_lowercase();
                    Ok((with("hosts", vec![name.clone(), format!("*.{name}")]), true))
                }
                (Err(why), _) => Err(why),
            }
        }
        ("req.method" | "req.request", "==") => Ok((with("methods", vec![value.into()]), false)),
        ("req.method" | "req.request", "~") => {
            let text = value.trim_start_matches('^').trim_end_matches('$');
            let list = expressions::alternatives(text).ok_or_else(why)?;
            let list: Option<Vec<String>> = list.into_iter().map(expressions::literal).collect();
            Ok((with("methods", list.ok_or_else(why)?), false))
        }
        ("resp.status", "==") => Ok((with("statuses", vec![value.into()]), false)),
        ("resp.status", ">=") if value.len() == 3 => {
            Ok((with("statuses", vec![format!("{value}-599")]), false))
        }
        ("resp.status", ">") => {
            let status: u16 = value.parse().map_err(|_| why())?;
            Ok((with("statuses", vec![format!("{}-599", status.saturating_add(1))]), false))
        }
        ("resp.status", "<") => {
            let status: u16 = value.parse().map_err(|_| why())?;
            Ok((with("statuses", vec![format!("100-{}", status.saturating_sub(1))]), false))
        }
        ("resp.http.content-type", "~") => {
            let text = value.trim_start_matches("(?i)").trim_end_matches('$');
            let (text, star) = text.strip_prefix('^').map_or((text, "*"), |text| (text, ""));
            let list = expressions::alternatives(text).ok_or_else(why)?;
            let list: Option<Vec<String>> = list.into_iter().map(expressions::literal).collect();
            let globs = list.ok_or_else(why)?.into_iter().map(|text| format!("{star}{text}*")).collect();
            Ok((with("content_types", globs), false))
        }
        (name, sign) => {
            let (key, field) = match (name.strip_prefix("req.http."), name.strip_prefix("resp.http.")) {
                (Some(field), _) => ("request_fields", field),
                (_, Some(field)) => ("response_fields", field),
                _ => return Err(why()),
            };
            field_test(key, field, sign, value).ok_or_else(why)
        }
    }
}

fn field_test(key: &'static str, field: &str, sign: &str, value: &str) -> Option<(Section, bool)> {
    let patterns = match sign {
        "" => vec![field.to_owned()],
        "==" => vec![format!("{field}: {value}")],
        "~" => {
            let is_near = value.starts_with("(?i)");
            let text = value.trim_start_matches("(?i)");
            let (text, before) = text.strip_prefix('^').map_or((text, "*"), |text| (text, ""));
            let (text, after) = text.strip_suffix('$').map_or((text, "*"), |text| (text, ""));
            let list = expressions::alternatives(text)?;
            let list: Option<Vec<String>> = list.into_iter().map(expressions::literal).collect();
            let spelt = list?.into_iter().flat_map(|text| spellings(&text, is_near));
            let patterns: Vec<String> = spelt.map(|text| format!("{field}: {before}{text}{after}")).collect();
            return Some((Section::default().with(key, Value::texts(patterns)), is_near));
        }
        _ => return None,
    };
    Some((Section::default().with(key, Value::texts(patterns)), false))
}

/// Most alternatives of a condition.
const ALTERNATIVES_MAX: usize = 64;
