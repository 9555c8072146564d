//! A session sleeps in front of a write while others take its store over, one after the other, on a host that cannot lock the file.
//!
//! The story: eight instances wrote to one store on a busy machine, and once it never opened again: "the checkpoint that the superblock
//! points at". One of them had slept behind its look at the superblocks for longer than four others had lived, and its place was theirs.
//!
//! A session sleeps in front of each of its writes and syncs in turn, from its opening to its close; others come and go meanwhile, and the last
//! of them may still be there when the sleeper's write comes. What was flushed is there afterwards, and nothing is damaged.

mod session;

use crate::parallel::{Failure, Outcome, for_each, guard};
use crate::quota::Quota;
use pipkin::{Db, Error};
use session::{File, Seat, Session, Sleep};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How each of the others lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does not: the sleeper creates the store.
    None,
    /// It writes a record, flushes it and is killed.
    Killed,
    /// The same, and it closes the store.
    Closed,
    /// It writes checkpoints, compacts and closes the store.
    Busy,
    /// The same, and it is killed.
    BusyKilled,
    /// It writes several segments, flushes none of them and is killed: whoever comes next writes them again.
    Unflushed,
}

const LIVES: [Life; 4] = [Life::Killed, Life::Closed, Life::Busy, Life::BusyKilled];

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// How many others come and go meanwhile.
    pub others: &'static [usize],
    /// The last one may be gone, too, when the sleeper wakes up; and what stands in the file at first is of sessions with any life.
    pub all: bool,
}

/// A trial: who sleeps where, and what happens meanwhile.
#[derive(Clone, Copy, Debug)]
struct Trial {
    is_sealed: bool,
    start: Life,
    life: Life,
    others: usize,
    is_last_kept: bool,
    /// The sleeper's call of its storage that comes late.
    at: usize,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_sealed, start, life, others, is_last_kept, at } = self;
        write!(
            f,
            "sealed: {is_sealed}, behind {start:?} sessions, asleep in front of call {at} for {others} {life:?} ones, the last one kept: {is_last_kept}"
        )
    }
}

/// Runs every trial of the budget.
pub fn run(budget: &Budget, counts: &Quota) -> Outcome {
    let starts: &[Life] = if budget.all { &[Life::Killed, Life::Busy, Life::Unflushed] } else { &[Life::Unflushed] };
    let keeps: &[bool] = if budget.all { &[false, true] } else { &[true] };
    let mut jobs = Vec::new();
    for (&start, life) in starts.iter().flat_map(|start| LIVES.map(|life| (start, life))) {
        for (&others, &is_last_kept) in budget.others.iter().flat_map(|others| keeps.iter().map(move |kept| (others, kept))) {
            jobs.push(Trial { is_sealed: false, start, life, others, is_last_kept, at: 0 });
            // A third of the trials: what sealing adds does not depend on how many others there are.
            if budget.all || others == 1 {
                jobs.push(Trial { is_sealed: true, start, life, others, is_last_kept, at: 0 });
            }
        }
    }
    for is_sealed in [false, true] {
        jobs.extend(LIVES.map(|life| Trial { is_sealed, start: Life::None, life, others: 2, is_last_kept: false, at: 0 }));
    }
    for_each(jobs.into_iter(), |job, watch| {
        for at in 1.. {
            let trial = Trial { at, ..job };
            watch.begin(trial.to_string());
            let has_slept = guard(|| run_one(&trial)).and_then(|result| result);
            if !has_slept.map_err(|what| Failure::new(trial.to_string(), what))? {
                break;
            }
            counts.add(1);
        }
        Ok(())
    })
}

/// False if the sleeper makes fewer calls.
fn run_one(trial: &Trial) -> Result<bool, String> {
    let file = File::new(trial.is_sealed);
    for number in [90, 91].into_iter().filter(|_| trial.start != Life::None) {
        live(&file, trial.start, number, false)?;
    }
    let last: Arc<Mutex<Option<Session>>> = Arc::default();
    let failed: Arc<Mutex<Option<String>>> = Arc::default();
    let meanwhile = {
        let (file, last, failed, Trial { life, others, is_last_kept, .. }) = (file.clone(), last.clone(), failed.clone(), *trial);
        move || {
            for number in 0..others {
                match live(&file, life, number, is_last_kept && number + 1 == others) {
                    Ok(kept) => *last.lock().unwrap_or_else(PoisonError::into_inner) = kept,
                    Err(what) => *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(what),
                }
            }
        }
    };
    let seat = Seat::new(&file, Some(Sleep::new(trial.at, meanwhile)));
    let slept = seat.sleep.clone();
    sleeper(&file, seat).map_err(|error| format!("the sleeper was told: {error}"))?;
    let Some(call) = slept.lock().unwrap_or_else(PoisonError::into_inner).slept_before.take() else { return Ok(false) };
    if let Some(what) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(what);
    }
    let last = last.lock().unwrap_or_else(PoisonError::into_inner).take();
    let all = last.map_or(Ok(()), goes_on).and_then(|()| file.check()).and_then(|()| {
        live(&file, Life::Busy, 70, false)?;
        file.check()
    });
    all.map(|()| true).map_err(|what| format!("{call} came late: {what}"))
}

/// The life of one of the others; with `is_kept` it stays where it is.
fn live(file: &File, life: Life, number: usize, is_kept: bool) -> Result<Option<Session>, String> {
    let lived = (|| {
        let mut session = Session::open(file, Seat::new(file, None), format!("other {number}"))?;
        session.put(50)?;
        session.flush()?;
        if life == Life::Unflushed {
            session.churn()?;
            session.churn()?;
        }
        if matches!(life, Life::Busy | Life::BusyKilled) {
            // The first of them uses again what it has freed itself.
            for _ in 0..if number == 0 { 3 } else { 1 } {
                session.churn()?;
                session.db.checkpoint()?;
                session.db.compact()?;
            }
            session.put(300)?;
            session.flush()?;
        }
        match life {
            _ if is_kept => return Ok(Some(session)),
            Life::Killed | Life::BusyKilled | Life::Unflushed => session.end(),
            Life::Closed | Life::Busy | Life::None => session.close()?,
        }
        Ok::<_, Error>(None)
    })();
    lived.map_err(|error| format!("session {number} of the others was told: {error}"))
}

/// Nobody has taken the store over from it.
fn goes_on(mut session: Session) -> Result<(), String> {
    let went_on = (|| {
        session.put(70)?;
        session.flush()?;
        session.db.checkpoint()?;
        session.put(70)?;
        session.close()
    })();
    went_on.map_err(|error| format!("whoever owned the store was told: {error}"))
}

/// It may find out at any call that it has slept.
fn sleeper(file: &File, seat: Seat) -> Result<(), Error> {
    let mut session = match Session::open(file, seat, "sleeper".into()) {
        Ok(session) => session,
        Err(Error::Fenced) => return Ok(()),
        Err(error) => return Err(error),
    };
    let done = (|| {
        session.put(40)?;
        session.flush()?;
        session.put(600)?;
        session.flush()?;
        session.db.checkpoint()?;
        session.churn()?;
        session.db.compact()?;
        session.put(5000)?;
        session.flush()?;
        session.put(40)?;
        session.close()
    })();
    match done {
        Err(Error::Fenced) => {
            session.end();
            Ok(())
        }
        done => done,
    }
}

/// Between two calls of its user a session sleeps for as long as that wants: it writes nothing afterwards, not even what it has gathered.
pub fn idle(others: usize) -> Outcome {
    for (life, is_cached) in LIVES.into_iter().flat_map(|life| [(life, false), (life, true)]) {
        for is_sealed in [false, true] {
            let fail = |what: String| Failure::new(format!("{life:?}, cached: {is_cached}, sealed: {is_sealed}"), what);
            // Those of a sealed store are a third.
            idle_one(life, is_cached, is_sealed, if is_sealed { others / 2 } else { others }).map_err(fail)?;
        }
    }
    Ok(())
}

fn idle_one(life: Life, is_cached: bool, is_sealed: bool, others: usize) -> Result<(), String> {
    let file = File::new(is_sealed);
    let told = |error: Error| format!("the sleeper was told: {error}");
    let open = if is_cached { Session::open_cached } else { Session::open };
    let mut session = open(&file, Seat::new(&file, None), "sleeper".into()).map_err(told)?;
    session.put(40).and_then(|()| session.flush()).map_err(told)?;
    if is_cached {
        // It stays in the cache.
        session.put(600).map_err(told)?;
    }
    for number in 0..others {
        live(&file, life, number, false)?;
    }
    let before = file.bytes();
    let answer = if is_cached { session.flush() } else { session.put(600) };
    if !matches!(answer, Err(Error::Fenced)) {
        return Err(format!("the sleeper was told {answer:?}"));
    }
    session.end();
    if file.bytes() != before { Err("the sleeper has written something".into()) } else { file.check() }
}

/// The file opens, is whole, and has what was flushed.
pub(crate) fn check(db: &Db, flushed: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String> {
    for (key, value) in flushed {
        let name = key.escape_ascii();
        match db.get(key) {
            Ok(Some(found)) if found == *value => {}
            Ok(found) => return Err(format!("{name} is {}", if found.is_some() { "another" } else { "gone" })),
            Err(error) => return Err(format!("get {name}: {error}")),
        }
    }
    let damage = db.verify().map_err(|error| format!("verify: {error}"))?.damage;
    damage.first().map_or(Ok(()), |damage| Err(format!("damage at {}: {}", damage.offset, damage.what)))
}
