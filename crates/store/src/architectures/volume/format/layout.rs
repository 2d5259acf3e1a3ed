//! Relations between the lengths of parts on the disk, checked when this is compiled.

use super::*;

const _: () = {
    assert!(SUPERBLOCK_CHECKED == 8 + 2 * 4 + 3 * 8);
    assert!(SUPERBLOCK_CHECKED + 8 <= SUPERBLOCK_BYTES);
    assert!(SUPERBLOCK_BYTES.is_multiple_of(PAGE_BYTES));
    assert!(STATE_AT + 2 * PAGE_BYTES as u64 <= DATA_AT);
    assert!(DATA_AT.is_multiple_of(PAGE_BYTES as u64));
    assert!(UNIT_BYTES.is_power_of_two());
    assert!((PAGE_BYTES as u64).is_multiple_of(UNIT_BYTES));
    assert!(PIECE_BYTES.is_multiple_of(PAGE_BYTES));
    assert!(PIECE_BYTES.is_multiple_of(PLACE_BYTES));
    assert!(END_BYTES == 8 + 8 + 8 + 4 + 4 + 8 + 8);
    assert!(HEAD_BYTES == 4 + 2 + 2 + 16 + 3 * 8 + 4 * 4 + 3 * 8);
    assert!(ITEM_BYTES.is_power_of_two() && ITEM_BYTES == 16 + 8 + 4 + 4);
    // The longest metadata has room that is read back.
    assert!((METADATA_MAX as usize).is_multiple_of(LARGE_ROOM_STEP));
    assert!(LARGE_ROOM_STEP.is_multiple_of(ROOM_STEP));
    // Six bits of an entry say the class.
    assert!(CLASSES == 1 << 6);
    // The last class takes the largest record.
    assert!(
        7 << ((CLASSES - 1) / 4) >= (HEAD_BYTES + PIECE_BYTES) / 16 + (KEY_MAX + METADATA_MAX) as usize / 16
    );
    // A chunk's length and an item's place are 32 bits.
    assert!(STRIPE_MAX <= u32::MAX as u64);
    assert!(PIECE_BYTES as u64 <= STRIPE_MAX);
    assert!(UNSEALED != SEALED);
};
