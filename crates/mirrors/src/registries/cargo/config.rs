//! `config.json` of a sparse index: its download URL becomes the mirror's, and tells where the
//! origin keeps a crate file.

use super::CrateFile;
use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::{BadDocument, Mirror, Place, Promise, Promises, Rewriter};

/// Rewriter of `dl`.
pub(super) struct Downloads(Walk<Rewritten>);

struct Rewritten {
    external: String,
}

impl Downloads {
    pub fn new(mirror: &Mirror) -> Self {
        Self(Walk::new(Rewritten { external: mirror.external.clone() }))
    }
}

impl Rewriter for Downloads {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.push(input, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.finish(output)
    }
}

impl Visitor for Rewritten {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["dl"])
    }

    fn scalar(&mut self, _: &Path, _: &[u8], output: &mut Vec<u8>) {
        let own = format!("{}/crates/{{crate}}/{{version}}/{{sha256-checksum}}/download", self.external);
        output.extend_from_slice(quoted(&own).as_bytes());
    }
}

/// Reader of the origin's place of one crate file. The digest is that of the request.
pub(super) struct DownloadPlace {
    walk: Walk<Template>,
    unread: Vec<u8>,
    file: CrateFile,
}

#[derive(Default)]
struct Template(Option<String>);

impl DownloadPlace {
    pub fn new(file: CrateFile) -> Self {
        Self { walk: Walk::new(Template::default()), unread: Vec::new(), file }
    }
}

impl Promises for DownloadPlace {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        self.unread.clear();
        self.walk.push(input, &mut self.unread)
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        self.walk.finish(&mut self.unread)?;
        let digest = Some(self.file.digest.clone());
        let promise = Promise { digest, size: None, published: None, is_withdrawn: false };
        Ok(self.walk.visitor.0.is_some().then_some(promise))
    }

    fn place(&self) -> Option<Place> {
        let template = self.walk.visitor.0.as_deref()?;
        Some(Place::Elsewhere(filled(template, &self.file)))
    }
}

impl Visitor for Template {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["dl"])
    }

    fn scalar(&mut self, _: &Path, raw: &[u8], _: &mut Vec<u8>) {
        self.0 = text(raw);
    }
}

/// Fills the markers of a download URL. Without markers the usual end is appended.
fn filled(template: &str, file: &CrateFile) -> String {
    let version = file.version.replace('+', "%2B");
    let markers = [
        ("{crate}", file.name.clone()),
        ("{version}", version.clone()),
        ("{prefix}", file.prefix()),
        ("{lowerprefix}", file.prefix().to_ascii_lowercase()),
        ("{sha256-checksum}", file.digest.hex()),
    ];
    if !markers.iter().any(|(marker, _)| template.contains(marker)) {
        return format!("{}/{}/{version}/download", template.trim_end_matches('/'), file.name);
    }
    markers.iter().fold(template.to_owned(), |url, (marker, value)| url.replace(marker, value))
}
