//! Record of the last seconds, minutes and hours: read from the counters once a second.

use super::view::{
    COUNTS, Counts, ERROR, HIT_BYTES, NodeView, ORIGIN_BYTES, counts, disk_calls, requests_and_hits,
    sent_bytes,
};
use crate::by_site::{BUCKETS, SAMPLED, Source, quantile_us};
use crate::exchange::prefetch;
use shoal_core::Key;
use shoal_dashboard::{HeatMap, History, LiveCurve, Rates, SERIES, Sample};
use std::time::Instant;

/// The record.
pub(super) struct Recorder {
    started: Instant,
    /// Counts of the node: those of [`Counts`], then [`NODE_COUNTS`] more.
    pub node: Rates,
    /// Counts of each site, every five seconds.
    pub sites: Rates,
    /// Requests of each origin, every five seconds.
    pub origins: Rates,
    /// Calls of each disk.
    pub disks: Rates,
    pub heat: HeatMap,
    pub history: History,
    pub curve: LiveCurve,
    /// Times by source at the last second.
    times: Vec<[u64; BUCKETS]>,
    seconds: u64,
    /// Watched requests since the last second.
    watched: u64,
    /// Processor time and time of the last second, in milliseconds.
    processor: (u64, u64),
    /// Requests for no object, and their bytes, until the last second.
    others: (u64, u64),
}

/// Index of a further count of the node.
pub(super) const DISK_READS: usize = COUNTS;
pub(super) const CPU_MS: usize = COUNTS + 4;
pub(super) const SPARED: usize = COUNTS + 5;
pub(super) const PEER: usize = COUNTS + 6;
pub(super) const PEER_BYTES: usize = COUNTS + 7;

/// Further counts of the node: four of the disks, CPU time, spared reads, peers.
const NODE_COUNTS: usize = 8;

impl Recorder {
    /// Begins a record. The history goes on.
    pub fn new(view: &NodeView, history: History) -> Self {
        let curve = LiveCurve::new(0);
        view.metrics.samples.set_threshold(curve.threshold());
        let mut recorder = Self {
            started: Instant::now(),
            node: Rates::new(SECONDS_KEPT),
            sites: Rates::new(SECONDS_KEPT / SITES_EVERY_S + 2),
            origins: Rates::new(SECONDS_KEPT / SITES_EVERY_S + 2),
            disks: Rates::new(SECONDS_KEPT),
            heat: HeatMap::new(Source::ALL.len(), BUCKETS),
            history,
            curve,
            times: vec![[0; BUCKETS]; Source::ALL.len()],
            seconds: 0,
            watched: 0,
            processor: (0, 0),
            others: (0, 0),
        };
        recorder.record_rates(view);
        recorder
    }

    /// Takes the watched requests of all cores into the curve.
    pub fn take_samples(&mut self, view: &NodeView) {
        let samples = &view.metrics.samples;
        let (curve, watched) = (&mut self.curve, &mut self.watched);
        let lost = samples.take(|sample| {
            *watched += 1;
            match sample.bytes {
                Some(bytes) => curve.watch(sample.hash, bytes),
                None => curve.watch_miss(sample.hash, 0),
            }
        });
        if lost > 0 {
            view.metrics.dashboard_lost.add(lost);
        }
        if lost > 0 || *watched > WATCHED_A_SECOND {
            curve.watch_fewer();
            *watched = 0;
        }
        samples.set_threshold(curve.threshold());
    }

    /// Records a second, with `unix_s` as its time.
    pub fn record(&mut self, view: &NodeView, unix_s: u64) {
        let (before, bytes_before) = requests_and_bytes(&self.node);
        let times = self.record_rates(view);
        let (requests, bytes) = requests_and_bytes(&self.node);
        let samples = &view.metrics.samples;
        let (others, others_bytes) = (samples.others.value(), samples.others_bytes.value());
        self.watched = 0;
        let now_s = self.started.elapsed().as_secs();
        // Requests for no object are in no curve.
        let [more, more_bytes] =
            [(requests, before, others - self.others.0), (bytes, bytes_before, others_bytes - self.others.1)]
                .map(|(now, before, others)| now.saturating_sub(before).saturating_sub(others));
        self.others = (others, others_bytes);
        self.curve.note_all(now_s, more, more_bytes);
        let sample = self.sample(view, times);
        self.history.record(unix_s, &sample);
    }

    /// Tells prefetching the share of the processors in use since the last second.
    fn tell_prefetching(&mut self, view: &NodeView, (cpu_ms, now_ms): (u64, u64)) {
        let (cpu_before, before) = std::mem::replace(&mut self.processor, (cpu_ms, now_ms));
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let elapsed = now_ms.saturating_sub(before).saturating_mul(cores).max(1);
        let percent = cpu_ms.saturating_sub(cpu_before).saturating_mul(100) / elapsed;
        // The first second's time is that of the whole process.
        let percent = if before == 0 { 0 } else { percent.min(100) };
        prefetch::note_cpu(&view.exchange, percent as u32);
    }

    /// Records the counters, and returns the times by bucket since the last second, of all sources.
    fn record_rates(&mut self, view: &NodeView) -> [u64; BUCKETS] {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let live = view.live();
        let meters: Vec<_> = live.routes.meters().all().collect();
        let of_sites: Vec<Counts> = meters.iter().map(|meter| counts(meter)).collect();
        let mut node = vec![0; COUNTS + NODE_COUNTS];
        for counts in &of_sites {
            node.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        node[DISK_READS..CPU_MS].copy_from_slice(&view.disk_calls());
        node[CPU_MS] = view.process().0;
        self.tell_prefetching(view, (node[CPU_MS], now_ms));
        node[SPARED] = view.objects.disk().map_or(0, |disk| disk.usage().spared_reads);
        (node[PEER], node[PEER_BYTES]) = view.peer_answers();
        let labels: Vec<&str> = meters.iter().map(|meter| meter.label()).collect();
        debug_assert_eq!(node.len(), COUNTS + NODE_COUNTS, "each count has its place");
        debug_assert_eq!(labels.len(), of_sites.len(), "each site has counts");
        self.node.record(now_ms, 1, node);
        if self.seconds.is_multiple_of(SITES_EVERY_S as u64) {
            let set = Key::unkeyed(labels.join("\n").as_bytes()).low();
            self.sites.record(now_ms, set, of_sites.concat());
            self.record_origins(view, now_ms);
        }
        self.disks.record(now_ms, 1, view.calls.iter().flat_map(|tally| disk_calls(tally)).collect());
        self.seconds += 1;
        let mut times = vec![[0; BUCKETS]; Source::ALL.len()];
        for meter in &meters {
            for (sum, times) in times.iter_mut().zip(meter.times()) {
                sum.iter_mut().zip(times).for_each(|(sum, count)| *sum += count);
            }
        }
        self.heat.record(now_ms / 1000, &times.iter().map(|times| times.to_vec()).collect::<Vec<_>>());
        let mut growth = [0; BUCKETS];
        for ((source, now), before) in Source::ALL.iter().zip(&times).zip(&self.times) {
            let weight = if *source == Source::Ram { SAMPLED } else { 1 };
            for (sum, (now, before)) in growth.iter_mut().zip(now.iter().zip(before)) {
                *sum += now.saturating_sub(*before) * weight;
            }
        }
        self.times = times;
        growth
    }

    fn record_origins(&mut self, view: &NodeView, now_ms: u64) {
        let live = view.live();
        let members = live.routes.all().iter().flat_map(|route| route.group.members());
        let (mut names, mut requests) = (String::new(), Vec::new());
        for member in members {
            names.push_str(&member.url());
            names.push('\n');
            requests.push(member.requests.value());
        }
        self.origins.record(now_ms, Key::unkeyed(names.as_bytes()).low(), requests);
    }

    /// Returns the sample of the last second for the history.
    fn sample(&self, view: &NodeView, times: [u64; BUCKETS]) -> Sample {
        let of = |at: usize| self.node.growth(at, 1000);
        let (requests, hits) = requests_and_hits(of);
        let rate = |at: usize| self.node.per_s(at, 1000) as f32;
        let quantile = |q: f64| quantile_us(&times, q).map_or(f32::NAN, |us| us as f32);
        let scale = {
            let (all, per_s) = (requests as f64, |at: usize| self.node.per_s(at, 1000));
            let rates: f64 = requests_and_hits_rate(per_s);
            if all > 0.0 { rates / all } else { 0.0 }
        };
        let scaled = |count: u64| (count as f64 * scale) as f32;
        let mut sample = [f32::NAN; SERIES.len()];
        for (name, value) in [
            ("requests", scaled(requests)),
            ("hits", scaled(hits)),
            ("hit_bytes", rate(HIT_BYTES)),
            ("bytes", scaled(sent_bytes(of))),
            ("origin_bytes", rate(ORIGIN_BYTES)),
            ("disk_reads", rate(DISK_READS)),
            ("disk_writes", rate(DISK_READS + 1)),
            ("disk_read_bytes", rate(DISK_READS + 2)),
            ("disk_write_bytes", rate(DISK_READS + 3)),
            ("cpu_ms", rate(CPU_MS)),
            ("rss_bytes", view.process().1 as f32),
            ("p50_us", quantile(0.5)),
            ("p99_us", quantile(0.99)),
            ("errors", rate(ERROR)),
        ] {
            let at = SERIES.iter().position(|series| *series == name).expect("a series of this name");
            sample[at] = value;
        }
        sample
    }
}

/// Returns requests without tunnels, and bytes sent for them, since the start.
fn requests_and_bytes(node: &Rates) -> (u64, u64) {
    let of = |at: usize| node.value(at);
    (requests_and_hits(of).0, sent_bytes(of))
}

fn requests_and_hits_rate(per_s: impl Fn(usize) -> f64) -> f64 {
    (0..super::view::SOURCES.len()).filter(|source| *source != super::view::TUNNEL).map(per_s).sum()
}

/// Seconds for which counts are kept.
const SECONDS_KEPT: usize = 62;

/// Seconds between two records of the sites' counts.
const SITES_EVERY_S: usize = 5;

/// Most requests that the curve records in a second, at about 1 us each.
const WATCHED_A_SECOND: u64 = 4000;
