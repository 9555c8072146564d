//! Reading records in the order of their keys: a window of offsets at a time out of the ordered index, then the records.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Frame;
use crate::names::Name;
use crate::pins::Pin;
use crate::store::Store;
use alloc::vec::Vec;
use core::ops::Bound;

/// Records that are fetched at a time: from `GROUP_FIRST`, because many ranges are short, doubling up to `GROUP_MAX`.
pub(super) const GROUP_FIRST: usize = 4;
pub(super) const GROUP_MAX: usize = 32;
/// Offsets that are read from the index at a time, under one pin: fewer at first, because many ranges are short.
const WINDOW_FIRST: usize = 12;
const WINDOW: usize = 32;
/// Prefetch distance, in records.
const AHEAD: usize = 4;

/// Which end of a range is read first.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Rising,
    Falling,
}

pub(super) fn is_below(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

pub(super) fn is_above(key: &[u8], start: Bound<&[u8]>) -> bool {
    match start {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    }
}

/// Reads the offsets of the next records inside the bounds, at most `window`, after the key that was seen last.
fn read_window(
    engine: &Engine,
    number: u32,
    (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    order: Order,
    last: Option<&[u8]>,
    window: usize,
    offsets: &mut Vec<u64>,
) -> Result<()> {
    offsets.clear();
    let mut take = |offset: u64, inside: bool| {
        if inside {
            offsets.push(offset);
        }
        inside && offsets.len() < window
    };
    let last = last.map(Bound::Excluded);
    match order {
        Order::Rising => engine.walk_keys(number, last.unwrap_or(start), |key, offset| take(offset, is_below(key, end))),
        Order::Falling => engine.walk_keys_back(number, last.unwrap_or(end), |key, offset| take(offset, is_above(key, start))),
    }
}

impl Store {
    /// Hands the records inside the bounds to `each`, in the given order of their keys, until it returns `false`.
    pub(super) fn range_with(
        &self,
        name: &Name,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        order: Order,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.engine.has_order(name.number())?;
        if self.engine.log.follows() {
            return self.range_followed(name, bounds, order, &mut each);
        }
        let Some(number) = name.number() else { return Ok(()) };
        let log = &self.engine.log;
        let mut last: Option<Vec<u8>> = None;
        let mut group = GROUP_FIRST;
        let mut window = WINDOW_FIRST;
        let mut offsets: Vec<u64> = Vec::with_capacity(WINDOW);
        loop {
            // Pin before the offsets are read: they stay valid while the pin lives.
            let pin = self.engine.pin();
            read_window(&self.engine, number, bounds, order, last.as_deref(), window, &mut offsets)?;
            offsets.iter().take(AHEAD).for_each(|&offset| log.prefetch(offset));
            let mut told = 0;
            for (at, &offset) in offsets.iter().enumerate() {
                if at == told {
                    told = offsets.len().min(at + group);
                    group = (group * 2).min(GROUP_MAX);
                    log.will_read(offsets.get(at..told).unwrap_or_default());
                }
                if let Some(&ahead) = offsets.get(at + AHEAD) {
                    log.prefetch(ahead);
                }
                if !self.engine.is_certain(offset) {
                    if at + 1 == window {
                        last = Some(log.frame(offset)?.key().to_vec());
                    }
                    continue;
                }
                if let Some((key, value)) = log.plain(offset, log.verify_on_read) {
                    if at + 1 == told {
                        log.has_read(key.len() + value.len());
                    }
                    if at + 1 == window {
                        last = Some(key.to_vec());
                    }
                    if !each(key, value) {
                        return Ok(());
                    }
                    continue;
                }
                let frame = self.checked(offset).map_err(|error| self.named(log.or_fenced(error), number, offset))?;
                if at + 1 == window {
                    last = Some(frame.key().to_vec());
                }
                if self.engine.has_expired_now(&frame) {
                    continue;
                }
                let frame = self.engine.decoded(frame).map_err(|error| self.named(log.or_fenced(error), number, offset))?;
                if !each(frame.key(), frame.value()) {
                    return Ok(());
                }
            }
            if offsets.len() < window {
                return self.has_all_in_order(&pin, number);
            }
            window = WINDOW;
            drop(pin);
        }
    }

    /// Of a follower: the keys come from the order, and each record by its key.
    fn range_followed(
        &self,
        name: &Name,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
        order: Order,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let Some(number) = name.number() else { return Ok(()) };
            let mut keys: Vec<Vec<u8>> = Vec::with_capacity(WINDOW);
            let mut take = |key: &[u8], inside: bool| {
                if inside {
                    keys.push(key.to_vec());
                }
                inside && keys.len() < WINDOW
            };
            let rest = last.as_deref().map(Bound::Excluded);
            match order {
                Order::Rising => self.engine.walk_keys(number, rest.unwrap_or(start), |key, _| take(key, is_below(key, end))),
                Order::Falling => {
                    self.engine.walk_keys_back(number, rest.unwrap_or(end), |key, _| take(key, is_above(key, start)))
                }
            }?;
            let pin = self.engine.pin();
            for key in &keys {
                let frame = self.frame(&pin, name, key).map_err(|error| error.with_damaged_key(key))?;
                if frame.is_some_and(|frame| !each(key, frame.value())) {
                    return Ok(());
                }
            }
            if keys.len() < WINDOW {
                return self.has_all_in_order(&pin, number);
            }
            last = keys.pop();
        }
    }

    /// The record at an offset, verified unless the store is opened without.
    #[inline]
    fn checked(&self, offset: u64) -> Result<Frame<'_>> {
        let frame = self.engine.log.frame(offset)?;
        if self.engine.log.verify_on_read {
            frame.check()?;
        }
        Ok(frame)
    }

    /// Checks at the end of a range that no record of the namespace is missing from the order.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when there may be records of the namespace whose keys cannot be read.
    pub(super) fn has_all_in_order(&self, pin: &Pin<'_>, number: u32) -> Result<()> {
        // Copied, most often nothing: whoever fills it holds the shards.
        let nameless = self.engine.nameless.read().clone();
        for (shard, slot) in nameless {
            if self.engine.index.lock_shard(shard).has(self.engine.medium(), slot)?
                && !self.engine.is_of_another(pin, slot.offset(), number)?
            {
                self.engine.log.frame(slot.offset()).and_then(|frame| frame.check())?;
            }
        }
        self.engine.has_met_all()
    }

    /// Adds the key of the record to an error of damage. Rarely needed, so the ordered index is searched for the damaged offset.
    #[cold]
    pub(super) fn named(&self, error: Error, number: u32, damaged: u64) -> Error {
        let mut key = None;
        if matches!(error, Error::Corrupt { .. }) {
            // Without the order, or without all of it, the error has no key.
            let _ = self.engine.walk_keys(number, Bound::Unbounded, |other, offset| {
                if offset == damaged {
                    key = Some(other.to_vec());
                }
                offset != damaged
            });
        }
        match key {
            Some(key) => error.with_damaged_key(&key),
            None => error,
        }
    }
}
