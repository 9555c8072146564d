//! `insert`, `remove` and the conditional writes of one key: append to the log, then publish in the index, both while the key's
//! shard is held, so that per key the order of the log is the order of the index.

use super::store::{Store, check_key, check_value};
use crate::engine::FullKey;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::ShardGuard;
use crate::log::{Frame, Placed, Purpose};
use crate::names::Name;
use crate::nested::Held;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// A key whose other writers wait.
struct LockedKey<'a, 'k> {
    key: FullKey<'k>,
    shard: ShardGuard<'a>,
}

impl Store {
    /// Locks the shard of a key, under the number that its namespace has at that moment.
    fn lock_key<'k>(&self, name: &Name, key: &'k [u8]) -> Result<LockedKey<'_, 'k>> {
        loop {
            let number = name.number().ok_or_else(|| Error::NamespaceDropped)?;
            let key = self.engine.full_key(number, key);
            let shard = self.engine.lock(key.hash)?;
            // Clearing gives out a new number while it holds all shards.
            if name.number() == Some(number) {
                return Ok(LockedKey { key, shard });
            }
        }
    }

    pub(super) fn insert(&self, name: &Name, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.with_reclaimed(|| self.try_insert(name, key, value))?;
        self.after_write()
    }

    fn try_insert(&self, name: &Name, key: &[u8], value: &[u8]) -> Result<()> {
        let mut locked = self.lock_key(name, key)?;
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        self.put(&mut locked, value, old)
    }

    pub(super) fn remove(&self, name: &Name, key: &[u8]) -> Result<bool> {
        check_key(key)?;
        self.writable()?;
        self.with_space(|| self.try_remove(name, key))
    }

    fn try_remove(&self, name: &Name, key: &[u8]) -> Result<bool> {
        let mut locked = self.lock_key(name, key)?;
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        if old.is_none() && !self.engine.may_be_there(locked.key.hash) {
            return Ok(false);
        }
        self.bury_key(&mut locked, old)?;
        drop(locked);
        self.after_write()?;
        Ok(true)
    }

    pub(super) fn compare_and_swap(&self, name: &Name, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        check_value(new.unwrap_or_default())?;
        let mut swapped = false;
        self.change(name, key, &mut |old| {
            swapped = old.map(Frame::value) == expected;
            if swapped { Change::To(new.map(<[u8]>::to_vec)) } else { Change::None }
        })?;
        Ok(swapped)
    }

    pub(super) fn update(&self, name: &Name, key: &[u8], new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        let mut new = Some(new);
        self.change(name, key, &mut |old| {
            let _inside = self.engine.inside(Held::Shard);
            Change::To(new.take().and_then(|new| new(old.map(Frame::value))))
        })
    }

    pub(super) fn try_update<E>(
        &self,
        name: &Name,
        key: &[u8],
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Result<(), E>> {
        let (mut new, mut refused) = (Some(new), Ok(()));
        self.change(name, key, &mut |old| {
            let _inside = self.engine.inside(Held::Shard);
            match new.take().map(|new| new(old.map(Frame::value))) {
                Some(Ok(value)) => Change::To(value),
                Some(Err(error)) => {
                    refused = Err(error);
                    Change::None
                }
                None => Change::None,
            }
        })?;
        Ok(refused)
    }

    /// Reads a key, decides, and writes it, with no other writer of the key in between.
    pub(super) fn change(&self, name: &Name, key: &[u8], decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change) -> Result<()> {
        check_key(key)?;
        self.writable()?;
        // `decide` runs once, and no space can be made while the key is held.
        self.make_space()?;
        self.change_locked(name, key, decide)
    }

    fn change_locked(&self, name: &Name, key: &[u8], decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change) -> Result<()> {
        let mut locked = self.lock_key(name, key)?;
        let frame = self.engine.frame_locked(&locked.shard, locked.key)?;
        if let Some(frame) = &frame {
            frame.check()?;
            frame.is_readable()?;
        }
        let old = frame.as_ref().map(|frame| Placed { offset: frame.offset, len: frame.header.frame_len() as u64 });
        match (decide(frame.as_ref()), old) {
            (Change::To(Some(value)), old) => {
                check_value(&value)?;
                self.put(&mut locked, &value, old)?;
            }
            (Change::To(None), Some(old)) => self.bury_key(&mut locked, Some(old))?,
            (Change::To(None), None) | (Change::None, _) => return Ok(()),
        }
        drop(locked);
        self.after_write()
    }

    fn put(&self, locked: &mut LockedKey<'_, '_>, value: &[u8], old: Option<Placed>) -> Result<()> {
        let FullKey { namespace, key, .. } = locked.key;
        let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(namespace), key, value };
        let new = match self.engine.log.append_one(&spec, Purpose::Store) {
            Err(error) if is(Bug::IndexBeforeAppend) => {
                if let Some(old) = old {
                    self.engine.publish_remove(&mut locked.shard, locked.key, Some(old), old);
                }
                return Err(error);
            }
            result => result?,
        };
        self.engine.publish_put(&mut locked.shard, locked.key, old, new);
        Ok(())
    }

    /// Appends a record with all that it carries beside key and value, under the number that `name` has here.
    #[cfg(feature = "salvage")]
    pub(super) fn insert_whole(&self, name: &Name, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.with_reclaimed(|| self.try_insert_whole(name, kind, meta, key, value))?;
        self.after_write()
    }

    #[cfg(feature = "salvage")]
    fn try_insert_whole(&self, name: &Name, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut locked = self.lock_key(name, key)?;
        let meta = meta.with_namespace(locked.key.namespace);
        let spec = FrameSpec { kind, continues: false, meta, key, value };
        let log = &self.engine.log;
        if kind.is_carried() {
            let placed = log.append_one(&spec, Purpose::Store)?;
            log.ledger.change_live(log.geometry.extent_of(placed.offset), placed.len as i64, false);
            let mut tail = log.tail.lock();
            tail.next_event = tail.next_event.max(crate::frame::event_number(value) + 1);
            return Ok(());
        }
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        let new = log.append_one(&spec, Purpose::Store)?;
        self.engine.publish_put(&mut locked.shard, locked.key, old, new);
        Ok(())
    }

    fn bury_key(&self, locked: &mut LockedKey<'_, '_>, old: Option<Placed>) -> Result<()> {
        let FullKey { namespace, key, .. } = locked.key;
        let spec = FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::plain(namespace), key, value: &[] };
        let placed = self.engine.log.append_one(&spec, Purpose::MakeSpace)?;
        self.engine.publish_remove(&mut locked.shard, locked.key, old, placed);
        Ok(())
    }
}

/// What a conditional write decided.
pub(super) enum Change {
    None,
    /// The new value; `None` removes the key.
    To(Option<Vec<u8>>),
}
