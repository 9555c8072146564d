//! The component in machine code, kept in a folder between runs: loading it takes a hundredth of the time of compiling it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// Compiles the component, or finds it compiled in `folder`.
pub(crate) fn component(engine: &Engine, wasm: &[u8], folder: Option<&Path>) -> Result<Component> {
    let Some(folder) = folder else {
        return Component::new(engine, wasm);
    };
    let mut hasher = DefaultHasher::new();
    (wasm, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let path = folder.join(format!("pipkin-{:016x}.cwasm", hasher.finish()));
    if path.is_file() {
        // SAFETY: the file was written by this function, or by somebody to whom the folder was entrusted: the builder's documents say
        // that whoever can write to it can run code here. Wasmtime checks version and settings, so an old file is only refused.
        if let Ok(component) = unsafe { Component::deserialize_file(engine, &path) } {
            return Ok(component);
        }
    }
    let component = Component::new(engine, wasm)?;
    // Without the file the next start takes longer; nothing else is wrong then.
    if let Ok(bytes) = component.serialize() {
        let unfinished = folder.join(format!("{}.{}", path.display(), std::process::id()));
        let _ =
            fs::create_dir_all(folder).and_then(|()| fs::write(&unfinished, bytes)).and_then(|()| fs::rename(&unfinished, &path));
    }
    Ok(component)
}
