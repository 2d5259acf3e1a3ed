//! Documents that an origin has coded with gzip, decoded in steps of bounded size.

use crate::message::BodyError;
use flate2::write::MultiGzDecoder;
use http::header;
use shoal_core::Fields;
use std::io::Write;

/// DocumentCoding of a stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentCoding {
    /// None.
    Identity,
    /// gzip.
    Gzip,
    /// Another one, which was not asked for.
    Unknown,
}

impl DocumentCoding {
    /// Returns the coding that these fields name.
    pub fn of(fields: &impl Fields) -> Self {
        let mut lines = fields.values(&header::CONTENT_ENCODING);
        let line = lines.next().unwrap_or_default();
        match line.trim_ascii().to_ascii_lowercase().as_slice() {
            _ if lines.next().is_some() => Self::Unknown,
            b"" | b"identity" => Self::Identity,
            b"gzip" | b"x-gzip" => Self::Gzip,
            _ => Self::Unknown,
        }
    }
}

/// Decoder of a document.
pub enum Inflater {
    /// Passes bytes on. The number is that of bytes.
    Plain(u64),
    /// Decodes gzip. The number is that of decoded bytes.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, u64),
}

impl Inflater {
    /// Creates a decoder of this coding.
    pub fn of(coding: DocumentCoding) -> Option<Self> {
        match coding {
            DocumentCoding::Identity => Some(Self::Plain(0)),
            DocumentCoding::Gzip => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())), 0)),
            DocumentCoding::Unknown => None,
        }
    }

    /// Calls `take` with the decoded bytes of `input`, in pieces of at most a megabyte.
    pub fn push(
        &mut self,
        input: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        let (decoder, decoded) = match self {
            Self::Gzip(decoder, decoded) => (decoder, decoded),
            Self::Plain(passed) => {
                *passed += input.len() as u64;
                return if *passed > DECODED_MAX { Err(BodyError::Malformed(TOO_LONG)) } else { take(input) };
            }
        };
        for step in input.chunks(STEP) {
            decoder.write_all(step).map_err(|_| BodyError::Malformed(NOT_GZIP))?;
            let output = decoder.get_mut();
            *decoded += output.len() as u64;
            if *decoded > DECODED_MAX {
                return Err(BodyError::Malformed(TOO_LONG));
            }
            debug_assert!(output.len() <= STEP * INFLATION_MAX + MARGIN, "more than DEFLATE can make");
            take(output)?;
            output.clear();
        }
        Ok(())
    }

    /// Ends the document. Calls `take` with its last bytes.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), BodyError>) -> Result<(), BodyError> {
        let Self::Gzip(decoder, _) = self else { return Ok(()) };
        decoder.try_finish().map_err(|_| BodyError::Malformed(NOT_GZIP))?;
        take(decoder.get_mut())
    }
}

/// Coded bytes taken at a time.
const STEP: usize = 1000;

/// Most bytes that DEFLATE makes of one.
const INFLATION_MAX: usize = 1032;

/// Bytes that the decoder holds back from one step to the next.
const MARGIN: usize = 64 << 10;

/// Most bytes of a decoded document.
const DECODED_MAX: u64 = 1 << 30;

const TOO_LONG: &str = "a document of more than a gigabyte";
const NOT_GZIP: &str = "a document that is not gzip";

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn inflated(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize), BodyError> {
        let mut inflater = Inflater::of(DocumentCoding::Gzip).expect("known");
        let (mut whole, mut largest) = (Vec::new(), 0);
        let mut take = |bytes: &[u8]| {
            largest = largest.max(bytes.len());
            whole.extend_from_slice(bytes);
            Ok(())
        };
        for piece in input.chunks(piece) {
            inflater.push(piece, &mut take)?;
        }
        inflater.finish(&mut take)?;
        Ok((whole, largest))
    }

    #[test]
    fn endless_document_ends() {
        let (piece, mut taken) = (vec![b' '; 16 << 20], 0);
        let mut inflater = Inflater::of(DocumentCoding::Identity).expect("known");
        let pushed = (0..100).map(|_| {
            inflater.push(&piece, |bytes| {
                taken += bytes.len() as u64;
                Ok(())
            })
        });
        assert!(pushed.collect::<Result<Vec<()>, _>>().is_err());
        assert_eq!(taken, DECODED_MAX);
    }

    #[test]
    fn pieces_are_decoded_in_small_steps() {
        let document = vec![b'a'; 10 << 20];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&document).expect("memory");
        let coded = encoder.finish().expect("memory");
        for piece in [1, 777, coded.len()] {
            let (whole, largest) = inflated(&coded, piece).expect("sound");
            assert!(whole == document, "pieces of {piece}");
            assert!(largest <= 1100 << 10, "{largest}");
        }
        assert!(inflated(&coded[..coded.len() - 1], 100).is_err(), "cut");
        assert!(inflated(b"<html>", 100).is_err());
    }
}
