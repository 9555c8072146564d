//! What a log of events keeps by itself.

use super::pipkin::kv::events::{Log, NewEvent, Retention, Selection};
use super::pipkin::kv::store::Db;
use super::pipkin::kv::types::Expected;
use super::{Outcome, check, event, item, reads, words};

fn shown_retention(log: &Log) -> Outcome<(Option<u64>, Option<u64>)> {
    let Retention { max_age_ms, max_events } = log.retention().map_err(words)?;
    Ok((max_age_ms, max_events))
}

/// What a log keeps by itself, in what the host makes of every limit.
pub(super) fn holds(db: &Db, name: &str) -> Outcome<()> {
    let log = Log::open(db, name).map_err(words)?;
    check(shown_retention(&log)? == (None, None) && log.retain().map_err(words)? == 0, "a log keeps all")?;
    let old = (0..10).map(|time| NewEvent { time_ms: Some(time), ..event("old", time.to_string()) }).collect::<Vec<_>>();
    log.append("s", Expected::NoStream, &old).map_err(words)?;
    log.append("s", Expected::Exists, &[event("new", "a"), event("new", "b"), event("new", "c")]).map_err(words)?;
    let set = |max_age_ms, max_events| log.set_retention(Retention { max_age_ms, max_events }).map_err(words);
    set(Some(u64::MAX), Some(u64::MAX))?;
    check(
        shown_retention(&log)? == (Some(u64::MAX), Some(u64::MAX)) && log.retain().map_err(words)? == 0,
        "all is in such limits",
    )?;
    set(Some(86_400_000), None)?;
    // The maintenance of a host with threads may have come first.
    check(log.retain().map_err(words)? <= 10 && log.retain().map_err(words)? == 0, "the old ones go, once")?;
    reads(&log, &Selection::All, 0, false, "s@11:new s@12:new s@13:new")?;
    set(Some(86_400_000), Some(2))?;
    check(log.retain().map_err(words)? <= 1, "one is too many")?;
    reads(&log, &Selection::All, 0, false, "s@12:new s@13:new")?;
    set(Some(0), Some(0))?;
    check(shown_retention(&log)? == (Some(1), Some(1)), "no limit is below one")?;
    let query = [item(&["old"], &[])];
    check(log.append_if(&query, 0, "s", &[event("new", "d")]).map_err(words)?.version == 14, "what went meets no query")?;
    set(None, None)?;
    check(shown_retention(&log)? == (None, None) && log.version("s").map_err(words)? == 14, "it keeps all again")?;
    log.delete_stream("s").map(drop).map_err(words)
}
