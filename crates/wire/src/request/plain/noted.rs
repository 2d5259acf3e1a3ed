//! Fields that decide if a request is plain, and fields that a plain request uses.

/// Relevant fields of a plain request, as `V`: their values, or the places of the values.
#[derive(Default)]
pub(super) struct RelevantFields<V> {
    pub host: Option<V>,
    pub referer: Option<V>,
    pub user_agent: Option<V>,
    pub if_none_match: Option<V>,
    pub if_modified_since: Option<V>,
    pub range: Option<V>,
    pub accept_encoding: Option<V>,
    pub authorizes: bool,
}

impl<V> RelevantFields<V> {
    /// Records one field. `None` when it makes the request not plain.
    pub fn note(&mut self, name: &[u8], value: &[u8], noted: V) -> Option<()> {
        let is = |lower_case: &str| name.eq_ignore_ascii_case(lower_case.as_bytes());
        let once = |place: &mut Option<V>, noted| place.replace(noted).is_none().then_some(());
        // Matching by length and first letter avoids nearly every comparison of names.
        let telling = match (name.len(), name.first().map(|byte| byte | 0x20)?) {
            (4, b'h') if is("host") => return once(&mut self.host, noted),
            (5, b'r') if is("range") => {
                let is_one = !value.contains(&b',');
                return once(&mut self.range, noted).filter(|()| is_one);
            }
            (13, b'i') if is("if-none-match") => return once(&mut self.if_none_match, noted),
            (17, b'i') if is("if-modified-since") => return once(&mut self.if_modified_since, noted),
            (15, b'a') if is("accept-encoding") => return once(&mut self.accept_encoding, noted),
            (7, b'r') if is("referer") => {
                self.referer.get_or_insert(noted);
                return Some(());
            }
            (10, b'u') if is("user-agent") => {
                self.user_agent.get_or_insert(noted);
                return Some(());
            }
            (13, b'a') if is("authorization") => {
                self.authorizes = true;
                return Some(());
            }
            (10, b'c') if is("connection") => return value.eq_ignore_ascii_case(b"keep-alive").then_some(()),
            (2, b't') => is("te"),
            (3, b'v') => is("via"),
            (6, b'e') => is("expect"),
            (6, b'p') => is("pragma"),
            (7, b'u') => is("upgrade"),
            (8, b'i') => is("if-match") || is("if-range"),
            (8, b'c') => is("cdn-loop"),
            (13, b'c') => is("cache-control"),
            (14, b'c') => is("content-length"),
            (17, b't') => is("transfer-encoding"),
            (19, b'i') => is("if-unmodified-since"),
            (19, b'p') => is("proxy-authorization"),
            _ => false,
        };
        // The other fields here change a cache's handling of a request, or the request's end.
        (!telling).then_some(())
    }
}
