//! Bytes as text on one line, and back.

/// The bytes that a text with escapes stands for: those that [`slice::escape_ascii`] writes.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other @ (b'\\' | b'\'' | b'"') => other,
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn what_is_escaped_reads_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(all.escape_ascii().to_string().as_bytes()), Some(all));
        for bad in ["\\", "\\q", "\\x1", "\\xzz"] {
            assert_eq!(unescape(bad.as_bytes()), None, "{bad}");
        }
    }
}
