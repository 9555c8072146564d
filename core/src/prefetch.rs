//! Hints to the processor: the bytes will be read soon. A batch of lookups asks for all of its cache lines before it waits for the first.

/// Cache lines that a hint asks for at most: what a small record takes.
const LINES_MAX: usize = 4;
const LINE_LEN: usize = 64;

/// False where nothing comes of it: then what is to be asked for need not be found either.
pub(crate) const IS_OF_USE: bool = cfg!(any(target_arch = "x86_64", miri));

/// Asks for the cache lines of the first bytes of `bytes`.
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

/// No stable intrinsic elsewhere; the processor finds out by itself, a little later.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
const fn line(_at: *const u8) {}
