//! How much guests may store. Bytes are counted where the files grow, records before they are written.

mod ledger;
mod limits;
mod metered;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
mod tests;

pub(super) use ledger::{Ledger, Open};
pub(super) use limits::{Admitted, FILE_BYTES, Failure, Limits, named};
pub(super) use metered::Metered;

/// The most that a store, or all stores of a context together, may take. Nothing is limited by default.
///
/// A refused call writes nothing: `pipkin:kv` fails with the reason `quota`, `wasi:keyvalue` with an error that names the limit. At the
/// limits of records and memory, reads, removals and changes of existing records still work; at the limit of bytes, reads and removals do,
/// and removals make room.
///
/// ```
/// use pipkin_wasi_host::keyvalue::{Quota, WasiKeyValueCtx};
/// let quota = Quota::default().file_bytes(64 << 20).records(100_000);
/// let ctx = WasiKeyValueCtx::builder().store("").quota("", quota).total_quota(Quota::default().index_bytes(16 << 20)).build();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a quota does nothing until the builder has it"]
pub struct Quota {
    file_bytes: Option<u64>,
    records: Option<u64>,
    index_bytes: Option<u64>,
    namespaces: Option<u64>,
}

impl Quota {
    /// The most bytes that the files may have. A new store gets a segment size that suits the limit. A store of one record takes 17 KB, and
    /// every store keeps some space in reserve. A quarter of it may be kept for guests that follow changes.
    pub fn file_bytes(self, most: u64) -> Self {
        Self { file_bytes: Some(most), ..self }
    }

    /// The most live records, in all namespaces together.
    pub fn records(self, most: u64) -> Self {
        Self { records: Some(most), ..self }
    }

    /// The most memory of this process for the indexes of open stores: 11 to 20 bytes a record. It is checked every 256 new
    /// records, and may be exceeded by what these need. The snapshots of a store may hold as much again, in memory and in its file together:
    /// beyond it the oldest is ended, and answers `snapshot-too-old`.
    pub fn index_bytes(self, most: u64) -> Self {
        Self { index_bytes: Some(most), ..self }
    }

    /// The most named namespaces and logs of events.
    pub fn namespaces(self, most: u64) -> Self {
        Self { namespaces: Some(most), ..self }
    }

    /// The stricter of the two quotas, limit by limit.
    pub(super) fn and(self, other: Self) -> Self {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Self {
            file_bytes: least(self.file_bytes, other.file_bytes),
            records: least(self.records, other.records),
            index_bytes: least(self.index_bytes, other.index_bytes),
            namespaces: least(self.namespaces, other.namespaces),
        }
    }

    fn counts_records(&self) -> bool {
        self.records.is_some() || self.index_bytes.is_some()
    }
}
