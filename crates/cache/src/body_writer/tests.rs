//! Tests of the pieces that a writer passes on or copies.

use super::*;
use crate::invalidations::Invalidations;
use crate::metadata::VaryMarker;

/// Appends a piece of a body that is kept so, without a known end. Returns the piece as its
/// readers get it, and the RAM that is charged for it.
async fn appended(keeping: BodyStorage, piece: &Bytes) -> (Bytes, u64) {
    let objects = Arc::new(HybridCache::in_ram(1 << 20));
    let (growing, key) = (SharedBody::new(), ObjectKey::new(b"http://a.test/".to_vec()));
    let _reader = growing.attach(0).expect("nothing was dropped");
    let marker = VaryMarker { generation: 1, lists: Vec::new(), is_pinned: false };
    let record = ObjectMetadata::Vary(Arc::new(marker));
    let validity = Invalidations::new().snapshot(&key);
    let mut filing = BodyWriter::new(&objects, &growing, key, record, (None, validity)).keeping(keeping);
    filing.append(piece.clone()).await;
    let read = growing.since(0).expect("the window has it").concat();
    assert_eq!(read, piece[..]);
    let WriteState::Gathering { charge, .. } = &filing.place else { panic!("there is room") };
    (growing.since(0).expect("the window has it").remove(0), charge.reservation.bytes())
}

#[tokio::test]
async fn relayed_piece_is_charged_with_its_buffer() {
    let large = Bytes::from(vec![7; PASSED_MIN]);
    let (passed, charged) = appended(BodyStorage::Relayed, &large).await;
    assert_eq!((passed.as_ptr(), charged), (large.as_ptr(), READ_BUFFER_BYTES as u64));
    for (keeping, length) in [(BodyStorage::Relayed, PASSED_MIN - 1), (BodyStorage::Stored, PASSED_MIN)] {
        let piece = Bytes::from(vec![7; length]);
        let (copied, charged) = appended(keeping, &piece).await;
        assert_ne!(copied.as_ptr(), piece.as_ptr(), "{keeping:?}");
        assert_eq!(charged, length as u64, "{keeping:?}");
    }
}
