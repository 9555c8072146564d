//! The component, built once for each test process, and instances of it.

pub(crate) mod build;
pub(crate) mod medium;

use std::path::Path;
use std::sync::OnceLock;

use pipkin_wasi_host::{Sandbox, engine, linker};
use wasmtime::component::Component;
use wasmtime::{Engine, Store};

wasmtime::component::bindgen!({ path: "../wit/proof", world: "proof" });

pub(crate) use exports::pipkin::proof::suite::Digest;
use medium::Medium;

/// One running instance of the component.
pub(crate) struct Guest {
    store: Store<Sandbox>,
    proof: Proof,
}

impl Guest {
    /// An instance whose root is `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self::on(directory, Medium::Whole)
    }

    /// An instance whose files lie on a medium that is not as good as the real one.
    pub(crate) fn on(directory: &Path, medium: Medium) -> Self {
        let (engine, component) = compiled();
        let mut linker = linker(engine).unwrap();
        medium.add_to_linker(&mut linker);
        let mut store = Store::new(engine, Sandbox::new(directory).unwrap());
        let proof = Proof::instantiate(&mut store, component, &linker).unwrap();
        Self { store, proof }
    }

    pub(crate) fn conformance(&mut self, path: &str) -> Result<u32, String> {
        self.proof.pipkin_proof_suite().call_conformance(&mut self.store, path).unwrap()
    }

    pub(crate) fn tape(&mut self, path: &str, entropy: (u64, u64)) -> Result<Digest, String> {
        self.proof.pipkin_proof_suite().call_tape(&mut self.store, path, entropy).unwrap()
    }

    /// As [`tape`](Self::tape), on a medium that may end the instance; `None` when it did.
    pub(crate) fn try_tape(&mut self, path: &str, entropy: (u64, u64)) -> Option<Result<Digest, String>> {
        self.proof.pipkin_proof_suite().call_tape(&mut self.store, path, entropy).ok()
    }

    pub(crate) fn read(&mut self, path: &str) -> Result<Digest, String> {
        self.proof.pipkin_proof_suite().call_read(&mut self.store, path).unwrap()
    }

    pub(crate) fn put(&mut self, path: &str, entropy: (u64, u64), key: &[u8], len: u32) -> Result<(), String> {
        self.proof.pipkin_proof_suite().call_put(&mut self.store, path, entropy, key, len).unwrap()
    }

    pub(crate) fn fill(&mut self, path: &str) -> Result<u32, String> {
        self.proof.pipkin_proof_suite().call_fill(&mut self.store, path).unwrap()
    }
}

impl PartialEq<pipkin_tape::Digest> for Digest {
    fn eq(&self, other: &pipkin_tape::Digest) -> bool {
        (self.records, self.hash) == (other.records, other.hash)
    }
}

/// The names of what the component asks of its host.
pub(crate) fn imports() -> Vec<String> {
    let (engine, component) = compiled();
    component.component_type().imports(engine).map(|(name, _)| name.to_string()).collect()
}

/// The component in machine code. Cranelift needs longer for it than most tests do, so all tests share it.
fn compiled() -> &'static (Engine, Component) {
    static COMPILED: OnceLock<(Engine, Component)> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let engine = engine().unwrap();
        let component = Component::from_file(&engine, build::proof()).unwrap();
        (engine, component)
    })
}
