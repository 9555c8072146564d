//! Operations of buckets of `wasi:keyvalue` that the component and the provider share.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;
use pipkin::{Cursor, Db, Result};

/// A page of keys ends at either.
const PAGE_KEYS_MAX: usize = 1000;
const PAGE_BYTES_MAX: usize = 256 * 1024;

/// A page of keys, and where the next one begins. Keys that are not UTF-8 cannot be expressed in the standard and are
/// left out.
///
/// # Errors
///
/// Those of [`page`](pipkin::Namespace::page).
pub fn keys(db: &Db, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>)> {
    let (mut keys, mut bytes) = (Vec::new(), 0);
    let from = cursor.map_or_else(Cursor::default, Cursor::from_bits);
    let next = db.page(from, |key, _| {
        if let Ok(key) = core::str::from_utf8(key) {
            bytes += key.len();
            keys.push(String::from(key));
        }
        keys.len() < PAGE_KEYS_MAX && bytes < PAGE_BYTES_MAX
    })?;
    Ok((keys, next.map(Cursor::to_bits)))
}

/// The next number of a counter: applies `add` to the value, which is decimal text; no value counts as zero.
///
/// # Errors
///
/// A message, when the value is not a number or would leave its range. It does not contain the key, which would cost the component 3 kB
/// of code to print.
pub fn counted<N>(value: Option<&[u8]>, add: impl Fn(N) -> Option<N>) -> Result<N, String>
where
    N: Copy + Default + Display + FromStr,
{
    let old = value.map_or(Some(N::default()), |value| core::str::from_utf8(value).ok()?.parse().ok());
    let old = old.ok_or("the value of this key is no counter: counters are decimal text in the range of this call")?;
    add(old).ok_or_else(|| format!("this counter would leave its range; it stays {old}"))
}
