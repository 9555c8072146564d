//! The component under a Wasmtime of the test's own, for what the host's verbs do not show.

use super::build;
use pipkin_wasi_host::{Sandbox, engine, linker};
use std::path::Path;
use std::sync::OnceLock;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

wasmtime::component::bindgen!({ path: "../wit", world: "pipkin:kv/provider" });

pub(super) use exports::pipkin::kv::store::{Options, Secret};
pub(super) use exports::pipkin::kv::types;

/// The compiled component.
pub(super) struct Machine {
    engine: Engine,
    component: Component,
    linker: Linker<Sandbox>,
}

impl Machine {
    /// The one of all tests: compiling takes longer than most of them.
    pub(super) fn shared() -> &'static Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| Self::of(build::product()))
    }

    /// The same of the component with sealed stores.
    pub(super) fn sealed() -> &'static Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| Self::of(build::sealed()))
    }

    fn of(component: &Path) -> Self {
        let engine = engine().unwrap();
        let component = Component::from_file(&engine, component).unwrap();
        let linker = linker(&engine).unwrap();
        Self { engine, component, linker }
    }

    /// An instance of its own over a folder. Nothing locks the files there.
    pub(super) fn start(&self, folder: &Path) -> (Store<Sandbox>, Provider) {
        let mut instance = Store::new(&self.engine, Sandbox::new(folder).unwrap());
        let provider = Provider::instantiate(&mut instance, &self.component, &self.linker).unwrap();
        (instance, provider)
    }
}
