//! Apache Parquet, as much of it as a trace needs.
//!
//! ```text
//! PAR1 | group of rows: a page a column … | … | footer | its length, 4 bytes | PAR1
//! page: head in Thrift's compact protocol | zstd of: levels, 4 bytes of length before them | values
//! ```
//!
//! Format 1 of <https://github.com/apache/parquet-format>: plain encoding, one data page a column and group, zstd inside. Columns
//! but the URL are optional: a level of one bit a row says whether there is a value. Every reader knows this much.

mod column;
#[cfg(test)]
mod tests;
mod thrift;

use crate::record::Record;
use column::{Column, Kind};
use std::io::{self, Write};
use thrift::Compact;

/// Gathers groups of rows and writes them.
pub(super) struct ParquetWriter {
    columns: [Column; NAMES.len()],
    groups: Vec<Group>,
    written: u64,
    rows: u64,
    rows_in_group: usize,
}

/// A group that has been written.
struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

/// A column of a group.
struct Chunk {
    page_at: u64,
    plain_bytes: u64,
    packed_bytes: u64,
}

impl ParquetWriter {
    pub(super) fn begin(output: &mut impl Write) -> io::Result<Self> {
        output.write_all(MAGIC)?;
        let columns = KINDS.map(Column::new);
        Ok(Self { columns, groups: Vec::new(), written: MAGIC.len() as u64, rows: 0, rows_in_group: 0 })
    }

    pub(super) fn put(&mut self, record: &Record<'_>, output: &mut impl Write) -> io::Result<()> {
        let [time, client, method, status, bytes, from_cache, url] = &mut self.columns;
        time.number(record.time_ms.map(|time| time.min(i64::MAX as u64)));
        client.text(record.client.as_deref());
        method.text(record.method.as_deref());
        status.number(record.status.map(u64::from));
        bytes.number(record.bytes.map(|bytes| bytes.min(i64::MAX as u64)));
        from_cache.truth(record.from_cache);
        url.text(Some(&record.url));
        self.rows_in_group += 1;
        if self.rows_in_group == ROWS_PER_GROUP || self.columns.iter().any(Column::is_full) {
            self.write_group(output)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        if self.rows_in_group > 0 {
            self.write_group(output)?;
        }
        let footer = self.footer();
        output.write_all(&footer)?;
        output.write_all(&(footer.len() as u32).to_le_bytes())?;
        output.write_all(MAGIC)
    }

    fn write_group(&mut self, output: &mut impl Write) -> io::Result<()> {
        let rows = self.rows_in_group;
        let mut chunks = Vec::new();
        for column in &mut self.columns {
            let plain = column.take_page();
            let packed = zstd::bulk::compress(&plain, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            let head = page_head(rows, plain.len(), packed.len());
            output.write_all(&head)?;
            output.write_all(&packed)?;
            let (page_at, head) = (self.written, head.len());
            let (plain_bytes, packed_bytes) = ((head + plain.len()) as u64, (head + packed.len()) as u64);
            self.written += packed_bytes;
            chunks.push(Chunk { page_at, plain_bytes, packed_bytes });
        }
        self.groups.push(Group { rows: rows as u64, chunks });
        self.rows += rows as u64;
        self.rows_in_group = 0;
        Ok(())
    }

    /// `FileMetaData`.
    fn footer(&self) -> Vec<u8> {
        let mut file = Compact::default();
        file.i32(1, 1);
        file.list_of_structs(2, NAMES.len() + 1);
        file.begin_element();
        file.string(4, "requests");
        file.i32(5, NAMES.len() as i32);
        file.end_struct();
        for (name, kind) in NAMES.iter().zip(KINDS) {
            file.begin_element();
            file.i32(1, kind.physical());
            file.i32(3, if *name == "url" { REQUIRED } else { OPTIONAL });
            file.string(4, name);
            if let Some(meaning) = kind.converted() {
                file.i32(6, meaning);
            }
            file.end_struct();
        }
        file.i64(3, self.rows as i64);
        file.list_of_structs(4, self.groups.len());
        self.groups.iter().for_each(|group| group.describe(&mut file));
        file.string(6, concat!("shoal version ", env!("CARGO_PKG_VERSION")));
        file.finish()
    }
}

impl Group {
    /// `RowGroup`, with a `ColumnChunk` a column.
    fn describe(&self, file: &mut Compact) {
        file.begin_element();
        file.list_of_structs(1, self.chunks.len());
        for (chunk, (name, kind)) in self.chunks.iter().zip(NAMES.iter().zip(KINDS)) {
            file.begin_element();
            file.i64(2, chunk.page_at as i64);
            file.begin_struct(3);
            file.i32(1, kind.physical());
            file.list_of_i32(2, &[PLAIN, RLE]);
            file.list_of_strings(3, &[name]);
            file.i32(4, ZSTD);
            file.i64(5, self.rows as i64);
            file.i64(6, chunk.plain_bytes as i64);
            file.i64(7, chunk.packed_bytes as i64);
            file.i64(9, chunk.page_at as i64);
            file.end_struct();
            file.end_struct();
        }
        file.i64(2, self.chunks.iter().map(|chunk| chunk.plain_bytes as i64).sum());
        file.i64(3, self.rows as i64);
        file.end_struct();
    }
}

/// `PageHeader` with a `DataPageHeader`.
fn page_head(rows: usize, plain_bytes: usize, packed_bytes: usize) -> Vec<u8> {
    let mut head = Compact::default();
    head.i32(1, 0);
    head.i32(2, plain_bytes as i32);
    head.i32(3, packed_bytes as i32);
    head.begin_struct(5);
    head.i32(1, rows as i32);
    head.i32(2, PLAIN);
    head.i32(3, RLE);
    head.i32(4, RLE);
    head.end_struct();
    head.finish()
}

const MAGIC: &[u8] = b"PAR1";
const NAMES: [&str; 7] = ["time", "client", "method", "status", "bytes", "from_cache", "url"];
const KINDS: [Kind; 7] =
    [Kind::Time, Kind::Text, Kind::Text, Kind::Status, Kind::Bytes, Kind::Truth, Kind::Url];
/// Rows of a group: enough for zstd, and little memory.
const ROWS_PER_GROUP: usize = 128 << 10;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const ZSTD: i32 = 6;
