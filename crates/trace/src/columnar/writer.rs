//! Writes a trace in columns.
//!
//! Counts and widths are known only at the end. The writer therefore gathers the columns in memory
//! (27 bytes a request, each name once) and writes them then.

use super::layout::{checksum, places};
use super::{HEADER_BYTES, Header, MAGIC, METHODS_MAX, Section, TAIL_BYTES, VERSION, absent};
use crate::dictionary::Dictionary;
use crate::record::{Record, host_range};
use std::io::{self, Write};

/// Writer that gathers requests until the end.
#[derive(Default)]
pub(crate) struct ColumnWriter {
    times: Vec<u64>,
    bytes: Vec<u64>,
    objects: Vec<u32>,
    clients: Vec<u32>,
    statuses: Vec<u16>,
    marks: Vec<u8>,
    urls: Dictionary,
    hosts: Dictionary,
    client_names: Dictionary,
    methods: Dictionary,
    /// The host of each object.
    host_of: Vec<u32>,
}

impl ColumnWriter {
    /// Adds a request.
    ///
    /// # Errors
    /// Fails when there are more names than numbers for them.
    pub(crate) fn put(&mut self, record: &Record<'_>) -> io::Result<()> {
        let full = || io::Error::other("more than 4 billion names");
        let object = self.urls.number(&record.url).ok_or_else(full)?;
        if object as usize == self.host_of.len() {
            let host = &record.url[host_range(&record.url)];
            self.host_of.push(self.hosts.number(host).ok_or_else(full)?);
        }
        let client = match record.client.as_deref() {
            Some(name) => self.client_names.number(name).ok_or_else(full)?,
            None => u32::MAX,
        };
        self.times.push(record.time_ms.unwrap_or(u64::MAX));
        self.bytes.push(record.bytes.unwrap_or(u64::MAX));
        self.objects.push(object);
        self.clients.push(client);
        self.statuses.push(record.status.unwrap_or(0));
        let verdict = match record.outcome {
            None => 0,
            Some(outcome) if outcome.is_hit() => 1,
            Some(outcome) if outcome.forbids_storing() => 3,
            Some(_) => 2,
        };
        let method = record.method.as_deref().map_or(0, |name| self.method(name));
        debug_assert!(method <= 0x3F, "method {method} does not fit its bits");
        self.marks.push(verdict << 6 | method);
        debug_assert_eq!(self.times.len(), self.marks.len(), "the columns have one length");
        debug_assert_eq!(self.urls.len(), self.host_of.len(), "each object has a host");
        Ok(())
    }

    /// Writes the whole trace.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub(crate) fn finish(self, output: &mut dyn Write) -> io::Result<()> {
        let header = self.header();
        let (_, end) = places(&header).ok_or_else(|| io::Error::other("the trace is too long"))?;
        let mut body = Vec::with_capacity(end as usize - HEADER_BYTES + TAIL_BYTES);
        for section in Section::ALL {
            let (begin, (cells, width)) = (body.len(), header.shape(section));
            self.section(&header, section, &mut body);
            assert_eq!((body.len() - begin) as u64, cells * width, "bytes of section {section:?}");
            body.resize(body.len().next_multiple_of(8), 0);
        }
        // The reader finds each section by the header alone.
        assert_eq!(body.len() + HEADER_BYTES, end as usize, "the columns and their header disagree");
        body.extend_from_slice(&checksum(&body).to_le_bytes());
        output.write_all(&encoded(&header))?;
        output.write_all(&body)
    }

    /// Returns a method's number, from 1. All methods without a number of their own share the last
    /// one.
    fn method(&mut self, name: &str) -> u8 {
        match self.methods.find(name) {
            Some(known) => known as u8 + 1,
            None if self.methods.len() < METHODS_MAX => {
                self.methods.number(name).map_or(0x3F, |number| number as u8 + 1)
            }
            None => 0x3F,
        }
    }

    fn header(&self) -> Header {
        let given = |column: &[u64]| {
            let (low, high) = column
                .iter()
                .filter(|value| **value != u64::MAX)
                .fold((u64::MAX, 0), |(low, high): (u64, u64), value| (low.min(*value), high.max(*value)));
            (if low == u64::MAX { 0 } else { low }, high)
        };
        let (base_ms, last_ms) = given(&self.times);
        let text = |names: &Dictionary| names.iter().map(|name| name.len() as u64).sum();
        let narrow = |value: u64| if value < absent(4) { 4 } else { 8 };
        Header {
            requests: self.times.len() as u64,
            objects: self.urls.len() as u64,
            hosts: self.hosts.len() as u64,
            clients: self.client_names.len() as u64,
            methods: self.methods.len() as u64,
            object_text: self.urls.iter().map(|url| (url.len() - host_range(url).len()) as u64).sum(),
            host_text: text(&self.hosts),
            client_text: text(&self.client_names),
            method_text: text(&self.methods),
            base_ms,
            time_width: narrow(last_ms.saturating_sub(base_ms)),
            bytes_width: narrow(given(&self.bytes).1),
            client_width: match self.client_names.len() as u64 {
                clients if clients <= absent(1) => 1,
                clients if clients <= absent(2) => 2,
                _ => 4,
            },
        }
    }

    fn section(&self, header: &Header, section: Section, body: &mut Vec<u8>) {
        let wide = |value: u64, width: u64, body: &mut Vec<u8>| {
            body.extend_from_slice(&value.to_le_bytes()[..width as usize]);
        };
        let (_, width) = header.shape(section);
        let base = header.base_ms;
        let since = |time: &u64| if *time == u64::MAX { u64::MAX } else { time - base };
        match section {
            Section::Time => self.times.iter().for_each(|time| wide(since(time), width, body)),
            Section::Bytes => self.bytes.iter().for_each(|bytes| wide(*bytes, width, body)),
            Section::Object => self.objects.iter().for_each(|number| wide((*number).into(), 4, body)),
            Section::Client => self.clients.iter().for_each(|number| wide((*number).into(), width, body)),
            Section::Status => self.statuses.iter().for_each(|status| wide((*status).into(), 2, body)),
            Section::Marks => body.extend_from_slice(&self.marks),
            Section::HostOf => self.host_of.iter().for_each(|number| wide((*number).into(), 4, body)),
            Section::Split => {
                self.urls.iter().for_each(|url| wide(host_range(url).start as u64, 4, body));
            }
            Section::ObjectEnds => {
                ends(self.urls.iter().map(|url| url.len() - host_range(url).len()), body);
            }
            Section::HostEnds => ends(self.hosts.iter().map(str::len), body),
            Section::ClientEnds => ends(self.client_names.iter().map(str::len), body),
            Section::MethodEnds => ends(self.methods.iter().map(str::len), body),
            Section::ObjectText => {
                for url in self.urls.iter() {
                    let host = host_range(url);
                    body.extend_from_slice(&url.as_bytes()[..host.start]);
                    body.extend_from_slice(&url.as_bytes()[host.end..]);
                }
            }
            Section::HostText => self.hosts.iter().for_each(|name| body.extend_from_slice(name.as_bytes())),
            Section::ClientText => {
                self.client_names.iter().for_each(|name| body.extend_from_slice(name.as_bytes()));
            }
            Section::MethodText => {
                self.methods.iter().for_each(|name| body.extend_from_slice(name.as_bytes()));
            }
        }
    }
}

fn ends(lengths: impl Iterator<Item = usize>, body: &mut Vec<u8>) {
    let mut end = 0u64;
    for length in lengths {
        end += length as u64;
        body.extend_from_slice(&end.to_le_bytes());
    }
}

fn encoded(header: &Header) -> [u8; HEADER_BYTES] {
    let mut head = [0; HEADER_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (index, word) in header.words().into_iter().enumerate() {
        head[16 + 8 * index..24 + 8 * index].copy_from_slice(&word.to_le_bytes());
    }
    head[96..99].copy_from_slice(&[header.time_width, header.bytes_width, header.client_width]);
    let sum = checksum(&head[..HEADER_BYTES - 8]);
    head[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    head
}
