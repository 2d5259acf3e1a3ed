//! Contents as they are read.

use super::*;

#[test]
fn items_outside_of_the_stripe_are_left_out() {
    let item = |at: u64| ContentsItem {
        key: Key::of(b"key"),
        id: 1,
        at: at as u32,
        class: 1,
        kind: RecordKind::Whole,
        begins: false,
        is_pinned: at.is_multiple_of(2),
    };
    let items = [item(1), item((1 << 18) / UNIT_BYTES), item(u64::from(u32::MAX)), item(2)];
    let mut bytes = vec![0; items.len() * ITEM_BYTES];
    encode_contents(&items, &mut bytes);
    let chunk = Chunk { sequence: 1, position: DATA_AT, bytes: 4096, entries: 4, check: xxh3_64(&bytes) };
    assert_eq!(decode_contents(&bytes, &chunk, 1 << 18), Some(vec![items[0], items[3]]));
}
