//! The stored variants of a URL, with the field values that select them.

use crate::CacheEngine;
use crate::explain::VariantView;
use crate::hybrid_cache::PeekedObject;
use crate::lookup::is_of_mode;
use crate::metadata::VaryMarker;
use crate::request::RequestContext;
use crate::variant::variant_key;
use shoal_core::ObjectKey;
use shoal_semantics::vary;

/// Returns the variants that the request may select, then others that RAM has, and the number of
/// variants that are not listed. `selected` has the former, each with its stored record.
pub(super) fn views(
    engine: &CacheEngine,
    ask: &RequestContext,
    note: &VaryMarker,
    selected: &[(ObjectKey, Option<PeekedObject>)],
) -> (Vec<VariantView>, usize) {
    let start = variant_key(&ask.primary, note.generation, &[]);
    let start = start.full();
    let of_request = selected.iter().filter_map(|(key, found)| {
        let tier = match found {
            Some(found) if found.in_memory => "ram",
            Some(_) => "disk",
            None => "none",
        };
        view(key.full().strip_prefix(start)?, tier, true)
    });
    let mut views: Vec<VariantView> = of_request.collect();
    let cache = engine.cache();
    let rest = VARIANTS_MAX.saturating_sub(views.len());
    let (others, left_out) = cache.objects.look_at_memory(rest, |key, record| {
        let values = key.full().strip_prefix(start)?;
        let is_other = selected.iter().all(|(other, _)| other != key);
        let serves = is_of_mode(ask, record) && record.head().is_some_and(|head| !cache.is_purged(head));
        (is_other && serves).then(|| values.to_vec())
    });
    views.extend(others.iter().filter_map(|values| view(values, "ram", false)));
    debug_assert!(views.len() <= VARIANTS_MAX.max(selected.len()));
    (views, left_out)
}

fn view(values: &[u8], tier: &str, is_selected: bool) -> Option<VariantView> {
    let shown = |(name, value): (String, Option<String>)| {
        let value = value.map(|value| match is_secret(&name) {
            true => "(not shown)".to_owned(),
            false => value.chars().take(VALUE_MAX).collect(),
        });
        (name, value)
    };
    let fields = vary::described(values).into_iter().map(shown).collect();
    Some(VariantView { fields, tier: tier.to_owned(), is_selected })
}

/// Returns `true` if values of this field may admit their sender somewhere.
fn is_secret(name: &str) -> bool {
    ["auth", "cookie", "token", "key", "secret", "session", "password"].iter().any(|part| name.contains(part))
}

/// Maximum variants listed.
const VARIANTS_MAX: usize = 20;
/// Maximum characters of a value.
const VALUE_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let values = b"accept-encoding\x01br\x02cookie\x01a=b\x02x-api-key\x00\x02";
        let shown = view(values, "ram", false).expect("a view");
        let field = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(
            shown.fields,
            [
                field("accept-encoding", Some("br")),
                field("cookie", Some("(not shown)")),
                field("x-api-key", None)
            ]
        );
    }
}
