//! Files of the page, embedded in the program.

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Name below `/ui/`; the page itself has an empty name.
    pub name: &'static str,
    /// Value of Content-Type.
    pub content_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

/// Returns the file of a name below `/ui/`.
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// Every file.
pub const ASSETS: &[Asset] = &[Asset {
    name: "",
    content_type: "text/html; charset=utf-8",
    bytes: include_bytes!("../assets/index.html"),
}];
