//! What the golden stores in `tests/golden/compressed` hold: values that compaction and writes have compressed, with a dictionary and without. The
//! sealed one has the key [`KEY`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use pipkin::Db;

/// What opens the sealed one.
pub const KEY: [u8; 32] = [7; 32];
/// The namespace whose values are compressed with a dictionary.
pub const SPACE: &str = "documents";
/// How many there are: those below [`COMPACTED`] were compressed by compaction, the others as they were written.
pub const COUNT: u32 = 700;
/// See [`COUNT`].
pub const COMPACTED: u32 = 500;
/// Keys of the default namespace, whose values are compressed without a dictionary, and their lengths.
pub const ALONE: [(&str, usize); 3] = [("zeros", 1000), ("more zeros", 70_000), ("too short", 20)];

/// The key of a document.
pub fn key(number: u32) -> String {
    format!("document {number}")
}

/// A document; all of them have much in common.
pub fn value(number: u32) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    format!(
        r#"{{"feature":"api.Interface{}.method{mixed:x}","version_added":"{}","status":{{"deprecated":false,"experimental":false,"standard_track":true}},"spec":"https://example.org/the-specification"}}"#,
        number % 97,
        number % 50
    )
}

/// A value of [`ALONE`].
pub fn zeros(len: usize) -> Vec<u8> {
    alloc::vec![0; len]
}

/// Fails unless the engine finds what such a store holds.
pub fn check_compressed(db: &Db) -> Result<(), String> {
    let space = db.find_namespace(SPACE).ok_or("the namespace is missing")?;
    for number in 0..COUNT {
        match space.get(key(number)) {
            Ok(Some(found)) if found == value(number).as_bytes() => {}
            other => return Err(format!("{}: {other:?}", key(number))),
        }
    }
    for (key, len) in ALONE {
        match db.get(key) {
            Ok(Some(found)) if found == zeros(len) => {}
            Ok(found) => return Err(format!("{key} has {:?} bytes", found.map(|found| found.len()))),
            Err(error) => return Err(format!("{key}: {error}")),
        }
    }
    match (space.len(), db.len(), db.is_compressed()) {
        (Ok(700), Ok(3), true) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
