//! Media with the weaknesses of real ones, put between the guest and its file.

use std::sync::atomic::{AtomicU64, Ordering};

use pipkin_wasi_host::Sandbox;
use wasmtime::component::{Linker, Resource, WasmList};
use wasmtime::{StoreContextMut, format_err};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{ErrorCode, HostDescriptor};

const FILES: &str = "wasi:filesystem/types@0.2.12";

/// How the medium behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// As the host's own.
    Whole,
    /// Takes and gives at most this many bytes a call.
    Short(u64),
    /// Has room up to this offset: writes across it are short, writes behind it fail.
    Full(u64),
    /// Takes this many writes; the next one ends the instance, as a killed process would.
    Dies(u64),
}

type Answer<T> = wasmtime::Result<(Result<T, ErrorCode>,)>;

impl Medium {
    /// Puts the medium in the place of the host's own.
    pub(crate) fn add_to_linker(self, linker: &mut Linker<Sandbox>) {
        if self == Self::Whole {
            return;
        }
        linker.allow_shadowing(true);
        let mut files = linker.instance(FILES).unwrap();
        let writes = AtomicU64::new(0);
        files
            .func_wrap(
                "[method]descriptor.write",
                move |store: StoreContextMut<'_, Sandbox>, (file, bytes, offset): (Resource<Descriptor>, WasmList<u8>, u64)| {
                    if let Self::Dies(most) = self
                        && writes.fetch_add(1, Ordering::Relaxed) >= most
                    {
                        return Err(format_err!("killed by the test"));
                    }
                    self.write(store, file, bytes, offset)
                },
            )
            .unwrap();
        files
            .func_wrap(
                "[method]descriptor.read",
                move |store: StoreContextMut<'_, Sandbox>, (file, len, offset): (Resource<Descriptor>, u64, u64)| {
                    self.read(store, file, len, offset)
                },
            )
            .unwrap();
    }

    fn write(
        self,
        mut store: StoreContextMut<'_, Sandbox>,
        file: Resource<Descriptor>,
        bytes: WasmList<u8>,
        offset: u64,
    ) -> Answer<u64> {
        let room = match self {
            Self::Whole | Self::Dies(_) => u64::MAX,
            Self::Short(len) => len,
            Self::Full(end) => end.saturating_sub(offset),
        };
        // A slice of the guest's memory: only what the medium takes is copied.
        let bytes = bytes.as_le_slice(&store);
        if room == 0 && !bytes.is_empty() {
            return Ok((Err(ErrorCode::InsufficientSpace),));
        }
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let bytes = bytes.get(..taken).unwrap_or_default().to_vec();
        answer(HostDescriptor::write(&mut store.data_mut().filesystem(), file, bytes, offset))
    }

    fn read(
        self,
        mut store: StoreContextMut<'_, Sandbox>,
        file: Resource<Descriptor>,
        len: u64,
        offset: u64,
    ) -> Answer<(Vec<u8>, bool)> {
        let len = if let Self::Short(most) = self { len.min(most) } else { len };
        answer(HostDescriptor::read(&mut store.data_mut().filesystem(), file, len, offset))
    }
}

fn answer<T>(result: Result<T, FsError>) -> Answer<T> {
    match result {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(error.downcast()?.into()),)),
    }
}
