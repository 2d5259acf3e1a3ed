//! Python's package index: project pages in HTML and JSON, and the files that they name.
//!
//! ```text
//!   /simple/NAME/           project page (PEP 503, PEP 691)
//!   /files/HOST/PATH        file of a project, wherever the origin keeps it; PATH is the origin's
//!   /files/HOST/PATH.metadata      core metadata of a wheel (PEP 658)
//! ```
//!
//! The mirror's upstream is the index itself, for example `https://index.example/simple`. Pages get
//! relative URLs without a query: pip appends `.metadata` to a path. Digests, sizes, versions and
//! all other members stay as they came. A client that asks for HTML gets a page made from the
//! stored JSON document.

mod aged;
mod file_name;
mod html;
mod json;
mod page;

use crate::route::PromiseSource;
use crate::url::{FILES, file_path, file_url, last_segment};
use crate::{
    Class, Facts, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, Route, Survey,
};
use aged::{FileSelection, UploadTimes};
pub(crate) use file_name::normalized;
use file_name::{is_archive, joined_by_dashes, projects_of};
pub use html::HtmlFiles;
use html::{HtmlLinks, HtmlPromise};
use json::{JsonPromise, JsonUrls};
use page::JsonToHtml;
use std::collections::HashSet;

/// The pypi kind.
pub struct Pypi;

impl Registry for Pypi {
    fn route(&self, mirror: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "this mirror can only be read: upload to the index itself".into());
        }
        if let Some(behind) = question.path.strip_prefix('/').and_then(|path| path.strip_prefix(FILES)) {
            return file(mirror, behind);
        }
        let Some(rest) = question.path.strip_prefix("/simple") else {
            return Route::Refuse(404, "a package index has /simple/ and /files/ alone".into());
        };
        match rest.trim_matches('/') {
            "" => page("/".into(), question),
            name => match normalized(name) {
                Some(name) => page(format!("/{name}/"), question),
                None => Route::Refuse(404, "no project has such a name".into()),
            },
        }
    }

    fn rewriter(&self, mirror: &Mirror, form: Form) -> Option<Box<dyn Rewriter + Send>> {
        match form {
            _ if mirror.is_registry_itself() => None,
            Form::PypiJson => Some(Box::new(JsonUrls::new(mirror))),
            Form::PypiHtml => Some(Box::new(HtmlLinks::new(mirror))),
            _ => None,
        }
    }

    fn promises(&self, mirror: &Mirror, form: Form, file: &Place) -> Option<Box<dyn Promises + Send>> {
        let Place::Elsewhere(url) = file else { return None };
        match form {
            Form::PypiJson => Some(Box::new(JsonPromise::new(mirror, url))),
            Form::PypiHtml => Some(Box::new(HtmlPromise::new(mirror, url))),
            _ => None,
        }
    }

    fn converter(
        &self,
        mirror: &Mirror,
        from: Form,
        to: Form,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        let is_page = (from, to) == (Form::PypiJson, Form::PypiHtml);
        is_page.then(|| (Box::new(JsonToHtml::new(mirror)) as Box<dyn Rewriter + Send>, HTML))
    }

    fn dated(&self, form: Form) -> Option<Form> {
        matches!(form, Form::PypiJson | Form::PypiHtml).then_some(Form::PypiJson)
    }

    fn survey(&self, dated: Form) -> Option<Box<dyn Survey + Send>> {
        (dated == Form::PypiJson).then(|| Box::new(UploadTimes::new()) as Box<dyn Survey + Send>)
    }

    fn selected(
        &self,
        mirror: &Mirror,
        wanted: Form,
        _: &Facts,
        files: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        match wanted {
            Form::PypiHtml => Some((Box::new(JsonToHtml::new(mirror).of_files(files)), HTML)),
            _ => Some((Box::new(FileSelection::new(mirror, files)), SIMPLE_JSON)),
        }
    }

    fn has_releases(&self, path: &str) -> bool {
        // The list of all projects names no file.
        !path.strip_prefix("/simple").is_some_and(|rest| rest.trim_matches('/').is_empty())
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        normalized(name).map(|name| format!("/simple/{name}/"))
    }

    fn path_of_place(&self, mirror: &Mirror, rest: &str) -> String {
        let is_page = !rest.split('?').next().unwrap_or_default().trim_matches('/').contains('/');
        let file = || self.path_of_file(mirror, &format!("{}{rest}", mirror.upstream));
        let page = || format!("/simple{rest}");
        if is_page { page() } else { file().unwrap_or_else(page) }
    }

    fn path_of_file(&self, mirror: &Mirror, url: &str) -> Option<String> {
        let file = last_segment(url);
        let is_known = is_archive(file) && !projects_of(file).is_empty();
        is_known.then(|| file_path(&mirror.upstream, url).map(|path| format!("/{path}")))?
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        match path.strip_prefix("/simple/") {
            Some(name) => normalized(name.trim_matches('/')).into_iter().collect(),
            None => projects_of(last_segment(path)),
        }
    }

    fn spelling(&self, name: &str) -> String {
        joined_by_dashes(name)
    }

    fn hides_slashes(&self) -> bool {
        true
    }
}

/// Routes a page. The origin is asked for JSON, from which HTML is made.
fn page(path: String, question: &Question<'_>) -> Route {
    let asked = form_asked(question);
    Route::Fetch(Fetch {
        place: Place::Below(path),
        class: Class::Document(Form::PypiJson),
        accept: Form::PypiJson.accept(),
        form_asked: Some(asked),
    })
}

/// Form that a client takes: JSON if it names it with a weight above HTML's (PEP 691).
fn form_asked(question: &Question<'_>) -> Form {
    let by_query =
        question.query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("format="));
    let accept = (question.field)("accept").unwrap_or_default();
    let named = by_query.map(|format| format.replace("%2B", "+").replace("%2F", "/")).unwrap_or(accept);
    let weight = |is_form: fn(&str) -> bool| {
        named.split(',').filter_map(|member| weighed(member, is_form)).fold(0.0, f32::max)
    };
    let json = weight(|media| matches!(media, SIMPLE_JSON | "application/vnd.pypi.simple.latest+json"));
    let html = weight(|media| media.ends_with("html"));
    if json > 0.0 && json >= html { Form::PypiJson } else { Form::PypiHtml }
}

/// Weight of a member of Accept, if its media type is one of a form's.
fn weighed(member: &str, is_form: fn(&str) -> bool) -> Option<f32> {
    let mut parts = member.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let weight =
        parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse().ok());
    is_form(&media).then(|| weight.unwrap_or(0.0))
}

/// Routes a file. The page of its project has its digest.
fn file(mirror: &Mirror, behind: &str) -> Route {
    let url = behind.strip_prefix('/').and_then(|behind| file_url(&mirror.upstream, behind));
    let hides = |name: &str| [";", "%2F", "%5C", "%3B", "%25"].iter().any(|hidden| name.contains(hidden));
    let Some(url) = url.filter(|url| !hides(last_segment(url))) else {
        return Route::Refuse(404, "no file has such a path".into());
    };
    let page = |project: &String| (Place::Below(format!("/{project}/")), Form::PypiJson);
    let projects = if is_archive(last_segment(&url)) { projects_of(last_segment(&url)) } else { Vec::new() };
    let source = match &*projects {
        [] => PromiseSource::Nothing,
        [project] => PromiseSource::In(page(project).0, Form::PypiJson),
        several => PromiseSource::InOneOf(several.iter().take(PROJECTS_MAX).map(page).collect()),
    };
    Route::Fetch(Fetch {
        place: Place::Elsewhere(url),
        class: Class::File(source),
        accept: None,
        form_asked: None,
    })
}

/// Base URL of the links on a project's page. All pages lie at one depth.
pub(crate) fn page_url(mirror: &Mirror) -> String {
    format!("{}/project/", mirror.upstream)
}

/// Most pages that are looked at for one file.
const PROJECTS_MAX: usize = 4;
const SIMPLE_JSON: &str = "application/vnd.pypi.simple.v1+json";
const HTML: &str = "application/vnd.pypi.simple.v1+html";

#[cfg(test)]
mod tests;
