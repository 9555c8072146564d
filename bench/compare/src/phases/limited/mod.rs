//! More data than memory: a control group limits what the process may have, page cache included.
//!
//! The load is not limited, and not a row: in a tree that lies on the disk each record in random order costs a read and a write of the
//! device, which would take hours here. What it leaves in the cache of the system is dropped before the next process starts.

mod compaction;
mod device;
mod workloads;

use super::Job;
use crate::Result;
use crate::data::{Key, Random, key};
use crate::engine::{Engine, Facts, OpenOptions};
use crate::shapes::Shape;
use crate::ycsb::Choice;

/// The processes of a set, one after the other, over one store; those of [`is_limited`] run in the group.
///
/// Ranges come last: an engine whose order is an option has another store for them.
pub(crate) const STEPS: [&str; 7] = [LOAD, "uniform", "zipfian", OVERWRITE, COMPACTION, LOAD_ORDERED, RANGES];
const LOAD: &str = "load";
const OVERWRITE: &str = "overwrite";
const COMPACTION: &str = "compaction";
const LOAD_ORDERED: &str = "load-ordered";
const RANGES: &str = "ranges";
/// Values that are written, over and over.
const POOL: usize = 256;

/// Whether the engine has anything to do in that step.
pub(crate) fn has_step(facts: &Facts, step: &str) -> bool {
    match step {
        OVERWRITE | COMPACTION => facts.compacts_beside,
        LOAD_ORDERED => facts.order_optional,
        RANGES => facts.ordered,
        _ => true,
    }
}

pub(crate) fn is_limited(step: &str) -> bool {
    !matches!(step, LOAD | OVERWRITE | LOAD_ORDERED)
}

/// Why an engine has nothing to measure in a row of such a set.
pub(super) fn absent(facts: &Facts, shape: Shape, row: &str) -> Option<&'static str> {
    let is_compaction = row.starts_with(&shape.row(COMPACTION));
    Some(match facts {
        _ if facts.is_limits() => "knows the places of its records only in the process that wrote them",
        _ if facts.served => "a server of its own, which is not limited here",
        _ if !facts.pairs => "stores events only",
        _ if facts.records_max < usize::MAX => "does so few records that they fit into the memory",
        _ if facts.value_max < shape.value => "its values are shorter",
        _ if !facts.ordered && row.contains("_e") => "not available: keys have no order",
        _ if !facts.compacts_beside && is_compaction => "has no compaction beside readers",
        _ => return None,
    })
}

pub(super) fn run<E: Engine>(job: &Job, shape: Shape, step: &str) -> Result<()> {
    let (records, values) = (shape.records(&job.scale), Values::new(shape.value));
    let store = Store { job, shape, records, values, ordered: matches!(step, LOAD_ORDERED | RANGES) };
    match (step, Choice::named(step)) {
        (LOAD | LOAD_ORDERED, _) => store.load::<E>(),
        (OVERWRITE, _) => store.overwrite::<E>(),
        (COMPACTION, _) => compaction::run::<E>(&store),
        (RANGES, _) => Choice::ALL.into_iter().try_for_each(|choice| workloads::run::<E>(&store, choice)),
        (_, Some(choice)) => workloads::run::<E>(&store, choice),
        (other, None) => Err(format!("there is no step named {other}").into()),
    }
}

/// The store of a set.
struct Store<'a> {
    job: &'a Job,
    shape: Shape,
    /// Records of the load; their numbers begin at 0.
    records: u64,
    values: Values,
    ordered: bool,
}

impl Store<'_> {
    fn load<E: Engine>(&self) -> Result<()> {
        std::fs::remove_dir_all(&self.job.folder)?;
        std::fs::create_dir(&self.job.folder)?;
        self.fill::<E>(0..self.records)
    }

    /// Overwrites every second record, so that there is something to compact.
    fn overwrite<E: Engine>(&self) -> Result<()> {
        self.fill::<E>((0..self.records).step_by(2))
    }

    fn fill<E: Engine>(&self, numbers: impl Iterator<Item = u64>) -> Result<()> {
        let engine: E = self.open()?;
        // An iterator cannot lend what it makes: portions are made in front of the engine.
        let mut numbers = numbers.peekable();
        while numbers.peek().is_some() {
            let keys: Vec<(u64, Key)> = numbers.by_ref().take(PORTION).map(|number| (number, key(number))).collect();
            engine.load(keys.iter().map(|(number, key)| (key.as_slice(), self.values.of(*number))))?;
        }
        engine.settle()?;
        engine.close()
    }

    /// A quarter of the memory for the engine's own caches leaves as much for the page cache, and room for an index.
    fn open<E: Engine>(&self) -> Result<E> {
        let cache = self.job.scale.memory_limit / 4;
        self.job.open_with(&OpenOptions { cache, ordered: self.ordered, ..self.job.options() })
    }
}

/// Records that an engine is given at once: those that write all of it in one transaction have few of them.
const PORTION: usize = 1 << 20;

/// Random values, few enough to stay in memory.
struct Values(Vec<Vec<u8>>);

impl Values {
    fn new(len: usize) -> Self {
        Self(crate::data::values(POOL, len))
    }

    fn of(&self, number: u64) -> &[u8] {
        self.0.get(Random::new(number).next() as usize % POOL).map_or(&[], Vec::as_slice)
    }
}
