//! `cargo xtask bench`: pipkin beside its peers, in the workspace `bench/compare`; with `--web` in browsers, in `web/npm/bench`; with
//! `--wasi` under Wasmtime, in `bench/compare-wasi`.

mod wasi;

use crate::checks::wasm::npm_package;
use crate::shell::{Outcome, Step, failed, target_dir};
use crate::tools::Tools;
use std::path::Path;

const MANIFEST: &str = "bench/compare/Cargo.toml";
/// Compiling RocksDB takes most of this on a slow machine.
const BUILD_MINUTES: u64 = 120;
const RUN_MINUTES: u64 = 12 * 60;

pub(crate) fn run(args: &[String]) -> Outcome {
    match args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("--web", rest)) => in_browsers(rest),
        Some(("--wasi", rest)) => wasi::run(rest),
        _ => native(args),
    }
}

/// The npm package and its peers; the arguments are those of the script.
fn in_browsers(args: &[String]) -> Outcome {
    const FOLDER: &str = "web/npm/bench";
    let tools = Tools;
    tools.chromium()?;
    tools.firefox()?;
    npm_package(&tools)?;
    tools.npm_packages(FOLDER)?;
    Step::new("node bench.mjs").args(args.iter().cloned()).dir(FOLDER).limit_minutes(RUN_MINUTES).run()
}

fn native(args: &[String]) -> Outcome {
    let (mut passed_on, mut peers, mut out) = (Vec::new(), None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.len()) {
            ("--quick", _) => passed_on.push(arg.clone()),
            ("--peers", 1..) => peers = args.next(),
            ("--out", 1..) => out = args.next(),
            ("--sets" | "--dir" | "--before", 1..) => passed_on.extend([arg.clone(), args.next().cloned().unwrap_or_default()]),
            ("--peers" | "--out" | "--sets" | "--dir" | "--before", _) => return failed(format!("{arg} wants a value")),
            _ => return failed(format!("`bench` does not know {arg}, see `cargo xtask help`")),
        }
    }
    build(peers.map(String::as_str))?;
    let program = target_dir().join("release").join("pipkin-compare");
    let out = out.map_or_else(|| target_dir().join("compare"), Into::into);
    let mut step = Step::new("").path(&program).args(passed_on).arg("--out").path(&out).limit_minutes(RUN_MINUTES);
    if let Some(peers) = peers {
        step = step.args(["--peers", peers]);
    }
    step.run()?;
    print!("\n{}", std::fs::read_to_string(crate::shell::root().join(&out).join("table.md"))?);
    Ok(())
}

/// Only what was asked for: each peer is a feature of its own, and some take minutes to compile.
fn build(peers: Option<&str>) -> Outcome {
    let mut step = Step::new("cargo build --release --bins --manifest-path").path(Path::new(MANIFEST));
    if let Some(peers) = peers {
        // The plain alternative needs no feature.
        let features: Vec<&str> = peers.split(',').filter(|peer| !peer.is_empty() && *peer != "files").collect();
        step = step.args(["--no-default-features", "--features"]).arg(features.join(","));
    }
    if peers.is_none_or(|peers| peers.split(',').any(|peer| peer == "rocksdb")) {
        Tools.rocksdb()?;
    }
    // Beside everything else: its default would be a second folder of its own.
    step.env("CARGO_TARGET_DIR", target_dir().display().to_string()).limit_minutes(BUILD_MINUTES).run()
}
