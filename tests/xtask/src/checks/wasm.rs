//! The two WebAssembly hosts.

use super::Check;
use crate::shell::{Outcome, Step};
use crate::tools::Tools;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::slow("wasi", "the WASI guest passes the storage suite under Wasmtime", wasi),
        Check::slow("web", "OPFS passes the storage suite in a worker of headless Chromium", web),
    ]
}

/// The test builds the guest by itself.
fn wasi(tools: &Tools) -> Outcome {
    tools.rust_targets(&["wasm32-wasip2"])?;
    Step::new("cargo test -p pipkin-wasi-host").run()
}

fn web(tools: &Tools) -> Outcome {
    tools.browser_tests()?;
    Step::new("wasm-pack test --headless --chrome --mode no-install web").env("WASM_BINDGEN_TEST_TIMEOUT", "300").run()
}
