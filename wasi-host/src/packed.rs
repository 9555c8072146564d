//! Many byte strings in one piece, as they cross into the sandbox and out of it.

use crate::bindings::exports::pipkin::kv::types::Packed;
use pipkin_wasi_shared::Packing;

/// Converts to the type of the interface.
pub(crate) fn packed(packing: Packing) -> Packed {
    Packed { lengths: packing.lengths, bytes: packing.bytes }
}

/// The strings of an answer, one after the other. If the component returned lengths that do not fit the bytes, strings come out short.
#[derive(Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    at: usize,
}

impl Strings {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn next(&mut self, length: u32) -> Vec<u8> {
        let end = self.at.saturating_add(length as usize).min(self.bytes.len());
        let string = self.bytes.get(self.at..end).unwrap_or_default().to_vec();
        self.at = end;
        string
    }
}
