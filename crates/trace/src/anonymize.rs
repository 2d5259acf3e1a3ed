//! Replaces names by keyed hashes that keep the structure of the names.
//!
//! A host keeps its number of labels and its last label. A path keeps its number of segments and a
//! well-known extension. Each part is hashed together with the parts that contain it. Two hosts of
//! one domain therefore still share the domain, and two files of one folder the folder. A word
//! found at one place reveals nothing about the same word elsewhere. A client is hashed as a whole;
//! user names, queries and fragments are dropped. Times, sizes, methods and statuses stay: a person
//! with knowledge of a request for an object of a rare size may recognise that request.
//!
//! HMAC-SHA-256 (RFC 2104), of which 48 bits are shown for a part: without the key nobody can test
//! names. Cost: one HMAC for each part.

use crate::record::{Record, host_range, scheme_of};
use ring::hmac;

/// Replaces names by one key.
pub struct Anonymizer {
    key: hmac::Key,
    queries: Queries,
}

/// Treatment of a URL's query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queries {
    /// The query is dropped. URLs that differ only in their queries become one URL.
    #[default]
    Dropped,
    /// The query becomes a hash, so that such URLs stay distinct.
    Hashed,
}

impl Anonymizer {
    /// Makes an anonymizer with a key of any length; 32 random bytes are enough.
    pub fn new(key: &[u8], queries: Queries) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), queries }
    }

    /// Returns the record with its names replaced.
    pub fn apply(&self, record: &Record<'_>) -> Record<'static> {
        let client = record.client.as_deref().map(|client| self.hash("client", "", client).into());
        Record {
            time_ms: record.time_ms,
            client,
            method: record.method.as_deref().map(|method| method.to_owned().into()),
            status: record.status,
            url: self.url(&record.url).into(),
            bytes: record.bytes,
            outcome: record.outcome,
            ttl_seconds: record.ttl_seconds,
        }
    }

    fn url(&self, url: &str) -> String {
        let (url, _) = url.split_once('#').unwrap_or((url, ""));
        let (whole, query) = url.split_once('?').map_or((url, None), |(whole, query)| (whole, Some(query)));
        let host = host_range(whole);
        let mut hidden = String::with_capacity(url.len());
        let rest = if host.is_empty() {
            whole
        } else {
            let scheme = scheme_of(whole).unwrap_or_default();
            hidden.push_str(&scheme.to_ascii_lowercase());
            hidden.push_str("://");
            hidden.push_str(&self.host(&whole[host.clone()]));
            let rest = &whole[host.end..];
            let path = rest.find('/').unwrap_or(rest.len());
            // A port consists of digits. Text after a colon of a bracketed address is not a port.
            let port = rest[..path].rsplit_once(':').map(|(_, port)| port);
            if let Some(port) = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
                hidden.push(':');
                hidden.push_str(port);
            }
            &rest[path..]
        };
        self.path(rest, &whole[host].to_ascii_lowercase(), &mut hidden);
        if let Some(query) = query.filter(|_| self.queries == Queries::Hashed) {
            hidden.push('?');
            hidden.push_str(&self.hash("query", whole, query));
        }
        debug_assert!(!hidden.contains('#'), "fragments are dropped");
        debug_assert!(self.queries == Queries::Hashed || !hidden.contains('?'), "so are queries");
        hidden
    }

    /// Hashes the labels from the last to the first. The last label stays unless it is a number of
    /// an address.
    fn host(&self, host: &str) -> String {
        let host = host.to_ascii_lowercase();
        if host.contains(':') {
            return self.hash("host", "", &host);
        }
        let mut labels: Vec<String> = Vec::new();
        let mut end = host.len();
        while let Some(label) = host[..end].rsplit('.').next() {
            let start = end - label.len();
            let is_top =
                end == host.len() && host.contains('.') && !label.bytes().any(|byte| byte.is_ascii_digit());
            labels.push(if is_top { label.to_owned() } else { self.hash("host", &host[end..], label) });
            match start.checked_sub(1) {
                Some(dot) => end = dot,
                None => break,
            }
        }
        debug_assert_eq!(labels.len(), host.split('.').count(), "each label has its hash");
        labels.reverse();
        labels.join(".")
    }

    fn path(&self, path: &str, host: &str, hidden: &mut String) {
        let mut start = 0;
        for (at, segment) in path.split('/').enumerate() {
            if at > 0 {
                hidden.push('/');
            }
            let end = start + segment.len();
            if !segment.is_empty() {
                let within = format!("{host}/{}", &path[..start]);
                hidden.push_str(&self.hash("path", &within, segment));
                let extension = segment.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
                if let Some(extension) =
                    extension.filter(|name| end == path.len() && EXTENSIONS.contains(&name.as_str()))
                {
                    hidden.push('.');
                    hidden.push_str(&extension);
                }
            }
            start = end + 1;
        }
    }

    /// Returns twelve hexadecimal digits for a part, hashed together with the parts that contain
    /// it.
    fn hash(&self, kind: &str, within: &str, part: &str) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for text in [kind, within, part] {
            context.update(&(text.len() as u64).to_le_bytes());
            context.update(text.as_bytes());
        }
        context.sign().as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Extensions that reveal nothing but the kind of an object.
const EXTENSIONS: [&str; 27] = [
    "html", "htm", "gif", "jpg", "jpeg", "png", "webp", "avif", "svg", "ico", "css", "js", "json", "xml",
    "txt", "pdf", "ps", "zip", "gz", "mp3", "mp4", "mpg", "wav", "ts", "m4s", "woff2", "exe",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> String {
        let record = Record { url: text.into(), ..Record::default() };
        Anonymizer::new(b"key", Queries::Dropped).apply(&record).url.into_owned()
    }

    #[test]
    fn structure_stays_and_names_go() {
        let hidden = url("http://User:pass@WWW.Example.org:8080/a/b/Secret.GIF?token=1#x");
        let lengths = |text: &str| text.split(['/', '.', ':']).map(str::len).collect::<Vec<_>>();
        assert_eq!(lengths(&hidden), [4, 0, 0, 12, 12, 3, 4, 12, 12, 12, 3], "{hidden}");
        assert!(hidden.starts_with("http://") && hidden.contains(".org:8080/"));
        assert!(hidden.ends_with(".gif") && !hidden.to_lowercase().contains("secret"));
        let split = |text: &str| url(text).split('/').map(str::to_owned).collect::<Vec<_>>();
        let (one, two) = (split("http://a.x.org/d/1"), split("http://b.x.org/d/1"));
        assert_eq!(one[2].split_once('.').map(|host| host.1), two[2].split_once('.').map(|host| host.1));
        assert_ne!((&one[2], &one[3], &one[4]), (&two[2], &two[3], &two[4]));
        let (one, two) = (split("http://a/d/1"), split("http://a/d/2"));
        assert!(one[3] == two[3] && one[4] != two[4] && one[3] != one[4]);
        assert_eq!(split("/a//b/").len(), 5);
        assert_eq!(url("http://10.0.0.1/").matches('.').count(), 3);
        assert!(!url("http://10.0.0.1/").contains("10.0") && !url("http://[fe80::1]/").contains("fe80"));
        assert_eq!(url("http://a/x"), url("HTTP://A/x?y"));
        assert_eq!(url("?x"), "");
    }

    #[test]
    fn the_key_decides_and_queries_may_stay_apart() {
        let record = Record {
            url: "http://a/x?1".into(),
            client: Some("10.0.0.1".into()),
            bytes: Some(5),
            ..Record::default()
        };
        let by = |key: &[u8], queries| Anonymizer::new(key, queries).apply(&record);
        assert_eq!(by(b"1", Queries::Dropped), by(b"1", Queries::Dropped));
        assert_ne!(by(b"1", Queries::Dropped), by(b"2", Queries::Dropped));
        assert!(!by(b"1", Queries::Dropped).url.contains('?') && by(b"1", Queries::Hashed).url.contains('?'));
        assert_ne!(by(b"1", Queries::Dropped).client.as_deref(), Some("10.0.0.1"));
        assert_eq!(by(b"1", Queries::Dropped).bytes, Some(5));
    }
}
