//! Input of a trace, decompressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Stream of decompressed bytes.
pub struct Input {
    stream: Box<dyn Read + Send>,
    compression: Compression,
}

/// Compression of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// No compression.
    Plain,
    /// gzip (RFC 1952), also with several members.
    Gzip,
    /// Zstandard (RFC 8878), also with several frames; windows up to 128 MiB.
    Zstd,
    /// xz, also with several streams.
    Xz,
}

impl Input {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    /// Takes a stream and detects its compression by the first bytes.
    pub fn new(mut stream: impl Read + Send + 'static) -> io::Result<Self> {
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut stream).take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        let compression = Compression::of(&magic);
        let whole = BufReader::with_capacity(BUFFER, io::Cursor::new(magic).chain(stream));
        let stream: Box<dyn Read + Send> = match compression {
            Compression::Plain => Box::new(whole),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
            Compression::Xz => Box::new(lzma_rust2::XzReader::new(Whole(whole), true)),
        };
        Ok(Self { stream, compression })
    }

    /// Returns the compression of the stream.
    pub fn compression(&self) -> Compression {
        self.compression
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Reader that fills the whole buffer, up to the stream's end. The xz library takes fewer bytes of
/// padding for a broken stream.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl Compression {
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1F, 0x8B, ..] => Self::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstd,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Plain,
        }
    }

    /// Returns the name of the compression.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        }
    }
}

/// Length of the longest magic number.
const MAGIC_BYTES: usize = 6;
const BUFFER: usize = 128 << 10;
