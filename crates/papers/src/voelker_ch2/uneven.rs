//! GMS beside N-chance, by the unevenness of memory on four idle nodes.

use super::{ACTIVE, Axis, IDLE, Progress, SchemeEffort, Unit, WebRequests, dotted, plot, ratio};
use shoal_lab::cluster::{ClusterSize, DiskPlacement, Gms};
use shoal_lab::report::{Finding, Section};

pub(super) fn section(web: &WebRequests, effort: &SchemeEffort, progress: &mut dyn Progress) -> Section {
    progress.begin("uneven idle memory", u64::from(effort.points) * (SYSTEMS.len() as u64 + 1) + 1);
    let mut series: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SYSTEMS.len()];
    for point in 0..effort.points {
        let first = LEAST + (MOST - LEAST) * f64::from(point) / f64::from(effort.points - 1);
        let size = size(web, first);
        for (series, (key, _)) in series.iter_mut().zip(SYSTEMS) {
            series.push((first, web.shared_by(key, &size).mean_ms()));
            progress.done(1);
        }
    }
    let by_replies = |point: u32| {
        let first = LEAST + (MOST - LEAST) * f64::from(point) / f64::from(effort.points - 1);
        let mut gms = Gms::new(0.0, web.options().seed, DiskPlacement::Server).by_replies();
        progress.done(1);
        (first, web.shared_by_system(&mut gms, &size(web, first)).mean_ms())
    };
    series.push((0..effort.points).map(by_replies).collect());
    let mut gms = Gms::new(0.0, web.options().seed, DiskPlacement::Server);
    web.shared_by_system(&mut gms, &size(web, LEAST));
    progress.done(1);
    let told = gms.told() as f64 / web.requests.len().max(1) as f64;
    let findings = findings(&series, told);
    let names = SYSTEMS.map(|(_, name)| name).into_iter().chain(["GMS, ages by replies"]);
    let curves = series.into_iter().zip(names).map(|(points, name)| dotted(name, points)).collect();
    Section {
        anchor: "uneven".into(),
        title: "Where idle memory is".into(),
        question: "What is global coordination worth when idle memory is on few nodes?".into(),
        figures: vec![plot(
            "uneven",
            "Latency by the part of the idle memory that one of four idle nodes has",
            "GMS stays where it is; N-chance, which sends blocks to any node at random, gets slower the more of the idle memory is on one node.",
            (Axis::share("idle memory on one node"), Axis::linear("mean latency", Unit::Milliseconds)),
            curves,
            Vec::new(),
        )],
        findings,
        notes: vec!["Twelve active nodes hold a hundredth of the objects each, the four idle ones sixteen times as much together. \"When idle memory is unevenly distributed across nodes in the \
                     cluster, the global coordination of GMS performed significantly better than the autonomous coordination of N-chance\" (section 2.1.3)."
            .into()],
        ..Section::default()
    }
}

/// Returns the findings. Series 0 to 3 are GMS, N-chance, weighted LRU and GMS by replies. `told`
/// is the number of changes that nodes tell a directory, for each request.
fn findings(series: &[Vec<(f64, f64)>], told: f64) -> Vec<Finding> {
    let replies = SYSTEMS.len();
    let at = |system: usize, last: bool| {
        let points = &series[system];
        if last { points.last() } else { points.first() }.map_or(f64::NAN, |point| point.1)
    };
    vec![
        ratio(
            "gms_even",
            "GMS: latency over N-chance's, idle memory on four nodes alike",
            "about 1",
            at(0, false) / at(1, false),
        ),
        ratio(
            "gms_uneven",
            "GMS: latency over N-chance's, nearly all idle memory on one node",
            "significantly below 1",
            at(0, true) / at(1, true),
        ),
        ratio(
            "replies_even",
            "GMS with ages by replies: latency over an initiator's, idle memory on four nodes alike",
            "left open",
            at(replies, false) / at(0, false),
        ),
        ratio(
            "replies_uneven",
            "the same, nearly all idle memory on one node",
            "left open",
            at(replies, true) / at(0, true),
        ),
        ratio(
            "gms_told",
            "GMS: pages told to another node's directory as come or gone, for each request",
            "left open",
            told,
        ),
    ]
}

/// Returns a cluster: the first idle node has the share `first` of the idle memory, the others the
/// rest in equal parts.
fn size(web: &WebRequests, first: f64) -> ClusterSize {
    let frames = (web.objects / 100).max(4);
    let idle = (16 * frames) as f64;
    let other = ((idle * (1.0 - first) / (IDLE - 1) as f64) as usize).max(1);
    let nodes = [vec![frames; ACTIVE], vec![(idle * first) as usize], vec![other; IDLE - 1]].concat();
    ClusterSize { nodes, server: frames, objects: web.objects }
}

const SYSTEMS: [(&str, &str); 3] =
    [("gms", "GMS"), ("n_chance", "N-chance"), ("weighted_lru", "weighted LRU")];
const LEAST: f64 = 0.25;
const MOST: f64 = 0.97;
