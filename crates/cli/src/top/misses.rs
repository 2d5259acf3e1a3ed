//! `shoal top misses`: lists the URLs that cost their origins most, and why they missed.

use crate::admin_client::{NodeOptions, push_encoded};
use crate::failure::Failure;
use crate::show::{self, print};
use crate::table::table;
use shoal_dashboard::shown;
use shoal_proxy::admin::{TopMisses, TopUrl};
use shoal_telemetry::by_site::CostKind;

/// List the URLs that cost the origins most, and why they missed
///
/// The node keeps a list of fixed length for each site. A URL that came onto a full list shows a
/// range: it may have cost that much before. Settings that begin with `rule` belong into a
/// `[[rule]]` or `[[site.rule]]`.
#[derive(clap::Args)]
pub struct MissOptions {
    /// Cost by which URLs are ordered
    #[arg(long, value_enum, default_value_t)]
    by: Measure,
    /// Only URLs of this site, as `shoal status` names it
    #[arg(long)]
    site: Option<String>,
    /// Largest number of URLs
    #[arg(short, value_name = "URLS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    n: u16,
    #[command(flatten)]
    node: NodeOptions,
    /// Print the node's own JSON
    #[arg(long)]
    json: bool,
}

/// Cost by which URLs are ordered.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Measure {
    /// Requests to the origin
    #[default]
    Requests,
    /// Bytes of bodies from the origin
    Bytes,
    /// Time until the origin's response heads
    Time,
}

impl MissOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let path = self.path();
        let node = self.node.node()?;
        let answer = node.ask("GET", &path, "")?;
        let list: Result<TopMisses, _> = serde_json::from_str(&answer.body);
        match (answer.status, list) {
            (200, Ok(_)) if self.json => print(&answer.body),
            (200, Ok(list)) => print(&render(&list)),
            _ => Err(Failure::Runtime(format!("{node} answers {}: {}", answer.status, answer.body.trim()))),
        }
    }

    fn path(&self) -> String {
        let by = match self.by {
            Measure::Requests => "requests",
            Measure::Bytes => "bytes",
            Measure::Time => "time",
        };
        let mut path = format!("/top/misses?by={by}&n={}", self.n);
        if let Some(site) = &self.site {
            path.push_str("&site=");
            push_encoded(&mut path, site);
        }
        path
    }
}

fn render(list: &TopMisses) -> String {
    if list.urls.is_empty() {
        return "no request has gone to an origin\n".into();
    }
    let mut rows = vec![HEADING.map(String::from)];
    rows.extend(list.urls.iter().map(|url| row(url, list.by)));
    let listed: u64 = list.urls.iter().map(|url| own(url, list.by)).sum();
    let total = list.total.max(1);
    let percent = listed as f64 / total as f64 * 100.0;
    let all = format(list.total, list.by);
    format!("{}\nthese are {percent:.1}% of {all} in all\n", table(&rows, &[3, 4, 5, 6]))
}

fn row(url: &TopUrl, by: CostKind) -> [String; 7] {
    let cell = |kind: CostKind| match kind == by && url.error > 0 {
        true => {
            let (least, most) = (own(url, by), own(url, by).saturating_add(url.error));
            format!("{}–{}", value(least, kind), value(most, kind))
        }
        false => value(own(url, kind), kind),
    };
    [
        cell(CostKind::Requests),
        cell(CostKind::Bytes),
        cell(CostKind::Time),
        url.site.clone(),
        shown(&url.url),
        url.reason.clone(),
        if url.settings.is_empty() { "-".into() } else { url.settings.join(", ") },
    ]
}

/// Returns the cost of a URL by one measure.
fn own(url: &TopUrl, kind: CostKind) -> u64 {
    match kind {
        CostKind::Requests => url.requests,
        CostKind::Bytes => url.body_bytes,
        CostKind::Time => url.time_us,
    }
}

fn value(value: u64, kind: CostKind) -> String {
    match kind {
        CostKind::Requests => show::short(value),
        CostKind::Bytes => show::size(value),
        CostKind::Time => show::micros(value),
    }
}

/// Formats a sum with its noun.
fn format(sum: u64, kind: CostKind) -> String {
    match kind {
        CostKind::Requests => show::counted(sum, "request"),
        CostKind::Bytes => format!("{} from origins", show::size(sum)),
        CostKind::Time => format!("{} of waiting for origins", show::micros(sum)),
    }
}

const HEADING: [&str; 7] = ["requests", "bytes", "time", "site", "URL", "why", "settings"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_told_with_ranges_and_settings() {
        let urls = vec![
            TopUrl {
                site: "a.test/".into(),
                url: "http://a.test/page?x=1".into(),
                requests: 1_200,
                body_bytes: 3_500_000,
                time_us: 45_000_000,
                reason: "set-cookie".into(),
                settings: vec!["rule.set_cookie".into()],
                ..TopUrl::default()
            },
            TopUrl {
                site: "forward".into(),
                url: "http://b.test/\u{1b}".into(),
                requests: 100,
                error: 20,
                reason: "method".into(),
                ..TopUrl::default()
            },
        ];
        let list = TopMisses { by: CostKind::Requests, total: 2_000, urls };
        let expected = "\
requests   bytes  time  site     URL                     why         settings
   1,200  3.5 MB  45 s  a.test/  http://a.test/page?x=1  set-cookie  rule.set_cookie
 100–120     0 B  0 µs  forward  http://b.test/\\u{1B}    method      -

these are 65.0% of 2,000 requests in all
";
        assert_eq!(render(&list), expected);
        assert_eq!(render(&TopMisses::default()), "no request has gone to an origin\n");
    }
}
