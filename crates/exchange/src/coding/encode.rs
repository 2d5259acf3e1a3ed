//! Codes a body: a function of bytes.

use shoal_semantics::Coding;
use std::io::{self, Write};

/// Returns the coded body, or `None` if it is not smaller by a tenth. Equal bodies have equal
/// codes. The memory is that of the result and of the encoder, a few times the body.
pub(super) fn encode(coding: Coding, body: &[u8]) -> Option<Vec<u8>> {
    let mut out = BoundedBuffer { bytes: Vec::with_capacity(body.len() / 4), most: body.len() / 10 * 9 };
    let coded = match coding {
        Coding::Gzip => gzip(body, &mut out),
        Coding::Brotli => brotli(body, &mut out),
        Coding::Zstd => zstd(body, &mut out),
    };
    coded.ok()?;
    debug_assert!(out.bytes.len() <= out.most, "the buffer has a limit");
    out.bytes.shrink_to_fit();
    Some(out.bytes)
}

fn gzip(body: &[u8], out: &mut BoundedBuffer) -> io::Result<()> {
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::best());
    encoder.write_all(body)?;
    encoder.finish().map(drop)
}

fn brotli(mut body: &[u8], out: &mut BoundedBuffer) -> io::Result<()> {
    // A window of no more than the body keeps the encoder small.
    let lgwin = (usize::BITS - body.len().leading_zeros()).clamp(BROTLI_WINDOW_MIN, BROTLI_WINDOW_MAX) as i32;
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: if body.len() <= STRONGEST_MAX { BROTLI_STRONGEST } else { BROTLI_STRONG },
        lgwin,
        size_hint: body.len(),
        ..Default::default()
    };
    brotli::BrotliCompress(&mut body, out, &parameters).map(drop)
}

fn zstd(body: &[u8], out: &mut BoundedBuffer) -> io::Result<()> {
    let level = if body.len() <= STRONGEST_MAX { ZSTD_STRONGEST } else { ZSTD_STRONG };
    let mut encoder = zstd::Encoder::new(out, level)?;
    encoder.set_pledged_src_size(Some(body.len() as u64))?;
    encoder.write_all(body)?;
    encoder.finish().map(drop)
}

/// Bytes up to a limit; more are an error.
struct BoundedBuffer {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Largest body that is coded as strongly as can be, in bytes. A body is coded once, in the
/// background: 12,000 instructions a byte by brotli, about a second for this size.
const STRONGEST_MAX: usize = 256 << 10;
/// A tenth smaller than [`BROTLI_STRONG`], for 36 times its instructions.
const BROTLI_STRONGEST: i32 = 11;
const BROTLI_STRONG: i32 = 9;
const BROTLI_WINDOW_MIN: u32 = 10;
const BROTLI_WINDOW_MAX: u32 = 22;

/// A thirtieth smaller than [`ZSTD_STRONG`], for 7 times its instructions. RFC 9659 limits the
/// window to 8 MB, which no body here has.
const ZSTD_STRONGEST: i32 = 19;
const ZSTD_STRONG: i32 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decoded(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut body),
            Coding::Brotli => brotli::Decompressor::new(coded, 4096).read_to_end(&mut body),
            Coding::Zstd => zstd::Decoder::new(coded).expect("a decoder").read_to_end(&mut body),
        }
        .expect("it was coded");
        body
    }

    fn text(bytes: usize) -> Vec<u8> {
        (0..).flat_map(|line| format!("<p>line {line}</p>\n").into_bytes()).take(bytes).collect()
    }

    #[test]
    fn coded_text_is_smaller_and_decodes() {
        for coding in Coding::ALL {
            for bytes in [500, 1000, 300_000] {
                let text = text(bytes);
                let coded = encode(coding, &text).expect("text");
                assert!(coded.len() < bytes, "{coding:?} {bytes}");
                assert_eq!(decoded(coding, &coded), text, "{coding:?} {bytes}");
                assert_eq!(encode(coding, &text), Some(coded), "equal bodies have equal codes");
            }
        }
    }

    #[test]
    fn noise_is_left_as_it_is() {
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(50_000).collect();
        for coding in Coding::ALL {
            assert_eq!(encode(coding, &noise), None, "{coding:?}");
            assert_eq!(encode(coding, b""), None, "{coding:?}");
        }
    }
}
