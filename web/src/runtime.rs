//! What the standard library would have provided to the module that pages load: an allocator and a panic handler. The library's panic
//! handler prints messages that no browser shows.

use talc::cell::TalcSyncCell;
use talc::wasm::{WasmBinning, WasmGrowAndExtend};

/// Instead of `dlmalloc`, which adds 1.8 KB more to the download. Calls take equally long with both, as far as a noisy machine could tell.
#[global_allocator]
static ALLOCATOR: TalcSyncCell<WasmGrowAndExtend, WasmBinning> = TalcSyncCell::new_wasm(WasmGrowAndExtend::new());

/// A panic ends the worker; to the file this is the same as a closed tab.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
