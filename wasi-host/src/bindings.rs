//! The component's interfaces, generated from `wit/`.
#![allow(missing_docs, clippy::all, clippy::indexing_slicing, reason = "generated; the WIT has the documents")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "pipkin:kv/provider-base",
    additional_derives: [PartialEq],
});

/// Counted from the write on.
impl From<std::time::Duration> for exports::pipkin::kv::types::Ttl {
    fn from(after: std::time::Duration) -> Self {
        Self::After(pipkin_wasi_shared::millis(after))
    }
}
