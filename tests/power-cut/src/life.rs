//! Lives and cuts: a disk is recorded while a file system on it is mounted and a store in that is worked on; then it is cut at chosen
//! moments, each cut is mounted and checked, and the last one is worked on again.

use crate::child::{NOT_MOUNTED, Parts, Task, WRITES_ON, told};
use crate::disk::{Acked, Fate, HANDS, Image, Loss, Record};
use crate::fuse::Recorder;
use crate::machine::{DISK_PREFIX, System, make_file_system, own_mounts, step_limit, wait, wait_until_free};
use crate::work::{State, WRITERS, Wrong, decode, judge};
use pipkin_tests::parallel::{Failure, Outcome};
use pipkin_tests::quota::Quota;
use pipkin_tests::rng::{Rng, choose, derive};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lives of one disk.
pub(crate) const LIVES: u64 = 3;
/// Cuts of each life; the last one's disk is the next life's.
pub(crate) const CUTS: u64 = 3;

/// What was done, over all chains.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    lives: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    acknowledged: AtomicU64,
    kept: AtomicU64,
    dropped: AtomicU64,
    torn: AtomicU64,
    /// Cuts that the file system itself did not survive.
    pub(crate) refused: AtomicU64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} lives with {} writes and {} flushes of the device, {} operations acknowledged as `Device`; of the writes in doubt {} were \
             kept, {} dropped, {} torn; {} cuts that the file system did not survive",
            of(&self.lives),
            of(&self.writes),
            of(&self.syncs),
            of(&self.acknowledged),
            of(&self.kept),
            of(&self.dropped),
            of(&self.torn),
            of(&self.refused)
        )
    }
}

/// Why a trial ended badly.
#[derive(Debug)]
pub(crate) enum Bad {
    /// The file system does not mount any more.
    Refused(String),
    /// The store is not what it should be.
    Store(Wrong),
    /// A child failed, or the machine.
    Step(String),
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::Refused(what) => write!(f, "the file system does not mount: {what}"),
            Bad::Store(wrong) => write!(f, "{wrong}"),
            Bad::Step(what) => f.write_str(what),
        }
    }
}

/// A disk with a place to mount it.
pub(crate) struct Bench {
    pub(crate) system: System,
    recorder: Recorder,
    folder: PathBuf,
    seed: u64,
}

impl Bench {
    /// `run` is the process id that names the run.
    pub(crate) fn new(folder: &Path, run: u32, number: u64, system: System, seed: u64) -> Result<Bench, Bad> {
        let folder = folder.join(format!("{number}"));
        let recorder = Recorder::mount(&folder.join("device"), &format!("{DISK_PREFIX}{run}-{number}"))
            .map_err(|error| Bad::Step(format!("mounting the recorder: {error}")))?;
        Ok(Bench { system, recorder, folder, seed })
    }

    /// An empty file system.
    pub(crate) fn blank(&self) -> Result<Image, Bad> {
        self.recorder.insert(Image::new(self.system.disk_len()));
        make_file_system(self.system, &self.recorder.disk()).map_err(Bad::Step)?;
        Ok(self.recorder.record().disk)
    }

    /// Mounts a disk, lets the parts of a session run, and waits until nothing holds the disk. Returns the record, and what was said.
    fn session(&self, image: Image, life: u64, parts: Parts, milliseconds: u64) -> Result<(Record, Vec<u8>), Bad> {
        self.recorder.insert(image);
        let task = Task {
            system: self.system,
            options: choose(&mut derive(self.seed ^ 0x0B, life), self.system.options()).to_owned(),
            disk: self.recorder.disk(),
            folder: self.folder.join("mounted"),
            witness: self.recorder.witness(),
            seed: self.seed,
            life,
            milliseconds,
            parts,
        };
        let [out, err] = ["stdout", "stderr"].map(|name| self.folder.join(name));
        let run = || -> std::io::Result<_> {
            let mut command = own_mounts(&task.to_args())?;
            command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
            let status = wait(&mut command.spawn()?, step_limit() + Duration::from_millis(milliseconds))?;
            Ok((status, fs::read(&out)?, fs::read_to_string(&err)?))
        };
        let (status, out, words) = run().map_err(|error| Bad::Step(format!("a session: {error}")))?;
        let words = words.trim();
        let status = status.ok_or_else(|| Bad::Step(format!("a session does not end: {words}")))?;
        match status.code() {
            Some(NOT_MOUNTED) => return Err(Bad::Refused(words.to_owned())),
            Some(0) => {}
            // It ends the way of all flesh.
            None if status.signal() == Some(9) && parts.work => {}
            _ => return Err(Bad::Step(format!("a session ended with {status}: {words}"))),
        }
        wait_until_free(&self.recorder.disk_name).map_err(Bad::Step)?;
        Ok((self.recorder.record(), out))
    }

    /// A first life, on a blank disk.
    pub(crate) fn first_life(&self, rng: &mut Rng, planted: bool) -> Result<Record, Bad> {
        let parts = Parts { check: false, work: true, planted };
        self.session(self.blank()?, 1, parts, rng.between(200, 800)).map(|(record, _)| record)
    }

    /// Mounts what a cut left, checks it against what life `acked.life` acknowledged, and works on if `milliseconds` says so. Returns what
    /// the next life began with, and its record.
    pub(crate) fn next_life(
        &self,
        image: Image,
        acked: &Acked,
        start: &State,
        milliseconds: u64,
    ) -> Result<(Record, State), Bad> {
        let life = acked.life + 1;
        let parts = Parts { check: true, work: milliseconds > 0, planted: false };
        let (record, out) = self.session(image, life, parts, milliseconds)?;
        let content = |number: usize| told(&out).and_then(|told| decode(told[number]));
        let (Some(first), Some(second)) = (content(0), content(1)) else {
            return Err(Bad::Step("the check did not say what is in the store".into()));
        };
        let (_, state) = judge(self.seed, acked, start, &first).map_err(Bad::Store)?;
        let mut done = [0; HANDS];
        done[WRITERS] = WRITES_ON;
        let (found, _) = judge(self.seed, &Acked { life, done }, &state, &second).map_err(Bad::Store)?;
        if found != done {
            return Err(Bad::Step(format!("written on and closed, the store shows {found:?}")));
        }
        Ok((record, state))
    }
}

fn loss(rng: &mut Rng) -> Loss {
    match rng.below(8) {
        0 | 1 => Loss::Everything,
        2 => Loss::Nothing,
        3 => Loss::Newest,
        4 => Loss::Writes(choose(rng, &[2, 5, 20])),
        _ => Loss::Sectors(choose(rng, &[2, 5, 20, 1000]), choose(rng, &[1, 2, 4])),
    }
}

/// One chain: several lives of one disk, each cut several times.
pub(crate) fn chain(folder: &Path, run: u32, number: u64, system: System, seed: u64, quota: &Quota, counts: &Counts) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed} PIPKIN_SYSTEM={} (what runs when varies: may take several runs)", system.name());
    let fail = |what: String| Failure::new(replay.clone(), what);
    let bench = Bench::new(folder, run, number, system, seed).map_err(|bad| fail(bad.to_string()))?;
    let mut rng = derive(seed, 0x1C);
    let mut record = bench.first_life(&mut rng, false).map_err(|bad| fail(format!("first life on {}: {bad}", system.name())))?;
    let mut start = State::default();
    for life in 1..=LIVES {
        counts.lives.fetch_add(1, Ordering::Relaxed);
        counts.writes.fetch_add(record.writes() as u64, Ordering::Relaxed);
        counts.syncs.fetch_add(record.syncs() as u64, Ordering::Relaxed);
        let acked = record.acked(life, record.len()).done.iter().sum::<u64>();
        counts.acknowledged.fetch_add(acked, Ordering::Relaxed);
        if record.syncs() == 0 {
            return Err(fail(format!("no flush arrived at the device of {} in life {life}", system.name())));
        }
        let mut cut = 1;
        while cut <= CUTS {
            let (at, loss) = (record.moment(&mut rng), loss(&mut rng));
            let acked = record.acked(life, at);
            let (image, fate) = record.cut(at, loss, system.written_whole(), &mut rng);
            let chained = cut == CUTS && life < LIVES;
            let milliseconds = if chained { rng.between(200, 800) } else { 0 };
            let (next, state) = match bench.next_life(image.clone(), &acked, &start, milliseconds) {
                Ok(right) => right,
                Err(Bad::Refused(_)) => {
                    // It may not happen often, or the suite tests nothing: the caller looks at the count.
                    if counts.refused.fetch_add(1, Ordering::Relaxed) > quota.count() + 10 {
                        return Err(fail(format!("{} does not survive its own cuts", system.name())));
                    }
                    continue;
                }
                Err(bad) => {
                    let kept = std::env::temp_dir().join(format!("pipkin-power-cut-failed-{seed}.img"));
                    let kept = image.save(&kept).map_or_else(|error| error.to_string(), |()| kept.display().to_string());
                    return Err(fail(format!(
                        "{}, cut {cut} of life {life} at {at} of {} entries, {loss:?} ({fate:?}), acknowledged {:?}: {bad}\n  the disk as the \
                         cut left it: {kept}",
                        system.name(),
                        record.len(),
                        acked.done
                    )));
                }
            };
            count(counts, fate);
            quota.add(1);
            if chained {
                (record, start) = (next, state);
            }
            cut += 1;
        }
    }
    Ok(())
}

fn count(counts: &Counts, fate: Fate) {
    counts.kept.fetch_add(fate.kept, Ordering::Relaxed);
    counts.dropped.fetch_add(fate.dropped, Ordering::Relaxed);
    counts.torn.fetch_add(fate.torn, Ordering::Relaxed);
}

/// Tries of a control until it must have shown something.
const CONTROL_TRIES: u64 = 10;

/// A device that says it has flushed and has not must be caught: the file system is whole, as of an earlier flush, and what was
/// acknowledged since is missing.
pub(crate) fn forgetful_device(folder: &Path, run: u32, number: u64, system: System, seed: u64) -> Outcome<String> {
    control(folder, run, number, system, seed, false, |record, rng| {
        let (early, late) = record.forgetful_moments(1)?;
        Some((record.cut(early, Loss::Everything, &[], rng).0, late))
    })
}

/// A store whose flush does not sync must be caught, though the device is honest.
pub(crate) fn flush_without_sync(folder: &Path, run: u32, number: u64, system: System, seed: u64) -> Outcome<String> {
    control(folder, run, number, system, seed, true, |record, rng| {
        let last = record.forgetful_moments(1).map_or(record.len(), |(_, late)| late);
        Some((record.cut(last, Loss::Everything, &[], rng).0, last))
    })
}

fn control(
    folder: &Path,
    run: u32,
    number: u64,
    system: System,
    seed: u64,
    bug: bool,
    cut: impl Fn(&Record, &mut Rng) -> Option<(Image, usize)>,
) -> Outcome<String> {
    let replay = format!("PIPKIN_SEED={seed} PIPKIN_SYSTEM={}", system.name());
    let fail = |what: String| Failure::new(replay.clone(), what);
    let bench = Bench::new(folder, run, number, system, seed).map_err(|bad| fail(bad.to_string()))?;
    let mut rng = derive(seed, 0xC0);
    for attempt in 1..=CONTROL_TRIES {
        let record = bench.first_life(&mut rng, bug).map_err(|bad| fail(format!("a control on {}: {bad}", system.name())))?;
        let Some((image, late)) = cut(&record, &mut rng) else { continue };
        match bench.next_life(image, &record.acked(1, late), &State::default(), 0) {
            Err(Bad::Store(Wrong::Lost(what))) => return Ok(format!("{} after {attempt} cuts: {what}", system.name())),
            Err(Bad::Store(Wrong::Broken(what)) | Bad::Step(what)) => {
                return Err(fail(format!("a control on {} breaks the store: {what}", system.name())));
            }
            Ok(_) | Err(Bad::Refused(_)) => {}
        }
    }
    Err(fail(format!("a control on {} was not caught in {CONTROL_TRIES} cuts", system.name())))
}

/// Mounts and works until somebody kills the process: for the test that nothing is left then.
pub(crate) fn hold(folder: &Path, run: u32, system: System) -> Result<(), Bad> {
    let bench = Bench::new(folder, run, 0, system, 1)?;
    let parts = Parts { check: false, work: true, planted: false };
    bench.session(bench.blank()?, 1, parts, 60_000).map(drop)
}
