//! Output of a trace, compressed as its name demands.

use flate2::write::GzEncoder;
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// Stream of bytes, possibly compressed.
pub struct Output<W: Write>(Kind<W>);

enum Kind<W: Write> {
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
            Kind::Gzip(GzEncoder::new(stream, flate2::Compression::default()))
        } else if name.ends_with(".zst") {
            Kind::Zstd(Encoder::new(stream, zstd::DEFAULT_COMPRESSION_LEVEL)?)
        } else {
            Kind::Plain(stream)
        }))
    }

    /// Ends the compressed stream and returns the stream below.
    ///
    /// # Errors
    /// Returns the stream's errors.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Kind::Plain(stream) => Ok(stream),
            Kind::Gzip(encoder) => encoder.finish(),
            Kind::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(stream) => stream.write(bytes),
            Kind::Gzip(encoder) => encoder.write(bytes),
            Kind::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(stream) => stream.flush(),
            Kind::Gzip(encoder) => encoder.flush(),
            Kind::Zstd(encoder) => encoder.flush(),
        }
    }
}
