//! The checks of `conformance` against the text of `wasi:keyvalue@0.2.0-draft2` that Spin has, in which `get-many` answers otherwise:
//! `conformance-spin STORE`, on a store that is empty.
#![allow(missing_docs, dead_code, reason = "a program; what is generated has its documents in the WIT")]

#[macro_use]
#[path = "conformance/checks.rs"]
mod checks;

use checks::report;

common!("../../wit/spin/keyvalue-draft2", Option::<String>::as_deref, values);

draft2!();

/// Every key comes back, with or without a value.
fn values(keys: &[String], found: Vec<(String, Option<Vec<u8>>)>) -> Checked<Vec<Option<Vec<u8>>>> {
    if !found.iter().map(|(key, _)| key).eq(keys) {
        return Err("the keys that came back are not those that were asked for".to_owned());
    }
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let mut checks = Checks(0);
    let result = run(&mut checks, &name);
    report(&checks, result);
}
