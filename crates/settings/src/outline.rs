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
    if key.starts_with("neighbour[")
        && let Some((_, why)) = NOT_BUILT.iter().find(|(other, _)| *other == name.replace('-', "_"))
    {
        return Some((*why).into());
    }
    if let Some(meant) = closest(name, known.iter().copied()) {
        return Some(format!("did you mean `{meant}`?"));
    }
    let ours =
        OTHER_NAMES.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours);
    let ours: Vec<&str> = ours.collect();
    if let Some(meant) = ours.iter().find(|ours| known.contains(ours)) {
        return Some(format!("here it is called `{meant}`"));
    }
    match homes(name).as_slice() {
        [] => ours.iter().find_map(|ours| renamed(ours)).or_else(|| listed(key, known)),
        [home] if home.is_empty() => Some("it belongs at the top of the file, before any [section]".into()),
        homes => Some(format!("it belongs in {}", homes.join(" or "))),
    }
}

/// Returns a hint with the first section that has the setting `ours`, if one has it.
fn renamed(ours: &str) -> Option<String> {
    let home = homes(ours).into_iter().find(|home| !home.is_empty())?;
    Some(format!("here it is called `{ours}`, in {home}"))
}

/// Returns a hint with the settings of the section at `key`.
fn listed(key: &str, known: &[&str]) -> Option<String> {
    match known.len() > LISTED_MAX {
        true => Some("`shoal config reference` lists the settings".into()),
        false => Some(format!("known here: {}", known.join(", "))).filter(|_| !key.is_empty()),
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

/// Most settings that a hint lists.
const LISTED_MAX: usize = 20;

/// Names in other caches, and ours. Of several the first that the section has is meant.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("ttl", "lifetime"),
    ("max_age", "lifetime"),
    ("expires", "lifetime"),
    ("proxy_cache_valid", "lifetime_default"),
    ("grace", "stale_while_revalidate"),
    ("swr", "stale_while_revalidate"),
    ("proxy_cache_use_stale", "stale_if_error"),
    ("cache", "store"),
    ("no_cache", "store"),
    ("bypass", "store"),
    ("pass", "store"),
    ("location", "paths"),
    ("url", "paths"),
    ("domain", "hosts"),
    ("server_name", "hosts"),
    ("return", "redirect"),
    ("rewrite", "redirect"),
    ("allow", "allow_clients"),
    ("block", "deny"),
    ("set_header", "request_set"),
    ("proxy_set_header", "request_set"),
    ("add_header", "response_set"),
    ("hide_header", "response_remove"),
    ("proxy_hide_header", "response_remove"),
    ("auth_basic_user_file", "users_file"),
    ("password", "users_file"),
    ("rate_limit", "client_rate"),
    ("limit_req", "client_rate"),
    ("burst", "client_burst"),
    ("limit_conn", "client_connections"),
    ("backend", "upstreams"),
    ("origin", "upstreams"),
    ("proxy_pass", "upstreams"),
    ("port", "address"),
    ("ssl_certificate", "certificate"),
    ("ssl_certificate", "tls"),
    ("ssl_client_certificate", "client_ca"),
    ("cache_mem", "ram"),
    ("cache_dir", "directory"),
    ("proxy_cache_path", "directory"),
    ("max_size", "disk"),
    ("no_query", "icp_port"),
    ("no_digest", "digest"),
    ("login", "credentials"),
];

/// Words of Squid's `cache_peer` that are not built, with the reason.
const NOT_BUILT: &[(&str, &str)] = &[
    ("multicast", "multicast is not built: name each neighbour in a [[neighbour]] of its own"),
    ("sourcehash", "sourcehash is not built: `carp` and `round_robin` choose among parents"),
    ("userhash", "userhash is not built: `carp` and `round_robin` choose among parents"),
    ("originserver", "an origin server is an upstream of a [[site]], not a neighbour"),
    ("standby", "standby is not built: connections are kept after their first request"),
    ("basetime", "basetime is not built: answers are timed, and `weight` prefers a neighbour"),
    ("ttl", "ttl is for multicast, which is not built"),
    ("background_ping", "background-ping is not built: silent neighbours are asked once a second"),
    ("closest_only", "closest-only needs Squid's netdb, which is not built"),
    ("weighted_round_robin", "weighted-round-robin is not built: `round_robin` counts `weight`"),
];

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
            ("cache", "ttl", "here it is called `lifetime`, in [[rule]]"),
            ("cache", "max_stale", "known here: ram, collapse"),
            ("rule[0]", "cache", "here it is called `store`"),
            ("site[0].rule[0]", "TTL", "here it is called `lifetime`"),
            ("rule[0]", "colour", "`shoal config reference` lists the settings"),
        ] {
            let rule = crate::Rule::outline();
            let of_rule: Vec<&str> = rule.iter().map(|field| field.name).collect();
            let known: &[&str] = match key {
                "cache" => &["ram", "collapse"],
                key if key.contains("rule") => &of_rule,
                _ => &["listen"],
            };
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
