//! RubyGems: the compact index, and the gems that it names.
//!
//! ```text
//!   /versions, /names, /info/NAME      compact index: documents; /info has the digest of each gem
//!   /gems/NAME-VERSION[-PLATFORM].gem  gem
//!   /quick/Marshal.4.8/FILE            specification of a gem
//!   /specs.4.8.gz and its kin          index of old clients
//! ```
//!
//! A line of `/info` is `VERSION[-PLATFORM] DEPENDENCIES|checksum:SHA256,...,created_at:TIME`.
//! Registries with the older form of the index have no times.

use crate::lines::{LineSelection, LineSurvey, Lines};
use crate::route::PromiseSource;
use crate::time::rfc3339;
use crate::{
    Algorithm, BadDocument, Class, Digest, Facts, Fetch, Form, Mirror, Place, Promise, Promises, Question,
    Registry, Rewriter, Route, Survey,
};
use std::collections::HashSet;

/// The rubygems kind.
pub struct RubyGems;

impl Registry for RubyGems {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "this mirror can only be read: push to the registry itself".into());
        }
        let path = question.path;
        let class = match path {
            "/versions" | "/names" => Class::Document(Form::GemVersions),
            "/specs.4.8.gz" | "/latest_specs.4.8.gz" | "/prerelease_specs.4.8.gz" => {
                Class::Document(Form::Other)
            }
            _ => match of_part(path) {
                Some(class) => class,
                None => return Route::Refuse(404, "a gem registry has no such path".into()),
            },
        };
        Route::Fetch(Fetch { place: Place::Below(path.to_owned()), class, accept: None, form_asked: None })
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn promises(&self, _: &Mirror, form: Form, file: &Place) -> Option<Box<dyn Promises + Send>> {
        let (Form::GemInfo, Place::Below(path)) = (form, file) else { return None };
        let (stem, is_gem) = stem(path)?;
        Some(Box::new(GemPromise::new(stem, is_gem)))
    }

    fn dated(&self, form: Form) -> Option<Form> {
        (form == Form::GemInfo).then_some(form)
    }

    fn survey(&self, dated: Form) -> Option<Box<dyn Survey + Send>> {
        (dated == Form::GemInfo).then(|| Box::new(LineSurvey::new(version_of_line)) as Box<dyn Survey + Send>)
    }

    fn selected(
        &self,
        _: &Mirror,
        _: Form,
        _: &Facts,
        versions: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        Some((Box::new(LineSelection::new(version_of_line, versions)), "text/plain; charset=utf-8"))
    }

    fn times_of(&self, file: &Place) -> Vec<(Place, Form)> {
        let Place::Below(path) = file else { return Vec::new() };
        match stem(path) {
            Some((stem, false)) => infos(stem),
            _ => Vec::new(),
        }
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        is_name(name).then(|| format!("/info/{name}"))
    }

    fn is_index(&self, place: &str) -> bool {
        place == "/versions"
    }

    fn is_of_index(&self, place: &str) -> bool {
        place.starts_with("/info/")
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        if let Some(name) = path.strip_prefix("/info/") {
            return Some(name.to_owned()).filter(|name| is_name(name)).into_iter().collect();
        }
        let gem = path.strip_prefix(GEMS).and_then(|file| file.strip_suffix(".gem"));
        let stem = gem.or_else(|| path.strip_prefix(QUICK)?.strip_suffix(".gemspec.rz"));
        stem.into_iter().flat_map(names).map(str::to_owned).collect()
    }
}

fn of_part(path: &str) -> Option<Class> {
    if let Some(name) = path.strip_prefix("/info/") {
        return is_name(name).then_some(Class::Document(Form::GemInfo));
    }
    if let Some(file) = path.strip_prefix(QUICK) {
        return is_name(file).then_some(Class::File(PromiseSource::Nothing));
    }
    let documents = infos(path.strip_prefix(GEMS)?.strip_suffix(".gem").filter(|stem| is_name(stem))?);
    (!documents.is_empty()).then_some(Class::File(PromiseSource::InOneOf(documents)))
}

/// Returns name and version of a gem or of its specification; `true` for the gem.
fn stem(path: &str) -> Option<(&str, bool)> {
    let gem = path.strip_prefix(GEMS).and_then(|file| file.strip_suffix(".gem"));
    let specification = || path.strip_prefix(QUICK)?.strip_suffix(".gemspec.rz");
    gem.map(|stem| (stem, true)).or_else(|| specification().map(|stem| (stem, false)))
}

/// Returns the documents that may name a gem.
fn infos(stem: &str) -> Vec<(Place, Form)> {
    names(stem).take(NAMES_MAX).map(|name| (Place::Below(format!("/info/{name}")), Form::GemInfo)).collect()
}

/// Reads version and time of a line.
fn version_of_line(line: &str) -> Option<(String, Option<i64>)> {
    let line = line.trim_end();
    let (version, rest) = line.split_once(' ').unwrap_or((line, ""));
    (version != "---").then(|| (version.to_owned(), requirement(rest, "created_at:").and_then(rfc3339)))
}

/// Returns the value of a requirement behind the dependencies of a line.
fn requirement<'a>(rest: &'a str, name: &str) -> Option<&'a str> {
    rest.rsplit_once('|')?.1.split(',').find_map(|part| part.strip_prefix(name))
}

/// Names that the file of a gem may belong to, longest last: names may have dashes before digits.
fn names(stem: &str) -> impl Iterator<Item = &str> {
    let is_cut = |(place, _): &(usize, &str)| {
        *place > 0 && stem[place + 1..].starts_with(|char: char| char.is_ascii_digit())
    };
    stem.match_indices('-').filter(is_cut).map(|(place, _)| &stem[..place])
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part) && !name.starts_with('.')
}

/// Search for one gem in the lines of `/info`.
struct GemPromise {
    /// File name without its end.
    stem: String,
    /// The gem itself, not its specification.
    is_gem: bool,
    lines: Lines,
    found: Option<Promise>,
}

impl GemPromise {
    fn new(stem: &str, is_gem: bool) -> Self {
        Self { stem: stem.to_owned(), is_gem, lines: Lines::default(), found: None }
    }
}

/// Looks for a gem in a line.
fn look(line: &[u8], (stem, is_gem): (&str, bool), found: &mut Option<Promise>) {
    debug_assert!(!stem.is_empty(), "a gem has a name");
    let line = String::from_utf8_lossy(line);
    let Some((version, rest)) = line.trim_end_matches('\n').split_once(' ').filter(|_| found.is_none())
    else {
        return;
    };
    // The name is that of the document, which was chosen to fit.
    if !stem.strip_suffix(version).is_some_and(|name| name.ends_with('-')) {
        return;
    }
    let digest = requirement(rest, "checksum:").filter(|_| is_gem);
    *found = Some(Promise {
        digest: digest.and_then(|hex| Digest::from_hex(Algorithm::Sha256, hex)),
        size: None,
        published: requirement(rest, "created_at:").and_then(rfc3339),
        is_withdrawn: false,
    });
}

impl Promises for GemPromise {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let Self { stem, is_gem, lines, found } = self;
        lines.push(input, |line| look(line, (stem, *is_gem), found))
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        let Self { stem, is_gem, lines, found } = self;
        lines.finish(|line| look(line, (stem, *is_gem), found));
        Ok(found.take())
    }
}

const GEMS: &str = "/gems/";
const QUICK: &str = "/quick/Marshal.4.8/";
/// Most names that are tried for one file.
const NAMES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registries::testing::{below, promised, routed};

    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn mirror() -> Mirror {
        Mirror { external: "http://cache.test/rubygems".into(), upstream: "https://gems.example".into() }
    }

    #[test]
    fn gems_are_promised_by_their_info() {
        let documents = |names: &[&str]| {
            let document = |name: &&str| (Place::Below(format!("/info/{name}")), Form::GemInfo);
            Class::File(PromiseSource::InOneOf(names.iter().map(document).collect()))
        };
        for (path, wanted) in [
            ("/versions", Class::Document(Form::GemVersions)),
            ("/info/rack", Class::Document(Form::GemInfo)),
            ("/gems/rack-3.0.0.gem", documents(&["rack"])),
            ("/gems/nokogiri-1.16.0-x86_64-linux.gem", documents(&["nokogiri"])),
            ("/gems/a-2b-1.0.gem", documents(&["a", "a-2b"])),
            ("/quick/Marshal.4.8/rack-3.0.0.gemspec.rz", Class::File(PromiseSource::Nothing)),
            ("/specs.4.8.gz", Class::Document(Form::Other)),
        ] {
            assert_eq!(below(routed(&RubyGems, &mirror(), "GET", path, "")), (path.to_owned(), wanted));
        }
        for path in ["/", "/info/", "/info/../x", "/gems/rack.gem", "/gems/a/b-1.gem", "/api/v1/gems"] {
            assert!(matches!(routed(&RubyGems, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
        }
        for (path, packages) in [
            ("/gems/rack-3.0.0.gem", &["rack"][..]),
            ("/gems/http-2-0.11.0.gem", &["http", "http-2"]),
            ("/quick/Marshal.4.8/rack-3.0.0.gemspec.rz", &["rack"]),
            ("/info/http-2", &["http-2"]),
        ] {
            assert_eq!(RubyGems.packages(&mirror(), path), packages, "{path}");
        }
    }

    #[test]
    fn info_lines_have_digests() {
        let document = format!(
            "---\n1.0.0 |checksum:{},ruby:>= 2.0\n1.0.0-java b:>= 1&< 2,c:>= 0|checksum:{SHA256},rubygems:>= 1\n2.0.0 ",
            SHA256.replace("ba", "00")
        );
        let found = |path: &str| {
            let place = Place::Below(path.into());
            promised(&RubyGems, &mirror(), Form::GemInfo, &place, &document).0.map(|promise| promise.digest)
        };
        let digest = |hex: &str| Digest::from_hex(Algorithm::Sha256, hex);
        assert_eq!(found("/gems/a-1.0.0-java.gem"), Some(digest(SHA256)));
        assert_eq!(found("/gems/a-1.0.0.gem"), Some(digest(&SHA256.replace("ba", "00"))));
        assert_eq!(found("/gems/a-2.0.0.gem"), Some(None));
        assert_eq!(found("/gems/a-11.0.0.gem"), None);
    }

    #[test]
    fn times_are_those_of_the_second_form() {
        let document = format!(
            "---\n1.0.0 |checksum:{SHA256}\n2.0.0 b:>= 1|checksum:{SHA256},created_at:2026-01-01T00:00:00Z\n"
        );
        let mut survey = RubyGems.survey(Form::GemInfo).expect("one");
        survey.push(document.as_bytes()).expect("sound");
        let versions = survey.finish().expect("whole").versions;
        assert_eq!(versions, [("1.0.0".to_owned(), None), ("2.0.0".to_owned(), Some(1_767_225_600))]);
        let quick = Place::Below("/quick/Marshal.4.8/a-2.0.0.gemspec.rz".into());
        assert_eq!(RubyGems.times_of(&quick), [(Place::Below("/info/a".into()), Form::GemInfo)]);
        let found = promised(&RubyGems, &mirror(), Form::GemInfo, &quick, &document).0.expect("named");
        assert_eq!((found.digest, found.published), (None, Some(1_767_225_600)));
    }
}
