//! How much of everything.

use crate::Result;
use serde::{Deserialize, Serialize};

/// Counts of all phases. Each can be set in the environment, as the names in [`Scale::from_environment`] say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scale {
    /// Records of the load.
    pub(crate) records: usize,
    /// Runs of everything; medians are reported.
    pub(crate) rounds: usize,
    /// Single puts, each on the device before the next.
    pub(crate) durable_puts: usize,
    /// Batches of [`Self::batch_size`] records, each on the device before the next.
    pub(crate) batches: usize,
    pub(crate) batch_size: usize,
    /// Single puts that nobody waits for.
    pub(crate) unflushed_puts: usize,
    /// Reads of keys that are there; at most as many as there are records.
    pub(crate) reads: usize,
    pub(crate) missing: usize,
    pub(crate) ranges: usize,
    pub(crate) ycsb_ops: usize,
    /// Single puts of each of eight threads.
    pub(crate) group_puts: usize,
    /// Values of 64 KiB.
    pub(crate) large_values: usize,
    pub(crate) events: usize,
    /// Events among records.
    pub(crate) events_mixed: usize,
    /// Streams of ten events.
    pub(crate) event_streams: usize,
    /// Bytes that the process and its page cache may have together, in the sets with limited memory.
    pub(crate) memory_limit: u64,
    /// Operations of each workload there.
    pub(crate) limited_ops: usize,
    /// Operations that are timed one by one, in a pass of their own.
    pub(crate) timed_ops: usize,
}

impl Scale {
    fn full() -> Self {
        Self {
            records: 1_000_000,
            rounds: 3,
            durable_puts: 1_000,
            batches: 100,
            batch_size: 1_000,
            unflushed_puts: 50_000,
            reads: 1_000_000,
            missing: 500_000,
            ranges: 500_000,
            ycsb_ops: 1_000_000,
            group_puts: 200,
            large_values: 2_000,
            events: 100_000,
            events_mixed: 10_000,
            event_streams: 10_000,
            memory_limit: 128 << 20,
            limited_ops: 20_000,
            timed_ops: 200_000,
        }
    }

    /// A tenth and less, once: all engines in less than five minutes.
    fn quick() -> Self {
        Self {
            records: 50_000,
            rounds: 1,
            durable_puts: 100,
            batches: 10,
            unflushed_puts: 5_000,
            reads: 50_000,
            missing: 25_000,
            ranges: 25_000,
            ycsb_ops: 50_000,
            group_puts: 25,
            large_values: 200,
            events: 10_000,
            events_mixed: 1_000,
            event_streams: 1_000,
            memory_limit: 32 << 20,
            limited_ops: 1_000,
            timed_ops: 20_000,
            ..Self::full()
        }
    }

    /// The environment outweighs `quick`. With fewer records, what is counted in records shrinks too unless it is set itself.
    pub(crate) fn from_environment(quick: bool) -> Result<Self> {
        let mut scale = if quick { Self::quick() } else { Self::full() };
        set("PIPKIN_BENCH_RECORDS", &mut scale.records)?;
        for count in [&mut scale.reads, &mut scale.missing, &mut scale.ranges, &mut scale.ycsb_ops, &mut scale.unflushed_puts] {
            *count = (*count).min(scale.records);
        }
        set("PIPKIN_BENCH_ROUNDS", &mut scale.rounds)?;
        set("PIPKIN_BENCH_DURABLE_PUTS", &mut scale.durable_puts)?;
        set("PIPKIN_BENCH_BATCHES", &mut scale.batches)?;
        set("PIPKIN_BENCH_UNFLUSHED_PUTS", &mut scale.unflushed_puts)?;
        set("PIPKIN_BENCH_READS", &mut scale.reads)?;
        set("PIPKIN_BENCH_RANGES", &mut scale.ranges)?;
        set("PIPKIN_BENCH_YCSB_OPS", &mut scale.ycsb_ops)?;
        set("PIPKIN_BENCH_GROUP_PUTS", &mut scale.group_puts)?;
        set("PIPKIN_BENCH_LARGE_VALUES", &mut scale.large_values)?;
        set("PIPKIN_BENCH_EVENTS", &mut scale.events)?;
        set("PIPKIN_BENCH_EVENTS_MIXED", &mut scale.events_mixed)?;
        set("PIPKIN_BENCH_EVENT_STREAMS", &mut scale.event_streams)?;
        set("PIPKIN_BENCH_LIMITED_OPS", &mut scale.limited_ops)?;
        let mut mebibytes = (scale.memory_limit >> 20) as usize;
        set("PIPKIN_BENCH_MEMORY_LIMIT_MIB", &mut mebibytes)?;
        scale.memory_limit = (mebibytes as u64) << 20;
        scale.reads = scale.reads.min(scale.records);
        Ok(scale)
    }

    /// Longer ranges, of which there are fewer.
    pub(crate) fn scans(&self) -> usize {
        self.ranges.div_ceil(500)
    }
}

fn set(name: &str, count: &mut usize) -> Result<()> {
    if let Ok(text) = std::env::var(name) {
        let wanted: usize = text.replace('_', "").parse().map_err(|_| format!("{name}={text} is not a number"))?;
        *count = wanted.max(1);
    }
    Ok(())
}
