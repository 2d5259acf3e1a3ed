//! Reasons of Cache-Status, each with its meaning, its remedy and the settings that change it.
//!
//! They are the rows of docs/REASONS.md, and the reasons of `shoal top misses`.

/// Declares an enum of reasons. A row has a token, the meaning, the remedy, and the settings that
/// the remedy names. `rule.x` stands for `x` in a `[[rule]]` or `[[site.rule]]`.
macro_rules! reasons {
    ($(#[$about:meta])* $type:ident {
        $($(#[$quote:meta])* $name:ident = $token:literal, $meaning:literal, $remedy:literal, [$($setting:literal),*];)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = $meaning] $(#[$quote])* $name,)*
        }

        impl $type {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the token.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $token,)* }
            }

            /// Returns the meaning, one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// Returns the remedy: the setting that changes the handling, or the duty of another
            /// party.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }

            /// Returns the settings that change the handling; empty if there are none.
            pub const fn settings(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($setting),*],)* }
            }
        }
    };
}

reasons! {
    /// Reason for the handling of a request: the `detail` of Cache-Status.
    Reason {
        NoStore = "no-store",
            "The origin said `no-store`.",
            "A rule with `ignore_origin = [\"no-store\"]` and `share_private = true`, if all clients may see the answer.",
            ["rule.ignore_origin", "rule.share_private"];
        Private = "private",
            "The origin said `private`: the answer is for one client.",
            "A rule with `ignore_origin = [\"private\"]` and `share_private = true`, if all clients may see the answer.",
            ["rule.ignore_origin", "rule.share_private"];
        SetCookie = "set-cookie",
            "The answer sets a cookie.",
            "`set_cookie = \"strip\"` in a rule, a site or `[cache]` stores the answer without the cookie.",
            ["rule.set_cookie"];
        VaryAny = "vary-any",
            "The origin said `Vary: *`: no later request can match.",
            "A rule with `ignore_vary = [\"*\"]`.",
            ["rule.ignore_vary"];
        Authorization = "authorization",
            "The request had Authorization, and the origin did not say `public`, `s-maxage` or `must-revalidate`.",
            "Such a directive of the origin, or a rule with `share_private = true`.",
            ["rule.share_private"];
        RequestNoStore = "request-no-store",
            "The client said `no-store`.",
            "A rule with `request_remove = [\"Cache-Control\"]`; later clients are served from the cache anyway.",
            ["rule.request_remove"];
        RequestCookie = "request-cookie",
            "Only a rule gives the answer a lifetime, and the request had cookies: the page may be made for this client.",
            "A rule with `cookies`, which names the cookies that count; `cookies = []` if none does.",
            ["rule.cookies"];
        NotPermitted = "not-permitted",
            "Nothing permits storing: no lifetime of the origin, and a status that is not stored without one.",
            "A rule with `lifetime_default` or `lifetime` that names the status in `statuses`.",
            ["rule.lifetime_default"];
        NeverReusable = "never-reusable",
            "The answer would never be fresh and has no validator, so that storing it would spare nothing.",
            "A lifetime or an ETag of the origin, or a rule with `lifetime_default` or `lifetime`.",
            ["rule.lifetime_default"];
        Status = "status",
            "Answers of this status are never stored.",
            "None: HTTP forbids it, or the status is unknown.",
            [];
        Method = "method",
            "The method makes no answer from the cache: only GET and HEAD have one, and sites make no tunnels.",
            "None.",
            [];
        ContentRange = "content-range",
            "The answer is a part of unknown place, so that it cannot be put together with others.",
            "The origin: a correct Content-Range and a strong ETag.",
            [];
        WholeStored = "whole-stored",
            "The whole answer is stored already, so that its part is not.",
            "None is needed.",
            [];
        TooLarge = "too-large",
            "The answer is larger than RAM tier and disk accept.",
            "`cache.ram_object_max`, `store.object_max`.",
            ["cache.ram_object_max", "store.object_max"];
        ConnectionAuth = "connection-auth",
            "The answer belongs to a connection that NTLM or Negotiate authenticated.",
            "The origin: another kind of authentication.",
            [];
        Rule = "rule",
            "A rule of the operator refuses, redirects or passes the request, or keeps its answer from being stored.",
            "The rule's `deny`, `redirect`, `allow_clients`, `pass` or `store`; `shoal explain URL` names the rule.",
            ["rule.deny", "rule.redirect", "rule.allow_clients", "rule.pass", "rule.store"];
        StaleIfError = "stale-if-error",
            "The origin failed, and its error was passed on: no stale answer may stand in for it.",
            "`cache.stale_if_error`, or a rule with `stale_if_error`.",
            ["cache.stale_if_error", "rule.stale_if_error"];
        RetryAfter = "retry-after",
            "The origin asked for a pause, and a stale answer is served meanwhile.",
            "`cache.retry_after_max`.",
            ["cache.retry_after_max"];
        ReloadInterval = "reload-interval",
            "The client asked for a reload, and another client had just caused one.",
            "`cache.reload_interval`; `0s` lets each reload through.",
            ["cache.reload_interval"];
        OnlyIfCached = "only-if-cached",
            "The client said `only-if-cached`, and nothing stored may answer.",
            "The client.",
            [];
        Denied = "denied",
            "An access setting refuses the request; the answer and `details` of Proxy-Status name it.",
            "The named setting: `allow_clients`, `forward.users_file`, `forward.connect_ports`, `forward.request_ports`, \
             `forward.deny_destinations` or `forward.allow_private_destinations`.",
            ["listen.allow_clients", "forward.users_file", "forward.connect_ports", "forward.request_ports", "forward.deny_destinations", "forward.allow_private_destinations"];
        ClientRate = "client-rate",
            "The client's network sent more requests than the rate of a rule.",
            "The rule's `client_rate` and `client_burst`; behind a proxy, `trusted_proxies` tells clients apart.",
            ["rule.client_rate", "rule.client_burst"];
        WrongPasswords = "wrong-passwords",
            "The client's network sent ten wrong passwords, and has to wait before each further one.",
            "The client: wait, then send the right password.",
            [];
        User = "user",
            "A listener or a rule asks for a user, and the request names none that `users_file` has.",
            "`users_file` of the listener or the rule; `satisfy = \"any\"` lets networks or certificates do.",
            ["listen.users_file", "rule.users_file"];
        Certificate = "certificate",
            "A rule asks for a client certificate that the connection does not have.",
            "The rule's `allow_certificates`, and `client_certificate` of the listener.",
            ["rule.allow_certificates", "listen.client_certificate"];
        Site = "site",
            "No site is served under this host and path.",
            "A `[[site]]` with the host in `hosts`.",
            ["site.hosts"];
        Misdirected = "misdirected",
            "The connection's certificate is not for the host of the request.",
            "A certificate in `listen.tls` that has the host.",
            ["listen.tls"];
        Https = "https",
            "The listener sends clients of http to https.",
            "`redirect_https` of the listener.",
            ["listen.redirect_https"];
        Challenge = "challenge",
            "A certificate authority asked for the answer to a challenge, and got it.",
            "Nothing is wrong: a listener with `acme` orders a certificate.",
            ["listen.acme"];
        Purge = "purge",
            "The request was a PURGE.",
            "`admin.purge_from` names the networks that may purge.",
            ["admin.purge_from"];
        Loop = "loop",
            "The request has passed this node before.",
            "The way of the request: an upstream or a proxy leads back. Nodes in a row need different names in `cache.name`.",
            ["cache.name"];
        MaxForwards = "max-forwards",
            "TRACE or OPTIONS reached its number of hops here.",
            "The client.",
            [];
        Target = "target",
            "The request names no URL that can be read.",
            "The client. A forward listener needs the whole URL, a site the Host field.",
            [];
        Request = "request",
            "The request breaks HTTP, or exceeds a limit.",
            "The client; the limits are in `[client]`.",
            [];
        Tunnel = "tunnel",
            "The request opened a tunnel, into which the cache does not see.",
            "None: use a site to cache what clients reach by https.",
            [];
        Neighbour = "neighbour",
            "The answer came from a neighbour whose answers are not stored, or is this node's digest for a neighbour.",
            "`proxy_only` of the `[[neighbour]]`.",
            ["neighbour.proxy_only"];
        Mirror = "mirror",
            "A mirror of a package registry answered by itself: it refused the request, or could not check the file.",
            "`refuse`, `owned`, `minimum_age`, `offline` and `file_hosts` of the `[[mirror]]`; the body of the answer says which.",
            ["mirror.refuse", "mirror.owned", "mirror.minimum_age", "mirror.offline", "mirror.file_hosts"];
        Abandoned = "abandoned",
            "The client left before the answer.",
            "The client, or a faster origin.",
            [];
    }
}

reasons! {
    /// Reason for forwarding a request: the `fwd` of Cache-Status (RFC 9211, section 2.2).
    ForwardReason {
        /// "The cache was configured to not handle this request."
        Bypass = "bypass",
            "The cache has no part in the request: conditions for the origin, an upgrade, a body, a login, or a rule.",
            "The client, or the rule's `pass`.",
            [];
        /// "The request method's semantics require the request to be forwarded."
        Method = "method",
            "The method is neither GET nor HEAD.",
            "None.",
            [];
        /// "The cache did not contain any responses that matched the request URI."
        UriMiss = "uri-miss",
            "Nothing is stored for the URL.",
            "`detail` says why the answer was not stored; without it the next request is a hit. If it was stored and \
             is gone: `cache.ram`, `store.disk`, or a rule with `query_drop` for one answer under many URLs.",
            ["cache.ram", "store.disk", "rule.query_drop"];
        /// "The cache contained a response that matched the request URI, but it could not select a
        /// response based upon this request's header fields and stored Vary header fields."
        VaryMiss = "vary-miss",
            "Answers for other fields of Vary are stored.",
            "A rule with `accept_encoding`, `accept_language`, `cookies` or `ignore_vary`.",
            ["rule.accept_encoding", "rule.accept_language", "rule.ignore_vary"];
        /// "The cache did not contain any responses that could be used to satisfy this request (to
        /// be used when an implementation cannot distinguish between uri-miss and vary-miss)."
        Miss = "miss",
            "The cache changed during the request.",
            "None is needed.",
            [];
        /// "The cache was able to select a fresh response for the request, but the request's
        /// semantics (e.g., Cache-Control request directives) did not allow its use."
        Request = "request",
            "A fresh answer is stored, and the client asked for another (`no-cache`, `max-age`, `min-fresh`).",
            "A rule with `ignore_client_no_cache = true`, or a longer `cache.reload_interval`.",
            ["rule.ignore_client_no_cache", "cache.reload_interval"];
        /// "The cache was able to select a response for the request, but it was stale."
        Stale = "stale",
            "The stored answer is stale, or must be validated each time.",
            "A longer lifetime, such as a rule's `lifetime_min`, or a rule with `stale_while_revalidate` or \
             `ignore_origin = [\"no-cache\"]`.",
            ["rule.lifetime_min", "rule.stale_while_revalidate"];
        /// "The cache was able to select a partial response for the request, but it did not contain
        /// all of the requested ranges (or the request was for the complete response)."
        Partial = "partial",
            "Only other parts of the answer are stored.",
            "None is needed.",
            [];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row of a list: token, meaning, remedy, settings.
    type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

    fn check(rows: &[Row]) {
        for (at, (token, meaning, remedy, settings)) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|(earlier, ..)| earlier != token), "{token}");
            for text in [meaning, remedy] {
                assert!(text.ends_with('.') && !text.contains('|'), "{text}");
            }
            for setting in *settings {
                let (_, name) = setting.split_once('.').expect("a table and a name");
                assert!(remedy.contains(name), "the remedy of {token} does not name {setting}");
            }
        }
    }

    #[test]
    fn tokens_differ_and_remedies_name_settings() {
        let row = |it: &Reason| (it.as_str(), it.meaning(), it.remedy(), it.settings());
        check(&Reason::ALL.iter().map(row).collect::<Vec<_>>());
        let row = |it: &ForwardReason| (it.as_str(), it.meaning(), it.remedy(), it.settings());
        check(&ForwardReason::ALL.iter().map(row).collect::<Vec<_>>());
    }
}
