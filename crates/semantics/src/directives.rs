//! Cache-Control of requests and of responses (RFC 9111, section 5.2), read with the leniency that
//! is common among caches.
//!
//! Names are compared without case, values may be tokens or quoted strings, and unknown directives
//! are skipped. An unreadable value errs towards not reusing. A broken number of seconds is 0; a
//! broken list of field names stands for the whole response. Of several values the first counts
//! (section 4.2.1: "either the first occurrence should be used or the response should be considered
//! stale").

use crate::lists;
use http::header::{CACHE_CONTROL, HeaderName, PRAGMA};
use shoal_core::Fields;

/// Directives of a response that matter to a shared cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// `max-age`, in seconds.
    pub max_age: Option<u32>,
    /// `s-maxage`, in seconds.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861), in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861), in seconds.
    pub stale_if_error: Option<u32>,
    /// `no-cache`, perhaps for some fields only.
    pub no_cache: Scope,
    /// `private`, perhaps for some fields only.
    pub private: Scope,
    /// `no-store`.
    pub no_store: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
    /// `true` if an operator lets responses with `s-maxage` be served stale.
    pub stale_beside_s_maxage: bool,
}

/// Reach of `no-cache` or `private`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The directive is absent.
    #[default]
    Nothing,
    /// The directive names these fields.
    Fields(Vec<HeaderName>),
    /// The directive has no argument and covers the whole response.
    Response,
}

impl CacheControl {
    /// Reads the directives in the Cache-Control lines of a response.
    pub fn of(response: &impl Fields) -> Self {
        Self::parse(response.values(&CACHE_CONTROL))
    }

    /// Reads the directives in these lines of the field.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut read = Self::default();
        for member in lines.into_iter().flat_map(lists::members) {
            let (name, argument) = Argument::split(member);
            read.take(name, argument);
        }
        read
    }

    /// Returns `true` if a stored response must not be reused without validation, even while fresh.
    pub fn always_validate(&self) -> bool {
        self.no_cache == Scope::Response
    }

    /// Returns `true` if a response must not be served stale, not even when the origin fails.
    ///
    /// RFC 9111, section 4.2.4: "A cache MUST NOT generate a stale response if it is prohibited by
    /// an explicit in-protocol directive (e.g., by a no-cache response directive, a must-revalidate
    /// response directive, or an applicable s-maxage or proxy-revalidate response directive".
    pub fn forbids_stale(&self) -> bool {
        let by_s_maxage = self.s_maxage.is_some() && !self.stale_beside_s_maxage;
        self.must_revalidate || self.proxy_revalidate || by_s_maxage || self.always_validate()
    }

    /// Applies one directive, with its name in any case.
    pub(crate) fn take(&mut self, name: &[u8], argument: Argument<'_>) {
        let mut lower = [0; NAME_MAX];
        let Some(lower) = lower.get_mut(..name.len()) else { return };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match &*lower {
            b"max-age" => argument.seconds_into(&mut self.max_age),
            b"s-maxage" => argument.seconds_into(&mut self.s_maxage),
            b"stale-while-revalidate" => argument.seconds_into(&mut self.stale_while_revalidate),
            b"stale-if-error" => argument.seconds_into(&mut self.stale_if_error),
            b"no-cache" => self.no_cache.widen(argument),
            b"private" => self.private.widen(argument),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"no-transform" => self.no_transform = true,
            b"immutable" => self.immutable = true,
            _ => {}
        }
    }
}

impl Scope {
    /// Returns the named fields; none when the directive covers the whole response.
    pub fn fields(&self) -> &[HeaderName] {
        match self {
            Self::Fields(names) => names,
            Self::Nothing | Self::Response => &[],
        }
    }

    fn widen(&mut self, argument: Argument<'_>) {
        match (&mut *self, argument.field_names()) {
            (Self::Fields(held), Some(more)) => held.extend(more),
            (Self::Nothing, Some(names)) => *self = Self::Fields(names),
            (Self::Response, _) | (_, None) => *self = Self::Response,
        }
    }
}

/// Directives of a request (RFC 9111, section 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-cache`, or `Pragma: no-cache` without Cache-Control.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`: answer from storage or with 504.
    pub only_if_cached: bool,
    /// `max-age`: the highest age wanted, in seconds.
    pub max_age: Option<u32>,
    /// `min-fresh`: seconds for which the response shall still be fresh.
    pub min_fresh: Option<u32>,
    /// `max-stale`: seconds since the response became stale, at most; `u32::MAX` for any time.
    pub max_stale: Option<u32>,
    /// `stale-if-error` (RFC 5861): the same limit for the case that the origin fails.
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Reads the directives of a request.
    ///
    /// RFC 9111 deprecates Pragma, but some clients still send it. RFC 7234, section 5.4, defined
    /// its meaning: "When the Cache-Control header field is also present and understood in a
    /// request, Pragma is ignored."
    pub fn of(request: &impl Fields) -> Self {
        let mut read = Self::default();
        let mut present = false;
        for line in request.values(&CACHE_CONTROL) {
            present = true;
            lists::members(line).for_each(|member| read.take(member));
        }
        if !present {
            read.no_cache =
                lists::field_members(request, &PRAGMA).any(|it| it.eq_ignore_ascii_case(b"no-cache"));
        }
        read
    }

    /// Returns `true` if a fresh response may not satisfy the request. Such a request wants a
    /// validation, or sets its own limit of age or freshness (`no-cache`, `max-age`, `min-fresh`).
    pub fn is_reload(&self) -> bool {
        self.no_cache || self.max_age.is_some() || self.min_fresh.is_some()
    }

    /// Returns the directives without those that make the request a reload.
    pub fn without_reload(self) -> Self {
        Self { no_cache: false, max_age: None, min_fresh: None, ..self }
    }

    fn take(&mut self, member: &[u8]) {
        let (name, argument) = Argument::split(member);
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("max-age") {
            argument.seconds_into(&mut self.max_age);
        } else if is("min-fresh") {
            // A broken number asks for more freshness than there is.
            self.min_fresh.get_or_insert(argument.seconds().unwrap_or(lists::SECONDS_MAX));
        } else if is("max-stale") && matches!(argument, Argument::None) {
            self.max_stale.get_or_insert(u32::MAX);
        } else if is("max-stale") {
            argument.seconds_into(&mut self.max_stale);
        } else if is("stale-if-error") {
            argument.seconds_into(&mut self.stale_if_error);
        }
    }
}

/// Text behind the `=` of a directive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'a> {
    /// The directive has no `=`.
    None,
    /// A token or quoted string, unread.
    Text(&'a [u8]),
    /// Whitespace around the `=`, which the grammar does not allow; the argument is ignored.
    Broken,
}

impl<'a> Argument<'a> {
    /// Splits a list member into name and argument.
    fn split(member: &'a [u8]) -> (&'a [u8], Self) {
        let Some(equals) = member.iter().position(|byte| *byte == b'=') else {
            return (member, Self::None);
        };
        let (name, text) = (&member[..equals], &member[equals + 1..]);
        match name.last().into_iter().chain(text.first()).any(|byte| matches!(byte, b' ' | b'\t')) {
            true => (lists::trim(name), Self::Broken),
            false => (name, Self::Text(text)),
        }
    }

    fn seconds(self) -> Option<u32> {
        let Self::Text(text) = self else { return None };
        lists::delta_seconds(&lists::unquote(text)?)
    }

    /// Sets `held` unless an earlier directive did.
    ///
    /// RFC 9111, section 4.2.1: "Caches are encouraged to consider responses that have invalid
    /// freshness information (e.g., a max-age directive with non-integer content) to be stale."
    fn seconds_into(self, held: &mut Option<u32>) {
        held.get_or_insert(self.seconds().unwrap_or(0));
    }

    /// Returns the field names of `no-cache="…"` or `private="…"`. `None` when there are none, or
    /// when one is not a field name.
    ///
    /// RFC 9111, section 5.2.2.4: "This directive uses the quoted-string form of the argument
    /// syntax. A sender SHOULD NOT generate the token form (even if quoting appears not to be
    /// needed for single-entry lists)."
    fn field_names(self) -> Option<Vec<HeaderName>> {
        let Self::Text(text) = self else { return None };
        let text = lists::unquote(text)?;
        let names: Option<Vec<_>> =
            lists::members(&text).map(|name| HeaderName::from_bytes(name).ok()).collect();
        names.filter(|names| !names.is_empty())
    }
}

/// Length of the longest directive name known here.
const NAME_MAX: usize = "stale-while-revalidate".len();

#[cfg(test)]
mod tests;
