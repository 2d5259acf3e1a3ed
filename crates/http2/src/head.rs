//! Requests from field lists (RFC 9113 section 8).

use crate::hpack::FieldList;
use bytes::Bytes;
use http::request::Parts;
use http::uri::{self, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

/// Head of a request with valid fields (sections 8.2 and 8.3). Names are in lower case; values have
/// no line ends and no surrounding whitespace. There are no connection-specific fields, and each
/// pseudo-field occurs once and in front.
#[derive(Clone, Copy, Debug)]
pub struct Http2Head<'l> {
    list: &'l FieldList,
    pseudo: Pseudo<'l>,
    /// Number of pseudo-fields.
    pseudo_fields: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pseudo<'l> {
    method: Option<&'l [u8]>,
    scheme: Option<&'l [u8]>,
    authority: Option<&'l [u8]>,
    path: Option<&'l [u8]>,
}

/// Error for a malformed request. "Malformed requests … that are detected MUST be treated as a
/// stream error of type PROTOCOL_ERROR" (section 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedRequest;

impl<'l> Http2Head<'l> {
    /// Checks the fields of a request.
    pub fn read(list: &'l FieldList) -> Result<Self, MalformedRequest> {
        let mut pseudo = Pseudo::default();
        let mut pseudo_fields = 0;
        for (at, (name, value)) in list.iter().enumerate() {
            if let [b':', rest @ ..] = name {
                // "All pseudo-header fields MUST appear in a field block before all regular field
                // lines" (section 8.3).
                let is_in_front = at == pseudo_fields;
                let place = pseudo
                    .place(rest)
                    .filter(|place| is_in_front && place.is_none())
                    .ok_or(MalformedRequest)?;
                *place = Some(value).filter(|value| is_value(value));
                if place.is_none() {
                    return Err(MalformedRequest);
                }
                pseudo_fields += 1;
            } else if !is_sound(name, value) {
                return Err(MalformedRequest);
            }
        }
        debug_assert!(list.iter().skip(pseudo_fields).all(|(name, _)| !name.starts_with(b":")));
        debug_assert!(pseudo_fields <= 4, "each pseudo-field once");
        Ok(Self { list, pseudo, pseudo_fields })
    }

    /// Returns the method.
    pub fn method(&self) -> &'l [u8] {
        self.pseudo.method.unwrap_or_default()
    }

    /// Returns host and port, when given.
    pub fn authority(&self) -> Option<&'l [u8]> {
        self.pseudo.authority
    }

    /// Returns path and query, when given.
    pub fn path(&self) -> Option<&'l [u8]> {
        self.pseudo.path
    }

    /// Returns `true` if the scheme is http or https.
    pub fn is_http(&self) -> bool {
        matches!(self.pseudo.scheme, Some(b"http" | b"https"))
    }

    /// Returns names and values of the fields.
    pub fn fields(&self) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
        self.list.iter().skip(self.pseudo_fields)
    }

    /// Returns the field list, and the number of pseudo-fields at its start.
    pub fn list(&self) -> (&'l FieldList, usize) {
        (self.list, self.pseudo_fields)
    }

    /// Returns the number of fields.
    pub fn field_count(&self) -> usize {
        self.list.spans().count() - self.pseudo_fields
    }

    /// Makes the request parts for the exchange. The values are slices of one copy.
    pub fn to_parts(&self) -> Result<Parts, MalformedRequest> {
        let text = Bytes::copy_from_slice(self.list.text());
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.version = Version::HTTP_2;
        parts.method =
            Method::from_bytes(self.pseudo.method.ok_or(MalformedRequest)?).map_err(|_| MalformedRequest)?;
        parts.uri = self.uri(&parts.method)?;
        parts.headers = map(self.list, &text, self.pseudo_fields)?;
        Ok(parts)
    }

    /// Makes the target URI (section 8.3.1); section 8.5 for CONNECT: "The ":scheme" and ":path"
    /// pseudo-header fields MUST be omitted."
    fn uri(&self, method: &Method) -> Result<Uri, MalformedRequest> {
        let Pseudo { scheme, authority, path, .. } = self.pseudo;
        let mut parts = uri::Parts::default();
        if let Some(authority) = authority {
            parts.authority = Some(uri::Authority::try_from(authority).map_err(|_| MalformedRequest)?);
        }
        match (method == Method::CONNECT, scheme, path) {
            (true, None, None) => {}
            (false, Some(scheme), Some(path)) if is_path(path, method) => {
                let scheme = Scheme::try_from(scheme).map_err(|_| MalformedRequest)?;
                // A URI has no scheme without an authority; Host may replace the authority. The
                // scheme is lost then, so it must be http or https.
                if parts.authority.is_none() && scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
                    return Err(MalformedRequest);
                }
                parts.scheme = parts.authority.is_some().then_some(scheme);
                parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| MalformedRequest)?);
            }
            _ => return Err(MalformedRequest),
        }
        Uri::from_parts(parts).map_err(|_| MalformedRequest)
    }
}

impl<'l> Pseudo<'l> {
    fn place(&mut self, name: &[u8]) -> Option<&mut Option<&'l [u8]>> {
        match name {
            b"method" => Some(&mut self.method),
            b"scheme" => Some(&mut self.scheme),
            b"authority" => Some(&mut self.authority),
            b"path" => Some(&mut self.path),
            // Other names are for responses, for extensions that this side does not offer, or
            // unknown.
            _ => None,
        }
    }
}

/// Returns the trailers in a field list without pseudo-fields (section 8.1).
pub fn trailers(list: &FieldList) -> Result<HeaderMap, MalformedRequest> {
    let sound = list.iter().all(|(name, value)| is_sound(name, value));
    if sound { map(list, &Bytes::copy_from_slice(list.text()), 0) } else { Err(MalformedRequest) }
}

fn map(list: &FieldList, text: &Bytes, skip: usize) -> Result<HeaderMap, MalformedRequest> {
    let mut map = HeaderMap::with_capacity(list.spans().count());
    for (name, value) in list.spans().skip(skip) {
        let name = HeaderName::from_lowercase(&text[name]).map_err(|_| MalformedRequest)?;
        let value = HeaderValue::from_maybe_shared(text.slice(value)).map_err(|_| MalformedRequest)?;
        map.try_append(name, value).map_err(|_| MalformedRequest)?;
    }
    Ok(map)
}

/// Returns `true` for a valid path. "The ":path" pseudo-header field … MUST NOT be empty for "http"
/// or "https" URIs", begins with a slash, or is the asterisk of OPTIONS (section 8.3.1). A fragment
/// is not allowed; the URI parser would drop it silently.
fn is_path(path: &[u8], method: &Method) -> bool {
    let has_form = path.starts_with(b"/") || path == b"*" && method == Method::OPTIONS;
    has_form && !path.contains(&b'#')
}

/// Returns `true` for a valid name and value (section 8.2.1) of no connection-specific field.
/// Section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing connection-specific
/// header fields"; TE alone may say "trailers".
fn is_sound(name: &[u8], value: &[u8]) -> bool {
    let is_name = !name.is_empty() && name.iter().all(|byte| IN_NAME[usize::from(*byte)]);
    let is_of_connection = match name.len() {
        2 => name == b"te" && value != b"trailers",
        7 => name == b"upgrade",
        10 => name == b"connection" || name == b"keep-alive",
        16 => name == b"proxy-connection",
        17 => name == b"transfer-encoding",
        _ => false,
    };
    is_name && is_value(value) && !is_of_connection
}

/// Returns `true` for a valid value: RFC 9110 section 5.5, and "A field value MUST NOT start or end
/// with an ASCII whitespace character" (section 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // The loop checks every byte, many at once, which is faster than a stop at the first invalid
    // byte.
    let unfit = |byte: u8| u8::from(byte < b' ') & u8::from(byte != b'\t') | u8::from(byte == 0x7f);
    value.iter().fold(0, |any, &byte| any | unfit(byte)) == 0
        && !is_space(value.first())
        && !is_space(value.last())
}

/// Characters of a token (RFC 9110 section 5.6.2), without upper case.
static IN_NAME: [bool; 256] = {
    let mut table = shoal_core::alphanumeric_and(b"!#$%&'*+-.^_`|~");
    let mut letter = b'A';
    while letter <= b'Z' {
        table[letter as usize] = false;
        letter += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{Decoder, encode};

    fn list(fields: &[(&str, &str)]) -> FieldList {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode::field(&mut block, name.as_bytes(), value.as_bytes()));
        let mut list = FieldList::default();
        Decoder::default().decode(&block, &mut list, 1 << 16).expect("a block");
        list
    }

    fn parts(fields: &[(&str, &str)]) -> Result<Parts, MalformedRequest> {
        Http2Head::read(&list(fields))?.to_parts()
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.test:8443"), (":path", "/a?b")];

    #[test]
    fn requests_are_read() {
        let get = parts(&[&GET[..], &[("cookie", "a"), ("cookie", "b"), ("x", "")]].concat()).expect("sound");
        assert_eq!((get.method, get.uri.to_string()), (Method::GET, "https://a.test:8443/a?b".into()));
        assert_eq!((get.version, get.headers.len()), (Version::HTTP_2, 3));
        assert_eq!(get.headers.get_all("cookie").iter().collect::<Vec<_>>(), ["a", "b"]);
        let connect = parts(&[(":method", "CONNECT"), (":authority", "a:443")]).expect("sound");
        assert_eq!(connect.uri.to_string(), "a:443");
        let options = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), ("host", "a")];
        assert_eq!(parts(&options).expect("sound").uri.path(), "*");
        let head = list(&GET);
        let head = Http2Head::read(&head).expect("sound");
        assert_eq!((head.method(), head.path(), head.is_http()), (&b"GET"[..], Some(&b"/a?b"[..]), true));
        assert_eq!((head.field_count(), head.fields().count()), (0, 0));
    }

    #[test]
    fn malformed_requests_are_refused() {
        let with = |field: (&'static str, &'static str)| [&GET[..], &[field]].concat();
        let mut cases = vec![
            vec![],
            GET[1..].to_vec(),
            vec![GET[0], GET[2], GET[3]],
            GET[..3].to_vec(),
            vec![GET[0], GET[1], GET[2], (":path", "")],
            vec![GET[0], GET[1], GET[2], (":path", "no-slash")],
            vec![GET[0], GET[1], GET[2], (":path", "?query")],
            vec![GET[0], GET[1], GET[2], (":path", "/a#b")],
            vec![GET[0], GET[1], GET[2], (":path", "*")],
            vec![GET[0], GET[1], GET[2], (":path", "/a b")],
            vec![GET[0], GET[1], GET[2], (":path", "/ HTTP/1.1\r\nx: y")],
            vec![GET[0], GET[1], GET[2], (":path", "/a\rb")],
            vec![GET[0], GET[1], GET[3], (":authority", "a b")],
            vec![GET[0], GET[1], GET[3], (":authority", "a\r\nx: y")],
            vec![(":method", "GET / HTTP/1.1\r\n\r\nGET"), GET[1], GET[2], GET[3]],
            vec![GET[0], (":scheme", "http://b/ HTTP/1.1\r\n"), GET[2], GET[3]],
            vec![("x", "y"), GET[0], GET[1], GET[2], GET[3]],
            vec![(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")],
            vec![(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "https")],
            vec![GET[0], (":scheme", "ftp"), GET[3], ("host", "a.test")],
            vec![(":method", "G T"), GET[1], GET[2], GET[3]],
        ];
        cases.extend(
            [
                (":path", "/again"),
                (":status", "200"),
                (":protocol", "websocket"),
                ("Upper", "x"),
                ("", "x"),
                ("a b", "x"),
                ("x", "a\r\nb"),
                ("x", "a\0b"),
                ("x", " a"),
                ("x", "a\t"),
                ("connection", "close"),
                ("keep-alive", "1"),
                ("proxy-connection", "close"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("te", "gzip"),
            ]
            .map(with),
        );
        for fields in cases {
            assert_eq!(parts(&fields).err(), Some(MalformedRequest), "{fields:?}");
        }
        assert!(parts(&with(("te", "trailers"))).is_ok());
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        assert_eq!(trailers(&list(&[("x-sum", "7")])).expect("sound")["x-sum"], "7");
        assert_eq!(trailers(&list(&[(":path", "/")])).err(), Some(MalformedRequest));
        assert_eq!(trailers(&list(&[("connection", "x")])).err(), Some(MalformedRequest));
    }
}
