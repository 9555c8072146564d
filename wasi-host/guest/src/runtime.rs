//! What the standard library would have provided: an allocator, the function by which the host allocates from it, and a panic
//! handler.

use alloc::alloc::{Layout, alloc, realloc};
use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Allocates the memory for lists and strings that the host passes to the guest (component model, canonical ABI).
///
/// The C library of the toolchain has such a function too, over its own allocator; but the guest frees what it is passed, so the
/// memory has to come from the guest's allocator.
///
/// # Safety
///
/// Called by the host only: `old` is null, or came from here with `old_len` and `align`; `align` is a power of two.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_len: usize, align: usize, new_len: usize) -> *mut u8 {
    if new_len == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    let memory = match (Layout::from_size_align(old_len, align), Layout::from_size_align(new_len, align)) {
        // SAFETY: the new size is not zero.
        (Ok(_), Ok(new)) if old_len == 0 => unsafe { alloc(new) },
        // SAFETY: `old` was allocated here with the old layout; the new size is not zero and makes a valid layout.
        (Ok(old_layout), Ok(_)) => unsafe { realloc(old, old_layout, new_len) },
        _ => core::ptr::null_mut(),
    };
    if memory.is_null() {
        core::arch::wasm32::unreachable();
    }
    memory
}

/// A panic ends the instance: the host gets a trap, drops the instance and opens the store again in a new one, as
/// after a killed process.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

// The compiler emits calls to `memcpy` and `memcmp`; on this target they come from the C library of the toolchain.
#[link(name = "c")]
unsafe extern "C" {}
