//! The part of an explanation about the mirror that answers, as text.

use super::render::row;
use crate::show;
use crate::store::time_text;
use shoal_proxy::admin::{MirrorView, PromiseView};
use shoal_settings::MirrorKind;

/// Writes the mirror, the place at its registry, the rules by name and age, and the promise.
pub(super) fn write(page: &mut String, view: &MirrorView) {
    page.push_str("\nMirror\n");
    let is_written = view.kind == MirrorKind::BuildCache.name();
    let from = match (is_written, view.upstream.as_str()) {
        (true, _) => ", written by clients".to_owned(),
        (false, "") => String::new(),
        (false, upstream) => format!(", from {upstream}"),
    };
    let offline = if view.offline { ", offline" } else { "" };
    row(page, "mirror", &format!("{} ({}{from}){offline}", view.name, view.kind));
    if let Some(package) = &view.package {
        let owned = if view.owned { ", owned by this mirror" } else { "" };
        row(page, "package", &format!("{package}{owned}"));
    }
    match &view.place {
        // No server has the name that stands in the keys of a build cache.
        Some(place) if is_written => row(page, &view.class, place.trim_start_matches(&*view.upstream)),
        Some(place) => row(page, &view.class, place),
        None => row(page, "class", &view.class),
    }
    if let Some(seconds) = view.minimum_age_seconds {
        let published = view.published.and_then(|seconds| u64::try_from(seconds).ok()).map(time_text);
        let published = match (published, view.class.as_str()) {
            (Some(time), _) => format!("; published {time}"),
            (None, "file") => "; published at an unknown time".to_owned(),
            (None, _) => String::new(),
        };
        row(page, "minimum age", &format!("{}{published}", show::duration(seconds)));
    }
    if let Some(promise) = &view.promise {
        row(page, "promise", &text_of(promise));
        row(page, "promised by", &promise.source);
    }
    row(page, "verdict", &view.verdict);
}

fn text_of(promise: &PromiseView) -> String {
    let digest = promise.digest.clone().unwrap_or_else(|| "no digest".to_owned());
    let size = promise.size.map(|size| format!(", {}", show::size(size))).unwrap_or_default();
    format!("{digest}{size}{}", if promise.withdrawn { ", withdrawn" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_cache_has_no_registry() {
        let view = MirrorView {
            name: "build".into(),
            kind: "buildcache".into(),
            upstream: "http://build.invalid".into(),
            class: "file".into(),
            place: Some("http://build.invalid/ac/1".into()),
            ..MirrorView::default()
        };
        let mut page = String::new();
        write(&mut page, &view);
        assert!(page.contains("build (buildcache, written by clients)"), "{page}");
        assert!(page.contains(" /ac/1\n") && !page.contains("invalid"), "{page}");
    }

    #[test]
    fn promise_and_age_are_told() {
        let promise = PromiseView {
            digest: Some("sha1:00".into()),
            size: Some(7),
            source: "https://npm.example/a".into(),
            withdrawn: true,
        };
        let view = MirrorView {
            name: "npm".into(),
            kind: "npm".into(),
            upstream: "https://npm.example".into(),
            package: Some("a".into()),
            class: "file".into(),
            place: Some("https://npm.example/a/-/a-1.tgz".into()),
            owned: true,
            minimum_age_seconds: Some(86_400),
            published: Some(951_782_400),
            promise: Some(promise),
            verdict: "The end.".into(),
            ..MirrorView::default()
        };
        let mut page = String::new();
        write(&mut page, &view);
        let expected = "
Mirror
  mirror       npm (npm, from https://npm.example)
  package      a, owned by this mirror
  file         https://npm.example/a/-/a-1.tgz
  minimum age  1 day 0 h; published 2000-02-29T00:00:00Z
  promise      sha1:00, 7 B, withdrawn
  promised by  https://npm.example/a
  verdict      The end.
";
        assert_eq!(page, expected);
    }
}
