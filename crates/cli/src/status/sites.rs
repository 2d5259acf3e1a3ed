//! Table of `shoal status` by site.

use crate::show;
use crate::table::table;
use shoal_proxy::admin::SiteStatus;

/// Formats the table; an empty text without sites.
pub fn render(sites: &[SiteStatus]) -> String {
    if sites.is_empty() {
        return String::new();
    }
    let mut rows = vec![HEADING.map(String::from)];
    for status in sites {
        rows.push(row(status));
        let tunnels = status.tunnels();
        if tunnels.responses > 0 {
            let site = format!("{} tunnels", status.site);
            let (count, sent) = (show::short(tunnels.responses), show::size(tunnels.body_bytes));
            let none = || NONE.to_owned();
            rows.push([site, count, none(), sent, none(), none(), none(), none()]);
        }
    }
    format!("\n{}", table(&rows, &[0]))
}

fn row(status: &SiteStatus) -> [String; 8] {
    [
        status.site.clone(),
        show::short(status.requests),
        percent(status.hits, status.requests),
        show::size(status.body_bytes),
        percent(status.hit_body_bytes, status.body_bytes),
        show::size(status.upstream_body_bytes),
        time(status.p50_us),
        time(status.p99_us),
    ]
}

/// Formats `part` of `all` as a percentage; a dash if `all` is 0.
fn percent(part: u64, all: u64) -> String {
    if all == 0 { NONE.into() } else { format!("{:.1}%", part as f64 / all as f64 * 100.0) }
}

fn time(micros: Option<u64>) -> String {
    micros.map_or_else(|| NONE.into(), show::micros)
}

const HEADING: [&str; 8] =
    ["site", "requests", "hits", "sent", "byte hits", "from origins", "50% within", "99% within"];

const NONE: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_proxy::admin::ResultCounts;

    #[test]
    fn sites_are_told_in_a_table() {
        assert_eq!(render(&[]), "");
        let site = SiteStatus {
            site: "example.org/".into(),
            requests: 12_345_678,
            hits: 9_000_000,
            body_bytes: 4_000_000_000,
            hit_body_bytes: 1_000_000_000,
            upstream_body_bytes: 3_000_000_000,
            p50_us: Some(50),
            p99_us: Some(2_500),
            ..SiteStatus::default()
        };
        let tunnels = ResultCounts { responses: 3, body_bytes: 5_000 };
        let forward = SiteStatus {
            site: "forward".into(),
            results: [("tunnel".to_owned(), tunnels)].into(),
            ..SiteStatus::default()
        };
        let expected = "
site             requests   hits    sent  byte hits  from origins  50% within  99% within
example.org/       12.3 M  72.9%  4.0 GB      25.0%        3.0 GB       50 µs      2.5 ms
forward                 0      -     0 B          -           0 B           -           -
forward tunnels         3      -  5.0 KB          -             -           -           -
";
        assert_eq!(render(&[site, forward]), expected);
    }
}
