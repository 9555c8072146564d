//! The log from the newest checkpoint to its end, as recovery has found it.

use crate::frame::Next;
use crate::index::KeyHash;
use crate::log::{Figures, Segment, SegmentHeader, SegmentList, Stranded};
use crate::planted::{Bug, is};
use crate::sorted::Set;
use alloc::vec::Vec;

/// A record of the tail, to be applied once the whole tail is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) offset: u64,
    pub(crate) namespace: u32,
    pub(crate) hash: KeyHash,
    /// Length in bytes of a record that no index of this build points at.
    pub(crate) carried: Option<u64>,
}

/// The log after the newest checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The last tag of a sealed log.
    #[cfg(feature = "encrypt")]
    pub(crate) last_tag: [u8; crate::frame::TAG_LEN],
    /// The segments that the checkpoint lists, in log order; the last one holds the checkpoint itself.
    pub(crate) listed: SegmentList,
    /// Segments of the tail in log order. The first one is the last of `listed`, where there is one.
    pub(crate) tail: Vec<Segment>,
    /// Records of complete commits after the checkpoint, in log order.
    pub(crate) ops: Vec<Op>,
    /// Bases of segments that were retired after the checkpoint.
    pub(crate) retired: Set,
    /// Those of them, and of the listed history, that the floor holds: none of their records counts, and their space is in use.
    pub(crate) kept_history: Set,
    /// Log position from which on history is kept, at the end of the log; 0: none is.
    pub(crate) floor: u64,
    /// Log position after every segment that was ever begun.
    pub(crate) next_base: u64,
    /// A number higher than that of every header ever written.
    pub(crate) next_header: u64,
    /// The number of the newest header that counts.
    pub(crate) headers: u64,
    /// A number higher than that of every event.
    pub(crate) next_event: u64,
    /// Log position of the end.
    pub(crate) end: u64,
    /// The log is known to have been synced up to here.
    pub(crate) proven: u64,
    /// The latest expiry that was acted on.
    pub(crate) clock: u64,
    /// The last session that wrote has closed the store.
    pub(crate) clean: bool,
    /// File offset of the unfinished end, and its length in bytes.
    pub(crate) torn: Option<(u64, u64)>,
    /// Bytes of log after the checkpoint.
    pub(crate) tail_bytes: u64,
    /// Headers of which the crash has left only a part, with their file offsets: nothing proves that they had been synced.
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    /// Segments whose trailer was lost in a crash, each with the segment that it named.
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    /// Valid records after the end, or in segments that an earlier recovery has given up and that no checkpoint has listed since.
    pub(crate) stranded: Stranded,
    /// Those segments, kept whole: none of their records counts.
    pub(crate) kept: Vec<Segment>,
    /// Segments, or the last parts of them, that are not proven to be synced.
    pub(crate) unproven: Vec<Segment>,
    /// Extents whose headers name the last segment as their predecessor, although the log does not continue there.
    pub(crate) given_up: Vec<u32>,
    /// Runs that the tail names without continuing there, each with the value of `successions` at that position.
    pub(super) claims: Vec<(Next, u64)>,
    /// How often a session has continued after the unclean end of another one, according to the headers of the tail's segments.
    pub(super) successions: u64,
    /// The checkpoint's list is damaged; it was rebuilt from the headers and the snapshot.
    pub(crate) damaged_list: bool,
    /// With a damaged list: extents that hold no segment that the snapshot knows. What the snapshot has there was retired after it.
    pub(crate) stale: Vec<u32>,
}

impl Chain {
    /// All live segments in log order, each with its end.
    pub(crate) fn live_segments(&self) -> Vec<Segment> {
        let first = self.tail.first().map_or(u64::MAX, |segment| segment.base);
        let before = self.counting_segments().into_iter().filter(|segment| segment.base < first);
        before.chain(self.tail.iter().copied()).collect()
    }

    /// The listed segments whose records count: neither retired since nor kept only for history.
    pub(crate) fn counting_segments(&self) -> Vec<Segment> {
        let listed = self.listed.segments.iter().zip(&self.listed.figures);
        let counts = |(segment, figures): &(&Segment, &Figures)| {
            (!figures.history || is(Bug::HistoryReplayed)) && !self.retired.contains(segment.base)
        };
        listed.filter(counts).map(|(segment, _)| *segment).collect()
    }

    /// The listed segments that are kept only as history.
    pub(crate) fn history(&self) -> Vec<Segment> {
        self.listed.segments.iter().filter(|segment| self.kept_history.contains(segment.base)).copied().collect()
    }

    /// The listed segments whose space is free, or was when it was used again.
    pub(crate) fn gone(&self) -> Vec<Segment> {
        let listed = self.listed.segments.iter().zip(&self.listed.figures);
        let is_gone = |(segment, figures): &(&Segment, &Figures)| {
            (figures.history || self.retired.contains(segment.base)) && !self.kept_history.contains(segment.base)
        };
        listed.filter(is_gone).map(|(segment, _)| *segment).collect()
    }
}
