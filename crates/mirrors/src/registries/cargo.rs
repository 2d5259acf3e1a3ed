//! cargo's sparse index and the crate files that it names.
//!
//! ```text
//!   /config.json                                where crates are; `dl` becomes the mirror's
//!   /3/f/foo, /se/rd/serde                      index file of a crate: a JSON object a line
//!   /crates/NAME/VERSION/SHA256/download        crate file; its URL has its digest
//! ```
//!
//! The rewritten `dl` contains `{sha256-checksum}`, so that each download carries the digest of the
//! index line that cargo has read. Cargo.lock never names the mirror.

mod aged;
mod config;

use crate::lines::{LineSelection, LineSurvey};
use crate::route::PromiseSource;
use crate::{
    Algorithm, Class, Digest, Facts, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter,
    Route, Survey,
};
use aged::{LineOfFile, version_of_line};
use config::{DownloadPlace, Downloads};
use std::collections::HashSet;

/// The cargo kind.
pub struct Cargo;

impl Registry for Cargo {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "this mirror can only be read: publish at the registry itself".into());
        }
        let path = question.path;
        if path == "/config.json" {
            return document(path.to_owned(), Form::CargoConfig);
        }
        if path.starts_with(CRATES) {
            return match CrateFile::parse(path) {
                Some(_) => Route::Fetch(Fetch {
                    place: Place::Below(path.to_owned()),
                    class: Class::File(PromiseSource::In(
                        Place::Below("/config.json".into()),
                        Form::CargoConfig,
                    )),
                    accept: None,
                    form_asked: None,
                }),
                None => Route::Refuse(404, "no crate file has such a path".into()),
            };
        }
        match index_name(path) {
            Some(_) => document(path.to_owned(), Form::CargoIndex),
            None => Route::Refuse(404, "a sparse index has no such file".into()),
        }
    }

    fn rewriter(&self, mirror: &Mirror, form: Form) -> Option<Box<dyn Rewriter + Send>> {
        (form == Form::CargoConfig && !mirror.is_registry_itself())
            .then(|| Box::new(Downloads::new(mirror)) as Box<dyn Rewriter + Send>)
    }

    fn promises(&self, _: &Mirror, form: Form, file: &Place) -> Option<Box<dyn Promises + Send>> {
        let Place::Below(path) = file else { return None };
        match form {
            Form::CargoConfig => Some(Box::new(DownloadPlace::new(CrateFile::parse(path)?))),
            Form::CargoIndex => Some(Box::new(LineOfFile::new(CrateFile::parse(path)?))),
            _ => None,
        }
    }

    fn dated(&self, form: Form) -> Option<Form> {
        (form == Form::CargoIndex).then_some(form)
    }

    fn survey(&self, dated: Form) -> Option<Box<dyn Survey + Send>> {
        (dated == Form::CargoIndex)
            .then(|| Box::new(LineSurvey::new(version_of_line)) as Box<dyn Survey + Send>)
    }

    fn selected(
        &self,
        _: &Mirror,
        _: Form,
        _: &Facts,
        versions: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        Some((Box::new(LineSelection::new(version_of_line, versions)), "text/plain"))
    }

    fn times_of(&self, file: &Place) -> Vec<(Place, Form)> {
        let Place::Below(path) = file else { return Vec::new() };
        let index = CrateFile::parse(path).and_then(|file| self.path_of_package(&file.name));
        index.map(|index| (Place::Below(index), Form::CargoIndex)).into_iter().collect()
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        is_name(&name).then(|| format!("/{}/{name}", folders(&name)))
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        let file = CrateFile::parse(path).map(|file| file.name);
        let name = file.or_else(|| index_name(path).map(str::to_owned));
        name.map(|name| self.spelling(&name)).into_iter().collect()
    }

    /// Registries take names for one that differ in case, dashes and underscores.
    fn spelling(&self, name: &str) -> String {
        name.to_ascii_lowercase().replace('_', "-")
    }
}

fn document(path: String, form: Form) -> Route {
    Route::Fetch(Fetch {
        place: Place::Below(path),
        class: Class::Document(form),
        accept: None,
        form_asked: None,
    })
}

/// A crate file, as the mirror's download URL names it.
#[derive(Debug, PartialEq, Eq)]
struct CrateFile {
    name: String,
    version: String,
    digest: Digest,
}

impl CrateFile {
    /// Reads `/crates/NAME/VERSION/SHA256/download`.
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix(CRATES)?.split('/');
        let (name, version, hex) = (parts.next()?, parts.next()?, parts.next()?);
        let is_end = parts.next() == Some("download") && parts.next().is_none();
        // Build metadata of a version has a plus, as it stands or escaped.
        let version = version.replace("%2B", "+").replace("%2b", "+");
        let is_version = !version.is_empty()
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
        let digest = Digest::from_hex(Algorithm::Sha256, hex)?;
        (is_end && is_name(name) && is_version).then(|| Self { name: name.to_owned(), version, digest })
    }

    /// Folders of the crate in an index: `{prefix}` of a download URL.
    fn prefix(&self) -> String {
        folders(&self.name)
    }
}

/// Returns the crate of an index path: lower case, below the folders of its name.
fn index_name(path: &str) -> Option<&str> {
    let (folders_of_path, name) = path.strip_prefix('/')?.rsplit_once('/')?;
    let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && is_name(name) && folders(name) == folders_of_path).then_some(name)
}

/// Returns the index path of a crate. `None` if it is no name.
pub(crate) fn index_path(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    is_name(&name).then(|| format!("/{}/{name}", folders(&name)))
}

/// Returns the path of a crate file below the mirror.
pub(crate) fn file_path(name: &str, version: &str, digest: &Digest) -> String {
    debug_assert_eq!(digest.algorithm(), Algorithm::Sha256, "the digest of an index");
    format!("{CRATES}{name}/{version}/{}/download", digest.hex())
}

/// Folders of a name: `1`, `2`, `3/f`, `ab/cd`.
fn folders(name: &str) -> String {
    match name.len() {
        1 => "1".into(),
        2 => "2".into(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

const CRATES: &str = "/crates/";
/// Longest name of a crate in bytes, as registries allow it.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests;
