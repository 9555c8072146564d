//! What the text of `wasi:keyvalue` promises, checked in both drafts: `conformance STORE`, on a store that is empty. Prints the number of
//! checks, or fails with the first promise that was not kept.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

#[macro_use]
mod checks;

use checks::{Checks, report};

mod draft {
    common!("../../wit/deps/keyvalue-draft", Option::<u64>::clone, crate::checks::with_keys);

    type Counter = u64;

    fn own(checks: &mut Checks, name: &str) -> Checked {
        let bucket = store::open(name).map_err(words)?;
        checks.that(bucket.list_keys(Some(u64::MAX)).is_ok_and(|page| page.cursor.is_none()), "a cursor behind the end ends")
    }
}

mod draft2 {
    common!("../../wit/deps/keyvalue-draft2", Option::<String>::as_deref, crate::checks::with_keys);

    draft2!();
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let mut checks = Checks(0);
    let result = draft::run(&mut checks, &name).and_then(|()| draft2::run(&mut checks, &name));
    report(&checks, result);
}
