//! Images of a point: a file put together of one version of each sector.

use super::{Change, CrashPoint, Event, PendingOp};
use crate::storage::crash::image::CrashImage;
use crate::storage::crash::pages::{SECTOR_LEN, SECTORS_PER_PAGE, Sector};
use alloc::vec::Vec;

/// What an image holds in one sector.
#[expect(clippy::large_enum_variant, reason = "at most the eight of a page exist at a time")]
pub(in crate::storage::crash) enum Pick {
    /// The oldest version possible.
    Lost,
    /// The latest one.
    Kept,
    /// Another one, or a mix.
    Bytes(Sector),
}

impl CrashPoint {
    /// The image in which nothing since the last sync reached the medium.
    pub fn synced_image(&self) -> CrashImage {
        CrashImage::new(self.durable.clone())
    }

    /// The image in which everything reached the medium: what the next process finds when this one ended between two calls and the machine
    /// runs on.
    pub fn latest_image(&self) -> CrashImage {
        CrashImage::new(self.current.clone())
    }

    /// What the next process finds when this one was killed: everything reached the medium, except that of an interrupted write only the
    /// first `bytes` bytes did.
    pub fn killed_image(&self, bytes: u64) -> CrashImage {
        let Some(PendingOp::Write { offset, len }) = self.ops.last().copied().filter(|_| self.in_flight) else {
            return self.latest_image();
        };
        let end = offset + bytes.min(len);
        let last_op = self.ops.len() - 1;
        let before = self.lens.iter().rev().find(|change| change.op != last_op).map_or(self.durable.len(), |change| change.len);
        self.assemble(self.lens.len(), self.len().min(before.max(end)), |point, sector, events| {
            let earlier = events.iter().take_while(|event| event.op != last_op).count();
            if earlier == events.len() {
                return Pick::Kept;
            }
            let landed = end.saturating_sub(sector * SECTOR_LEN as u64).min(SECTOR_LEN as u64) as usize;
            let mut content = point.version(sector, events, earlier, point.lens.len());
            copy_range(&mut content, &point.current.sector(sector), 0, landed);
            Pick::Bytes(content)
        })
    }

    /// Length of the write that the crash interrupted, for [`killed_image`](Self::killed_image).
    pub fn in_flight_len(&self) -> u64 {
        match self.ops.last() {
            Some(PendingOp::Write { len, .. }) if self.in_flight => *len,
            _ => 0,
        }
    }

    /// The image in which only the first `ops` of the [`pending`](Self::pending) calls reached the medium.
    pub fn prefix_image(&self, ops: usize) -> CrashImage {
        let kept = self.lens.iter().take_while(|change| change.op < ops).count();
        self.assemble(kept, self.len_after(kept), |point, sector, events| {
            let versions = events.iter().take_while(|event| event.op < ops).count();
            Pick::Bytes(point.version(sector, events, versions, kept))
        })
    }

    /// Number of sectors with two or more possible versions, in an image with this many changes of the length.
    pub(in crate::storage::crash) fn free_sectors(&self, kept: usize) -> usize {
        let len = self.len_after(kept);
        self.sectors
            .iter()
            .take_while(|(sector, _)| **sector * (SECTOR_LEN as u64) < len)
            .filter(|(_, events)| is_free(events, kept))
            .count()
    }

    /// Makes an image; calls `pick`, in rising order, for each sector with two or more possible versions.
    pub(in crate::storage::crash) fn assemble(
        &self,
        kept: usize,
        len: u64,
        mut pick: impl FnMut(&Self, u64, &[Event]) -> Pick,
    ) -> CrashImage {
        let mut image = self.durable.clone();
        let all_kept = kept == self.lens.len();
        let mut sectors = self.sectors.iter().take_while(|(sector, _)| **sector * (SECTOR_LEN as u64) < len).peekable();
        let mut picks = Vec::with_capacity(SECTORS_PER_PAGE as usize);
        while let Some((first, _)) = sectors.peek() {
            let page = *first / SECTORS_PER_PAGE;
            picks.clear();
            while let Some((sector, events)) = sectors.next_if(|(sector, _)| **sector / SECTORS_PER_PAGE == page) {
                let choice = if is_free(events, kept) { pick(self, *sector, events) } else { Pick::Kept };
                picks.push((*sector, events, choice));
            }
            if all_kept && picks.iter().all(|(_, _, pick)| matches!(pick, Pick::Kept)) {
                image.adopt_page(&self.current, page);
                continue;
            }
            for (sector, events, pick) in &picks {
                match pick {
                    Pick::Lost => {
                        let low = low(events, kept);
                        if low > 0 {
                            image.put_sector(*sector, &self.version(*sector, events, low, kept));
                        }
                    }
                    Pick::Kept if all_kept => image.put_sector(*sector, &self.current.sector(*sector)),
                    Pick::Kept => image.put_sector(*sector, &self.version(*sector, events, events.len(), kept)),
                    Pick::Bytes(content) => image.put_sector(*sector, content),
                }
            }
        }
        image.cut(len);
        CrashImage::new(image)
    }

    /// A sector after its first `versions` events, without those that belong to lost changes of the length.
    pub(super) fn version(&self, sector: u64, events: &[Event], versions: usize, kept: usize) -> Sector {
        let mut content = self.durable.sector(sector);
        for event in events.iter().take(versions) {
            match event.change {
                Change::Write { start, len, at } => {
                    if let (Some(target), Some(source)) = (content.get_mut(start..start + len), self.bytes.get(at..at + len)) {
                        target.copy_from_slice(source);
                    }
                }
                Change::Discard => content.fill(0),
                Change::Cut { len_change, .. } if len_change > kept => {}
                Change::Cut { from, .. } => content.iter_mut().skip(from).for_each(|byte| *byte = 0),
            }
        }
        content
    }
}

/// Number of events that are certain once this many changes of the length are: those up to the last cut among them.
pub(super) fn low(events: &[Event], kept: usize) -> usize {
    let is_certain = |event: &Event| matches!(event.change, Change::Cut { len_change, .. } if len_change <= kept);
    events.iter().rposition(is_certain).map_or(0, |last| last + 1)
}

/// True when more than one version of the sector is possible.
fn is_free(events: &[Event], kept: usize) -> bool {
    events.iter().skip(low(events, kept)).any(|event| !matches!(event.change, Change::Cut { .. }))
}

pub(super) fn copy_range(target: &mut Sector, source: &Sector, start: usize, end: usize) {
    if let (Some(target), Some(source)) = (target.get_mut(start..end), source.get(start..end)) {
        target.copy_from_slice(source);
    }
}
