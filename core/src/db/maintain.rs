//! What the store does unasked: checkpoints that bound the work of a reopen, and compaction of segments that are mostly dead. A thread
//! does it where there are threads, otherwise the write that finds it due.

use super::store::{FlushPolicy, Store};
use crate::checkpoint;
use crate::compact::{self, CompactProgress, CompactReport};
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::planted::{Bug, is};
use crate::sync::Ordering;
use alloc::vec::Vec;

/// A compaction that was asked for leaves segments alone of which less than one part in so many is dead.
const DEAD_SHARE_LEAST: u64 = 64;
/// Compaction that is held to a rate waits for so long at a time.
#[cfg(feature = "std")]
const PACE: core::time::Duration = core::time::Duration::from_millis(2);

impl Store {
    /// Makes a write durable, where the policy says so, and sees to what it has made due. A failure of that is no failure of the write.
    pub(super) fn after_write(&self) -> Result<()> {
        let end = self.engine.log.end();
        if self.policy.flush == FlushPolicy::WriteThrough {
            self.engine.log.sync_to(end)?;
        }
        let low = self.engine.log.space_low.load(Ordering::Relaxed);
        if !low && end < self.checkpoint_due.load(Ordering::Relaxed) && end < self.compaction_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        #[cfg(feature = "std")]
        if self.policy.background {
            self.background.wake();
            if end >= self.checkpoint_due.load(Ordering::Relaxed) {
                // As much again has been written since a checkpoint was begun: whoever writes so fast waits for it to end, for what a
                // reopen has to replay is bounded.
                drop(self.engine.checkpoints.lock());
            }
            return Ok(());
        }
        let _ = self.maintain();
        Ok(())
    }

    /// Does what is due. Returns at once when somebody else is at it.
    pub(super) fn maintain(&self) -> Result<()> {
        let Some(_maintenance) = self.maintenance.try_lock() else {
            return Ok(());
        };
        self.engine.build_all(|| self.is_closed())?;
        let log = &self.engine.log;
        self.checkpoint_if_due()?;
        if log.end() >= self.compaction_due.load(Ordering::Relaxed) {
            while !self.is_closed()
                && let Some(victim) = self.worst(self.policy.compact_dead_share)
            {
                self.compact_one(&victim, &mut self.pace())?;
            }
            self.compaction_due.store(log.end() + log.geometry.segment_size(), Ordering::Relaxed);
        }
        if log.space_low.load(Ordering::Relaxed) {
            self.free_a_segment()?;
        }
        self.engine.index.reclaim(&self.engine.pins);
        Ok(())
    }

    fn checkpoint_if_due(&self) -> Result<()> {
        let end = self.engine.log.end();
        if end < self.checkpoint_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Whatever comes of it, the next one is due only after as much again.
        self.checkpoint_due.store(end.saturating_add(self.policy.replay_debt_max), Ordering::Relaxed);
        checkpoint::write(&self.engine, &self.names)
    }

    /// Compacts until a segment is free again, or nothing that is dead can be got at: removals must go on when the medium is full,
    /// and every removal brings the moment nearer at which what still lives in some segment fits into the rest of the active one.
    fn free_a_segment(&self) -> Result<()> {
        self.engine.build_all(|| false)?;
        let log = &self.engine.log;
        let is_low = || log.tail.lock().space.backed_count() == 0;
        log.reclaim(&self.engine.pins);
        let mut may_checkpoint = log.replay_debt() > log.geometry.segment_size() / 2;
        while is_low() {
            match self.worst(f64::MIN_POSITIVE).map(|victim| self.compact_one(&victim, &mut |_| {})) {
                Some(Ok(_)) => {}
                None | Some(Err(Error::NoSpace)) if may_checkpoint => {
                    may_checkpoint = false;
                    checkpoint::write(&self.engine, &self.names)?;
                }
                None | Some(Err(Error::NoSpace)) => return Ok(()),
                Some(Err(error)) => return Err(error),
            }
        }
        log.space_low.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Runs a write; when there is no space for it, frees what only waits for a sync or for a reader to go, and runs it again.
    pub(super) fn with_reclaimed<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        match write() {
            // After a failed write nothing may be tried again, whatever it was that failed it.
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => {
                let log = &self.engine.log;
                log.sync_to(log.end())?;
                if log.reclaim(&self.engine.pins) == 0 {
                    return Err(Error::NoSpace);
                }
                write()
            }
            result => result,
        }
    }

    /// Runs a removal; when there is no space even for that, frees some and runs it again.
    pub(super) fn with_space<T>(&self, removal: impl Fn() -> Result<T>) -> Result<T> {
        match self.with_reclaimed(&removal) {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => {
                {
                    let _maintenance = self.maintenance.lock();
                    self.free_a_segment()?;
                }
                removal()
            }
            result => result,
        }
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        let _maintenance = self.maintenance.lock();
        self.writable()?;
        checkpoint::write(&self.engine, &self.names)
    }

    /// The segment with the largest share of dead bytes, if that is `share` or more.
    fn worst(&self, share: f64) -> Option<Segment> {
        let mut oldest = true;
        let mut worst: Option<(f64, Segment)> = None;
        for segment in compact::candidates(&self.engine) {
            let used = segment.end.saturating_sub(segment.first_frame(self.engine.log.geometry)).max(1);
            let dead = compact::dead_bytes(&self.engine, &segment, oldest) as f64 / used as f64;
            oldest = false;
            if dead >= share && worst.is_none_or(|(most, _)| dead > most) {
                worst = Some((dead, segment));
            }
        }
        worst.map(|(_, segment)| segment)
    }

    /// Holds compaction that nobody asked for to its rate; closing the store ends the wait, and so does a lack of space.
    #[cfg(feature = "std")]
    fn pace(&self) -> impl FnMut(u64) {
        use std::time::{Duration, Instant};
        let (rate, started) = (self.policy.compact_rate, Instant::now());
        move |copied| {
            let Some(due) = rate.map(|rate| Duration::from_secs_f64(copied as f64 / rate.max(1) as f64)) else { return };
            let hurry = || self.is_closed() || self.engine.log.space_low.load(Ordering::Relaxed);
            while started.elapsed() + PACE < due && !hurry() {
                std::thread::sleep(PACE);
            }
        }
    }

    /// Without threads somebody waits for it.
    #[cfg(not(feature = "std"))]
    fn pace(&self) -> impl FnMut(u64) {
        |_| {}
    }

    /// Compacts one segment and frees what can be freed by now.
    fn compact_one(&self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let mut report = compact::segment(&self.engine, segment, pace)?;
        let log = &self.engine.log;
        if !is(Bug::ReuseBeforeRetire) {
            log.sync_to(log.end())?;
        }
        report.bytes_freed += log.reclaim(&self.engine.pins);
        Ok(report)
    }

    pub(super) fn compact_step(&self) -> Result<Option<CompactReport>> {
        let _maintenance = self.maintenance.lock();
        self.writable()?;
        self.engine.build_all(|| false)?;
        let share = self.policy.compact_dead_share.clamp(0.01, 1.0);
        if self.worst(share).is_none() && self.engine.log.replay_debt() > self.engine.log.geometry.segment_size() {
            // What could be compacted may all lie behind the newest checkpoint.
            checkpoint::write(&self.engine, &self.names)?;
        }
        let Some(victim) = self.worst(share) else {
            return Ok(None);
        };
        self.compact_one(&victim, &mut |_| {}).map(Some)
    }

    /// All segments, the active one up to its last record.
    fn live_segments(&self) -> Vec<Segment> {
        let tail = self.engine.log.tail.lock();
        let position =
            |segment: &Segment| tail.active.filter(|active| active.segment.order == segment.order).map(|active| active.position);
        tail.segments.values().map(|segment| Segment { end: position(segment).unwrap_or(segment.end), ..*segment }).collect()
    }

    /// The first copies of a compaction went to the end of the file, for nothing was free yet: moves what stands behind free space
    /// into it, so that the file can be cut.
    fn move_to_the_front(&self, report: &mut CompactReport) -> Result<()> {
        let log = &self.engine.log;
        log.reclaim(&self.engine.pins);
        let used = {
            let tail = log.tail.lock();
            tail.space.total - tail.space.free_count()
        };
        // The copies need a segment to go to, and the snapshot changes its place with every checkpoint.
        let behind = |segment: &Segment| segment.extent > used;
        let misplaced = || log.tail.lock().segments.values().filter(|segment| behind(segment)).count();
        if misplaced() == 0 {
            return Ok(());
        }
        log.seal_active()?;
        checkpoint::write(&self.engine, &self.names)?;
        for segment in compact::candidates(&self.engine).into_iter().filter(behind) {
            report.add(self.compact_one(&segment, &mut |_| {})?);
        }
        checkpoint::write(&self.engine, &self.names)
    }

    pub(super) fn compact(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactReport> {
        let _maintenance = self.maintenance.lock();
        let log = &self.engine.log;
        self.writable()?;
        self.engine.build_all(|| false)?;
        let before = log.storage.len()?;
        log.sync_to(log.end())?;
        log.reclaim(&self.engine.pins);
        let is_worth_it = |segment: &Segment, oldest: bool| {
            let used = segment.end - segment.first_frame(log.geometry);
            let dead = compact::dead_bytes(&self.engine, segment, oldest);
            dead * DEAD_SHARE_LEAST > used && dead * 1024 > log.geometry.segment_size()
        };
        if !self.live_segments().iter().any(|segment| is_worth_it(segment, false)) {
            return Ok(CompactReport::default());
        }
        // A fresh segment, so that everything written so far may be compacted; not when there is hardly one left.
        if log.secure_free(2)? {
            log.seal_active()?;
        }
        checkpoint::write(&self.engine, &self.names)?;
        let mut segments = compact::candidates(&self.engine);
        let total = segments.len() as u64;
        let mut report = CompactReport::default();
        let mut oldest = true;
        let mut done = 0;
        while !segments.is_empty() {
            let mut put_off = Vec::new();
            let before = report.segments_retired;
            for segment in segments {
                progress(CompactProgress { segments_done: done, segments_total: total });
                if !is_worth_it(&segment, oldest) {
                    oldest = false;
                    done += 1;
                    continue;
                }
                self.checkpoint_if_due()?;
                match self.compact_one(&segment, &mut |_| {}) {
                    Ok(one) => {
                        report.add(one);
                        done += 1;
                    }
                    // What lives in it does not fit anywhere now: another one may make room.
                    Err(Error::NoSpace) => {
                        oldest = false;
                        put_off.push(segment);
                    }
                    Err(error) => return Err(error),
                }
            }
            if report.segments_retired == before && !put_off.is_empty() {
                if report.segments_retired == 0 {
                    return Err(Error::NoSpace);
                }
                break;
            }
            segments = put_off;
        }
        progress(CompactProgress { segments_done: total, segments_total: total });
        if report.segments_retired > 0 {
            // The list of segments without the retired ones, and a snapshot that points at the copies.
            checkpoint::write(&self.engine, &self.names)?;
            self.move_to_the_front(&mut report)?;
        }
        log.reclaim(&self.engine.pins);
        log.shrink()?;
        self.engine.index.reclaim(&self.engine.pins);
        report.bytes_freed = report.bytes_freed.max(before.saturating_sub(log.storage.len()?));
        Ok(report)
    }
}

#[cfg(feature = "std")]
pub(crate) use thread::Background;

#[cfg(feature = "std")]
mod thread {
    use super::Store;
    use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
    use std::thread::JoinHandle;

    /// The thread that maintains a store, and how to reach it.
    #[derive(Default)]
    pub(crate) struct Background {
        signal: Arc<Signal>,
        thread: Mutex<Option<JoinHandle<()>>>,
    }

    #[derive(Default)]
    struct Signal {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        due: bool,
        stop: bool,
    }

    impl Background {
        /// Starts the thread of `store`. If the host has no thread to give, the store goes on without: it only replays more when it
        /// is opened after a crash.
        pub(crate) fn start(store: &Arc<Store>) {
            let (weak, signal) = (Arc::downgrade(store), store.background.signal.clone());
            // What opening has left to be built.
            store.background.wake();
            let thread = std::thread::Builder::new().name("pipkin".into()).spawn(move || run(&weak, &signal));
            *store.background.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
        }

        /// Something is due.
        pub(crate) fn wake(&self) {
            let mut state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.due {
                state.due = true;
                self.signal.changed.notify_one();
            }
        }

        /// Ends the thread and waits for it.
        pub(crate) fn stop(&self) {
            self.signal.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
            self.signal.changed.notify_one();
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread
                && thread.thread().id() != std::thread::current().id()
            {
                let _ = thread.join();
            }
        }
    }

    fn run(store: &Weak<Store>, signal: &Signal) {
        loop {
            let mut state = signal.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.due && !state.stop {
                state = signal.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            state.due = false;
            drop(state);
            let Some(store) = store.upgrade() else { return };
            // An error has closed the store to writes, and the next write says so; or there is no space, and nothing is lost.
            let _ = store.maintain();
        }
    }
}
