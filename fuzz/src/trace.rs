//! Traces in every format, compressed or not.

use shoal_trace::{Format, Input, ReadOptions, Reader};
use std::io::{Cursor, Read};

/// Any bytes are read to an end, with an account of every line; how they arrive does not change what they say.
pub fn any(data: &[u8]) {
    let formats = Format::ALL.into_iter().map(Some);
    for format in formats.chain([None]) {
        let options = ReadOptions { format, line_max: 4096, ..ReadOptions::default() };
        let Ok(input) = Input::new(Cursor::new(data.to_vec())) else { return };
        let whole = read(Reader::new(input.take(PLAIN_MAX), &options).ok(), data);
        let Ok(input) = Input::new(Trickle(Cursor::new(data.to_vec()))) else { return };
        let trickled = read(Reader::new(input.take(PLAIN_MAX), &options).ok(), data);
        assert_eq!(whole, trickled, "{format:?}");
    }
}

/// The requests, and how many lines were bad.
fn read<R: Read>(reader: Option<Reader<R>>, data: &[u8]) -> Option<(Vec<String>, u64)> {
    let mut reader = reader?;
    let mut requests = Vec::new();
    while let Some(request) = reader.next(|record| format!("{record:?}")).expect("nothing is strict here") {
        requests.push(request);
    }
    let reading = reader.reading();
    assert_eq!(reading.requests as usize, requests.len());
    assert!(
        reading.requests + reading.bad + reading.left_out <= reading.lines + 1,
        "{reading:?} of {data:?}"
    );
    assert!(reading.problems.len() as u64 <= reading.bad);
    assert_eq!(reading.bad == 0, reading.problems.is_empty());
    Some((requests, reading.bad))
}

/// Gives one to three bytes at a time.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = 1 + self.0.position() as usize % 3;
        let length = step.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

/// What a few compressed bytes may unfold to.
const PLAIN_MAX: u64 = 1 << 20;
