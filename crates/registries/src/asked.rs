//! The meaning of one request at a mirror.

use super::{MirrorRoute, read_digests};
use crate::message::target::Target;
use crate::upstream::{Origin, Scheme, is_below_any};
use http::HeaderValue;
use http::uri::PathAndQuery;
use shoal_core::{Fields, Key};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Form, Mirror, Place, Promise};
use shoal_semantics::CacheRules;
use shoal_settings::MirrorKind;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A request at a mirror, on its way through the exchange.
pub struct MirroredAsk {
    /// The mirror.
    pub mirror: Arc<MirrorRoute>,
    /// Facts for the registry's code.
    pub facts: Mirror,
    /// Class of the answer; `None` if the request only passes.
    pub class: Option<Class>,
    /// `true` if the origin gives several forms under one URL.
    pub varies: bool,
    /// `true` if clients get another form than the stored one.
    pub is_derived: bool,
    /// Latest publication time that is old enough, in seconds since 1970, if age matters.
    pub age_limit: Option<i64>,
    /// Place of the key: the place at the origin, or one for all places with the same digest.
    pub place: Place,
    /// Place at the origin, where it is not that of the key.
    pub own_place: Option<Place>,
    /// Time until which the answer stays on disk, in seconds since 1970.
    pub pinned_until: Option<u64>,
    /// Promise about the file, once it was looked up.
    pub promised: OnceLock<PromiseLookup>,
    /// Authorization of the client, for the upstream alone, if the registry is asked for rights.
    pub credentials: Option<HeaderValue>,
}

/// Result of the search for a promise.
#[derive(Debug, Default)]
pub struct PromiseLookup {
    /// The promise; `None` if no document names the file.
    pub promise: Option<Promise>,
    /// The origin's own place of the file, where it is another.
    pub place: Option<Place>,
    /// Hash of the members of a Go zip, or of a `go.mod`, as `go.sum` has it.
    pub sum: Option<[u8; 32]>,
}

impl PromiseLookup {
    /// Sets the publication time, if it is known.
    pub fn published_at(mut self, published: Option<i64>) -> Self {
        if published.is_some() {
            let promise = self.promise.get_or_insert_default();
            promise.published = published;
        }
        self
    }
}

/// Server and path from which a place is fetched.
pub enum FetchSource {
    /// The mirror's upstream, with this path.
    Upstream(PathAndQuery),
    /// Another host, and the whole path there.
    Elsewhere(Origin, PathAndQuery),
}

impl MirroredAsk {
    /// Returns the URL of a place.
    pub fn url_of(&self, place: &Place) -> String {
        debug_assert!(!self.facts.upstream.ends_with('/'), "the path begins with the slash");
        match place {
            Place::Below(path) => format!("{}{path}", self.facts.upstream),
            Place::Elsewhere(url) => url.clone(),
        }
    }

    /// Returns the place from which the answer is fetched.
    pub fn fetched_from(&self) -> &Place {
        self.promised.get().and_then(|promised| promised.place.as_ref()).unwrap_or(self.place_at_origin())
    }

    /// Returns the place at the origin that the client means.
    pub fn place_at_origin(&self) -> &Place {
        self.own_place.as_ref().unwrap_or(&self.place)
    }

    /// Returns server and path of [`Self::fetched_from`]. `None` if it is no URL.
    pub fn source(&self) -> Option<FetchSource> {
        self.source_of(&self.url_of(self.fetched_from()))
    }

    /// Returns `true` if credentials may go with a request for this path at the upstream's origin.
    pub fn covers(&self, path: &PathAndQuery) -> bool {
        is_below_any(&self.mirror.settings.credential_paths(), path.path())
    }

    /// Returns server and path of a URL. A URL of the upstream's origin goes to the upstream. The
    /// credentials of this node go with it below the mirror's own paths, and with no other one.
    pub fn source_of(&self, url: &str) -> Option<FetchSource> {
        let target = Target::parse(url).ok()?;
        let upstream = Target::parse(self.mirror.settings.upstream_origin()).ok()?;
        if target.origin() == upstream.origin() {
            return Some(FetchSource::Upstream(target.path().parse().ok()?));
        }
        let scheme = if target.https { Scheme::Https } else { Scheme::Http };
        Some(FetchSource::Elsewhere(
            Origin::new(scheme, target.host(), target.port),
            target.path().parse().ok()?,
        ))
    }

    /// Returns `true` if only whole bodies are fetched: their digests can be checked, and ranges
    /// join them.
    pub fn fetches_whole(&self) -> bool {
        match self.class {
            None => false,
            Some(Class::File(PromiseSource::Nothing)) => self.is_checked(),
            Some(_) => true,
        }
    }

    /// Returns `true` if the file's body is checked as it arrives.
    pub fn is_checked(&self) -> bool {
        let promise = matches!(self.class, Some(Class::File(_))).then(|| self.promise()).flatten();
        promise.is_some_and(|promise| promise.digest.is_some() || promise.size.is_some())
            || self.sum().is_some()
    }

    /// Returns the hash of the file's members, as far as it is known.
    pub fn sum(&self) -> Option<[u8; 32]> {
        self.promised.get()?.sum
    }

    /// Returns `true` if another node of a cluster may answer in this node's place: not for entries
    /// that clients write, and not for a list of an archive that has it under its name alone. A
    /// home looks for it under its digest.
    pub fn is_for_homes(&self) -> bool {
        let kind = self.mirror.settings.kind;
        let has_name_alone = || self.promised.get().is_some_and(|promised| promised.place.is_some());
        let is_elsewhere = kind == MirrorKind::Deb && has_name_alone();
        self.class.is_some() && !is_elsewhere && kind != MirrorKind::BuildCache
    }

    /// Returns `true` if a file with these fields may be the promised one.
    pub fn may_be_promised(&self, fields: &impl Fields) -> bool {
        let Some(promised) = self.promise().and_then(|promise| promise.digest) else { return true };
        let digests = read_digests(fields);
        let mut same = digests.iter().filter(|digest| digest.algorithm() == promised.algorithm());
        same.next().is_none_or(|digest| *digest == promised)
    }

    /// Returns `true` for a package of an archive, which its package lists may promise.
    pub fn is_listed(&self) -> bool {
        let is_plain = matches!(self.class, Some(Class::File(PromiseSource::Nothing)));
        is_plain && self.mirror.settings.kind == MirrorKind::Deb
    }

    /// Returns `true` if documents could have named the file, and none does.
    pub fn is_unnamed(&self) -> bool {
        let of_index = |form: &Form| *form != Form::Sidecar;
        let has_index = match &self.class {
            Some(Class::File(PromiseSource::In(_, form))) => of_index(form),
            Some(Class::File(PromiseSource::InOneOf(_))) => true,
            _ => false,
        };
        has_index && self.promise().is_none()
    }

    /// Returns `true` if the answer stays on disk when space is made for others.
    fn is_pinned(&self) -> bool {
        if self.pinned_until.is_some() {
            return true;
        }
        if self.mirror.settings.pin.is_empty() {
            return false;
        }
        let registry = self.mirror.registry;
        let path = match self.place_at_origin() {
            Place::Below(path) => Some(registry.path_of_place(&self.facts, path)),
            Place::Elsewhere(url) => registry.path_of_file(&self.facts, url),
        };
        let path = path.unwrap_or_default();
        self.mirror.pins(&registry.packages(&self.facts, path.split('?').next().unwrap_or_default()))
    }

    /// Returns the rules for storing the answer: a pinned package stays on disk.
    pub fn with_pin<'r>(asked: Option<&Self>, mut rules: Cow<'r, CacheRules>) -> Cow<'r, CacheRules> {
        if asked.is_some_and(Self::is_pinned) {
            rules.to_mut().overrides.pin = Some(true);
        }
        rules
    }

    /// Returns the repository that tokens of the registry are for, if it gives tokens.
    pub fn repository(&self) -> Option<String> {
        let Place::Below(path) = self.place_at_origin() else { return None };
        self.mirror.registry.repository(path.split('?').next()?)
    }

    /// Returns the token for the repository, if the registry has given one.
    pub fn token(&self) -> Option<String> {
        self.mirror.tokens.of(&self.repository()?, Instant::now())
    }

    /// Returns the documents that may have a promise about the file.
    pub fn documents(&self) -> Vec<(Place, Form)> {
        let mut documents = match &self.class {
            Some(Class::File(PromiseSource::In(place, form))) => vec![(place.clone(), *form)],
            Some(Class::File(PromiseSource::InOneOf(documents))) => documents.clone(),
            _ => Vec::new(),
        };
        if self.age_limit.is_some() && self.documents_of_times().is_empty() {
            // Other forms have no times.
            documents.retain(|(_, form)| self.mirror.registry.dated(*form) == Some(*form));
        }
        documents
    }

    /// Returns the keys of the documents that may have a promise about the file.
    pub fn document_keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        if self.is_listed() {
            keys.push(self.releases_key());
        }
        for (place, _) in self.documents() {
            let key = self.document_key(&place);
            // Forms of one document are one.
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Returns the key of a document in all its forms, under which comparisons with it stand.
    pub fn document_key(&self, place: &Place) -> Key {
        Key::of(format!("{}\0{}", self.url_of(place), self.mirror.realm).as_bytes())
    }

    /// Returns the key of all releases of an archive, for comparisons with their lists.
    pub fn releases_key(&self) -> Key {
        self.document_key(&Place::Below("\0releases".to_owned()))
    }

    /// Returns `true` for a file that documents promise.
    pub fn has_index(&self) -> bool {
        self.is_listed()
            || matches!(&self.class, Some(Class::File(PromiseSource::In(..) | PromiseSource::InOneOf(_))))
    }

    /// Returns the documents that may have the file's publication time, where its promise has none.
    pub fn documents_of_times(&self) -> Vec<(Place, Form)> {
        match self.class {
            Some(Class::File(_)) => self.mirror.registry.times_of(&self.place),
            _ => Vec::new(),
        }
    }

    /// Returns `true` if the file is too young, or of an unknown age that matters.
    pub fn is_too_young(&self) -> bool {
        let published = || self.promise().and_then(|promise| promise.published);
        let is_file = matches!(self.class, Some(Class::File(_)));
        is_file && self.age_limit.is_some_and(|limit| published().is_none_or(|time| time > limit))
    }

    /// Returns the promise about the file, as far as it is known.
    pub fn promise(&self) -> Option<Promise> {
        if let Some(Class::File(PromiseSource::Here(digest))) = &self.class {
            let digest = Some(digest.clone());
            return Some(Promise { digest, size: None, published: None, is_withdrawn: false });
        }
        self.promised.get()?.promise.clone()
    }
}
