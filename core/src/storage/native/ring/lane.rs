//! One ring with the memory that it reads into: what a thread has announced, until it is read.
//!
//! A slot in flight belongs to the kernel: nothing here touches its memory before its completion has been seen, and the memory is given back only
//! when nothing is in flight. Where that cannot be brought about, it is never given back.

use super::IoUring as Options;
use super::cached::Cached;
use super::epochs::Epochs;
use super::memory::Memory;
use super::range::copy;
use crate::storage::native::platform;
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Bytes of a slot for announced records, and of one for announced stretches of the file.
pub(super) const RECORD: u64 = 16 * 1024;
pub(super) const STRETCH: u64 = 128 * 1024;
/// Slots for stretches: two announcements of the engine, which are of a megabyte, and what their ends cut.
const STRETCHES: usize = 20;
/// Milliseconds without a request after which the kernel's thread sleeps.
const SQPOLL_IDLE_MS: u32 = 50;
/// Attempts to wait while the kernel has no memory for requests.
const ATTEMPTS_MAX: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    InFlight,
    Ready,
}

/// A copy of a range of the file.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    from: u64,
    /// Bytes asked for.
    asked: u64,
    /// Bytes that came.
    got: u64,
    /// [`Epochs::of`] the range before it was read.
    seen: u64,
    /// Number of the announcement.
    call: u32,
}

/// What is announced: it decides which slots are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Records,
    Stretches,
}

pub(super) struct Lane {
    ring: IoUring,
    memory: Memory,
    /// Those for records come first.
    slots: Vec<Slot>,
    records: usize,
    /// The slots to use next, of either kind.
    hands: [usize; 2],
    call: u32,
    in_flight: usize,
    registered: bool,
    /// The ring cannot be waited for. What is in flight stays there.
    is_broken: bool,
    forks: u32,
}

impl Lane {
    /// A ring that reads from `file`, which must stay open for as long as it. It shares the kernel's thread, if any, with the ring `first`.
    pub(super) fn new(options: Options, file: &File, first: Option<RawFd>) -> io::Result<Self> {
        let records = options.depth.clamp(*super::DEPTHS.start(), *super::DEPTHS.end()) as usize;
        let ring = build(options, (records + STRETCHES) as u32, first)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let memory = Memory::new(records * RECORD as usize + STRETCHES * STRETCH as usize)?;
        let of_records = memory.part(0, records * RECORD as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let part = libc::iovec { iov_base: of_records.cast(), iov_len: records * RECORD as usize };
        // SAFETY: the memory is mapped until this lane is dropped, and longer if the ring can still write to it.
        let registered = unsafe { ring.submitter().register_buffers(&[part]) }.is_ok();
        let empty = Slot { state: State::Empty, from: 0, asked: 0, got: 0, seen: 0, call: 0 };
        Ok(Self {
            ring,
            memory,
            slots: vec![empty; records + STRETCHES],
            records,
            hands: [0, records],
            call: 1,
            in_flight: 0,
            registered,
            is_broken: false,
            forks: platform::forks(),
        })
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Address and length of a slot's memory.
    fn place(&self, index: usize) -> Option<(*mut u8, u64)> {
        let (record, stretch) = (RECORD as usize, STRETCH as usize);
        match index.checked_sub(self.records) {
            None => Some((self.memory.part(index * record, record)?, RECORD)),
            Some(index) => Some((self.memory.part(self.records * record + index * stretch, stretch)?, STRETCH)),
        }
    }

    /// Reads the ranges into slots, without waiting: from the system's cache what is there, the rest in one submission. Ranges for which there
    /// is no slot are left to be read later.
    pub(super) fn announce(
        &mut self,
        what: What,
        ranges: impl Iterator<Item = (u64, u64)>,
        cached: (Cached<'_>, u64),
        epochs: &Epochs,
    ) -> bool {
        if self.is_broken {
            return false;
        }
        self.reap();
        self.call = self.call.wrapping_add(1);
        let mut asked = false;
        for (from, len) in ranges {
            if self.find(from, from.saturating_add(len), epochs).is_some() {
                continue;
            }
            let Some(index) = self.unused(what) else { break };
            asked |= self.fill(what, index, (from, len), cached, epochs).is_some();
        }
        if asked {
            self.submit();
        }
        asked
    }

    /// Fills a slot from the cache, or asks the ring to.
    fn fill(
        &mut self,
        what: What,
        index: usize,
        (from, len): (u64, u64),
        (cached, file_len): (Cached<'_>, u64),
        epochs: &Epochs,
    ) -> Option<()> {
        let (place, room) = self.place(index)?;
        let len = len.min(room);
        let seen = epochs.of(from, len);
        let mut slot = Slot { state: State::Ready, from, asked: len, got: 0, seen, call: self.call };
        match what {
            What::Records => {
                // SAFETY: the slot's own memory, initialised, and not in flight.
                let out = unsafe { core::slice::from_raw_parts_mut(place, len as usize) };
                slot.got = cached.read(file_len, from, out) as u64;
                if slot.got > 0 {
                    *self.slots.get_mut(index)? = slot;
                    return None;
                }
            }
            // Whoever reads it copies it from the cache.
            What::Stretches if cached.has(from, len.min(file_len.saturating_sub(from))) => return None,
            What::Stretches => {}
        }
        let file = types::Fixed(0);
        let read = if self.registered && what == What::Records {
            opcode::ReadFixed::new(file, place, len as u32, 0).offset(from).build()
        } else {
            opcode::Read::new(file, place, len as u32).offset(from).build()
        };
        // SAFETY: the slot's memory is left alone until the completion is seen, and outlives the ring's use of it; see `Drop`.
        unsafe { self.ring.submission().push(&read.user_data(index as u64)) }.ok()?;
        (slot.state, slot.got) = (State::InFlight, 0);
        *self.slots.get_mut(index)? = slot;
        self.in_flight += 1;
        Some(())
    }

    /// A slot that is neither in flight nor of the last two announcements, whose records are still to be read.
    fn unused(&mut self, what: What) -> Option<usize> {
        let (which, slots) = match what {
            What::Records => (0, 0..self.records),
            What::Stretches => (1, self.records..self.slots.len()),
        };
        let hand = self.hands.get_mut(which)?;
        for _ in slots.clone() {
            let index = *hand;
            *hand = if index + 1 < slots.end { index + 1 } else { slots.start };
            let slot = self.slots.get(index)?;
            let is_wanted = slot.state != State::Empty && self.call.wrapping_sub(slot.call) <= 1;
            if slot.state != State::InFlight && !is_wanted {
                return Some(index);
            }
        }
        None
    }

    /// A slot with the byte at `from`, and what comes up to `end` as far as it is asked for in one piece.
    fn find(&self, from: u64, end: u64, epochs: &Epochs) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let len = if slot.state == State::Ready { slot.got } else { slot.asked };
            slot.state != State::Empty
                && slot.from <= from
                && end <= slot.from + len
                && epochs.of(slot.from, slot.asked) == slot.seen
        })
    }

    /// Copies what has been announced from `offset` on, and waits for it where it is on its way. Returns how many bytes that were.
    pub(super) fn take(&mut self, offset: u64, out: &mut [u8], epochs: &Epochs) -> usize {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let Some(index) = self.find(at, at + 1, epochs) else { break };
            let copied = if self.finish(index) { self.copy(index, at, rest) } else { 0 };
            self.release(index, at + copied as u64);
            if copied == 0 {
                break;
            }
            done += copied;
        }
        done
    }

    fn copy(&self, index: usize, at: u64, out: &mut [u8]) -> usize {
        let (Some(slot), Some((place, _))) = (self.slots.get(index), self.place(index)) else { return 0 };
        let (inside, len) = ((at - slot.from) as usize, slot.got as usize);
        if slot.state != State::Ready {
            return 0;
        }
        // SAFETY: the slot's own memory, initialised; it is not in flight, and nothing writes to it while this lane is borrowed.
        let bytes = unsafe { core::slice::from_raw_parts(place, len) };
        bytes.get(inside..).map_or(0, |rest| copy(rest, out))
    }

    /// Notes that a stretch was read to its end, front to back: its slot may be used again. Until it is, compaction reads its records there once
    /// more.
    fn release(&mut self, index: usize, end: u64) {
        if let Some(slot) = self.slots.get_mut(index).filter(|slot| index >= self.records && end >= slot.from + slot.got) {
            slot.call = self.call.wrapping_sub(2);
        }
    }

    /// Waits until a slot is not in flight. False if it never will be.
    fn finish(&mut self, index: usize) -> bool {
        while self.slots.get(index).is_some_and(|slot| slot.state == State::InFlight) {
            if !self.wait() {
                return false;
            }
        }
        true
    }

    /// Waits for a completion. False if that cannot be done.
    fn wait(&mut self) -> bool {
        self.reap();
        let before = self.in_flight;
        let mut attempts = 0;
        while before > 0 && self.in_flight == before && !self.is_broken {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_busy(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    std::thread::yield_now();
                }
                Err(_) => self.is_broken = true,
            }
            self.reap();
        }
        !self.is_broken
    }

    /// Hands what was pushed to the kernel. What it does not take now stays in the queue until somebody waits.
    fn submit(&mut self) {
        while let Err(error) = self.ring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                self.is_broken |= !is_busy(&error);
                return;
            }
        }
    }

    /// Notes which reads have ended. One that has failed leaves its slot empty: whoever wants the bytes reads again and gets the error.
    fn reap(&mut self) {
        for done in self.ring.completion() {
            let Some(slot) = self.slots.get_mut(done.user_data() as usize) else { continue };
            slot.got = u64::try_from(done.result()).unwrap_or(0).min(slot.asked);
            slot.state = if slot.got > 0 { State::Ready } else { State::Empty };
            self.in_flight -= 1;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // In a forked child the memory is not there, and what is in flight is the parent's.
        let is_forked = platform::forks() != self.forks;
        while !is_forked && self.in_flight > 0 && self.wait() {}
        if is_forked || self.in_flight > 0 {
            return self.memory.leak();
        }
        // Else the kernel would do so some time after the ring is closed, and the file's file system would be busy until then.
        let (files, buffers) = (self.ring.submitter().unregister_files(), self.ring.submitter().unregister_buffers());
        // What fails is undone when the ring is closed.
        let _ = (files, buffers);
    }
}

fn is_busy(error: &io::Error) -> bool {
    [Some(libc::EAGAIN), Some(libc::EBUSY)].contains(&error.raw_os_error())
}

fn build(options: Options, entries: u32, first: Option<RawFd>) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    if options.sqpoll {
        builder.setup_sqpoll(SQPOLL_IDLE_MS);
        if let Some(first) = first {
            builder.setup_attach_wq(first);
        }
        return builder.build(entries);
    }
    // Kernels before 5.19 do not know the flag.
    builder.setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))
}
