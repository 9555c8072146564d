//! What is measured. Each set of phases runs in a process of its own, with a store of its own.

mod event_streams;
mod events;
mod group;
mod large;
pub(crate) mod limited;
mod main_set;
mod mixed;
mod ranges;
mod read;
pub(crate) mod reopen;
mod together;
mod write;

use crate::Result;
use crate::data::{KEY_LEN, VALUE_LEN};
use crate::engine::{Engine, Facts, OpenOptions, Unflushed};
use crate::rows;
use crate::sample::{Sink, Unit};
use crate::scale::Scale;
use crate::shapes::{SHAPES, Shape};
use std::path::PathBuf;

/// The sets in the order in which they run.
pub(crate) const SETS: [&str; 13] = [
    "main",
    "ranges",
    "group",
    "ycsb",
    "large",
    "events",
    "events-mixed",
    "events-streams",
    "reopen",
    SHAPES[0].set,
    SHAPES[1].set,
    SHAPES[2].set,
    SHAPES[3].set,
];

/// What stands between the name of a set and that of a step, where one process does only a step.
const BETWEEN: char = ':';

/// One process of a set. They follow each other over one store.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Whether it runs in a control group with little memory.
    pub(crate) limited: bool,
}

pub(crate) fn steps(set: &str, facts: &Facts) -> Vec<Step> {
    if set == "reopen" {
        return reopen::STEPS.map(|name| Step { name: name.to_owned(), limited: false }).into();
    }
    if Shape::of(set).is_none() {
        return vec![Step { name: set.to_owned(), limited: false }];
    }
    let steps = limited::STEPS.into_iter().filter(|step| limited::has_step(facts, step));
    steps.map(|step| Step { name: format!("{set}{BETWEEN}{step}"), limited: limited::is_limited(step) }).collect()
}

/// What one process has to do.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) set: String,
    /// Where the store lies.
    pub(crate) folder: PathBuf,
    pub(crate) scale: Scale,
    pub(crate) sink: Sink,
}

impl Job {
    pub(crate) fn run<E: Engine>(self) -> Result<()> {
        if let Some((set, step)) = self.set.split_once(BETWEEN) {
            let shape = Shape::of(set).ok_or_else(|| format!("there is no set with limited memory named {set}"))?;
            return limited::run::<E>(&self, shape, step);
        }
        match self.set.as_str() {
            "main" => main_set::run::<E>(&self),
            "ranges" => ranges::run::<E>(&self),
            "group" => group::run::<E>(&self),
            "ycsb" => mixed::run::<E>(&self),
            "large" => large::run::<E>(&self),
            "events" => events::run::<E>(&self),
            "events-mixed" => event_streams::mixed::<E>(&self),
            "events-streams" => event_streams::streams::<E>(&self),
            step => reopen::run::<E>(&self, step),
        }
    }

    fn open<E: Engine>(&self) -> Result<E> {
        self.open_with(&self.options())
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { expected: self.expected(), ..OpenOptions::default() }
    }

    /// About how many bytes of keys and values the set will write.
    fn expected(&self) -> u64 {
        let scale = &self.scale;
        let ordinary = KEY_LEN + VALUE_LEN;
        let written = scale.records + scale.durable_puts + scale.batches * scale.batch_size + 2 * scale.unflushed_puts;
        let limited = self.set.split_once(BETWEEN).and_then(|(set, _)| Shape::of(set));
        if let Some(shape) = limited {
            return 2 * shape.times * scale.memory_limit;
        }
        let bytes = match self.set.as_str() {
            "large" => scale.large_values * (KEY_LEN + rows::LARGE),
            "ycsb" => (scale.records + 2 * scale.ycsb_ops + scale.timed_ops) * ordinary,
            _ => (written + scale.records / 4) * ordinary, // tombstones are shorter than records
        };
        (bytes + (1 << 20)) as u64
    }

    fn open_with<E: Engine>(&self, options: &OpenOptions) -> Result<E> {
        E::open(&self.folder, options)
    }

    /// The scale that this engine is up to.
    fn scale_for<E: Engine>(&self) -> Scale {
        let mut scale = self.scale.clone();
        let counts = [
            &mut scale.records,
            &mut scale.unflushed_puts,
            &mut scale.reads,
            &mut scale.missing,
            &mut scale.ranges,
            &mut scale.ycsb_ops,
            &mut scale.events,
            &mut scale.limited_ops,
            &mut scale.timed_ops,
        ];
        for count in counts {
            *count = (*count).min(E::FACTS.records_max);
        }
        // Half of these are unflushed puts.
        scale.ycsb_ops = scale.ycsb_ops.min(E::FACTS.unflushed_max.saturating_mul(2));
        scale.unflushed_puts = scale.unflushed_puts.min(E::FACTS.unflushed_max);
        scale
    }

    /// The sink for figures that depend on what an unflushed put survives.
    fn unflushed_sink<E: Engine>(&self) -> Sink {
        match E::FACTS.unflushed {
            Unflushed::Kept(_) => self.sink_with(None),
            Unflushed::Lost(why) => self.sink_with(Some(why)),
        }
    }

    /// The sink for figures that depend on what is on the device.
    fn durable_sink<E: Engine>(&self) -> Sink {
        self.sink_with(E::FACTS.sync_gap)
    }

    fn sink_with(&self, gap: Option<&'static str>) -> Sink {
        Sink { engine: self.sink.engine.clone(), round: self.sink.round, gap }
    }

    fn size<E: Engine>(&self, engine: &E, row: &str) -> Result<()> {
        self.sink.number(row, engine.size(&self.folder)? as f64, Unit::Bytes)
    }
}

/// Why an engine has nothing to measure in a row, as far as that is known without running it.
pub(crate) fn absent(facts: &Facts, row: &rows::Row) -> Option<String> {
    if let Some(shape) = Shape::of(row.set) {
        return limited::absent(facts, shape, &row.id).map(str::to_owned);
    }
    let why = match (row.set, row.id.as_str()) {
        ("events-mixed" | "events-streams", _) if !facts.streams => "is not set up for streams here",
        ("events-mixed" | "events-streams", _) if !facts.ordered => "not available: keys have no order",
        ("events-mixed", _) if facts.is_limits() => "has no keys",
        ("events-mixed", "mixed_compacted") if !facts.compacts => "has no compaction",
        ("events-streams", "stream_bytes") if facts.peer => "is not counted by the engine",
        (set, _) if !facts.pairs && !set.starts_with("events") && set != "size" => "stores events only",
        ("reopen", _) if facts.served => "a server of its own, which is not killed here",
        ("main", "written_load" | "written_batches" | "written_puts") | ("size", _) if facts.served => "a server of its own",
        ("ranges", _) if !facts.ordered => "not available: keys have no order",
        ("large", _) if facts.value_max < rows::LARGE => "its values are shorter",
        (_, "compaction" | "size_compacted") if !facts.compacts => "has no compaction",
        _ => return None,
    };
    Some(why.to_owned())
}
