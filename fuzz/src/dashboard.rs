//! The dashboard's history as bytes, and text that it shows.

use shoal_dashboard::{History, TEXT_CHARACTERS_MAX, shown_bytes};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes are refused, or are a history that keeps its promises and reads back. The checksum is made
/// right, so that the bytes before it are judged. Any bytes can be shown.
pub fn history(data: &[u8]) {
    assert!(shown_bytes(data).chars().count() <= TEXT_CHARACTERS_MAX);
    let content = data.split_last_chunk::<8>().map_or(data, |(content, _)| content);
    let bytes = [content, &xxh3_64(content).to_le_bytes()].concat();
    for unix_s in [0, 1_800_000_000, u64::from(u32::MAX) * 64] {
        let Ok(mut history) = History::from_bytes(&bytes, unix_s) else { continue };
        history.invariants();
        let written = history.to_bytes();
        let read = History::from_bytes(&written, unix_s).expect("our own bytes");
        assert_eq!(read.document(unix_s, 600), history.document(unix_s, 600));
        assert_eq!(read.document(unix_s, 86_400), history.document(unix_s, 86_400));
        history.record(unix_s, &[1.0; shoal_dashboard::SERIES.len()]);
        history.record(unix_s + 120, &[2.0; shoal_dashboard::SERIES.len()]);
        history.invariants();
        assert!(history.memory_bytes() < 200_000);
    }
    assert!(History::from_bytes(data, 0).is_err() || data == bytes, "a wrong checksum");
}
