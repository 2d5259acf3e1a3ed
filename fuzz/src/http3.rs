//! HTTP/3: request streams and streams in one direction, in any pieces.

use crate::wire::{LIMITS, check_fields};
use bytes::Bytes;
use shoal_http2::hpack::FieldList;
use shoal_http3::{ErrorCode, Part, RequestReader, StreamFault, UniReader, UniStreams, qpack};

/// Any bytes as a stream: pieces make no difference, sections are read alike after they are written
/// anew, and nothing is gathered without a limit. The first byte chooses the kind of stream and the
/// size of the pieces.
pub fn http3(data: &[u8]) {
    let Some((&how, stream)) = data.split_first() else { return };
    let piece = usize::from(how & 0x7f) + 1;
    if how & 0x80 != 0 {
        return in_one_direction(stream, piece);
    }
    let (whole, end) = read(stream, stream.len().max(1));
    let (pieces, end_of_pieces) = read(stream, piece);
    assert_eq!(end, end_of_pieces);
    if end.is_ok() {
        assert_eq!(whole, pieces);
    }
    for part in &whole {
        if let Part::Head(section) | Part::Trailers(section) = part {
            fields(section);
        }
    }
    fields(stream);
}

/// Reads a stream to its end. Data is joined.
fn read(stream: &[u8], piece: usize) -> (Vec<Part>, Result<(), StreamFault>) {
    let (mut reader, mut parts) = (RequestReader::new(LIMITS.head_bytes_max), Vec::new());
    for piece in stream.chunks(piece) {
        let mut chunk = Bytes::copy_from_slice(piece);
        loop {
            match (reader.take(&mut chunk), parts.last_mut()) {
                (Ok(Some(Part::Data(more))), Some(Part::Data(data))) => {
                    *data = [&data[..], &more].concat().into();
                }
                (Ok(Some(part)), _) => {
                    assert!(!parts.is_empty() || matches!(part, Part::Head(_)), "the head comes first");
                    parts.push(part);
                }
                (Ok(None), _) => break,
                (Err(fault), _) => return (parts, Err(fault)),
            }
        }
        assert!(chunk.is_empty(), "bytes are left over");
    }
    (parts, reader.end())
}

fn fields(section: &[u8]) {
    let mut list = FieldList::default();
    if qpack::decode(section, &mut list, LIMITS.head_bytes_max).is_err() {
        return;
    }
    assert!(list.text().len() <= LIMITS.head_bytes_max);
    check_fields(&list);
    let mut again = qpack::encode::PREFIX.to_vec();
    list.iter().for_each(|(name, value)| qpack::encode::field(&mut again, name, value));
    let mut read = FieldList::default();
    qpack::decode(&again, &mut read, u32::MAX as usize).expect("what is written is read");
    assert!(read.iter().eq(list.iter()));
}

fn in_one_direction(stream: &[u8], piece: usize) {
    let outcome = |piece: usize| -> Result<(), ErrorCode> {
        let (mut reader, mut streams) = (UniReader::default(), UniStreams::default());
        for piece in stream.chunks(piece) {
            if !reader.take(piece, &mut streams)? {
                return Ok(());
            }
        }
        reader.end()
    };
    assert_eq!(outcome(piece), outcome(stream.len().max(1)));
}
