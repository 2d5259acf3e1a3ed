//! Table of `shoal status` by site.

use crate::show;
use crate::table::table;
use shoal_proxy::admin::SiteStatus;

/// Formats the table of the `most` sites with most requests, and the number of the others; an empty
/// text without sites.
pub fn render(sites: &[SiteStatus], most: usize) -> String {
    if sites.is_empty() {
        return String::new();
    }
    let mut rows = vec![HEADING.map(String::from)];
    let mut shown: Vec<&SiteStatus> = sites.iter().collect();
    if sites.len() > most {
        shown.sort_by_key(|site| std::cmp::Reverse(site.requests));
        shown.truncate(most);
    }
    debug_assert!(shown.len() <= sites.len(), "each row is a site");
    for status in &shown {
        rows.push(row(status));
        let tunnels = status.tunnels();
        if tunnels.responses > 0 {
            let site = format!("{} tunnels", status.site);
            let (count, sent) = (show::short(tunnels.responses), show::size(tunnels.body_bytes));
            let none = || NONE.to_owned();
            rows.push([site, count, none(), sent, none(), none(), none(), none()]);
        }
    }
    let others = match sites.len() - shown.len() {
        0 => String::new(),
        others => format!("{} more: --all\n", show::counted(others as u64, "site")),
    };
    format!("\n{}{others}", table(&rows, &[0]))
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
        assert_eq!(render(&[], 5), "");
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
        let sites = [forward, site];
        assert_eq!(render(&[sites[1].clone(), sites[0].clone()], 2), expected);
        let one = render(&sites, 1);
        assert!(
            one.contains("\nexample.org/    12.3 M ") && one.ends_with("\n1 site more: --all\n"),
            "{one}"
        );
    }
}
