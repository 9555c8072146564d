//! The calls of the browser, on files that have numbers: `npm/src/host.js` is the other end. Minus one stands for an error.
//!
//! In the module that pages load they are plain imports, and nothing of JavaScript but numbers and bytes goes through them: the glue for
//! objects would be a twentieth of what a page loads.

#[cfg(feature = "std")]
pub(crate) use bound::{close, flush, insert, note, read, reason, size, truncate, write};
#[cfg(not(feature = "std"))]
pub(crate) use plain::{close, flush, read, reason, size, truncate, write};

/// For tests and other crates.
#[cfg(feature = "std")]
mod bound {
    use wasm_bindgen::JsValue;
    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen(module = "/npm/src/host.js")]
    extern "C" {
        pub(crate) fn insert(handle: &JsValue) -> u32;
        pub(crate) fn read(file: u32, into: &mut [u8], at: f64) -> f64;
        pub(crate) fn write(file: u32, bytes: &[u8], at: f64) -> f64;
        pub(crate) fn size(file: u32) -> f64;
        pub(crate) fn truncate(file: u32, length: f64) -> f64;
        pub(crate) fn flush(file: u32) -> f64;
        pub(crate) fn close(file: u32) -> f64;
        pub(crate) fn note(error: &JsValue);
        pub(crate) fn reason(into: &mut [u8]) -> u32;
    }
}

#[cfg(not(feature = "std"))]
mod plain {
    mod imports {
        #[link(wasm_import_module = "host")]
        unsafe extern "C" {
            pub(super) fn file_read(file: u32, into: *mut u8, len: usize, at: f64) -> f64;
            pub(super) fn file_write(file: u32, bytes: *const u8, len: usize, at: f64) -> f64;
            pub(crate) safe fn file_size(file: u32) -> f64;
            pub(crate) safe fn file_truncate(file: u32, length: f64) -> f64;
            pub(crate) safe fn file_flush(file: u32) -> f64;
            pub(crate) safe fn file_close(file: u32) -> f64;
            pub(super) fn thrown_reason(into: *mut u8, len: usize) -> u32;
        }
    }
    pub(crate) use imports::{file_close as close, file_flush as flush, file_size as size, file_truncate as truncate};

    pub(crate) fn read(file: u32, into: &mut [u8], at: f64) -> f64 {
        // SAFETY: the browser fills these bytes during the call, at most so many.
        unsafe { imports::file_read(file, into.as_mut_ptr(), into.len(), at) }
    }

    pub(crate) fn write(file: u32, bytes: &[u8], at: f64) -> f64 {
        // SAFETY: the browser reads these bytes during the call.
        unsafe { imports::file_write(file, bytes.as_ptr(), bytes.len(), at) }
    }

    pub(crate) fn reason(into: &mut [u8]) -> u32 {
        // SAFETY: the browser fills these bytes during the call, at most so many.
        unsafe { imports::thrown_reason(into.as_mut_ptr(), into.len()) }
    }
}
