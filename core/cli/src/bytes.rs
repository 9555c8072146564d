//! Bytes as text: the forms in which keys and values are typed and printed.

use crate::exit::{Failure, Outcome};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::ops::Bound;

/// A range of keys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn argument_bytes(argument: &OsStr) -> Outcome<&[u8]> {
    os_bytes(argument).ok_or_else(|| Failure::usage("an argument is not valid Unicode; give its bytes with --hex or --base64"))
}

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are; bytes that are not text are escaped (plain output) or encoded in base64 (JSON and CSV).
    #[default]
    Text,
    Hex,
    Base64,
}

/// Standard alphabet; written with padding, read with or without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Form {
    /// The form that a marker field such as `"key_encoding"` names.
    pub(crate) fn from_marker(name: &str) -> Option<Self> {
        match name {
            "" | "text" => Some(Self::Text),
            "hex" => Some(Self::Hex),
            "base64" => Some(Self::Base64),
            _ => None,
        }
    }

    /// Decodes `text`; the error says what is wrong with it.
    pub(crate) fn decode<'a>(self, text: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        match self {
            Self::Text => Ok(Cow::Borrowed(text)),
            Self::Hex => {
                decode_hex(text).map(Cow::Owned).ok_or_else(|| "this is not hexadecimal (pairs of 0-9 and a-f)".to_owned())
            }
            Self::Base64 => BASE64.decode(text).map(Cow::Owned).map_err(|error| format!("this is not base64: {error}")),
        }
    }

    /// Decodes a key from the command line.
    pub(crate) fn parse_argument(self, argument: &OsStr) -> Outcome<Vec<u8>> {
        self.parse(argument_bytes(argument)?, argument)
    }

    /// Decodes the keys of a range `FROM..TO` or `FROM..=TO`. The border is where the first two dots are.
    pub(crate) fn parse_range(self, argument: &OsStr) -> Outcome<KeyBounds> {
        let raw = argument_bytes(argument)?;
        let border = raw.windows(2).position(|pair| pair == b"..");
        let Some((from, to)) = border.and_then(|at| Some((raw.get(..at)?, raw.get(at.saturating_add(2)..)?))) else {
            return Err(Failure::usage("a range is FROM..TO, two keys with two dots between them; either key may be left out"));
        };
        let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(self.parse(from, argument)?) };
        let end = match to.strip_prefix(b"=") {
            Some(to) => Bound::Included(self.parse(to, argument)?),
            None if to.is_empty() => Bound::Unbounded,
            None => Bound::Excluded(self.parse(to, argument)?),
        };
        Ok((start, end))
    }

    fn parse(self, raw: &[u8], argument: &OsStr) -> Outcome<Vec<u8>> {
        match self.decode(raw) {
            Ok(bytes) => Ok(bytes.into_owned()),
            Err(what) => Err(Failure::usage(format!("{}: {what}", argument.display()))),
        }
    }

    /// One line of plain text without tab or line break, from which the bytes can be recovered.
    pub(crate) fn plain(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Text => escape(bytes),
            Self::Hex => Cow::Owned(hex(bytes)),
            Self::Base64 => Cow::Owned(BASE64.encode(bytes)),
        }
    }

    /// Text for a JSON string or a CSV cell, and the marker that names its encoding; no marker means UTF-8 text.
    pub(crate) fn marked(self, bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
        match self {
            Self::Hex => (Cow::Owned(hex(bytes)), Some("hex")),
            Self::Base64 => (Cow::Owned(BASE64.encode(bytes)), Some("base64")),
            Self::Text => match std::str::from_utf8(bytes) {
                Ok(text) => (Cow::Borrowed(text), None),
                Err(_) => (Cow::Owned(BASE64.encode(bytes)), Some("base64")),
            },
        }
    }
}

/// Decodes bytes from the encoding that the encoding field names.
pub(crate) fn decode<'a>(bytes: Cow<'a, [u8]>, encoding: Option<&str>) -> Result<Cow<'a, [u8]>, String> {
    let Some(encoding) = encoding else {
        return Ok(bytes);
    };
    let form = Form::from_marker(encoding.trim_matches('"'))
        .ok_or_else(|| format!("the encoding {encoding:.20} is unknown; it is \"base64\", \"hex\" or \"text\""))?;
    if form == Form::Text { Ok(bytes) } else { form.decode(&bytes).map(|decoded| Cow::Owned(decoded.into_owned())) }
}

/// A key, alone in a JSON object or beside other fields.
#[derive(Serialize)]
pub(crate) struct KeyJson<'a> {
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
}

impl<'a> KeyJson<'a> {
    pub(crate) fn new(form: Form, key: &'a [u8]) -> Self {
        let (key, key_encoding) = form.marked(key);
        Self { key, key_encoding }
    }
}

/// A record as `scan --json` and `export` write it and `import` reads it.
#[derive(Serialize)]
pub(crate) struct RecordJson<'a> {
    /// In an export of all namespaces: the one that it is in, unless that is the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
    value: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_encoding: Option<&'static str>,
    /// Milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
}

impl<'a> RecordJson<'a> {
    pub(crate) fn new(form: Form, key: &'a [u8], value: &'a [u8]) -> Self {
        let (key, key_encoding) = form.marked(key);
        let (value, value_encoding) = form.marked(value);
        Self { namespace: None, key, key_encoding, value, value_encoding, expires_ms: None }
    }

    /// The same of a record that expires then.
    pub(crate) fn expiring(self, expires_ms: Option<u64>) -> Self {
        Self { expires_ms, ..self }
    }

    /// The same of a record of this namespace; an empty name is that of the default one.
    pub(crate) fn of(self, name: &'a str) -> Self {
        Self { namespace: Some(name).filter(|name| !name.is_empty()), ..self }
    }
}

/// The bytes of an argument or a file name. On Unix any bytes; elsewhere only valid Unicode has a reliable byte form.
#[cfg(unix)]
pub(crate) fn os_bytes(text: &OsStr) -> Option<&[u8]> {
    Some(std::os::unix::ffi::OsStrExt::as_bytes(text))
}

#[cfg(not(unix))]
pub(crate) fn os_bytes(text: &OsStr) -> Option<&[u8]> {
    text.to_str().map(str::as_bytes)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Text with `\\`, `\t`, `\n`, `\r` and `\xNN` for a backslash, for control characters and for bytes that are not UTF-8.
fn escape(bytes: &[u8]) -> Cow<'_, str> {
    let is_plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    if is_plain && let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len().saturating_add(16));
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                c if c.is_control() => escape_bytes(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        escape_bytes(&mut out, chunk.invalid());
    }
    Cow::Owned(out)
}

fn escape_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn hex_and_base64_are_read_back_as_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        for form in [Form::Hex, Form::Base64] {
            let text = form.plain(&bytes);
            assert_eq!(form.decode(text.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(Form::Hex.decode(b"00fFaB").unwrap().as_ref(), [0, 255, 171]);
        assert_eq!(Form::Base64.decode(b"AP+r").unwrap(), Form::Base64.decode(b"AP+r").unwrap());
        assert_eq!(Form::Base64.decode(b"AA").unwrap().as_ref(), [0]);
    }

    #[test]
    fn what_is_not_hex_or_base64_is_refused() {
        for bad in ["0", "0g", "0x00", " 00", "+1"] {
            assert!(Form::Hex.decode(bad.as_bytes()).is_err(), "{bad}");
        }
        for bad in ["A", "A?==", "AA AA"] {
            assert!(Form::Base64.decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_text_never_holds_a_tab_or_a_line_break() {
        assert_eq!(Form::Text.plain(b"plain \xc3\xa4"), "plain \u{e4}");
        assert_eq!(Form::Text.plain(b"a\tb\nc\\d\r\0\xff\xc2\x85"), "a\\tb\\nc\\\\d\\r\\x00\\xff\\xc2\\x85");
    }

    #[test]
    fn json_marks_bytes_that_are_not_text() {
        assert_eq!(Form::Text.marked(b"a\0b"), (Cow::Borrowed("a\0b"), None));
        assert_eq!(Form::Text.marked(b"\xff"), (Cow::Borrowed("/w=="), Some("base64")));
        assert_eq!(Form::Hex.marked(b"a"), (Cow::Borrowed("61"), Some("hex")));
    }
}
