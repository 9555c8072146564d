//! The interfaces of `wit/`, generated as Rust.
#![allow(missing_docs, clippy::undocumented_unsafe_blocks, reason = "generated; the WIT has the documents")]

use crate::Component;

#[cfg(not(feature = "spin"))]
wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/provider" });
#[cfg(feature = "spin")]
wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/provider-base" });

export!(Component);

/// The one interface that has two texts under the same name. It is generated separately; linking the component joins it with the rest.
#[cfg(feature = "spin")]
pub(crate) mod spin {
    use crate::Component;

    wit_bindgen::generate!({
        inline: "
            package pipkin:spin;

            world draft2 {
                export wasi:keyvalue/store@0.2.0-draft2;
                export wasi:keyvalue/atomics@0.2.0-draft2;
                export wasi:keyvalue/batch@0.2.0-draft2;
            }
        ",
        path: "../../wit/spin/keyvalue-draft2",
        world: "pipkin:spin/draft2",
    });

    export!(Component);
}
