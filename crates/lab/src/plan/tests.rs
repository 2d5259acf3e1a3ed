//! Plans for made traffic: invariants for any numbers.

use super::*;
use crate::character::{LoadOptions, load};
use crate::progress::Silent;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, ReadOptions, Reader};

fn planned(requests: usize, wishes: PlanOptions) -> (Plan, Character) {
    planned_up_to(u64::MAX, requests, wishes)
}

/// Plans for made traffic without objects of more than `largest` bytes.
fn planned_up_to(largest: u64, requests: usize, wishes: PlanOptions) -> (Plan, Character) {
    let trace = Traffic { requests, clients: 50, ..Traffic::default() }.make().expect("possible");
    let line = |request: &shoal_trace::Request| {
        let (seconds, bytes) = (request.time_ms as f64 / 1000.0, request.bytes.min(largest));
        format!("{seconds:.3} 5 c{} TCP_MISS/200 {bytes} GET {} - - -\n", request.client, trace.url(request))
    };
    let log: String = trace.requests().iter().map(line).collect();
    let reader = Reader::new(log.as_bytes(), &ReadOptions::default()).expect("a log");
    let mut filter = Filter::default();
    assert!(filter.add("cacheable"));
    let loaded = load(reader, &LoadOptions { filter, ..LoadOptions::default() }).expect("readable");
    let character = Character::of(&loaded.trace, loaded.known(), 1, &mut Silent);
    let plan = Plan::of(&loaded, &character, wishes, &mut Silent).expect("a plan");
    (plan, character)
}

#[test]
fn a_plan_agrees_with_itself() {
    let (plan, character) = planned_up_to(Footprint::default().ram_object_max, 8000, PlanOptions::default());
    let memory = &plan.memory;
    assert_eq!((memory.rate, memory.curve().points.len()), (1.0, memory::CURVE_POINTS));
    let largest = memory.curve().points.last().expect("points").hit_ratio;
    assert!(
        (largest - plan.demand.achievable).abs() < 1e-9,
        "the largest cache is an infinite one: {largest}"
    );
    let lru = &memory.curves.iter().find(|(name, _)| *name == "lru").expect("it is there").1;
    for (simulated, counted) in lru.points.iter().zip(&memory.stack.points) {
        // The simulated cache declines objects larger than itself. On the stack such an object
        // pushes the rest away.
        assert!((simulated.hit_ratio - counted.hit_ratio).abs() < 0.04, "{simulated:?} {counted:?}");
    }
    for goal in [Goal::HitRatio, Goal::Throughput] {
        let of: Vec<&Target> = memory.targets.iter().filter(|target| target.goal == goal).collect();
        assert_eq!(of.len(), 3);
        assert!(
            of.is_sorted_by_key(|target| target.ram_bytes)
                && of.iter().all(|target| target.disk_ios > Some(0.0))
        );
    }
    for tier in &plan.tiers {
        assert!(tier.ram_hit_ratio + tier.disk_hit_ratio <= plan.demand.achievable + 1e-9, "{tier:?}");
    }
    let names: Vec<&str> = plan.disk.wear.iter().map(|wear| wear.architecture.as_str()).collect();
    assert_eq!(names.len(), shoal_store::architectures::ARCHITECTURES.len());
    assert!(
        plan.disk.wear.iter().all(|wear| wear.amplification >= 1.0 && wear.years > Some(0.0)),
        "{:?}",
        plan.disk.wear
    );
    assert!(
        plan.expected.hit_ratio() > 0.9 * plan.demand.achievable
            && plan.expected.error > 0.0
            && (plan.expected.range.0..=plan.expected.range.1).contains(&plan.expected.hit_ratio()),
        "{:?}",
        plan.expected
    );
    let future = &plan.future;
    assert!(
        (future.forecast.hit_ratio - plan.expected.hit_ratio()).abs() < 0.1
            && future.forecast.requests == 8000
    );
    assert!(
        future.forecast.error > 0.0 && future.back_tests.len() == 3 && future.mean_error() < 0.1,
        "{future:?}"
    );
    let keys: Vec<&str> = plan.bounds.iter().map(|bound| bound.key).collect();
    assert_eq!(keys, ["freshness", "cacheability", "vary", "heads", "log"]);
    assert!(plan.bounds.iter().all(|bound| bound.otherwise.is_none_or(|other| other <= bound.hit_ratio)));
    let cooperation = &plan.cooperation;
    assert!(cooperation.joined.is_sorted_by(|a, b| a.hit_ratio <= b.hit_ratio) && cooperation.pays.is_some());
    assert!(cooperation.documents >= plan.demand.objects);
    let page = report(&plan, &character, ("made.log", "shoal plan made.log", ""));
    page.figures().for_each(|figure| crate::figure::check_well_formed(&figure.svg()));
    let json = json(&plan, "made.log");
    assert_eq!(json["choice"]["ram_bytes"], plan.choice.ram_bytes);
    let text = text(&plan, "made.log");
    for part in ["95% of the throughput", "knee", "squidmla", "Cooperation\n", &plan.cooperation.verdict] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(page.html().contains("ram = &quot;") || page.html().contains("ram = \""));
    let brief = brief(&plan, "made.log", "3 of 9 lines are bad");
    let first: Vec<&str> = brief.lines().collect();
    assert!(first.len() <= 10 && first[0].ends_with("; 3 of 9 lines are bad"), "{brief}");
    assert!(page.answers.iter().any(|(name, answer)| name == "buy" && brief.contains(answer)));
}

#[test]
fn prices_decide() {
    let priced = |machine, egress| {
        let wishes = PlanOptions {
            ram_price: Some(machine),
            disk_price: Some(machine),
            egress_price: Some(egress),
            ..PlanOptions::default()
        };
        planned(3000, wishes).0
    };
    let (dear, cheap) = (priced(1e6, 0.01), priced(0.001, 100.0));
    assert_eq!(dear.choice.disk_bytes, 0, "{:?}", dear.choice);
    assert!(settings(&dear, "x.log").contains("directory = \"\""));
    assert!(cheap.choice.disk_bytes > 0 && cheap.expected.hit_ratio() > dear.expected.ram_hit_ratio);
    assert!(dear.choice.priced.len() >= 2 && cheap.choice.why.contains("costs least"));
    assert!(text(&cheap, "x.log").contains("Costs a month, the cheapest "), "{}", text(&cheap, "x.log"));
    let priced = &cheap.choice.priced;
    assert!(priced.is_sorted_by(|a, b| a.total() <= b.total()));
    assert!(priced.iter().any(|pair| pair.disk_bytes == cheap.choice.disk_bytes), "{priced:?}");
    let slow = PlanOptions {
        ram_price: Some(0.001),
        egress_price: Some(100.0),
        drive_operations: 0.0,
        ..PlanOptions::default()
    };
    assert_eq!(planned(3000, slow).0.choice.disk_bytes, 0, "the drive cannot do it");
    let disk = planned(3000, PlanOptions { disk_bytes: Some(100 << 20), ..PlanOptions::default() }).0;
    assert_eq!((disk.choice.disk_bytes, disk.disk.bytes), (100 << 20, 100 << 20));
    assert!(disk.choice.why.contains("the disk is the one that there is"), "{}", disk.choice.why);
    let both = PlanOptions { ram_bytes: Some(5 << 20), disk_bytes: Some(40 << 20), ..PlanOptions::default() };
    let both = planned(3000, both).0;
    assert_eq!((both.expected.ram_bytes, both.expected.disk_bytes), (5 << 20, 40 << 20));
    assert!(both.tiers.iter().all(|tier| tier.ram_bytes == 5 << 20));
    assert!(both.tiers.contains(&both.expected), "the same pair is simulated alike");
}

#[test]
fn short_logs_are_refused() {
    let trace = Traffic { requests: 500, hit_ratio: 0.3, ..Traffic::default() }.make().expect("possible");
    let log: String = trace
        .requests()
        .iter()
        .map(|request| format!("{} {}\n", trace.url(request), request.bytes))
        .collect();
    let reader = Reader::new(log.as_bytes(), &ReadOptions::default()).expect("a list");
    let loaded = load(reader, &LoadOptions::default()).expect("readable");
    let character = Character::of(&loaded.trace, loaded.known(), 1, &mut Silent);
    let refused = Plan::of(&loaded, &character, PlanOptions::default(), &mut Silent);
    assert!(matches!(refused, Err(LabError::TooFewRequests { found: 500, least: LEAST_REQUESTS })));
}

/// Plans for a log of `requests` requests for 300 small objects. Each forty-first request is for
/// one of seven objects that are larger than RAM takes.
fn with_large(requests: u64, small_bytes: u64, large_bytes: u64, wishes: PlanOptions) -> Plan {
    let mut log = String::new();
    for at in 0..requests {
        let (object, bytes) = match at % 41 {
            40 => (1000 + at % 7, large_bytes),
            _ => (at * at % 297, small_bytes),
        };
        log += &format!("{}.5 5 c TCP_MISS/200 {bytes} GET http://a/{object} - - -\n", 1_000_000 + at);
    }
    let reader = Reader::new(log.as_bytes(), &ReadOptions::default()).expect("a log");
    let loaded = load(reader, &LoadOptions::default()).expect("readable");
    let character = Character::of(&loaded.trace, loaded.known(), 1, &mut Silent);
    Plan::of(&loaded, &character, wishes, &mut Silent).expect("a plan")
}

#[test]
fn objects_that_ram_does_not_take_do_not_size_it() {
    let plan = with_large(6000, 10_000, 6_000_000_000, PlanOptions::default());
    let (choice, memory) = (&plan.choice, &plan.memory);
    assert!(choice.ram_bytes <= 16 << 20, "300 objects of 10 KB have room in 16 MiB: {choice:?}");
    assert!(memory.curve().points.last().is_some_and(|point| point.size < 10 << 20));
    assert!((memory.too_large - 1.0 / 41.0).abs() < 0.01, "{}", memory.too_large);
    assert!(memory.most() < 1.0 - memory.too_large + 0.001, "{}", memory.most());
    assert!(
        choice.objects > 1000 && plan.disk.objects > 1000,
        "a disk of {} has room for them",
        plan.disk.bytes
    );
    let daily = plan.disk.wear.iter().filter_map(|wear| wear.bytes_per_day).fold(0.0, f64::max);
    assert!(daily < 10e9, "what the disk does not take it does not write: {daily} bytes a day");
    assert!(text(&plan, "x").contains("% of the requests are for objects of more than 1 MiB"));
}

#[test]
fn ram_that_takes_nothing_hits_nothing() {
    let plan = with_large(1200, 2 << 20, 2 << 20, PlanOptions::default());
    assert_eq!((plan.memory.most(), plan.memory.too_large), (0.0, 1.0));
    assert!(plan.memory.targets.is_empty() && plan.memory.knee.is_none());
    assert!(plan.expected.ram_hit_ratio == 0.0 && plan.expected.disk_hit_ratio > 0.9, "{:?}", plan.expected);
    assert!(plan.choice.why.contains("takes none of the objects"), "{}", plan.choice.why);
    assert!(text(&plan, "x").contains("RAM takes no object that is asked for again"));
    let small = PlanOptions { disk_bytes: Some(4 << 20), ..PlanOptions::default() };
    assert_eq!(
        with_large(1200, 2 << 20, 2 << 20, small).expected.hit_ratio(),
        0.0,
        "the disk takes none either"
    );
}

/// Plans for a log of `requests` requests for 300 objects, with the words on the cache that `said`
/// returns for a request's place.
fn with_outcomes(requests: u64, said: impl Fn(u64) -> String) -> Result<Plan, LabError> {
    let mut log = String::from("time_s,client,bytes,url,cache_status\n");
    for at in 0..requests {
        log += &format!("{at},c,5000,http://a/{},{}\n", at * at % 297, said(at));
    }
    let reader = Reader::new(log.as_bytes(), &ReadOptions::default()).expect("a table");
    let mut filter = Filter::default();
    assert!(filter.add("cacheable"));
    let options = LoadOptions { filter, versions: true, ..LoadOptions::default() };
    let loaded = load(reader, &options).expect("readable");
    let character = Character::of(&loaded.trace, loaded.known(), 1, &mut Silent);
    Plan::of(&loaded, &character, PlanOptions::default(), &mut Silent)
}

#[test]
fn forbidden_answers_are_not_planned_for() {
    let refused = with_outcomes(3000, |_| "shoal; fwd=uri-miss; detail=never-reusable".into());
    assert!(
        matches!(refused, Err(LabError::TooFewRequests { found: 0, .. })),
        "all of it is lost to its origin"
    );
    let half = |at: u64| (at * at % 297).is_multiple_of(2);
    let plan = with_outcomes(4000, |at| match half(at) {
        true => "shoal; fwd=uri-miss; detail=no-store".into(),
        false => "shoal; fwd=uri-miss; stored".into(),
    });
    let plan = plan.expect("half of it can be stored");
    let stored = (0..4000).filter(|at| !half(*at)).count() as u64;
    assert_eq!((plan.demand.storable, plan.demand.requests, plan.account.hits), (stored, 4000, 0));
    let text = today(&plan.account, Some(&plan.demand));
    let first = text.lines().take(3).collect::<Vec<_>>().join("\n");
    assert!(first.contains("0.0% hit") && first.contains("could, with room for everything"), "{first}");
    for part in ["room", "no-store", "first request", "--filter get"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let possible = plan.account.possible_hit_ratio().expect("it is told");
    let all = plan.demand.achievable * plan.demand.storable_share();
    assert!((possible - all).abs() < 0.03, "{possible} of all, {all} after the warm-up");
    let brief = brief(&plan, "x", "");
    let line = |word: &str| brief.lines().find(|line| line.starts_with(word)).unwrap_or_default();
    assert!(line("hits today").contains(" 0.0% of 4,000 requests"), "{brief}");
    assert!(line("lost to").contains("room ") && line("lost to").contains("no-store "), "{brief}");
    let json = json(&plan, "x");
    assert_eq!(json["cache_that_logged"]["hit_ratio"], 0.0);
    assert!(json["cache_that_logged"]["lost"].as_array().is_some_and(|lost| lost.len() == 3), "{json}");
}

#[test]
fn replaced_answers_are_lost_to_lifetimes() {
    let every_third = |at: u64| if at.is_multiple_of(3) { "EXPIRED" } else { "HIT" }.to_owned();
    let plan = with_outcomes(4000, every_third).expect("a plan");
    let today = plan.account.hit_ratio().expect("it is told");
    assert!((today - 2.0 / 3.0).abs() < 0.01, "{today}");
    assert!((plan.demand.achievable - today).abs() < 0.01, "room wins nothing: {}", plan.demand.achievable);
    let lost = plan.account.losses();
    assert_eq!(lost[0].0.name(), "lifetime", "{lost:?}");
    let lasting = with_outcomes(4000, |at| if at < 297 { "MISS" } else { "HIT" }.into()).expect("a plan");
    assert!(lasting.demand.achievable > 0.99, "{}", lasting.demand.achievable);
}

#[test]
fn told_lifetimes_bound_the_hits() {
    let plan = with_outcomes(4000, |_| "shoal; hit; ttl=100".into()).expect("a plan");
    let bound = &plan.bounds[0];
    assert!(bound.key == "freshness" && bound.assumed.contains("lifetimes for 100.0%"), "{bound:?}");
    // Each object comes back every 297 seconds at the latest, and twice within many.
    assert!(bound.otherwise.is_some_and(|hits| hits > 0.1 && hits < bound.hit_ratio - 0.1), "{bound:?}");
}
