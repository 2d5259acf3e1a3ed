//! Go's module proxy, and the checksum database behind it.
//!
//! ```text
//!   /MODULE/@v/list, /MODULE/@latest        versions: documents
//!   /MODULE/@v/VERSION.info, .mod, .zip     of a canonical version: files that never change
//!   /MODULE/@v/BRANCH.info                  of a branch or revision: a document
//!   /sumdb/NAME/...                         checksum database, by way of the upstream
//! ```
//!
//! Capital letters of a module are escaped: `!a` is `A`. The hashes of `go.sum` are of a zip's
//! members, not of its bytes: the go command checks them, and so does the node where a checksum
//! database has told them (`sums`). Toolchains are modules, too.

mod aged;
mod sums;

use crate::route::PromiseSource;
use crate::{
    Class, Facts, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, Route, Survey,
};
use aged::{TimeOfFile, VersionSurvey, selection};
use std::collections::HashSet;

/// The go kind.
pub struct Go;

impl Registry for Go {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "a module proxy can only be read".into());
        }
        let path = question.path;
        let class = match path.strip_prefix("/sumdb/") {
            Some(rest) => of_checksums(rest),
            None => ModulePart::parse(path).map(|asked| asked.class()),
        };
        match class {
            Some(class) => Route::Fetch(Fetch {
                place: Place::Below(path.to_owned()),
                class,
                accept: None,
                form_asked: None,
            }),
            None => Route::Refuse(404, "a module proxy has no such path".into()),
        }
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn promises(&self, _: &Mirror, form: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        (form == Form::GoVersions).then(|| Box::new(TimeOfFile::default()) as Box<dyn Promises + Send>)
    }

    fn dated(&self, form: Form) -> Option<Form> {
        (form == Form::GoVersions).then_some(form)
    }

    fn survey(&self, dated: Form) -> Option<Box<dyn Survey + Send>> {
        (dated == Form::GoVersions).then(|| Box::new(VersionSurvey::Unknown) as Box<dyn Survey + Send>)
    }

    fn selected(
        &self,
        _: &Mirror,
        _: Form,
        facts: &Facts,
        versions: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        let media = if facts.tags.is_empty() { "text/plain; charset=utf-8" } else { "application/json" };
        selection(facts, versions).map(|rewriter| (rewriter, media))
    }

    fn checksum_database<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix("/sumdb/")?;
        of_checksums(rest)?;
        rest.split('/').next()
    }

    fn place_of_sum(&self, file: &Place, database: &str) -> Option<Place> {
        sums::place_of(file, database)
    }

    fn sum_in(&self, file: &Place, document: &str) -> Option<[u8; 32]> {
        sums::read(file, document)
    }

    fn times_of(&self, file: &Place) -> Vec<(Place, Form)> {
        let Place::Below(path) = file else { return Vec::new() };
        let info = path.rsplit_once('.').map(|(version, _)| format!("{version}.info"));
        info.map(|info| (Place::Below(info), Form::GoVersions)).into_iter().collect()
    }

    fn time_of_version(&self, index: &Place, version: &str) -> Option<(Place, Form)> {
        let Place::Below(path) = index else { return None };
        let folder = path.strip_suffix("list")?;
        let info = format!("{folder}{}.info", escaped(version));
        ModulePart::parse(&info).is_some().then_some((Place::Below(info), Form::GoVersions))
    }

    fn has_releases(&self, path: &str) -> bool {
        !path.starts_with("/sumdb/")
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        // The first part of a module's path is a host.
        name.split('/').next().filter(|host| host.contains('.'))?;
        let path = format!("/{}/@v/list", escaped(name));
        ModulePart::parse(&path).is_some().then_some(path)
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        ModulePart::parse(path).map(|asked| asked.module).into_iter().collect()
    }
}

/// A request about a module.
struct ModulePart<'a> {
    module: String,
    /// `latest`, `list`, or a version with its extension.
    rest: &'a str,
}

impl<'a> ModulePart<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let (module, rest) = match path.strip_suffix("/@latest") {
            Some(module) => (module, "latest"),
            None => path.split_once("/@v/")?,
        };
        let asked = Self { module: unescaped(module.strip_prefix('/')?)?, rest };
        let is_sound = matches!(rest, "latest" | "list") || asked.version().is_some();
        is_sound.then_some(asked)
    }

    /// Version and extension.
    fn version(&self) -> Option<(String, &'a str)> {
        let (version, extension) = self.rest.rsplit_once('.')?;
        let is_known = matches!(extension, "info" | "mod" | "zip");
        (is_known && !version.contains('/')).then(|| Some((unescaped(version)?, extension)))?
    }

    fn class(&self) -> Class {
        match self.version() {
            Some((version, _)) if is_canonical(&version) => Class::File(PromiseSource::Nothing),
            _ => Class::Document(Form::GoVersions),
        }
    }
}

/// Class of a place below `/sumdb/`: records and full tiles never change.
fn of_checksums(rest: &str) -> Option<Class> {
    let (name, rest) = rest.split_once('/')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    let is_sound = !rest.split('/').any(|part| part.is_empty() || matches!(part, "." | ".."));
    if !is_name || !is_sound {
        return None;
    }
    match rest.split('/').next()? {
        "supported" | "latest" => Some(Class::Document(Form::Other)),
        "lookup" | "tile" => Some(Class::File(PromiseSource::Nothing)),
        _ => None,
    }
}

/// Replaces `!a` by `A`. `None` for a path that no module has.
fn unescaped(path: &str) -> Option<String> {
    let mut made = String::with_capacity(path.len());
    let mut chars = path.chars();
    while let Some(char) = chars.next() {
        match char {
            '!' => made.push(chars.next().filter(char::is_ascii_lowercase)?.to_ascii_uppercase()),
            'A'..='Z' => return None,
            char if char.is_ascii_graphic() && !"\"%*:;<>?@[\\]^`{|}#".contains(char) => made.push(char),
            _ => return None,
        }
    }
    let is_sound = !made.split('/').any(|part| part.is_empty() || matches!(part, "." | ".."));
    is_sound.then_some(made)
}

/// Replaces `A` by `!a`.
fn escaped(name: &str) -> String {
    let mut made = String::with_capacity(name.len());
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            made.push('!');
        }
        made.push(char.to_ascii_lowercase());
    }
    made
}

/// Returns `true` for `vX.Y.Z` with its pre-release or `+incompatible`: such a version is constant.
fn is_canonical(version: &str) -> bool {
    let Some(rest) = version.strip_prefix('v') else { return false };
    let rest = rest.strip_suffix("+incompatible").unwrap_or(rest);
    let (numbers, pre_release) = rest.split_once('-').map_or((rest, None), |(a, b)| (a, Some(b)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_pre_release = |text: &str| {
        text.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && pre_release.is_none_or(is_pre_release)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registries::testing::{below, routed};

    fn mirror() -> Mirror {
        Mirror { external: "http://cache.test/go".into(), upstream: "https://modules.example".into() }
    }

    fn class(path: &str) -> Option<Class> {
        match routed(&Go, &mirror(), "GET", path, "") {
            Route::Refuse(404, _) => None,
            route => {
                let (place, class) = below(route);
                assert_eq!(place, path);
                Some(class)
            }
        }
    }

    #[test]
    fn canonical_versions_are_files() {
        let (file, document) = (Class::File(PromiseSource::Nothing), Class::Document(Form::GoVersions));
        for (path, wanted) in [
            ("/example.test/!a/b/@v/v1.2.3.zip", Some(&file)),
            ("/example.test/a/@v/v0.0.0-20260101000000-abcdef123456.mod", Some(&file)),
            ("/example.test/a/@v/v2.0.0+incompatible.info", Some(&file)),
            ("/example.test/toolchain/@v/v0.0.1-go1.26.0.linux-amd64.zip", Some(&file)),
            ("/example.test/a/v2/@v/v2.0.0-rc.1.info", Some(&file)),
            ("/example.test/a/@v/list", Some(&document)),
            ("/example.test/a/@latest", Some(&document)),
            ("/example.test/a/@v/main.info", Some(&document)),
            ("/example.test/a/@v/v1.info", Some(&document)),
            ("/example.test/a/@v/v1.02.3.info", Some(&document)),
            ("/example.test/A/@v/list", None),
            ("/example.test/../@v/list", None),
            ("/example.test//a/@v/list", None),
            ("/example.test/a/@v/v1.2.3.exe", None),
            ("/example.test/a/@v/a/b.info", None),
            ("/example.test/a", None),
            ("/", None),
        ] {
            assert_eq!(class(path).as_ref(), wanted, "{path}");
        }
        assert_eq!(Go.packages(&mirror(), "/example.test/!a!b/@v/list"), ["example.test/AB"]);
        assert_eq!(Go.path_of_package("left-pad"), None);
        assert_eq!(Go.path_of_package("example.test/AB").as_deref(), Some("/example.test/!a!b/@v/list"));
    }

    #[test]
    fn times_stand_in_infos() {
        let place = |path: &str| Place::Below(path.to_owned());
        let info = |path: &str| (place(path), Form::GoVersions);
        assert_eq!(Go.times_of(&place("/a.test/b/@v/v1.0.0.zip")), [info("/a.test/b/@v/v1.0.0.info")]);
        let of_version = |version: &str| Go.time_of_version(&place("/a.test/b/@v/list"), version);
        assert_eq!(of_version("v1.0.0-RC"), Some(info("/a.test/b/@v/v1.0.0-!r!c.info")));
        assert_eq!(of_version("../x"), None);
        assert_eq!(Go.time_of_version(&place("/a.test/b/@latest"), "v1.0.0"), None);
        assert!(Go.has_releases("/a.test/b/@latest") && !Go.has_releases("/sumdb/sum.test/latest"));
    }

    #[test]
    fn checksums_come_by_way_of_the_upstream() {
        let (file, document) = (Class::File(PromiseSource::Nothing), Class::Document(Form::Other));
        for (path, wanted) in [
            ("/sumdb/sum.test/supported", Some(&document)),
            ("/sumdb/sum.test/latest", Some(&document)),
            ("/sumdb/sum.test/lookup/example.test/!a@v1.0.0", Some(&file)),
            ("/sumdb/sum.test/tile/8/0/x001/234.p/5", Some(&file)),
            ("/sumdb/sum.test/../supported", None),
            ("/sumdb/sum.test/other", None),
            ("/sumdb/a:b@c/supported", None),
            ("/sumdb/supported", None),
        ] {
            assert_eq!(class(path).as_ref(), wanted, "{path}");
        }
    }
}
