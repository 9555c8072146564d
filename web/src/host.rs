//! What the engine needs of a worker besides a file.

use js_sys::global;
use pipkin::{Error, StorageError, StorageErrorKind};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Crypto, DedicatedWorkerGlobalScope, FileSystemDirectoryHandle};

use crate::error::storage_error;

/// The root of the origin private file system.
///
/// Fails outside of a dedicated worker, on a page that is not a secure context, and in the private windows of some browsers.
pub async fn origin_directory() -> Result<FileSystemDirectoryHandle, Error> {
    let promise = worker()?.navigator().storage().get_directory();
    let directory = JsFuture::from(promise).await.map_err(|thrown| storage_error("open", &thrown))?;
    Ok(directory.unchecked_into())
}

/// 128 random bits of the browser's cryptographic generator, for [`entropy`](pipkin::Builder::entropy).
pub fn entropy() -> Result<[u8; 16], Error> {
    let failed = |thrown: JsValue| storage_error("random", &thrown);
    let mut random = [0; 16];
    CRYPTO.with(|crypto| crypto.get_random_values_with_u8_array(&mut random).map(drop)).map_err(failed)?;
    Ok(random)
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(thread_local_v2, js_name = crypto)]
    static CRYPTO: Crypto;
}

fn worker() -> Result<DedicatedWorkerGlobalScope, Error> {
    global().dyn_into().map_err(|_| {
        let detail = "files of the origin can only be used in a dedicated worker";
        StorageError::new(StorageErrorKind::PermissionDenied, "open", detail).into()
    })
}
