//! npm's registry: documents of packages in two forms, and tarballs below them.
//!
//! ```text
//!   /NAME, /@SCOPE%2fNAME      document: short for installs, full for everything else
//!   /NAME/-/FILE.tgz           tarball; the document has its digest
//!   /NAME/VERSION              one version, a document of its own
//!   /-/npm/v1/keys             and other resources that are no package
//! ```
//!
//! Clients write the URL of a tarball into their lock unless it has the usual shape below the
//! registry's own path. Rewritten documents have no other shape.

mod aged;
mod promises;
mod urls;

use crate::json::quoted;
use crate::npm_name::{Name, named};
use crate::route::PromiseSource;
use crate::{
    Class, Facts, Fetch, Form, Mirror, PackagePart, Place, Promises, Question, Registry, Rewriter, RootClaim,
    Route, Survey,
};
use aged::{Selection, Times};
use promises::TarballPromise;
use std::collections::HashSet;
use urls::TarballUrls;

/// The npm kind.
pub struct Npm;

impl Registry for Npm {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        let path = question.path.trim_end_matches('/');
        match question.method {
            "GET" | "HEAD" => read(path, question),
            "POST" if path.starts_with("/-/npm/v1/security/") => Route::Pass(whole(question)),
            "PUT" | "POST" | "DELETE" | "PATCH" => Route::Refuse(405, READ_ONLY.into()),
            _ => Route::Refuse(405, "this mirror answers GET, HEAD and audits".into()),
        }
    }

    fn rewriter(&self, mirror: &Mirror, form: Form) -> Option<Box<dyn Rewriter + Send>> {
        let is_package = matches!(form, Form::NpmFull | Form::NpmShort);
        is_package.then(|| Box::new(TarballUrls::new(mirror)) as Box<dyn Rewriter + Send>)
    }

    fn promises(&self, mirror: &Mirror, form: Form, file: &Place) -> Option<Box<dyn Promises + Send>> {
        let (Form::NpmFull | Form::NpmShort, Place::Below(path)) = (form, file) else { return None };
        let (name, file) = path.strip_prefix('/')?.split_once("/-/")?;
        Some(Box::new(TarballPromise::new(mirror, &Name::parse(name)?, file)))
    }

    fn dated(&self, form: Form) -> Option<Form> {
        matches!(form, Form::NpmFull | Form::NpmShort).then_some(Form::NpmFull)
    }

    fn survey(&self, dated: Form) -> Option<Box<dyn Survey + Send>> {
        (dated == Form::NpmFull).then(|| Box::new(Times::new()) as Box<dyn Survey + Send>)
    }

    fn selected(
        &self,
        mirror: &Mirror,
        wanted: Form,
        facts: &Facts,
        versions: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        let is_short = wanted == Form::NpmShort;
        let media = if is_short { "application/vnd.npm.install-v1+json" } else { "application/json" };
        Some((Box::new(Selection::new(mirror, facts, versions, is_short)), media))
    }

    fn part_of_package(&self, place: &Place) -> Option<PackagePart> {
        let Place::Below(path) = place else { return None };
        let path = path.split('?').next()?;
        let (name, version) = match path.strip_prefix("/-/package") {
            Some(path) => {
                let (name, rest) = named(path)?;
                rest.starts_with("/dist-tags").then_some((name, None))?
            }
            None => {
                let (name, rest) = named(path).filter(|(_, rest)| !rest.is_empty())?;
                (name, Some(rest.trim_matches('/').to_owned()))
            }
        };
        Some(PackagePart { package: Place::Below(name.path()), form: Form::NpmFull, version })
    }

    fn place_of_version(
        &self,
        part: &PackagePart,
        facts: &Facts,
        versions: &HashSet<String>,
    ) -> Option<Place> {
        let (asked, Place::Below(package)) = (part.version.as_deref()?, &part.package) else { return None };
        let tags = aged::tags(facts, versions);
        let tagged = tags.iter().find(|(tag, _)| tag == asked).map(|(_, version)| version);
        let version = versions.get(asked).or(tagged)?;
        let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+~".contains(&byte));
        is_plain.then(|| Place::Below(format!("{package}/{version}")))
    }

    fn tags(&self, facts: &Facts, versions: &HashSet<String>) -> Vec<u8> {
        let tags = aged::tags(facts, versions).into_iter();
        let members: Vec<String> =
            tags.map(|(tag, version)| format!("{}:{}", quoted(&tag), quoted(&version))).collect();
        format!("{{{}}}", members.join(",")).into_bytes()
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        Name::parse(name).map(|name| name.path())
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        let (path, has_version) = match path.strip_prefix("/-/") {
            None => (path, false),
            Some(rest) => match (rest.strip_prefix("package"), rest.strip_prefix("npm/v1/attestations")) {
                (Some(path), _) => (path, false),
                (None, Some(path)) => (path, true),
                (None, None) => return Vec::new(),
            },
        };
        // The first is that of a scope.
        let path = path.replace("%40", "@");
        let version = path.rfind('@').filter(|at| has_version && *at > 1);
        named(&path[..version.unwrap_or(path.len())]).map(|(name, _)| name.to_string()).into_iter().collect()
    }

    fn hides_slashes(&self) -> bool {
        true
    }

    fn root_claim(&self, _: &str, path: &str) -> RootClaim {
        // npm asks for attestations at the root of the registry's host. Of a URL in a lock it keeps
        // the path alone, and drops the path of the registry (npm/cli#8216).
        match path.starts_with("/-/npm/v1/") || path.contains("/-/") && path.ends_with(".tgz") {
            true => RootClaim::OfKind,
            false => RootClaim::None,
        }
    }
}

/// Gives the meaning of a GET.
fn read(path: &str, question: &Question<'_>) -> Route {
    if path.is_empty() || path == "/-/ping" {
        return Route::Answer(200, "application/json", b"{}".to_vec());
    }
    if let Some(rest) = path.strip_prefix("/-/") {
        // Searches and facts about users differ from client to client.
        let is_shared = rest.starts_with("npm/v1/") || rest.starts_with("package/");
        return if is_shared {
            document(whole(question), Form::Other, None)
        } else {
            Route::Pass(whole(question))
        };
    }
    let Some((name, rest)) = named(path) else {
        return Route::Refuse(404, "no package has such a name".into());
    };
    match rest {
        "" => {
            let accept = (question.field)("accept").unwrap_or_default();
            let form = if wants_short(&accept) { Form::NpmShort } else { Form::NpmFull };
            document(Place::Below(name.path()), form, form.accept())
        }
        _ => match rest.strip_prefix("/-/") {
            Some(file) if !file.is_empty() && !file.contains('/') => Route::Fetch(Fetch {
                place: Place::Below(format!("{}/-/{file}", name.path_of_files())),
                class: Class::File(PromiseSource::InOneOf(
                    [Form::NpmShort, Form::NpmFull].map(|form| (Place::Below(name.path()), form)).to_vec(),
                )),
                accept: None,
                form_asked: None,
            }),
            Some(_) => Route::Refuse(404, "no tarball has such a name".into()),
            // A version or a tag: the same fields as in the full document.
            None => document(
                Place::Below(format!("{}{rest}", name.path())),
                Form::NpmFull,
                Form::NpmFull.accept(),
            ),
        },
    }
}

fn document(place: Place, form: Form, accept: Option<&'static str>) -> Route {
    Route::Fetch(Fetch { place, class: Class::Document(form), accept, form_asked: None })
}

/// Returns the place of the question itself.
fn whole(question: &Question<'_>) -> Place {
    Place::Below(match question.query {
        Some(query) => format!("{}?{query}", question.path),
        None => question.path.to_owned(),
    })
}

/// Returns `true` if the short form is asked for at all. Clients that take it put it first.
fn wants_short(accept: &str) -> bool {
    accept.split(',').any(|member| {
        let mut parts = member.split(';').map(str::trim);
        let is_short = parts.next() == Some("application/vnd.npm.install-v1+json");
        is_short && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

const READ_ONLY: &str = "this mirror can only be read: publish and log in at the registry itself";

#[cfg(test)]
mod tests;
