//! Recognition of foreign data on a device.

/// Returns the kind of data at the beginning of a device, at least 64 KiB and a page; `None` if all
/// bytes are zero.
pub(super) fn looks_like(beginning: &[u8], end: &[u8]) -> Option<&'static str> {
    for (at, magic, name) in KNOWN {
        if beginning.get(*at..at + magic.len()) == Some(magic) {
            return Some(name);
        }
    }
    let is_blank = beginning.iter().chain(end).all(|byte| *byte == 0);
    (!is_blank).then_some("data")
}

/// Offsets, the bytes that mark each kind of data, and its name.
const KNOWN: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an XFS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (65_600, b"_BHRfS_M", "a Btrfs file system"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (3, b"NTFS    ", "an NTFS file system"),
    (510, b"\x55\xaa", "a partition table or boot sector"),
];
