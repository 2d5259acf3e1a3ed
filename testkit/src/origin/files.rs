//! Files of a folder as resources.

use super::answer::Answer;
use super::journal::Received;
use super::resource::Resource;
use crate::seeded;
use std::path::{Component, Path, PathBuf};

/// A folder served below a path prefix, each file with an entity tag made of its bytes.
pub struct Files {
    prefix: String,
    folder: PathBuf,
    fields: Vec<(String, String)>,
    /// Whether answers have no validators.
    is_silent: bool,
}

impl Files {
    /// Serves `folder` below `prefix`; `fields` stand in every answer.
    pub fn new(prefix: &str, folder: PathBuf, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Self { prefix: prefix.into(), folder, fields, is_silent: false }
    }

    /// Serves `folder` below `prefix` without a word on caching: neither lifetimes nor validators.
    pub fn silent(prefix: &str, folder: PathBuf) -> Self {
        Self { is_silent: true, ..Self::new(prefix, folder, &[]) }
    }

    /// The answer: the file, `index.html` of a folder, or 404.
    pub fn answer(&self, request: &Received) -> Answer {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return Answer::new(405).field("Allow", "GET, HEAD");
        }
        let below = request.path().strip_prefix(&self.prefix).unwrap_or_default();
        let below = below.trim_start_matches('/').replace("%2f", "/").replace("%40", "@").replace("%2B", "+");
        let path = Path::new(&below);
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            return missing();
        }
        let mut path = self.folder.join(path);
        if path.is_dir() {
            path.push("index.html");
        }
        match std::fs::read(&path) {
            Ok(bytes) => self.resource(&path, bytes).answer(request),
            Err(_) => missing(),
        }
    }

    fn resource(&self, path: &Path, bytes: Vec<u8>) -> Resource {
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
        let sum = seeded::hash(&bytes);
        let mut resource = Resource::new(bytes);
        if !self.is_silent {
            resource = resource.etag(&format!("\"{sum:016x}\""));
        }
        if let Ok(modified) = modified
            && !self.is_silent
        {
            resource = resource.last_modified(&httpdate::fmt_http_date(modified));
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        resource = resource.field("Content-Type", content_type(extension));
        self.fields.iter().fold(resource, |resource, (name, value)| resource.field(name, value))
    }
}

fn missing() -> Answer {
    Answer::new(404).field("Cache-Control", "no-store").piece("no such file\n")
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "html" => "text/html",
        "json" => "application/json",
        "tgz" | "gz" => "application/gzip",
        "whl" => "application/zip",
        _ => "application/octet-stream",
    }
}
