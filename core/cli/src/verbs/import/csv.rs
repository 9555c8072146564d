//! CSV with a header row.

use crate::bytes::Form;
use crate::exit::{Exit, Failure, Outcome};
use crate::verbs::import::batch::{Batch, Trouble};
use crate::verbs::import::quotes::Quotes;
use crate::verbs::import::source::RecordSource;
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::io::Read;

const READ_AHEAD: usize = 256 * 1024;

/// The user's choice of columns for key and value.
pub(crate) struct Columns<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) value: Option<&'a str>,
    pub(crate) delimiter: u8,
    pub(crate) has_header: bool,
}

/// Reads records from rows.
pub(crate) struct Csv {
    reader: Reader<Quotes<Box<dyn Read + Send>>>,
    row: ByteRecord,
    fields: Fields,
    json: Vec<u8>,
}

/// The columns of key and value, numbered from 0.
enum Fields {
    /// Files with the columns that `export` writes.
    Own { key: usize, value: usize, key_encoding: Option<usize>, value_encoding: Option<usize> },
    /// One column for the key, one for the value.
    Cell { key: usize, value: usize },
    /// One column, and the whole row as JSON. `names` are the names of the columns, as JSON strings.
    Row { key: usize, names: Option<Vec<String>> },
}

impl Csv {
    pub(crate) fn new(input: Box<dyn Read + Send>, columns: &Columns<'_>) -> Outcome<Self> {
        let mut reader = ReaderBuilder::new()
            .delimiter(columns.delimiter)
            .has_headers(columns.has_header)
            .buffer_capacity(READ_AHEAD)
            .from_reader(Quotes::new(input, columns.delimiter));
        let header = if columns.has_header { Some(reader.byte_headers().map_err(|error| broken(&error))?) } else { None };
        let fields = find(header, columns)?;
        Ok(Self { reader, row: ByteRecord::new(), fields, json: Vec::new() })
    }
}

impl RecordSource for Csv {
    fn next_into(&mut self, batch: &mut Batch) -> Result<bool, Trouble> {
        match self.reader.read_byte_record(&mut self.row) {
            Ok(false) => return Ok(false),
            Ok(true) if self.reader.get_ref().end_inside() => {
                let line = self.row.position().map_or(0, csv::Position::line);
                return Err(Trouble::Skippable(format!(
                    "line {line}: the file ends inside of a quoted cell of this row; it may be cut short"
                )));
            }
            Ok(true) => {}
            Err(error) if error.is_io_error() => return Err(Trouble::Fatal(broken(&error))),
            Err(error) => return Err(Trouble::Skippable(error.to_string().trim_start_matches("CSV error: ").to_owned())),
        }
        match take(&self.row, &self.fields, &mut self.json, batch) {
            Ok(()) => Ok(true),
            Err(what) => {
                let line = self.row.position().map_or(0, csv::Position::line);
                Err(Trouble::Skippable(format!("line {line}: {what}")))
            }
        }
    }

    fn position(&self) -> u64 {
        self.reader.position().byte()
    }
}

fn broken(error: &csv::Error) -> Failure {
    if error.is_io_error() {
        return Failure::new(Exit::Io, "io", format!("cannot read the input: {error}"));
    }
    Failure::bad_input(format!("this is not CSV: {error}"))
}

fn find(header: Option<&ByteRecord>, columns: &Columns<'_>) -> Outcome<Fields> {
    let Some(header) = header else {
        return find_by_number(columns);
    };
    let column = |name: &str| header.iter().position(|cell| cell == name.as_bytes());
    let required = |name: &str, option: &str| {
        column(name).ok_or_else(|| {
            let names = header.iter().map(|cell| Form::Text.plain(cell)).collect::<Vec<_>>().join(", ");
            Failure::bad_input(format!("there is no column {name:?} in the header ({names}); name one of these with {option}"))
        })
    };
    match (columns.key, columns.value) {
        (None, None) => Ok(Fields::Own {
            key: required("key", "--key")?,
            value: required("value", "--value, or store whole rows with --key alone")?,
            key_encoding: column("key_encoding"),
            value_encoding: column("value_encoding"),
        }),
        (key, Some(value)) => {
            Ok(Fields::Cell { key: required(key.unwrap_or("key"), "--key")?, value: required(value, "--value")? })
        }
        (Some(key), None) => {
            let names = header.iter().map(json_string).collect::<Result<Vec<_>, _>>();
            let names = names.map_err(|what| Failure::bad_input(format!("in the header, {what}")))?;
            Ok(Fields::Row { key: required(key, "--key")?, names: Some(names) })
        }
    }
}

fn find_by_number(columns: &Columns<'_>) -> Outcome<Fields> {
    let number = |text: &str| {
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        number.ok_or_else(|| Failure::usage(format!("with --no-header a column is a number from 1, {text:?} is not")))
    };
    match (columns.key, columns.value) {
        (None, _) => Err(Failure::usage("with --no-header, give the number of the key column (from 1) by --key")),
        (Some(key), None) => Ok(Fields::Row { key: number(key)?, names: None }),
        (Some(key), Some(value)) => Ok(Fields::Cell { key: number(key)?, value: number(value)? }),
    }
}

fn take(row: &ByteRecord, fields: &Fields, json: &mut Vec<u8>, batch: &mut Batch) -> Result<(), String> {
    let cell = |place: usize| row.get(place).ok_or_else(|| format!("the row has no column {}", place.saturating_add(1)));
    match fields {
        Fields::Cell { key, value } => batch.push(cell(*key)?, cell(*value)?),
        Fields::Own { key, value, key_encoding, value_encoding } => {
            let key = form(row, *key_encoding)?.decode(cell(*key)?)?;
            let value = form(row, *value_encoding)?.decode(cell(*value)?)?;
            batch.push(&key, &value)
        }
        Fields::Row { key, names } => {
            row_as_json(row, names.as_deref(), json)?;
            batch.push(cell(*key)?, json)
        }
    }
}

fn form(row: &ByteRecord, column: Option<usize>) -> Result<Form, String> {
    let marker = column.and_then(|column| row.get(column)).unwrap_or_default();
    let form = std::str::from_utf8(marker).ok().and_then(Form::from_marker);
    form.ok_or_else(|| format!("the encoding {} is unknown; it is base64, hex, text or empty", Form::Text.plain(marker)))
}

/// `{"column":"cell",...}`, or `["cell",...]` where the columns have no names.
fn row_as_json(row: &ByteRecord, names: Option<&[String]>, out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let (open, close) = if names.is_some() { (b'{', b'}') } else { (b'[', b']') };
    let mut before = open;
    for (place, cell) in row.iter().enumerate() {
        out.push(before);
        before = b',';
        if let Some(name) = names.and_then(|names| names.get(place)) {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
        }
        out.extend_from_slice(json_string(cell)?.as_bytes());
    }
    out.push(close);
    Ok(())
}

fn json_string(cell: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(cell)
        .map_err(|_| "a cell is not UTF-8, so the row cannot become JSON; store one column with --value".to_owned())?;
    serde_json::to_string(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    type Records = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(text: &[u8], key: Option<&str>, value: Option<&str>, has_header: bool) -> Result<Records, String> {
        let input = Box::new(std::io::Cursor::new(text.to_vec()));
        let columns = Columns { key, value, delimiter: b',', has_header };
        let mut source = Csv::new(input, &columns).map_err(|failure| format!("{failure:?}"))?;
        let mut batch = Batch::default();
        loop {
            match source.next_into(&mut batch) {
                Ok(true) => {}
                Ok(false) => return Ok(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()),
                Err(Trouble::Skippable(what)) => return Err(what),
                Err(Trouble::Fatal(failure)) => panic!("{failure:?}"),
            }
        }
    }

    fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (key.as_bytes().to_vec(), value.as_bytes().to_vec())
    }

    #[test]
    fn our_own_columns_are_read_with_encodings() {
        let text = b"value,key,key_encoding,value_encoding\nv,k,,\n/w==,00,hex,base64\n\"a\nb\",\"q\"\"\",text,\n";
        let records = read(text, None, None, true).unwrap();
        assert_eq!(records, [pair("k", "v"), (vec![0], vec![255]), pair("q\"", "a\nb")]);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_name() {
        assert_eq!(read(b"\xef\xbb\xbfkey,value\nk,v\n", None, None, true).unwrap(), [pair("k", "v")]);
    }

    #[test]
    fn a_key_column_alone_stores_the_row_as_json() {
        let records = read(b"id,na\"me\n1,a\"b\n2,\n", Some("id"), None, true).unwrap();
        assert_eq!(records, [pair("1", r#"{"id":"1","na\"me":"a\"b"}"#), pair("2", r#"{"id":"2","na\"me":""}"#)]);
        assert_eq!(read(b"1,a\n", Some("2"), None, false).unwrap(), [pair("a", r#"["1","a"]"#)]);
    }

    #[test]
    fn quotes_that_are_closed_or_stand_inside_a_cell_end_nothing() {
        let text = b"key,value\na,\"x\"\nb,5\" tall\nc,\"q\"\"\"\nd,\"last\"";
        assert_eq!(
            read(text, None, None, true).unwrap(),
            [pair("a", "x"), pair("b", "5\" tall"), pair("c", "q\""), pair("d", "last")]
        );
    }

    #[test]
    fn a_quoted_cell_may_stand_behind_a_byte_order_mark() {
        assert_eq!(read(b"\xef\xbb\xbf\"a,\",b\n1,2\n", Some("a,"), Some("b"), true).unwrap(), [pair("1", "2")]);
    }

    #[test]
    fn a_cell_may_hold_any_bytes() {
        assert_eq!(read(b"key,x\n\xff,\xfe\n", None, Some("x"), true).unwrap(), [(vec![255], vec![254])]);
    }

    #[test]
    fn bad_rows_and_headers_are_errors_that_say_what_is_wrong() {
        for (text, key, value, has_header, hint) in [
            (&b"a,b\n1,2\n"[..], None, None, true, "(a, b)"),
            (b"a,b\n1,2\n", Some("c"), None, true, "\\\"c\\\""),
            (b"a,b\n1,2\n", Some("a"), Some("x"), true, "--value"),
            (b"key,value\n1,2,3\n", None, None, true, "line: 2"),
            (b"key,value,key_encoding\n1,2,rot13\n", None, None, true, "rot13"),
            (b"1,2\n", None, None, false, "--key"),
            (b"1,2\n", Some("0"), None, false, "number from 1"),
            (b"1,2\n", Some("3"), None, false, "no column 3"),
            (b"a,b\n1,\xff\n", Some("a"), None, true, "UTF-8"),
            (b"", None, None, true, "no column"),
            (b"key,value\na,1\nb,\"open\n", None, None, true, "line 3: the file ends inside of a quoted cell"),
            (b"key,value\na,1\nb,\"a \"\" and\"\"", None, None, true, "line 3: the file ends"),
        ] {
            let what = read(text, key, value, has_header).unwrap_err();
            assert!(what.contains(hint), "{} -> {what}", String::from_utf8_lossy(text));
        }
    }
}
