//! How much history is kept: what the consumers have not taken note of, within the limit of each.

use super::checkpoint::Extent;
use super::due::unless_full;
use crate::error::Result;
use crate::position::Position;
use crate::store::{Registered, Store};
use crate::sync::Ordering;

impl Store {
    /// Lets go of the history that no consumer holds any more. The caller holds the maintenance lock.
    pub(crate) fn settle_floor(&self) -> Result<()> {
        let log = &self.engine.log;
        if log.floor() == 0 && !log.floor_would_free(0) {
            return Ok(());
        }
        let (wanted, gives_up) = self.wanted_floor()?;
        if wanted.lsn == 0 || log.floor_would_free(wanted.lsn) {
            unless_full(log.set_floor((wanted.lsn, wanted.salt), gives_up))?;
        }
        Ok(())
    }

    /// To make room: raises the floor to what the consumers have acknowledged, even if nothing below is history yet, so that compaction frees it;
    /// and frees what is. The caller holds the maintenance lock.
    pub(crate) fn let_acknowledged_go(&self) -> Result<()> {
        let log = &self.engine.log;
        if log.floor() == 0 && !log.floor_would_free(0) {
            return Ok(());
        }
        let (wanted, gives_up) = self.wanted_floor()?;
        if wanted.lsn != 0 && !log.floor_would_let_go(wanted.lsn) {
            return Ok(());
        }
        unless_full(log.set_floor((wanted.lsn, wanted.salt), gives_up))?;
        log.sync_to(log.end())?;
        self.reclaim_noted();
        // Compacting what was held may make room now.
        self.dead_left.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// The floor that consumers need now, and whether one of them loses something by it.
    fn wanted_floor(&self) -> Result<(Position, bool)> {
        let log = &self.engine.log;
        let now = log.floor();
        let consumers = self.consumers()?;
        // No floor is at 0, which means that there is none.
        let is_kept = |consumer: &Registered| consumer.cursor.lsn.max(1) >= now;
        let holds = |consumer: &&Registered| is_kept(consumer) && !self.is_too_far_behind(consumer);
        let lowest = consumers.iter().filter(holds).map(|consumer| consumer.cursor).min_by_key(|cursor| cursor.lsn);
        let wanted = match lowest {
            // A record that was made by hand may name any position.
            Some(cursor) => Position::new(cursor.lsn.clamp(1, log.end().max(1)), cursor.salt),
            None if consumers.is_empty() => Position::START,
            // Nobody is within its limit: whoever comes back begins with what is written from now on.
            None => log.at_the_end(|end| Position::new(end.lsn, end.salt)),
        };
        Ok((wanted, consumers.iter().any(|consumer| is_kept(consumer) && !holds(&consumer))))
    }

    /// True when more has been written since its cursor than may be kept for it.
    pub(crate) fn is_too_far_behind(&self, consumer: &Registered) -> bool {
        self.engine.log.end().saturating_sub(consumer.cursor.lsn) > consumer.retain
    }

    /// Holds everything after the cursor of a new consumer. The caller holds no lock.
    pub(crate) fn hold_from(&self, cursor: Position) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        let log = &self.engine.log;
        let floor = log.floor();
        if floor == 0 || cursor.lsn < floor {
            log.set_floor((cursor.lsn.max(1), cursor.salt), false)?;
        }
        // What was retired before is kept so far only because somebody in this process reads it.
        if log.has_unrecorded_history() { self.write_checkpoint(Extent::Changes) } else { Ok(()) }
    }

    /// To make space: gives up all history. Whoever has not read it finds it compacted. False if there was none.
    pub(super) fn give_up_history(&self) -> Result<bool> {
        let log = &self.engine.log;
        let Some((lsn, salt)) = log.end_of_history() else { return Ok(false) };
        log.give_up_followed();
        if log.floor_would_free(lsn) {
            unless_full(log.set_floor((lsn, salt), true))?;
            log.sync_to(log.end())?;
        }
        Ok(true)
    }
}
