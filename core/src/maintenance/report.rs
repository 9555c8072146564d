//! Report and progress of a compaction.

/// What a compaction did.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// for n in 0..1000_u32 {
///     db.insert("counter", n.to_le_bytes())?; // 999 of these are dead
/// }
/// let report = db.compact()?;
/// println!("{} records copied, {} bytes freed", report.records_copied, report.bytes_freed);
/// assert_eq!(db.len()?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Number of segments that were emptied and retired.
    pub segments_retired: u64,
    /// Number of records that were copied to the end of the log, tombstones included.
    pub records_copied: u64,
    /// Bytes of the copied records.
    pub bytes_copied: u64,
    /// Bytes of the file that became free for new records, or were returned to the host.
    pub bytes_freed: u64,
}

impl CompactReport {
    pub(crate) fn add(&mut self, other: Self) {
        self.segments_retired += other.segments_retired;
        self.records_copied += other.records_copied;
        self.bytes_copied += other.bytes_copied;
        self.bytes_freed += other.bytes_freed;
    }
}

/// How far a compaction has come.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.compact_with(|progress| println!("{} of {} segments", progress.segments_done, progress.segments_total))?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Segments that are done: emptied, or skipped.
    pub segments_done: u64,
    /// Segments to go through in all.
    pub segments_total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_added_field_by_field() {
        let mut report = CompactReport { segments_retired: 1, records_copied: 20, bytes_copied: 300, bytes_freed: 4_000 };
        report.add(CompactReport { segments_retired: 5, records_copied: 60, bytes_copied: 700, bytes_freed: 8_000 });
        let expected = CompactReport { segments_retired: 6, records_copied: 80, bytes_copied: 1_000, bytes_freed: 12_000 };
        assert_eq!(report, expected);
    }
}
