//! Parser of `POST /purge`: the query, or JSON in the body, names the responses.

use super::PurgeRequest;
use super::query::percent_decoded;

/// Reads the request from the query, or from the body if there is no query.
///
/// Query: `url=…`, `tag=…`, `host=…`, `origin=…&group=…` or `all`, values percent-encoded. Body:
/// `{"url": "…"}`, `{"tag": "…"}`, `{"host": "…"}`, `{"group": {"origin": "…", "group": "…"}}` or
/// `"all"`.
pub(super) fn parse(query: Option<&str>, body: &[u8]) -> Result<PurgeRequest, String> {
    match query {
        Some(query) if !query.is_empty() => from_query(query),
        _ if body.is_empty() => Err("name what to purge: url, tag, host, origin and group, or all".into()),
        _ => {
            serde_json::from_slice(body).map_err(|error| format!("the body is not a purge request: {error}"))
        }
    }
}

fn from_query(query: &str) -> Result<PurgeRequest, String> {
    let mut parameters = Vec::new();
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        parameters
            .push((name, percent_decoded(value).ok_or_else(|| format!("bad percent-encoding in {name}"))?));
    }
    parameters.sort();
    let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
    let mut values = parameters.iter().map(|(_, value)| value.clone());
    let mut next = || values.next().unwrap_or_default();
    match names.as_slice() {
        ["url"] => Ok(PurgeRequest::Url(next())),
        ["tag"] => Ok(PurgeRequest::Tag(next())),
        ["host"] => Ok(PurgeRequest::Host(next())),
        ["group", "origin"] => {
            let group = next();
            Ok(PurgeRequest::Group { origin: next(), group })
        }
        ["all"] => Ok(PurgeRequest::All),
        _ => Err(format!("{} do not name one thing to purge", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same() {
        let group = PurgeRequest::Group { origin: "http://a".into(), group: "g/1".into() };
        for (query, body, expected) in [
            (
                "url=http://a/b%3Fc%26d",
                r#"{"url":"http://a/b?c&d"}"#,
                PurgeRequest::Url("http://a/b?c&d".into()),
            ),
            ("tag=a%20b+c", r#"{"tag":"a b+c"}"#, PurgeRequest::Tag("a b+c".into())),
            ("host=a.example", r#"{"host":"a.example"}"#, PurgeRequest::Host("a.example".into())),
            ("origin=http://a&group=g/1", r#"{"group":{"origin":"http://a","group":"g/1"}}"#, group),
            ("all", r#""all""#, PurgeRequest::All),
        ] {
            assert_eq!(parse(Some(query), b""), Ok(expected.clone()), "{query}");
            assert_eq!(parse(None, body.as_bytes()), Ok(expected), "{body}");
        }
    }

    #[test]
    fn empty_or_ambiguous_purge_is_refused() {
        for (query, body) in [
            (None, ""),
            (Some(""), ""),
            (Some("url=a&tag=b"), ""),
            (Some("group=g"), ""),
            (Some("all&all"), ""),
            (Some("url=%4"), ""),
            (Some("url=%zz"), ""),
            (Some("url=%ff"), ""),
            (None, "{}"),
            (None, r#"{"url":"a","tag":"b"}"#),
            (None, "url=a"),
        ] {
            assert!(parse(query, body.as_bytes()).is_err(), "{query:?} {body}");
        }
    }
}
