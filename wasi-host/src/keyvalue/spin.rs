//! `batch` of `wasi:keyvalue@0.2.0-draft2` in Spin's text: `get-many` answers each key, with or without a value. The rest of the
//! draft is the same in both texts.

use super::bucket::Bucket;
use super::draft2;
use super::off_thread::{Later, off_thread};
use super::view::{View, WasiKeyValue};
use draft2::wit::wasi::keyvalue::store::Error;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};

mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "wit/spin/keyvalue-draft2",
        world: "wasi:keyvalue/imports",
        with: {
            "wasi:keyvalue/store": crate::keyvalue::draft2::wit::wasi::keyvalue::store,
            "wasi:keyvalue/atomics": crate::keyvalue::draft2::wit::wasi::keyvalue::atomics,
        },
    });
}

super::wire::serve_batch!("0.2.0-draft2", (String, Option<Vec<u8>>), |key, value| (key, value));
