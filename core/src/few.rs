//! Lists that are short as a rule, and then need no memory of their own.

/// A list whose first `N` elements stand where the list does: a commit of one record, of which a transaction has several such lists, spends
/// a quarter of its time on their allocations otherwise.
#[cfg(feature = "std")]
pub(crate) type Few<T, const N: usize> = smallvec::SmallVec<[T; N]>;

/// Without the standard library a plain vector: a module for the web is smaller by it.
#[cfg(not(feature = "std"))]
pub(crate) type Few<T, const N: usize> = alloc::vec::Vec<T>;
