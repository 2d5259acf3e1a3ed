//! Verdict on the certificates of listeners: missing, ended, or ending soon.

use crate::finding::Finding;
use crate::show;
use shoal_proxy::admin::{CertificateStatus, OrderStatus};

/// Returns a finding for each certificate that is not in order at `now`, in seconds since 1970.
pub(super) fn judge(certificates: &[CertificateStatus], now: u64) -> Vec<Finding> {
    let judged = certificates.iter().filter_map(|certificate| one(certificate, now));
    judged.take(FINDINGS_MAX).collect()
}

fn one(certificate: &CertificateStatus, now: u64) -> Option<Finding> {
    let (listener, path) = (&certificate.listener, &certificate.path);
    let name = certificate.names.first().map_or(path.as_str(), String::as_str);
    let fix = match &certificate.order {
        None => "renew it; the node reads changed files again by itself".to_owned(),
        Some(order) => fix_of(order, now),
    };
    let Some(end) = certificate.not_after else {
        return Some(Finding::bad(format!("{listener} has no certificate for {name} yet"), fix));
    };
    let left = end.saturating_sub(now);
    // The node renews an ordered certificate itself; only a failure is worth a word before the end.
    let is_failing = certificate.order.as_ref().is_none_or(|order| order.failures > 0);
    match () {
        () if left == 0 => {
            Some(Finding::bad(format!("the certificate for {name} at {listener} has ended ({path})"), fix))
        }
        () if left < SOON_S && is_failing => {
            let text = format!("the certificate for {name} at {listener} ends in {}", show::duration(left));
            Some(Finding::warn(text, fix))
        }
        () => None,
    }
}

/// Returns the state of the orders, and the remedy.
fn fix_of(order: &OrderStatus, now: u64) -> String {
    let wait = show::duration(order.next_at.saturating_sub(now));
    match order.why.is_empty() {
        true => format!("it is ordered in {wait}; the error log tells the course"),
        false => format!("the authority: {}; the next order is in {wait}", order.why),
    }
}

/// Time before the end at which a word is due: 14 days, as `shoal doctor` has it.
const SOON_S: u64 = 14 * 86_400;
/// Most certificates that are told.
const FINDINGS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn ends_are_judged() {
        let now = 1_700_000_000;
        let order = |failures| {
            Some(OrderStatus {
                failures,
                next_at: now + 60,
                why: if failures > 0 { "no" } else { "" }.into(),
            })
        };
        for (not_after, order, expected) in [
            (Some(now + 20 * 86_400), None, None),
            (Some(now + 13 * 86_400), None, Some((Level::Warn, "ends in"))),
            (Some(now - 1), None, Some((Level::Bad, "has ended"))),
            (Some(now + 86_400), order(0), None),
            (Some(now + 86_400), order(3), Some((Level::Warn, "ends in"))),
            (None, order(0), Some((Level::Bad, "no certificate for a.test yet"))),
        ] {
            let certificate = CertificateStatus {
                listener: "0.0.0.0:443".into(),
                path: "/a.pem".into(),
                names: vec!["a.test".into()],
                not_after,
                order,
            };
            let found = judge(&[certificate], now);
            let found = found.first().map(|finding| (finding.level, finding.text.as_str()));
            assert_eq!(found.map(|(level, _)| level), expected.map(|(level, _)| level), "{found:?}");
            let is_told = found.zip(expected).is_none_or(|((_, text), (_, part))| text.contains(part));
            assert!(is_told, "{found:?}");
        }
        let failing = OrderStatus { failures: 1, next_at: now + 60, why: "refused".into() };
        assert!(fix_of(&failing, now).contains("refused; the next order is in"));
    }
}
