//! Maven's and Gradle's repositories: artifacts by coordinates, metadata, checksums beside both.
//!
//! ```text
//!   /GROUP/ARTIFACT/maven-metadata.xml             versions: a document
//!   /GROUP/ARTIFACT/VERSION/ARTIFACT-VERSION.jar   artifact; `.sha1` beside it has its digest
//!   /GROUP/ARTIFACT/1-SNAPSHOT/...-SNAPSHOT.jar    changes, as metadata does
//!   FILE.sha1, .md5, .sha256, .sha512, .asc        sidecars
//! ```

use crate::route::PromiseSource;
use crate::{
    Algorithm, BadDocument, Class, Digest, Fetch, Form, Mirror, Place, Promise, Promises, Question, Registry,
    Rewriter, Route,
};

/// The maven kind.
pub struct Maven;

impl Registry for Maven {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(
                405,
                "this mirror can only be read: deploy to the repository itself".into(),
            );
        }
        match class(question.path) {
            Some(class) => Route::Fetch(Fetch {
                place: Place::Below(question.path.to_owned()),
                class,
                accept: None,
                form_asked: None,
            }),
            None => Route::Refuse(404, "a repository has files alone; folders are not listed here".into()),
        }
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn promises(&self, _: &Mirror, form: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        (form == Form::Sidecar).then(|| Box::new(Sidecar::default()) as Box<dyn Promises + Send>)
    }

    fn promise_in(&self, field: &dyn Fn(&str) -> Option<String>) -> Option<Digest> {
        CHECKSUM_FIELDS.iter().find_map(|(algorithm, name)| Digest::from_hex(*algorithm, field(name)?.trim()))
    }

    fn field_of(&self, digest: &Digest) -> Option<&'static str> {
        CHECKSUM_FIELDS.iter().find(|(algorithm, _)| *algorithm == digest.algorithm()).map(|(_, name)| *name)
    }

    fn path_of_package(&self, name: &str) -> Option<String> {
        let (group, artifact) = name.split_once(':')?;
        let path = format!("/{}/{artifact}/{METADATA}", group.replace('.', "/"));
        class(&path).map(|_| path)
    }

    fn sum_of(&self, fetch: &Fetch) -> Option<(Place, Form, Algorithm)> {
        let (Place::Below(path), Class::Document(form)) = (&fetch.place, &fetch.class) else { return None };
        let (document, ending) = path.rsplit_once('.')?;
        let algorithm = Algorithm::named(ending)?;
        document.ends_with(METADATA).then(|| (Place::Below(document.to_owned()), *form, algorithm))
    }

    fn shares_rights(&self) -> bool {
        false
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        coordinates(path).into_iter().collect()
    }
}

/// Returns group and artifact of a file.
fn coordinates(path: &str) -> Option<String> {
    let mut parts = path.strip_prefix('/')?.rsplit('/');
    let (file, version) = (parts.next()?, parts.next()?);
    let rest: Vec<&str> = parts.collect();
    // Metadata of an artifact lies one folder higher than its versions.
    let is_of_artifact = without_sidecar(file).0 == METADATA && !version.ends_with(SNAPSHOT);
    let (artifact, group) = match is_of_artifact {
        true => (version, &rest[..]),
        false => (*rest.first()?, &rest[1..]),
    };
    let group: Vec<&str> = group.iter().rev().copied().collect();
    Some(format!("{}:{artifact}", group.join(".")))
}

/// Returns the class of a file; `None` for folders and unsound paths.
fn class(path: &str) -> Option<Class> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && !matches!(*part, "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?')
    };
    if !parts.iter().all(is_part) {
        return None;
    }
    let (file, folder) = (*parts.last()?, parts.iter().rev().nth(1).copied().unwrap_or_default());
    let (base, sidecar) = without_sidecar(file);
    // A snapshot with a timestamp is constant; without one it changes.
    let changes =
        base == METADATA || base == PREFIXES || (folder.ends_with(SNAPSHOT) && base.contains(SNAPSHOT));
    Some(match (changes, sidecar) {
        (true, _) => Class::Document(Form::MavenMetadata),
        (false, true) => Class::File(PromiseSource::Nothing),
        (false, false) => Class::File(PromiseSource::In(Place::Below(format!("{path}.sha1")), Form::Sidecar)),
    })
}

/// Splits the ends of sidecars off a file's name: `a.pom.asc.sha1` is one of `a.pom`.
fn without_sidecar(file: &str) -> (&str, bool) {
    let mut base = file;
    while let Some(shorter) = SIDECARS.iter().find_map(|end| base.strip_suffix(end)) {
        base = shorter;
    }
    (base, base.len() < file.len())
}

/// Reader of a sidecar: the digest, perhaps with the name of the file behind it.
#[derive(Default)]
struct Sidecar(Vec<u8>);

impl Promises for Sidecar {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let room = SIDECAR_MAX.saturating_sub(self.0.len());
        self.0.extend_from_slice(&input[..input.len().min(room)]);
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        let text = String::from_utf8_lossy(&self.0);
        let digest = text.split_ascii_whitespace().find_map(|word| Digest::from_hex(Algorithm::Sha1, word));
        let promise =
            |digest| Promise { digest: Some(digest), size: None, published: None, is_withdrawn: false };
        Ok(digest.map(promise))
    }
}

/// Fields by which repositories promise the body that carries them, strongest first. Clients that
/// find one ask for no sidecar.
const CHECKSUM_FIELDS: [(Algorithm, &str); 4] = [
    (Algorithm::Sha512, "x-checksum-sha512"),
    (Algorithm::Sha256, "x-checksum-sha256"),
    (Algorithm::Sha1, "x-checksum-sha1"),
    (Algorithm::Md5, "x-checksum-md5"),
];

const METADATA: &str = "maven-metadata.xml";
const PREFIXES: &str = "prefixes.txt";
const SNAPSHOT: &str = "-SNAPSHOT";
const SIDECARS: [&str; 5] = [".sha1", ".md5", ".sha256", ".sha512", ".asc"];
/// Bytes of a sidecar that are read.
const SIDECAR_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registries::testing::{below, promised, routed};

    fn mirror() -> Mirror {
        Mirror { external: "http://cache.test/maven".into(), upstream: "https://repo.example/maven2".into() }
    }

    #[test]
    fn releases_are_files_and_metadata_changes() {
        let document = Class::Document(Form::MavenMetadata);
        let promised_by =
            |path: &str| Class::File(PromiseSource::In(Place::Below(path.into()), Form::Sidecar));
        for (path, wanted) in [
            ("/org/a/b/1.0/b-1.0.jar", promised_by("/org/a/b/1.0/b-1.0.jar.sha1")),
            ("/org/a/b/1.0/b-1.0.pom.asc.sha1", Class::File(PromiseSource::Nothing)),
            ("/org/a/b/maven-metadata.xml", document.clone()),
            ("/org/a/b/maven-metadata.xml.sha256", document.clone()),
            ("/.meta/prefixes.txt", document.clone()),
            ("/org/a/b/1-SNAPSHOT/b-1-SNAPSHOT.jar", document.clone()),
            (
                "/org/a/b/1-SNAPSHOT/b-1-20260101.000000-1.jar",
                promised_by("/org/a/b/1-SNAPSHOT/b-1-20260101.000000-1.jar.sha1"),
            ),
        ] {
            assert_eq!(below(routed(&Maven, &mirror(), "GET", path, "")), (path.to_owned(), wanted));
        }
        for path in ["/", "/org/a/", "/org/../b", "/org//b"] {
            assert!(matches!(routed(&Maven, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
        }
    }

    #[test]
    fn sidecars_promise_a_digest() {
        let place = Place::Below("/b-1.0.jar".into());
        let hex = "a9993e364706816aba3e25717850c26c9cd0d89d";
        for (text, is_found) in [
            (hex.to_owned(), true),
            (format!("{hex}  b-1.0.jar\n"), true),
            (format!("SHA1(b-1.0.jar)= {hex}\n"), true),
            ("<html>no</html>".to_owned(), false),
            (String::new(), false),
        ] {
            let found = promised(&Maven, &mirror(), Form::Sidecar, &place, &text).0;
            assert_eq!(
                found.and_then(|promise| promise.digest).map(|digest| digest.hex()),
                is_found.then(|| hex.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn fields_promise_their_own_body() {
        let md5 = "900150983cd24fb0d6963f7d28e17f72";
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        let found = |fields: &[(&str, &str)]| {
            let field = |name: &str| {
                fields.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
            };
            Maven.promise_in(&field).map(|digest| digest.hex())
        };
        let (md5_field, sha1_field) = (("x-checksum-md5", md5), ("x-checksum-sha1", sha1));
        assert_eq!(found(&[md5_field, sha1_field]).as_deref(), Some(sha1));
        assert_eq!(found(&[md5_field, ("x-checksum-sha1", "none")]).as_deref(), Some(md5));
        assert_eq!(found(&[("x-checksum-sha256", sha1)]), None);
        let digest = Digest::from_hex(Algorithm::Sha1, sha1).expect("a digest");
        assert_eq!(Maven.field_of(&digest), Some("x-checksum-sha1"));
    }

    #[test]
    fn packages_are_coordinates() {
        assert_eq!(Maven.path_of_package("org.a:b").as_deref(), Some("/org/a/b/maven-metadata.xml"));
        assert_eq!(Maven.path_of_package("org.a"), None);
        for (path, package) in [
            ("/org/a/b/1.0/b-1.0.jar", "org.a:b"),
            ("/org/a/b/maven-metadata.xml", "org.a:b"),
            ("/org/a/b/1-SNAPSHOT/maven-metadata.xml.sha1", "org.a:b"),
        ] {
            assert_eq!(Maven.packages(&mirror(), path), [package], "{path}");
        }
    }
}
