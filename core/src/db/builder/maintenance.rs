//! Options for what a store does on its own: checkpoints, compaction, forgetting what has expired, ending snapshots.

use super::Builder;

impl Builder {
    /// Log bytes after the newest checkpoint from which the next one is written; bounds the replay when the store is opened after a crash;
    /// never less than 512 for each segment of the store, and otherwise never more than as many segments as one can list, so that a full medium can
    /// be compacted: 256 KiB with [segments](Self::segment_size) of 4 KiB, 4 MiB with 16 KiB, 64 MiB with 64 KiB. Default: 32 MiB.
    ///
    /// ```
    /// // After a crash opening replays 4 MiB of log, not 32; a checkpoint is written more often for it.
    /// let db = pipkin::Db::builder().replay_debt_max(4 << 20).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn replay_debt_max(mut self, bytes: u64) -> Self {
        self.options.replay_debt_max = bytes;
        self
    }

    /// Share of dead bytes, from 0.1 to 1, from which a segment is compacted automatically; more than 1 turns that off. One whose records all
    /// expire before long is left until they have, and freed without copying them: it waits at most twice as long as they have been expiring.
    /// Below 0.1 compaction might never end: the segment lists that checkpoints write meanwhile are soon dead, and may be a sixteenth of what it
    /// writes. Default: 0.5.
    ///
    /// ```
    /// // A store that is compacted only when it is told to.
    /// let db = pipkin::Db::builder().auto_compact_dead_share(2.0).in_memory()?;
    /// db.compact()?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn auto_compact_dead_share(mut self, share: f64) -> Self {
        self.options.compact_dead_share = share;
        self
    }

    /// Most bytes per second that automatic compaction copies, so that it leaves the medium to other work. [`Db::compact`](crate::Db::compact) is
    /// not limited. Default: no limit.
    ///
    /// ```
    /// let db = pipkin::Db::builder().auto_compact_rate(20 << 20).in_memory()?; // 20 MiB a second
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn auto_compact_rate(mut self, bytes_per_second: u64) -> Self {
        self.options.compact_rate = Some(bytes_per_second);
        self
    }

    /// Runs checkpoints and automatic compaction in the background; without it, the write that finds them due runs them. All stores of a process
    /// share a few threads for it (eight at most), which end while nothing is due. Default: true for [`Builder::open`], false for other storages.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// // No thread: whoever writes does the maintenance, too.
    /// let db = pipkin::Db::builder().background(false).path(folder.path().join("app.pipkin")).open()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn background(mut self, background: bool) -> Self {
        self.options.background = Some(background);
        self
    }

    /// Whether automatic maintenance forgets records that have expired: the background thread every second, without one the writes that run
    /// maintenance. Without it only counts, compaction and [`Db::sweep_expired`](crate::Db::sweep_expired) do. No answer depends on it, only
    /// memory. Default: true.
    ///
    /// ```
    /// let db = pipkin::Db::builder().auto_sweep(false).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn auto_sweep(mut self, sweep: bool) -> Self {
        self.options.sweep = sweep;
        self
    }

    /// Most records, roughly, that the background thread forgets per second, so that many that expire together do not hold writers up.
    /// Default: no limit.
    ///
    /// ```
    /// let db = pipkin::Db::builder().auto_sweep_rate(10_000).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn auto_sweep_rate(mut self, records_per_second: u64) -> Self {
        self.options.sweep_rate = Some(records_per_second);
        self
    }

    /// Bytes that [snapshots](crate::Db::snapshot) may hold, in the file and in memory; beyond it maintenance ends the oldest one, which then answers
    /// [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld). [`Stats::snapshot_held_bytes`](crate::Stats::snapshot_held_bytes) and
    /// [`Stats::snapshot_memory_bytes`](crate::Stats::snapshot_memory_bytes) are what counts. Default: no limit.
    ///
    /// On a full medium the oldest snapshot is ended with or without a limit, when nothing else makes room for removals.
    pub fn snapshot_limit(mut self, bytes: u64) -> Self {
        self.options.snapshot_limit = Some(bytes);
        self
    }
}
