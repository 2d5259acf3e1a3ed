//! Output of a trace, compressed as its name demands.

use flate2::write::GzEncoder;
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// Stream of bytes, possibly compressed.
pub struct Output<W: Write>(OutputEncoder<W>);

enum OutputEncoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(Encoder<'static, W>),
}

impl<W: Write> Output<W> {
    /// Makes an output for a file of this name: `.gz` and `.zst` are compressed.
    ///
    /// # Errors
    /// Fails when the compressor cannot be created.
    pub fn named(name: &str, stream: W) -> io::Result<Self> {
        Ok(Self(if name.ends_with(".gz") {
            OutputEncoder::Gzip(GzEncoder::new(stream, flate2::Compression::default()))
        } else if name.ends_with(".zst") {
            OutputEncoder::Zstd(Encoder::new(stream, zstd::DEFAULT_COMPRESSION_LEVEL)?)
        } else {
            OutputEncoder::Plain(stream)
        }))
    }

    /// Ends the compressed stream and returns the stream below.
    ///
    /// # Errors
    /// Returns the stream's errors.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            OutputEncoder::Plain(stream) => Ok(stream),
            OutputEncoder::Gzip(encoder) => encoder.finish(),
            OutputEncoder::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            OutputEncoder::Plain(stream) => stream.write(bytes),
            OutputEncoder::Gzip(encoder) => encoder.write(bytes),
            OutputEncoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            OutputEncoder::Plain(stream) => stream.flush(),
            OutputEncoder::Gzip(encoder) => encoder.flush(),
            OutputEncoder::Zstd(encoder) => encoder.flush(),
        }
    }
}
