//! Writing the records of consumers: their cursors, and the names that their history needs.

use super::commit::BatchOp;
use super::position::PositionState;
use crate::changes::Reader;
use crate::error::{Error, Result};
use crate::log::Purpose;
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::store::{CONSUMERS, CONSUMERS_NAMESPACE, NUMBERS, Registered, Store, encode_names};
use crate::ttl::Ttl;
use alloc::vec::Vec;

impl Store {
    /// Writes a consumer, after what it holds is safe. A cursor that has been moved further meanwhile stays.
    pub(super) fn register(&self, mut consumer: Registered) -> Result<()> {
        self.writable()?;
        self.may_wait_for_the_turn()?;
        let _one = self.acknowledging.lock();
        let before = self.consumers()?;
        let is_later = |known: &&Registered| {
            known.name == consumer.name
                && known.cursor.lsn > consumer.cursor.lsn
                && self.contains_position(known.cursor) != PositionState::Unknown
        };
        if let Some(later) = before.iter().find(is_later) {
            consumer.cursor = later.cursor;
        }
        let mut consumers = before.clone();
        consumers.retain(|other| other.name != consumer.name);
        consumers.push(consumer.clone());
        // First of all it counts for maintenance, which would let go of everything without it.
        self.change_consumers(|known| known.clone_from(&consumers));
        let written = self.hold_from(consumer.cursor).and_then(|()| self.write_consumer(&consumer, &consumers));
        if written.is_err() {
            self.change_consumers(|known| *known = before);
        }
        written?;
        self.engine.log.sync_to(self.engine.log.end()).map(drop)
    }

    /// Removes a consumer, on a full medium, too: first it holds nothing any more, which makes room. Its name stays among those of all until the
    /// next one is registered.
    pub(super) fn remove_consumer(&self, name: &str) -> Result<bool> {
        self.writable()?;
        self.may_wait_for_the_turn()?;
        let _one = self.acknowledging.lock();
        let before = self.consumers()?;
        let mut consumers = before.clone();
        consumers.retain(|other| other.name != name);
        if consumers.len() == before.len() {
            return Ok(false);
        }
        let is_last = consumers.is_empty();
        self.change_consumers(|known| *known = consumers);
        let own = Registered::key(name);
        let keys = [&own[..], CONSUMERS, NUMBERS];
        let removed = self.let_go().and_then(|()| self.remove_records(if is_last { &keys } else { &keys[..1] }));
        if removed.is_err() {
            self.change_consumers(|known| *known = before);
        }
        removed.map(|()| true)
    }

    /// Frees the history that no consumer holds any more.
    fn let_go(&self) -> Result<()> {
        let _turn = self.turn.lock();
        self.let_acknowledged_go()
    }

    /// Writes a consumer and the names of all as one commit.
    fn write_consumer(&self, consumer: &Registered, all: &[Registered]) -> Result<()> {
        let name = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        let (key, value, names) = (Registered::key(&consumer.name), consumer.value(), encode_names(all));
        let records = [(&key[..], &value[..]), (CONSUMERS, &names[..])];
        let ops = records.map(|(key, value)| BatchOp { name: &name, key, value: Some(value) });
        // Also where the store says that records expire.
        self.commit(&ops, &[(0, Ttl::Never), (1, Ttl::Never)], None).map(drop)
    }

    fn remove_records(&self, keys: &[&[u8]]) -> Result<()> {
        let name = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        let ops: Vec<BatchOp<'_>> = keys.iter().map(|key| BatchOp { name: &name, key, value: None }).collect();
        self.commit(&ops, &[], None).map(drop)
    }

    /// # Errors
    ///
    /// [`Error::UnknownPosition`] for a position at which no commit ends. One that is no longer kept is behind every cursor.
    pub(super) fn is_end_of_a_commit(&self, position: Position) -> Result<()> {
        match Reader::new(&self.engine, position) {
            Ok(_) | Err(Error::Compacted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn ack(&self, name: &str, position: Position) -> Result<()> {
        if self.contains_position(position) == PositionState::Unknown {
            return Err(Error::UnknownPosition);
        }
        self.may_wait_for_the_turn()?;
        let _one = self.acknowledging.lock();
        let known = self.consumers()?.into_iter().find(|known| known.name == name);
        let mut consumer = known.ok_or(Error::InvalidArgument("this consumer was removed; register it again"))?;
        if position.lsn <= consumer.cursor.lsn {
            return Ok(());
        }
        consumer.cursor = position;
        let moved = |consumers: &mut Vec<Registered>| {
            if let Some(known) = consumers.iter_mut().find(|known| known.name == name) {
                known.cursor = position;
            }
        };
        match self.write_cursor(&consumer) {
            Err(Error::NoSpace) => {
                self.write_cursor_into_the_reserve(&consumer)?;
                self.change_consumers(moved);
                self.let_go()
            }
            result => result.map(|()| self.change_consumers(moved)),
        }
    }

    fn write_cursor(&self, consumer: &Registered) -> Result<()> {
        if is(Bug::CursorNotWritten) {
            return Ok(());
        }
        let namespace = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        self.insert_for_ever(&namespace, &Registered::key(&consumer.name), &consumer.value(), &drop)
    }

    /// On a full medium: what is not kept for the consumer any more makes more room than this takes.
    fn write_cursor_into_the_reserve(&self, consumer: &Registered) -> Result<()> {
        let name = &self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        let (key, value) = (Registered::key(&consumer.name), consumer.value());
        let op = BatchOp { name, key: &key, value: Some(&value) };
        self.try_commit(&[op], &[(0, Ttl::Never)], None, Purpose::MakeSpace).map(drop)
    }

    /// Before a namespace is cleared or dropped: whoever reads history still needs the name of its records.
    pub(super) fn remember_number(&self, number: u32, name: &str) -> Result<()> {
        if self.engine.log.floor() == 0 || self.names.read().get(CONSUMERS_NAMESPACE).is_none() {
            return Ok(());
        }
        self.may_wait_for_the_turn()?;
        let _one = self.acknowledging.lock();
        let namespace = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        let value = self.numbers_with(number, name)?;
        match self.insert_for_ever(&namespace, NUMBERS, &value, &drop) {
            // Clearing works on a full medium, too: whoever reads its records later finds them compacted.
            Err(Error::NoSpace) => Ok(()),
            result => result,
        }
    }
}
