//! A trial, and what must hold after it.

use super::scheduler::{Call, LEFT_BY_CUTS, Scheduler, State, dump, trace};
use super::session::{Session, Told};
use super::trial::{Host, Start, Trial};
use pipkin::Error;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use std::sync::{Arc, Condvar, Mutex};

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub(super) free_calls: Vec<Call>,
    /// A session slept between two of its calls while the other one went through several.
    pub(super) slept_through: bool,
    /// Records that were written and not flushed by a session that was fenced off, and are gone.
    pub written_lost: u64,
    /// Sessions that were fenced off.
    pub fenced: u64,
    /// Flushes that were acknowledged.
    pub flushes: u64,
    /// Calls of the storage.
    pub calls: u64,
}

/// The file that a run begins with.
pub(super) fn image_of(start: Start, host: Host) -> CrashStorage {
    static PLAIN: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
    static SEALED: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
    if start == Start::Blank {
        return CrashStorage::new();
    }
    let images = if host.is_sealed() { &SEALED } else { &PLAIN };
    let images = images.get_or_init(|| {
        [Start::Closed, Start::Killed].map(|start| {
            let disk = CrashStorage::new();
            let builder = host.builder().entropy([5; 32]);
            let db = builder.open_storage(Box::new(disk.clone())).expect("a store in memory");
            for number in 0..6_u8 {
                db.insert([number % 4], [number; 700]).expect("a record");
            }
            db.flush().expect("a flush");
            let killed = disk.latest_image();
            db.close().expect("a close");
            if start == Start::Closed { disk.latest_image().to_vec() } else { killed.to_vec() }
        })
    });
    let [closed, killed] = images;
    CrashStorage::from_bytes(if start == Start::Closed { closed } else { killed })
}

/// Runs a trial and looks at what it leaves.
pub fn run_one(trial: &Trial) -> Result<Report, String> {
    let mut plan = trial.plan.clone();
    plan.reverse();
    let scheduler = Arc::new(Scheduler {
        state: Mutex::new(State { plan, ..State::default() }),
        turned: Condvar::new(),
        disk: image_of(trial.start, trial.host),
        seed: trial.seed,
    });
    let play = |who: usize| {
        let (host, seed) = (trial.host, trial.seed);
        let mut session = Session { who, host, scheduler: scheduler.clone(), seed, db: None, told: Told::default(), puts: 0 };
        let played = crate::parallel::guard(|| session.play(&trial.scripts[who])).and_then(|played| played);
        // What is left open is closed by dropping it.
        session.db = None;
        scheduler.end(who);
        (session.told, played)
    };
    let [first, second] = std::thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        let first = play(0);
        [first, other.join().unwrap_or_else(|_| (Told::default(), Err("a session panicked".into())))]
    });
    let state = std::mem::take(&mut *scheduler.lock());
    let mut report = Report {
        free_calls: state.free_calls,
        slept_through: state.slept_through,
        fenced: u64::from(first.0.was_fenced) + u64::from(second.0.was_fenced),
        flushes: first.0.flushes + second.0.flushes,
        calls: state.calls,
        ..Report::default()
    };
    let is_cut = state.cut.is_some();
    let image = state.cut.unwrap_or_else(|| scheduler.disk.latest_image());
    if trace() {
        dump(&scheduler.disk.latest_image().to_vec());
        dump(&image.to_vec());
    }
    let checked = first.1.and(second.1).and_then(|()| check(&image, trial, [&first.0, &second.0], is_cut, &mut report));
    match checked {
        // Counted by whoever runs this, and named in the documents.
        Err(what) if report.slept_through => Err(format!("{SLEPT}: {what}")),
        checked => checked.map(|()| report),
    }
}

/// Where the superblocks stand, and the copies of the page of keys.
const WRITTEN_SEVERAL_TIMES: [u64; 5] = [0, 4096, 1024, 5120, 12_288];

pub(super) const SLEPT: &str = "slept through another session's end and the next one's beginning";

/// The file opens, is whole, has what was flushed, and takes more.
pub(super) fn check(
    image: &CrashImage,
    &Trial { host, start, .. }: &Trial,
    told: [&Told; 2],
    is_cut: bool,
    report: &mut Report,
) -> Result<(), String> {
    let is_new = start == Start::Blank;
    match pipkin::verify_storage(&image.fork()) {
        Ok(verified) => {
            // The power may go while a superblock is written, or a copy of the page of keys: the others serve.
            // Of two that create a sealed store at once, the one that is overtaken and killed leaves a superblock of its own until the next session writes.
            let may_be_of_another = |damage: &pipkin::Damage| host.is_sealed() && damage.what.contains("the other one serves");
            let counts = |damage: &&pipkin::Damage| {
                !(is_cut && WRITTEN_SEVERAL_TIMES.contains(&damage.offset) || is_new && may_be_of_another(damage))
            };
            if let Some(damage) = verified.damage.iter().find(counts) {
                return Err(format!("damage at {}: {}", damage.offset, damage.what));
            }
        }
        // Its creation was cut short.
        Err(Error::NotAStore { .. }) if told.iter().all(|told| told.flushes == 0) => {}
        Err(error) => return Err(format!("verify: {error}")),
    }
    let file = image.fork();
    let open = || host.builder().open_storage(Box::new(file.clone()));
    let db = open().map_err(|error| format!("the store does not open: {error}"))?;
    let get = |key: &[u8]| db.get(key).map_err(|error| format!("get {:?}: {error}", key.escape_ascii().to_string()));
    for (who, told) in told.into_iter().enumerate() {
        for (key, value) in &told.flushed {
            let found = get(key)?;
            let is_later = |found: &Vec<u8>| told.others.get(key).is_some_and(|others| others.contains(found));
            if found.as_ref() != Some(value) && !found.as_ref().is_some_and(is_later) {
                let key = key.escape_ascii().to_string();
                return Err(format!(
                    "session {who} was told that {key:?} is flushed, and it is {}",
                    if found.is_some() { "another" } else { "gone" }
                ));
            }
        }
        for key in told.others.keys().filter(|key| !told.flushed.contains_key(*key)) {
            report.written_lost += u64::from(!is_cut && get(key)?.is_none());
        }
    }
    let count = get(b"count")?.and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes);
    let least: u64 = told.iter().map(|told| told.counted_flushed).sum();
    let most: u64 = told.iter().map(|told| told.counts_tried).sum();
    if !(least..=most).contains(&count) {
        return Err(format!("the counter is {count}, {least} were flushed and {most} tried"));
    }
    let goes_on = || {
        db.insert("after", "wards")?;
        db.flush()?;
        let found = db.get("count")?;
        drop(db);
        let db = open()?;
        Ok::<_, Error>((db.get("after")?.is_some() && db.get("count")? == found, db.verify()?.damage))
    };
    match goes_on() {
        Ok((true, damage))
            if damage.iter().all(|damage| is_cut && LEFT_BY_CUTS.iter().any(|what| damage.what.contains(what))) =>
        {
            Ok(())
        }
        Ok((has_all, damage)) => Err(format!("written to afterwards: has all: {has_all}, damage: {damage:?}")),
        Err(error) => Err(format!("written to afterwards: {error}")),
    }
}
