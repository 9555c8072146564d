//! Several commits as one: only what counts at the end.

use super::{Change, Commit};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The last change of each key, and of each namespace what came after it was last cleared or dropped. The position is that of the last
/// commit; `None` without commits.
pub(crate) fn merged(commits: Vec<Commit>) -> Option<Commit> {
    let Commit { position, comes_again, .. } = *commits.last()?;
    let changes: Vec<Change> = commits.into_iter().flat_map(Commit::into_changes).collect();
    let mut is_kept = alloc::vec![false; changes.len()];
    let (mut keys, mut emptied) = (BTreeSet::new(), BTreeSet::new());
    for (change, is_kept) in changes.iter().zip(&mut is_kept).rev() {
        *is_kept = !emptied.contains(change.namespace())
            && match change.key() {
                Some(key) => keys.insert((change.namespace(), key)),
                None => emptied.insert(change.namespace()),
            };
    }
    let changes = changes.into_iter().zip(is_kept).filter(|(_, is_kept)| *is_kept).map(|(change, _)| change).collect();
    Some(Commit { changes, position, comes_again })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;
    use crate::position::Position;
    use alloc::sync::Arc;

    #[test]
    fn what_counts_at_the_end_is_left_in_its_order() {
        let name = |name: &str| -> Arc<str> { name.into() };
        let put = |space: &str, key: u8, value: u8| Change::Put {
            namespace: name(space),
            key: alloc::vec![key],
            value: alloc::vec![value],
            expires_at: None,
        };
        let remove = |space: &str, key: u8| Change::Remove { namespace: name(space), key: alloc::vec![key] };
        let clear = |space: &str| Change::Clear { namespace: name(space) };
        let commits = [
            alloc::vec![put("", 1, 1), put("a", 1, 1), put("", 2, 1)],
            alloc::vec![clear("a"), put("a", 1, 2), put("", 1, 2)],
            alloc::vec![clear("a"), put("a", 2, 3), remove("", 2), put("", 3, 3), put("", 3, 4)],
        ];
        let commits = (1..)
            .zip(commits)
            .map(|(lsn, changes)| Commit { changes, position: Position::new(lsn, 7), comes_again: false })
            .collect();
        let one = merged(commits).unwrap();
        assert_eq!(one.position, Position::new(3, 7));
        assert_eq!(one.changes, [put("", 1, 2), clear("a"), put("a", 2, 3), remove("", 2), put("", 3, 4)]);
        assert_eq!(merged(Vec::new()), None);
    }
}
