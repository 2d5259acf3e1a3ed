//! The document of the page "Size": the live curve beside the sizes in force, and advice.

use crate::documents::{SizeDocument, SizeNow, WhatIf};
use crate::live_curve::LiveCurve;

/// Sizes in force, and how they did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheSizes {
    /// `cache.ram` in bytes.
    pub ram: u64,
    /// Bytes of all disks.
    pub disk: u64,
    /// Share of requests for which the cache had a response, fresh or not.
    pub measured: Option<f64>,
}

/// Returns the document at `unix_ms`. The disk holds most objects of RAM too, so that the larger of
/// the two counts as the whole cache.
pub fn size_document(curve: &LiveCurve, sizes: CacheSizes, unix_ms: u64) -> SizeDocument {
    let CacheSizes { ram, disk, measured } = sizes;
    let (points, error) = curve.points(ram.min(if disk > 0 { disk } else { ram }), ram.max(disk));
    let (sampled_keys, rate, requests) = curve.sample();
    let other = |text: &str, ram: u64, disk: u64| what_if(curve, text, ram, disk);
    let now = other("now", ram, disk);
    let mut what_ifs =
        vec![other("twice the RAM", ram.saturating_mul(2), disk), other("half the RAM", ram / 2, disk)];
    if disk > 0 {
        what_ifs.push(other("twice the disk", ram, disk.saturating_mul(2)));
        what_ifs.push(other("half the disk", ram, disk / 2));
        what_ifs.push(other("no disk", ram, 0));
    }
    let advice = advice(&now, &what_ifs, (requests, error, measured));
    SizeDocument {
        unix_ms,
        sampled_keys,
        rate,
        error_points: error * 100.0,
        requests,
        curve: points,
        now: SizeNow {
            ram,
            disk,
            hit_ratio_forecast: now.hit_ratio,
            ram_hit_ratio_forecast: now.ram_hit_ratio,
            hit_ratio_measured: measured,
        },
        what_if: what_ifs,
        advice,
    }
}

fn what_if(curve: &LiveCurve, text: &str, ram: u64, disk: u64) -> WhatIf {
    let whole = ram.max(disk);
    let curve = curve.curve(&[ram.min(whole), whole]);
    let [in_ram, all] = &curve.points[..] else { return WhatIf::default() };
    debug_assert!(in_ram.hit_ratio <= all.hit_ratio, "a larger cache hits no less");
    WhatIf {
        text: text.to_owned(),
        ram,
        disk,
        hit_ratio: all.hit_ratio,
        byte_hit_ratio: all.byte_hit_ratio,
        ram_hit_ratio: in_ram.hit_ratio,
    }
}

/// Returns sentences about the sizes. Differences below the error are not worth a sentence.
fn advice(
    now: &WhatIf,
    others: &[WhatIf],
    (requests, error, measured): (u64, f64, Option<f64>),
) -> Vec<String> {
    if requests < REQUESTS_MIN {
        return vec![format!("The curve rests on {requests} requests; wait for {REQUESTS_MIN}.")];
    }
    let mut advice = Vec::new();
    let worth = error.max(WORTH);
    for other in others {
        let (all, in_ram) = (other.hit_ratio - now.hit_ratio, other.ram_hit_ratio - now.ram_hit_ratio);
        let is_larger = other.ram > now.ram || other.disk > now.disk;
        let text = &other.text;
        if is_larger && all >= worth {
            advice.push(format!("With {text}, {:.1}% more of the requests would hit.", all * 100.0));
        } else if is_larger && in_ram >= worth && other.ram > now.ram {
            advice.push(format!(
                "With {text}, {:.1}% more of the requests would be answered from RAM.",
                in_ram * 100.0
            ));
        } else if !is_larger && all.abs() < worth && (in_ram.abs() < worth || other.ram == now.ram) {
            advice.push(format!("With {text}, as many requests would hit, within {:.1}%.", worth * 100.0));
        }
    }
    if let Some(measured) = measured
        && now.hit_ratio - measured > LACK
    {
        advice.push(format!(
            "The sizes allow {:.0}% hits and {:.0}% came: look at the reasons, not at the sizes.",
            now.hit_ratio * 100.0,
            measured * 100.0
        ));
    }
    if advice.is_empty() {
        advice.push("No other size of these would change the hit ratio by a percent.".into());
    }
    advice
}

/// Requests below which the curve says nothing.
const REQUESTS_MIN: u64 = 10_000;

/// Least difference of hit ratios that is worth a sentence.
const WORTH: f64 = 0.01;

/// Difference between forecast and measurement that other causes explain.
const LACK: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a curve of `objects` objects of 1 KB that come in turn, `rounds` times.
    fn cyclic(objects: u64, rounds: u64) -> LiveCurve {
        let mut curve = LiveCurve::new(0);
        for _ in 0..rounds {
            for object in 0..objects {
                curve.watch(shoal_policy::curve::mixed(object, 3), 1000);
            }
            curve.note_all(0, objects, objects * 1000);
        }
        curve
    }

    #[test]
    fn advice_follows_the_curve() {
        let curve = cyclic(2000, 10);
        let sizes = |ram, disk| CacheSizes { ram, disk, measured: Some(0.2) };
        let document = size_document(&curve, sizes(100_000, 1_200_000), 5);
        assert_eq!((document.unix_ms, document.sampled_keys, document.rate), (5, 2000, 1.0));
        assert_eq!((document.requests, document.now.hit_ratio_forecast), (20_000, 0.0));
        let twice = document.what_if.iter().find(|other| other.text == "twice the disk").expect("a row");
        assert!((twice.hit_ratio - 0.9).abs() < 0.001, "{twice:?}");
        assert!(
            document.advice[..]
                == [
                    "With half the RAM, as many requests would hit, within 1.0%.",
                    "With twice the disk, 90.0% more of the requests would hit.",
                    "With half the disk, as many requests would hit, within 1.0%.",
                    "With no disk, as many requests would hit, within 1.0%."
                ],
            "{:?}",
            document.advice
        );
        let document = size_document(&curve, sizes(4_000_000, 0), 5);
        assert!(
            document.advice.iter().any(|line| line.contains("look at the reasons")),
            "{:?}",
            document.advice
        );
        assert!(document.curve.is_sorted_by(|one, next| one.hit_ratio <= next.hit_ratio));
    }

    #[test]
    fn few_requests_give_no_advice() {
        let document = size_document(&cyclic(10, 1), CacheSizes::default(), 0);
        assert_eq!(document.advice, ["The curve rests on 10 requests; wait for 10000."]);
    }
}
