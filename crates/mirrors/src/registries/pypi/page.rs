//! A project's page in HTML (PEP 503), made from its document in JSON (PEP 691).

use super::json::relative;
use super::page_url;
use crate::json::{Path, Visitor, Walk, text};
use crate::url::joined;
use crate::{BadDocument, Mirror, Rewriter};
use std::collections::HashSet;

/// Maker of the page. The anchor of a file is written where the file's object ends.
pub(super) struct JsonToHtml {
    walk: Walk<Page>,
    unread: Vec<u8>,
}

struct Page {
    upstream: String,
    /// Links are the registry's own.
    is_own: bool,
    page: String,
    file: Anchor,
    /// Names of the files that are listed; all without.
    files: Option<HashSet<String>>,
    /// Written lines that were not taken yet.
    made: String,
    has_begun: bool,
}

/// Members of one file.
#[derive(Default)]
struct Anchor {
    name: String,
    url: String,
    /// `sha256=HEX`.
    digest: Option<String>,
    /// Value of `data-core-metadata`.
    metadata: Option<String>,
    requires_python: Option<String>,
    /// Reason of a withdrawal, which may be empty.
    yanked: Option<String>,
}

impl JsonToHtml {
    pub fn new(mirror: &Mirror) -> Self {
        let page = Page {
            upstream: mirror.upstream.clone(),
            is_own: mirror.is_registry_itself(),
            page: page_url(mirror),
            file: Anchor::default(),
            files: None,
            made: String::new(),
            has_begun: false,
        };
        Self { walk: Walk::new(page), unread: Vec::new() }
    }

    /// Lists the files of these names alone.
    pub fn of_files(mut self, files: HashSet<String>) -> Self {
        self.walk.visitor.files = Some(files);
        self
    }

    fn take(&mut self, output: &mut Vec<u8>) {
        let page = &mut self.walk.visitor;
        if !std::mem::replace(&mut page.has_begun, true) {
            output.extend_from_slice(HEAD.as_bytes());
        }
        output.extend_from_slice(page.made.as_bytes());
        page.made.clear();
    }
}

impl Rewriter for JsonToHtml {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        for piece in input.chunks(STEP) {
            self.unread.clear();
            self.walk.push(piece, &mut self.unread)?;
            self.take(output);
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.walk.finish(&mut self.unread)?;
        self.take(output);
        output.extend_from_slice(FOOT.as_bytes());
        Ok(())
    }
}

impl Visitor for Page {
    fn wants(&mut self, path: &Path) -> bool {
        let of_file = path.key(0) == "files";
        let is_member = matches!(
            path.key(2),
            "filename" | "url" | "yanked" | "requires-python" | "core-metadata" | "dist-info-metadata"
        );
        let is_digest = path.key(3) == "sha256" && matches!(path.key(2), "hashes" | "core-metadata");
        of_file && (path.depth() == 3 && is_member || path.depth() == 4 && is_digest)
            || path.is(&["projects", "*", "name"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let (value, file) = (text(raw), &mut self.file);
        match (path.key(2), path.depth()) {
            ("name", _) => {
                let name = escaped(&value.unwrap_or_default());
                self.made.push_str(&format!("<a href=\"{name}/\">{name}</a><br>\n"));
            }
            ("filename", _) => file.name = value.unwrap_or_default(),
            ("url", _) => file.url = value.unwrap_or_default(),
            ("requires-python", _) => file.requires_python = value,
            ("yanked", _) => file.yanked = value.or_else(|| (raw == b"true").then(String::new)),
            ("hashes", _) => file.digest = value.map(|hex| format!("sha256={hex}")),
            (_, 4) => file.metadata = value.map(|hex| format!("sha256={hex}")),
            _ if raw == b"true" => file.metadata = Some("true".into()),
            _ => {}
        }
    }

    fn left(&mut self, path: &Path) {
        if path.depth() == 2 && path.key(0) == "files" {
            let file = std::mem::take(&mut self.file);
            if self.files.as_ref().is_none_or(|files| files.contains(&file.name)) {
                self.anchor(&file);
            }
        }
    }
}

impl Page {
    fn anchor(&mut self, file: &Anchor) {
        let url = match self.is_own {
            true => joined(&self.page, &file.url),
            false => relative(&self.upstream, &self.page, &file.url),
        };
        let Some(url) = url else { return };
        let fragment = file.digest.as_ref().map(|digest| format!("#{digest}")).unwrap_or_default();
        self.made.push_str(&format!("<a href=\"{}\"", escaped(&format!("{url}{fragment}"))));
        let mut attribute = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                self.made.push_str(&format!(" {name}=\"{}\"", escaped(value)));
            }
        };
        attribute("data-requires-python", &file.requires_python);
        attribute("data-core-metadata", &file.metadata);
        attribute("data-dist-info-metadata", &file.metadata);
        attribute("data-yanked", &file.yanked);
        self.made.push_str(&format!(">{}</a><br>\n", escaped(&file.name)));
    }
}

/// Replaces the characters that HTML gives a meaning.
pub(super) fn escaped(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '"' => made.push_str("&quot;"),
            '\'' => made.push_str("&#39;"),
            char => made.push(char),
        }
    }
    made
}

const HEAD: &str = "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"1.0\">\
                    <title>Links</title></head><body>\n";
const FOOT: &str = "</body></html>\n";
/// Bytes of a document taken at a time.
const STEP: usize = 64 << 10;
