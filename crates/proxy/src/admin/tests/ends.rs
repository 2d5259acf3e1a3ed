//! Certificates of a scripted node, and their rows on the page of metrics.

use super::*;

/// Certificates: one of the operator, and one that has not come.
pub(super) fn ends() -> Vec<CertificateStatus> {
    let one = CertificateStatus {
        listener: "127.0.0.1:443".into(),
        path: "/a\"b.pem".into(),
        names: vec!["a.test".into(), "b.test".into()],
        not_after: Some(1_700_000_000),
        order: None,
    };
    let order = OrderStatus { failures: 2, next_at: 1_800_000_000, why: "refused".into() };
    let path = "/c.pem".into();
    vec![one.clone(), one.clone(), CertificateStatus { path, not_after: None, order: Some(order), ..one }]
}

#[test]
fn ends_of_certificates_are_rows() {
    let page = request(&start(Scripted::default()).0, "GET", "/metrics", "").1;
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("shoal_certificate_not_after_seconds{")).collect();
    let labels = "listener=\"127.0.0.1:443\",path=\"/a\\\"b.pem\",name=\"a.test\"";
    let expected = format!("shoal_certificate_not_after_seconds{{{labels}}} 1700000000");
    // Two listeners with one address and file would be two rows of one name.
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0], expected);
    assert!(rows[1].ends_with(" 0"), "{rows:?}");
}
