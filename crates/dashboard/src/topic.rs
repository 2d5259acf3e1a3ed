//! A page of the dashboard with its parameters: the topic of a viewer.
//!
//! Viewers of equal topics share one document.

use crate::documents::LogLine;

/// A page with its parameters. Parameters that the page does not know are left out, so that equal
/// documents have equal topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// The page.
    pub page: Page,
    /// Site of the numbers; `None` for all.
    pub site: Option<String>,
    /// Order of the page of objects.
    pub by: ObjectOrder,
    /// Part of the URLs of the page of objects; empty for all.
    pub part: String,
    /// Lines of the log.
    pub lines: LineFilter,
}

/// Pages with a document of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// The node at this moment.
    Now,
    /// Reasons of misses, and of responses that are not stored.
    Reasons,
    /// The disks.
    Disk,
    /// Hit ratios of other sizes.
    Size,
    /// Origins and their health.
    Origins,
    /// Objects with most requests, bytes or cost.
    Objects,
    /// The cluster.
    Cluster,
    /// Tail of the log.
    Log,
}

/// Order of the page of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ObjectOrder {
    /// Requests of clients.
    #[default]
    Requests,
    /// Bytes sent to clients.
    Bytes,
    /// Time of origins.
    Cost,
}

/// Conditions on lines of the log. An empty condition holds for each line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LineFilter {
    /// Part of the URL.
    pub url: String,
    /// Status, or its beginning with `x` in place of the rest: `404`, `5xx`.
    pub status: String,
    /// Result of the cache.
    pub result: String,
    /// Site.
    pub site: String,
}

impl Topic {
    /// Returns the topic of a page and its parameters.
    ///
    /// # Errors
    /// If there is no such page or parameter, or a value is too long; a line.
    pub fn parse(page: &str, parameters: &[(&str, String)]) -> Result<Self, String> {
        let page = Page::named(page).ok_or_else(|| format!("there is no page {page:?}"))?;
        let mut topic = Self {
            page,
            site: None,
            by: ObjectOrder::default(),
            part: String::new(),
            lines: LineFilter::default(),
        };
        for (name, value) in parameters {
            if value.len() > VALUE_BYTES_MAX {
                return Err(format!("{name} has more than {VALUE_BYTES_MAX} bytes"));
            }
            let value = value.clone();
            match (page, *name) {
                (_, "page") => {}
                (Page::Log, "url") => topic.lines.url = value,
                (Page::Log, "status") => topic.lines.status = value,
                (Page::Log, "result") => topic.lines.result = value,
                (Page::Log, "site") => topic.lines.site = value,
                (Page::Objects, "by") => topic.by = ObjectOrder::named(&value)?,
                (Page::Objects, "q") => topic.part = value,
                (Page::Now | Page::Reasons | Page::Objects, "site") => {
                    topic.site = Some(value).filter(|site| !site.is_empty());
                }
                (_, "site" | "by" | "q" | "url" | "status" | "result") => {}
                (_, other) => return Err(format!("there is no parameter {other:?}")),
            }
        }
        Ok(topic)
    }
}

impl Page {
    /// Every page.
    pub const ALL: [Self; 8] = [
        Self::Now,
        Self::Reasons,
        Self::Disk,
        Self::Size,
        Self::Origins,
        Self::Objects,
        Self::Cluster,
        Self::Log,
    ];

    /// Returns the name in URLs and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Reasons => "reasons",
            Self::Disk => "disk",
            Self::Size => "size",
            Self::Origins => "origins",
            Self::Objects => "objects",
            Self::Cluster => "cluster",
            Self::Log => "log",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.name() == name)
    }
}

impl ObjectOrder {
    /// Returns the name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Cost => "cost",
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        [Self::Requests, Self::Bytes, Self::Cost]
            .into_iter()
            .find(|order| order.name() == name)
            .ok_or_else(|| format!("by={name} is not requests, bytes or cost"))
    }
}

impl LineFilter {
    /// Returns `true` if a line with these fields is wanted. Asked for each request while somebody
    /// looks, so the line need not be built.
    pub fn wants(&self, url: &[u8], status: u16, result: &str, site: &str) -> bool {
        (self.result.is_empty() || self.result == result)
            && (self.site.is_empty() || self.site == site)
            && has_status(&self.status, status)
            && contains(url, self.url.as_bytes())
    }

    /// Returns `true` if this line is wanted.
    pub fn wants_line(&self, line: &LogLine) -> bool {
        self.wants(line.url.as_bytes(), line.status, &line.result, &line.site)
    }
}

fn has_status(wanted: &str, status: u16) -> bool {
    let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
    let fits = |(wanted, digit): (&u8, u8)| wanted.eq_ignore_ascii_case(&b'x') || *wanted == digit;
    wanted.is_empty() || (wanted.len() <= digits.len() && wanted.as_bytes().iter().zip(digits).all(fits))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// Most bytes of a parameter.
const VALUE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(page: &str, parameters: &[(&str, &str)]) -> Result<Topic, String> {
        let owned: Vec<(&str, String)> =
            parameters.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Topic::parse(page, &owned)
    }

    #[test]
    fn equal_documents_have_equal_topics() {
        assert_eq!(topic("disk", &[("site", "a.test")]), topic("disk", &[]));
        assert_eq!(topic("now", &[("page", "now"), ("site", "")]), topic("now", &[]));
        assert_ne!(topic("now", &[("site", "a.test/")]), topic("now", &[]));
        let objects = topic("objects", &[("by", "cost"), ("q", "x")]).expect("a topic");
        assert_eq!((objects.by, objects.part.as_str()), (ObjectOrder::Cost, "x"));
        for page in Page::ALL {
            assert_eq!(topic(page.name(), &[]).map(|topic| topic.page), Ok(page));
        }
    }

    #[test]
    fn wrong_topics_are_refused() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        for (page, name, value) in [
            ("nowhere", "site", "a"),
            ("now", "what", "a"),
            ("objects", "by", "money"),
            ("log", "url", &long),
        ] {
            assert!(topic(page, &[(name, value)]).is_err(), "{page} {name}");
        }
    }

    #[test]
    fn lines_are_filtered_by_each_field() {
        let wants = |filter: &LineFilter| filter.wants(b"http://a.test/x?y", 404, "miss", "a.test/");
        assert!(wants(&LineFilter::default()));
        for (field, yes, no) in [
            (0, "x?y", "z"),
            (1, "4xx", "5xx"),
            (1, "404", "403"),
            (1, "4", "4040"),
            (2, "miss", "hit"),
            (3, "a.test/", "b.test/"),
        ] {
            for (value, wanted) in [(yes, true), (no, false)] {
                let mut filter = LineFilter::default();
                let at = [&mut filter.url, &mut filter.status, &mut filter.result, &mut filter.site];
                *at.into_iter().nth(field).expect("a field") = value.to_owned();
                assert_eq!(wants(&filter), wanted, "{value}");
            }
        }
    }
}
