//! The end of the log: tells a torn tail from damage, and examines what follows the end.

use super::chain::Chain;
use super::evidence::Evidence;
use super::follow::{CommitEnd, Follower};
use super::headers::{are_apart, is_inside_a_record};
use crate::error::{Error, Result};
use crate::frame::DecodeError;
use crate::limits::DATA_START;
use crate::log::{Segment, SegmentHeader, SegmentKind, stranded_in};
use crate::planted::{Bug, is};
use crate::sorted::sort_by_key;
use alloc::vec::Vec;

impl Follower<'_> {
    /// Judges a frame that is not valid: the torn tail of a crash (`Ok`), or damage to bytes that had been synced ([`Error::Corrupt`]).
    pub(super) fn judge(&mut self, segment: &Segment, offset: u64, error: DecodeError) -> Result<()> {
        let evidence = self.evidence();
        let lsn = segment.lsn(self.geometry, offset);
        if self.chain.proven <= lsn {
            self.chain.proven = self.chain.proven.max(evidence.behind(segment, offset)?);
        }
        if self.chain.proven > lsn && !is(Bug::SyncMarkNever) {
            return Err(Error::corrupt(offset, error.what()));
        }
        self.stopped = Some(Segment { end: offset, ..*segment });
        Ok(())
    }

    fn evidence(&self) -> Evidence<'_> {
        let newest_session = (!self.pair.other_damaged).then_some(self.superblock.session);
        Evidence {
            storage: self.storage,
            geometry: self.geometry,
            store_id: self.superblock.store_id,
            newest_session,
            headers: &self.headers,
        }
    }

    /// Judges a file without any segment of the log: an empty log, or [`Error::Corrupt`] if the first one is lost.
    pub(super) fn judge_nothing(&mut self) -> Result<()> {
        let before_all = Segment { base: 0, extent: 0, extents: 0, end: 0, salt: 0, linked: false };
        let evidence = self.evidence();
        self.chain.proven = self.chain.proven.max(evidence.behind(&before_all, u64::MAX)?);
        if self.chain.proven > 0 && !is(Bug::LostBeginningForgotten) {
            return Err(Error::corrupt(DATA_START, "the log begins behind this point, but its first part is missing"));
        }
        // What is there anyway is of a segment whose header a crash has torn.
        let torn = Evidence::used_bytes(self.storage, DATA_START, u64::MAX)?;
        self.find_stranded(&[], u64::MAX, torn)
    }

    /// Examines what follows the end: valid records of complete commits are counted and kept, the rest is counted in bytes. `walked`
    /// are the segments that the walk has seen, `torn` is the number of bytes after the end in them.
    fn find_stranded(&mut self, walked: &[Segment], end: u64, mut torn: u64) -> Result<()> {
        if let Some(segment) = self.stopped {
            self.chain.stranded.add(stranded_in(self.storage, self.geometry, &segment)?);
        }
        let len = self.storage.len()?;
        let listed = self.chain.listed.segments.last().map_or(0, |last| last.base);
        let mut others: Vec<Segment> = Vec::new();
        for (extent, header) in self.headers.iter().filter(|(_, header)| header.kind == SegmentKind::Log && header.base > listed)
        {
            let segment = header.segment(self.geometry, extent);
            if walked.iter().all(|used| are_apart(used, &segment)) {
                others.push(segment);
            }
        }
        sort_by_key(&mut others, |segment| segment.base);
        let mut before = Segment { base: 0, extent: 0, extents: 0, end: 0, salt: 0, linked: false };
        for segment in others {
            // A header inside of a record of the previous segment is part of a value.
            let is_inside =
                !are_apart(&before, &segment) && is_inside_a_record(self.storage, self.geometry, &before, segment.extent)?;
            if is_inside || segment.base < before.next_base(self.geometry) {
                continue;
            }
            let start = self.geometry.start(segment.extent);
            if segment.base > end {
                torn += Evidence::used_bytes(self.storage, start, segment.end.min(len))?;
            }
            // Up to the end of the file: a forged header can name any number of extents.
            let there = self.geometry.extent_of(len.saturating_sub(1)).saturating_sub(segment.extent).saturating_add(1);
            let extents = segment.extents.min(there);
            let kept = Segment { end: segment.first_frame(self.geometry), extents, ..segment };
            let found = stranded_in(self.storage, self.geometry, &kept)?;
            if found.records > 0 {
                self.chain.stranded.add(found);
                self.chain.kept.push(kept);
                if let Some(&header) = self.header_of(&kept)
                    && !SegmentHeader::read_both(self.storage, self.superblock.store_id, start)?.is_whole()
                {
                    self.chain.torn_headers.push((start, header));
                }
            }
            before = segment;
        }
        if torn > 0 {
            let at = self.chain.tail.last().map_or(DATA_START, |last| last.end);
            self.chain.torn = Some((at, torn));
        }
        Ok(())
    }

    /// Ends the log at `commit_end`. The frames of an unfinished commit after it are dropped.
    pub(super) fn finish(&mut self, commit_end: CommitEnd) -> Result<()> {
        let walked = self.chain.tail.clone();
        let given_up = self.chain.tail.split_off(commit_end.segments.min(self.chain.tail.len()));
        let Some(last) = self.chain.tail.last_mut() else {
            return Ok(());
        };
        let limit = last.end;
        last.end = commit_end.offset;
        #[cfg(feature = "encrypt")]
        {
            self.chain.last_tag = commit_end.tag;
        }
        last.linked = false;
        let last = *last;
        self.chain.end = last.lsn(self.geometry, last.end);
        let names_it = |header: &SegmentHeader| (header.previous_base, header.previous_salt) == (last.base, last.salt);
        self.chain.given_up = self.headers.iter().filter(|(_, header)| names_it(header)).map(|(extent, _)| extent).collect();
        if self.chain.clean && self.superblock.clean_end == Some(self.chain.end) {
            return Ok(());
        }
        self.chain.clean = false;
        // A segment in the middle may have lost its header: what follows it would prove that.
        let evidence = self.evidence();
        self.chain.proven = self.chain.proven.max(evidence.behind(&last, limit)?);
        if self.chain.end < self.chain.proven && !is(Bug::SyncMarkNever) && !is(Bug::BatchEndIgnored) {
            return Err(Error::corrupt(last.end, "the log goes on behind this point, but its next part is missing"));
        }
        let mut torn = Evidence::used_bytes(self.storage, last.end, limit)?;
        for segment in &given_up {
            torn += Evidence::used_bytes(self.storage, self.geometry.start(segment.extent), segment.end)?;
        }
        self.find_stranded(&walked, walked.last().map_or(0, |segment| segment.base), torn)?;
        let unproven = self.chain.tail.iter().filter(|segment| segment.next_base(self.geometry) > self.chain.proven);
        self.chain.unproven = unproven.copied().collect();
        self.judge_lost_trailers();
        self.find_torn_headers()
    }

    /// Drops lost trailers that were proven to be synced, since those are damaged; a crash may have lost the others.
    fn judge_lost_trailers(&mut self) {
        let Chain { lost_trailers, tail, proven, .. } = &mut self.chain;
        lost_trailers.retain(|(segment, next)| {
            let damaged = segment.lsn(self.geometry, segment.limit(self.geometry)) < *proven;
            if let Some(segment) = tail.iter_mut().find(|known| known.base == segment.base) {
                segment.linked = damaged;
            }
            !damaged && tail.iter().any(|known| known.base == next.base)
        });
    }

    fn find_torn_headers(&mut self) -> Result<()> {
        for segment in &self.chain.tail {
            let start = self.geometry.start(segment.extent);
            if let Some(&header) = self.header_of(segment)
                && segment.lsn(self.geometry, start) >= self.chain.proven
                && !SegmentHeader::read_both(self.storage, self.superblock.store_id, start)?.is_whole()
            {
                self.chain.torn_headers.push((start, header));
            }
        }
        Ok(())
    }
}
