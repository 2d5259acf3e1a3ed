//! Round trips of tables. A second reader of the format's description, made for these tests alone,
//! reads the written files.

use super::*;
use crate::random::Random;
use crate::record::Record;
use crate::write::Requests;
use std::collections::BTreeMap;

/// A value of Thrift's compact protocol.
#[derive(Debug, Clone)]
enum Value {
    Number(i64),
    Text(String),
    List(Vec<Value>),
    Struct(BTreeMap<i16, Value>),
}

struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("more bytes");
        self.0 = rest;
        *first
    }

    fn varint(&mut self) -> u64 {
        let byte = self.byte();
        u64::from(byte & 0x7F) | if byte & 0x80 != 0 { self.varint() << 7 } else { 0 }
    }

    fn value(&mut self, kind: u8) -> Value {
        match kind {
            5 | 6 => {
                let number = self.varint();
                Value::Number((number >> 1) as i64 ^ -((number & 1) as i64))
            }
            8 => {
                let length = self.varint() as usize;
                let (text, rest) = self.0.split_at(length);
                self.0 = rest;
                Value::Text(String::from_utf8(text.to_vec()).expect("UTF-8"))
            }
            9 => {
                let head = self.byte();
                let length = if head >> 4 == 15 { self.varint() } else { u64::from(head >> 4) };
                Value::List((0..length).map(|_| self.value(head & 15)).collect())
            }
            12 => Value::Struct(self.fields()),
            kind => panic!("type {kind}"),
        }
    }

    fn fields(&mut self) -> BTreeMap<i16, Value> {
        let (mut fields, mut last) = (BTreeMap::new(), 0);
        loop {
            let head = self.byte();
            if head == 0 {
                return fields;
            }
            last += i16::from(head >> 4);
            let value = self.value(head & 15);
            assert!(fields.insert(last, value).is_none());
        }
    }
}

impl Value {
    fn number(&self) -> i64 {
        let Self::Number(number) = self else { panic!("{self:?}") };
        *number
    }

    fn list(&self) -> &[Value] {
        let Self::List(list) = self else { panic!("{self:?}") };
        list
    }

    fn field(&self, field: i16) -> &Value {
        let Self::Struct(fields) = self else { panic!("{self:?}") };
        &fields[&field]
    }

    fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("{self:?}") };
        text
    }
}

/// Returns every column's values as text, row by row; `-` for an absent value.
fn read(file: &[u8], fields: &[Field]) -> Vec<Vec<String>> {
    assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
    let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().expect("four bytes"));
    let footer = &file[file.len() - 8 - length as usize..file.len() - 8];
    let footer = Value::Struct(Decoder(footer).fields());
    let names: Vec<&str> = footer.field(2).list()[1..].iter().map(|column| column.field(4).text()).collect();
    assert_eq!(names, fields.iter().map(|field| field.name).collect::<Vec<_>>());
    let mut columns = vec![Vec::new(); fields.len()];
    for group in footer.field(4).list() {
        for ((chunk, field), values) in group.field(1).list().iter().zip(fields).zip(&mut columns) {
            let meta = chunk.field(3);
            let mut page = Decoder(&file[meta.field(9).number() as usize..]);
            let before = page.0.len();
            let head = Value::Struct(page.fields());
            let packed = &page.0[..head.field(3).number() as usize];
            let plain = zstd::bulk::decompress(packed, head.field(2).number() as usize).expect("zstd");
            assert_eq!(meta.field(7).number() as usize, before - page.0.len() + packed.len());
            let rows = head.field(5).field(1).number() as usize;
            assert_eq!(rows as i64, group.field(3).number());
            values.extend(page_values(&plain, rows, *field));
        }
    }
    assert!(columns.iter().all(|column| column.len() as i64 == footer.field(3).number()));
    columns
}

fn page_values(mut plain: &[u8], rows: usize, field: Field) -> Vec<String> {
    let mut present = vec![true; rows];
    let take = |plain: &mut &[u8], length: usize| {
        let (taken, rest) = plain.split_at(length);
        *plain = rest;
        taken.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
    };
    if !field.required {
        let length = take(&mut plain, 4) as usize;
        let (levels, rest) = plain.split_at(length);
        plain = rest;
        let mut levels = Decoder(levels);
        assert_eq!(levels.varint(), (rows.div_ceil(8) as u64) << 1 | 1);
        present = (0..rows).map(|row| levels.0[row / 8] >> (row % 8) & 1 == 1).collect();
    }
    let mut truths = 0;
    let mut value = |plain: &mut &[u8]| match field.kind {
        ColumnKind::Int32 => take(plain, 4).to_string(),
        ColumnKind::Time | ColumnKind::Int64 => take(plain, 8).to_string(),
        ColumnKind::Double => f64::from_bits(take(plain, 8)).to_string(),
        ColumnKind::Truth => {
            truths += 1;
            (plain[(truths - 1) / 8] >> ((truths - 1) % 8) & 1 == 1).to_string()
        }
        ColumnKind::Text => {
            let length = take(plain, 4) as usize;
            let (text, rest) = plain.split_at(length);
            *plain = rest;
            String::from_utf8(text.to_vec()).expect("UTF-8")
        }
    };
    present.into_iter().map(|there| if there { value(&mut plain) } else { "-".into() }).collect()
}

#[test]
fn columns_come_back() {
    for rows in [0, 1, 7, 8, 1000, ROWS_PER_GROUP + 17] {
        let mut random = Random::new(rows as u64);
        let (mut file, mut expected) = (Vec::new(), vec![Vec::new(); Requests::FIELDS.len()]);
        let mut writer = Requests::begin(&mut file).expect("memory");
        for row in 0..rows {
            let record = Record {
                time_ms: (random.below(4) > 0).then(|| random.bits() >> 20),
                client: (random.below(3) > 0).then(|| format!("c{}", random.below(9)).into()),
                method: (row % 3 != 0).then(|| "GET".into()),
                status: (row % 5 != 0).then_some(200 + row as u16 % 300),
                url: format!("http://a.example/{}", random.below(50)).into(),
                bytes: (random.below(5) > 0).then(|| random.below(1 << 40)),
                outcome: [None, Some(crate::Outcome::Hit), Some(crate::Outcome::Miss)]
                    [random.below(3) as usize],
                ttl_seconds: None,
            };
            let shown = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            let row = [
                shown(record.time_ms.map(|value| value.to_string())),
                shown(record.client.as_deref().map(str::to_owned)),
                shown(record.method.as_deref().map(str::to_owned)),
                shown(record.status.map(|value| value.to_string())),
                shown(record.bytes.map(|value| value.to_string())),
                shown(record.from_cache().map(|value| value.to_string())),
                record.url.to_string(),
            ];
            row.into_iter().zip(&mut expected).for_each(|(cell, column)| column.push(cell));
            writer.put(&record, &mut file).expect("memory");
        }
        writer.finish(&mut file).expect("memory");
        assert!(read(&file, &Requests::FIELDS) == expected, "{rows} rows");
    }
}

#[test]
fn mismatched_value_counts_as_none() {
    let fields = [
        Field::required("name", ColumnKind::Text),
        Field::optional("share", ColumnKind::Double),
        Field::required("count", ColumnKind::Int64),
        Field::optional("is", ColumnKind::Truth),
        Field::required("small", ColumnKind::Int32),
    ];
    let mut file = Vec::new();
    let mut table = Table::begin("results", &fields, &mut file).expect("memory");
    table.end_row(&mut file).expect("memory");
    for column in table.columns() {
        column.number(Some(u64::MAX));
    }
    table.end_row(&mut file).expect("memory");
    table.columns()[0].text(Some("ä"));
    table.columns()[1].double(Some(-0.25));
    table.columns()[3].truth(Some(true));
    table.end_row(&mut file).expect("memory");
    table.finish(&mut file).expect("memory");
    let largest = (i64::MAX.to_string(), i32::MAX.to_string());
    let columns = [
        ["", "", "ä"],
        ["-", "-", "-0.25"],
        ["0", &largest.0, "0"],
        ["-", "-", "true"],
        ["0", &largest.1, "0"],
    ];
    assert_eq!(read(&file, &fields), columns);
}
