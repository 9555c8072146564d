//! For Rust that holds objects of JavaScript: the folder of the origin, random bits, and files opened with a future. A page does all of that
//! itself.

use js_sys::global;
use pipkin::{Error, StorageError, StorageErrorKind};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    Crypto, DedicatedWorkerGlobalScope, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetFileOptions,
    FileSystemSyncAccessHandle,
};

use crate::OpfsStorage;
use crate::calls;
use crate::error::{reason, storage_error};

/// Whether a missing file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The file must be there.
    Existing,
    /// The file is made if there is none.
    Create,
}

impl OpfsStorage {
    /// Opens the file `name` in `directory`.
    ///
    /// [`Error::Locked`] while another tab or worker has it open; [`Error::NotFound`] if it is missing and may not be made.
    pub async fn open(directory: &FileSystemDirectoryHandle, name: &str, access: Access) -> Result<Self, Error> {
        let failed = |thrown: JsValue| open_error(name, &thrown);
        let options = FileSystemGetFileOptions::new();
        options.set_create(access == Access::Create);
        let file = JsFuture::from(directory.get_file_handle_with_options(name, &options)).await.map_err(failed)?;
        let file: FileSystemFileHandle = file.unchecked_into();
        let handle = JsFuture::from(file.create_sync_access_handle()).await.map_err(failed)?;
        Ok(Self::from_handle(handle.unchecked_into())?)
    }

    /// Takes over a handle that is already open.
    pub fn from_handle(handle: FileSystemSyncAccessHandle) -> Result<Self, StorageError> {
        Self::of_file(calls::insert(&handle))
    }
}

/// A failed opening of the file `path`.
fn open_error(path: &str, thrown: &JsValue) -> Error {
    calls::note(thrown);
    let path = path.to_owned();
    match reason().split(':').next() {
        Some("NoModificationAllowedError") => Error::Locked { path, holder: None },
        Some("NotFoundError") => Error::NotFound { path },
        Some("TypeMismatchError") => Error::IsDirectory { path },
        _ => storage_error("open").into(),
    }
}

/// The root of the origin private file system.
///
/// Fails outside of a dedicated worker, on a page that is not a secure context, and in the private windows of some browsers.
pub async fn origin_directory() -> Result<FileSystemDirectoryHandle, Error> {
    let promise = worker()?.navigator().storage().get_directory();
    let directory = JsFuture::from(promise).await.map_err(|thrown| open_error("", &thrown))?;
    Ok(directory.unchecked_into())
}

/// 256 random bits of the browser's cryptographic generator, for [`entropy`](pipkin::Builder::entropy).
pub fn entropy() -> Result<[u8; 32], Error> {
    let mut random = [0; 32];
    let filled = CRYPTO.with(|crypto| crypto.get_random_values_with_u8_array(&mut random).map(drop));
    filled.map_err(|thrown| open_error("", &thrown))?;
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
