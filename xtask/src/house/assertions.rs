//! Counts of assertions, for each area of the product.

use super::House;

/// Part of the product with a density of assertions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Bytes on disk and in the RAM tier.
    Store,
    /// Frames, HPACK and connections of HTTP/2.
    Http2,
    /// The other code that a request passes.
    Serving,
    Rest,
}

impl Area {
    /// Area of the file at `path`.
    fn of(path: &str) -> Self {
        let is_below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        match () {
            () if is_below(STORE) => Self::Store,
            () if is_below(HTTP2) => Self::Http2,
            () if is_below(SERVING) => Self::Serving,
            () => Self::Rest,
        }
    }
}

/// Product lines of `area` for each assertion in it; `const` assertions count too.
pub fn lines_for_one(house: &House<'_>, area: Area) -> usize {
    let (mut lines, mut assertions) = (0, 0);
    for (_, source) in house.sources.iter().filter(|(file, _)| Area::of(&file.path) == area) {
        for (_, line, _) in source.lines().filter(|(_, line, is_test)| !is_test && !line.trim().is_empty()) {
            lines += 1;
            assertions += usize::from(MACROS.iter().any(|name| line.contains(name)));
        }
    }
    lines / usize::max(assertions, 1)
}

/// Macros that assert, in releases or in debug builds.
const MACROS: &[&str] = &["assert!(", "assert_eq!(", "assert_ne!("];
const STORE: &[&str] = &["crates/memory/", "crates/store/"];
const HTTP2: &[&str] = &["crates/http2/", "crates/server/src/http2"];
const SERVING: &[&str] = &[
    "crates/access/",
    "crates/cache/",
    "crates/clock/",
    "crates/cooperation/",
    "crates/exchange/",
    "crates/intercept/",
    "crates/message/",
    "crates/peers/",
    "crates/policy/",
    "crates/proxy/",
    "crates/registries/",
    "crates/route/",
    "crates/semantics/",
    "crates/server/",
    "crates/telemetry/",
    "crates/transport/",
    "crates/upstream/",
    "crates/wire/",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_from_paths() {
        let areas = [
            ("crates/memory/src/lib.rs", Area::Store),
            ("crates/http2/src/frame.rs", Area::Http2),
            ("crates/http2/src/hpack/mod.rs", Area::Http2),
            ("crates/wire/src/chunk.rs", Area::Serving),
            ("crates/server/src/http2/send.rs", Area::Http2),
            ("crates/upstream/src/http2.rs", Area::Serving),
            ("crates/lab/src/lib.rs", Area::Rest),
        ];
        for (path, area) in areas {
            assert_eq!(Area::of(path), area, "{path}");
        }
    }
}
