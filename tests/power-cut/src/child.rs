//! A session: the process that mounts what is under test, checks what came back and works on it until it kills itself. It is a process of
//! its own because a thread that waits for the disk may hold what the thread that serves the disk would need.

use crate::disk::{Acked, HANDS};
use crate::fuse::acknowledge;
use crate::machine::{System, mount};
use crate::work::{Hand, WRITERS, builder, content, encode, policy};
use pipkin::storage::Durability;
use pipkin::{Db, FlushPolicy};
use pipkin_tests::rng::{choose, derive};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a session ends with when its file system does not mount.
pub(crate) const NOT_MOUNTED: i32 = 3;
/// How often in a row a write may find the disk full, although what is dead has just been compacted.
const FULL_MAX: u32 = 5;
/// The first word of a session's command line.
pub(crate) const SESSION: &str = "session";

/// What a session does once it has mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) check: bool,
    pub(crate) work: bool,
    /// Whether flushes lie.
    pub(crate) planted: bool,
}

/// What a session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) system: System,
    pub(crate) options: String,
    pub(crate) disk: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) witness: PathBuf,
    pub(crate) seed: u64,
    pub(crate) life: u64,
    /// How long to work.
    pub(crate) milliseconds: u64,
    pub(crate) parts: Parts,
}

impl Task {
    pub(crate) fn to_args(&self) -> Vec<String> {
        let words = [SESSION, self.system.name(), &self.options].map(str::to_owned);
        let paths = [&self.disk, &self.folder, &self.witness].map(|path| path.display().to_string());
        let numbers = [self.seed, self.life, self.milliseconds].map(|number| number.to_string());
        let parts = [self.parts.check, self.parts.work, self.parts.planted].map(|part| part.to_string());
        words.into_iter().chain(paths).chain(numbers).chain(parts).collect()
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Task> {
        let [_, system, options, disk, folder, witness, seed, life, milliseconds, check, work, planted] = args else {
            return None;
        };
        Some(Task {
            system: System::ALL.into_iter().find(|known| known.name() == system)?,
            options: options.clone(),
            disk: disk.into(),
            folder: folder.into(),
            witness: witness.into(),
            seed: seed.parse().ok()?,
            life: life.parse().ok()?,
            milliseconds: milliseconds.parse().ok()?,
            parts: Parts { check: check.parse().ok()?, work: work.parse().ok()?, planted: planted.parse().ok()? },
        })
    }

    fn open(&self, round: u64) -> Result<Db, String> {
        builder(&self.folder.join("store.pipkin"), self.seed, self.life * 16 + round).open().map_err(said("open"))
    }

    fn open_witness(&self) -> Result<File, String> {
        File::options().write(true).open(&self.witness).map_err(|error| format!("witness: {error}"))
    }
}

pub(crate) fn session(task: &Task) -> Result<(), String> {
    if let Err(words) = mount(task.system, &task.options, &task.disk, &task.folder) {
        eprintln!("{words}");
        std::process::exit(NOT_MOUNTED);
    }
    if task.parts.check {
        check(task)?;
    }
    if task.parts.work {
        work(task)?;
    }
    Ok(())
}

fn said(what: &'static str) -> impl Fn(pipkin::Error) -> String {
    move |error| format!("{what}: {error} ({error:?})")
}

struct Work<'a> {
    task: &'a Task,
    witness: File,
    /// How far each thread is.
    done: [AtomicU64; HANDS],
    stop: AtomicBool,
}

/// Several threads write, flush and drop namespaces while another one compacts and makes checkpoints; now and then the store is closed and
/// opened again; some time it ends.
fn work(task: &Task) -> Result<(), String> {
    let work = Work { task, witness: task.open_witness()?, done: Default::default(), stop: AtomicBool::new(false) };
    let mut rng = derive(task.seed ^ 0xC4, task.life);
    let end = Instant::now() + Duration::from_millis(task.milliseconds);
    if rng.chance(3, 4) {
        std::thread::spawn(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        });
    }
    for round in 0.. {
        let db = task.open(round)?;
        if task.parts.planted {
            db.flush().map_err(said("first flush"))?;
            plant(true);
        }
        let write_through = policy(task.seed, task.life * 16 + round) == FlushPolicy::WriteThrough;
        let part = Duration::from_millis(rng.between(60, 400));
        work.round(&db, round, part.min(end.saturating_duration_since(Instant::now())), write_through)?;
        if Instant::now() >= end {
            // Without a close: the process ends.
            std::process::exit(0);
        }
        plant(false);
        let done = work.snapshot();
        db.close().map_err(said("close"))?;
        work.acknowledge(done)?;
    }
    Ok(())
}

/// From here on a flush answers what the last one achieved, and does no more.
#[cfg(feature = "planted-bugs")]
fn plant(planted: bool) {
    pipkin::planted::set(planted.then_some(pipkin::planted::Bug::FlushSkipsSync));
}

#[cfg(not(feature = "planted-bugs"))]
fn plant(_: bool) {}

impl Work<'_> {
    fn snapshot(&self) -> [u64; HANDS] {
        std::array::from_fn(|hand| self.done[hand].load(Ordering::SeqCst))
    }

    fn acknowledge(&self, done: [u64; HANDS]) -> Result<(), String> {
        acknowledge(&self.witness, &Acked { life: self.task.life, done }).map_err(|error| format!("witness: {error}"))
    }

    fn round(&self, db: &Db, round: u64, time: Duration, write_through: bool) -> Result<(), String> {
        self.stop.store(false, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let mut threads: Vec<_> =
                (0..WRITERS).map(|hand| scope.spawn(move || self.write(db, round, hand, write_through))).collect();
            threads.push(scope.spawn(move || self.maintain(db, round)));
            std::thread::sleep(time);
            self.stop.store(true, Ordering::SeqCst);
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
        })
    }

    fn write(&self, db: &Db, round: u64, hand: usize, write_through: bool) -> Result<(), String> {
        let Task { seed, life, .. } = *self.task;
        let mut rng = derive(seed ^ 0xF1 ^ (hand as u64) << 32, life * 16 + round);
        // Seldom flushed, much is at stake at once.
        let flushes = choose(&mut derive(seed ^ 0xF2, life * 16 + round), &[3, 12, 100, 600]);
        let mut full = 0;
        let player = Hand { db, seed, life, hand };
        while !self.stop.load(Ordering::SeqCst) {
            let number = self.done[hand].load(Ordering::SeqCst) + 1;
            match player.play(number, self.snapshot()) {
                // It was faster than the compaction.
                Err(pipkin::Error::NoSpace) if full < FULL_MAX => {
                    full += 1;
                    db.compact().map_err(said("compact a full disk"))?;
                    continue;
                }
                played => played.map_err(said("write"))?,
            }
            full = 0;
            self.done[hand].store(number, Ordering::SeqCst);
            if write_through {
                let mut done = [0; HANDS];
                done[hand] = number;
                self.acknowledge(done)?;
            } else if rng.chance(1, flushes) {
                let done = self.snapshot();
                match db.flush().map_err(said("flush"))? {
                    Durability::Device => self.acknowledge(done)?,
                    other => return Err(format!("a flush on a real file system is {other:?}")),
                }
            }
        }
        Ok(())
    }

    fn maintain(&self, db: &Db, round: u64) -> Result<(), String> {
        let mut rng = derive(self.task.seed ^ 0xD2, self.task.life * 16 + round);
        while !self.stop.load(Ordering::SeqCst) {
            let done = match rng.below(8) {
                0 => db.compact().map(drop),
                1 | 2 => db.checkpoint(),
                3..=5 => db.compact_step().map(drop),
                _ => Ok(()),
            };
            match done {
                // The writers see to that.
                Err(pipkin::Error::NoSpace) => {}
                done => done.map_err(said("maintenance"))?,
            }
            std::thread::sleep(Duration::from_millis(rng.below(30)));
        }
        Ok(())
    }
}

/// How many operations the check adds to a store.
pub(crate) const WRITES_ON: u64 = 12;

/// Opens what a cut left, verifies it and says what is in it; writes on, flushes, closes, opens again, verifies again and says again.
fn check(task: &Task) -> Result<(), String> {
    let witness = task.open_witness()?;
    let db = open_well(task, 14)?;
    tell(&encode(&content(&db)?))?;
    let hand = Hand { db: &db, seed: task.seed, life: task.life, hand: WRITERS };
    (1..=WRITES_ON).try_for_each(|number| hand.play(number, [0; HANDS])).map_err(said("write on"))?;
    match db.flush().map_err(said("flush after the cut"))? {
        Durability::Device => {
            let mut done = [0; HANDS];
            done[WRITERS] = WRITES_ON;
            acknowledge(&witness, &Acked { life: task.life, done }).map_err(|error| format!("witness: {error}"))?;
        }
        other => return Err(format!("a flush on a real file system is {other:?}")),
    }
    db.close().map_err(said("close after the cut"))?;
    let db = open_well(task, 15)?;
    tell(&encode(&content(&db)?))?;
    db.close().map_err(said("second close after the cut"))
}

fn open_well(task: &Task, round: u64) -> Result<Db, String> {
    let db = task.open(round)?;
    let report = db.verify().map_err(said("verify"))?;
    if report.is_ok() { Ok(db) } else { Err(format!("verify finds {:?}", report.damage)) }
}

fn tell(content: &[u8]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let len = (content.len() as u64).to_le_bytes();
    [&len, content]
        .into_iter()
        .try_for_each(|bytes| out.write_all(bytes))
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

/// The two contents that [`check`] told.
pub(crate) fn told(bytes: &[u8]) -> Option<[&[u8]; 2]> {
    let next = |bytes: &[u8]| -> Option<usize> { bytes.first_chunk().map(|len| u64::from_le_bytes(*len) as usize) };
    let (first, rest) = bytes.get(8..)?.split_at_checked(next(bytes)?)?;
    let second = rest.get(8..)?;
    (second.len() == next(rest)?).then_some([first, second])
}
