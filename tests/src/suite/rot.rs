//! One flipped bit in bytes that were safe: an error that says where, or the right answers. Never a wrong value, never a
//! record that is silently missing.

use crate::disk::Disk;
use crate::drive::{Fault, Setup, dump, space};
use crate::model::{History, State};
use crate::tape::{Val, key_bytes, ns_name};
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::CrashImage;
use pipkin::{Db, Error, Storage};
use std::collections::BTreeMap;

/// How much of the log may be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the damage lies where the store knows itself to be synced.
    None,
    /// The tail behind the last sync mark, if the open report says so.
    Reported,
    /// Any tail: what proves that there was more is gone with it.
    Any,
}

/// What is done to the store with the flipped bit besides reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Read,
    /// Compacted: nobody may sign damaged bytes anew.
    Compact,
    /// Backed up: the same.
    Backup,
    /// Closed and opened again.
    Reopen,
}

impl Then {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Read, Self::Compact, Self::Backup, Self::Reopen];
}

/// An error about damage says where it is.
fn is_honest(error: &Error, len: u64) -> bool {
    match error {
        Error::Corrupt { offset, .. } => *offset <= len,
        Error::Poisoned(first) => is_honest(first, len),
        _ => false,
    }
}

/// The records of a state in bytes: namespace, key, value.
#[derive(Clone, Debug)]
struct Expected(BTreeMap<u8, BTreeMap<Vec<u8>, Vec<u8>>>);

impl Expected {
    fn new(state: &State) -> Self {
        let bytes = |space: &BTreeMap<u16, Val>| space.iter().map(|(&key, &val)| (key_bytes(key), val.bytes())).collect();
        Self(state.spaces.iter().map(|(&ns, space)| (ns, bytes(space))).collect())
    }

    /// Every key gives its value or an honest error; with `walk`, nothing else is there.
    fn check(&self, db: &Db, len: u64, walk: bool) -> Result<(), Fault> {
        let honest = |error: Error| if is_honest(&error, len) { Ok(()) } else { Err(Fault::Engine(error)) };
        let mut names = db.list_namespaces();
        names.sort_unstable();
        let expected: Vec<String> = self.0.keys().filter(|&&ns| ns != 0).map(|&ns| ns_name(ns)).collect();
        if names != expected {
            return Fault::wrong(format!("namespaces {names:?}, should be {expected:?}"));
        }
        for (&ns, space) in &self.0 {
            let handle = match space::namespace(db, ns) {
                Ok(handle) => handle,
                Err(error) => {
                    honest(error)?;
                    continue;
                }
            };
            let name = |key: &[u8]| format!("{ns}/{}", String::from_utf8_lossy(&key[..key.len().min(8)]));
            for (key, value) in space {
                match handle.get_zerocopy(key) {
                    Ok(Some(found)) if *found == **value => {}
                    Ok(Some(_)) => return Fault::wrong(format!("{} has a wrong value", name(key))),
                    Ok(None) => return Fault::wrong(format!("{} is silently missing", name(key))),
                    Err(error) => honest(error)?,
                }
            }
            let mut wrong = None;
            if walk {
                let each = |key: &[u8], value: &[u8]| {
                    if space.get(key).map(Vec::as_slice) != Some(value) {
                        wrong = Some(name(key));
                    }
                };
                space::for_each(&handle, each).or_else(honest)?;
            }
            if let Some(key) = wrong {
                return Fault::wrong(format!("iter gives {key} a value that it should not have"));
            }
        }
        Ok(())
    }
}

/// A healthy store that is to be damaged.
#[derive(Clone, Debug)]
pub struct Subject {
    setup: Setup,
    history: History,
    newest: Expected,
}

impl Subject {
    /// A store that is in the newest state of `history`.
    pub fn new(setup: Setup, history: History) -> Self {
        let newest = Expected::new(history.now());
        Self { setup, history, newest }
    }

    /// Flips bit number `bit` of `image` and has a [`look`](Self::look) at it.
    pub fn flip(&self, image: &CrashImage, bit: u64, loss: Loss, then: Then, entropy: u64) -> Result<(), Fault> {
        let rotten = image.fork();
        rotten.flip_bit(bit / 8, (bit % 8) as u32);
        self.look(&rotten, loss, then, entropy)
    }

    /// Opens a damaged image: an honest error, or right answers, but for what may be lost.
    pub fn look(&self, image: &CrashImage, loss: Loss, then: Then, entropy: u64) -> Result<(), Fault> {
        let setup = &self.setup;
        let disk = Disk::from_image(image);
        let len = image.len().unwrap_or(0);
        let db = match setup.open(disk.storage(), entropy) {
            Ok(db) => db,
            Err(error) if is_honest(&error, len) => return Ok(()),
            Err(error) => return Err(Fault::from(error).at("open")),
        };
        let older = self.older_state(&db, setup.now_of(&db), loss)?;
        let expected = older.as_ref().unwrap_or(&self.newest);
        // Walking costs as much as all the gets, and finds what they do not: look at every fourth for it when nothing else is done.
        let walk = then != Then::Read || entropy.is_multiple_of(4);
        expected
            .check(&db, len, walk)
            .map_err(|fault| fault.at(format!("reading (verify: {:?}, {:?})", db.verify(), db.open_report())))?;
        match then {
            Then::Read => {
                // The close would write a snapshot that nobody looks at.
                disk.kill();
                return Ok(());
            }
            Then::Compact => {
                let compacted = db.compact();
                if let Err(error) = compacted
                    && !is_honest(&error, len)
                {
                    return Err(Fault::from(error).at("compact"));
                }
                expected.check(&db, len, true).map_err(|fault| fault.at("reading after compaction"))?;
            }
            Then::Backup => return backup(&db, expected, &Setup::tiny(setup.clock.as_ref()), len),
            Then::Reopen => {}
        }
        if let Err(error) = db.close()
            && !is_honest(&error, len)
        {
            return Err(Fault::from(error).at("close"));
        }
        match setup.open(disk.storage(), entropy + 1) {
            Ok(db) => expected.check(&db, len * 2, true).map_err(|fault| fault.at("reading after a reopen")),
            Err(error) if is_honest(&error, len * 2) => Ok(()),
            Err(error) => Err(Fault::from(error).at("the second open")),
        }
    }

    /// The state that the store claims to be in, if that is not the newest and a tail may be given up.
    fn older_state(&self, db: &Db, now: u64, loss: Loss) -> Result<Option<Expected>, Fault> {
        let shorter = match loss {
            Loss::None => false,
            Loss::Reported => db.open_report().torn_bytes > 0,
            Loss::Any => true,
        };
        if !shorter {
            return Ok(None);
        }
        // Reads may fail here too; then nothing better is known than the newest state.
        let found = dump(db).ok().and_then(|digest| self.history.find(digest, now, 0, self.history.newest()));
        let Some(place) = found else { return Ok(None) };
        // One commit is damaged. Those behind it that changed something check, and are said.
        let lost = self.history.states.get(place..).unwrap_or_default();
        let changes = lost.windows(2).filter(|pair| pair[0].digest_at(now) != pair[1].digest_at(now)).count() as u64;
        let stranded = db.open_report().stranded_records;
        if loss == Loss::Reported && stranded + 1 < changes {
            return Fault::wrong(format!("{changes} commits are given up, and {stranded} records are said to be stranded"));
        }
        Ok(Some(Expected::new(&self.history.states[place].at(now))))
    }
}

fn backup(db: &Db, expected: &Expected, setup: &Setup, len: u64) -> Result<(), Fault> {
    let target = MemoryStorage::new();
    match db.backup_to_storage(&target) {
        Ok(_) => {
            let copy = setup.open(target, 1).map_err(|error| Fault::from(error).at("opening the backup"))?;
            // A backup that was made without a complaint is whole: no error is right here.
            dump(&copy).map(drop).and_then(|()| expected.check(&copy, 0, true)).map_err(|fault| fault.at("reading the backup"))
        }
        Err(error) if is_honest(&error, len) => Ok(()),
        Err(error) => Err(Fault::from(error).at("backup")),
    }
}
