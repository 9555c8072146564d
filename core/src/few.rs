//! Lists that are short as a rule, and then need no memory of their own.

/// A list whose first `N` elements stand where the list does. A commit has six such lists, and a vector for each would be an allocation and its
/// release, some 130 instructions of the system's allocator.
#[cfg(feature = "std")]
pub(crate) type Few<T, const N: usize> = smallvec::SmallVec<[T; N]>;

/// Without the standard library a plain vector: a module for the web is smaller by it.
#[cfg(not(feature = "std"))]
pub(crate) type Few<T, const N: usize> = alloc::vec::Vec<T>;
