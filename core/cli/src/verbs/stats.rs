//! `pipkin stats`

use crate::args::{Global, NamespaceArg};
use crate::bytes::hex;
use crate::exit::{Exit, Outcome};
use crate::output::{self, human_bytes, human_count};
use crate::store::Store;
use clap::Args;
use pipkin::{Cipher, ConsumerState, Db};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin stats app.pipkin
  pipkin stats app.pipkin --json | jq .dead_bytes";

/// From this many dead bytes on, the output suggests to compact.
const WORTH_COMPACTING: u64 = 1 << 20;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsArgs {
    /// The store file
    store: PathBuf,
}

#[derive(Serialize)]
struct Report {
    path: String,
    records: u64,
    namespaces: u64,
    file_bytes: u64,
    live_bytes: u64,
    dead_bytes: u64,
    segments: u64,
    free_segments: u64,
    segment_size: u64,
    index_bytes: u64,
    replay_debt: u64,
    damaged_segments: u64,
    closed_cleanly: bool,
    replayed_records: u64,
    torn_bytes: u64,
    stranded_records: u64,
    expiring: u64,
    clock_behind_ms: u64,
    history_bytes: u64,
    compressed_records: u64,
    compressed_plain_bytes: u64,
    compressed_stored_bytes: u64,
    dictionaries: u64,
    dictionary_bytes: u64,
    /// None for a plain store.
    sealed: Option<SealedReport>,
    /// None where their records are damaged.
    consumers: Option<Vec<ConsumerReport>>,
}

/// How a store is sealed, and how many keys and passphrases open it.
#[derive(Serialize)]
struct SealedReport {
    cipher: &'static str,
    slots: usize,
}

impl SealedReport {
    fn of(db: &Db) -> pipkin::Result<Option<Self>> {
        let cipher = match db.cipher() {
            None => return Ok(None),
            Some(Cipher::Aes256Gcm) => "AES-256-GCM",
            Some(_) => "ChaCha20-Poly1305",
        };
        Ok(Some(Self { cipher, slots: db.key_slots()?.len() }))
    }
}

/// A consumer of changes, for which the store keeps what it has not read.
#[derive(Serialize)]
struct ConsumerReport {
    name: String,
    cursor: String,
    behind_bytes: u64,
    retain_bytes: u64,
    is_too_far_behind: bool,
}

impl From<ConsumerState> for ConsumerReport {
    fn from(state: ConsumerState) -> Self {
        Self {
            name: state.name,
            cursor: hex(&state.cursor.to_bytes()),
            behind_bytes: state.behind_bytes,
            retain_bytes: state.retain,
            is_too_far_behind: state.is_too_far_behind,
        }
    }
}

pub(crate) fn run(global: Global, args: &StatsArgs) -> Outcome {
    let store = Store::read(&args.store, &NamespaceArg::default())?;
    let stats = store.db().stats().map_err(|error| store.failure(&error))?;
    let compressed = store.db().compression_stats().map_err(|error| store.failure(&error))?;
    let opened = store.db().open_report();
    let report = Report {
        path: store.path().display().to_string(),
        records: stats.records,
        namespaces: stats.namespaces,
        file_bytes: stats.file_bytes,
        live_bytes: stats.live_bytes,
        dead_bytes: stats.dead_bytes,
        segments: stats.segments,
        free_segments: stats.free_segments,
        segment_size: stats.segment_size,
        index_bytes: stats.index_bytes,
        replay_debt: stats.replay_debt,
        damaged_segments: stats.damaged_segments,
        closed_cleanly: opened.clean,
        replayed_records: opened.replayed_records,
        torn_bytes: opened.torn_bytes,
        stranded_records: opened.stranded_records,
        expiring: stats.expiring,
        clock_behind_ms: stats.clock_behind_ms,
        history_bytes: stats.history_bytes,
        compressed_records: compressed.records,
        compressed_plain_bytes: compressed.plain_bytes,
        compressed_stored_bytes: compressed.stored_bytes,
        dictionaries: compressed.dictionaries,
        dictionary_bytes: compressed.dictionary_bytes,
        sealed: SealedReport::of(store.db()).map_err(|error| store.failure(&error))?,
        consumers: store.db().consumers().ok().map(|all| all.into_iter().map(ConsumerReport::from).collect()),
    };
    output::report(global.json, &report, plain(&report).trim_end())?;
    Ok(Exit::Done)
}

fn plain(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    let bytes = |count: u64| match count {
        0..1024 => human_bytes(count),
        _ => format!("{} ({} bytes)", human_bytes(count), human_count(count)),
    };
    line("store", report.path.clone());
    line("records", human_count(report.records));
    line("namespaces", human_count(report.namespaces));
    if report.expiring > 0 {
        line("expiring", human_count(report.expiring));
    }
    if report.clock_behind_ms > 0 {
        let seconds = human_count(report.clock_behind_ms.div_ceil(1000));
        line("clock", format!("{seconds} s behind the latest expiry that was acted on: it is wrong, or was"));
    }
    line("file", bytes(report.file_bytes));
    line("live", bytes(report.live_bytes));
    line("dead", format!("{}{}", bytes(report.dead_bytes), dead_share(report)));
    if report.compressed_records > 0 {
        line("compressed", compressed(report));
    }
    if report.history_bytes > 0 {
        line("history", format!("{}, kept for consumers", bytes(report.history_bytes)));
    }
    for consumer in report.consumers.iter().flatten() {
        line("consumer", behind(consumer));
    }
    if let Some(SealedReport { cipher, slots }) = report.sealed {
        line("sealed", format!("{cipher}; {slots} of at most 8 keys and passphrases open it"));
    }
    let size = human_bytes(report.segment_size);
    line("segments", format!("{} of {size}, {} of them free", human_count(report.segments), human_count(report.free_segments)));
    line("index", bytes(report.index_bytes));
    line("replay debt", bytes(report.replay_debt));
    line("last close", last_close(report));
    text
}

fn compressed(report: &Report) -> String {
    let Report { compressed_records, compressed_plain_bytes, compressed_stored_bytes, dictionaries, dictionary_bytes, .. } =
        report;
    let ratio = *compressed_plain_bytes as f64 / (*compressed_stored_bytes).max(1) as f64;
    format!(
        "{} records, values of {} in {} ({ratio:.2}x), {dictionaries} dictionaries of {}",
        human_count(*compressed_records),
        human_bytes(*compressed_plain_bytes),
        human_bytes(*compressed_stored_bytes),
        human_bytes(*dictionary_bytes)
    )
}

/// The name as a literal: it may hold anything.
fn behind(consumer: &ConsumerReport) -> String {
    let ConsumerReport { name, behind_bytes, retain_bytes, is_too_far_behind, .. } = consumer;
    let (behind, retain) = (human_bytes(*behind_bytes), human_bytes(*retain_bytes));
    if *is_too_far_behind {
        return format!(
            "{name:?}, {behind} behind, which is no longer kept for it; `pipkin watch --consumer ... --initial` begins again"
        );
    }
    format!("{name:?}, {behind} behind, of which up to {retain} is kept; `pipkin watch --consumer ... --forget` ends that")
}

fn dead_share(report: &Report) -> String {
    let all = report.live_bytes.saturating_add(report.dead_bytes);
    match report.dead_bytes.saturating_mul(100).checked_div(all) {
        Some(percent) if percent > 0 && report.dead_bytes >= WORTH_COMPACTING => {
            format!(", {percent} % of the data; `pipkin compact` gives most of it back")
        }
        Some(percent) if percent > 0 => format!(", {percent} % of the data"),
        _ => String::new(),
    }
}

fn last_close(report: &Report) -> String {
    if report.closed_cleanly {
        return "clean".to_owned();
    }
    let replayed = human_count(report.replayed_records);
    let stranded = match report.stranded_records {
        0 => String::new(),
        some => format!(" ({} records among them, see `pipkin verify`)", human_count(some)),
    };
    match report.torn_bytes {
        0 => format!("unclean, nothing lost; {replayed} records replayed"),
        torn => format!("unclean, {torn} unfinished bytes at the end ignored{stranded}; {replayed} records replayed"),
    }
}
