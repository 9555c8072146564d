//! The log from the newest checkpoint to its end, as following it has found it.

use crate::frame::Next;
use crate::index::KeyHash;
use crate::log::{Figures, Segment, SegmentHeader, SegmentList, Stranded};
use crate::sorted::Set;
use alloc::vec::Vec;

/// A record of the tail, to be applied once the whole tail is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) offset: u64,
    pub(crate) namespace: u32,
    pub(crate) hash: KeyHash,
    /// Of a record that no index of this build points at: its bytes.
    pub(crate) carried: Option<u64>,
}

/// The log behind the newest checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The segments that the checkpoint lists, in log order; the last one holds the checkpoint itself.
    pub(crate) listed: SegmentList,
    /// Segments of the tail in log order. The first one is the last of `listed`, where there is one.
    pub(crate) tail: Vec<Segment>,
    /// Records of whole commits behind the checkpoint, in log order.
    pub(crate) ops: Vec<Op>,
    /// Bases of segments that were retired behind the checkpoint.
    pub(crate) retired: Set,
    /// The log position behind every segment that was ever begun.
    pub(crate) next_base: u64,
    /// The number behind that of every header that was ever written.
    pub(crate) next_header: u64,
    /// The number of the newest header that counts.
    pub(crate) headers: u64,
    /// The number behind that of every event.
    pub(crate) next_event: u64,
    /// Log position of the end.
    pub(crate) end: u64,
    /// The log is known to have been synced up to here.
    pub(crate) proven: u64,
    /// The last writer closed the store.
    pub(crate) clean: bool,
    /// Where the unfinished end begins, and its bytes.
    pub(crate) torn: Option<(u64, u64)>,
    /// Bytes of log behind the checkpoint.
    pub(crate) tail_bytes: u64,
    /// Headers of which the crash has left one copy, and where: nothing proves that they had been synced.
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    /// Segments whose trailer a crash took, each with the segment that it named.
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    /// Records that check behind the end, or in segments that an earlier recovery has given up and that no checkpoint has listed since.
    pub(crate) stranded: Stranded,
    /// Those segments, whole ones, as they are kept: nothing in them counts.
    pub(crate) kept: Vec<Segment>,
    /// Segments, or the last parts of them, that nothing proves to be synced.
    pub(crate) unproven: Vec<Segment>,
    /// Extents whose headers name the last segment as the one before theirs: the log does not go on there.
    pub(crate) given_up: Vec<u32>,
    /// Runs that the tail names without being on them, each with the value of `successions` there.
    pub(super) claims: Vec<(Next, u64)>,
    /// How often a session has gone on behind the unclean end of another one, as far as the headers of the tail's segments say so.
    pub(super) successions: u64,
    /// The list of the checkpoint does not check; the headers and the snapshot have said the same.
    pub(crate) damaged_list: bool,
    /// Then: the extents at which nothing stands that the snapshot knows. What it says of them was retired behind it.
    pub(crate) stale: Vec<u32>,
}

impl Chain {
    /// All live segments in log order, each with its end.
    pub(crate) fn live_segments(&self) -> Vec<Segment> {
        let first = self.tail.first().map_or(u64::MAX, |segment| segment.base);
        let before = self.listed.segments.iter().filter(|segment| segment.base < first && !self.retired.contains(segment.base));
        before.chain(&self.tail).copied().collect()
    }

    /// The listed segments whose records count: neither retired since nor kept for those alone who read history.
    pub(crate) fn counting_segments(&self) -> Vec<Segment> {
        let listed = self.listed.segments.iter().zip(&self.listed.figures);
        let counts = |(segment, figures): &(&Segment, &Figures)| !figures.history && !self.retired.contains(segment.base);
        listed.filter(counts).map(|(segment, _)| *segment).collect()
    }

    /// Some segments are kept for those alone who read history. A build that does not keep it may only read such a store.
    pub(crate) fn has_history(&self) -> bool {
        self.listed.floor != 0 || self.listed.figures.iter().any(|figures| figures.history)
    }
}
