//! Form, lints, documentation.

use super::Check;
use super::engine::FOREIGN_PACKAGES;
use crate::component::WASMTIME_PACKAGES;
use crate::native::ENGINE_FEATURES;
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

/// What is linted and documented, in the groups that cargo can compile at once: the features of the host's crate exclude each other, and those
/// of the command compile other engines. By day what has no other engine, no Wasmtime and no web server among its dependencies.
fn groups() -> Vec<String> {
    if is_nightly() {
        let apart = "--exclude pipkin-wasi-host --exclude pipkin-host --exclude pipkin-cli --exclude pipkin-foreign";
        return vec![format!("--workspace {apart} --all-features"), FOREIGN_PACKAGES.to_owned(), WASMTIME_PACKAGES.to_owned()];
    }
    let packages = "-p pipkin -p pipkin-cli -p pipkin-tests -p pipkin-power-cut -p pipkin-reader -p pipkin-tape -p xtask";
    vec![format!("{packages} --features {ENGINE_FEATURES},pipkin/planted-bugs")]
}

fn clippy(_: &Tools) -> Outcome {
    groups().iter().try_for_each(|group| Step::new(&format!("cargo clippy {group} --all-targets -- -D warnings")).run())
}

/// Packages whose code hides from this host behind `cfg`.
const WASM_PACKAGES: [&str; 2] = [
    "-p pipkin-wasi-guest -p pipkin-wasi-programs --target wasm32-wasip2",
    // Its tests have a standard library, and what pages load has none.
    "-p pipkin-web --lib --features sealed --target wasm32-unknown-unknown",
];
/// With other features, which hide less.
const WASM_PACKAGES_AT_NIGHT: [&str; 6] = [
    "-p pipkin --no-default-features --target wasm32-unknown-unknown",
    "-p pipkin --no-default-features --target wasm32-wasip2",
    "-p pipkin-wasi-guest --features proof,spin --target wasm32-wasip2",
    "-p pipkin-web --lib --features full --target wasm32-unknown-unknown",
    "-p pipkin-web --lib --target wasm32-unknown-unknown",
    "-p pipkin-web --tests --target wasm32-unknown-unknown",
];

fn clippy_wasm(tools: &Tools) -> Outcome {
    tools.rust_targets(&["wasm32-unknown-unknown", "wasm32-wasip2"])?;
    let at_night: &[&str] = if is_nightly() { &WASM_PACKAGES_AT_NIGHT } else { &[] };
    for package in WASM_PACKAGES.iter().chain(at_night) {
        Step::new(&format!("cargo clippy {package} -- -D warnings")).run()?;
    }
    Ok(())
}

fn doc(_: &Tools) -> Outcome {
    let doc = |group: &String| Step::new(&format!("cargo doc --no-deps {group}")).env("RUSTDOCFLAGS", "-D warnings").run();
    groups().iter().try_for_each(doc)
}
