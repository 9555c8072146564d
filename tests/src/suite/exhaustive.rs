//! Every short sequence of operations, crashed after every I/O, with every subset of the unsynced sectors lost.

use crate::check::{After, examine};
use crate::disk::{Disk, Moment};
use crate::drive::{DiskHost, Fault, Player, Setup};
use crate::model::{History, State};
use crate::parallel::{Failure, Outcome, Watch, for_each, guard, watched};
use crate::quota::Quota;
use crate::tape::{Op, START, Tape, Times, Val};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Where a sequence begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An empty file: the creation of the store is crashed too.
    Fresh,
    /// Several tiny segments with dead records, a namespace, a checkpoint and a retired segment.
    Seasoned,
    /// The same after the process was killed: the log goes on in a fresh segment.
    Recovered,
    /// A key in an old segment, and a clock: here the key expires, in an alphabet of its own.
    Expiring,
}

const STARTS: [Start; 4] = [Start::Fresh, Start::Seasoned, Start::Recovered, Start::Expiring];

impl Start {
    /// Operations of the alphabet.
    const fn letters(self) -> usize {
        if matches!(self, Self::Expiring) { 8 } else { 13 }
    }

    fn letter(self, number: usize, place: usize) -> Op {
        if self == Self::Expiring { expiring_letter(number, place) } else { letter(number, place) }
    }

    fn setup(self) -> Setup {
        let times = if self == Self::Expiring { Times::Both } else { Times::Unused };
        Setup { clock: times.clock(), ..Setup::TINY }
    }

    fn past(self) -> Tape {
        match self {
            Self::Fresh => Tape::default(),
            Self::Seasoned | Self::Recovered => seasoning(),
            // Key 1 stays under whatever the sequence makes of it.
            Self::Expiring => Tape(vec![
                Op::Put(0, 1, Val { len: 100, tag: 1 }),
                Op::Put(0, 2, Val { len: 3000, tag: 2 }),
                Op::Put(0, 3, Val { len: 3000, tag: 3 }),
                Op::Flush,
            ]),
        }
    }
}

/// Most unsynced sectors of which every subset is lost, at night and where a failure is run again.
pub const SECTORS_MAX: u32 = 12;

/// The operation of a letter at a place of the sequence: every place writes values of its own.
fn letter(letter: usize, place: usize) -> Op {
    let tag = 1000 + 100 * place as u32 + 10 * letter as u32;
    let val = |len: u32, i: u32| Val { len, tag: tag + i };
    match letter {
        0 => Op::Put(0, 40 + place as u16, val(100, 0)),
        1 => Op::Put(0, 1, val(120, 0)),
        2 => Op::Del(0, 2),
        3 => Op::Many(0, vec![(1, val(60, 0)), (3, val(500, 1)), (50 + place as u16, val(0, 2))]),
        4 => Op::Txn(true, vec![(0, 1, Some(val(80, 0))), (1, 2, Some(val(90, 1))), (0, 4, None), (1, 5, None)]),
        5 => Op::Cas(0, 1, true, Some(val(70, 0))),
        6 => Op::Put(0, 5, val(4500, 0)),
        7 => Op::Drop(1),
        8 => Op::Flush,
        9 => Op::Checkpoint,
        10 => Op::Step,
        11 => Op::Compact,
        _ => Op::Reopen,
    }
}

/// The same for a key that expires over earlier versions of it.
fn expiring_letter(letter: usize, place: usize) -> Op {
    let val = |len: u32| Val { len, tag: 1000 + 100 * place as u32 + 10 * letter as u32 };
    match letter {
        0 => Op::Put(0, 1, val(120)),
        1 => Op::Until(0, 1, val(140), 1000),
        2 => Op::Wait(1000, true),
        // Empties the segment before, and goes on in the next one.
        3 => Op::Put(0, 3, val(3000)),
        4 => Op::Compact,
        5 => Op::Checkpoint,
        6 => Op::Flush,
        _ => Op::Reopen,
    }
}

/// What a seasoned store has been through.
fn seasoning() -> Tape {
    let mut ops = Vec::new();
    let mut tag = 0;
    let mut val = |len| {
        tag += 1;
        Val { len, tag }
    };
    for key in 1..12 {
        ops.push(Op::Put(0, key, val(300)));
    }
    ops.push(Op::Txn(true, vec![(1, 1, Some(val(50))), (1, 2, Some(val(60))), (0, 2, Some(val(10)))]));
    for key in 1..10 {
        ops.push(Op::Put(0, key, val(280)));
    }
    ops.extend([Op::Del(0, 6), Op::Del(0, 7), Op::Flush, Op::Step, Op::Flush, Op::Checkpoint]);
    for key in 4..12 {
        ops.push(Op::Put(0, key, val(250)));
    }
    ops.extend([Op::Drop(1), Op::Put(1, 1, val(33)), Op::Del(0, 8), Op::Flush]);
    Tape(ops)
}

/// A sequence of letters from a start, as it is printed: `seasoned:0,8,10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    start: Start,
    letters: Vec<usize>,
}

impl Sequence {
    fn text(&self) -> String {
        let letters: Vec<String> = self.letters.iter().map(ToString::to_string).collect();
        format!("{:?}:{}", self.start, letters.join(",")).to_lowercase()
    }

    fn ops(&self) -> Vec<Op> {
        self.letters.iter().enumerate().map(|(place, &letter)| self.start.letter(letter, place)).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (start, letters) = text.split_once(':')?;
        let start = *STARTS.iter().find(|known| format!("{known:?}").to_lowercase() == start)?;
        let letters = letters.split(',').filter(|l| !l.is_empty()).map(|l| l.parse().ok()).collect::<Option<_>>()?;
        Some(Self { start, letters })
    }
}

/// Every sequence of the budget, the short ones first.
pub fn sequences(budget: &Budget) -> Vec<Sequence> {
    let mut out = Vec::new();
    for len in 0..=STARTS.map(|start| budget.longest_from(start)).into_iter().max().unwrap_or(0) {
        for start in STARTS.into_iter().filter(|&start| len <= budget.longest_from(start)) {
            out.extend((0..start.letters().pow(len as u32)).filter_map(|number| budget.sequence(start, len, number)));
        }
    }
    out
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Longest sequence from a seasoned store.
    pub longest: usize,
    /// Longest sequence from the other starts.
    pub longest_elsewhere: usize,
    /// Longest sequence in which a key expires.
    pub longest_expiring: usize,
    /// One in so many of the longest sequences from a seasoned store, and of those in which a key expires: those whose letters have a sum that it divides. With 1 all of them.
    pub every: usize,
    /// Most unsynced sectors of which every subset is lost.
    pub sectors: u32,
}

impl Budget {
    fn longest_from(&self, start: Start) -> usize {
        match start {
            Start::Seasoned => self.longest,
            Start::Fresh | Start::Recovered => self.longest_elsewhere,
            Start::Expiring => self.longest_expiring,
        }
    }

    fn sequence(&self, start: Start, len: usize, mut number: usize) -> Option<Sequence> {
        let mut letters = vec![0; len];
        for letter in letters.iter_mut().rev() {
            *letter = number % start.letters();
            number /= start.letters();
        }
        let is_thinned = matches!(start, Start::Seasoned | Start::Expiring) && len == self.longest_from(start);
        let is_left_out = is_thinned && letters.iter().sum::<usize>() % self.every != 0;
        (!is_left_out).then_some(Sequence { start, letters })
    }
}

/// Counts of a run.
#[derive(Debug)]
pub struct Counts {
    /// Distinct images that were opened and looked at.
    pub images: Quota,
    /// Crash points.
    pub points: AtomicU64,
    /// Crash points with more unsynced sectors than [`Budget::sectors`]: there few are lost, or few are kept.
    pub wide: AtomicU64,
}

impl Counts {
    /// For a suite that owes `least` images.
    pub fn new(least: u64) -> Self {
        Self { images: Quota::new("exhaustive", least), points: AtomicU64::new(0), wide: AtomicU64::new(0) }
    }
}

/// Runs every sequence of the budget.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    for_each(sequences(budget).into_iter(), |sequence, watch| run_one(&sequence, budget.sectors, counts, watch))
}

/// Runs the sequence that a failure printed.
pub fn replay(text: &str, counts: &Counts) -> Outcome {
    let sequence = Sequence::parse(text).unwrap_or_else(|| panic!("`{text}` is not START:LETTER,LETTER,..."));
    watched(|watch| run_one(&sequence, SECTORS_MAX, counts, watch))
}

/// A run whose last operation is the one that is crashed: earlier ones were crashed as shorter sequences.
struct Run {
    moments: Vec<Moment>,
    history: History,
    /// The newest state before the last operation.
    low: usize,
    /// What was flushed before the last operation: the floor until all of its I/O is done.
    flushed: usize,
}

fn prepare(sequence: &Sequence) -> Result<Run, Fault> {
    let disk = Disk::default();
    let host = DiskHost::new(disk.clone(), sequence.start.setup(), 1);
    disk.record();
    let mut player = Player::open(host, State::default())?;
    player.play_all(&sequence.start.past(), |_, _| Ok(()))?;
    let mut ops = sequence.ops();
    if sequence.start == Start::Recovered {
        ops.insert(0, Op::Kill);
    }
    let last = ops.pop();
    if sequence.start != Start::Fresh || last.is_some() {
        // What came before was crashed as a shorter sequence; the seasoning is what `suite::crash` is for.
        disk.take_moments();
    }
    for op in ops {
        player.play(&op).map_err(|fault| fault.at(&op))?;
    }
    let (low, flushed) = (player.history.newest(), player.history.flushed);
    if let Some(op) = last {
        disk.take_moments();
        player.play(&op).map_err(|fault| fault.at(&op))?;
    }
    Ok(Run { moments: disk.take_moments(), history: player.history, low, flushed })
}

fn run_one(sequence: &Sequence, sectors: u32, counts: &Counts, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_SEED={}", sequence.text());
    watch.begin(replay.clone());
    let fail = |what: String| Failure::new(replay.clone(), format!("{what}\n  operations: {}", Tape(sequence.ops())));
    let run = guard(|| prepare(sequence)).unwrap_or_else(Fault::wrong).map_err(|fault| fail(fault.to_string()))?;
    let mut seen = HashSet::new();
    let mut turn = 0;
    for (io, moment) in run.moments.iter().enumerate() {
        let done = io + 1 == run.moments.len();
        counts.points.fetch_add(1, Ordering::Relaxed);
        let images = moment.crash.images(sectors);
        if !images.is_exhaustive() {
            counts.wide.fetch_add(1, Ordering::Relaxed);
        }
        for (number, image) in images.enumerate() {
            let bounds = run.bounds(done, number == 0);
            if !seen.insert((xxh3_64(&image.to_vec()), bounds.0)) {
                continue;
            }
            watch.tick();
            turn += 1;
            let after = After::ALL[turn % After::ALL.len()];
            let setup = run.setup(sequence.start, turn);
            guard(|| examine(&image, &setup, &run.history, bounds, after, 7)).unwrap_or_else(Fault::wrong).map_err(|fault| {
                let ios = run.moments.len();
                let pending = moment.crash.pending();
                fail(format!(
                    "crash behind I/O {} of {ios} ({}), image {number}, opened at {}: {fault}\n  pending: {pending:?}",
                    io + 1,
                    moment.io,
                    setup.host_now()
                ))
            })?;
            counts.images.add(1);
        }
    }
    Ok(())
}

impl Run {
    /// How an image is opened: at the end of the sequence, or, in turns, with the clock set back to its beginning.
    fn setup(&self, start: Start, turn: usize) -> Setup {
        let now = if (turn / After::ALL.len()).is_multiple_of(2) { self.history.now().now } else { START };
        start.setup().at(now)
    }

    /// The states that an image may come back in. `killed`: nothing is lost, only the process died; then everything that
    /// returned is there, flushed or not.
    fn bounds(&self, done: bool, killed: bool) -> (usize, usize) {
        let low = match (killed, done) {
            (true, true) => self.history.newest(),
            (true, false) => self.low,
            (false, true) => self.history.flushed,
            (false, false) => self.flushed,
        };
        (self.history.commit_at(low), self.history.newest())
    }
}
