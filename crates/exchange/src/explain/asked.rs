//! Reads the request of `shoal explain`: bounded, and as a listener would take it.

use super::ExplainSource;
use crate::explain::{ExplainRequest, ListenerView, SupposedResponse};
use crate::message::Client;
use crate::message::target::{Target, TargetError};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use shoal_core::{FieldLines, Fields};
use shoal_settings::{Listen, Mode};
use shoal_wire::RequestParts;
use std::net::{IpAddr, Ipv4Addr};

/// A request, as its listener takes it.
pub(super) struct ListenerRequest {
    pub head: RequestParts,
    pub client: Client,
    pub target: Result<Target, TargetError>,
    pub listener: ListenerView,
    pub notes: Vec<String>,
    /// Supposed response.
    pub response: Option<(StatusCode, FieldLines)>,
}

/// Reads a request.
///
/// # Errors
/// Names the part that cannot be read.
pub(super) fn read(source: &ExplainSource<'_>, request: &ExplainRequest) -> Result<ListenerRequest, String> {
    let method = request.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("{method:?} is no method"))?;
    if request.url.len() > URL_MAX {
        return Err(format!("the URL is longer than {URL_MAX} bytes"));
    }
    let url = Target::parse(&request.url);
    let mut notes = Vec::new();
    let (at, listen) = listener(source, request, (&method, url.as_ref().ok()), &mut notes)?;
    let (tunnel, https) = (method == Method::CONNECT, url.as_ref().is_ok_and(|url| url.https));
    let url = match (url, tunnel) {
        (Ok(url), _) => url.url.to_string(),
        (Err(_), true) => request.url.clone(),
        (Err(_), false) if !request.url.contains("://") => {
            return Err(format!("{0:?} is no absolute URL: write http://{0} or https://{0}", request.url));
        }
        (Err(why), false) => return Err(format!("{:?} is no absolute URL: {}", request.url, named(why))),
    };
    let address = request.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let tls = https && listen.mode == Mode::Reverse;
    let client = Client {
        address: (address, 0).into(),
        local: listen.address,
        listener: at,
        tls,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    if tls && !listen.is_tls() {
        notes.push("No listener of sites speaks TLS: this holds if a trusted proxy says https.".into());
    }
    if https && !tls && !tunnel {
        let tunnel = "Clients mostly reach https by a tunnel (CONNECT), into which the cache does not see";
        notes.push(format!("{tunnel}: this is about a request for the https URL, sent to the proxy."));
    }
    let head = head(method, &url, listen.mode, &request.fields)?;
    let target = Target::of(&head, listen.mode, &client);
    debug_assert!(at < source.settings.listen.len());
    debug_assert!(target.is_ok() || tunnel, "a URL that was read names a target");
    let mode = listen.mode.name().to_owned();
    let listener = ListenerView { address: listen.address.to_string(), mode, tls: listen.is_tls() };
    let response = request.response.as_ref().map(supposed).transpose()?;
    Ok(ListenerRequest { head, client, target, listener, notes, response })
}

/// Chooses the listener: one that serves the URL.
fn listener<'a>(
    source: &ExplainSource<'a>,
    request: &ExplainRequest,
    (method, url): (&Method, Option<&Target>),
    notes: &mut Vec<String>,
) -> Result<(usize, &'a Listen), String> {
    let has = |mode: Mode| source.settings.listen.iter().any(|listen| listen.mode == mode);
    let has_site =
        url.is_some_and(|url| source.live.routes.find(url.host().as_bytes(), url.path()).is_some());
    let mode = match request.mode.as_deref() {
        Some("forward") => Mode::Forward,
        Some("reverse") => Mode::Reverse,
        Some(other) => return Err(format!("{other:?} is no mode: forward or reverse")),
        None if *method == Method::CONNECT && has(Mode::Forward) => Mode::Forward,
        None if has(Mode::Reverse) && (has_site || !has(Mode::Forward)) => Mode::Reverse,
        None => Mode::Forward,
    };
    let of_mode = || source.settings.listen.iter().enumerate().filter(|(_, listen)| listen.mode == mode);
    let https = url.is_some_and(|url| url.https);
    let fits = |(_, listen): &(usize, &Listen)| mode == Mode::Forward || https == listen.is_tls();
    let chosen = of_mode().find(fits).or_else(|| of_mode().next());
    if of_mode().nth(1).is_some() && request.mode.is_none() && has(Mode::Forward) && has(Mode::Reverse) {
        notes.push(format!("Several listeners are in {mode} mode; this is about the first that fits."));
    }
    chosen.ok_or_else(|| format!("the settings have no listener in {mode} mode"))
}

fn head(method: Method, url: &str, mode: Mode, fields: &[(String, String)]) -> Result<RequestParts, String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let path = &rest[authority.len()..];
    let uri = match (&method, mode) {
        (&Method::CONNECT, _) => authority,
        (_, Mode::Forward) => url,
        (_, Mode::Reverse) => path,
    };
    let request = http::Request::builder().method(method).uri(uri).body(());
    let mut head = request.map_err(|error| format!("{url:?}: {error}"))?.into_parts().0;
    let host = HeaderValue::from_str(authority).map_err(|_| format!("{authority:?} is no host"))?;
    head.headers.insert(header::HOST, host);
    let mut head = RequestParts::from(head);
    let own: Vec<(HeaderName, HeaderValue)> = read_fields(fields)?;
    if own.iter().any(|(name, _)| *name == header::HOST) {
        return Err("the URL names the host; leave Host out".into());
    }
    let said = own.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    head.fields = head.fields.lines().chain(said).collect();
    Ok(head)
}

fn supposed(response: &SupposedResponse) -> Result<(StatusCode, FieldLines), String> {
    let status =
        StatusCode::from_u16(response.status).map_err(|_| format!("{} is no status", response.status))?;
    let fields = read_fields(&response.fields)?;
    Ok((status, fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()))
}

fn read_fields(fields: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    if fields.len() > FIELDS_MAX {
        return Err(format!("more than {FIELDS_MAX} fields"));
    }
    let read = |(name, value): &(String, String)| {
        let no_field = || format!("{name:?}: {value:?} is no field");
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| no_field())?;
        Ok((name, HeaderValue::from_str(value.trim()).map_err(|_| no_field())?))
    };
    fields.iter().map(read).collect()
}

fn named(why: TargetError) -> &'static str {
    match why {
        TargetError::NotAbsolute => "it begins with http:// or https://",
        TargetError::Scheme => "only http and https are served",
        TargetError::Host | TargetError::Misdirected => "its host or port cannot be read",
    }
}

/// Maximum bytes of a URL, as a request's head would hold.
const URL_MAX: usize = 16 << 10;

/// Maximum fields of a request or response.
const FIELDS_MAX: usize = 128;

const _: () = assert!(URL_MAX <= u16::MAX as usize, "the longest URL that http accepts");
