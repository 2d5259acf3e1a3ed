//! Files of the page, embedded in the program.

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Name below `/ui/`; the page itself also has the empty name.
    pub name: &'static str,
    /// Value of Content-Type.
    pub content_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

/// Returns the file of a name below `/ui/`.
pub fn asset(name: &str) -> Option<&'static Asset> {
    let name = if name.is_empty() { PAGE } else { name };
    ASSETS.iter().find(|asset| asset.name == name)
}

macro_rules! assets {
    ($($name:literal,)*) => {
        /// Every file.
        pub const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            content_type: content_type($name),
            bytes: include_bytes!(concat!("../assets/", $name)),
        },)*];
    };
}

assets! {
    "app.js",
    "chart_heat.js",
    "chart_line.js",
    "chart_ring.js",
    "dialogs.js",
    "dom.js",
    "explain.js",
    "format.js",
    "history.js",
    "icon.svg",
    "index.html",
    "kept.js",
    "layout.css",
    "live.js",
    "page_cluster.js",
    "page_disk.js",
    "page_log.js",
    "page_now.js",
    "page_objects.js",
    "page_origins.js",
    "page_reasons.js",
    "page_size.js",
    "parts.css",
    "parts.js",
    "purge.js",
    "route.js",
    "scale.js",
    "table.js",
    "theme.css",
    "theme.js",
}

/// Returns the content type by the end of a name.
const fn content_type(name: &str) -> &'static str {
    let name = name.as_bytes();
    match name {
        [.., b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The page.
const PAGE: &str = "index.html";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let entries = std::fs::read_dir(folder).expect("the folder is committed");
        let mut found: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        let mut listed: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
        assert_eq!(asset(""), asset(PAGE));
        assert!(ASSETS.iter().all(|asset| !asset.content_type.starts_with("application/octet")));
    }
}
