//! Rules: conditions, and what holds where they are met.

use super::SetCookie;
use ipnet::IpNet;
use std::time::Duration;

choice! {
    /// Directives of an origin that a rule can set aside.
    pub enum OriginDirective {
        /// `no-store`. Needs `share_private`.
        NoStore = "no-store",
        /// `private`. Needs `share_private`.
        Private = "private",
        /// `no-cache`.
        NoCache = "no-cache",
        /// `must-revalidate` and `proxy-revalidate`.
        MustRevalidate = "must-revalidate",
    }
}

entry! {
    /// A rule. Its conditions come first; it applies where all of them hold. All rules that apply
    /// take part, in the order of the file, those of a site after the general ones; where two set
    /// the same thing, the later one wins.
    pub struct Rule {
        /// Name for `shoal explain` and messages.
        pub name: String = String::new(),
        /// Hosts: names, or `*.example.org` for subdomains. Empty means any.
        pub hosts: Vec<String> = Vec::new(),
        /// Paths, without the query. `*` stands for any characters, `/` among them. They are
        /// compared with the path in normal form, in which `%61` is `a`, `//` is `/`, and dot
        /// segments are resolved.
        pub paths: Vec<String> = Vec::new(),
        /// Regular expression that the path in normal form must contain; `^` and `$` are its ends.
        pub path_regex: Option<String> = None,
        /// Query parameters, one of which must be there: `name` or `name=value`, with `*` as in
        /// `paths`.
        pub query: Vec<String> = Vec::new(),
        /// Methods.
        pub methods: Vec<String> = Vec::new(),
        /// Request fields, one of which must be there: `Name` or `Name: value`, with `*` as in
        /// `paths`.
        pub request_fields: Vec<String> = Vec::new(),
        /// Statuses of the response: `404`, `500-504` or `5xx`. Without, lifetimes and stale
        /// windows of this rule hold for 200, 203, 204, 206, 300, 301, 302, 307 and 308 alone.
        pub statuses: Vec<String> = Vec::new(),
        /// Content types of the response, without parameters, such as `image/*`.
        pub content_types: Vec<String> = Vec::new(),
        /// Response fields, one of which must be there, as `request_fields`.
        pub response_fields: Vec<String> = Vec::new(),
        /// Freshness lifetime of responses, whatever the origin says. It counts from their arrival,
        /// as do the next three.
        #[limits(LIFETIME)]
        pub lifetime: Option<Duration> = None,
        /// Freshness lifetime of responses whose origin names none.
        #[limits(LIFETIME)]
        pub lifetime_default: Option<Duration> = None,
        /// Least freshness lifetime.
        #[limits(LIFETIME)]
        pub lifetime_min: Option<Duration> = None,
        /// Most freshness lifetime.
        #[limits(LIFETIME)]
        pub lifetime_max: Option<Duration> = None,
        /// Time after the lifetime in which a stale response is served at once, while it is
        /// validated.
        #[limits(LIFETIME)]
        pub stale_while_revalidate: Option<Duration> = None,
        /// Time after the lifetime in which a stale response stands in for an error of the origin.
        #[limits(LIFETIME)]
        pub stale_if_error: Option<Duration> = None,
        /// `false` keeps responses from being stored.
        pub store: Option<bool> = None,
        /// Treat reloads of clients (`no-cache`, `Pragma`, `max-age`, `min-fresh`) as plain
        /// requests.
        pub ignore_client_no_cache: Option<bool> = None,
        /// Directives of the origin that do not count.
        pub ignore_origin: Option<Vec<OriginDirective>> = None,
        /// Names in the origin's Vary that do not count; `*` is all of them.
        pub ignore_vary: Option<Vec<String>> = None,
        /// Share responses that are meant for one client: needed to set `no-store` or `private`
        /// aside. Answers to requests with credentials are then shared too.
        pub share_private: bool = false,
        /// Host that takes the place of the request's, in the key and towards the origin: one
        /// object under several names.
        pub host: Option<String> = None,
        /// Bring the path into normal form, in the key and towards the origin.
        pub normalise_path: Option<bool> = None,
        /// Query parameters that stay, with `*` as in `paths`; others are dropped from the key and
        /// from what the origin is asked.
        pub query_keep: Option<Vec<String>> = None,
        /// Query parameters that are dropped, such as `utm_*`.
        pub query_drop: Option<Vec<String>> = None,
        /// Sort query parameters by name.
        pub query_sort: Option<bool> = None,
        /// Codings that the origin has, best first. The first that the client takes is asked for,
        /// and no other.
        pub accept_encoding: Option<Vec<String>> = None,
        /// Languages that the origin has, best first, likewise.
        pub accept_language: Option<Vec<String>> = None,
        /// Cookies that the origin gets and that select among responses, by name, with `*` as in
        /// `paths`. Others are dropped. An empty list drops all.
        pub cookies: Option<Vec<String>> = None,
        /// Request fields that select among responses, as if the origin named them in Vary.
        pub key_fields: Option<Vec<String>> = None,
        /// What becomes of responses that set a cookie.
        pub set_cookie: Option<SetCookie> = None,
        /// Fields set on the way to the origin: `Name: value`. In values, `$scheme`, `$host`,
        /// `$path`, `$query`, `$url` and `$client` stand for those of the request, and `$$` for a
        /// dollar sign.
        pub request_set: Vec<String> = Vec::new(),
        /// Fields removed on the way to the origin.
        pub request_remove: Vec<String> = Vec::new(),
        /// Fields set in responses as they arrive, before they are judged and stored.
        pub response_set: Vec<String> = Vec::new(),
        /// Fields added to responses, likewise.
        pub response_add: Vec<String> = Vec::new(),
        /// Fields removed from responses, likewise.
        pub response_remove: Vec<String> = Vec::new(),
        /// Path prefix taken off what the origin is asked for.
        pub upstream_strip: Option<String> = None,
        /// Path prefix put before what the origin is asked for.
        pub upstream_add: Option<String> = None,
        /// Client networks that are served; others get 403.
        pub allow_clients: Option<Vec<IpNet>> = None,
        /// Refuse with this status.
        #[limits(Some(400)..=Some(599))]
        pub deny: Option<u16> = None,
        /// Redirect to this URL, which may have variables.
        pub redirect: Option<String> = None,
        /// Status of the redirect.
        #[limits(301..=308)]
        pub redirect_status: u16 = 302,
    }
    example {
        Self {
            name: "files".into(),
            paths: vec!["/files/*".into()],
            lifetime_default: Some(Duration::from_secs(600)),
            query_drop: Some(vec!["utm_*".into()]),
            ..Self::empty()
        }
    }
}

/// A lifetime longer than ten years is none.
const LIFETIME: std::ops::RangeInclusive<Option<Duration>> =
    Some(Duration::ZERO)..=Some(Duration::from_secs(315_360_000));

impl Rule {
    /// A rule without conditions that changes nothing.
    pub fn empty() -> Self {
        Self {
            name: String::new(),
            hosts: Vec::new(),
            paths: Vec::new(),
            path_regex: None,
            query: Vec::new(),
            methods: Vec::new(),
            request_fields: Vec::new(),
            statuses: Vec::new(),
            content_types: Vec::new(),
            response_fields: Vec::new(),
            lifetime: None,
            lifetime_default: None,
            lifetime_min: None,
            lifetime_max: None,
            stale_while_revalidate: None,
            stale_if_error: None,
            store: None,
            ignore_client_no_cache: None,
            ignore_origin: None,
            ignore_vary: None,
            share_private: false,
            host: None,
            normalise_path: None,
            query_keep: None,
            query_drop: None,
            query_sort: None,
            accept_encoding: None,
            accept_language: None,
            cookies: None,
            key_fields: None,
            set_cookie: None,
            request_set: Vec::new(),
            request_remove: Vec::new(),
            response_set: Vec::new(),
            response_add: Vec::new(),
            response_remove: Vec::new(),
            upstream_strip: None,
            upstream_add: None,
            allow_clients: None,
            deny: None,
            redirect: None,
            redirect_status: 302,
        }
    }
}
