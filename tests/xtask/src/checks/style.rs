//! Form, lints, documentation.

use super::Check;
use super::engine::FOREIGN_PACKAGES;
use crate::component::WASMTIME_PACKAGES;
use crate::shell::{Outcome, Step};
use crate::sizes::is_nightly;
use crate::tools::Tools;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::quick("fmt", "every source file is formatted", fmt),
        Check::quick("clippy", "no lint fires on this host, tests included", clippy),
        Check::quick("clippy-wasm", "no lint fires in what is built for WebAssembly only", clippy_wasm),
        Check::quick("doc", "the documentation builds without a warning", doc),
    ]
}

fn fmt(_: &Tools) -> Outcome {
    Step::new("cargo fmt --all --check").run()?;
    Step::new("cargo fmt --check --manifest-path tests/fuzz/Cargo.toml").run()?;
    Step::new("cargo fmt --check --manifest-path tests/oldest/Cargo.toml").run()?;
    Step::new("cargo fmt --all --check --manifest-path bench/compare-wasi/Cargo.toml").run()
}

/// All packages of the workspace, in the groups that cargo can compile at once. The features of the host's crate exclude each other, and
/// those of the command would compile RocksDB; it has the other engines to import from at night alone. Lints and documentation take the same
/// groups: most of what one has compiled serves the other.
fn groups() -> [String; 3] {
    let apart = "--exclude pipkin-wasi-host --exclude pipkin-host --exclude pipkin-cli --exclude pipkin-foreign";
    let command = if is_nightly() { FOREIGN_PACKAGES } else { "-p pipkin-cli -p pipkin-foreign" };
    [format!("--workspace {apart} --all-features"), command.to_owned(), WASMTIME_PACKAGES.to_owned()]
}

fn clippy(_: &Tools) -> Outcome {
    groups().iter().try_for_each(|group| Step::new(&format!("cargo clippy {group} --all-targets -- -D warnings")).run())
}

/// Packages whose code hides from this host behind `cfg`.
const WASM_PACKAGES: [&str; 7] = [
    "-p pipkin --no-default-features --target wasm32-unknown-unknown",
    "-p pipkin --no-default-features --target wasm32-wasip2",
    "-p pipkin-wasi-guest -p pipkin-wasi-programs --target wasm32-wasip2",
    "-p pipkin-wasi-guest --features proof,spin --target wasm32-wasip2",
    // Its tests have a standard library, and what pages load has none.
    "-p pipkin-web --lib --target wasm32-unknown-unknown",
    "-p pipkin-web --lib --features full --target wasm32-unknown-unknown",
    "-p pipkin-web --tests --target wasm32-unknown-unknown",
];

fn clippy_wasm(tools: &Tools) -> Outcome {
    tools.rust_targets(&["wasm32-unknown-unknown", "wasm32-wasip2"])?;
    for package in WASM_PACKAGES {
        Step::new(&format!("cargo clippy {package} -- -D warnings")).run()?;
    }
    Ok(())
}

fn doc(_: &Tools) -> Outcome {
    let doc = |group: &String| Step::new(&format!("cargo doc --no-deps {group}")).env("RUSTDOCFLAGS", "-D warnings").run();
    groups().iter().try_for_each(doc)
}
