//! Lines of a stream, in memory of a fixed size.
//!
//! One buffer: the reader skips a line that does not fit and reports only its number. A line costs
//! one search for its end. A buffer costs one move of the incomplete line at its end.

use std::io::{self, Read};
use std::ops::Range;

/// Reader of lines.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// Bytes read but not yet returned.
    unread: Range<usize>,
    ended: bool,
    /// Error that ended the stream. The reader reports it after all bytes before it.
    broken: Option<io::Error>,
    line: u64,
}

/// One line.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// Place of the line in [`Lines::bytes`], without the line end.
    Whole(Range<usize>),
    /// The line was longer than the limit.
    TooLong,
}

impl<R: Read> Lines<R> {
    /// Reads lines of at most `line_max` bytes.
    pub(crate) fn new(input: R, line_max: usize) -> Self {
        let size = line_max.saturating_add(1).max(BUFFER_MIN);
        Self { input, buffer: vec![0; size].into(), unread: 0..0, ended: false, broken: None, line: 0 }
    }

    /// Returns the number of the last line returned, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.line
    }

    /// Returns the beginning of the stream without consuming it, at most a buffer full. Fails when
    /// the stream breaks off before its first line is complete.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.unread.len() < self.buffer.len().min(PEEK) {
            self.fill();
        }
        if memchr::memchr(b'\n', &self.buffer[self.unread.clone()]).is_none() {
            self.end()?;
        }
        Ok(&self.buffer[self.unread.clone()])
    }

    /// Returns the whole lines at the beginning of the stream; the incomplete line, if there is no
    /// other. Fails like [`Lines::peek`].
    pub(crate) fn peek_lines(&mut self) -> io::Result<&[u8]> {
        let ended = self.ended;
        let beginning = self.peek()?;
        match memchr::memrchr(b'\n', beginning) {
            Some(last) if !ended => Ok(&beginning[..=last]),
            _ => Ok(beginning),
        }
    }

    /// Returns `true` if the bytes that [`Lines::peek`] read begin with a whole line of at most
    /// `line_max` bytes, or have no other line.
    pub(crate) fn begins_with_line(&self, line_max: usize) -> bool {
        let end = memchr::memchr(b'\n', &self.buffer[self.unread.clone()]);
        end.map_or(self.ended, |end| end <= line_max)
    }

    /// Skips a byte order mark of UTF-8, if there is one. Call [`Lines::peek`] first.
    pub(crate) fn skip_mark(&mut self) {
        if self.buffer[self.unread.clone()].starts_with(BYTE_ORDER_MARK) {
            self.unread.start += BYTE_ORDER_MARK.len();
        }
    }

    /// Returns the next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(at) = memchr::memchr(b'\n', &unread[searched..]) {
                let line = self.unread.start..self.unread.start + searched + at;
                debug_assert!(line.end < self.unread.end, "the line's end is among the unread bytes");
                self.unread.start = line.end + 1;
                self.line += 1;
                return Ok(Some(Line::Whole(self.without_return(line))));
            }
            searched = unread.len();
            if self.ended {
                return self.last();
            }
            if self.is_full() {
                return Ok(Some(self.skip()));
            }
            self.fill();
        }
    }

    /// Returns the next `length` bytes, at most [`BUFFER_MIN`]. Returns fewer when the stream ends
    /// within them, and `None` at the end.
    pub(crate) fn next_bytes(&mut self, length: usize) -> io::Result<Option<Range<usize>>> {
        assert!(0 < length && length <= self.buffer.len(), "{length} bytes fit the buffer");
        while self.unread.len() < length && !self.ended {
            self.fill();
        }
        if self.unread.len() < length {
            self.end()?;
        }
        if self.unread.is_empty() {
            return Ok(None);
        }
        let given = self.unread.start..self.unread.end.min(self.unread.start + length);
        debug_assert!(given.len() <= length && given.end <= self.buffer.len(), "{given:?} of {length}");
        self.unread.start = given.end;
        self.line += 1;
        Ok(Some(given))
    }

    /// Returns all bytes left, and the error that ended the stream, if any. `expected` is an
    /// estimate of their number and may be wrong.
    pub(crate) fn rest(&mut self, expected: u64) -> (Vec<u8>, Option<io::Error>) {
        let mut rest = Vec::new();
        // Growing by doubling would take twice the memory. If the reservation fails, the stream is
        // probably not that long either.
        let expected = usize::try_from(expected.min(EXPECTED_MAX)).unwrap_or(0);
        let _ = rest.try_reserve_exact(expected.saturating_add(1));
        rest.extend_from_slice(&self.buffer[self.unread.clone()]);
        self.unread = 0..0;
        if !self.ended {
            self.broken = self.input.read_to_end(&mut rest).err();
        }
        self.ended = true;
        (rest, self.broken.take())
    }

    /// Returns the bytes of the last line returned.
    pub(crate) fn bytes(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// Returns the last line, which has no line end. A line in which the stream breaks off is not
    /// returned.
    fn last(&mut self) -> io::Result<Option<Line>> {
        self.end()?;
        if self.unread.is_empty() {
            return Ok(None);
        }
        let line = std::mem::replace(&mut self.unread, 0..0);
        self.line += 1;
        Ok(Some(Line::Whole(self.without_return(line))))
    }

    /// Returns the error that broke off the stream, once, and drops the incomplete line.
    fn end(&mut self) -> io::Result<()> {
        self.broken.take().map_or(Ok(()), |error| {
            self.unread = 0..0;
            Err(error)
        })
    }

    fn without_return(&self, line: Range<usize>) -> Range<usize> {
        let returns = usize::from(self.buffer[line.clone()].ends_with(b"\r"));
        line.start..line.end - returns
    }

    fn is_full(&self) -> bool {
        self.unread == (0..self.buffer.len())
    }

    /// Skips a line that fills the whole buffer.
    fn skip(&mut self) -> Line {
        self.line += 1;
        loop {
            self.unread = 0..0;
            self.fill();
            match memchr::memchr(b'\n', &self.buffer[self.unread.clone()]) {
                Some(at) => {
                    self.unread.start += at + 1;
                    return Line::TooLong;
                }
                None if self.ended => {
                    self.unread = 0..0;
                    return Line::TooLong;
                }
                None => {}
            }
        }
    }

    /// Reads more bytes behind the unread ones. The unread bytes move to the front when there is no
    /// room. A failed read ends the stream.
    fn fill(&mut self) {
        if self.unread.end == self.buffer.len() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.ended = true,
                Ok(more) => self.unread.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // The bytes before the error are still returned.
                    self.ended = true;
                    self.broken = Some(error);
                }
            }
            return;
        }
    }
}

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Largest reservation for bytes that have not arrived yet.
const EXPECTED_MAX: u64 = 8 << 30;
/// Smallest buffer, in bytes. A smaller one would cost too many calls.
const BUFFER_MIN: usize = 256 << 10;
/// Largest number of bytes that `peek` reads.
const PEEK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Slow(text, step), 10);
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("memory does not fail") {
            found.push(match line {
                Line::Whole(range) => Some(lines.bytes(range).to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.number() as usize, found.len());
        found
    }

    #[test]
    fn fixed_lengths_do_not_depend_on_how_they_arrive() {
        let text: Vec<u8> = (0..=255).cycle().take(BUFFER_MIN + 1000).collect();
        for step in [1, 7, 4096, usize::MAX] {
            let mut lines = Lines::new(Slow(&text, step), 10);
            assert!(lines.peek().expect("memory").len() >= PEEK);
            let mut found = Vec::new();
            while let Some(range) = lines.next_bytes(24).expect("memory") {
                assert!(range.len() == 24 || found.len() + range.len() == text.len());
                found.extend_from_slice(lines.bytes(range));
            }
            assert!(found == text, "{step} bytes at a time");
            let mut lines = Lines::new(Slow(&text, step), 10);
            assert_eq!(lines.next_bytes(3).expect("memory"), Some(0..3));
            assert!(lines.rest(0).0 == text[3..]);
        }
    }

    #[test]
    fn lines_do_not_depend_on_how_they_arrive() {
        let long = vec![b'x'; BUFFER_MIN * 2 + 5];
        let fits = vec![b'y'; BUFFER_MIN - 1];
        let text = [b"one\r\n\n", &long[..], b"\ntwo\n", &fits, b"\nthree"].concat();
        let expected = [Some(&b"one"[..]), Some(b""), None, Some(b"two"), Some(&fits[..]), Some(b"three")];
        for step in [1, 7, 4096, usize::MAX] {
            let found = all(&text, step);
            assert!(found.iter().map(Option::as_deref).eq(expected), "{step} bytes at a time");
        }
        assert_eq!(all(&long, 5000), [None]);
        assert!(all(b"", 1).is_empty());
    }
}
