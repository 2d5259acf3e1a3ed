//! Caches that builds read and write: Bazel, Gradle, ccache, sccache, Turborepo.
//!
//! ```text
//!   /cas/SHA256                 Bazel's contents: checked when they are written
//!   /ac/SHA256                  Bazel's results of actions
//!   /v8/artifacts/HASH          Turborepo's artifacts
//!   any other path              Gradle, ccache, sccache: entries as they came
//! ```
//!
//! There is no registry behind it: a miss is 404. Gradle ends its use of the cache for a build at
//! any other status.

use crate::route::PromiseSource;
use crate::{
    Algorithm, Class, Digest, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, Route,
};

/// The kind for build caches.
pub struct BuildCache;

impl Registry for BuildCache {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        let path = question.path;
        match question.method {
            "GET" | "HEAD" if contents(path).is_some_and(|digest| digest.hex() == EMPTY) => {
                Route::Answer(200, "application/octet-stream", Vec::new())
            }
            "GET" if path == "/v8/artifacts/status" => {
                Route::Answer(200, "application/json", br#"{"status":"enabled"}"#.to_vec())
            }
            "GET" | "HEAD" => Route::Fetch(entry(path)),
            "PUT" if is_artifact(path) => Route::Store(entry(path), 202),
            "PUT" => Route::Store(entry(path), 200),
            "DELETE" => Route::Remove(Place::Below(path.to_owned())),
            "POST" if path == "/v8/artifacts" || path == "/v8/artifacts/events" => {
                Route::Answer(200, "application/json", b"{}".to_vec())
            }
            // sccache speaks WebDAV: it makes folders before it writes. Each folder is there.
            "PROPFIND" if path.ends_with('/') => Route::Answer(207, "application/xml", folder(path)),
            "MKCOL" => Route::Answer(201, "text/plain", Vec::new()),
            _ => Route::Refuse(405, "a build cache answers GET, HEAD, PUT and DELETE".into()),
        }
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn hides_slashes(&self) -> bool {
        true
    }

    fn promises(&self, _: &Mirror, _: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        None
    }
}

/// Returns the description of a folder (RFC 4918, section 9.1).
fn folder(path: &str) -> Vec<u8> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/-._~%".contains(char);
    let path: String = path.chars().filter(|char| is_plain(*char)).collect();
    format!(
        "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href>\
         <D:propstat><D:prop><D:getlastmodified>Thu, 01 Jan 1970 00:00:00 GMT</D:getlastmodified>\
         <D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status>\
         </D:propstat></D:response></D:multistatus>"
    )
    .into_bytes()
}

/// Returns the entry at a path. The query (Turborepo's team) names the client alone.
fn entry(path: &str) -> Fetch {
    let source = contents(path).map_or(PromiseSource::Nothing, PromiseSource::Here);
    Fetch { place: Place::Below(path.to_owned()), class: Class::File(source), accept: None, form_asked: None }
}

/// Returns the digest in the path of Bazel's contents, perhaps below the name of an instance.
fn contents(path: &str) -> Option<Digest> {
    let (_, hex) = path.rsplit_once("/cas/")?;
    Digest::from_hex(Algorithm::Sha256, hex)
}

fn is_artifact(path: &str) -> bool {
    path.strip_prefix("/v8/artifacts/").is_some_and(|hash| !hash.is_empty())
}

/// SHA-256 of no bytes, which Bazel takes to be there always.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, path: &str) -> Route {
        let mirror = Mirror { external: String::new(), upstream: String::new() };
        BuildCache.route(&mirror, &Question { method, path, query: Some("teamId=a"), field: &|_| None })
    }

    #[test]
    fn contents_are_checked_and_the_empty_one_is_there() {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for path in [format!("/cas/{hex}"), format!("/instance/cas/{hex}")] {
            let Route::Store(fetch, 200) = route("PUT", &path) else { panic!("{path}") };
            assert!(matches!(fetch.class, Class::File(PromiseSource::Here(digest)) if digest.hex() == hex));
        }
        assert!(
            matches!(route("GET", &format!("/cas/{EMPTY}")), Route::Answer(200, _, body) if body.is_empty())
        );
        for path in ["/cas/short", "/ac/x", "/key"] {
            let Route::Store(fetch, 200) = route("PUT", path) else { panic!("{path}") };
            assert_eq!(fetch.class, Class::File(PromiseSource::Nothing), "{path}");
        }
    }

    #[test]
    fn artifacts_have_their_own_statuses() {
        assert!(matches!(route("PUT", "/v8/artifacts/abc"), Route::Store(_, 202)));
        assert!(matches!(route("POST", "/v8/artifacts/events"), Route::Answer(200, ..)));
        assert!(matches!(route("DELETE", "/ab/cd"), Route::Remove(Place::Below(path)) if path == "/ab/cd"));
        assert!(matches!(route("PATCH", "/x"), Route::Refuse(405, _)));
    }
}
