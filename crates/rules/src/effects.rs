//! The changes that rules make: to a request before it is keyed, and to a response as it arrives.

use crate::access::AccessEffects;
use crate::mapping::{PathMapping, split_query};
use crate::pattern::Glob;
use crate::url::{QueryEdit, normal_path};
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, VARY};
use http::{HeaderName, StatusCode};
use ipnet::IpNet;
use shoal_core::{FieldLines, Fields};
use shoal_semantics::Overrides;
use std::borrow::Cow;
use std::sync::Arc;

/// Changes to a request. `None` leaves a thing as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestEffects {
    /// Client networks that are served; others get 403.
    pub allow_clients: Option<Arc<[IpNet]>>,
    /// Status of the refusal.
    pub deny: Option<StatusCode>,
    /// Target of a redirect, and its status.
    pub redirect: Option<(Template, StatusCode)>,
    /// Host that takes the place of the request's.
    pub host: Option<Arc<str>>,
    /// `true` to bring the path into normal form.
    pub normalise_path: Option<bool>,
    /// Changes of the query.
    pub query: QueryEdit,
    /// Codings of which the first that the client takes is asked for.
    pub accept_encoding: Option<Arc<[String]>>,
    /// Languages of which the first that the client takes is asked for.
    pub accept_language: Option<Arc<[String]>>,
    /// Cookies that stay and select among answers.
    pub cookies: Option<Arc<[Glob]>>,
    /// Fields that select among answers.
    pub key_fields: Option<Arc<[HeaderName]>>,
    /// `true` if reload directives of the client do not count.
    pub ignore_client_no_cache: Option<bool>,
    /// `true` if the request is neither looked up nor stored.
    pub pass: Option<bool>,
    /// Prefix taken from the path that the origin is asked for.
    pub upstream_strip: Option<Arc<str>>,
    /// Prefix put before the path that the origin is asked for.
    pub upstream_add: Option<Arc<str>>,
    /// Changes of other fields.
    pub fields: FieldEdits,
    /// Users and certificates that are served.
    pub access: AccessEffects,
}

/// Changes to a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseEffects {
    /// Changes of lifetime, stale windows and storing.
    pub overrides: Overrides,
    /// Names in the Vary field that do not count.
    pub ignore_vary: Option<Arc<[HeaderName]>>,
    /// Changes of other fields.
    pub fields: FieldEdits,
}

/// Fields that are set, added or removed, by name. A name has one edit; the last wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldEdits(Vec<(HeaderName, FieldEdit)>);

/// Change of one field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldEdit {
    /// One line with this value takes the place of all.
    Set(Template),
    /// A line with this value comes behind the others.
    Add(Template),
    /// All lines go.
    Remove,
}

/// A text with variables: `$host`, `$path`, `$query`, `$url`, `$scheme`, `$client`,
/// `$client_certificate`; `$$` is a dollar sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Variable(usize),
}

impl RequestEffects {
    /// Takes over the settings of `later`.
    pub fn merge(&mut self, later: &Self) {
        macro_rules! take {
            ($($field:ident),*) => { $(if later.$field.is_some() { self.$field.clone_from(&later.$field); })* };
        }
        take!(allow_clients, deny, redirect, host, normalise_path, accept_encoding, accept_language);
        take!(cookies, key_fields, ignore_client_no_cache, pass, upstream_strip, upstream_add);
        self.query.merge(&later.query);
        self.fields.merge(&later.fields);
        self.access.merge(&later.access);
    }

    /// Returns `true` if the request goes on as it is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if the URL may change.
    pub fn changes_url(&self) -> bool {
        self.host.is_some() || self.normalise_path == Some(true) || !self.query.is_empty()
    }

    /// Returns the URL of `origin` (scheme and authority) and `path_and_query` as rules have it;
    /// `None` when it stays.
    pub fn edited_url(&self, origin: &str, path_and_query: &str) -> Option<String> {
        if !self.changes_url() {
            return None;
        }
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        debug_assert!(!origin.ends_with('/'), "an origin has no path");
        let path = if self.normalise_path == Some(true) { normal_path(path) } else { path.into() };
        let query = match query {
            Some(query) if !self.query.is_empty() => self.query.apply(query),
            said => said.map(str::to_owned),
        };
        let scheme = origin.split("://").next().unwrap_or("http");
        let origin = match &self.host {
            Some(host) => format!("{scheme}://{host}").into(),
            None => Cow::Borrowed(origin),
        };
        let mark = if query.is_some() { "?" } else { "" };
        Some(format!("{origin}{path}{mark}{}", query.unwrap_or_default()))
    }

    /// Returns `true` if fields may change that select among answers.
    pub fn changes_selection(&self) -> bool {
        self.accept_encoding.is_some()
            || self.accept_language.is_some()
            || self.cookies.is_some()
            || !self.fields.is_empty()
    }

    /// Returns `true` if a client may get an answer other than the stored one.
    pub fn answers(&self) -> bool {
        self.allow_clients.is_some()
            || self.deny.is_some()
            || self.redirect.is_some()
            || self.pass == Some(true)
            || self.access.asks()
    }

    /// Returns the fields as the key and the origin see them; `None` when they do not change.
    pub fn edited_fields(&self, fields: &FieldLines, variables: &Values<'_>) -> Option<FieldLines> {
        let mut edited = None;
        let folds = [(&ACCEPT_ENCODING, &self.accept_encoding), (&ACCEPT_LANGUAGE, &self.accept_language)];
        for (name, offered) in folds {
            let Some(offered) = offered else { continue };
            let now = edited.as_ref().unwrap_or(fields);
            let chosen = offered.iter().find(|offer| accepts(now, name, offer));
            if now.has(name) || chosen.is_some() {
                edited = Some(now.with_only(name, chosen.map(|offer| offer.as_bytes())));
            }
        }
        if let Some(kept) = &self.cookies
            && fields.has(&COOKIE)
        {
            let now = edited.as_ref().unwrap_or(fields);
            edited = Some(now.with_only(&COOKIE, cookies(now, kept).as_deref()));
        }
        self.fields.apply_to_request(edited.as_ref().unwrap_or(fields), variables).or(edited)
    }

    /// Returns the names of the fields that select among answers.
    pub fn selecting(&self) -> impl Iterator<Item = &HeaderName> {
        let cookie = self.cookies.as_ref().is_some_and(|kept| !kept.is_empty()).then_some(&COOKIE);
        let folded = self.accept_encoding.is_some().then_some(&ACCEPT_ENCODING);
        let language = self.accept_language.is_some().then_some(&ACCEPT_LANGUAGE);
        let own = self.key_fields.iter().flat_map(|names| names.iter());
        cookie.into_iter().chain(folded).chain(language).chain(own)
    }

    /// Returns the mapping of this request's path; `None` when the origin is asked for the path
    /// itself.
    pub fn path_mapping(&self, path_and_query: &str) -> Option<PathMapping> {
        // OPTIONS may ask about the server as a whole.
        if self.upstream_strip.is_none() && self.upstream_add.is_none() || path_and_query == "*" {
            return None;
        }
        let (path, _) = split_query(path_and_query);
        let (strip, add) = (self.upstream_strip.as_deref(), self.upstream_add.as_deref());
        Some(PathMapping::of(&normal_path(path), strip, add))
    }

    /// Returns path and query that the origin is asked for; `None` when they stay. The path is
    /// brought into normal form first: dot segments must not lead out of the prefix.
    pub fn upstream_path(&self, path_and_query: &str) -> Option<String> {
        let mapping = self.path_mapping(path_and_query)?;
        let (path, query) = split_query(path_and_query);
        let asked = mapping.to_origin(&normal_path(path)) + query;
        debug_assert!(asked.starts_with('/'), "an origin is asked for a path");
        Some(asked)
    }
}

impl ResponseEffects {
    /// Takes over the settings of `later`.
    pub fn merge(&mut self, later: &Self) {
        self.overrides.merge(&later.overrides);
        if later.ignore_vary.is_some() {
            self.ignore_vary.clone_from(&later.ignore_vary);
        }
        self.fields.merge(&later.fields);
    }

    /// Returns `true` if the response stays as it is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fields as the response is judged, stored and sent with; `None` when they do not
    /// change. `selecting` names fields that select among answers besides those of Vary.
    pub fn edited_fields(
        &self,
        fields: &FieldLines,
        selecting: &[HeaderName],
        variables: &Values<'_>,
    ) -> Option<FieldLines> {
        let mut edited = None;
        if self.ignore_vary.is_some() || !selecting.is_empty() {
            let ignored = self.ignore_vary.as_deref().unwrap_or_default();
            edited = with_vary(fields, vary(fields, ignored, selecting));
        }
        self.fields.apply(edited.as_ref().unwrap_or(fields), variables).or(edited)
    }
}

impl FieldEdits {
    /// Adds an edit; an earlier one of the same name goes.
    pub fn push(&mut self, name: HeaderName, edit: FieldEdit) {
        self.0.retain(|(other, _)| *other != name);
        debug_assert!(self.0.iter().all(|(other, _)| *other != name), "a name has one edit");
        self.0.push((name, edit));
    }

    /// Takes over the settings of `later`.
    pub fn merge(&mut self, later: &Self) {
        later.0.iter().for_each(|(name, edit)| self.push(name.clone(), edit.clone()));
    }

    /// Returns `true` if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each edit as text.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> Vec<String> {
        self.0.iter().map(|edit| format!("{edit:?}")).collect()
    }

    /// Returns `true` if an edit has `name`.
    pub fn has(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// Returns the names that get one value of the rules and no other.
    pub fn set_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter().filter(|(_, edit)| matches!(edit, FieldEdit::Set(_))).map(|(name, _)| name)
    }

    /// Returns the edited fields of a request; `None` without edits. A field that an origin could
    /// take for an edited one goes too: CGI and its like read `X_User` as `X-User`.
    fn apply_to_request(&self, fields: &FieldLines, variables: &Values<'_>) -> Option<FieldLines> {
        let is_edited = |name: &[u8]| self.0.iter().any(|(other, _)| reads_as(name, other));
        if !fields.lines().any(|(name, _)| is_edited(name)) {
            return self.apply(fields, variables);
        }
        let others: FieldLines = fields.lines().filter(|(name, _)| !is_edited(name)).collect();
        self.apply(&others, variables).or(Some(others))
    }

    /// Returns the edited fields; `None` without edits.
    pub fn apply(&self, fields: &FieldLines, variables: &Values<'_>) -> Option<FieldLines> {
        if self.0.is_empty() {
            return None;
        }
        let stays = |name: &[u8]| {
            let edit = self.0.iter().find(|(other, _)| other.as_str().as_bytes() == name);
            edit.is_none_or(|(_, edit)| matches!(edit, FieldEdit::Add(_)))
        };
        let values = self.0.iter().filter_map(|(name, edit)| match edit {
            FieldEdit::Set(value) | FieldEdit::Add(value) => Some((name, value.fill(variables))),
            FieldEdit::Remove => None,
        });
        let values: Vec<(&HeaderName, String)> = values.collect();
        let new = values.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        Some(fields.lines().filter(|(name, _)| stays(name)).chain(new).collect())
    }
}

/// Values of the variables of a template.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// `https` or `http`.
    pub scheme: &'a str,
    /// Host, with a port that is not the scheme's.
    pub host: &'a str,
    /// Path, without the query.
    pub path: &'a str,
    /// Query, without the question mark.
    pub query: &'a str,
    /// The whole URL.
    pub url: &'a str,
    /// Address of the client.
    pub client: &'a str,
    /// Subject of the client's certificate, or empty.
    pub certificate: &'a str,
}

impl<'a> Values<'a> {
    /// Sets the subject of the client's certificate.
    pub fn with_certificate(self, certificate: &'a str) -> Self {
        Self { certificate, ..self }
    }
}

impl Template {
    /// Reads a text with variables.
    ///
    /// # Errors
    /// Names a variable that does not exist, or a control character.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().any(char::is_control) {
            return Err(format!("{text:?} has control characters"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            parts.push(TemplatePart::Text(rest[..at].into()));
            let after = &rest[at + 1..];
            if let Some(further) = after.strip_prefix('$') {
                parts.push(TemplatePart::Text("$".into()));
                rest = further;
                continue;
            }
            let end = match after.starts_with(VARIABLES[CERTIFICATE]) {
                true => VARIABLES[CERTIFICATE].len(),
                false => after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()),
            };
            let known = VARIABLES.iter().position(|name| *name == &after[..end]);
            parts.push(TemplatePart::Variable(known.ok_or_else(|| {
                format!("${} is no variable; there are ${}", &after[..end], VARIABLES.join(", $"))
            })?));
            rest = &after[end..];
        }
        parts.push(TemplatePart::Text(rest.into()));
        parts.retain(|part| !matches!(part, TemplatePart::Text(text) if text.is_empty()));
        Ok(Self(parts))
    }

    /// Returns the text with these values; characters that no field may have are left out.
    pub fn fill(&self, values: &Values<'_>) -> String {
        let Values { scheme, host, path, query, url, client, certificate } = *values;
        let list = [scheme, host, path, query, url, client, certificate];
        let text = self.0.iter().map(|part| match part {
            TemplatePart::Text(text) => text.as_str(),
            TemplatePart::Variable(number) => list[*number],
        });
        text.flat_map(str::chars).filter(|c| !c.is_control()).collect()
    }

    /// Returns the target of a redirect. Its `?` goes with an empty query.
    pub fn fill_target(&self, values: &Values<'_>) -> String {
        let mut text = self.fill(values);
        if values.query.is_empty() && text.ends_with('?') {
            text.pop();
        }
        text
    }

    /// Returns `true` if the text names the client, so that it differs from client to client.
    pub fn names_client(&self) -> bool {
        [CLIENT, CERTIFICATE].iter().any(|number| self.0.contains(&TemplatePart::Variable(*number)))
    }
}

/// Names of the variables, in the order of [`Values`].
const VARIABLES: [&str; 7] = ["scheme", "host", "path", "query", "url", "client", "client_certificate"];
/// Place of `client` among them.
const CLIENT: usize = 5;
/// Place of `client_certificate`.
const CERTIFICATE: usize = 6;

/// Returns `true` if some origin reads `name`, in lower case, as `other`.
fn reads_as(name: &[u8], other: &HeaderName) -> bool {
    let folded = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { b'-' };
    let other = other.as_str().as_bytes();
    name.len() == other.len() && name.iter().map(folded).eq(other.iter().map(folded))
}

/// Returns `true` if the client takes `offer`: a member of the field names it, or a prefix of a
/// language, with a weight above 0.
fn accepts(fields: &FieldLines, name: &HeaderName, offer: &str) -> bool {
    let mut members = fields.values(name).flat_map(|line| line.split(|byte| *byte == b','));
    members.any(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let said = parts.next().unwrap_or_default();
        let is_refused = parts.any(|part| {
            part.strip_prefix(b"q=").is_some_and(|weight| weight.iter().all(|byte| b"0.".contains(byte)))
        });
        let is_language = *name == ACCEPT_LANGUAGE
            && said.len() > offer.len()
            && said[..offer.len()].eq_ignore_ascii_case(offer.as_bytes())
            && said[offer.len()] == b'-';
        !is_refused && (said.eq_ignore_ascii_case(offer.as_bytes()) || is_language)
    })
}

/// Returns the cookies with matching names, sorted, in one line.
fn cookies(fields: &FieldLines, kept: &[Glob]) -> Option<Vec<u8>> {
    let lines = fields.values(&COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    let mut pairs: Vec<&[u8]> = lines
        .map(<[u8]>::trim_ascii)
        .filter(|pair| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            !pair.is_empty() && kept.iter().any(|glob| glob.matches(name))
        })
        .collect();
    pairs.sort();
    (!pairs.is_empty()).then(|| pairs.join(&b"; "[..]))
}

/// Returns the fields with this Vary and no other; `None` when there was and will be none.
fn with_vary(fields: &FieldLines, vary: Option<Vec<u8>>) -> Option<FieldLines> {
    match (fields.has(&VARY), vary) {
        (true, vary) => Some(fields.with_only(&VARY, vary.as_deref())),
        (false, None) => None,
        (false, Some(vary)) => {
            let own = (VARY.as_str().as_bytes(), vary.as_slice());
            Some(fields.lines().chain([own]).collect())
        }
    }
}

/// Returns the value of Vary without the ignored names and with the selecting ones.
fn vary(fields: &FieldLines, ignored: &[HeaderName], selecting: &[HeaderName]) -> Option<Vec<u8>> {
    let said = fields.values(&VARY).flat_map(|line| line.split(|byte| *byte == b','));
    let is_ignored = |name: &&[u8]| {
        ignored.iter().any(|other| other.as_str().as_bytes().eq_ignore_ascii_case(name))
            || ignored.iter().any(|other| other.as_str() == "*")
    };
    let mut names: Vec<&[u8]> =
        said.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty() && !is_ignored(name)).collect();
    for name in selecting {
        let name = name.as_str().as_bytes();
        if !names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(&b", "[..]))
}

#[cfg(test)]
#[path = "effects/tests.rs"]
mod tests;
