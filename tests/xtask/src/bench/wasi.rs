//! `cargo xtask bench --wasi`: pipkin under Wasmtime beside other stores there, in the workspace `bench/compare-wasi`.

use crate::component::shipped;
use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::tools::Tools;
use std::fs;
use std::path::Path;

const MANIFEST: &str = "bench/compare-wasi/Cargo.toml";
const GUESTS: &str = "bench/compare-wasi/guest/Cargo.toml";
const TARGET: &str = "wasm32-wasip2";
const BUILD_MINUTES: u64 = 60;

pub(super) fn run(args: &[String]) -> Outcome {
    let mut passed_on: Vec<String> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.len()) {
            ("--quick" | "--served", _) => passed_on.push(arg.clone()),
            ("--dir", 1..) => passed_on.extend([arg.clone(), args.next().cloned().unwrap_or_default()]),
            _ => return failed(format!("`bench --wasi` does not know {arg}, see `cargo xtask help`")),
        }
    }
    let tools = Tools;
    tools.rust_targets(&[TARGET])?;
    let guests = target_dir().join("compare-wasi");
    fs::create_dir_all(&guests)?;
    peers(&tools, &guests)?;
    component(&tools, &guests)?;
    cargo(&format!("build --release --manifest-path {MANIFEST}")).run()?;
    let program = target_dir().join("release/pipkin-compare-wasi");
    Step::new("").path(&program).arg("--guests").path(&guests).args(passed_on).run()
}

/// Beside everything else: the default of another workspace would be a second folder of its own.
fn cargo(line: &str) -> Step {
    Step::new(&format!("cargo {line}")).env("CARGO_TARGET_DIR", target_dir().display().to_string()).limit_minutes(BUILD_MINUTES)
}

/// SQLite is C, and not every machine can compile that to WebAssembly: without it the table has no such column.
fn peers(tools: &Tools, guests: &Path) -> Outcome {
    let build = |features: &str| {
        cargo(&format!("build --profile guest --target {TARGET} --manifest-path {GUESTS} --examples --features {features}"))
    };
    let mut names = vec!["redb", "composed", "keyvalue"];
    match tools.c_for_wasi() {
        Ok(headers) => {
            names.push("sqlite");
            let flags = format!("--target=wasm32-wasi -isystem {}", headers.display());
            let compiler = [("CC_wasm32_wasip2", "clang"), ("AR_wasm32_wasip2", "llvm-ar"), ("CFLAGS_wasm32_wasip2", &flags)];
            compiler.into_iter().fold(build("redb,sqlite"), |step, (name, value)| step.env(name, value)).run()?;
        }
        Err(stop) => {
            println!("without SQLite: {stop}");
            let _ = fs::remove_file(guests.join("sqlite.wasm"));
            build("redb").run()?;
        }
    }
    for name in names {
        let file = format!("{name}.wasm");
        fs::copy(target_dir().join(TARGET).join("guest/examples").join(&file), guests.join(&file))?;
    }
    Ok(())
}

/// The component as it is shipped, and a program composed with it.
fn component(tools: &Tools, guests: &Path) -> Outcome {
    let component = guests.join("pipkin.wasm");
    fs::copy(shipped(tools)?, &component)?;
    let composed = guests.join("composed.wasm");
    let program = guests.join("program.wasm");
    fs::rename(&composed, &program)?;
    let compose = Step::new("cargo run -p pipkin-wasi-composer --").path(&program).path(&component).path(&composed);
    compose.dir(root()).run()
}
