//! Merge operators: functions that combine the value of a key with an operand. See [`Builder::merge_operator`](crate::Builder::merge_operator).

use crate::error::{Error, Result};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Makes a key's new value of the old one, if there is any, and an operand; or says why it cannot.
pub(crate) type Function = dyn Fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, String> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Operator {
    namespace: String,
    pub(crate) name: String,
    pub(crate) function: Arc<Function>,
}

/// The merge operators of a store.
#[derive(Clone, Default)]
pub(crate) struct Operators(Vec<Operator>);

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|operator| (&operator.namespace, &operator.name))).finish()
    }
}

impl Operators {
    /// Registers the operator of a namespace; an earlier one of it goes.
    pub(crate) fn register(&mut self, namespace: String, name: String, function: Arc<Function>) {
        self.0.retain(|other| other.namespace != namespace);
        self.0.push(Operator { namespace, name, function });
    }

    pub(crate) fn of(&self, namespace: &str) -> Result<&Operator> {
        let found = self.0.iter().find(|operator| operator.namespace == namespace);
        found.ok_or_else(|| Error::NoMergeOperator { namespace: namespace.into() })
    }
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| alloc::format!("a number has 8 bytes, and here are {}", bytes.len()))
}

/// Merge operator of counters: adds the operand to the value, both unsigned numbers of 8 bytes, the highest byte first. No value counts as
/// zero. A sum that 8 bytes cannot hold is refused.
///
/// ```
/// use pipkin::merge::add;
///
/// assert_eq!(add(None, &5_u64.to_be_bytes()), Ok(5_u64.to_be_bytes().to_vec()));
/// assert!(add(Some(&u64::MAX.to_be_bytes()), &1_u64.to_be_bytes()).is_err());
/// ```
pub fn add(old: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    let sum = old.map_or(Ok(0), number)?.checked_add(number(operand)?);
    Ok(sum.ok_or("the counter is full")?.to_be_bytes().into())
}

/// Merge operator that appends the operand to the value.
///
/// ```
/// assert_eq!(pipkin::merge::append(Some(b"one,"), b"two,"), Ok(b"one,two,".to_vec()));
/// ```
pub fn append(old: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    Ok([old.unwrap_or_default(), operand].concat())
}

/// Merge operator that keeps the larger one, compared byte by byte: of numbers with the highest byte first, the larger number.
///
/// ```
/// assert_eq!(pipkin::merge::max(Some(b"b"), b"a"), Ok(b"b".to_vec()));
/// ```
pub fn max(old: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    Ok(old.map_or(operand, |old| old.max(operand)).into())
}

/// Merge operator that keeps the smaller one, compared byte by byte. No value is larger than any operand.
///
/// ```
/// assert_eq!(pipkin::merge::min(None, b"a"), Ok(b"a".to_vec()));
/// ```
pub fn min(old: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    Ok(old.map_or(operand, |old| old.min(operand)).into())
}
