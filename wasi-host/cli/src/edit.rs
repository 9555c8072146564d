//! `edit`: many changes from lines of text.

use crate::escape;
use crate::exit::Outcome;
use pipkin_wasi_host::{Db, Durability, Op};
use std::io::BufRead;

/// A commit ends at either: the component has all of it in its memory, more than once.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// Makes the changes that the lines tell, in commits.
pub(crate) fn edit(db: &mut Db, lines: impl BufRead) -> Outcome<usize> {
    let (mut ops, mut changes, mut bytes) = (Vec::new(), 0, 0);
    for line in lines.split(b'\n') {
        let line = line?;
        bytes += line.len();
        if line.is_empty() {
            // Blank lines get into files by themselves, and would remove the record of the empty key.
            continue;
        }
        let mut fields = line.splitn(2, |byte| *byte == b'\t').map(escape::unescape);
        let (key, value) = (fields.next().flatten(), fields.next());
        let (Some(key), false) = (key, value == Some(None)) else {
            return Err(format!(
                "no record: {}; a line is `key TAB value` or a key, with a backslash as \\\\",
                line.escape_ascii()
            )
            .into());
        };
        ops.push(Op { namespace: None, key, value: value.flatten(), ttl: None });
        changes += 1;
        if ops.len() == BATCH || bytes >= BATCH_BYTES {
            db.write(&ops, Durability::Written)?;
            ops.clear();
            bytes = 0;
        }
    }
    db.write(&ops, Durability::Written)?;
    Ok(changes)
}
