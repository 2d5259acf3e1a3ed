//! Places below a mirror that an entry needs: index pages, files, and pages on which files are
//! found.

use super::{Check, ListEntry};
use crate::npm_name::Name;
use crate::registries::{cargo, pypi};
use crate::url::last_segment;
use crate::{Digest, Form, Kind};

/// Places that an entry needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    /// Index pages that clients ask for.
    pub pages: Vec<IndexPage>,
    /// Files.
    pub files: Vec<NeededFile>,
    /// Search for files that the list does not name.
    pub search: Option<Search>,
}

/// An index page.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexPage {
    /// Path below the mirror.
    pub path: String,
    /// Accept field of the clients.
    pub accept: Option<&'static str>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededFile {
    /// Path below the mirror, with its query.
    pub path: String,
    /// Check of the body.
    pub check: Check,
    /// Length in bytes, if known.
    pub size: Option<u64>,
    /// `true` if the registry need not have it.
    pub may_lack: bool,
}

/// A search for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// Files of a release on the page of its project.
    Project {
        /// The page.
        page: IndexPage,
        /// Version of the release.
        version: String,
        /// Name of the file, if the list has it.
        file: Option<String>,
        /// Digests of the files; empty for any.
        digests: Vec<Digest>,
    },
    /// Digest of a crate in its index file.
    Crate {
        /// The index file.
        page: IndexPage,
        /// Name of the crate.
        name: String,
        /// Version.
        version: String,
    },
    /// Manifests and blobs of an image.
    Image {
        /// Repository.
        repository: String,
        /// Tag or digest.
        reference: String,
    },
}

/// Returns the places that an entry needs. `below` is the path of its URL below the mirror of its
/// kind, if it has one there.
///
/// # Errors
/// If no registry has such a name.
pub fn need(wanted: &ListEntry, kind: Kind, below: Option<&str>) -> Result<Need, &'static str> {
    let need = match kind {
        Kind::Npm => npm(wanted, below),
        Kind::Pypi => python(wanted, below),
        Kind::Cargo => crate_of(wanted),
        Kind::Go => module(wanted),
        Kind::RubyGems => gem(wanted),
        Kind::Maven => artifact(wanted),
        Kind::Oci => image(wanted),
        Kind::Deb | Kind::Generic | Kind::BuildCache => below.map(|path| Need::of_file(path, wanted)),
    };
    let need = need.ok_or(NO_NAME)?;
    let paths = need.pages.iter().map(|page| &page.path).chain(need.files.iter().map(|file| &file.path));
    debug_assert!(need.search.is_some() || !need.files.is_empty(), "an entry needs something");
    match paths.into_iter().all(|path| is_sound(path)) {
        true => Ok(need),
        false => Err(NO_NAME),
    }
}

impl Need {
    /// Returns the need of one file.
    pub fn of_file(path: &str, wanted: &ListEntry) -> Self {
        Self { files: vec![NeededFile::of(path.to_owned(), wanted)], ..Self::default() }
    }
}

impl NeededFile {
    fn of(path: String, wanted: &ListEntry) -> Self {
        Self { path, check: wanted.check.clone(), size: wanted.size, may_lack: false }
    }
}

impl IndexPage {
    fn of(path: impl Into<String>) -> Self {
        Self { path: path.into(), accept: None }
    }

    fn in_form(path: impl Into<String>, form: Form) -> Self {
        Self { path: path.into(), accept: form.accept() }
    }

    /// The page of a Python project.
    pub fn of_project(name: &str) -> Option<Self> {
        Some(Self::in_form(format!("/simple/{}/", pypi::normalized(name)?), Form::PypiJson))
    }
}

fn npm(wanted: &ListEntry, below: Option<&str>) -> Option<Need> {
    let name = Name::parse(&wanted.name)?;
    let usual = || format!("{}/-/{}-{}.tgz", name.path_of_files(), name.base, wanted.version);
    // A tarball of another registry keeps its own name: some have zeros in front of numbers.
    let elsewhere = || {
        let file = last_segment(wanted.url.as_deref()?);
        file.ends_with(".tgz").then(|| format!("{}/-/{file}", name.path_of_files()))
    };
    let path = below.map(str::to_owned).or_else(elsewhere).unwrap_or_else(usual);
    let files = vec![NeededFile::of(path, wanted)];
    Some(Need { pages: vec![IndexPage::in_form(name.path(), Form::NpmShort)], files, search: None })
}

fn python(wanted: &ListEntry, below: Option<&str>) -> Option<Need> {
    let page = IndexPage::of_project(&wanted.name)?;
    if let Some(path) = below {
        let files = vec![NeededFile::of(path.to_owned(), wanted)];
        return Some(Need { pages: vec![page], files, search: None });
    }
    let search = Search::Project {
        page: page.clone(),
        version: wanted.version.clone(),
        file: wanted.file.clone(),
        digests: wanted.digests().to_vec(),
    };
    Some(Need { pages: vec![page], files: Vec::new(), search: Some(search) })
}

fn crate_of(wanted: &ListEntry) -> Option<Need> {
    let index = IndexPage::of(cargo::index_path(&wanted.name)?);
    let pages = vec![IndexPage::of("/config.json"), index.clone()];
    let search = || Search::Crate { page: index, name: wanted.name.clone(), version: wanted.version.clone() };
    Some(match wanted.digests() {
        [] => Need { pages, files: Vec::new(), search: Some(search()) },
        [digest, ..] => Need { pages, files: vec![crate_file(wanted, digest)], search: None },
    })
}

/// Returns the file of a crate with this digest.
fn crate_file(wanted: &ListEntry, digest: &Digest) -> NeededFile {
    NeededFile::of(cargo::file_path(&wanted.name, &wanted.version, digest), wanted)
}

fn module(wanted: &ListEntry) -> Option<Need> {
    let escaped = |text: &str| {
        let mut made = String::with_capacity(text.len());
        for char in text.chars() {
            if char.is_ascii_uppercase() {
                made.push('!');
            }
            made.push(char.to_ascii_lowercase());
        }
        made
    };
    let (module, version, file) = (escaped(&wanted.name), escaped(&wanted.version), wanted.file.as_deref()?);
    Some(Need::of_file(&format!("/{module}/@v/{version}.{file}"), wanted))
}

fn gem(wanted: &ListEntry) -> Option<Need> {
    let ListEntry { name, version, .. } = wanted;
    let pages = vec![IndexPage::of("/versions"), IndexPage::of(format!("/info/{name}"))];
    let files = vec![NeededFile::of(format!("/gems/{name}-{version}.gem"), wanted)];
    Some(Need { pages, files, search: None })
}

fn artifact(wanted: &ListEntry) -> Option<Need> {
    let (group, name) = wanted.name.split_once(':')?;
    let (version, file) = (&wanted.version, wanted.file.as_deref()?);
    let mut need = Need::of_file(&format!("/{}/{name}/{version}/{file}", group.replace('.', "/")), wanted);
    // Not every package has every file that its lock leads to.
    need.files.iter_mut().for_each(|file| file.may_lack = wanted.digests().is_empty());
    Some(need)
}

fn image(wanted: &ListEntry) -> Option<Need> {
    let path = format!("/v2/{}/manifests/{}", wanted.name, wanted.version);
    let search = Search::Image { repository: wanted.name.clone(), reference: wanted.version.clone() };
    is_sound(&path).then(|| Need { search: Some(search), ..Need::default() })
}

/// Returns `true` for a path that stays below its folder, and that no byte ends early.
fn is_sound(path: &str) -> bool {
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let is_part = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte);
    path.starts_with('/')
        && plain.bytes().chain(query.bytes()).all(is_part)
        && !plain.split('/').any(|part| matches!(part, "." | ".."))
}

const NO_NAME: &str = "no registry has such a name";
