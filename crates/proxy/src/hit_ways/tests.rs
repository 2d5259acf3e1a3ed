//! Plays known rows and random ones.

use super::*;
use proptest::prelude::*;

/// Returns steps in which every guest asks at once for small paths.
fn together(form: u8, paths: std::ops::Range<u8>) -> Vec<u8> {
    paths.flat_map(|path| [7, form << 4 | path]).collect()
}

#[test]
fn idle_hits_need_no_task_others_do() {
    for guests in [0, 1, 15, 16, 31] {
        for form in [0, 1, 2, 3, 4, 11, 12, 13] {
            let data = [vec![guests], together(form, 0..9)].concat();
            assert_eq!(play(&Row::read(&data)), 0, "{guests} {form}");
            let data = [vec![guests], together(form, 10..12)].concat();
            assert_eq!(
                play(&Row::read(&data)),
                0,
                "{guests} {form}, the last that is copied and the first that is lent"
            );
        }
        let data = [vec![guests], together(14, 0..1)].concat();
        assert_eq!(play(&Row::read(&data)), usize::from(guests) + 1, "Cache-Control");
        let data = [vec![guests], together(0, 9..10)].concat();
        assert_eq!(play(&Row::read(&data)), usize::from(guests) + 1, "what takes a while to lend");
    }
}

#[test]
fn every_request_is_answered_alike_on_every_way() {
    for manner in [0x00, 0x14, 0x20, 0x34, 0x54, 0x74] {
        for form in 0..16 {
            // The following paths double as numbers and texts for forms that have some.
            hit_ways(&[vec![manner], together(form, 0..16)].concat());
        }
    }
}

/// The kernel takes no byte of one reply, behind a waiting reply of another request.
#[test]
fn late_reader_gets_equal_replies() {
    for replies in 0..40 {
        for path in [0, 3, 5, 8, 10, 11] {
            // Guest 1 stops reading and asks `replies` times for 500 bytes.
            let full = [&[0x21, 0x0e][..], &[0x08, 0x03, 4].repeat(replies)].concat();
            hit_ways(&[&full[..], &[0x00, 0x03, 0x08, path, 4]].concat());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_are_answered_in_order(data in prop::collection::vec(any::<u8>(), 0..200)) {
        hit_ways(&data);
    }
}
