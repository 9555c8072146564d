//! Writing the records of consumers: their cursors, and the names that their history needs.

use super::commit::BatchOp;
use super::position::PositionState;
use crate::changes::Reader;
use crate::error::{Error, Result};
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
        let record = (&Registered::key(&consumer.name)[..], Some(&consumer.value()[..]));
        let written = self.hold_from(consumer.cursor).and_then(|()| self.write_consumers(&[record], &consumers));
        if written.is_err() {
            self.change_consumers(|known| *known = before);
        }
        written?;
        self.engine.log.sync_to(self.engine.log.end()).map(drop)
    }

    pub(super) fn remove_consumer(&self, name: &str) -> Result<bool> {
        self.writable()?;
        {
            let _one = self.acknowledging.lock();
            let mut consumers = self.consumers()?;
            let before = consumers.len();
            consumers.retain(|other| other.name != name);
            if consumers.len() == before {
                return Ok(false);
            }
            let key = Registered::key(name);
            let numbers = (NUMBERS, None);
            let records = [(&key[..], None), numbers];
            self.write_consumers(if consumers.is_empty() { &records } else { &records[..1] }, &consumers)?;
            self.change_consumers(|known| *known = consumers);
        }
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.settle_floor()?;
        Ok(true)
    }

    /// Writes records of the system namespace and the names of all consumers, as one commit.
    fn write_consumers(&self, records: &[(&[u8], Option<&[u8]>)], consumers: &[Registered]) -> Result<()> {
        let name = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        let names = encode_names(consumers);
        let all = records.iter().copied().chain([(CONSUMERS, Some(&names[..]))]);
        let ops: Vec<BatchOp<'_>> = all.map(|(key, value)| BatchOp { name: &name, key, value }).collect();
        // Also where the store says that records expire.
        let ttls: Vec<(usize, Ttl)> = (0..ops.len()).map(|place| (place, Ttl::Never)).collect();
        self.commit(&ops, &ttls, None).map(drop)
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
        let namespace = self.make_namespace(CONSUMERS_NAMESPACE, &[])?;
        self.insert_for_ever(&namespace, &Registered::key(name), &consumer.value(), &drop)?;
        self.change_consumers(|known| {
            if let Some(known) = known.iter_mut().find(|known| known.name == name) {
                known.cursor = position;
            }
        });
        Ok(())
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
