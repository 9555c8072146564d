//! Bytes that the device reads and writes during a phase. It counts the whole machine, which should do nothing else.

use crate::Result;
use crate::process::{Traffic, traffic, write_back};
use crate::sample::{Sink, Unit};
use std::path::Path;

/// The counts before a phase; `None` where the device does not count.
pub(super) struct Device<'a> {
    folder: &'a Path,
    before: Option<Traffic>,
}

impl<'a> Device<'a> {
    pub(super) fn before(folder: &'a Path) -> Result<Self> {
        write_back(folder)?;
        Ok(Self { folder, before: traffic(folder) })
    }

    /// Bytes for each of `ops` operations; what they left to be written is written first.
    pub(super) fn after(self, sink: &Sink, row: &str, ops: usize) -> Result<()> {
        self.report(sink, row, |bytes| bytes / ops.max(1) as f64, Unit::BytesEach)
    }

    pub(super) fn total(self, sink: &Sink, row: &str) -> Result<()> {
        self.report(sink, row, |bytes| bytes, Unit::Bytes)
    }

    fn report(self, sink: &Sink, row: &str, share: impl Fn(f64) -> f64, unit: Unit) -> Result<()> {
        write_back(self.folder)?;
        let Some((before, after)) = self.before.zip(traffic(self.folder)) else { return Ok(()) };
        sink.number(&format!("{row}_read"), share((after.read - before.read) as f64), unit)?;
        sink.number(&format!("{row}_written"), share((after.written - before.written) as f64), unit)
    }
}
