//! The rows of the report: what there is to measure, in the order in which a reader looks for it.

use crate::numbers::count;
use crate::sample::Unit;
use crate::scale::Scale;
use crate::shapes::SHAPES;
use crate::ycsb::{Choice, WORKLOADS};

/// What one row is about.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) group: &'static str,
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// The set of phases that measures it.
    pub(crate) set: &'static str,
}

/// Threads of the read rows; one thread has rows of its own.
pub(crate) const THREADS: [usize; 4] = [4, 8, 16, 32];
/// Keys of one multi-get.
pub(crate) const MULTI: usize = 1_000;
/// Records of one range.
pub(crate) const RANGE: usize = 10;
/// Records of one scan.
pub(crate) const SCAN: usize = 1_000;
/// Threads of the group commit.
pub(crate) const GROUP: usize = 8;
/// Bytes of a large value.
pub(crate) const LARGE: usize = 64 << 10;
/// Threads that read together where memory is limited: most devices answer many at once.
pub(crate) const LIMITED_THREADS: usize = 16;
/// Reads beside a compaction: as many as there were are scaled to this.
pub(crate) const READS_BESIDE: usize = 1_000;
/// Puts between two events, and events of a stream, of the sets with several streams.
pub(crate) const BETWEEN: usize = 10;
pub(crate) const OF_STREAM: usize = 10;
/// Reads after which an opened store is taken to be warm.
pub(crate) const WARM_READS: usize = 1_000;

pub(crate) fn all(scale: &Scale) -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    writes(&mut rows, scale);
    reads(&mut rows, scale);
    mixed(&mut rows, scale);
    life(&mut rows, scale);
    limited(&mut rows, scale);
    space(&mut rows);
    rows.0
}

struct Rows(Vec<Row>);

impl Rows {
    fn add(&mut self, set: &'static str, group: &'static str, id: &str, title: String, unit: Unit) {
        self.0.push(Row { id: id.to_owned(), group, title, unit, set });
    }
}

fn writes(rows: &mut Rows, scale: &Scale) {
    let mut add = |id: &str, title: String| rows.add("main", "Writes", id, title, Unit::Ms);
    add("load", format!("bulk load of {}, durable at the end", count(scale.records)));
    add("durable_puts", format!("{} single puts, each durable", count(scale.durable_puts)));
    add("batches", format!("{} batches of {}, each durable", count(scale.batches), count(scale.batch_size)));
    add("unflushed_puts", format!("{} single puts, not flushed, kept through a process kill", count(scale.unflushed_puts)));
    rows.add(
        "group",
        "Writes",
        "group_commit",
        format!("{GROUP} threads, {} durable puts each", count(scale.group_puts)),
        Unit::Ms,
    );
    rows.add("ranges", "Writes", "ordered_load", "bulk load with an ordered index".to_owned(), Unit::Ms);
    rows.add("main", "Writes", "removals", format!("removal of {}, durable at the end", count(scale.records / 2)), Unit::Ms);
    rows.add("ranges", "Writes", "ordered_removals", "the same with an ordered index".to_owned(), Unit::Ms);
}

fn reads(rows: &mut Rows, scale: &Scale) {
    let reads = count(scale.reads);
    let mut add = |id: &str, title: String| rows.add("main", "Reads", id, title, Unit::Ms);
    add("len", "exact number of records".to_owned());
    add("reads_insertion", format!("{reads} reads in insertion order"));
    add("reads_shuffled", format!("{reads} reads, shuffled"));
    add("reads_unchecked", format!("{reads} reads, shuffled, checksums off where that can be chosen"));
    for threads in THREADS {
        add(&format!("reads_{threads}_threads"), format!("{reads} reads, shuffled, {threads} threads together"));
    }
    add("multi_get", format!("{} multi-gets of {}", count(scale.reads / MULTI), count(MULTI)));
    add("missing", format!("{} reads of missing keys", count(scale.missing)));
    rows.add("ranges", "Reads", "ranges", format!("{} ranges of {RANGE} records", count(scale.ranges)), Unit::Ms);
    rows.add("ranges", "Reads", "scans", format!("{} ranges of {}", count(scale.scans()), count(SCAN)), Unit::Ms);
}

fn mixed(rows: &mut Rows, scale: &Scale) {
    for threads in [1, 2] {
        for (workload, about) in [("a", "half updates"), ("b", "5 % updates"), ("c", "reads only")] {
            let (upper, plural) = (workload.to_uppercase(), if threads == 1 { "" } else { "s" });
            let title = format!("YCSB-{upper}, {about}, zipfian, {} operations, {threads} thread{plural}", count(scale.ycsb_ops));
            rows.add("ycsb", "Mixed", &format!("ycsb_{workload}_{threads}"), title, Unit::Ms);
        }
    }
    let large = count(scale.large_values);
    rows.add("large", "Large values", "large_load", format!("load of {large} values of 64 KiB, durable at the end"), Unit::Ms);
    rows.add("large", "Large values", "large_reads", "reads of all of them, shuffled".to_owned(), Unit::Ms);
    let events = count(scale.events);
    rows.add("events", "Events", "event_batches", format!("{events} events appended, durable every 1,000"), Unit::Ms);
    rows.add("events", "Events", "event_iteration", format!("all {events} events read in order"), Unit::Ms);
    rows.add("events", "Events", "event_reads", "single events of the stream, any order".to_owned(), Unit::Ms);
    let (events, streams) = (count(scale.events_mixed), count(scale.event_streams));
    let mut mixed = |id: &str, title: String| rows.add("events-mixed", "Events", id, title, Unit::Ms);
    mixed("mixed_events", format!("{events} events of a stream appended, {BETWEEN} puts between two of them"));
    mixed("mixed_iteration", "these events read in order".to_owned());
    mixed("mixed_compacted", "the same, compacted".to_owned());
    let mut streams_of = |id: &str, title: String, unit| rows.add("events-streams", "Events", id, title, unit);
    streams_of("stream_appends", format!("{streams} streams of {OF_STREAM} events appended, a durable commit each"), Unit::Ms);
    streams_of("stream_reads", "each of the streams read, any order".to_owned(), Unit::Ms);
    streams_of("stream_bytes", "memory of the index for such a stream, as the engine counts it".to_owned(), Unit::BytesEach);
}

fn life(rows: &mut Rows, scale: &Scale) {
    let mut add = |id: &str, title: String, unit| rows.add("reopen", "Opening", id, title, unit);
    add("reopen_clean", "open after a clean close, one read".to_owned(), Unit::Ms);
    add("reopen_clean_warm", format!("the same, {} reads", count(WARM_READS)), Unit::Ms);
    add("reopen_killed", "open after `kill -9`, one read".to_owned(), Unit::Ms);
    add("reopen_killed_warm", format!("the same, {} reads", count(WARM_READS)), Unit::Ms);
    add("survivors", format!("of {} unflushed puts before the kill, found after it", count(scale.unflushed_puts)), Unit::Count);
    rows.add("main", "Compaction", "compaction", "full compaction after the removals".to_owned(), Unit::Ms);
    rows.add("ranges", "Compaction", "ordered_compaction", "the same with an ordered index".to_owned(), Unit::Ms);
}

/// Each shape has a group of its own.
fn limited(rows: &mut Rows, scale: &Scale) {
    for shape in SHAPES {
        let mut add = |name: &str, title: String, unit| rows.add(shape.set, shape.title, &shape.row(name), title, unit);
        let ops = count(scale.limited_ops);
        for choice in Choice::ALL {
            for workload in WORKLOADS.iter().filter(|workload| workload.runs_with(choice)) {
                let (upper, row) = (workload.name.to_uppercase(), format!("{}_{}", choice.name(), workload.name));
                let title = format!("YCSB-{upper}, {}, {}, {ops} operations", workload.about, choice.name());
                add(&row, title, Unit::Ms);
                add(&format!("{row}_read"), "read by the device, an operation".to_owned(), Unit::BytesEach);
                add(&format!("{row}_written"), "written by the device, an operation".to_owned(), Unit::BytesEach);
            }
        }
        add("threads", format!("{ops} uniform reads, {LIMITED_THREADS} threads together"), Unit::Ms);
        add("compaction", "full compaction behind the overwriting of half, beside a thread of reads".to_owned(), Unit::Ms);
        add("compaction_reads", format!("{} reads beside it", count(READS_BESIDE)), Unit::Ms);
        add("compaction_read", "read by the device meanwhile".to_owned(), Unit::Bytes);
        add("compaction_written", "written by the device meanwhile".to_owned(), Unit::Bytes);
    }
}

fn space(rows: &mut Rows) {
    let mut add = |set, id: &str, title: &str, unit| rows.add(set, "Space", id, title.to_owned(), unit);
    add("main", "size_loaded", "size on the device after the load", Unit::Bytes);
    add("main", "size_written", "after all writes", Unit::Bytes);
    add("main", "size_removed", "after the removals", Unit::Bytes);
    add("main", "size_compacted", "after the compaction", Unit::Bytes);
    add("main", "size_closed", "after the close", Unit::Bytes);
    for (id, about) in [("load", "bulk load"), ("batches", "durable batches"), ("puts", "single durable puts")] {
        let title = format!("bytes written per byte stored, by the process: {about}");
        add("main", &format!("written_{id}"), &title, Unit::Ratio);
        let title = format!("bytes written per byte stored, on the device, whole machine: {about}");
        add("main", &format!("device_{id}"), &title, Unit::Ratio);
    }
    add("reopen", "memory_loaded", "memory of the process per record after the load", Unit::BytesEach);
    add("reopen", "memory_reopened", "the same after a reopen and reads of every record", Unit::BytesEach);
    add("reopen", "index_bytes", "memory of the index per record, as the engine counts it", Unit::BytesEach);
    add("size", "program", "a minimal program, stripped", Unit::Bytes);
}
