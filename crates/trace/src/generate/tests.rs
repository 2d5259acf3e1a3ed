//! Generated traffic has the requested statistics.

use super::*;

fn traffic(requests: usize) -> Traffic {
    Traffic { requests, ..Traffic::default() }
}

fn hit_ratio(trace: &Trace) -> f64 {
    1.0 - trace.objects().len() as f64 / trace.requests().len() as f64
}

#[test]
fn infinite_cache_has_requested_hit_ratio() {
    for (alpha, wanted) in [(0.6, 0.3), (0.75, 0.59), (0.9, 0.8)] {
        let trace = Traffic { alpha, hit_ratio: wanted, ..traffic(30_000) }.make().expect("possible");
        assert_eq!(trace.requests().len(), 30_000);
        let found = hit_ratio(&trace);
        assert!((found - wanted).abs() <= 0.005, "{found} instead of {wanted}");
    }
}

#[test]
fn popularity_falls_with_the_exponent() {
    for alpha in [0.6, 0.75, 0.9] {
        // Pages of one object, each drawn independently: staying on a host only adds chance.
        let wanted = Traffic { alpha, embedded: 0.0, stay: 0.0, hit_ratio: 0.7, ..traffic(100_000) };
        let trace = wanted.make().expect("possible");
        let mut counts = vec![0f64; trace.objects().len()];
        trace.requests().iter().for_each(|request| counts[request.object as usize] += 1.0);
        counts.sort_unstable_by(|a, b| b.total_cmp(a));
        // Only ranks with counts large enough not to be mostly chance. Sums over powers of two even
        // out single objects.
        let sum = |from: usize| counts[from..from * 2].iter().sum::<f64>();
        let slope = 1.0 - (sum(1024) / sum(64)).ln() / 16f64.ln();
        assert!((slope - alpha).abs() < 0.04, "{slope} instead of {alpha}");
    }
}

#[test]
fn sizes_have_body_and_tail() {
    let sizes = Sizes::default();
    let mut drawn: Vec<u64> = (0..400_000).map(|object| sizes.of(10, object)).collect();
    drawn.sort_unstable();
    let share_above = |bytes: f64| {
        let above = drawn.len() - drawn.partition_point(|size| (*size as f64) <= bytes);
        above as f64 / drawn.len() as f64
    };
    let median = drawn[drawn.len() / 2] as f64;
    assert!((3000.0..3300.0).contains(&median), "{median}");
    assert!((0.2..0.27).contains(&share_above(8192.0)), "{}", share_above(8192.0));
    let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
    assert!((11_500.0..14_500.0).contains(&mean), "{mean}");
    // Above the body, a tenfold size is 10^1.2 times as rare.
    let ratio = share_above(400_000.0) / share_above(4_000_000.0);
    assert!((12.0..20.0).contains(&ratio), "{ratio}");
    assert!(drawn.iter().all(|size| (40..=64_000_000).contains(size)));
}

#[test]
fn hosts_are_local_within_client_only() {
    let trace = traffic(50_000).make().expect("possible");
    let host = |request: &Request| trace.host_of(request.object);
    let mut last_of = vec![None; 500];
    let (mut same, mut pairs) = (0, 0);
    for request in trace.requests() {
        let last = last_of[request.client as usize].replace(host(request));
        pairs += usize::from(last.is_some());
        same += usize::from(last == Some(host(request)));
    }
    let per_client = same as f64 / pairs as f64;
    let neighbours = trace.requests().windows(2).filter(|pair| host(&pair[0]) == host(&pair[1]));
    let overall = neighbours.count() as f64 / 50_000.0;
    // Three of four requests are embedded objects, and 70% of the pages are on the same host.
    assert!((0.90..0.96).contains(&per_client), "{per_client}");
    assert!(overall < per_client - 0.2, "{overall}");
}

#[test]
fn the_same_values_give_the_same_trace() {
    let digest = |traffic: Traffic| {
        let trace = traffic.make().expect("possible");
        assert!(trace.requests().is_sorted_by_key(|request| request.time_ms));
        let text: String = trace
            .requests()
            .iter()
            .map(|request| format!("{} {} {}\n", request.time_ms, trace.url(request), request.bytes))
            .collect();
        (shoal_core::Key::unkeyed(text.as_bytes()).low(), trace.clients().len())
    };
    let small = traffic(20_000);
    let (first, clients) = digest(small);
    assert_eq!(digest(small).0, first);
    assert_ne!(digest(Traffic { seed: 2, ..small }).0, first);
    assert_eq!(clients, 500);
    assert_eq!(first, PINNED);
}

/// Checksum of the default traffic with 20,000 requests. Another value means that earlier results
/// cannot be repeated.
const PINNED: u64 = 8695694835003024929;

#[test]
fn requests_come_at_the_rate() {
    let trace = traffic(100_000).make().expect("possible");
    let seconds = trace.requests().last().expect("there are some").time_ms as f64 / 1000.0;
    let rate = 100_000.0 / seconds;
    assert!((9.0..11.0).contains(&rate), "{rate}");
}

#[test]
fn impossible_traffic_is_refused() {
    for (text, told) in [
        ("alpha", "\"alpha\" is not like name=value"),
        ("alpha=x", "alpha cannot be \"x\""),
        ("beta=1", "there is no value \"beta\"; known are: seed, "),
    ] {
        let error = text.parse::<Traffic>().expect_err(text).to_string();
        assert!(error.starts_with(told), "{error}");
    }
    for (text, told) in [
        ("requests=0", "requests is 0 and must be from 1 to 100000000"),
        ("alpha=NaN", "alpha is NaN and must be from 0 to 2"),
        ("requests=10,hit-ratio=0.95", "no number of pages gives 10 requests a hit ratio of 0.95"),
    ] {
        let error = text.parse::<Traffic>().expect("values").make().err().expect(text);
        assert_eq!(error.to_string(), told);
    }
    let traffic = Traffic { seed: 5, alpha: 0.8, ..Traffic::default() };
    assert_eq!(traffic.to_string().parse(), Ok(traffic));
}

#[test]
fn correlated_sizes_keep_distribution() {
    let quantiles = |correlation: f64| {
        let wanted = Traffic { size_popularity: correlation, embedded: 0.0, common: 0.0, ..traffic(100_000) };
        let trace = wanted.make().expect("possible");
        let mut counts = vec![0u32; trace.objects().len()];
        let mut sizes = vec![0u64; trace.objects().len()];
        for request in trace.requests() {
            counts[request.object as usize] += 1;
            sizes[request.object as usize] = request.bytes;
        }
        let mean = |is_it: &dyn Fn(u32) -> bool| {
            let logs = counts.iter().zip(&sizes).filter(|(count, _)| is_it(**count));
            let logs: Vec<f64> = logs.map(|(_, size)| (*size as f64).ln()).collect();
            logs.iter().sum::<f64>() / logs.len() as f64
        };
        (mean(&|count| count >= 20), mean(&|count| count == 1))
    };
    let ((popular, once), (small, large)) = (quantiles(0.0), quantiles(-0.6));
    assert!((popular - once).abs() < 0.15, "{popular} {once}");
    assert!(small < large - 0.8, "{small} {large}");
    let sizes = Sizes::default();
    let deviates = (0..200_000).map(|object| {
        let deviate = crate::random::Random::of(9, object).normal();
        sizes.correlated(10, object as u32, (deviate, 0.7))
    });
    let mut drawn: Vec<u64> = deviates.collect();
    drawn.sort_unstable();
    let mut plain: Vec<u64> = (0..200_000).map(|object| sizes.of(10, object)).collect();
    plain.sort_unstable();
    for at in [20_000, 100_000, 180_000, 198_000] {
        let ratio = drawn[at] as f64 / plain[at] as f64;
        assert!((0.9..1.1).contains(&ratio), "{at}: {ratio}");
    }
}

#[test]
fn objects_change_at_their_rate() {
    let changes = Changes { changing: 0.5, days: 0.1, popular_days: 0.01 };
    let trace = Traffic { changes, ..traffic(60_000) }.make().expect("possible");
    let mut last: Vec<Option<(u64, u64)>> = vec![None; trace.objects().len()];
    let (mut changed, mut expected) = (0.0, 0.0);
    for request in trace.requests() {
        if let Some((bytes, then)) = last[request.object as usize].replace((request.bytes, request.time_ms)) {
            changed += f64::from(u8::from(bytes != request.bytes));
            // Half of the objects do not change. Popular ones, few of them, change more often.
            let days = (request.time_ms - then) as f64 / 86_400_000.0;
            expected += 0.5 * (1.0 - (-days / 0.1).exp());
        }
    }
    assert!((0.9..1.5).contains(&(changed / expected)), "{changed} where {expected} are expected");
    let still = traffic(20_000).make().expect("possible");
    let mut sizes = vec![None; still.objects().len()];
    let same = still.requests().iter().all(|request| {
        sizes[request.object as usize].replace(request.bytes).is_none_or(|bytes| bytes == request.bytes)
    });
    assert!(same, "by default nothing changes");
}

#[test]
fn clients_go_back_when_they_remember() {
    let again = |recall: f64| {
        let trace = Traffic { recall, hit_ratio: 0.6, ..traffic(30_000) }.make().expect("possible");
        let mut last_of: Vec<Vec<u32>> = vec![Vec::new(); 500];
        let of_own = trace.requests().iter().filter(|request| {
            let own = &mut last_of[request.client as usize];
            let is_again = own.contains(&request.object);
            own.push(request.object);
            is_again
        });
        of_own.count() as f64 / 30_000.0
    };
    let (forgetful, remembering) = (again(0.0), again(0.5));
    assert!(remembering > forgetful + 0.2, "{forgetful} {remembering}");
}
