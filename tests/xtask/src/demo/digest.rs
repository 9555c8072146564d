//! One number for the content of a store, whatever order it hands its records out in.

use std::collections::BTreeMap;

/// SHA-256 over the records in key order, each as: key length (8 bytes, little endian), key, value length (8), value.
pub(super) fn of_records(records: &BTreeMap<String, String>) -> String {
    let mut hash = hmac_sha256::Hash::new();
    for part in records.iter().flat_map(|(key, value)| [key, value]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// SHA-256 over the bytes of files, one after the other.
pub(super) fn of_bytes<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = hmac_sha256::Hash::new();
    for part in parts {
        hash.update(part);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_border_between_key_and_value_counts() {
        assert_ne!(of_records(&records(&[("ab", "c")])), of_records(&records(&[("a", "bc")])));
        assert_ne!(of_records(&records(&[("a", ""), ("b", "")])), of_records(&records(&[("a", "b")])));
    }

    #[test]
    fn bytes_have_the_digest_that_sha256sum_prints() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes([b"a".as_slice(), b"bc"]), known);
    }
}
