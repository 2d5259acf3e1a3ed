//! Builds the request to an origin: the client's forwardable fields, with this node's own.

use super::fetch::Fetch;
use super::request::RequestContext;
use crate::by_site::{CostAccount, MissReason};
use crate::ip_text::push_address;
use crate::mirror::FetchSource;
use crate::neighbours::NeighbourWay;
use crate::route::{self, FieldStatement};
use crate::upstream::{Caller, Destination, Origin, Scheme, UpstreamRequest, connection_auth};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, header};
use shoal_core::{FieldLines, Fields, Key};
use shoal_semantics::{NextHopFields, NextHopFieldsBuilder, fields, surrogate, validation};
use std::sync::Arc;

/// Builds the request of a fetch, with the proxy's own conditions instead of the client's.
pub(super) fn upstream_request(fetch: &Fetch) -> UpstreamRequest {
    let mut request = request_for(&fetch.ask, fetch_fields(fetch).finish(), fetch.reason);
    request.method = Method::GET;
    request
}

/// Request of a fetch that has not chosen its destination.
pub(super) struct OutgoingFetch {
    /// The request that caused the fetch.
    pub ask: Arc<RequestContext>,
    /// Digest of the stored image manifest that the fetch validates, in the registry's words.
    pub held_digest: Option<Vec<u8>>,
    fields: NextHopFields,
    reason: MissReason,
}

impl OutgoingFetch {
    /// Takes the parts of a fetch that a request needs.
    pub fn of(fetch: &Fetch) -> Self {
        let stored = fetch.stored.as_ref().filter(|_| fetch.ask.mirror.is_some());
        let digest = stored.and_then(|(_, stored)| {
            stored.head.stored.fields().get(CONTENT_DIGEST).map(|digest| digest.as_bytes().to_vec())
        });
        Self {
            ask: Arc::clone(&fetch.ask),
            held_digest: digest,
            fields: fetch_fields(fetch).finish(),
            reason: fetch.reason,
        }
    }

    /// Builds the request to the origin.
    pub fn to_origin(&self) -> UpstreamRequest {
        self.by(Method::GET)
    }

    /// Builds the request to the origin with this method.
    pub fn by(&self, method: Method) -> UpstreamRequest {
        let mut request = request_for(&self.ask, self.fields.clone(), self.reason);
        request.method = method;
        request
    }

    /// Builds the request to a neighbour, in absolute form. `None` if it cannot be sent. The
    /// request costs no origin anything, so that it has no account.
    pub fn to_neighbour(&self, way: &NeighbourWay) -> Option<UpstreamRequest> {
        neighbour_request(&self.ask, self.fields.clone(), way)
    }
}

fn neighbour_request(
    ask: &RequestContext,
    mut fields: NextHopFields,
    way: &NeighbourWay,
) -> Option<UpstreamRequest> {
    if way.only_if_cached {
        fields.push(header::CACHE_CONTROL.as_str().as_bytes(), b"only-if-cached");
    }
    if let Some(credentials) = &way.entry.credentials {
        fields.push(header::PROXY_AUTHORIZATION.as_str().as_bytes(), credentials.as_bytes());
    }
    Some(UpstreamRequest {
        method: Method::GET,
        destination: Destination::Group { group: Arc::clone(&way.entry.group), key: 0 },
        target: PathAndQuery::try_from(ask.target.path()).ok()?,
        absolute: Some(ask.target.origin().into()),
        fields,
        host: Some(HeaderValue::from_str(ask.target.authority()).ok()?),
        takes_trailers: takes_trailers(&ask.fields),
        body: None,
        interim: ask.interim.clone(),
        upgrade: None,
        caller: Caller { client: Some(Arc::clone(&ask.client)), ..Caller::default() },
    })
}

/// Returns the fields of a fetch, with the proxy's own conditions instead of the client's.
pub(super) fn fetch_fields(fetch: &Fetch) -> NextHopFieldsBuilder<'_> {
    let ask = &*fetch.ask;
    let keeps_conditions = fetch.conditional && fetch.stored.is_none();
    let mut onward = forwardable(ask, |name| {
        let is_range = matches!(name, b"range" | b"if-range");
        let is_replaced = is_range || !keeps_conditions && validation::is_condition(name);
        is_replaced || is_for_body(ask, name)
    });
    if let Some((_, stored)) = &fetch.stored {
        let held = &stored.head.stored;
        for (name, value) in validation::conditions_of(held.status(), &held.fields()) {
            onward.field(&name, value.as_bytes());
        }
    }
    if let Some(range) = &fetch.range {
        onward.field(&header::RANGE, range.as_bytes());
        if let Some(validator) = &fetch.if_range {
            onward.field(&header::IF_RANGE, validator.as_bytes());
        }
    }
    onward
}

pub(super) fn request_for(
    ask: &RequestContext,
    mut fields: NextHopFields,
    reason: MissReason,
) -> UpstreamRequest {
    let source = ask.mirror.as_ref().and_then(|asked| asked.source());
    if let (Some(asked), Some(FetchSource::Upstream(path))) = (&ask.mirror, &source)
        && asked.covers(path)
    {
        let name = header::AUTHORIZATION.as_str().as_bytes();
        if let Some(token) = asked.token() {
            fields.push(name, format!("Bearer {token}").as_bytes());
        }
        if let Some(credentials) = &asked.credentials {
            fields.push(name, credentials.as_bytes());
        }
    }
    let (destination, host) = match (&source, &ask.site) {
        (Some(FetchSource::Elsewhere(origin, _)), _) => {
            (Destination::Origin { origin: origin.clone(), rules: Arc::clone(&ask.live.forward) }, None)
        }
        (_, Some(site)) => {
            let group = Arc::clone(&site.group);
            let host = site.preserve_host.then(|| named_host(ask)).flatten();
            (Destination::Group { group, key: Key::unkeyed(ask.primary.full()).low() }, host)
        }
        (_, None) => {
            let scheme = if ask.target.https { Scheme::Https } else { Scheme::Http };
            let origin = Origin::new(scheme, ask.target.host(), ask.target.port);
            (Destination::Origin { origin, rules: Arc::clone(&ask.live.forward) }, None)
        }
    };
    UpstreamRequest {
        method: ask.method.clone(),
        destination,
        target: match source {
            Some(FetchSource::Elsewhere(_, path) | FetchSource::Upstream(path)) => path,
            None => ask.path.clone(),
        },
        absolute: None,
        fields,
        host,
        takes_trailers: takes_trailers(&ask.fields),
        body: None,
        interim: ask.interim.clone(),
        upgrade: None,
        caller: Caller {
            client: Some(Arc::clone(&ask.client)),
            pins: false,
            authenticates: connection_auth::authenticates(&ask.fields),
            // A prefetch is no client's miss.
            account: ask.background.is_none().then(|| {
                CostAccount::open_in(
                    ask.trace.as_ref(),
                    (ask.meter(), ask.primary.hash(), &ask.target.url),
                    reason,
                )
            }),
            background: ask.background.clone(),
        },
    }
}

/// Returns the request's forwardable fields with this node's own, except the fields for which
/// `is_left_out` is true.
pub(super) fn forwardable<'a>(
    ask: &'a RequestContext,
    is_left_out: impl Fn(&[u8]) -> bool,
) -> NextHopFieldsBuilder<'a> {
    let live = &ask.live;
    if ask.is_for_peer {
        // The entry node has added its own.
        return NextHopFieldsBuilder::of(&ask.fields, |name| name == b"host" || is_left_out(name));
    }
    let forwards_left = ask.max_forwards();
    let is_ours = |name: &[u8]| match name {
        // A client's own Shoal-Peer would make a home take this node's ask for malformed.
        b"host" | b"via" | b"cdn-loop" | b"shoal-peer" => true,
        b"max-forwards" => forwards_left.is_some(),
        _ => ask.keeps_back(name),
    };
    let mut onward = NextHopFieldsBuilder::of(&ask.fields, |name| is_ours(name) || is_left_out(name));
    if let Some(left) = forwards_left {
        onward.field(&header::MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)).as_bytes());
    }
    // RFC 9110, 7.6.3: "An HTTP-to-HTTP gateway MUST send an appropriate Via header field in each
    // inbound request message". An operator may deviate for a site with upstreams that answer
    // proxies differently; CDN-Loop finds loops as well.
    if ask.site.as_ref().is_none_or(|site| site.via) {
        onward.member(&header::VIA, |out| fields::write_via(ask.version, &live.hop, out));
    }
    onward.member(&fields::CDN_LOOP, |out| out.extend_from_slice(live.loop_hop.as_bytes()));
    // A registry is none of the operator's servers, and needs to know no client.
    if ask.site.is_some() && ask.mirror.is_none() {
        if let Some(capability) = &live.surrogate_capability {
            onward.field(&surrogate::SURROGATE_CAPABILITY, capability.as_bytes());
        }
        add_client(&mut onward, ask);
    }
    onward
}

/// Returns `true` if a field describes a request's body, and is not forwarded without one. The
/// length is forwarded for methods that are meant for content, and with an Upgrade.
pub(super) fn is_for_body(ask: &RequestContext, name: &[u8]) -> bool {
    match name {
        // RFC 9110, 10.1.1: "A client MUST NOT generate a 100-continue expectation in a request
        // that does not include content."
        b"expect" => true,
        b"content-length" => ask.is_lookup() && !ask.fields.has(&header::UPGRADE),
        _ => false,
    }
}

/// Returns the effective URI's authority, mostly in the client's spelling.
pub(super) fn named_host(ask: &RequestContext) -> Option<HeaderValue> {
    let authority = ask.target.authority();
    let said = ask.fields.shared_value(&header::HOST).filter(|said| said.as_bytes() == authority.as_bytes());
    said.or_else(|| HeaderValue::from_str(authority).ok())
}

/// Adds the client's address and path. Address fields from a trusted proxy get the address used
/// here.
pub(super) fn add_client(onward: &mut NextHopFieldsBuilder<'_>, ask: &RequestContext) {
    let proxies = ask.way.as_ref().map_or(&[][..], |way| &way.proxies);
    route::add_forwarded(onward, &ask.client, proxies, ask.target.authority());
    if ask.way.is_none() {
        return;
    }
    let is_address =
        |name: &&[u8]| FieldStatement::of(name) == Some(FieldStatement::Address) && *name != X_FORWARDED_FOR;
    let mut told: Vec<&[u8]> = ask.fields.lines().map(|(name, _)| name).filter(is_address).collect();
    told.sort_unstable();
    told.dedup();
    let mut address = Vec::new();
    push_address(&mut address, ask.client.address.ip().to_canonical());
    for name in told.iter().filter_map(|name| HeaderName::from_bytes(name).ok()) {
        onward.field(&name, &address);
    }
}

/// Returns `true` if the client sent `TE: trailers`.
pub(super) fn takes_trailers(fields: &FieldLines) -> bool {
    let mut members = fields.values(&header::TE).flat_map(|value| value.split(|byte| *byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Digest of a manifest (OCI distribution specification 1.1, "Pulling manifests").
pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

const X_FORWARDED_FOR: &[u8] = b"x-forwarded-for";
