//! Prefetch hints to the processor. A batch of lookups requests all of its cache lines before it waits for the first.

/// Limit of cache lines per hint: the length of a small record.
const LINES_MAX: usize = 4;
const LINE_LEN: usize = 64;

/// False where [`prefetch`] does nothing, so that callers need not compute addresses.
pub(crate) const IS_OF_USE: bool = cfg!(any(target_arch = "x86_64", miri));

/// Prefetches the first cache lines of `bytes`.
#[inline]
pub(crate) fn prefetch<T>(bytes: &[T]) {
    let len = size_of_val(bytes).min(LINES_MAX * LINE_LEN);
    let first = bytes.as_ptr().cast::<u8>();
    let mut at = 0;
    while at < len {
        line(first.wrapping_add(at));
        at += LINE_LEN;
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn line(at: *const u8) {
    // SAFETY: a prefetch reads nothing that the program could see and never faults, whatever the address; SSE is part of x86-64.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast()) }
}

/// Does nothing: no stable intrinsic on this architecture. The processor fetches the bytes when they are read, a little later.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
const fn line(_at: *const u8) {}
