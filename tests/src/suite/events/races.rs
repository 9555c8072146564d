//! Threads that append behind the same version of a stream: one of them wins, the others are told what the version is now, and nothing of
//! theirs is there, also after the store was opened again.

use crate::parallel::Team;
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Events, Expected, FailedCheck, NewEvent};
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 4;
/// Races of one session.
const TOGETHER: u64 = 250;
const STREAM: &str = "raced";

/// One store with so many races.
pub(super) fn run(seed: u64, races: u64) -> Checked {
    let mut file = MemoryStorage::new();
    let mut rng = derive(seed, 0x4ace);
    // The winner of each race: events of one append have its thread and its race.
    let mut winners: Vec<(u64, u64)> = Vec::new();
    let mut race = 0;
    while race < races {
        let db = open(&file)?;
        let log = db.events("log").map_err(words)?;
        is_won_by(&db, &log, &winners)?;
        let until = (race + TOGETHER).min(races);
        let (team, arrived) = (Team::default(), AtomicU64::new(0));
        let (version, won) = (AtomicU64::new(winners.len() as u64), AtomicU64::new(0));
        let session = Session { db: &db, log: &log, team: &team, arrived: &arrived, version: &version, won: &won };
        let won: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (session, rng) = (&session, rng.split());
                    scope.spawn(move || {
                        let mut own = Vec::new();
                        session.team.run(|| session.race_on(thread, race..until, rng, &mut own));
                        own
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        team.outcome()?;
        let mut won: Vec<(u64, u64, u64)> = won;
        won.sort_unstable();
        for (race, thread, count) in won {
            winners.extend((0..count).map(|_| (race, thread)));
        }
        is_won_by(&db, &log, &winners)?;
        race = until;
        // Closed, or as a kill leaves it.
        if rng.chance(1, 2) {
            drop(log);
            db.close().map_err(words)?;
        } else {
            file = MemoryStorage::from_vec(file.to_vec());
        }
    }
    let db = open(&file)?;
    is_won_by(&db, &db.events("log").map_err(words)?, &winners)
}

fn open(file: &MemoryStorage) -> Checked<Db> {
    Db::builder().segment_size(16 * 1024).background(false).open_storage(Box::new(file.clone())).map_err(words)
}

struct Session<'a> {
    db: &'a Db,
    log: &'a Events,
    team: &'a Team,
    /// How often a thread has come to a place where it waits for all others.
    arrived: &'a AtomicU64,
    /// The version that is raced for, and who has won: how many times it was counted.
    version: &'a AtomicU64,
    won: &'a AtomicU64,
}

impl Session<'_> {
    /// Waits for the other threads. False when one of them has failed.
    fn meet(&self) -> bool {
        let place = self.arrived.fetch_add(1, Ordering::SeqCst) / THREADS;
        let mut turns = 0_u32;
        while self.arrived.load(Ordering::SeqCst) < (place + 1) * THREADS {
            if self.team.is_over() {
                return false;
            }
            turns += 1;
            if turns.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        true
    }

    fn race_on(&self, thread: u64, races: std::ops::Range<u64>, mut rng: Rng, own: &mut Vec<(u64, u64, u64)>) -> Checked {
        for race in races {
            let version = self.version.load(Ordering::SeqCst);
            let count = 1 + rng.below(3);
            if !self.meet() {
                return Ok(());
            }
            let lost = self.append(thread, race, version, count, &mut rng)?;
            if lost.is_none() {
                own.push((race, thread, count));
                self.won.fetch_add(1, Ordering::SeqCst);
                self.version.fetch_add(count, Ordering::SeqCst);
            }
            if !self.meet() {
                return Ok(());
            }
            let (won, now) = (self.won.load(Ordering::SeqCst), self.version.load(Ordering::SeqCst));
            if lost.is_some_and(|current| current != now) {
                return Err(format!("the version behind {version} is {now}, and a loser is told {lost:?}"));
            }
            if !self.meet() {
                return Ok(());
            }
            if won != 1 {
                return Err(format!("{won} threads have won the race behind version {version}"));
            }
            self.won.store(0, Ordering::SeqCst);
            if !self.meet() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the version that it is told when it has lost.
    fn append(&self, thread: u64, race: u64, version: u64, count: u64, rng: &mut Rng) -> Checked<Option<u64>> {
        let payload = [race.to_le_bytes(), thread.to_le_bytes()].concat();
        let events: Vec<_> = (0..count).map(|_| NewEvent::new("Raced", payload.clone())).collect();
        let (db, log, expected) = (self.db, self.log, Expected::Version(version));
        let answer = match rng.below(3) {
            0 => log.append(STREAM, expected, events).map(drop),
            1 => db.batch().insert("winner", payload.clone()).append(log, STREAM, expected, events).commit().map(drop),
            _ => db.transaction(|tx| {
                tx.insert("winner", &payload)?;
                tx.append(log, STREAM, expected, events.iter().cloned())
            }),
        };
        match answer {
            Ok(()) => Ok(None),
            Err(Error::AppendRefused { failed }) => match failed[..] {
                [FailedCheck::Version { current, .. }] => Ok(Some(current)),
                _ => Err(format!("a loser is told {failed:?}")),
            },
            Err(error) => Err(words(error)),
        }
    }
}

/// The stream has the winners' events, in their order, and nobody else's.
fn is_won_by(db: &Db, log: &Events, winners: &[(u64, u64)]) -> Checked {
    let mut found = Vec::new();
    let mut is_gapless = true;
    log.stream(STREAM)
        .for_each(|event| {
            is_gapless &= event.version() == found.len() as u64 + 1 && event.number() == event.version();
            let (race, thread) = event.payload().split_at(8);
            found.push((u64::from_le_bytes(race.try_into().unwrap()), u64::from_le_bytes(thread.try_into().unwrap())));
        })
        .map_err(words)?;
    if !is_gapless || found != winners {
        let place = found.iter().zip(winners).position(|(one, other)| one != other);
        return Err(format!("{} events are there, of {}; they differ from {place:?} on", found.len(), winners.len()));
    }
    let record = db.get("winner").map_err(words)?;
    let is_winner =
        |record: &[u8]| winners.iter().any(|(race, thread)| record == [race.to_le_bytes(), thread.to_le_bytes()].concat());
    match record {
        Some(record) if !is_winner(&record) => Err("a loser's record is there".into()),
        _ => Ok(()),
    }
}
