//! The validator of a derived document.
//!
//! It follows from all that the derived bytes follow from: the stored document, the mirror's
//! address, the form, and the code. The origin's own entity tag never stands on other bytes than
//! the origin's.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use ring::digest::{Context, SHA256};
use shoal_mirrors::Form;

/// Field of a stored document without validators: a number of its fetch. No client gets it.
pub const FETCHED: HeaderName = HeaderName::from_static("shoal-fetched");

/// Version of the rewriting code. A change that makes other bytes of a document raises it.
const REWRITE_VERSION: u32 = 1;

/// Returns the entity tag of the form that a mirror at `external` derives from a document with
/// these fields; `versions` is a number of the versions that stay in it. `None` if nothing tells
/// the document from another one.
pub fn entity_tag(
    document: &HeaderMap,
    external: &str,
    (form, versions): (Option<Form>, u64),
) -> Option<HeaderValue> {
    let validator = [header::ETAG, header::LAST_MODIFIED, FETCHED]
        .into_iter()
        .find_map(|name| Some((document.get(&name)?, name)))?;
    let mut context = Context::new(&SHA256);
    for part in [
        validator.0.as_bytes(),
        validator.1.as_str().as_bytes(),
        document.get(header::CONTENT_ENCODING).map_or(&b""[..], HeaderValue::as_bytes),
        external.as_bytes(),
        format!("{form:?} {versions} {REWRITE_VERSION}").as_bytes(),
    ] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let digest: String = context.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{digest}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn each_part_makes_another_tag() {
        let tag = |pairs: &[(HeaderName, &'static str)], external, form| {
            entity_tag(&fields(pairs), external, (form, 0)).expect("a validator")
        };
        let a = [(header::ETAG, "\"a\"")];
        let first = tag(&a, "http://a.test/npm", None);
        assert_eq!(first, tag(&[(header::ETAG, "\"a\""), (header::SERVER, "x")], "http://a.test/npm", None));
        for other in [
            tag(&[(header::ETAG, "W/\"a\"")], "http://a.test/npm", None),
            tag(&[(header::LAST_MODIFIED, "\"a\"")], "http://a.test/npm", None),
            tag(&[(header::ETAG, "\"a\""), (header::CONTENT_ENCODING, "gzip")], "http://a.test/npm", None),
            tag(&a, "https://a.test/npm", None),
            tag(&a, "http://a.test/npm", Some(Form::PypiHtml)),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(entity_tag(&fields(&[(header::SERVER, "x")]), "http://a.test", (None, 0)), None);
    }
}
