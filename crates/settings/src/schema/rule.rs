//! Rules: conditions and settings.

use super::SetCookie;
use crate::setting::Section as _;
use ipnet::IpNet;
use std::path::PathBuf;
use std::time::Duration;

choice! {
    /// Directives of an origin that a rule can set aside.
    pub enum OriginDirective {
        /// Ban on storing. Needs `share_private`.
        NoStore = "no-store",
        /// Restriction to one client. Needs `share_private`.
        Private = "private",
        /// Validation for each use.
        NoCache = "no-cache",
        /// Ban on stale answers, also by `proxy-revalidate` and `s-maxage`. The lifetime stays.
        MustRevalidate = "must-revalidate",
    }
}

choice! {
    /// Conditions of access that must hold.
    pub enum Satisfy {
        /// All of them.
        All = "all",
        /// One of them.
        Any = "any",
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
        /// Freshness lifetime of responses, in place of the origin's. It counts from their arrival,
        /// as do the next three.
        #[limits(LIFETIME)]
        pub lifetime: Option<Duration> = None,
        /// Freshness lifetime of responses without one from the origin.
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
        /// `true` takes requests past the cache: they are neither looked up nor stored.
        pub pass: Option<bool> = None,
        /// `true` keeps stored responses on disk when space is made for others, up to
        /// `store.pin_max`. Takes `store.architecture = "volume"`.
        pub pin: Option<bool> = None,
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
        /// from the request to the origin.
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
        /// Treatment of responses that set a cookie.
        pub set_cookie: Option<SetCookie> = None,
        /// Fields set on the way to the origin: `Name: value`. In values, `$scheme`, `$host`,
        /// `$path`, `$query`, `$url` and `$client` stand for those of the request, and `$$` for a
        /// dollar sign. `$client_certificate` is the subject of the client's certificate, or empty.
        pub request_set: Vec<String> = Vec::new(),
        /// Fields removed on the way to the origin.
        pub request_remove: Vec<String> = Vec::new(),
        /// Fields set in responses as they arrive, before they are judged and stored.
        pub response_set: Vec<String> = Vec::new(),
        /// Fields added to responses, likewise.
        pub response_add: Vec<String> = Vec::new(),
        /// Fields removed from responses, likewise.
        pub response_remove: Vec<String> = Vec::new(),
        /// Path prefix taken off the path that the origin gets.
        pub upstream_strip: Option<String> = None,
        /// Path prefix put before the path that the origin gets.
        pub upstream_add: Option<String> = None,
        /// Client networks that are served; others get 403.
        pub allow_clients: Option<Vec<IpNet>> = None,
        /// Refuse with this status.
        #[limits(Some(400)..=Some(599))]
        pub deny: Option<u16> = None,
        /// Redirect to this URL, which may have variables. `https://$host$path?$query` keeps the
        /// query, and has no `?` without one.
        pub redirect: Option<String> = None,
        /// Status of the redirect.
        #[limits(301..=308)]
        pub redirect_status: u16 = 302,
        /// Page in place of the body of errors that this node answers itself, such as 403, 404
        /// without a site, 502 and 504: a file of at most 1 MiB, which is read again on reload. Its
        /// ending gives the content type. Without `statuses` the page is for every error.
        pub error_page: Option<PathBuf> = None,
        /// Use `error_page` for errors of the origin too. Status and lifetime stay.
        pub error_page_origin: bool = false,
        /// Errors of the origin in place of which a stale response is served within its
        /// `stale_if_error`. Statuses as in `statuses`; `connect` is no connection, `timeout` no
        /// answer in time, `broken` an answer that cannot be understood. Without, they are 429,
        /// 500, 502, 503, 504 and all failures.
        pub stale_on: Option<Vec<String>> = None,
        /// Requests a second of one client network, on average: an IPv4 address, or a /64 of IPv6.
        /// Further ones get 429. Answers from the cache count. Each rule counts by itself. 0.5 is
        /// one request in two seconds.
        #[limits(Some(0.001)..=Some(1_000_000.0))]
        pub client_rate: Option<f64> = None,
        /// Requests that a client may make at once, before the rate holds; `none` means those of
        /// one second.
        #[limits(Some(1)..=Some(1_000_000))]
        pub client_burst: Option<u32> = None,
        /// File of users, as `forward.users_file`: clients must authenticate with the Basic scheme.
        /// The Authorization field is then this node's: the origin does not get it, and responses
        /// are shared among users as those to requests without it. On a listener in forward mode
        /// the Proxy-Authorization field is asked for.
        pub users_file: Option<PathBuf> = None,
        /// Realm named in the challenge of `users_file`; `none` means `shoal`.
        pub realm: Option<String> = None,
        /// `true` sends the Authorization field on to the origin. Responses are then shared only
        /// where the origin allows it (RFC 9111, section 3.5).
        pub forward_authorization: Option<bool> = None,
        /// Client certificates that are served; others, and clients without one, get 403. An entry
        /// is `CN=name`, or a DNS name or URI of the certificate, with `*` as in `paths`. Other
        /// parts of the subject are `O`, `OU`, `C`, `L`, `ST`, `DC`, `UID` and `emailAddress`.
        /// Needs `listen.client_ca`.
        pub allow_certificates: Option<Vec<String>> = None,
        /// `any` serves clients for which one of `allow_clients`, `users_file` and
        /// `allow_certificates` holds; `all` and `none` want all of them.
        pub satisfy: Option<Satisfy> = None,
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
    /// Returns the name and text of each setting that differs from its default, conditions first.
    pub fn written(&self) -> Vec<(&'static str, String)> {
        let unset = Self::empty().write_fields();
        let differ = self.write_fields().into_iter().zip(unset).filter(|(own, unset)| own != unset);
        differ.map(|((name, value), _)| (name, value.to_string())).collect()
    }

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
            pass: None,
            pin: None,
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
            error_page: None,
            error_page_origin: false,
            stale_on: None,
            client_rate: None,
            client_burst: None,
            users_file: None,
            realm: None,
            forward_authorization: None,
            allow_certificates: None,
            satisfy: None,
        }
    }
}
