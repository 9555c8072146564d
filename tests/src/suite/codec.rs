//! Codec exhaustion: every bit of a golden segment is flipped and every truncation of it opened, in a store that was closed
//! and in one that was killed. Right answers or an honest error; never a wrong value, a missing record, a panic.

use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Player, Setup};
use crate::model::State;
use crate::parallel::{Failure, Outcome, for_each, guard, threads};
use crate::quota::Quota;
use crate::rng::derive;
use crate::suite::rot::{Loss, Subject, Then};
use crate::tape::{Op, Val};
use pipkin::Storage;
use pipkin::limits::DATA_START;
use pipkin::storage::crash::CrashImage;

/// Length of the golden segment.
pub const SEGMENT_LEN: u32 = 64 * 1024;

/// How the golden store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Closed: a snapshot, a clean mark.
    Closed,
    /// Killed: everything is replayed.
    Killed,
}

/// The golden store.
#[derive(Debug)]
pub struct Golden {
    image: CrashImage,
    subject: Subject,
    end: End,
    /// Below this byte the log knows itself to be synced: no damage there may be taken for a torn tail.
    known_synced: u64,
    len: u64,
}

impl Golden {
    /// Writes a bit more than one segment: keys of all lengths, batches, namespaces, tombstones, flushes on the way.
    ///
    /// # Panics
    ///
    /// When the engine cannot even write it.
    pub fn new(end: End) -> Self {
        Self::build(end).unwrap_or_else(|fault| panic!("writing the golden store: {fault}"))
    }

    fn build(end: End) -> Result<Self, Fault> {
        let setup = Setup { segment_size: SEGMENT_LEN, replay_debt_max: Setup::NEVER, clock: None, sealed: false };
        let disk = Disk::default();
        let mut player = Player::open(DiskHost::new(disk.clone(), setup.clone(), 1), State::default())?;
        let mut rng = derive(1, 0x601d);
        let mut tag = 0;
        let mut val = |len| {
            tag += 1;
            Val { len, tag }
        };
        let mut ends = Vec::new();
        while disk.farthest_write() < DATA_START + u64::from(SEGMENT_LEN) + 3000 {
            let len = [0, 5, 40, 150, 150, 700][rng.below(6) as usize];
            let (ns, key) = (rng.below(3) as u8, rng.below(150) as u16);
            let op = match rng.below(20) {
                0 => Op::Del(ns, key),
                1 => Op::Txn(true, vec![(0, key, Some(val(len))), (1, 3, Some(val(30))), (2, 5, None)]),
                2 => Op::Many(ns, vec![(key, val(len)), (key + 1, val(20))]),
                3 => Op::Flush,
                _ => Op::Put(ns, key, val(len)),
            };
            player.play(&op)?;
            if op == Op::Flush {
                ends.push(disk.farthest_write());
            }
        }
        player.play(&Op::Flush)?;
        let known_synced = ends.len().checked_sub(2).map_or(0, |place| ends[place]);
        if end == End::Closed {
            player.play(&Op::Checkpoint)?;
            player.db.take().map_or(Ok(()), pipkin::Db::close)?;
        }
        disk.kill();
        let image = disk.image();
        let len = image.len().map_err(pipkin::Error::from)?;
        Ok(Self { image, subject: Subject::new(setup, player.history), end, known_synced, len })
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a file without a byte, which it never is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn failure(&self, what: &str, number: u64, fault: &Fault) -> Failure {
        let end = format!("{:?}", self.end).to_lowercase();
        Failure::new(format!("PIPKIN_SEED={end}:{what}:{number}"), format!("{end} golden store, {what} {number}: {fault}"))
    }

    /// Flips one bit and looks.
    pub fn flip(&self, bit: u64) -> Outcome {
        let known = self.end == End::Closed || bit / 8 < self.known_synced;
        let loss = if known { Loss::None } else { Loss::Reported };
        guard(|| self.subject.flip(&self.image, bit, loss, Then::Read, bit))
            .unwrap_or_else(Fault::wrong)
            .map_err(|fault| self.failure("flip", bit, &fault))
    }

    /// Cuts the file off at `len` and looks.
    pub fn truncate(&self, len: u64) -> Outcome {
        // The marks of a killed store are cut off with what they are about.
        let loss = if self.end == End::Closed { Loss::None } else { Loss::Any };
        guard(|| {
            let cut = self.image.fork();
            cut.set_len(len).map_err(pipkin::Error::from)?;
            self.subject.look(&cut, loss, Then::Read, len)
        })
        .unwrap_or_else(Fault::wrong)
        .map_err(|fault| self.failure("truncation", len, &fault))
    }
}

/// Flips every `stride`-th bit of `bits`.
pub fn flip_all(golden: &Golden, bits: std::ops::Range<u64>, stride: u64, quota: &Quota) -> Outcome {
    in_blocks(bits, stride, |bit| golden.flip(bit), quota)
}

/// Opens every `stride`-th truncation to a length in `lens`.
pub fn truncate_all(golden: &Golden, lens: std::ops::Range<u64>, stride: u64, quota: &Quota) -> Outcome {
    in_blocks(lens, stride, |len| golden.truncate(len), quota)
}

fn in_blocks(all: std::ops::Range<u64>, stride: u64, trial: impl Fn(u64) -> Outcome + Sync, quota: &Quota) -> Outcome {
    let trials = (all.end - all.start).div_ceil(stride);
    let block = (trials / (threads() as u64 * 64)).max(1);
    for_each((0..trials).step_by(block as usize), |first, watch| {
        for number in first..(first + block).min(trials) {
            let at = all.start + number * stride;
            watch.begin(format!("(trial {at} of this test)"));
            trial(at)?;
        }
        quota.add(block.min(trials - first));
        Ok(())
    })
}

/// Replays what a failure printed: `closed:flip:123`.
pub fn replay(text: &str) -> Outcome {
    let mut words = text.split(':');
    let (end, what, number) = (words.next(), words.next(), words.next().and_then(|number| number.parse().ok()));
    let golden = Golden::new(if end == Some("killed") { End::Killed } else { End::Closed });
    match (what, number) {
        (Some("flip"), Some(bit)) => golden.flip(bit),
        (Some("truncation"), Some(len)) => golden.truncate(len),
        _ => panic!("`{text}` is not END:flip:BIT or END:truncation:LENGTH"),
    }
}
