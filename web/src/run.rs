//! A request as one commit: reads see the writes in front of them, and all writes go to the log together.

use std::collections::HashMap;

use pipkin::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use pipkin::{Cursor, Db, Error};

use crate::failure::Failure;
use crate::requests;
use crate::wire::{Answer, Op, Request, Write, put_bytes};

/// A page of records ends with the record that fills it to this size.
const PAGE_BYTES: usize = 256 * 1024;

/// Runs all operations of a request, one behind the other, and answers each.
pub(crate) fn run(db: &Db, request: &Request<'_>) -> Vec<Answer> {
    let known = match request.origin.map(|origin| requests::outcomes(db, origin)).transpose() {
        Ok(known) => known.unwrap_or_default(),
        Err(error) => return vec![Answer::Failed((&error).into()); request.ops.len()],
    };
    let mut outcomes = known.into_iter();
    let mut run = Run { db, origin: request.origin, outcomes: Vec::new(), answers: Vec::new() };
    // What a page shows must have been written: it ends a commit.
    for ops in request.ops.chunk_by(|one, next| !is_page(one) && !is_page(next)) {
        run.group(ops, &mut outcomes);
    }
    if request.durable || request.ops.iter().any(|op| matches!(op, Op::Flush)) {
        run.flush();
    }
    run.answers
}

fn is_page(op: &Op<'_>) -> bool {
    matches!(op, Op::Page { .. })
}

fn is_write(op: &Op<'_>) -> bool {
    matches!(op, Op::Write(_) | Op::Delete(_) | Op::WriteMany(_) | Op::Swap { .. })
}

struct Run<'a> {
    db: &'a Db,
    origin: Option<([u8; 16], u64)>,
    /// Of every write of the request so far.
    outcomes: Vec<u8>,
    answers: Vec<Answer>,
}

impl Run<'_> {
    /// Runs operations as one commit; where there is no space for it, each for itself, so that removals still go through.
    fn group(&mut self, ops: &[Op<'_>], known: &mut std::vec::IntoIter<u8>) {
        let retry = known.clone();
        match self.commit(ops, known) {
            Ok(()) => {}
            Err(Error::NoSpace) if ops.len() > 1 => {
                *known = retry;
                ops.iter().for_each(|op| self.group(std::slice::from_ref(op), known));
            }
            Err(error) => {
                let code = if matches!(error, Error::NoSpace) { requests::NO_SPACE } else { requests::FAILED };
                self.outcomes.extend(ops.iter().filter(|op| is_write(op)).map(|_| code));
                self.answers.extend(vec![Answer::Failed(Failure::of_write(&error)); ops.len()]);
            }
        }
    }

    fn commit(&mut self, ops: &[Op<'_>], known: &mut std::vec::IntoIter<u8>) -> Result<(), Error> {
        let mut stage = Stage::new(self.db);
        let before = self.outcomes.len();
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops {
            let answer = match if is_write(op) { known.next() } else { None } {
                Some(outcome) => requests::answer_of(outcome),
                None => stage.run(op).unwrap_or_else(Answer::Failed),
            };
            if is_write(op) {
                self.outcomes.push(requests::outcome_of(&answer));
            }
            answers.push(answer);
        }
        let written = stage.write(self.origin, &self.outcomes);
        match written {
            Ok(()) => self.answers.append(&mut answers),
            Err(_) => self.outcomes.truncate(before),
        }
        written
    }

    fn flush(&mut self) {
        let flushed = self.db.flush();
        for answer in &mut self.answers {
            match (&flushed, &answer) {
                (Ok(durability), Answer::Flushed(_)) => *answer = Answer::Flushed(*durability as u8),
                (Err(error), Answer::Flushed(_) | Answer::Written(_)) => *answer = Answer::Failed(Failure::of_write(error)),
                _ => {}
            }
        }
    }
}

/// Writes that are not in the log yet, and the store behind them.
struct Stage<'a> {
    db: &'a Db,
    writes: Vec<Write<'a>>,
    /// The newest write of a key, of those up to `seen`.
    newest: HashMap<&'a [u8], usize>,
    seen: usize,
}

impl<'a> Stage<'a> {
    fn new(db: &'a Db) -> Self {
        Self { db, writes: Vec::new(), newest: HashMap::new(), seen: 0 }
    }

    fn run(&mut self, op: &Op<'a>) -> Result<Answer, Failure> {
        Ok(match op {
            Op::Get(key) => Answer::Value(self.get(key)?),
            Op::Has(key) => Answer::Written(u8::from(self.has(key)?)),
            Op::Write(write) => {
                check(write)?;
                self.writes.push(*write);
                Answer::Written(0)
            }
            Op::Delete(key) => {
                let there = self.has(key)?;
                if there {
                    self.writes.push((key, None));
                }
                Answer::Written(u8::from(there))
            }
            Op::WriteMany(writes) => {
                writes.iter().try_for_each(check)?;
                self.writes.extend_from_slice(writes);
                Answer::Written(0)
            }
            Op::Swap { key, expected, new } => {
                check(&(key, *new))?;
                let fits = self.get(key)?.as_deref() == *expected;
                if fits && expected != new {
                    self.writes.push((key, *new));
                }
                Answer::Written(u8::from(fits))
            }
            Op::GetMany(keys) => Answer::Values(keys.iter().map(|key| self.get(key)).collect::<Result<_, _>>()?),
            Op::Page { from, values, prefix } => page(self.db, *from, *values, prefix)?,
            Op::Flush => Answer::Flushed(0),
        })
    }

    /// What the writes in front say of a key: its new value, its removal, or nothing.
    fn staged(&mut self, key: &[u8]) -> Option<Option<&'a [u8]>> {
        let unseen = self.writes.iter().enumerate().skip(self.seen);
        self.newest.extend(unseen.map(|(index, (key, _))| (*key, index)));
        self.seen = self.writes.len();
        let index = self.newest.get(key)?;
        self.writes.get(*index).map(|(_, value)| *value)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self.staged(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.db.get(key).map_err(|error| (&error).into()),
        }
    }

    fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        match self.staged(key) {
            Some(value) => Ok(value.is_some()),
            None => self.db.contains_key(key).map_err(|error| (&error).into()),
        }
    }

    /// Writes what was gathered, and in the same commit that the request has been carried out.
    fn write(self, origin: Option<([u8; 16], u64)>, outcomes: &[u8]) -> Result<(), Error> {
        if self.writes.is_empty() {
            return Ok(());
        }
        let mut batch = self.db.batch();
        for (key, value) in &self.writes {
            batch = match value {
                Some(value) => batch.insert(*key, *value),
                None => batch.remove(*key),
            };
        }
        let Some((client, number)) = origin else { return batch.commit() };
        let (namespace, record) = (requests::namespace(self.db)?, requests::record(number, outcomes));
        batch.insert_in(&namespace, &client, &record).commit()
    }
}

/// Too long a key fails its own operation, not the whole commit.
fn check((key, value): &Write<'_>) -> Result<(), Failure> {
    let value = value.unwrap_or_default();
    if key.len() > KEY_LEN_MAX {
        return Err((&Error::KeyTooLong { len: key.len() }).into());
    }
    if value.len() > VALUE_LEN_MAX {
        return Err((&Error::ValueTooLong { len: value.len() }).into());
    }
    Ok(())
}

fn page(db: &Db, from: Cursor, values: bool, prefix: &[u8]) -> Result<Answer, Failure> {
    let (mut count, mut records) = (0_u32, Vec::new());
    let next = db.page(from, |key, value| {
        if key.starts_with(prefix) {
            put_bytes(&mut records, key);
            if values {
                put_bytes(&mut records, value);
            }
            count += 1;
        }
        records.len() < PAGE_BYTES
    });
    Ok(Answer::Page { next: next.map_err(|error| Failure::from(&error))?, count, records })
}
