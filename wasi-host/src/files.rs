//! The functions of `wasi:filesystem` that the component uses, run to completion in the calling thread.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

/// What a function of `wasi:filesystem` returns: a value, an error that the guest sees, or a trap.
type Answer<T> = Result<(std::result::Result<T, ErrorCode>,)>;
type File = Resource<Descriptor>;

/// Adds methods of a descriptor, by their names in WIT and in Rust.
macro_rules! functions {
    ($types:ident: $($name:literal => $function:ident($($given:ident: $kind:ty),*),)*) => {
        $($types.func_wrap(
            concat!("[method]descriptor.", $name),
            |mut store: StoreContextMut<'_, T>, ($($given,)*): ($($kind,)*)| {
                answer(HostDescriptor::$function(&mut store.data_mut().filesystem(), $($given),*))
            },
        )?;)*
    };
}

/// Replaces the functions that pipkin's component does its I/O with, as
/// [`wasmtime_wasi::p2::add_to_linker_sync`] has added them before, by faster ones.
///
/// Wasmtime's own enter Tokio in each call, which costs more than the write itself and panics inside a running Tokio task. These do the
/// work in the calling thread and return, provided that the WASI context has `allow_blocking_current_thread`; without it they enter
/// Tokio as well. [`linker`](crate::linker) includes them; an embedder with its own state type adds them:
///
/// ```
/// # struct State { wasi: wasmtime_wasi::WasiCtx, table: wasmtime::component::ResourceTable }
/// # impl wasmtime_wasi::WasiView for State {
/// #     fn ctx(&mut self) -> wasmtime_wasi::WasiCtxView<'_> {
/// #         wasmtime_wasi::WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
/// #     }
/// # }
/// # fn main() -> wasmtime::Result<()> {
/// let mut linker = wasmtime::component::Linker::<State>::new(&pipkin_wasi_host::engine()?);
/// wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
/// pipkin_wasi_host::add_files_to_linker(&mut linker)?;
/// # Ok(())
/// # }
/// ```
///
/// Afterwards the linker refuses to define a name twice (no shadowing), which is its default.
///
/// # Errors
///
/// None with the versions of Wasmtime that this crate supports.
pub fn add_files_to_linker<T: WasiView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    functions!(types:
        "read" => read(file: File, len: u64, offset: u64),
        "write" => write(file: File, bytes: Vec<u8>, offset: u64),
        "sync-data" => sync_data(file: File),
        "set-size" => set_size(file: File, size: u64),
        "stat" => stat(file: File),
        "open-at" => open_at(folder: File, links: PathFlags, path: String, how: OpenFlags, access: DescriptorFlags),
        "unlink-file-at" => unlink_file_at(folder: File, path: String),
    );
    types.func_wrap("[method]descriptor.is-same-object", |mut store: StoreContextMut<'_, T>, (left, right): (File, File)| {
        Ok((finished(HostDescriptor::is_same_object(&mut store.data_mut().filesystem(), left, right))?,))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Replaces the writing functions of [`add_files_to_linker`] by ones that refuse (`Quota`) to make a file longer than `most` bytes.
pub(crate) fn limit_files<T: WasiView + 'static>(linker: &mut Linker<T>, most: u64) -> Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    types.func_wrap(
        "[method]descriptor.write",
        move |mut store: StoreContextMut<'_, T>, (file, bytes, offset): (File, Vec<u8>, u64)| {
            if offset.saturating_add(bytes.len() as u64) > most {
                return Ok((Err(ErrorCode::Quota),));
            }
            answer(HostDescriptor::write(&mut store.data_mut().filesystem(), file, bytes, offset))
        },
    )?;
    types.func_wrap("[method]descriptor.set-size", move |mut store: StoreContextMut<'_, T>, (file, size): (File, u64)| {
        if size > most {
            return Ok((Err(ErrorCode::Quota),));
        }
        answer(HostDescriptor::set_size(&mut store.data_mut().filesystem(), file, size))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Makes files that the component creates private to this user (Unix: mode 0600), like a store that the host creates: a copy of a private
/// store is private. The mode is set while the file is still empty.
pub(crate) fn private_files<T: WasiView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    linker.allow_shadowing(true);
    linker.instance("wasi:filesystem/types@0.2.12")?.func_wrap(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, T>,
         (folder, links, path, how, access): (File, PathFlags, String, OpenFlags, DescriptorFlags)| {
            let mut files = store.data_mut().filesystem();
            let is_new = how.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
            let opened = answer(HostDescriptor::open_at(&mut files, folder, links, path, how, access))?;
            if let (true, (Ok(file),)) = (is_new, &opened)
                && let Descriptor::File(file) = files.table.get(file)?
            {
                set_private(&file.file)?;
            }
            Ok(opened)
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

#[cfg(unix)]
fn set_private(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn set_private(_: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

fn answer<T>(result: impl Future<Output = FsResult<T>>) -> Answer<T> {
    Ok((match finished(result) {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Runs a future to its end. One that may block in this thread is ready at its first poll; any other enters Tokio.
fn finished<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => wasmtime_wasi::runtime::in_tokio(future),
    }
}
