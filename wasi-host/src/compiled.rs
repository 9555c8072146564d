//! The component in machine code, kept in a folder between runs: loading it takes a hundredth of the time of compiling it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// How many files this process has begun to write; makes their temporary names distinct.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Compiles the component, or loads the compiled code that `folder` keeps for it.
pub(crate) fn component(engine: &Engine, wasm: &[u8], folder: Option<&Path>) -> Result<Component> {
    let Some(folder) = folder else {
        return Component::new(engine, wasm);
    };
    let mut hasher = DefaultHasher::new();
    (wasm, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let path = folder.join(format!("pipkin-{:016x}.cwasm", hasher.finish()));
    if path.is_file() {
        // SAFETY: the file was written by this function, or by a user who was given access to the folder: the documentation of the
        // builder says that anyone who can write to it can run code in this process. Wasmtime checks the version and the settings, so an
        // outdated file is refused.
        if let Ok(component) = unsafe { Component::deserialize_file(engine, &path) } {
            return Ok(component);
        }
    }
    let component = Component::new(engine, wasm)?;
    // Failing to write the file only makes the next start slower, so errors are ignored.
    if let Ok(bytes) = component.serialize() {
        // Several hosts of one process may write at the same time, so each takes a number.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{number}", std::process::id()));
        let written = fs::create_dir_all(folder).and_then(|()| write_synced(&unfinished, &bytes));
        let _ = written.and_then(|()| fs::rename(&unfinished, &path));
    }
    Ok(component)
}

/// Writes the file and syncs it: if a power cut left the name without the bytes, the file would be code that no compiler produced.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::component;
    use std::path::Path;

    #[test]
    fn a_relative_folder_keeps_what_was_compiled() {
        let engine = crate::engine().unwrap();
        // The current directory of tests is that of the crate.
        let folder = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(".").join(folder.path().file_name().unwrap());
        assert!(relative.is_relative());
        for _ in 0..2 {
            component(&engine, b"\0asm\x0d\0\x01\0", Some(&relative)).unwrap();
            let kept: Vec<_> = relative.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(matches!(kept.as_slice(), [path] if path.extension().is_some_and(|end| end == "cwasm")), "{kept:?}");
        }
    }
}
