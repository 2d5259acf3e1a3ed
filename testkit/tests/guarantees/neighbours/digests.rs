//! Digests: this node's own, and bad ones of neighbours.

use super::{answering, get, metric};
use shoal_testkit::{Answer, Origin, Setup, wait};

#[test]
fn digest_is_served_to_listed_neighbours() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 3600));
    let (shoal, _) = answering(Setup::bare(), &[("digest_rebuild", "1 s")]);
    (0..50).for_each(|number| drop(get(&shoal, &format!("{}/{number}", origin.url()))));
    let url = format!("http://{}/squid-internal-periodic/store_digest", shoal.address("forward"));
    let entries = |body: &[u8]| u32::from_be_bytes(body[8..12].try_into().expect("a head"));
    wait::until("the digest has all", || {
        let answer = get(&shoal, &url);
        answer.status == 200 && entries(&answer.body) == 50
    });
    let answer = get(&shoal, &url);
    assert_eq!(answer.field("content-type"), Some("application/cache-digest"));
    assert!(answer.field("expires").is_some());
    assert_eq!(&answer.body[..4], [0, 5, 0, 3]);
    let own = Setup::bare().set_list("neighbours.allow", &["192.0.2.0/24"]).start();
    let answer =
        get(&own, &format!("http://{}/squid-internal-periodic/store_digest", own.address("forward")));
    assert_ne!(answer.status, 200, "a digest tells what others asked for");
}

/// A digest that is cut, too long or full of ones is not used, and its neighbour is not asked.
#[test]
fn bad_digests_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let mut digest = vec![0, 5, 0, 3, 0, 0, 0, 100, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 63, 5, 4];
    digest.resize(128, 0);
    let with = |mask: usize, byte: u8| [&digest[..], &vec![byte; mask]].concat();
    let huge = {
        let mut huge = with(63, 0);
        huge[4..8].fill(0xff);
        huge[16..20].fill(0xff);
        huge
    };
    for body in [with(20, 0), with(64, 0), with(1 << 20, 0), with(63, 0xff), huge, Vec::new()] {
        let sibling = Origin::start();
        sibling.on("http*", Answer::ok(body));
        let (ip, port) = (sibling.address().ip(), sibling.address().port());
        let shoal = Setup::bare()
            .set("neighbours.digest_refresh", "1 s")
            .neighbour(&format!("host = '{ip}'\nkind = 'sibling'\nhttp_port = {port}\ndigest = true"))
            .start();
        wait::until("the digest is refused", || metric(&shoal, "digests_failed_total") > 0);
        get(&shoal, &format!("{}/a", origin.url())).expect_body("from the origin");
        assert_eq!(metric(&shoal, "digests_fetched_total"), 0);
    }
}
