//! The two WebAssembly hosts.

use super::Check;
use crate::shell::{Outcome, Step};
use crate::tools::Tools;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::slow("wasi", "the component under Wasmtime, and wasi:keyvalue out of the engine", wasi),
        Check::slow("web", "OPFS passes the storage suite in a worker of headless Chromium", web),
    ]
}

/// The tests build the guests by themselves.
fn wasi(tools: &Tools) -> Outcome {
    tools.rust_targets(&["wasm32-wasip2"])?;
    for features in [[].as_slice(), &["--features", "pipkin-wasi-guest/proof"]] {
        let clippy = Step::new("cargo clippy -p pipkin-wasi-guest -p pipkin-wasi-programs --target wasm32-wasip2");
        clippy.args(features.iter().copied()).args(["--", "-D", "warnings"]).run()?;
    }
    Step::new("cargo test -p pipkin-wasi-host -p pipkin-host").run()
}

fn web(tools: &Tools) -> Outcome {
    tools.browser_tests()?;
    Step::new("wasm-pack test --headless --chrome --mode no-install web").env("WASM_BINDGEN_TEST_TIMEOUT", "300").run()
}
