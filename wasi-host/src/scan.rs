//! Iterating over records, one page of them per call.

use crate::bindings::exports::pipkin::kv::types::Packed;
use crate::packed::Strings;
use crate::session::Session;
use crate::{Entry, Result};
use std::vec;
use wasmtime::component::ResourceAny;

/// A page ends at either.
const PAGE_ENTRIES_MAX: u32 = 1000;
const PAGE_BYTES_MAX: u32 = 1 << 20;

/// Iterates over records, in no particular order; from [`Db::scan`](crate::Db::scan) and [`Records::scan`](crate::Records::scan).
pub struct Scan<'a> {
    session: &'a mut Session,
    scan: ResourceAny,
    /// The lengths of the strings of the page that are still to come.
    lengths: vec::IntoIter<u32>,
    strings: Strings,
    done: bool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(session: &'a mut Session, namespace: Option<&str>, prefix: &[u8]) -> Result<Self> {
        let scan = session.call(|instance, _| {
            let namespace = match instance.namespace(namespace)? {
                Ok(namespace) => namespace,
                Err(error) => return Ok(Err(error)),
            };
            Ok(Ok(instance.provider.pipkin_kv_store().namespace().call_scan(&mut instance.store, namespace, prefix)?))
        })?;
        Ok(Self { session, scan, lengths: Vec::new().into_iter(), strings: Strings::default(), done: false })
    }

    fn fetch(&mut self) -> Result<Packed> {
        let scan = self.scan;
        self.session.call(|instance, _| {
            let guest = instance.provider.pipkin_kv_store().scan();
            let page = guest.call_next_packed(&mut instance.store, scan, PAGE_ENTRIES_MAX, PAGE_BYTES_MAX)?;
            if !matches!(&page, Ok(page) if !page.lengths.is_empty()) {
                scan.resource_drop(&mut instance.store)?;
            }
            Ok(page)
        })
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let (Some(key), Some(value)) = (self.lengths.next(), self.lengths.next()) {
                return Some(Ok(Entry { key: self.strings.next(key), value: self.strings.next(value) }));
            }
            if self.done {
                return None;
            }
            match self.fetch() {
                Ok(page) => {
                    self.done = page.lengths.is_empty();
                    (self.lengths, self.strings) = (page.lengths.into_iter(), Strings::new(page.bytes));
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Drop for Scan<'_> {
    /// Releases the walk in the component, whose table of handles is limited.
    fn drop(&mut self) {
        if !self.done {
            let scan = self.scan;
            let _ = self.session.call(|instance, _| Ok(Ok(scan.resource_drop(&mut instance.store)?)));
        }
    }
}
