//! Meters of the sites in force, with a bound on their number and so on labels.

use super::meter::SiteMeter;
use std::sync::Arc;

/// The meters. A reload keeps the meters of labels that stay; meters of other labels end.
#[derive(Debug)]
pub struct SiteMeters {
    /// Meters of the first sites, in the settings' order.
    sites: Vec<Arc<SiteMeter>>,
    forward: Arc<SiteMeter>,
    other: Arc<SiteMeter>,
    none: Arc<SiteMeter>,
}

impl Default for SiteMeters {
    fn default() -> Self {
        let [other, none] = ["other", "none"].map(|label| SiteMeter::new(label, URLS_MIN));
        Self { sites: Vec::new(), forward: SiteMeter::new("forward", URLS_MAX), other, none }
    }
}

impl SiteMeters {
    /// Returns the meters of sites with these labels, in place of `previous`.
    pub fn after<'l>(previous: &Self, labels: impl ExactSizeIterator<Item = &'l str>) -> Self {
        let urls = urls_each(labels.len());
        let meter = |label: &str| match previous.sites.iter().find(|meter| meter.label() == label) {
            Some(meter) => Arc::clone(meter),
            None => SiteMeter::new(label, urls),
        };
        let meters = Self {
            sites: labels.take(SITES_MAX).map(meter).collect(),
            forward: Arc::clone(&previous.forward),
            other: Arc::clone(&previous.other),
            none: Arc::clone(&previous.none),
        };
        assert!(meters.sites.len() <= SITES_MAX, "labels are bounded");
        meters
    }

    /// Returns the meter of the site with this index in the settings.
    #[inline]
    pub fn site(&self, index: usize) -> &Arc<SiteMeter> {
        self.sites.get(index).unwrap_or(&self.other)
    }

    /// Returns the meter of the site with this index, if no other site shares it.
    pub fn own(&self, index: usize) -> Option<&Arc<SiteMeter>> {
        self.sites.get(index)
    }

    /// Returns the meter of forward mode.
    #[inline]
    pub fn forward(&self) -> &Arc<SiteMeter> {
        &self.forward
    }

    /// Returns the meter of requests that belong to no site.
    pub fn none(&self) -> &Arc<SiteMeter> {
        &self.none
    }

    /// Returns all meters.
    pub fn all(&self) -> impl Iterator<Item = &Arc<SiteMeter>> {
        self.sites.iter().chain([&self.forward, &self.other, &self.none])
    }
}

/// Returns the URLs that each of `sites` sites may list by each measure.
fn urls_each(sites: usize) -> usize {
    (URLS_MAX / sites.max(1)).max(URLS_MIN)
}

/// Sites with a label of their own. Further sites share the label `other`.
pub const SITES_MAX: usize = 100;

/// URLs listed by each measure for forward mode, and for all sites together. A site gets its share
/// when it comes into the settings.
const URLS_MAX: usize = 512;

/// Least share of a site.
const URLS_MIN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(meters: &SiteMeters) -> Vec<&str> {
        meters.all().map(|meter| meter.label()).collect()
    }

    #[test]
    fn labels_are_bounded() {
        let names: Vec<String> = (0..300).map(|number| format!("{number}.test/")).collect();
        let meters = SiteMeters::after(&SiteMeters::default(), names.iter().map(String::as_str));
        assert_eq!(labels(&meters).len(), SITES_MAX + 3);
        let label = |index| meters.site(index).label();
        assert_eq!([label(0), label(99), label(100), label(299)], ["0.test/", "99.test/", "other", "other"]);
        assert!(meters.own(99).is_some() && meters.own(100).is_none());
        assert_eq!([urls_each(0), urls_each(1), urls_each(4), urls_each(300)], [512, 512, 128, 32]);
    }

    #[test]
    fn reload_keeps_meters_by_label() {
        let first = SiteMeters::after(&SiteMeters::default(), ["a/", "b/"].into_iter());
        let second = SiteMeters::after(&first, ["c/", "b/"].into_iter());
        assert_eq!(labels(&second), ["c/", "b/", "forward", "other", "none"]);
        assert!(Arc::ptr_eq(first.site(1), second.site(1)));
        assert!(Arc::ptr_eq(first.none(), second.none()));
    }
}
