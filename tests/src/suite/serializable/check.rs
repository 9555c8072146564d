//! Whether one order explains a history.

use super::{KEYS, SPACES};
use crate::suite::Checked;
use std::collections::BTreeSet;

/// Number of keys of all namespaces.
const PLACES: usize = SPACES.len() * KEYS as usize;

/// The value of each key of each namespace; 0 for none.
pub(super) type State = [u32; PLACES];

/// Where a key is in a [`State`].
pub(super) const fn place(space: usize, key: u8) -> usize {
    space * KEYS as usize + key as usize
}

/// A commit.
#[derive(Debug)]
pub(super) struct Commit {
    /// Log position of its end.
    pub(super) position: u64,
    /// What a transaction has read, and which values it found.
    pub(super) reads: Vec<(usize, u32)>,
    pub(super) writes: Vec<(usize, u32)>,
    pub(super) is_transaction: bool,
}

/// A transaction that wrote nothing. Its snapshot is at one of these positions, or between them.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) after: u64,
    pub(super) before: u64,
    pub(super) reads: Vec<(usize, u32)>,
}

/// A namespace was cleared or dropped, after one position, and at the other at the latest.
#[derive(Debug)]
pub(super) struct Clear {
    pub(super) after: u64,
    pub(super) before: u64,
    pub(super) space: usize,
}

/// What was done and seen.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) commits: Vec<Commit>,
    pub(super) audits: Vec<Audit>,
    /// One after the other.
    pub(super) clears: Vec<Clear>,
}

impl History {
    pub(super) fn transactions(&self) -> u64 {
        (self.commits.iter().filter(|commit| commit.is_transaction).count() + self.audits.len()) as u64
    }
}

/// A state that the store may have been in, with the number of clears before it: it is not known where exactly a clear was.
type Possible = (State, usize);

fn agrees(state: &State, reads: &[(usize, u32)]) -> bool {
    reads.iter().all(|&(place, value)| state[place] == value)
}

/// The possible states up to a log position, before a commit there.
fn on_the_way(possible: &BTreeSet<Possible>, clears: &[Clear], position: u64) -> BTreeSet<Possible> {
    let mut found = possible.clone();
    for &(mut state, count) in possible {
        for (index, clear) in clears.iter().enumerate().skip(count).take_while(|(_, clear)| clear.after < position) {
            state[place(clear.space, 0)..place(clear.space + 1, 0)].fill(0);
            found.insert((state, index + 1));
        }
    }
    found
}

/// The possible states at a log position, before a commit there.
fn cleared(possible: &BTreeSet<Possible>, clears: &[Clear], position: u64) -> BTreeSet<Possible> {
    let mut found = on_the_way(possible, clears, position);
    found.retain(|&(_, count)| clears.get(count).is_none_or(|next| position <= next.before));
    found
}

/// Checks that the commits, in the order of their positions, explain everything that was read, and lead to the content `last`.
pub(super) fn explain(history: History, last: &State) -> Checked {
    let History { mut commits, mut audits, clears } = history;
    commits.sort_by_key(|commit| commit.position);
    let mut possible = BTreeSet::from([([0; PLACES], 0)]);
    let mut position = 0;
    for (index, commit) in commits.iter().enumerate() {
        if commit.position == position {
            return Err(format!("two commits have the position {position}"));
        }
        explain_audits(&mut audits, &possible, &clears, position, commit.position)?;
        position = commit.position;
        let states = cleared(&possible, &clears, position);
        possible = states.iter().filter(|(state, _)| agrees(state, &commit.reads)).copied().collect();
        if possible.is_empty() {
            let before = &commits[index.saturating_sub(8)..index];
            return Err(format!("{commit:?} has not read the state before it: {states:?} after {before:#?}, with {clears:?}"));
        }
        possible = possible
            .into_iter()
            .map(|(mut state, count)| {
                commit.writes.iter().for_each(|&(place, value)| state[place] = value);
                (state, count)
            })
            .collect();
    }
    explain_audits(&mut audits, &possible, &clears, position, u64::MAX)?;
    let ends = cleared(&possible, &clears, u64::MAX);
    if ends.iter().any(|(state, _)| state == last) { Ok(()) } else { Err(format!("{last:?} is left, not {ends:?}")) }
}

/// Takes out the transactions without writes that have read a state that the store had from `from` until the commit at `to`.
fn explain_audits(audits: &mut Vec<Audit>, possible: &BTreeSet<Possible>, clears: &[Clear], from: u64, to: u64) -> Checked {
    let states = on_the_way(possible, clears, to);
    audits.retain(|audit| {
        let is_here = audit.after < to && audit.before >= from;
        !(is_here && states.iter().any(|(state, _)| agrees(state, &audit.reads)))
    });
    match audits.iter().find(|audit| audit.before < to) {
        Some(audit) => Err(format!("no state explains {audit:?}: {states:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(position: u64, reads: &[(usize, u32)], writes: &[(usize, u32)]) -> Commit {
        Commit { position, reads: reads.to_vec(), writes: writes.to_vec(), is_transaction: true }
    }

    fn result(commits: Vec<Commit>, audits: Vec<Audit>, clears: Vec<Clear>, last: &[(usize, u32)]) -> Checked {
        let mut state = [0; PLACES];
        last.iter().for_each(|&(place, value)| state[place] = value);
        explain(History { commits, audits, clears }, &state)
    }

    #[test]
    fn an_order_is_accepted_and_each_anomaly_is_not() {
        let first = || commit(10, &[], &[(0, 1), (1, 2)]);
        assert_eq!(result(vec![commit(20, &[(0, 1)], &[(1, 3)]), first()], vec![], vec![], &[(0, 1), (1, 3)]), Ok(()));
        // Write skew, a lost update, a read of the future.
        let skew = vec![first(), commit(20, &[(0, 1), (1, 2)], &[(0, 3)]), commit(30, &[(0, 1), (1, 2)], &[(1, 4)])];
        assert!(result(skew, vec![], vec![], &[(0, 3), (1, 4)]).is_err());
        let lost = vec![first(), commit(20, &[(0, 1)], &[(0, 3)]), commit(30, &[(0, 1)], &[(0, 4)])];
        assert!(result(lost, vec![], vec![], &[(0, 4), (1, 2)]).is_err());
        let future = vec![first(), commit(20, &[(0, 4)], &[(1, 3)]), commit(30, &[], &[(0, 4)])];
        assert!(result(future, vec![], vec![], &[(0, 4), (1, 3)]).is_err());
        // A reader that saw half of a commit, or one that was not there yet.
        let reads = |after, before, reads: &[(usize, u32)]| vec![Audit { after, before, reads: reads.to_vec() }];
        let last = [(0, 1), (1, 2)];
        assert_eq!(result(vec![first()], reads(5, 15, &[(0, 1), (1, 2)]), vec![], &last), Ok(()));
        assert_eq!(result(vec![first()], reads(5, 15, &[(0, 0), (1, 0)]), vec![], &last), Ok(()));
        assert!(result(vec![first()], reads(5, 15, &[(0, 1), (1, 0)]), vec![], &last).is_err());
        assert!(result(vec![first()], reads(10, 15, &[(0, 0)]), vec![], &last).is_err());
        assert!(result(vec![first()], reads(5, 9, &[(0, 1)]), vec![], &last).is_err());
        assert!(result(vec![first()], vec![], vec![], &[(0, 1)]).is_err());
    }

    #[test]
    fn a_clear_may_be_anywhere_between_its_bounds_but_nowhere_else() {
        let clear = |after, before| vec![Clear { after, before, space: 0 }];
        let commits = |read| vec![commit(10, &[], &[(0, 1)]), commit(20, &[(0, read)], &[(1, 2)])];
        assert_eq!(result(commits(0), vec![], clear(10, 25), &[(1, 2)]), Ok(()));
        assert_eq!(result(commits(1), vec![], clear(10, 25), &[]), Ok(()));
        assert!(result(commits(1), vec![], clear(10, 25), &[(1, 2)]).is_err());
        assert!(result(commits(1), vec![], clear(10, 19), &[(1, 2)]).is_err());
        assert!(result(commits(0), vec![], clear(20, 25), &[(1, 2)]).is_err());
    }
}
