//! `merge`: one atomic step by the operator of the namespace.

use super::handle::Namespace;
use super::write::Change;
use crate::error::{Error, Result};
use crate::log::Frame;
use crate::nested::Held;
use alloc::vec::Vec;

impl Namespace {
    /// Combines the value of a key with an operand by the [merge operator](crate::Builder::merge_operator) of this namespace, and returns
    /// the new value. Atomic: no other write of the key comes in between. The file holds the result, not the operand, so it can be read
    /// without the operator.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// use pipkin::{Db, merge};
    ///
    /// let db = Db::builder().merge_operator("visits", "add", merge::add).merge_operator("log", "append", merge::append).in_memory()?;
    /// let visits = db.namespace("visits")?;
    /// visits.merge("/about", 1_u64.to_be_bytes())?;
    /// assert_eq!(visits.merge("/about", 2_u64.to_be_bytes())?, 3_u64.to_be_bytes());
    ///
    /// let log = db.namespace("log")?;
    /// log.merge("today", "one,")?;
    /// log.merge("today", "two,")?;
    /// assert_eq!(log.get("today")?.as_deref(), Some(&b"one,two,"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoMergeOperator`] where none was registered, [`Error::MergeRefused`] when the operator cannot combine the two (nothing was
    /// written), and those of [`Self::compare_and_swap`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let operator = self.store.attached.operators.of(self.name())?;
        let mut merged = Ok(Vec::new());
        self.store.change(self, key.as_ref(), &mut |old| {
            let _inside = self.store.engine.inside(Held::Shard);
            merged = (operator.function)(old.map(Frame::value), operand.as_ref());
            merged.as_ref().map_or(Change::None, |value| Change::To(Some(value.clone())))
        })?;
        merged.map_err(|reason| Error::MergeRefused { operator: operator.name.as_str().into(), reason: reason.into() })
    }
}
