//! Registries of container images (OCI distribution specification 1.1).
//!
//! ```text
//!   /v2/                                   the client looks for a registry
//!   /v2/NAME/manifests/TAG                 manifest by tag: a document
//!   /v2/NAME/manifests/DIGEST, /blobs/...  constant; the URL has the digest
//!   /v2/NAME/tags/list, /referrers/DIGEST  documents
//! ```
//!
//! Clients ask at the root of a host; the mirror's own path plays no part. Manifests are fetched
//! with all types accepted, so that a tag is one object. The node fetches tokens
//! ([`crate::bearer`]).

use crate::route::PromiseSource;
use crate::{
    Class, Digest, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, RootClaim, Route,
};
use std::borrow::Cow;

/// The oci kind.
pub struct Oci;

impl Registry for Oci {
    fn route(&self, mirror: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "this mirror can only be read: push to the registry itself".into());
        }
        if matches!(question.path, "/v2/" | "/v2") {
            return Route::Answer(200, "application/json", b"{}".to_vec());
        }
        let path = without_name(mirror, question.path);
        let Some((_, asked)) = parse(&path) else {
            return Route::Refuse(404, "an image registry has no such path".into());
        };
        let (class, accept, has_query) = match asked {
            RepositoryPart::Manifest(reference) => match Digest::from_named_hex(reference) {
                Some(digest) => (Class::File(PromiseSource::Here(digest)), Some(MANIFESTS), false),
                None => (Class::Document(Form::OciTag), Some(MANIFESTS), false),
            },
            RepositoryPart::Blob(digest) => (Class::File(PromiseSource::Here(digest)), None, false),
            RepositoryPart::List => (Class::Document(Form::Other), None, true),
        };
        // The name by which the client calls the registry is for the mirror alone.
        let query = question.query.filter(|_| has_query).unwrap_or_default();
        let query: Vec<&str> =
            query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("ns=")).collect();
        let place = match query.is_empty() {
            true => path.into_owned(),
            false => format!("{path}?{}", query.join("&")),
        };
        Route::Fetch(Fetch { place: Place::Below(place), class, accept, form_asked: None })
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn promises(&self, _: &Mirror, _: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        None
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        let path = format!("/v2/{name}/tags/list");
        (name.contains('/') && parse(&path).is_some()).then_some(path)
    }

    fn shared_place(&self, fetch: &Fetch) -> Option<Place> {
        let Place::Below(path) = &fetch.place else { return None };
        match parse(path)? {
            // No repository has such a name.
            (_, RepositoryPart::Blob(digest)) => {
                let (algorithm, hex) = (digest.algorithm().name(), digest.hex());
                Some(Place::Below(format!("/v2/-/blobs/{algorithm}:{hex}")))
            }
            _ => None,
        }
    }

    fn path_of_shared(&self, path: &str) -> Option<String> {
        path.strip_prefix("/v2/-/").map(|rest| format!("/v2/shared/{rest}"))
    }

    fn shares_rights(&self) -> bool {
        // A blob that is stored for one repository must not be had by the name of another.
        false
    }

    fn packages(&self, mirror: &Mirror, path: &str) -> Vec<String> {
        parse(&without_name(mirror, path)).map(|(name, _)| name.to_owned()).into_iter().collect()
    }

    fn repository(&self, place: &str) -> Option<String> {
        parse(place).map(|(name, _)| name.to_owned())
    }

    fn root_claim(&self, own_path: &str, path: &str) -> RootClaim {
        match path.strip_prefix("/v2") {
            Some(rest) if is_below(rest, own_path) => RootClaim::ByName,
            Some(rest) if rest.is_empty() || rest.starts_with('/') => RootClaim::OfKind,
            _ => RootClaim::None,
        }
    }
}

/// Removes the mirror's name from `/v2/NAME/REPOSITORY/...`: clients put the path of a registry
/// before its repositories.
fn without_name<'a>(mirror: &Mirror, path: &'a str) -> Cow<'a, str> {
    let host = mirror.external.split("://").nth(1).unwrap_or_default();
    let own_path = host.find('/').map_or("", |place| &host[place..]);
    match path.strip_prefix("/v2").filter(|rest| is_below(rest, own_path)) {
        Some(rest) => format!("/v2{}", &rest[own_path.len()..]).into(),
        None => path.into(),
    }
}

/// Returns `true` for a path below another that is not the root.
fn is_below(path: &str, folder: &str) -> bool {
    !folder.is_empty() && path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// A request about a repository.
enum RepositoryPart<'a> {
    /// Manifest by tag or digest.
    Manifest(&'a str),
    /// Blob by digest.
    Blob(Digest),
    /// List of tags or of referrers.
    List,
}

/// Splits a path into a repository's name, which may have many parts, and the rest.
fn parse(path: &str) -> Option<(&str, RepositoryPart<'_>)> {
    let rest = path.strip_prefix("/v2/")?;
    let (rest, last) = rest.rsplit_once('/')?;
    let (name, what) = rest.rsplit_once('/')?;
    let asked = match what {
        "manifests" if is_reference(last) => RepositoryPart::Manifest(last),
        "blobs" => RepositoryPart::Blob(Digest::from_named_hex(last)?),
        "tags" if last == "list" => RepositoryPart::List,
        "referrers" => Digest::from_named_hex(last).map(|_| RepositoryPart::List)?,
        _ => return None,
    };
    is_name(name).then_some((name, asked))
}

/// Returns `true` for a repository's name: `[a-z0-9]+([._-]+[a-z0-9]+)*`, joined by slashes.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= NAME_MAX
        && name.split('/').all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(|byte| is_inner(*byte))
                && bytes.last().is_some_and(|byte| is_inner(*byte))
                && bytes.iter().all(|byte| is_inner(*byte) || b"._-".contains(byte))
        })
}

/// Returns `true` for a tag or a digest.
fn is_reference(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_tag =
        (1..=TAG_MAX).contains(&text.len()) && text.bytes().all(is_part) && !text.starts_with(['.', '-']);
    is_tag || Digest::from_named_hex(text).is_some()
}

/// Types of manifests, indexes among them.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, */*;q=0.1";
const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registries::testing::{below, routed};

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn mirror() -> Mirror {
        Mirror { external: "http://cache.test/oci".into(), upstream: "https://images.example".into() }
    }

    #[test]
    fn digests_are_files_and_tags_change() {
        let file = Class::File(PromiseSource::Here(Digest::from_named_hex(DIGEST).expect("a digest")));
        for (path, wanted) in [
            ("/v2/library/debian/manifests/12.1-slim".to_owned(), Class::Document(Form::OciTag)),
            (format!("/v2/a/b-c/d__e/manifests/{DIGEST}"), file.clone()),
            (format!("/v2/a/blobs/{DIGEST}"), file),
            ("/v2/a/tags/list".to_owned(), Class::Document(Form::Other)),
            ("/v2/a/tags/list?n=5&last=x".to_owned(), Class::Document(Form::Other)),
            (format!("/v2/a/referrers/{DIGEST}?artifactType=x"), Class::Document(Form::Other)),
        ] {
            assert_eq!(below(routed(&Oci, &mirror(), "GET", &path, "")), (path, wanted));
        }
        assert!(matches!(routed(&Oci, &mirror(), "GET", "/v2/", ""), Route::Answer(200, _, _)));
        assert!(matches!(routed(&Oci, &mirror(), "POST", "/v2/a/blobs/uploads/", ""), Route::Refuse(405, _)));
        for path in [
            "/v2/A/manifests/x",
            "/v2/a/../b/manifests/x",
            "/v2//manifests/x",
            "/v2/a/manifests/",
            "/v2/a/blobs/latest",
            "/v2/a/manifests/-x",
            "/v2/a/blobs/sha256:12",
            "/v2/_catalog",
            "/",
        ] {
            assert!(matches!(routed(&Oci, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
        }
        for path in ["/v2/a/b/manifests/1", "/v2/oci/a/b/manifests/1"] {
            assert_eq!(Oci.packages(&mirror(), path), ["a/b"], "{path}");
        }
        assert_eq!(Oci.path_of_package("a/b").as_deref(), Some("/v2/a/b/tags/list"));
    }

    #[test]
    fn mirror_name_in_a_path_is_no_repository() {
        for (path, claim) in [
            ("/v2/", RootClaim::OfKind),
            ("/v2/a/tags/list", RootClaim::OfKind),
            ("/v2/oci/a/tags/list", RootClaim::ByName),
            ("/v2x", RootClaim::None),
            ("/oci", RootClaim::None),
        ] {
            assert_eq!(Oci.root_claim("/oci", path), claim, "{path}");
        }
        for path in ["/v2/oci/a/b/manifests/1", "/v2/a/b/manifests/1"] {
            assert_eq!(below(routed(&Oci, &mirror(), "GET", path, "")).0, "/v2/a/b/manifests/1");
        }
    }

    #[test]
    fn blobs_of_all_repositories_share_a_place() {
        let fetched = |path: &str| match routed(&Oci, &mirror(), "GET", path, "") {
            Route::Fetch(fetch) => fetch,
            other => panic!("{path}: {other:?}"),
        };
        let shared = Place::Below(format!("/v2/-/blobs/{DIGEST}"));
        for repository in ["a", "a/b"] {
            let fetch = fetched(&format!("/v2/{repository}/blobs/{DIGEST}"));
            assert_eq!(Oci.shared_place(&fetch), Some(shared.clone()));
            assert_eq!(Oci.shared_place(&fetched(&format!("/v2/{repository}/manifests/{DIGEST}"))), None);
        }
        // No client can ask for the place itself.
        let path = format!("/v2/-/blobs/{DIGEST}");
        assert!(matches!(routed(&Oci, &mirror(), "GET", &path, ""), Route::Refuse(404, _)));
        let stored = fetched(&Oci.path_of_shared(&path).expect("a shared place"));
        assert_eq!(Oci.shared_place(&stored), Some(shared));
    }

    #[test]
    fn query_of_a_file_is_no_part_of_it() {
        let (place, _) = below(routed(&Oci, &mirror(), "GET", "/v2/a/manifests/1?ns=images.example", ""));
        assert_eq!(place, "/v2/a/manifests/1");
        let (place, _) = below(routed(&Oci, &mirror(), "GET", "/v2/a/tags/list?ns=images.example&n=5", ""));
        assert_eq!(place, "/v2/a/tags/list?n=5");
    }
}
