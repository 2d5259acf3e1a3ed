//! Apache Parquet, in the parts that traces and results need.
//!
//! ```text
//! PAR1 | group of rows: a page a column … | … | footer | its length, 4 bytes | PAR1
//! page: head in Thrift's compact protocol | zstd of: 4 bytes of length, levels | values
//! ```
//!
//! Format 1 of <https://github.com/apache/parquet-format>: plain encoding, one data page a column
//! and group, zstd inside. An optional column has one bit a row, its level, which is set if the row
//! has a value. Every reader supports these features. Memory: one group of rows.

mod column;
#[cfg(test)]
mod tests;
mod thrift;

pub use column::{Column, ColumnKind};

use std::io::{self, Write};
use thrift::Compact;

/// Table that gathers groups of rows and writes them.
pub struct Table {
    name: &'static str,
    fields: Vec<Field>,
    columns: Vec<Column>,
    groups: Vec<Group>,
    written: u64,
    rows: u64,
    rows_in_group: usize,
}

/// Name and type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the values.
    pub kind: ColumnKind,
    /// Each row has a value.
    pub required: bool,
}

/// Group that has been written.
struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

/// Column of a group.
struct Chunk {
    page_at: u64,
    plain_bytes: u64,
    packed_bytes: u64,
}

impl Field {
    /// Makes a column with a value in some rows.
    pub const fn optional(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, required: false }
    }

    /// Makes a column with a value in each row.
    pub const fn required(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, required: true }
    }
}

impl Table {
    /// Begins a file of a table with this name and these columns.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub fn begin(name: &'static str, fields: &[Field], output: &mut impl Write) -> io::Result<Self> {
        output.write_all(MAGIC)?;
        let columns = fields.iter().map(|field| Column::new(field.kind, field.required)).collect();
        let (groups, written) = (Vec::new(), MAGIC.len() as u64);
        Ok(Self { name, fields: fields.to_vec(), columns, groups, written, rows: 0, rows_in_group: 0 })
    }

    /// Returns the columns, each of which may take the next row's value.
    pub fn columns(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Ends a row. A column that received no value has none in this row; a required column has 0 or
    /// an empty text.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub fn end_row(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.rows_in_group += 1;
        let rows = self.rows_in_group;
        self.columns.iter_mut().for_each(|column| column.fill(rows));
        if rows == ROWS_PER_GROUP || self.columns.iter().any(Column::is_full) {
            self.write_group(output)?;
        }
        Ok(())
    }

    /// Writes the last group and the footer.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
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

    /// Returns Parquet's `FileMetaData`.
    fn footer(&self) -> Vec<u8> {
        let mut file = Compact::default();
        file.i32(1, 1);
        file.list_of_structs(2, self.fields.len() + 1);
        file.begin_element();
        file.string(4, self.name);
        file.i32(5, self.fields.len() as i32);
        file.end_struct();
        for Field { name, kind, required } in &self.fields {
            file.begin_element();
            file.i32(1, kind.physical());
            file.i32(3, if *required { REQUIRED } else { OPTIONAL });
            file.string(4, name);
            if let Some(meaning) = kind.converted() {
                file.i32(6, meaning);
            }
            file.end_struct();
        }
        file.i64(3, self.rows as i64);
        file.list_of_structs(4, self.groups.len());
        self.groups.iter().for_each(|group| group.describe(&self.fields, &mut file));
        file.string(6, concat!("shoal version ", env!("CARGO_PKG_VERSION")));
        file.finish()
    }
}

impl Group {
    /// Writes Parquet's `RowGroup`, with one `ColumnChunk` a column.
    fn describe(&self, fields: &[Field], file: &mut Compact) {
        file.begin_element();
        file.list_of_structs(1, self.chunks.len());
        for (chunk, Field { name, kind, .. }) in self.chunks.iter().zip(fields) {
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

/// Returns Parquet's `PageHeader` with a `DataPageHeader`.
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
/// Rows of a group: enough for zstd, and little memory.
const ROWS_PER_GROUP: usize = 128 << 10;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const ZSTD: i32 = 6;
