//! Reading ahead: while one thread copies the records of a segment, another one reads and verifies them, and leaves out most of those that do
//! not count any more. It takes no lock of the index and writes nothing, so the order of locks and of writes is the same as without it.
//!
//! Together with copies in groups it takes 0.75 of the time: 1 M records of 24 + 150 bytes loaded, half of them removed, `compact()`: 287 ns a
//! record (two processors, ext4, medians of 10 alternations with the version before, quiet machine).

use super::sift::{Prior, Record};
use crate::engine::Engine;
use crate::error::Result;
use crate::log::Segment;
use crate::scan::Damage;
use alloc::vec::Vec;

#[cfg(feature = "std")]
pub(super) use imp::is_of_use;
#[cfg(feature = "ordered")]
pub(super) use imp::moves_beside;
pub(super) use imp::sift;

#[cfg(all(feature = "std", not(shuttle)))]
mod imp {
    use super::super::sift::{Sieve, Sifted, TOGETHER_BYTES, whole};
    use super::{Damage, Engine, Prior, Record, Result, Segment, Vec};
    use crate::error::Error;
    use crate::planted::{Bug, is};
    use crate::scan::{Found, scan};
    use std::sync::mpsc::{SyncSender, sync_channel};
    use std::thread;

    /// Parcels of records that may wait for the thread that copies. Where nothing can be mapped, each may have a copy of a long record.
    const WAITING_MAX: usize = 4;
    /// Most records of a parcel, and the bytes that end one, dead records included: the thread that copies is woken once for each parcel.
    const PARCEL: (usize, usize) = (512, 2 * TOGETHER_BYTES);
    /// Most records that are copied together. Writers of their shards wait meanwhile.
    const TOGETHER: usize = 256;

    /// True when there is a processor for another thread.
    pub(in super::super) fn is_of_use() -> bool {
        thread::available_parallelism().is_ok_and(|count| count.get() > 1)
    }

    /// Calls `copy` with the records of a segment, group after group, and returns its damage. `None` if nothing has been done: call it
    /// without another thread then.
    pub(in super::super) fn sift(
        engine: &Engine,
        segment: &Segment,
        prior: Prior<'_>,
        wanted: bool,
        copy: &mut dyn FnMut(&[Record<'_>]) -> Result<()>,
    ) -> Result<Option<Vec<Damage>>> {
        if !wanted || is(Bug::CompactUnchecked) {
            return Ok(None);
        }
        thread::scope(|scope| {
            let (sender, parcels) = sync_channel(WAITING_MAX);
            let reader = thread::Builder::new().name("pipkin-reader".into());
            let Ok(reader) = reader.spawn_scoped(scope, move || read(engine, segment, prior, &sender)) else {
                return Ok(None);
            };
            let copied = parcels.iter().try_for_each(|parcel: Sifted<'_>| copy_parcel(&parcel, copy));
            // After a failure the reader finds nobody to send to, and ends.
            drop(parcels);
            let read = reader.join().unwrap_or(Err(Error::Bug("the thread that reads ahead has panicked")));
            copied.and(read).map(Some)
        })
    }

    /// Calls `copy` with the groups of a parcel.
    fn copy_parcel(mut records: &[Record<'_>], copy: &mut dyn FnMut(&[Record<'_>]) -> Result<()>) -> Result<()> {
        while !records.is_empty() {
            let mut bytes = 0;
            let is_last = |(_, frame): &Record<'_>| {
                bytes += frame.header.frame_len();
                bytes >= TOGETHER_BYTES
            };
            let most = TOGETHER.min(records.len());
            let (group, others) = records.split_at(records.iter().take(most).position(is_last).map_or(most, |place| place + 1));
            copy(group)?;
            records = others;
        }
        Ok(())
    }

    /// Calls `sync`, and meanwhile has another thread tell the ordered index what was copied: one waits for the device, the other for memory.
    #[cfg(feature = "ordered")]
    pub(in super::super) fn moves_beside(engine: &Engine, wanted: bool, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        thread::scope(|scope| {
            let other = if wanted && engine.keeps_order() {
                thread::Builder::new().name("pipkin-order".into()).spawn_scoped(scope, || engine.make_moves()).ok()
            } else {
                None
            };
            let synced = sync();
            if let Some(other) = other {
                other.join().map_err(|_| Error::Bug("the thread that makes the moves of the ordered index has panicked"))?;
            }
            // Those that no other thread has made.
            engine.make_moves();
            synced
        })
    }

    fn read<'a>(
        engine: &'a Engine,
        segment: &Segment,
        prior: Prior<'a>,
        parcels: &SyncSender<Sifted<'a>>,
    ) -> Result<Vec<Damage>> {
        // Starting the transfer of what was copied before takes as long as copying a tenth of it.
        engine.log.write_behind();
        let send = |parcel: Sifted<'a>| match parcels.send(parcel) {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::Bug("the thread that copies has ended early")),
        };
        let mut sieve = Sieve::new(engine, prior, PARCEL);
        let mut damage = Vec::new();
        scan(&*engine.log.storage, whole(engine, segment), &mut |found| match found {
            Found::Frame { offset, header } => {
                if sieve.add(offset, &header)? {
                    send(sieve.sift())
                } else {
                    Ok(())
                }
            }
            Found::Damage(place) => {
                damage.push(place);
                Ok(())
            }
        })?;
        send(sieve.sift())?;
        Ok(damage)
    }
}

#[cfg(not(all(feature = "std", not(shuttle))))]
mod imp {
    use super::{Damage, Engine, Prior, Record, Result, Segment, Vec};

    #[cfg(feature = "std")]
    pub(in super::super) const fn is_of_use() -> bool {
        false
    }

    /// Does one behind the other.
    #[cfg(feature = "ordered")]
    pub(in super::super) fn moves_beside(engine: &Engine, _wanted: bool, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        engine.make_moves();
        sync()
    }

    /// Does nothing.
    pub(in super::super) fn sift(
        _engine: &Engine,
        _segment: &Segment,
        _prior: Prior<'_>,
        _wanted: bool,
        _copy: &mut dyn FnMut(&[Record<'_>]) -> Result<()>,
    ) -> Result<Option<Vec<Damage>>> {
        Ok(None)
    }
}
