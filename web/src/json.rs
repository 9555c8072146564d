//! Reports as JSON.

use alloc::format;
use alloc::string::String;

use pipkin::{CompactReport, SegmentUse, Stats, VerifyReport};

pub(crate) fn compacted(report: &CompactReport) -> String {
    format!(r#"{{"segmentsRetired":{},"bytesFreed":{}}}"#, report.segments_retired, report.bytes_freed)
}

pub(crate) fn stats(stats: &Stats) -> String {
    format!(
        concat!(
            r#"{{"records":{},"fileBytes":{},"liveBytes":{},"deadBytes":{},"#,
            r#""segments":{},"freeSegments":{},"segmentSize":{},"indexBytes":{},"expiring":{},"clockBehindMs":{}}}"#
        ),
        stats.records,
        stats.file_bytes,
        stats.live_bytes,
        stats.dead_bytes,
        stats.segments,
        stats.free_segments,
        stats.segment_size,
        stats.index_bytes,
        stats.expiring,
        stats.clock_behind_ms
    )
}

pub(crate) fn segments(segments: &[SegmentUse]) -> String {
    let one = |segment: &SegmentUse| {
        let (what, bytes, used, live) = match *segment {
            SegmentUse::Log { len, used, live, .. } => ("log", len, used, live),
            SegmentUse::Free { len, .. } => ("free", len, 0, 0),
            SegmentUse::Other { len, .. } => ("other", len, 0, 0),
            _ => ("other", 0, 0, 0),
        };
        format!(r#"{{"use":"{what}","bytes":{bytes},"usedBytes":{used},"liveBytes":{live}}}"#)
    };
    list(segments.iter().map(one))
}

pub(crate) fn verified(report: &VerifyReport) -> String {
    let damage = report.damage.iter().map(|damage| format!(r#"{{"offset":{},"what":"{}"}}"#, damage.offset, damage.what));
    format!(r#"{{"records":{},"bytesChecked":{},"damage":{}}}"#, report.records, report.bytes_checked, list(damage))
}

fn list(entries: impl Iterator<Item = String>) -> String {
    let mut list = String::from("[");
    for entry in entries {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(&entry);
    }
    list.push(']');
    list
}
