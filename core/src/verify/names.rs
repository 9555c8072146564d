//! Name records, as opening reads them.

use crate::error::Result;
use crate::frame::{Header, Kind};
use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::log::Window;
use crate::storage::Storage;
use alloc::string::String;

/// The content of a name record.
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) number: u32,
}

impl Record {
    /// Reads a name record; `None` if it is invalid, which opening refuses.
    pub(crate) fn read(storage: &dyn Storage, offset: u64, header: &Header) -> Result<Option<Self>> {
        let mut window = Window::new(storage, offset + header.frame_len() as u64);
        let bytes = window.bytes(offset, header.frame_len())?;
        let name = core::str::from_utf8(header.key(bytes).unwrap_or_default()).ok();
        let number = header.value(bytes).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_le_bytes(*bytes));
        let record = name.zip(number).map(|(name, number)| Self { name: name.into(), number });
        Ok(record.filter(|record| record.number <= NAMESPACE_NUMBER_MAX && (header.kind == Kind::Put || !record.name.is_empty())))
    }
}
