//! Building the index of events when it is first needed: from the index snapshot and the log behind it, or from all of the log.

use super::places::{GONE, Places, from_parts};
use super::{Chain, EventIndex, State};
use crate::error::{Error, Result};
use crate::frame::event_number;
use crate::log::{Log, Placed, Window};
use crate::planted::{Bug, is};
use crate::scan::{Found, Stretch, scan};
use crate::snapshot::{EventParts, PartPlace, Reader, read_part};
use alloc::vec::Vec;

impl EventIndex {
    /// An event that was appended behind the index snapshot, or moved there. Called while opening, in log order.
    pub(crate) fn found_behind_snapshot(&self, offset: u64) {
        self.tail.lock().push(offset);
    }

    /// Builds the index, unless it is there. `parts` are those of the index snapshot, if there is one; what `is_stale` has at these offsets was
    /// retired since. `replayed`: the whole log was replayed at opening, so every copy of an event counts as live so far. The caller holds a pin.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub(crate) fn load(
        &self,
        log: &Log,
        seed: u64,
        parts: Option<&EventParts>,
        is_stale: &dyn Fn(u64) -> bool,
        replayed: bool,
    ) -> Result<()> {
        if self.is_loaded() {
            return Ok(());
        }
        let _one = self.lock();
        if self.is_loaded() {
            return Ok(());
        }
        let loaded = match parts {
            Some(parts) => Self::from_parts(log, parts, is_stale),
            None => Err(Error::Bug("no index snapshot")),
        };
        let mut state = match loaded {
            Ok(state) => state,
            // A snapshot without events, or a damaged one, costs time only.
            Err(Error::Bug(_) | Error::Corrupt { .. }) => Self::from_log(log, replayed)?,
            Err(error) => return Err(error),
        };
        let mut window = Window::new(&*log.storage, log.storage.len()?);
        for offset in core::mem::take(&mut *self.tail.lock()) {
            let (number, placed) = event_at(log, &mut window, offset)?;
            Self::replace(&mut state, log, number, placed)?;
        }
        let (from, last) = (state.last, log.next_event().saturating_sub(1));
        *self.state.write() = state;
        let mut number = from + 1;
        while number <= last && !(from > 0 && is(Bug::ChainsEndAtSnapshot)) {
            let next = {
                let mut state = self.state.write();
                let next = state.places.next_from(number).filter(|&next| next <= last);
                if let Some(offset) = state.damage.filter(|_| next != Some(number)) {
                    state.unread = (next.map_or(last, |next| next - 1), offset);
                }
                next
            };
            let Some(next) = next else { break };
            self.count(log, seed, next)?;
            number = next + 1;
        }
        self.state.write().last = last;
        self.is_loaded.store(true, super::Ordering::Release);
        Ok(())
    }

    /// Makes an event the newest of its chains.
    fn count(&self, log: &Log, seed: u64, number: u64) -> Result<()> {
        let stored = match self.by_number(log, number) {
            Ok(Some(stored)) => stored,
            // What is damaged answers `Corrupt` when it is read; those behind it are reached by their numbers.
            Err(Error::Corrupt { offset, .. }) => {
                self.state.write().unread = (number, offset);
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Ok(event) = stored.event() else { return Ok(()) };
        let mut state = self.state.write();
        for (chain, before) in Chain::all(stored.stream(), &event) {
            state.heads.set(chain.hash(seed, stored.namespace()), before, number);
        }
        Ok(())
    }

    /// Enters an event that salvage has appended with the number that it had. The caller holds a pin.
    #[cfg(feature = "salvage")]
    pub(crate) fn enter(&self, log: &Log, seed: u64, number: u64, placed: Placed) -> Result<()> {
        self.moved(log, &[(number, placed)]);
        self.count(log, seed, number)?;
        let mut state = self.state.write();
        state.last = state.last.max(number);
        Ok(())
    }

    /// An event stands at `placed`. Where it stood before, it counts no more.
    fn replace(state: &mut State, log: &Log, number: u64, placed: Placed) -> Result<()> {
        let old = state.places.anchor_of(number).map(|anchor| Self::search(log, anchor, number));
        match old {
            Some(Ok(Some(old))) if old.frame().offset != placed.offset => {
                let (old, len) = (old.frame().offset, old.frame().header.frame_len());
                log.segment_stats.change_live(log.geometry.extent_of(old), -(len as i64), false);
            }
            Some(Err(error)) if !matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. }) => return Err(error),
            _ => {}
        }
        super::put(&mut state.places, log, number, placed);
        Ok(())
    }

    fn from_log(log: &Log, replayed: bool) -> Result<State> {
        let mut state = State::default();
        for segment in log.segments() {
            let stretch = Stretch { salt: segment.salt, from: segment.first_frame(log.geometry), to: segment.end, full: true };
            let mut window = Window::new(&*log.storage, segment.end);
            scan(&*log.storage, stretch, &mut |found| {
                match found {
                    Found::Frame { offset, header } if header.kind.is_carried() => {
                        let (number, placed) = event_at(log, &mut window, offset)?;
                        if replayed {
                            return Self::replace(&mut state, log, number, placed);
                        }
                        super::put(&mut state.places, log, number, placed);
                    }
                    Found::Frame { .. } => {}
                    Found::Damage(damage) => state.damage = Some(damage.offset),
                }
                Ok(())
            })?;
        }
        Ok(state)
    }

    fn from_parts(log: &Log, parts: &EventParts, is_stale: &dyn Fn(u64) -> bool) -> Result<State> {
        let mut state = State::default();
        for &(index, place) in &parts.chunks {
            let bytes = read_part(&*log.storage, place)?;
            decode_chunk(&bytes, &mut state.places, index, is_stale).ok_or_else(|| damaged(place))?;
        }
        let mut before = 0_u64;
        for &place in &parts.heads {
            let bytes = read_part(&*log.storage, place)?;
            let mut reader = Reader(&bytes);
            while !reader.0.is_empty() {
                let entry = reader.number(8).filter(|&entry| entry > before).ok_or_else(|| damaged(place))?;
                state.heads.insert_entry(entry);
                before = entry;
            }
        }
        state.last = parts.last;
        Ok(state)
    }
}

fn damaged(place: PartPlace) -> Error {
    Error::corrupt(place.offset, "a part of the index snapshot")
}

/// The number of the event at this offset, not verified, and its place.
pub(super) fn event_at(log: &Log, window: &mut Window<'_>, offset: u64) -> Result<(u64, Placed)> {
    let header = window.header(offset)?;
    let placed = Placed { offset, len: header.frame_len() as u64 };
    if header.is_sealed() {
        return Ok((event_number(log.frame(offset)?.value()), placed));
    }
    let value = offset + (header.header_len() + header.key_len()) as u64;
    Ok((event_number(window.bytes(value, crate::frame::EVENT_NUMBER_LEN)?), placed))
}

fn decode_chunk(bytes: &[u8], places: &mut Places, index: usize, is_stale: &dyn Fn(u64) -> bool) -> Option<()> {
    let mut reader = Reader(bytes);
    let last = reader.long()?;
    let (mut anchors, mut number) = (Vec::new(), None);
    while !reader.0.is_empty() {
        let step = reader.long()?;
        let next: u64 = number.map_or(Some(step), |number: u64| number.checked_add(step).filter(|_| step > 0))?;
        let offset = reader.number(6)?;
        // What was not only a stub has moved, and the log behind the snapshot says where to.
        anchors.push(from_parts(next, if is_stale(offset) { GONE } else { offset })?);
        number = Some(next);
    }
    places.load(index, anchors, last);
    Some(())
}
