//! Converts between the types of the engine and those of the interfaces.

use crate::bindings::exports::pipkin::kv::types;
use crate::open::Closed;
use pipkin::Error;

pipkin_wasi_shared::impl_conversions! {
    types: crate::bindings::exports::pipkin::kv::types,
    admin: crate::bindings::exports::pipkin::kv::admin
}

pipkin_wasi_shared::impl_event_conversions! {
    types: crate::bindings::exports::pipkin::kv::types,
    events: crate::bindings::exports::pipkin::kv::events
}

impl From<Closed> for types::Error {
    #[cold]
    #[inline(never)]
    fn from(closed: Closed) -> Self {
        Error::from(closed).into()
    }
}
