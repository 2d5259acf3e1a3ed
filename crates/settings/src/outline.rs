//! Searches of the schema by key path: the kind of a setting, and the section of a misplaced name.

use crate::Settings;
use crate::mistake::closest;
use crate::setting::{Field, Section, SettingKind};

/// Returns the kind of the setting at a path such as `cache.ram`, or `None` for an unknown path.
/// Paths into the entries of a list are unknown.
pub(crate) fn kind_of(path: &[&str]) -> Option<SettingKind> {
    let (last, sections) = path.split_last()?;
    let mut fields = Settings::outline();
    for section in sections {
        let SettingKind::Section { outline, .. } = find(fields, section)?.kind else { return None };
        fields = outline();
    }
    find(fields, last).map(|field| field.kind)
}

/// Returns every path of a setting with a value, such as `cache.ram` or `workers`.
pub(crate) fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for field in Settings::outline() {
        match field.kind {
            SettingKind::Section { outline, .. } => {
                paths.extend(outline().iter().map(|inner| format!("{}.{}", field.name, inner.name)));
            }
            _ => paths.push(field.name.to_owned()),
        }
    }
    paths
}

/// Returns a hint for a name that is not one of `known`, the settings of the section at `key`.
pub(crate) fn hint_for(key: &str, name: &str, known: &[&str]) -> Option<String> {
    if let Some(meant) = closest(name, known.iter().copied()) {
        return Some(format!("did you mean `{meant}`?"));
    }
    let elsewhere = homes(name);
    match elsewhere.as_slice() {
        [] => Some(format!("known here: {}", known.join(", "))).filter(|_| !key.is_empty()),
        [home] if home.is_empty() => Some("it belongs at the top of the file, before any [section]".into()),
        homes => Some(format!("it belongs in {}", homes.join(" or "))),
    }
}

/// Returns the sections with a setting called `name`, as headed in the file; an empty text for the
/// top.
fn homes(name: &str) -> Vec<String> {
    let mut homes = Vec::new();
    for field in Settings::outline() {
        if field.name == name {
            homes.push(String::new());
        }
        let (outline, heading) = match &field.kind {
            SettingKind::Section { outline, .. } => (outline, format!("[{}]", field.name)),
            SettingKind::List(inner) => match inner.as_ref() {
                SettingKind::Section { outline, .. } => (outline, format!("[[{}]]", field.name)),
                _ => continue,
            },
            _ => continue,
        };
        if outline().iter().any(|inner| inner.name == name) {
            homes.push(heading);
        }
    }
    homes
}

fn find(fields: Vec<Field>, name: &str) -> Option<Field> {
    fields.into_iter().find(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sent_home() {
        for (key, name, hint) in [
            ("", "ram", "it belongs in [cache]"),
            ("cache", "workers", "it belongs at the top of the file, before any [section]"),
            ("store", "idle_timeout", "it belongs in [client] or [upstream]"),
            ("cache", "upstreams", "it belongs in [[site]]"),
            ("cache", "collaps", "did you mean `collapse`?"),
        ] {
            let known: &[&str] = if key == "cache" { &["ram", "collapse"] } else { &["listen"] };
            assert_eq!(hint_for(key, name, known).as_deref(), Some(hint), "{key} {name}");
        }
    }

    #[test]
    fn paths_name_kinds() {
        for path in paths() {
            let parts: Vec<&str> = path.split('.').collect();
            assert!(kind_of(&parts).is_some(), "{path}");
        }
        assert!(kind_of(&["cache", "rum"]).is_none());
        assert!(kind_of(&["listen", "address"]).is_none());
    }
}
