//! What the standard library would have brought: an allocator, the host's door to it, and the end of a program that
//! panicked.

use alloc::alloc::{Layout, alloc, realloc};
use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Where the host gets memory for lists and strings that it hands to the guest (component model, canonical ABI).
///
/// The C library of the toolchain has one too, over an allocator of its own; but the guest frees what it was handed, so it
/// has to come from the guest's allocator.
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
        // SAFETY: the size is not zero.
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

/// A panic ends the instance: the host gets a trap, drops the instance and opens the store again in a new one, which is
/// the same as after a killed process.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

// The compiler emits calls to `memcpy` and `memcmp`; on this target they come from the C library of the toolchain.
#[link(name = "c")]
unsafe extern "C" {}
