//! Filters for the requests of a log.

use crate::outcome::Outcome;
use crate::record::{Record, scheme_of};

/// Conditions on a request. The default accepts all requests.
///
/// Maltzahn 1999, section 4: "removed every non-HTTP request, every HTTP request with a reply code
/// other than 200 (OK), and every HTTP request which contain ? or cgi-bin". A field that the log
/// does not have excludes no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Status 200 only.
    pub ok_only: bool,
    /// No `?` in the URL.
    pub no_query: bool,
    /// No `cgi-bin` in the URL.
    pub no_cgi: bool,
    /// Only URLs of http and https. A path without a scheme, as in logs of origins, counts as http.
    pub http_only: bool,
    /// Method GET only.
    pub get_only: bool,
    /// Status 200 or 304 only: the object existed, whether or not the server had to send it.
    pub found_only: bool,
    /// Only GET and HEAD with a status that a cache may store by default (RFC 9110, 15.1), and the
    /// 304 that confirms such a response. A request is refused too if its log says that no cache
    /// may store the answer ([`Outcome::forbids_storing`]).
    pub cacheable_only: bool,
    /// Smallest accepted size, in bytes.
    pub bytes_min: u64,
    /// Largest accepted size, in bytes.
    pub bytes_max: u64,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            ok_only: false,
            no_query: false,
            no_cgi: false,
            http_only: false,
            get_only: false,
            found_only: false,
            cacheable_only: false,
            bytes_min: 0,
            bytes_max: u64::MAX,
        }
    }
}

/// Reasons for refusing a request, in the order of the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// The scheme is not http.
    Scheme,
    /// The method is not accepted.
    Method,
    /// The status is not 200, or not among the accepted ones.
    Status,
    /// The URL has a `?`.
    Query,
    /// The URL has `cgi-bin`.
    Cgi,
    /// The response is too small or too large.
    Size,
    /// The log says that the answer may not be stored.
    NotStored,
}

impl Filter {
    /// The names of the rules, for the command line.
    pub const RULES: [&'static str; 9] =
        ["none", "paper", "http", "get", "status200", "found", "cacheable", "no-query", "no-cgi"];

    /// Returns the filter of the paper.
    pub fn paper() -> Self {
        Self { ok_only: true, no_query: true, no_cgi: true, http_only: true, ..Self::default() }
    }

    /// Adds the rule named `rule`, one of [`Filter::RULES`]. Returns `false` for an unknown name.
    pub fn add(&mut self, rule: &str) -> bool {
        match rule {
            "none" => {
                *self = Self { bytes_min: self.bytes_min, bytes_max: self.bytes_max, ..Self::default() }
            }
            "paper" => {
                *self = Self {
                    bytes_min: self.bytes_min,
                    bytes_max: self.bytes_max,
                    get_only: self.get_only,
                    ..Self::paper()
                }
            }
            "http" => self.http_only = true,
            "get" => self.get_only = true,
            "status200" => self.ok_only = true,
            "found" => self.found_only = true,
            "cacheable" => self.cacheable_only = true,
            "no-query" => self.no_query = true,
            "no-cgi" => self.no_cgi = true,
            _ => return false,
        }
        true
    }

    /// Returns the reason for refusing a request, or `None` for an accepted request.
    pub fn refuses(&self, record: &Record<'_>) -> Option<RefusalReason> {
        let scheme = || scheme_of(&record.url).is_none_or(is_http);
        let broken = [
            (self.http_only && !scheme(), RefusalReason::Scheme),
            (
                self.get_only && record.method.as_deref().is_some_and(|method| method != "GET")
                    || self.cacheable_only
                        && record.method.as_deref().is_some_and(|method| !matches!(method, "GET" | "HEAD")),
                RefusalReason::Method,
            ),
            (record.status.is_some_and(|status| self.refuses_status(status)), RefusalReason::Status),
            (self.no_query && record.url.contains('?'), RefusalReason::Query),
            (self.no_cgi && record.url.contains("cgi-bin"), RefusalReason::Cgi),
            (
                record.bytes.is_some_and(|bytes| bytes < self.bytes_min || bytes > self.bytes_max),
                RefusalReason::Size,
            ),
            (
                self.cacheable_only && record.outcome.is_some_and(Outcome::forbids_storing),
                RefusalReason::NotStored,
            ),
        ];
        broken.into_iter().find_map(|(is_broken, why)| is_broken.then_some(why))
    }
}

impl Filter {
    fn refuses_status(&self, status: u16) -> bool {
        self.ok_only && status != 200
            || self.found_only && !matches!(status, 200 | 304)
            || self.cacheable_only
                && !matches!(
                    status,
                    200 | 203 | 204 | 206 | 300 | 301 | 304 | 308 | 404 | 405 | 410 | 414 | 501
                )
    }
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 7] =
        [Self::Scheme, Self::Method, Self::Status, Self::Query, Self::Cgi, Self::Size, Self::NotStored];

    /// Returns the reason as a description of the refused requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheme => "not http",
            Self::Method => "with a method that does not count",
            Self::Status => "with a status that does not count",
            Self::Query => "with ?",
            Self::Cgi => "with cgi-bin",
            Self::Size => "size out of limits",
            Self::NotStored => "that the log says no cache may store",
        }
    }
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_rules_are_those_of_its_section_4() {
        let paper = Filter { bytes_max: 8192, ..Filter::paper() };
        let case =
            |url: &'static str, status, bytes| Record { url: url.into(), status, bytes, ..Record::default() };
        for (record, why) in [
            (case("http://a/", Some(200), Some(8192)), None),
            (case("/path", None, None), None),
            (case("http://a/", Some(304), Some(1)), Some(RefusalReason::Status)),
            (case("http://a/?x", Some(200), Some(1)), Some(RefusalReason::Query)),
            (case("http://a/cgi-bin/x", Some(200), Some(1)), Some(RefusalReason::Cgi)),
            (case("ftp://a/", Some(200), Some(1)), Some(RefusalReason::Scheme)),
            (case("a.example:443", Some(200), Some(1)), Some(RefusalReason::Scheme)),
            (case("http://a/", Some(200), Some(8193)), Some(RefusalReason::Size)),
        ] {
            assert_eq!(paper.refuses(&record), why, "{record:?}");
            assert_eq!(Filter::default().refuses(&record), None);
        }
    }

    #[test]
    fn each_name_is_a_rule() {
        let case = |method: &'static str, status| Record {
            url: "http://a/".into(),
            method: Some(method.into()),
            status: Some(status),
            ..Record::default()
        };
        for (rule, record, why) in [
            ("found", case("GET", 304), None),
            ("found", case("POST", 200), None),
            ("found", case("GET", 404), Some(RefusalReason::Status)),
            ("cacheable", case("HEAD", 404), None),
            ("cacheable", case("POST", 200), Some(RefusalReason::Method)),
            ("cacheable", case("GET", 302), Some(RefusalReason::Status)),
            ("get", case("HEAD", 200), Some(RefusalReason::Method)),
        ] {
            let mut filter = Filter::default();
            assert!(filter.add(rule));
            assert_eq!(filter.refuses(&record), why, "{rule} {record:?}");
        }
        let mut filter = Filter::default();
        assert!(filter.add("cacheable"));
        for (outcome, why) in [
            (Outcome::Hit, None),
            (Outcome::Miss, None),
            (Outcome::NotStored("too-large"), None),
            (Outcome::NotStored("never-reusable"), Some(RefusalReason::NotStored)),
            (Outcome::Bypass, Some(RefusalReason::NotStored)),
        ] {
            let record = Record { outcome: Some(outcome), ..case("GET", 200) };
            assert_eq!((filter.refuses(&record), Filter::default().refuses(&record)), (why, None));
        }
        for rule in Filter::RULES {
            assert!(Filter::default().add(rule), "{rule}");
        }
        let mut filter = Filter::default();
        assert!(!filter.add("paperr"));
        ["http", "status200", "no-query", "no-cgi"].iter().for_each(|rule| assert!(filter.add(rule)));
        assert_eq!(filter, Filter::paper());
        assert!(filter.add("get") && filter.add("paper") && filter.get_only);
        assert!(filter.add("none"));
        assert_eq!(filter, Filter::default());
    }
}
