//! Runs pipkin's WebAssembly component under Wasmtime, with the settings that make a store fast there.
//!
//! Two of them are not Wasmtime's defaults, and each is worth a factor of three and more: [`engine`] turns off the
//! support for concurrent calls, and [`Sandbox`] lets file calls block the calling thread.

mod sandbox;

pub use sandbox::Sandbox;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, Result};

/// A Wasmtime engine for components that make synchronous calls only.
pub fn engine() -> Result<Engine> {
    let mut config = Config::new();
    // Every call would keep the books of concurrent tasks: an empty one costs 0.56 us with them, 0.21 us without.
    config.concurrency_support(false);
    Engine::new(&config)
}

/// A linker that serves WASI 0.2 out of a [`Sandbox`].
pub fn linker(engine: &Engine) -> Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
    Ok(linker)
}
