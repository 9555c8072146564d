//! What the golden stores in `tests/golden/expiry` hold: records that expire, in the default namespace and in one with a default of its own.
//! Their clock says that some have expired, so that a host without a clock sees it, too.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use pipkin::{Db, Error, Namespace};

/// The namespace beside the default one.
pub const SPACE: &str = "sessions";
/// When the stores were written: in 2001.
pub const START: u64 = 1_000_000_000_000;
/// How long records of [`SPACE`] live by default: a hundred years.
pub const DEFAULT_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
/// Keys of both namespaces whose records have expired. Under each lies an earlier version that did not.
pub const GONE: [&str; 2] = ["gone", "gone, too"];
/// Keys of both namespaces whose records expire, and when: the first is in 2100.
pub const WITH_EXPIRY: [(&str, u64); 2] = [("coupon", 4_102_444_800_000), ("far off", (1 << 48) - 2)];
/// Keys of both namespaces whose records live for ever.
pub const WITHOUT: [&str; 2] = ["stays", "stays, too"];

/// Keys and expiries of the default namespace, or of [`SPACE`], in the order of the keys.
pub fn expected(space: &str) -> Vec<(&'static str, Option<u64>)> {
    let mut all: Vec<_> = WITH_EXPIRY.map(|(key, expiry)| (key, Some(expiry))).to_vec();
    all.extend(WITHOUT.map(|key| (key, None)));
    if space == SPACE {
        all.push(("by default", Some(START + DEFAULT_MS)));
    }
    all.sort_unstable();
    all
}

/// The value of a record.
pub fn value_of(key: &str, expiry: Option<u64>) -> String {
    match expiry {
        _ if key == "by default" => "for as long as the namespace says".to_string(),
        Some(expiry) => format!("until {expiry}"),
        None => "for ever".to_string(),
    }
}

/// Fails unless the engine finds what such a store holds.
pub fn check_expiring(db: &Db) -> Result<(), String> {
    let named = db.find_namespace(SPACE).ok_or("the namespace is missing")?;
    let default = named.default_ttl();
    if default != Some(Duration::from_millis(DEFAULT_MS)) {
        return Err(format!("records of {SPACE:?} live {default:?} by default"));
    }
    check_space(&db.default_namespace(), "").and_then(|()| check_space(&named, SPACE))
}

fn check_space(records: &Namespace, space: &str) -> Result<(), String> {
    let words = |error: Error| format!("{space:?}: {error}");
    let expected = expected(space);
    for (key, expiry) in &expected {
        let found = (records.get(key).map_err(words)?, records.expires_at(key).map_err(words)?);
        if found != (Some(value_of(key, *expiry).into_bytes()), *expiry) {
            return Err(format!("{space:?} {key}: {found:?}"));
        }
    }
    for key in GONE {
        if let Some(found) = records.get(key).map_err(words)? {
            return Err(format!("{space:?} {key}: it has expired, and {found:?} came back"));
        }
    }
    let mut keys = records.keys().collect::<Result<Vec<_>, _>>().map_err(words)?;
    keys.sort_unstable();
    if !keys.iter().map(Vec::as_slice).eq(expected.iter().map(|(key, _)| key.as_bytes())) {
        return Err(format!("{space:?} has {keys:?}"));
    }
    match records.len().map_err(words)? {
        len if len == expected.len() as u64 => Ok(()),
        len => Err(format!("{space:?} has {len} records instead of {}", expected.len())),
    }
}
