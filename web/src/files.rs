//! Files of the origin, for tests: opened with a future, which a page does itself otherwise, or read without the storage under test.

use js_sys::{Function, Uint8Array, global};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    DedicatedWorkerGlobalScope, File, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetFileOptions,
    FileSystemSyncAccessHandle,
};

use crate::storage::OpfsStorage;

/// Whether a missing file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The file must be there.
    Existing,
    /// The file is created if there is none.
    Create,
}

/// Opens a file of the origin. The error is what the browser has thrown.
pub(crate) async fn open_file(name: &str, access: Access) -> Result<OpfsStorage, JsValue> {
    let options = FileSystemGetFileOptions::new();
    options.set_create(access == Access::Create);
    let file = JsFuture::from(root().await.get_file_handle_with_options(name, &options)).await?;
    let file: FileSystemFileHandle = file.unchecked_into();
    let handle = JsFuture::from(file.create_sync_access_handle()).await?;
    Ok(OpfsStorage::from_handle(handle.unchecked_into()).unwrap())
}

async fn settled<T: JsCast>(promise: js_sys::Promise) -> T {
    JsFuture::from(promise).await.unwrap().unchecked_into()
}

async fn root() -> FileSystemDirectoryHandle {
    let worker: DedicatedWorkerGlobalScope = global().unchecked_into();
    settled(worker.navigator().storage().get_directory()).await
}

/// The content of a file, read through the browser's asynchronous interface.
pub(crate) async fn bytes_of(name: &str) -> Vec<u8> {
    let file: FileSystemFileHandle = settled(root().await.get_file_handle(name)).await;
    let file: File = settled(file.get_file()).await;
    Uint8Array::new(&settled::<JsValue>(file.array_buffer()).await).to_vec()
}

/// A handle on a new file `name`, with the body of one method replaced by JavaScript, which may use the `real` handle.
pub(crate) async fn weak_handle(name: &str, method: &str) -> FileSystemSyncAccessHandle {
    let options = FileSystemGetFileOptions::new();
    options.set_create(true);
    let file: FileSystemFileHandle = settled(root().await.get_file_handle_with_options(name, &options)).await;
    let real: JsValue = settled(file.create_sync_access_handle()).await;
    let body = format!(
        "return {{
            read: (b, o) => real.read(b.subarray(0, 1000), o),
            write: (b, o) => real.write(b, o),
            truncate: (n) => real.truncate(n),
            getSize: () => real.getSize(),
            flush: () => real.flush(),
            close: () => real.close(),
            {method}
        }}"
    );
    let made = Function::new_with_args("real", &body).call1(&JsValue::NULL, &real);
    made.unwrap().unchecked_into()
}
