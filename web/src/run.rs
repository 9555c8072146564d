//! Runs a request as one commit: reads see the writes before them, and all writes go to the log together.

use alloc::vec;
use alloc::vec::Vec;

use pipkin::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use pipkin::{Cursor, Error, Ttl};

use crate::failure::{Code, Failure};
use crate::newest::Newest;
use crate::order::Order;
use crate::records::Records;
use crate::requests;
use crate::shared::Open;
use crate::transactions;
use crate::wire::{Answer, DAMAGED, Damage, Op, Range, Request, Write, put_bytes, put_damage, put_value};

/// A page ends with the record that brings it to this many bytes.
const PAGE_BYTES: usize = 256 * 1024;
/// A commit whose reads have returned more bytes of values than this reads no more: its answers are collected in memory.
const READ_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Runs all operations of a request, one after the other, and answers each.
pub(crate) fn run(open: &Open, request: &Request<'_>) -> Vec<Answer> {
    let db = &open.db;
    let known = match request.origin.map(|origin| requests::outcomes(db, origin)).transpose() {
        Ok(known) => known.unwrap_or_default(),
        Err(error) => return vec![Answer::Failed((&error).into()); request.ops.len()],
    };
    let mut outcomes = known.into_iter();
    let mut run = Run { open, origin: request.origin, outcomes: Vec::new(), answers: Vec::new() };
    // A page is read from the store, so the writes before it are committed first: a page is a group by itself.
    for ops in request.ops.chunk_by(|one, next| !is_page(one) && !is_page(next)) {
        run.group(ops, &mut outcomes);
    }
    if request.durable || request.ops.iter().any(|op| matches!(op, Op::Flush)) {
        run.flush();
    }
    run.answers
}

fn is_page(op: &Op<'_>) -> bool {
    #[cfg(feature = "full")]
    if matches!(op, Op::Events(_)) {
        return true;
    }
    matches!(op, Op::Page { .. } | Op::Range(_) | Op::ExpiresAt(_) | Op::Keep(_) | Op::In(..) | Op::Commit(_) | Op::Changes(_))
}

fn is_write(op: &Op<'_>) -> bool {
    #[cfg(feature = "full")]
    if let Op::Events(call) = op {
        return crate::events::is_write(call);
    }
    matches!(
        op,
        Op::Write(_) | Op::Delete(_) | Op::WriteMany(_) | Op::WriteManyFor(_) | Op::Swap { .. } | Op::Keep(_) | Op::Commit(_)
    )
}

struct Run<'a> {
    open: &'a Open,
    origin: Option<([u8; 16], u64)>,
    /// The outcome of every write of the request so far.
    outcomes: Vec<u8>,
    answers: Vec<Answer>,
}

impl Run<'_> {
    /// Runs operations as one commit. Where there is no space for it and none can be made, runs each separately, so that removals still
    /// succeed.
    fn group(&mut self, ops: &[Op<'_>], known: &mut alloc::vec::IntoIter<u8>) {
        if let [Op::Commit(transaction)] = ops {
            return self.end(*transaction, known.next());
        }
        #[cfg(feature = "full")]
        if let [Op::Events(call)] = ops {
            return self.events(call, known);
        }
        let retry = known.clone();
        let open = self.open;
        let committed = open.room.with(&open.db, &mut || {
            *known = retry.clone();
            self.commit(ops, known)
        });
        match committed {
            Ok(()) => {}
            Err(Error::NoSpace) if ops.len() > 1 => {
                *known = retry;
                ops.iter().for_each(|op| self.group(core::slice::from_ref(op), known));
            }
            Err(error) => {
                let answer = Answer::Failed(Failure::of_commit(&error));
                self.outcomes.extend(ops.iter().filter(|op| is_write(op)).map(|_| requests::outcome_of(&answer)));
                self.answers.extend(ops.iter().map(|_| answer.clone()));
            }
        }
    }

    fn commit(&mut self, ops: &[Op<'_>], known: &mut alloc::vec::IntoIter<u8>) -> Result<(), Error> {
        let mut stage = Stage::of(&self.open.db, &self.open.order, self.open);
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
        let written = stage.write(self.open, self.origin, &self.outcomes);
        match written {
            Ok(()) => self.answers.append(&mut answers),
            Err(_) => self.outcomes.truncate(before),
        }
        written
    }

    /// Ends a transaction, unless an earlier run of the request has: its commit says so in the same commit.
    fn end(&mut self, transaction: f64, known: Option<u8>) {
        let answer = match known {
            Some(outcome) => requests::answer_of(outcome),
            None => self.commit_transaction(transaction).map_or_else(Answer::Failed, |()| Answer::Written(1)),
        };
        self.outcomes.push(requests::outcome_of(&answer));
        self.answers.push(answer);
    }

    /// Carries a call of event streams out. An append notes in its own commit that it was carried out; of the others nothing changes if they come twice.
    #[cfg(feature = "full")]
    fn events(&mut self, call: &[u8], known: &mut alloc::vec::IntoIter<u8>) {
        let is_write = crate::events::is_write(call);
        let known = if is_write { known.next() } else { None };
        let note = |(client, number)| (client, requests::record(number, &[&*self.outcomes, &[1]].concat()));
        let answered = crate::events::run(self.open, call, self.origin.map(note), known);
        let answer = answered.map_or_else(Answer::Failed, Answer::Events);
        if is_write {
            self.outcomes.push(if matches!(answer, Answer::Events(_)) { 1 } else { requests::outcome_of(&answer) });
        }
        self.answers.push(answer);
    }

    fn commit_transaction(&self, number: f64) -> Result<(), Failure> {
        let Open { db, room, order, transactions, .. } = self.open;
        let mut transaction = transactions.take(number).ok_or_else(transactions::gone)?.into_inner();
        let mut written: Vec<(Vec<u8>, bool)> = Vec::new();
        // Cursors of events are in namespaces of their own.
        transaction.each_write(&mut |name, key, stores| {
            if !cfg!(feature = "full") || name.is_empty() {
                written.push((key.to_vec(), stores));
            }
        });
        if let Some((client, number)) = self.origin {
            let record = requests::record(number, &[&*self.outcomes, &[1]].concat());
            let namespace = requests::namespace(db).map_err(|error| Failure::of_commit(&error))?;
            transaction.insert_in(&namespace, client, record).map_err(|error| Failure::from(&error))?;
        }
        let committed = transaction.commit_by(|commit| room.with(db, &mut || commit().map(drop)));
        committed.map_err(|error| Failure::of_commit(&error))?;
        let writes: Vec<Write<'_>> = written.iter().map(|(key, stores)| (key.as_slice(), stores.then_some(&[][..]))).collect();
        order.apply(&writes);
        room.look_again();
        Ok(())
    }

    fn flush(&mut self) {
        let flushed = self.open.db.flush();
        for answer in &mut self.answers {
            match (&flushed, &answer) {
                (Ok(durability), Answer::Flushed(_)) => *answer = Answer::Flushed(*durability as u8),
                #[cfg(feature = "full")]
                (Err(error), Answer::Events(_)) => *answer = Answer::Failed(Failure::of_write(error)),
                (Err(error), Answer::Flushed(_) | Answer::Written(_)) => *answer = Answer::Failed(Failure::of_write(error)),
                _ => {}
            }
        }
    }
}

/// Writes that are not in the log yet, and the records that they will be written to.
struct Stage<'a> {
    records: &'a dyn Records,
    order: &'a Order,
    open: &'a Open,
    writes: Vec<Write<'a>>,
    /// How long some of them live, by their places in the list.
    ttls: Vec<(usize, Ttl)>,
    /// A record that is to live for ever. It is the only change of its commit.
    kept: Option<(&'a [u8], Vec<u8>)>,
    newest: Newest,
    /// Bytes of the values that were read.
    read: usize,
}

impl<'a> Stage<'a> {
    fn of(records: &'a dyn Records, order: &'a Order, open: &'a Open) -> Self {
        Self { records, order, open, writes: Vec::new(), ttls: Vec::new(), kept: None, newest: Newest::default(), read: 0 }
    }

    fn run(&mut self, op: &Op<'a>) -> Result<Answer, Failure> {
        Ok(match op {
            Op::Get(key) => {
                self.may_read()?;
                let value = self.get(key)?;
                self.read += value.as_ref().map_or(0, Vec::len);
                Answer::Value(value)
            }
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
            Op::WriteManyFor(writes) => {
                writes.iter().try_for_each(|(write, _)| check(write))?;
                writes.iter().for_each(|(write, ttl)| self.push(*write, *ttl));
                Answer::Written(0)
            }
            Op::Swap { key, expected, new, ttl } => {
                check(&(key, *new))?;
                let fits = self.get(key)?.as_deref() == *expected;
                if fits && (expected != new || *ttl != Ttl::Default) {
                    self.push((key, *new), *ttl);
                }
                Answer::Written(u8::from(fits))
            }
            Op::ExpiresAt(key) => {
                let expiry = self.records.expires_at(key).map_err(|error| Failure::from(&error))?;
                Answer::Value(expiry.map(|expiry| (expiry as f64).to_le_bytes().to_vec()))
            }
            Op::Keep(key) => {
                let expires = self.records.expires_at(key).map_err(|error| Failure::from(&error))?.is_some();
                self.kept = if expires { self.get(key)?.map(|value| (*key, value)) } else { None };
                Answer::Written(u8::from(self.kept.is_some()))
            }
            Op::GetMany(keys) => self.get_many(keys)?,
            Op::Page { from, values, prefix } => page(self.records, *from, *values, prefix)?,
            Op::Range(wanted) => range(self.records, self.order, *wanted)?,
            Op::Changes(asked) => Answer::Changes(self.open.followers.page(&self.open.db, &self.open.room, asked)?),
            Op::Flush => Answer::Flushed(0),
            Op::At(snapshot, op) => self.open.held.with(*snapshot, |held| self.read_in(&held.snapshot, &held.order, op))?,
            Op::In(transaction, op) => self.run_in(*transaction, op)?,
            // Never among others.
            Op::Commit(_) => Answer::Written(0),
            // Nor these outside of a transaction.
            #[cfg(feature = "full")]
            Op::Events(_) | Op::Savepoint(_) | Op::RollbackTo(_) => Answer::Written(0),
        })
    }

    fn run_in(&mut self, transaction: f64, op: &Op<'_>) -> Result<Answer, Failure> {
        self.open.transactions.with(transaction, |running| {
            let done = match op {
                Op::WriteManyFor(writes) => writes.iter().try_for_each(|(write, ttl)| running.write(*write, *ttl)).map(|()| 0),
                Op::Delete(key) => running.remove(key).map(u8::from),
                #[cfg(feature = "full")]
                Op::Savepoint(place) => Ok(running.savepoint(*place)),
                #[cfg(feature = "full")]
                Op::RollbackTo(place) => running.rollback_to(*place).map(|()| 0),
                #[cfg(feature = "full")]
                Op::Events(call) => return crate::events::run_in(self.open, running, call).map(Answer::Events),
                read => return self.read_in(running, &running.order, read),
            };
            done.map(Answer::Written).map_err(|error| Failure::from(&error))
        })
    }

    /// A read of other records than those of the store.
    fn read_in(&mut self, records: &dyn Records, order: &Order, op: &Op<'_>) -> Result<Answer, Failure> {
        let mut then = Stage { read: self.read, ..Stage::of(records, order, self.open) };
        let answer = then.run(op);
        self.read = then.read;
        answer
    }

    fn push(&mut self, write: Write<'a>, ttl: Ttl) {
        if ttl != Ttl::Default {
            self.ttls.push((self.writes.len(), ttl));
        }
        self.writes.push(write);
    }

    /// What the writes before say about a key: its new value, its removal (`Some(None)`), or nothing (`None`).
    fn staged(&mut self, key: &[u8]) -> Option<Option<&'a [u8]>> {
        self.newest.find(&self.writes, key).map(|(_, value)| *value)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self.staged(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.records.get(key).map_err(|error| (&error).into()),
        }
    }

    /// Reads a value for an answer with several; counts its bytes. The inner error is damage, which does not fail the answer.
    fn read(&mut self, key: &[u8]) -> Result<Result<Option<Vec<u8>>, Damage>, Failure> {
        self.may_read()?;
        let value = match self.staged(key) {
            Some(value) => value.map(<[u8]>::to_vec),
            None => match self.records.get(key) {
                Ok(value) => value,
                Err(error) => return Damage::of(error).map(Err).map_err(|error| (&error).into()),
            },
        };
        self.read += value.as_ref().map_or(0, Vec::len);
        Ok(Ok(value))
    }

    fn may_read(&self) -> Result<(), Failure> {
        let is_full = self.read > READ_BYTES_MAX;
        if is_full { Err(Failure::new(Code::Usage, "more than 128 MiB at once: ask for fewer keys")) } else { Ok(()) }
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Result<Answer, Failure> {
        let mut values = Vec::new();
        for key in keys {
            match self.read(key)? {
                Ok(value) => put_value(&mut values, value.as_deref()),
                Err(damage) => {
                    values.push(DAMAGED);
                    put_bytes(&mut values, key);
                    put_damage(&mut values, &damage);
                }
            }
        }
        Ok(Answer::Values { count: keys.len() as u32, values })
    }

    fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        match self.staged(key) {
            Some(value) => Ok(value.is_some()),
            None => self.records.has(key).map_err(|error| (&error).into()),
        }
    }

    /// Commits the gathered writes, and in the same commit the record that the request has been carried out.
    fn write(&self, open: &Open, origin: Option<([u8; 16], u64)>, outcomes: &[u8]) -> Result<(), Error> {
        if self.writes.is_empty() && self.kept.is_none() {
            return Ok(());
        }
        let (mut batch, mut ttls) = (open.db.batch(), self.ttls.iter());
        let mut next = ttls.next();
        for (place, (key, value)) in self.writes.iter().enumerate() {
            let ttl = next.filter(|(at, _)| *at == place).map(|(_, ttl)| *ttl);
            if ttl.is_some() {
                next = ttls.next();
            }
            batch = match value {
                Some(value) => batch.insert_with_ttl(*key, *value, ttl.unwrap_or_default()),
                None => batch.remove(*key),
            };
        }
        if let Some((key, value)) = &self.kept {
            batch = batch.insert_with_ttl(*key, value.as_slice(), Ttl::Never);
        }
        let written = match origin {
            None => batch.commit(),
            Some((client, number)) => {
                let record = requests::record(number, outcomes);
                requests::namespace(&open.db)
                    .and_then(|namespace| batch.insert_in(&namespace, client.as_slice(), &record).commit())
            }
        };
        // A full medium has room for removals, but not for the record that they were carried out: better twice than never.
        if matches!(written, Err(Error::NoSpace))
            && origin.is_some()
            && self.kept.is_none()
            && self.writes.iter().all(|(_, value)| value.is_none())
        {
            return self.write(open, None, outcomes);
        }
        if written.is_ok() {
            self.order.apply(&self.writes);
        }
        written
    }
}

/// Checks the lengths here, so that too long a key or value fails its operation, not the whole commit.
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

/// A page that is being put together.
struct Filling {
    values: bool,
    count: u32,
    bytes: Vec<u8>,
    damage: Vec<Damage>,
}

impl Filling {
    fn new(values: bool) -> Self {
        Self { values, count: 0, bytes: Vec::new(), damage: Vec::new() }
    }

    /// Adds a record; returns false when the page is full.
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        put_bytes(&mut self.bytes, key);
        if self.values {
            put_bytes(&mut self.bytes, value);
        }
        self.count += 1;
        self.bytes.len() < PAGE_BYTES
    }

    fn answer(self, next: f64) -> Answer {
        Answer::Page { next, count: self.count, records: self.bytes, damage: self.damage }
    }
}

/// A page ends at a damaged record, and the next one begins after it.
fn page(store: &dyn Records, from: Cursor, values: bool, prefix: &[u8]) -> Result<Answer, Failure> {
    let mut records = Filling::new(values);
    let next = match store.page(from, &mut |key, value| !key.starts_with(prefix) || records.put(key, value)) {
        Ok(next) => next,
        Err(error) => {
            let behind = error.next_page();
            records.damage.push(Damage::of(error).map_err(|error| Failure::from(&error))?);
            behind
        }
    };
    Ok(records.answer(next.map_or(-1.0, |next| next.to_bits() as f64)))
}

fn range(store: &dyn Records, order: &Order, range: Range<'_>) -> Result<Answer, Failure> {
    let (mut records, mut full) = (Filling::new(range.values), false);
    let walked = order.range(store, range, |found| {
        match found {
            Ok((key, value)) => full = !records.put(key, value),
            Err(damage) => records.damage.push(damage),
        }
        !full
    });
    walked.map_err(|error| Failure::from(&error))?;
    Ok(records.answer(if full { 0.0 } else { -1.0 }))
}
