//! One flipped bit anywhere in a closed store: `verify` says where, and `salvage` gets every other record out.

use crate::disk::Disk;
use crate::drive::{DiskHost, Fault, Player, Setup, dump, space};
use crate::model::State;
use crate::parallel::{Failure, Outcome, for_each, guard};
use crate::quota::Quota;
use crate::rng::derive;
use crate::tape::{Op, START, Times, Val, key_bytes, ns_name};
use pipkin::limits::DATA_START;
use pipkin::storage::crash::CrashImage;
use pipkin::storage::{HOLDER_LEN, HOLDER_OFFSET};
use pipkin::{Db, Namespace, Storage};
use std::collections::BTreeMap;

/// Full size of an extent of the store under test. The first one has a quarter of it, each further one twice as much.
const EXTENT: u32 = 16 * 1024;
/// How far from the flipped byte the damage may be reported: the longest structure of the store under test is shorter.
const NEAR: u64 = 16 * 1024;
/// How long records live, in milliseconds, that expire long after the store is closed.
const LONG_MS: u64 = 1_000_000;

/// The stores whose bits are flipped.
#[derive(Debug)]
pub struct Subjects {
    lasting: Subject,
    expiring: Subject,
}

impl Subjects {
    /// Writes them.
    ///
    /// # Panics
    ///
    /// When the engine cannot write them.
    pub fn new() -> Self {
        let build = |times| Subject::build(times).unwrap_or_else(|fault| panic!("writing the store: {fault}"));
        Self { lasting: build(Times::Unused), expiring: build(Times::Forward) }
    }

    /// Bits of the larger one.
    pub fn bits(&self) -> u64 {
        self.lasting.bits().max(self.expiring.bits())
    }

    /// Flips one bit, in every third trial of the store in which records expire, verifies and salvages.
    pub fn flip(&self, seed: u64) -> Outcome {
        let subject = if seed.is_multiple_of(3) { &self.expiring } else { &self.lasting };
        subject.flip(seed, seed % subject.bits())
    }
}

impl Default for Subjects {
    fn default() -> Self {
        Self::new()
    }
}

/// A closed store with every structure there is.
#[derive(Debug)]
struct Subject {
    image: CrashImage,
    state: State,
    len: u64,
    setup: Setup,
}

impl Subject {
    /// Several segments, namespaces, batches, dead records, tombstones, a compaction and a snapshot, and, where the clock goes forward, records that
    /// expire: some have when the store is closed, others do later.
    fn build(times: Times) -> Result<Self, Fault> {
        let setup = Setup { segment_size: EXTENT, replay_debt_max: Setup::NEVER, clock: times.clock(), sealed: false };
        let disk = Disk::default();
        let mut player = Player::open(DiskHost::new(disk.clone(), setup.clone(), 1), State::default())?;
        let mut rng = derive(3, 0x5a1);
        for (i, tag) in (0..900).zip(1..) {
            let (ns, key) = (rng.below(3) as u8, rng.below(200) as u16);
            let val = Val { len: rng.below(400) as u32, tag };
            let op = match i % 10 {
                0 => Op::Del(ns, key),
                // Of what is set here some live for as long as the namespace says.
                2 | 3 if times != Times::Unused => Op::Until(ns, key, val, rng.below(2000) + 1),
                4 if times != Times::Unused => Op::Until(ns, key, val, LONG_MS),
                5 if times != Times::Unused => Op::Persist(ns, key),
                // Everything is looked at: whatever has expired is acted on.
                6 if times != Times::Unused => Op::Wait(20, true),
                1 => Op::Txn(true, vec![(0, key, Some(val)), (1, key + 1, Some(val)), (2, key, None)]),
                _ => Op::Put(ns, key, val),
            };
            player.play(&op)?;
            match i {
                200 if times != Times::Unused => player.play(&Op::Default(1, 4000))?,
                400 => player.play(&Op::Compact)?,
                800 => player.play(&Op::Checkpoint)?,
                _ => {}
            }
        }
        if let Some(db) = player.db.take() {
            db.close()?;
        }
        let image = disk.image();
        let len = image.len().map_err(pipkin::Error::from)?;
        Ok(Self { image, state: player.history.now().clone(), len, setup })
    }

    fn bits(&self) -> u64 {
        self.len * 8
    }

    fn flip(&self, seed: u64, bit: u64) -> Outcome {
        guard(|| self.look(seed, bit)).unwrap_or_else(Fault::wrong).map_err(|fault| {
            Failure::new(format!("PIPKIN_SEED={seed}"), format!("bit {} of byte {} flipped: {fault}", bit % 8, bit / 8))
        })
    }

    fn look(&self, seed: u64, bit: u64) -> Result<(), Fault> {
        let at = bit / 8;
        let image = self.image.fork();
        image.flip_bit(at, (bit % 8) as u32);
        // The note of who holds the store is the host's; nothing of the store is in it.
        if !(HOLDER_OFFSET..HOLDER_OFFSET + HOLDER_LEN as u64).contains(&at) {
            let report = pipkin::verify_storage(&image)?;
            let reported = report.damage.iter().any(|damage| damage.offset.abs_diff(at) <= NEAR.max(damage.len));
            if !reported && !self.is_free(at)? {
                return Fault::wrong(format!("verify does not report it: {:?}", report.damage));
            }
        }
        let before = image.to_vec();
        // The new store's clock may be behind the old one's.
        let setup = self.setup.at(if seed.is_multiple_of(2) { START } else { self.state.now });
        let target = setup.builder(1).in_memory()?;
        pipkin::salvage(&image, &target, &mut |_, _| {})?;
        if image.to_vec() != before {
            return Fault::wrong("salvage changed its source");
        }
        self.compare(&target, &self.state)?;
        let Some(clock) = &setup.clock else { return Ok(()) };
        for time in [self.state.now + 2000, self.state.now + LONG_MS] {
            clock.set(time);
            self.compare(&target, &self.state.at(time)).map_err(|fault| fault.at(format!("at {time}")))?;
        }
        Ok(())
    }

    /// True when nothing of the store lies from this byte to the end of its extent: all of it can be wiped, and nobody notices.
    /// A free extent is like that, and the rest of the one in which the log ends.
    fn is_free(&self, at: u64) -> Result<bool, Fault> {
        if at < DATA_START {
            return Ok(false);
        }
        let (mut end, mut size) = (DATA_START, u64::from(EXTENT / 4));
        while end <= at {
            end += size;
            size = (size * 2).min(u64::from(EXTENT));
        }
        let end = end.min(self.len);
        let image = self.image.fork();
        image.write_at(at, &[&vec![0; (end - at) as usize]]).map_err(pipkin::Error::from)?;
        if !pipkin::verify_storage(&image)?.is_ok() {
            return Ok(false);
        }
        let db = self.setup.open(Disk::from_image(&image).storage(), 1)?;
        Ok(db.open_report().clean && dump(&db)? == self.state.digest)
    }

    /// Everything but one record is in the target; a namespace that lost its name may be there under another.
    fn compare(&self, target: &Db, state: &State) -> Result<(), Fault> {
        let mut lost = Vec::new();
        for (&ns, space) in &state.spaces {
            let of = |(&key, val): (&u16, &Val)| (key_bytes(key), (val.bytes(), state.expiries.get(&(ns, key)).copied()));
            let known: Records = space.iter().map(of).collect();
            let mut best: Option<Vec<String>> = None;
            for name in candidates(target, ns) {
                let handle = space::named(target, &name)?;
                let mut missing = differences(&handle, &known)?;
                let default = handle.default_ttl().map(|ttl| ttl.as_millis() as u64);
                if ns == 0 || name == ns_name(ns) {
                    missing.extend((default != state.defaults.get(&ns).copied()).then(|| format!("default of {ns}")));
                }
                if best.as_ref().is_none_or(|best| missing.len() < best.len()) {
                    best = Some(missing);
                }
            }
            lost.extend(best.unwrap_or_else(|| vec![format!("namespace {ns}")]));
        }
        if lost.len() > 1 {
            return Fault::wrong(format!("salvage loses {} records to one flipped bit: {:?}", lost.len(), lost.iter().take(5)));
        }
        Ok(())
    }
}

fn candidates(target: &Db, ns: u8) -> Vec<String> {
    if ns == 0 {
        return vec![String::new()];
    }
    let names = target.list_namespaces();
    let own: Vec<String> = names.iter().filter(|name| **name == ns_name(ns)).cloned().collect();
    if own.is_empty() { names.into_iter().filter(|name| name.starts_with("salvaged-")).collect() } else { own }
}

/// Keys, values, and when they expire.
type Records = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Keys whose value or expiry is not the right one, and keys that should not be there.
fn differences(space: &Namespace, known: &Records) -> Result<Vec<String>, Fault> {
    let mut found = Records::new();
    for record in space.iter() {
        let (key, value) = record?;
        let expiry = space.expires_at(&key)?;
        found.insert(key, (value, expiry));
    }
    if space.len()? != found.len() as u64 {
        return Fault::wrong(format!("len is {}, iter gives {}", space.len()?, found.len()));
    }
    let name = |key: &[u8]| String::from_utf8_lossy(&key[..key.len().min(12)]).into_owned();
    let missing = known.iter().filter(|(key, value)| found.get(*key) != Some(value)).map(|(key, _)| name(key));
    let extra = found.keys().filter(|key| !known.contains_key(*key)).map(|key| format!("+{}", name(key)));
    Ok(missing.chain(extra).collect())
}

/// Flips `count` bits, spread over whole stores, and some of their first kilobyte.
pub fn run(count: u64, quota: &Quota) -> Outcome {
    let subjects = Subjects::new();
    let mut rng = derive(1, 0xf11);
    let all = subjects.bits();
    let spread = (0..count).map(|i| (all * i / count + rng.below(all / count + 1)).min(all - 1));
    let bits: Vec<u64> = spread.chain((0..8192).step_by(5)).collect();
    for_each(bits.into_iter(), |bit, watch| {
        watch.begin(format!("PIPKIN_SEED={bit}"));
        quota.add(1);
        subjects.flip(bit)
    })
}
