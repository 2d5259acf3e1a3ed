//! Requests as a table of Parquet: seven columns, of which only the URL is always present.

use crate::parquet::{ColumnKind, Field, Table};
use crate::record::Record;
use std::io::{self, Write};

/// Writer of requests as rows.
pub(crate) struct Requests(Table);

impl Requests {
    /// Columns of the table.
    pub(crate) const FIELDS: [Field; 7] = [
        Field::optional("time", ColumnKind::Time),
        Field::optional("client", ColumnKind::Text),
        Field::optional("method", ColumnKind::Text),
        Field::optional("status", ColumnKind::Int32),
        Field::optional("bytes", ColumnKind::Int64),
        Field::optional("from_cache", ColumnKind::Truth),
        Field::required("url", ColumnKind::Text),
    ];

    pub(crate) fn begin(output: &mut impl Write) -> io::Result<Self> {
        Table::begin("requests", &Self::FIELDS, output).map(Self)
    }

    pub(crate) fn put(&mut self, record: &Record<'_>, output: &mut impl Write) -> io::Result<()> {
        if let [time, client, method, status, bytes, from_cache, url] = self.0.columns() {
            time.number(record.time_ms);
            client.text(record.client.as_deref());
            method.text(record.method.as_deref());
            status.number(record.status.map(u64::from));
            bytes.number(record.bytes);
            from_cache.truth(record.from_cache());
            url.text(Some(&record.url));
        }
        self.0.end_row(output)
    }

    pub(crate) fn finish(self, output: &mut impl Write) -> io::Result<()> {
        self.0.finish(output)
    }
}
