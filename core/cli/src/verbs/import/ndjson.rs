//! NDJSON: one object per line.

use crate::bytes::decode;
use crate::choices::{Choices, CompressionArg};
use crate::exit::{Exit, Failure};
use crate::verbs::import::batch::{Batch, Trouble};
use crate::verbs::import::lines::Lines;
use crate::verbs::import::source::RecordSource;
use clap::ValueEnum;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// The fields of key and value in a line.
pub(crate) enum Fields {
    /// `key` and `value`, each with an encoding field if it is not text, and `expires_ms`, as `export` writes them.
    Own,
    /// The same with the namespace of each record, as `export --all-namespaces` writes them, and lines that name namespaces.
    AllNamespaces,
    /// Fields that the user named; without `value` the whole line is the value.
    Named { key: String, value: Option<String> },
}

/// Reads records from lines.
pub(crate) struct Ndjson {
    lines: Lines,
    fields: Fields,
}

impl Ndjson {
    pub(crate) fn new(input: Box<dyn Read + Send>, fields: Fields) -> Self {
        Self { lines: Lines::new(input), fields }
    }
}

impl RecordSource for Ndjson {
    fn next_into(&mut self, batch: &mut Batch) -> Result<bool, Trouble> {
        loop {
            match self.lines.advance() {
                Ok(false) => return Ok(false),
                Ok(true) if self.lines.line().trim_ascii().is_empty() => {}
                Ok(true) => break,
                Err(error) => {
                    return Err(Trouble::Fatal(Failure::new(Exit::Io, "io", format!("cannot read the input: {error}"))));
                }
            }
        }
        match take(self.lines.line(), &self.fields, batch) {
            Ok(()) => Ok(true),
            Err(what) => Err(Trouble::Skippable(format!("line {}: {what}", self.lines.number()))),
        }
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

fn take(line: &[u8], fields: &Fields, batch: &mut Batch) -> Result<(), String> {
    match fields {
        Fields::Own => {
            let [key, value, key_encoding, value_encoding, expires, namespace] = pick(line, OWN)?;
            if key.is_none() && namespace.is_some() {
                return Err("it names a namespace; what `export --all-namespaces` wrote is imported with --all-namespaces".into());
            }
            take_own([key, value, key_encoding, value_encoding, expires], batch)
        }
        Fields::AllNamespaces => {
            let [key, value, key_encoding, value_encoding, expires, namespace, default_ttl, ordered, compression] =
                pick(line, ALL)?;
            let name = namespace.map(|name| text(name, "namespace")).transpose()?;
            if let (None, Some(name)) = (key, &name) {
                let default_ttl = default_ttl.map(|json| milliseconds(json, "default_ttl_ms", "milliseconds, at least 1"));
                if default_ttl == Some(Ok(0)) {
                    return Err("the field \"default_ttl_ms\" is 0; it is a number of milliseconds, at least 1".into());
                }
                let choices = Choices {
                    default_ttl_ms: default_ttl.transpose()?,
                    ordered: ordered.map(yes_or_no).transpose()?,
                    compression: compression.map(when).transpose()?,
                };
                batch.named.push((name.clone(), choices));
                return Ok(());
            }
            batch.enter(name.as_deref().unwrap_or_default());
            take_own([key, value, key_encoding, value_encoding, expires], batch)
        }
        Fields::Named { key: key_name, value: Some(value_name) } => {
            let [key, value] = pick(line, [key_name, value_name])?;
            let value = value.ok_or_else(|| format!("it has no field {value_name:?}"))?;
            batch.push(&key_bytes(key, key_name)?, &json_bytes(value)?)
        }
        Fields::Named { key: key_name, value: None } => {
            let [key] = pick(line, [key_name])?;
            batch.push(&key_bytes(key, key_name)?, line)
        }
    }
}

const OWN: [&str; 6] = ["key", "value", "key_encoding", "value_encoding", "expires_ms", "namespace"];
const ALL: [&str; 9] =
    ["key", "value", "key_encoding", "value_encoding", "expires_ms", "namespace", "default_ttl_ms", "ordered", "compression"];

/// The JSON of the field `ordered`.
fn yes_or_no(json: &str) -> Result<bool, String> {
    json.parse().map_err(|_| format!("the field \"ordered\" is {json}; it is true or false"))
}

/// The JSON of the field `compression`.
fn when(json: &str) -> Result<CompressionArg, String> {
    let word = text(json, "compression")?;
    CompressionArg::from_str(&word, false)
        .map_err(|_| format!("the field \"compression\" is {json}; it is off, on-compaction or on-write"))
}

fn take_own([key, value, key_encoding, value_encoding, expires]: [Option<&str>; 5], batch: &mut Batch) -> Result<(), String> {
    let key = decode(key_bytes(key, "key")?, key_encoding)?;
    let value = value.ok_or("it has no field \"value\"; name the field with --value, or store whole lines with --key alone")?;
    let value = decode(json_bytes(value)?, value_encoding)?;
    match expires.filter(|text| *text != "null") {
        Some(json) => batch.push_expiring(&key, &value, milliseconds(json, "expires_ms", "milliseconds since 1970")?),
        None => batch.push(&key, &value),
    }
}

/// The JSON text of the named fields of the object in `line`; of a repeated field, the last.
fn pick<'a, const N: usize>(line: &'a [u8], names: [&str; N]) -> Result<[Option<&'a str>; N], String> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let found = Pick { names }.deserialize(&mut reader).map_err(|error| at_column(&error))?;
    reader.end().map_err(|error| at_column(&error))?;
    Ok(found)
}

/// The position of an error: only the column, because the parser gets a single line.
fn at_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("this is not a JSON object (column {}: {what})", error.column())
}

struct Pick<'n, const N: usize> {
    names: [&'n str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Pick<'_, N> {
    type Value = [Option<&'de str>; N];

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Pick<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(wanted) = fields.next_key_seed(FieldName { names: &self.names })? {
            match wanted.and_then(|place| found.get_mut(place)) {
                Some(slot) => *slot = Some(fields.next_value::<&'de RawValue>()?.get()),
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Compares the name of a field without storing it.
struct FieldName<'n> {
    names: &'n [&'n str],
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|wanted| *wanted == name))
    }
}

/// A key: the text of a string, the digits of a number.
fn key_bytes<'a>(json: Option<&'a str>, name: &str) -> Result<Cow<'a, [u8]>, String> {
    let json = json.ok_or_else(|| format!("it has no field {name:?}; name the field of the key with --key"))?;
    match json.as_bytes() {
        [b'{' | b'[' | b'n', ..] => Err(format!("the field {name:?} is {json:.20}; a key is a string or a number")),
        _ => json_bytes(json),
    }
}

/// The text of a string; anything else as its JSON text.
fn json_bytes(json: &str) -> Result<Cow<'_, [u8]>, String> {
    let Some(inner) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Ok(Cow::Borrowed(json.as_bytes()));
    };
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner.as_bytes()));
    }
    let text: String = serde_json::from_str(json).map_err(|error| at_column(&error))?;
    Ok(Cow::Owned(text.into_bytes()))
}

/// A number of milliseconds.
fn milliseconds(json: &str, name: &str, what: &str) -> Result<u64, String> {
    json.parse().map_err(|_| format!("the field {name:?} is {json:.20}; it is a number of {what}"))
}

/// The text of a string.
fn text(json: &str, name: &str) -> Result<String, String> {
    serde_json::from_str(json).map_err(|_| format!("the field {name:?} is {json:.20}; it is a string"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn own(line: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
        one(line, &Fields::Own)
    }

    fn one(line: &str, fields: &Fields) -> Result<(Vec<u8>, Vec<u8>), String> {
        let mut batch = Batch::default();
        take(line.as_bytes(), fields, &mut batch)?;
        let (key, value) = batch.iter().next().unwrap();
        Ok((key.to_vec(), value.to_vec()))
    }

    fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (key.as_bytes().to_vec(), value.as_bytes().to_vec())
    }

    #[test]
    fn our_own_form_is_read_with_and_without_encodings() {
        assert_eq!(own(r#"{"key":"a","value":"b"}"#).unwrap(), pair("a", "b"));
        assert_eq!(own(r#" { "value" : "x\ny" , "key" : "\u00e4" } "#).unwrap(), pair("\u{e4}", "x\ny"));
        assert_eq!(own(r#"{"key":"/w==","key_encoding":"base64","value":"","extra":[1]}"#).unwrap(), (vec![255], vec![]));
        assert_eq!(own(r#"{"key":"k","value":"00ff","value_encoding":"hex"}"#).unwrap(), (b"k".to_vec(), vec![0, 255]));
    }

    #[test]
    fn our_own_form_says_when_a_record_expires() {
        let mut batch = Batch::default();
        for line in [r#"{"key":"a","value":"1","expires_ms":77}"#, r#"{"key":"b","value":"2","expires_ms":null}"#] {
            take(line.as_bytes(), &Fields::Own, &mut batch).unwrap();
        }
        let records: Vec<_> = batch.iter_expiring().collect();
        assert_eq!(records, [(&b"a"[..], &b"1"[..], Some(77)), (b"b", b"2", None)]);
    }

    #[test]
    fn values_that_are_no_strings_keep_their_json_text() {
        assert_eq!(own(r#"{"key":17,"value":{"a": [1.50, null]}}"#).unwrap(), pair("17", r#"{"a": [1.50, null]}"#));
    }

    #[test]
    fn of_a_field_given_twice_the_last_counts() {
        assert_eq!(own(r#"{"key":"a","key":"b","value":"c"}"#).unwrap(), pair("b", "c"));
    }

    #[test]
    fn a_named_key_alone_stores_the_whole_line() {
        let fields = Fields::Named { key: "id".into(), value: None };
        assert_eq!(one(r#"{"id":"x", "n":1}"#, &fields).unwrap(), pair("x", r#"{"id":"x", "n":1}"#));
    }

    #[test]
    fn named_fields_pick_key_and_value() {
        let fields = Fields::Named { key: "id".into(), value: Some("body".into()) };
        assert_eq!(one(r#"{"body":"text","key":"no","id":"x"}"#, &fields).unwrap(), pair("x", "text"));
        assert!(one(r#"{"id":"x"}"#, &fields).unwrap_err().contains("\"body\""));
    }

    #[test]
    fn bad_lines_are_errors_that_say_what_is_wrong() {
        for (line, hint) in [
            ("", "JSON"),
            ("[1]", "JSON"),
            (r#"{"key":"a","value":"b"} x"#, "JSON"),
            (r#"{"key":"a","value":"b""#, "JSON"),
            (r#"{"value":"b"}"#, "--key"),
            (r#"{"key":"a"}"#, "--value"),
            (r#"{"key":null,"value":"b"}"#, "string or a number"),
            (r#"{"key":"a","value":"b","value_encoding":"rot13"}"#, "rot13"),
            (r#"{"key":"?","key_encoding":"base64","value":"b"}"#, "base64"),
            (r#"{"key":"a","value":"b","expires_ms":"soon"}"#, "milliseconds"),
            (r#"{"key":"a","value":"b","expires_ms":-5}"#, "milliseconds"),
            ("{\"key\":\"\u{1}\",\"value\":\"b\"}", "JSON"),
        ] {
            let what = own(line).unwrap_err();
            assert!(what.contains(hint), "{line} -> {what}");
        }
        assert!(take(b"{\"key\":\"\xff\",\"value\":\"b\"}", &Fields::Own, &mut Batch::default()).is_err());
    }
}
