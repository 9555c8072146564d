//! The interfaces of `wit/` as Rust, generated.
#![allow(missing_docs, clippy::undocumented_unsafe_blocks, reason = "generated; the WIT has the documents")]

use crate::Component;

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/provider" });

export!(Component);
