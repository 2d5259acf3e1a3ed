//! The conditions of a rule.

use crate::pattern::{FieldPattern, Glob, ParameterPattern, StatusSet};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use regex::Regex;
use shoal_core::Fields;

/// Conditions that a request and its response must meet, all of them. An empty list asks nothing.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Number of the site that the rule belongs to.
    pub site: Option<usize>,
    /// Names and `*.suffix`, in lower case.
    pub hosts: Vec<String>,
    /// Patterns of the path in normal form.
    pub paths: Vec<Glob>,
    /// Expression that the path in normal form must hold.
    pub path_regex: Option<Regex>,
    /// Query parameters, one of which must be there.
    pub query: Vec<ParameterPattern>,
    /// Methods.
    pub methods: Vec<Method>,
    /// Request fields, one of which must be there.
    pub request_fields: Vec<FieldPattern>,
    /// Statuses.
    pub statuses: StatusSet,
    /// Content types, without parameters.
    pub content_types: Vec<Glob>,
    /// Response fields, one of which must be there.
    pub response_fields: Vec<FieldPattern>,
}

impl Conditions {
    /// Returns `true` if the request's URL fits. `path` is in normal form; the index has compared
    /// host and path prefix.
    pub fn match_url(&self, site: Option<usize>, path: &str, query: Option<&str>) -> bool {
        self.site.is_none_or(|own| site == Some(own))
            && (self.paths.is_empty() || self.paths.iter().any(|glob| glob.matches(path.as_bytes())))
            && self.path_regex.as_ref().is_none_or(|regex| regex.is_match(path))
            && (self.query.is_empty()
                || query.is_some_and(|query| self.query.iter().any(|pattern| pattern.matches(query))))
    }

    /// Returns `true` if something is asked of the request beside its URL.
    pub fn asks_request(&self) -> bool {
        !self.methods.is_empty() || !self.request_fields.is_empty()
    }

    /// Returns `true` if method and fields of the request fit.
    pub fn match_request(&self, method: &Method, fields: &impl Fields) -> bool {
        (self.methods.is_empty() || self.methods.contains(method))
            && (self.request_fields.is_empty()
                || self.request_fields.iter().any(|pattern| pattern.matches(fields)))
    }

    /// Returns `true` if the response fits.
    pub fn match_response(&self, status: StatusCode, fields: &impl Fields) -> bool {
        let media_type = || {
            let value = fields.value(&CONTENT_TYPE).unwrap_or_default();
            value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase()
        };
        (self.statuses.is_empty() || self.statuses.has(status))
            && (self.content_types.is_empty() || {
                let media_type = media_type();
                self.content_types.iter().any(|glob| glob.matches(&media_type))
            })
            && (self.response_fields.is_empty()
                || self.response_fields.iter().any(|pattern| pattern.matches(fields)))
    }
}
