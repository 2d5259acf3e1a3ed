//! The admin listener asked over its sockets, in front of a scripted node.

mod contrib;
mod ends;

use super::*;
use crate::by_site::{Cost, SiteMeter};
use crate::message::CacheResult;
use crate::metrics::Metrics;
use parking_lot::Mutex;
use shoal_semantics::status_fields::Reason;
use shoal_settings::{Admin, AdminAddress};
use shoal_store::disks::{DiskState, ServiceState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A node that records its calls.
#[derive(Default)]
pub(super) struct Scripted {
    metrics: Metrics,
    draining: bool,
    purged: Mutex<Vec<PurgeRequest>>,
    /// A reload waits for this lock.
    reloading: Mutex<()>,
    site: Site,
}

/// A site that has answered from RAM and asked its origin.
struct Site(Arc<SiteMeter>);

impl Default for Site {
    fn default() -> Self {
        let meter = SiteMeter::new("o\"ne/", 4);
        meter.hit_memory(crate::per_core::place(), 10, std::time::Instant::now() - Duration::from_secs(2));
        let cost = Cost { requests: 1, body_bytes: 10, time_us: 20 };
        meter.asked_origin(shoal_core::Key::of(b"a"), &"http://one/a".into(), cost, Reason::SetCookie.into());
        meter.add_upstream_bytes(10);
        Self(meter)
    }
}

/// Prefetching with one source.
fn hinted() -> crate::exchange::prefetch::PrefetchStatus {
    let source = crate::exchange::prefetch::SourceStatus { source: "link".into(), ..Default::default() };
    crate::exchange::prefetch::PrefetchStatus { sources: vec![source], ..Default::default() }
}

impl Control for Scripted {
    fn warm(
        &self,
        request: crate::warming::WarmRequest,
    ) -> Result<crate::warming::WarmReport, crate::warming::WarmRefusal> {
        let entries = request.list.len() as u64;
        Ok(crate::warming::WarmReport { job: 1, file: request.file, entries, ..Default::default() })
    }

    fn warm_reports(&self) -> Vec<crate::warming::WarmReport> {
        vec![crate::warming::WarmReport { job: 1, ..Default::default() }]
    }

    fn stop_warm(&self, job: u64) -> bool {
        job == 1
    }

    fn hints(
        &self,
        lines: crate::exchange::prefetch::HintLines,
    ) -> Result<crate::exchange::prefetch::HintsReport, HintsFailure> {
        let accepted = lines.lines.len() as u64;
        Ok(crate::exchange::prefetch::HintsReport { list: 1, accepted, ..Default::default() })
    }

    fn whereabouts(&self, _: &str) -> Result<crate::exchange::Whereabouts, String> {
        Err("this node is in no cluster".into())
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn readiness(&self) -> Readiness {
        if self.draining { Readiness::Draining } else { Readiness::Ready }
    }

    fn cluster(&self) -> Option<crate::cluster::ClusterReport> {
        None
    }

    fn drain_cluster(&self) -> bool {
        self.draining
    }

    fn rejoin_cluster(&self) -> bool {
        self.draining
    }

    fn dashboard(&self) -> Option<Arc<crate::dashboard::Dashboard>> {
        None
    }

    fn status(&self) -> Status {
        let usage = shoal_store::Usage {
            objects: 7,
            bytes: 70,
            bytes_max: 700,
            evictions: 3,
            crowded_out: 4,
            corrupt: 2,
            ..Default::default()
        };
        let state = DiskState {
            number: 0,
            path: "/d1".into(),
            bytes: 700,
            service: ServiceState::InService,
            why: String::new(),
            usage,
            failures: 0,
            is_recovering: false,
            ring: None,
            change: None,
        };
        let disks = [
            state.clone(),
            DiskState {
                path: "/d2".into(),
                service: ServiceState::Failed,
                why: "could not read: I/O error".into(),
                usage: shoal_store::Usage::default(),
                failures: 32,
                ..state.clone()
            },
        ];
        Status {
            name: "shoal".into(),
            version: "1.2.3".into(),
            readiness: self.readiness(),
            pid: 7,
            upgrade_socket: None,
            uptime_seconds: 5,
            process: ProcessStatus::default(),
            addresses: vec!["127.0.0.1:3128".into()],
            responses: Responses { all: 3, hits: 2, ..Responses::default() },
            ram: Ram {
                space: Space { objects: 1, bytes: 10, bytes_max: 100 },
                evictions: 4,
                span_bytes: 9,
                moved_bytes: 30,
                tracts: 5,
                tracts_max: 50,
                tract_address_bytes: 500,
                tract_body_bytes: 400,
                held_bytes: 300,
                holds_refused: 2,
            },
            store: Some(StoreStatus::new("squid", "cache".as_ref(), &disks)),
            interception: None,
            upstreams: [("one/", true), ("two/", true), ("two/", false)]
                .map(|(site, healthy)| UpstreamStatus {
                    site: site.into(),
                    url: "http://a\"b".into(),
                    healthy,
                })
                .into(),
            sites: vec![SiteStatus::of(&self.site.0.read())],
            mirrors: vec![MirrorStatus { name: "npm".into(), ..MirrorStatus::default() }],
            prefetch: hinted(),
            certificates: ends::ends(),
        }
    }

    fn top_misses(&self, request: &TopRequest) -> TopMisses {
        let url =
            TopUrl { site: "one/".into(), url: "http://one/a".into(), requests: 3, ..TopUrl::default() };
        TopMisses { by: request.by, total: 5, urls: vec![url] }
    }

    fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        self.purged.lock().push(request.clone());
        match request {
            PurgeRequest::Url(url) if !url.starts_with("http://") => {
                PurgeOutcome::Invalid("not a URL".into())
            }
            PurgeRequest::All => PurgeOutcome::Failed("the disk is out of service".into()),
            PurgeRequest::Host(_) => panic!("a fault in the node"),
            _ => PurgeOutcome::Purged { responses: Some(2) },
        }
    }

    fn explain(&self, request: ExplainRequest) -> Result<Explanation, String> {
        match request.url.as_str() {
            "" => Err("no URL".into()),
            url => Ok(Explanation { url: url.into(), ..Explanation::default() }),
        }
    }

    fn reload(&self) -> Result<Vec<String>, Vec<String>> {
        let _waits = self.reloading.lock();
        if self.draining {
            Err(vec!["shoal.toml:1:1: x: unknown setting".into()])
        } else {
            Ok(vec!["store".into()])
        }
    }

    fn set_disk(&self, request: DiskRequest) -> Result<bool, String> {
        match request.path.as_str() {
            "/d1" => Ok(!request.online),
            other => Err(format!("no disk of the store is called {other:?}")),
        }
    }
}

fn start(control: Scripted) -> (AdminListener, Arc<Scripted>) {
    let control = Arc::new(control);
    let address = AdminAddress::Tcp(([127, 0, 0, 1], 0).into());
    (listening(&address, control.clone()).expect("bound"), control)
}

fn listening(address: &AdminAddress, control: Arc<Scripted>) -> std::io::Result<AdminListener> {
    let settings = Admin { hosts: vec!["cache.example.org".into()], ..Admin::default() };
    BoundAdmin::bind(address)?.start(control, AdminAccess::new(&settings).expect("sound"))
}

/// Sends these bytes. Returns the status and body of the answer.
fn ask(listener: &AdminListener, request: &str) -> (u16, String) {
    let mut answer = String::new();
    match listener.address() {
        AdminAddress::Tcp(address) => {
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.write_all(request.as_bytes()).expect("sent");
            stream.read_to_string(&mut answer).expect("read");
        }
        AdminAddress::Unix(path) => {
            let mut stream = UnixStream::connect(path).expect("connected");
            stream.write_all(request.as_bytes()).expect("sent");
            stream.read_to_string(&mut answer).expect("read");
        }
    }
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn request(listener: &AdminListener, method: &str, target: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    ask(listener, &(head + body))
}

#[test]
fn metrics_are_whole_and_well_formed() {
    let (listener, control) = start(Scripted::default());
    control.metrics.requests.add(41);
    control.metrics.responded(CacheResult::Hit, 1000, Some(2400));
    let (status, page) = request(&listener, "GET", "/metrics", "");
    assert_eq!(status, 200);
    for line in [
        "shoal_requests_total 41",
        "shoal_responses_total{result=\"memory_hit\"} 0",
        "shoal_response_body_bytes_total{result=\"hit\"} 1000",
        "shoal_response_body_bytes_total{result=\"miss\"} 0",
        "shoal_response_duration_seconds_bucket{result=\"hit\",le=\"0.001\"} 0",
        "shoal_response_duration_seconds_bucket{result=\"hit\",le=\"0.0025\"} 1",
        "shoal_response_duration_seconds_sum{result=\"hit\"} 0.002400",
        "shoal_response_duration_seconds_count{result=\"pass\"} 0",
        "shoal_ram_bytes 10",
        "shoal_ram_span_bytes 9",
        "shoal_ram_moved_bytes_total 30",
        "shoal_ram_tracts 5",
        "shoal_ram_tracts_max 50",
        "shoal_ram_tract_address_bytes 500",
        "shoal_ram_tract_body_bytes 400",
        "shoal_ram_held_bytes 300",
        "shoal_ram_holds_refused_total 2",
        "shoal_store_bytes_max 700",
        "shoal_store_crowded_out_total 4",
        "shoal_store_corrupt_total 2",
        "shoal_store_disk_in_service{disk=\"/d1\"} 1",
        "shoal_store_disk_in_service{disk=\"/d2\"} 0",
        "shoal_store_disk_failures_total{disk=\"/d2\"} 32",
        "shoal_ready 1",
        "shoal_build_info{version=\"1.2.3\"} 1",
        "shoal_upstream_healthy{site=\"one/\",url=\"http://a\\\"b\"} 1",
        "shoal_upstream_healthy{site=\"two/\",url=\"http://a\\\"b\"} 0",
        "shoal_site_responses_total{site=\"o\\\"ne/\",result=\"memory_hit\"} 1",
        "shoal_site_response_body_bytes_total{site=\"o\\\"ne/\",result=\"memory_hit\"} 10",
        "shoal_site_upstream_requests_total{site=\"o\\\"ne/\",reason=\"set-cookie\"} 1",
        "shoal_site_upstream_body_bytes_total{site=\"o\\\"ne/\"} 10",
        "shoal_site_response_duration_seconds_bucket{site=\"o\\\"ne/\",source=\"ram\",le=\"1\"} 0",
        "shoal_site_response_duration_seconds_bucket{site=\"o\\\"ne/\",source=\"ram\",le=\"5\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    let (mut types, mut series) = (std::collections::HashSet::new(), std::collections::HashSet::new());
    for line in page.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
                assert!(types.insert(name.to_owned()), "{name} stands in two places");
                if kind == "histogram" {
                    types.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")));
                }
            }
            None if line.starts_with('#') => {}
            None => {
                let name = line.split(['{', ' ']).next().expect("a name");
                assert!(types.contains(name), "{name} has no type");
                let (labelled, _) = line.rsplit_once(' ').expect("a value");
                assert!(series.insert(labelled), "{labelled} stands there twice");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}

fn labels_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.trim_start_matches("_bucket").strip_prefix('{')
}

/// Returns a page's rows as docs/OPERATING.md has them: `name{labels}`, type and help.
fn rows_of(page: &str) -> Vec<String> {
    let series: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let labels = |name: &str| {
        let Some(labels) = series.iter().find_map(|line| labels_of(line, name)) else { return String::new() };
        // No value in this test has a comma. Bounds are part of the type.
        let names = labels.split(',').filter_map(|label| label.split('=').next());
        format!("{{{}}}", names.filter(|name| *name != "le").collect::<Vec<&str>>().join(","))
    };
    let helps = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let kinds = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let row = |((name, help), (_, kind))| format!("| `{name}{}` | {kind} | {help} |", labels(name));
    helps.zip(kinds).map(row).collect()
}

#[test]
fn the_metrics_are_those_of_the_page_in_docs() {
    let (listener, _) = start(Scripted::default());
    let rows = rows_of(&request(&listener, "GET", "/metrics", "").1);
    let docs = include_str!("../../../../docs/OPERATING.md");
    let is_row = |line: &&str| line.starts_with("| `shoal_") || line.starts_with("| `process_");
    let documented: Vec<&str> = docs.lines().filter(is_row).collect();
    assert!(rows == documented, "the table is to be\n{}", rows.join("\n"));
}

#[test]
fn status_is_json_that_reads_back() {
    let (listener, control) = start(Scripted::default());
    let (status, body) = request(&listener, "GET", "/status", "");
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<Status>(&body).expect("a status"), control.status());
    assert_eq!(request(&listener, "HEAD", "/status", ""), (200, String::new()));
}

#[test]
fn health_follows_readiness() {
    let (listener, _) = start(Scripted::default());
    assert_eq!(request(&listener, "GET", "/healthz", ""), (200, "ready\n".into()));
    assert_eq!(request(&listener, "GET", "/version", ""), (200, "shoal 1.2.3\n".into()));
    let (listener, _) = start(Scripted { draining: true, ..Scripted::default() });
    assert_eq!(request(&listener, "GET", "/healthz", ""), (503, "draining\n".into()));
}

#[test]
fn top_misses_are_answered_and_bad_ones_refused() {
    let (listener, _) = start(Scripted::default());
    let (status, body) = request(&listener, "GET", "/top/misses?by=bytes", "");
    let list: TopMisses = serde_json::from_str(&body).expect("a list");
    assert_eq!((status, list.by, list.urls.len()), (200, crate::by_site::CostKind::Bytes, 1));
    let (status, body) = request(&listener, "GET", "/top/misses?by=money", "");
    assert_eq!((status, body.contains("not requests, bytes or time")), (400, true));
    assert_eq!(request(&listener, "POST", "/top/misses", "").0, 405);
}

#[test]
fn purges_reach_the_node_and_report() {
    let (listener, control) = start(Scripted::default());
    for (target, body, status, answer) in [
        ("/purge?tag=a", "", 200, r#"{"purged":{"responses":2}}"#),
        ("/purge", r#"{"url":"http://a/"}"#, 200, r#"{"purged":{"responses":2}}"#),
        ("/purge?url=a", "", 400, r#"{"error":"not a URL"}"#),
        ("/purge?all", "", 500, r#"{"error":"the disk is out of service"}"#),
        ("/purge?host=a", "", 500, "the call failed; see the error log"),
    ] {
        assert_eq!(request(&listener, "POST", target, body), (status, format!("{answer}\n")), "{target}");
    }
    assert_eq!(control.purged.lock().len(), 5);
    assert_eq!(request(&listener, "POST", "/purge", "").0, 400);
    assert_eq!(control.purged.lock().len(), 5, "nothing named, nothing purged");
}

#[test]
fn disks_are_set_and_refusals_told() {
    let (listener, _) = start(Scripted::default());
    for (body, status, answer) in [
        (r#"{"path":"/d1","online":false}"#, 200, r#"{"changed":true}"#),
        (r#"{"path":"/d1","online":true}"#, 200, r#"{"changed":false}"#),
        (r#"{"path":"/d3","online":true}"#, 422, r#"{"error":"no disk of the store is called \"/d3\""}"#),
    ] {
        assert_eq!(request(&listener, "POST", "/disk", body), (status, format!("{answer}\n")), "{body}");
    }
    assert_eq!(request(&listener, "POST", "/disk", "{}").0, 400);
    assert_eq!(request(&listener, "GET", "/disk", "").0, 405);
}

#[test]
fn explanations_are_json_of_stable_names() {
    let (listener, _) = start(Scripted::default());
    let (status, body) = request(&listener, "POST", "/explain", r#"{"url":"http://a/"}"#);
    let view: Explanation = serde_json::from_str(&body).expect("an explanation");
    assert_eq!((status, view.url.as_str()), (200, "http://a/"));
    for body in ["", "{}", r#"{"url":""}"#, r#"{"url":"http://a/","what":1}"#] {
        assert_eq!(request(&listener, "POST", "/explain", body).0, 400, "{body}");
    }
    assert_eq!(request(&listener, "GET", "/explain", "").0, 405);
}

#[test]
fn reload_reports_mistakes() {
    let (listener, _) = start(Scripted::default());
    let told = "{\"reloaded\":true,\"waiting\":[\"store\"]}\n";
    assert_eq!(request(&listener, "POST", "/reload", ""), (200, told.into()));
    let (listener, _) = start(Scripted { draining: true, ..Scripted::default() });
    let (status, body) = request(&listener, "POST", "/reload", "");
    assert_eq!((status, body.contains("shoal.toml:1:1")), (422, true));
}

#[test]
fn metrics_are_answered_however_many_changes_wait() {
    let (listener, control) = start(Scripted::default());
    let AdminAddress::Tcp(address) = *listener.address() else { panic!("bound to an address") };
    let sent = |method: &str, target: &str| {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    };
    let answered = |mut stream: TcpStream| stream.read_to_string(&mut String::new());
    let held = control.reloading.lock();
    let waiting: Vec<_> = (0..30).map(|_| sent("POST", "/reload")).collect();
    for target in ["/metrics", "/status", "/version"] {
        answered(sent("GET", target)).expect(target);
    }
    drop(held);
    for stream in waiting {
        answered(stream).expect("in its turn");
    }
}

#[test]
fn wrong_requests_get_their_error_status() {
    let (listener, control) = start(Scripted::default());
    let (status, body) = request(&listener, "GET", "/", "");
    assert_eq!((status, body.contains("/metrics")), (404, true));
    assert_eq!(request(&listener, "GET", "/purge?all", "").0, 405);
    assert_eq!(request(&listener, "DELETE", "/status", "").0, 405);
    for (host, status) in [("evil.example", 403), ("cache.example.org:3129", 200)] {
        let head = format!("GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(&listener, &head).0, status, "{host}");
    }
    assert_eq!(request(&listener, "POST", "/purge", &"x".repeat(70_000)).0, 413);
    assert!(control.purged.lock().is_empty());
}

#[test]
fn a_unix_socket_serves_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("admin.sock");
    let address = AdminAddress::Unix(path.clone());
    let abandoned = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    assert!(listening(&address, Arc::default()).is_err(), "somebody listens there");
    drop(abandoned);
    let listener = listening(&address, Arc::default()).expect("taken over");
    assert_eq!(request(&listener, "GET", "/healthz", "").0, 200);
    // The request of curl --unix-socket for http://shoal/healthz; no web page can send it.
    assert_eq!(ask(&listener, "GET /healthz HTTP/1.1\r\nHost: shoal\r\nConnection: close\r\n\r\n").0, 200);
    drop(listener);
    assert!(!path.exists());
}
