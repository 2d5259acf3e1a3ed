//! The model's costs beside those of the event simulation, with as many proxies as fit.
//!
//! A small web is asked for at the rates that make it alike the large one
//! ([`crate::voelker_ch5::made`]). The same clients are behind 16, 64 and 256 proxies in three
//! levels, with caches of one size.

use super::{LabError, Section, Table, Unit};
use crate::voelker_ch5::made::{made, model_of, plan};
use shoal_lab::model::wan::costs::{CostSetup, CostedScheme, SchemeCosts};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::scheme::Region;
use shoal_lab::report::{Claim, Finding};
use shoal_lab::wide_area::{Cooperation, Digests, HomeRule, WideAreaResult, WideAreaSetup, simulate};

pub(super) fn section(requests: usize, seed: u64, is_small: bool) -> Result<Section, LabError> {
    let made = made(requests, 5e5, Rates::MID_SLOW);
    let (stream, model) = (made.stream(seed), model_of(&made)?);
    let population = f64::from(made.clients);
    let mut table = Table::new(
        "Model and simulation, caches for a twentieth of the bytes",
        &[
            "proxies, scheme",
            "hits, model",
            "simulated",
            "latency, model",
            "simulated",
            "questions, model",
            "simulated",
            "bytes told, model",
            "simulated",
        ],
    );
    let mut worst = [0.0f64; 3];
    for fanout in if is_small { vec![2, 4] } else { vec![4, 8, 16] } {
        let region = Region { population, fanout, latency_seconds: super::LATENCIES.to_vec() };
        let cache_bytes = (u64::from(made.objects) * made.bytes / 20) as f64;
        let setup = CostSetup {
            region: region.clone(),
            cache_bytes: vec![cache_bytes; 3],
            question_bytes: 400.0,
            directory_bits: 16.0,
            change_bytes: 16.0,
        };
        for (scheme, cooperation) in SCHEMES {
            // Directories of many proxies take a step for each pair at each update.
            if matches!(cooperation, Cooperation::Summaries(_)) && region.proxies() > MOST_TOLD {
                continue;
            }
            let setting = WideAreaSetup {
                cache_bytes: Some(cache_bytes as u64),
                ..plan(region.clone(), cooperation, &stream)
            };
            let (found, costs) = (simulate(&stream, &setting, seed)?, model.costs(scheme, &setup)?);
            table.rows.push(row(&region, scheme, &costs, &found));
            let off = [
                (costs.hit_rate - found.hit_rate()).abs(),
                (costs.latency_seconds / found.mean_latency_seconds() - 1.0).abs(),
                (costs.questions - found.of_requests(found.questions as f64)).abs(),
            ];
            worst.iter_mut().zip(off).for_each(|(worst, off)| *worst = worst.max(off));
        }
    }
    let finding = |key: &str, what: &str, unit, value| {
        Finding::new(key, what, unit, Claim::Words("near 0".into())).found(&[Some(value)])
    };
    Ok(Section {
        anchor: "checked".into(),
        title: "Model and event simulation".into(),
        question: "How near is the model where both can be had?".into(),
        findings: vec![
            finding("off_hits", "most difference in hits", Unit::Points, worst[0]),
            finding("off_latency", "most difference in latency, of itself", Unit::Share, worst[1]),
            finding("off_questions", "most difference in questions a request", Unit::Ratio, worst[2]),
        ],
        tables: vec![table],
        notes: vec!["Bytes told are those of digests of 16 bits an object, told at 1% of changes, to all others; the model counts 16 bytes for each document that comes or goes. Where more than a quarter of a digest changes, a node sends all of it, which is less. The model takes each cache of a hierarchy as if it saw all requests below it. An upper one sees only what lower ones missed, so that it holds other documents than they do, and all together hit more than the model says. The model's directory is right at every moment; digests name holders of old versions too, which are asked in vain, and miss what came since they were told.".into()],
        ..Section::default()
    })
}

fn row(region: &Region, scheme: CostedScheme, costs: &SchemeCosts, found: &WideAreaResult) -> Vec<String> {
    let told = costs.changes * 16.0;
    vec![
        format!("{}, {}", Unit::Count.shown(region.proxies()), scheme.name()),
        Unit::Share.shown(costs.hit_rate),
        Unit::Share.shown(found.hit_rate()),
        Unit::Seconds.shown(costs.latency_seconds),
        Unit::Seconds.shown(found.mean_latency_seconds()),
        Unit::Ratio.shown(costs.questions),
        Unit::Ratio.shown(found.of_requests(found.questions as f64)),
        Unit::Count.shown(told),
        Unit::Count.shown(found.of_requests(found.update_bytes as f64)),
    ]
}

const SCHEMES: [(CostedScheme, Cooperation); 4] = [
    (CostedScheme::Alone, Cooperation::Alone),
    (CostedScheme::Hierarchy, Cooperation::Hierarchy),
    (CostedScheme::Hashed, Cooperation::Hashed(HomeRule::Rendezvous, None)),
    (
        CostedScheme::Directory,
        Cooperation::Summaries(Digests { bits_per_object: 16, hashes: 4, threshold: 0.01, tries: 3 }),
    ),
];
/// Most proxies that tell each other.
const MOST_TOLD: f64 = 64.0;
