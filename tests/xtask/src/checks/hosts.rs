//! The hosts that this machine is not: compiled, and for Windows run under wine. Versions that this repository does not use: run.

use super::Check;
use crate::component::shipped;
use crate::native::ENGINE_FEATURES;
use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::sizes::is_nightly;
use crate::tools::Tools;
use std::fs;

/// A machine without an operating system; `clippy-wasm` takes those that are not machines.
const NO_STD_TARGET: &str = "x86_64-unknown-none";
/// Microcontrollers, whose processors have no atomics of 64 bits. The oldest Rust compiles for them.
const MICROCONTROLLERS: [&str; 2] = [CORTEX_M, "riscv32imac-unknown-none-elf"];
const CORTEX_M: &str = "thumbv7em-none-eabihf";
const WINDOWS: &str = "x86_64-pc-windows-gnu";
const MACOS: &str = "aarch64-apple-darwin";

pub(super) fn compile_checks() -> Vec<Check> {
    vec![
        Check::quick("no-std", "the engine compiles without the standard library", no_std),
        Check::quick("windows-check", "the command compiles for Windows; at night its tests, and lints", windows_check),
        Check::quick("macos-check", "engine and command compile for macOS, lints included", |tools| clippy_for(tools, MACOS))
            .at_night(),
    ]
}

pub(super) fn run_checks() -> Vec<Check> {
    vec![
        Check::quick("bare-metal", "the engine works on a microcontroller with 256 KiB of memory, emulated", bare_metal)
            .installing(Tools::arm_emulator)
            .at_night(),
        Check::slow("oldest-rust", "the engine and the command compile with the oldest Rust that they take", oldest_compiles)
            .at_night(),
        Check::slow("oldest", "the crates work with the oldest Rust and the oldest Wasmtime that they take", oldest).at_night(),
        Check::slow(
            "wasmtime-versions",
            "a fresh program gets the Wasmtime that it asked for, once, whichever it is",
            wasmtime_versions,
        ),
        Check::slow("windows-tests", "the engine's tests on Windows, under wine", windows_tests).at_night(),
    ]
}

fn no_std(tools: &Tools) -> Outcome {
    tools.rust_targets(&[NO_STD_TARGET])?;
    Step::new("cargo check -p pipkin --no-default-features --target").arg(NO_STD_TARGET).run()
}

fn bare_metal(tools: &Tools) -> Outcome {
    let oldest = oldest_rust()?;
    tools.rust_with_targets(&oldest, &MICROCONTROLLERS)?;
    tools.arm_emulator()?;
    for target in MICROCONTROLLERS {
        Step::new("cargo")
            .arg(format!("+{oldest}"))
            .args("check -p pipkin --no-default-features --target".split(' '))
            .arg(target)
            .run()?;
    }
    let folder = target_dir().join("bare-metal");
    Step::new("cargo")
        .arg(format!("+{oldest}"))
        .args("build --locked --manifest-path tests/bare-metal/Cargo.toml --target".split(' '))
        .arg(CORTEX_M)
        .env("CARGO_TARGET_DIR", folder.display().to_string())
        .run()?;
    for program in ["conformance", "store"] {
        Step::new("qemu-system-arm -machine mps2-an386 -nographic -monitor none -serial none")
            .args("-semihosting-config enable=on,target=native -kernel".split(' '))
            .path(&folder.join(CORTEX_M).join("debug").join(program))
            .run()?;
    }
    Ok(())
}

fn windows_check(tools: &Tools) -> Outcome {
    if is_nightly() {
        return clippy_for(tools, WINDOWS);
    }
    tools.rust_targets(&[WINDOWS])?;
    Step::new("cargo check -p pipkin-cli --target").arg(WINDOWS).run()
}

fn clippy_for(tools: &Tools, target: &str) -> Outcome {
    tools.rust_targets(&[target])?;
    // Without the engines that the command can import from: those in C would need a compiler for the target.
    let packages = format!("-p pipkin-cli -p pipkin --all-targets --features {ENGINE_FEATURES}");
    Step::new(&format!("cargo clippy {packages} --target")).args([target, "--", "-D", "warnings"]).run()
}

/// The version of Rust that the crates promise to compile with.
fn oldest_rust() -> Outcome<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    match manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")) {
        Some(oldest) => Ok(oldest.trim_matches('"').to_owned()),
        None => failed("Cargo.toml names no rust-version"),
    }
}

fn oldest_compiles(tools: &Tools) -> Outcome {
    let oldest = oldest_rust()?;
    tools.rust(&oldest)?;
    let check = Step::new("cargo").arg(format!("+{oldest}")).args("check --locked".split(' '));
    check.clone().args("-p pipkin --all-features".split(' ')).run()?;
    check.args("-p pipkin-cli".split(' ')).run()
}

fn oldest(tools: &Tools) -> Outcome {
    let oldest = oldest_rust()?;
    tools.rust(&oldest)?;
    let component = shipped(tools)?;
    let folder = target_dir().join("oldest");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    Step::new("cargo")
        .arg(format!("+{oldest}"))
        .args("run --locked --manifest-path tests/oldest/Cargo.toml --".split(' '))
        .path(&component)
        .path(&folder)
        .env("CARGO_TARGET_DIR", target_dir().display().to_string())
        .run()
}

/// The major versions that `pipkin-wasi-host` has features for.
const WASMTIMES: [u32; 3] = [48, 49, 50];
/// With this in the environment the one that nothing else compiles is compiled, too, which takes minutes: `oldest` runs with 48, everything
/// else with 50.
const COMPILE: &str = "PIPKIN_WASMTIME_49";
const COMPILED: u32 = 49;

const FRESH_PROGRAM: &str = "\
use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx, add_to_linker, add_to_linker_async};
use wasmtime::component::{Linker, ResourceTable};

struct Ctx {
    table: ResourceTable,
    keyvalue: WasiKeyValueCtx,
}

fn view(ctx: &mut Ctx) -> WasiKeyValue<'_> {
    WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table)
}

fn main() -> wasmtime::Result<()> {
    let engine = wasmtime::Engine::default();
    add_to_linker(&mut Linker::<Ctx>::new(&engine), view)?;
    add_to_linker_async(&mut Linker::<Ctx>::new(&engine), view)
}
";

/// What `cargo new` and `cargo add` make, with a lock file of its own.
fn wasmtime_versions(_: &Tools) -> Outcome {
    for major in WASMTIMES {
        let folder = target_dir().join(format!("fresh/wasmtime-{major}"));
        fs::create_dir_all(folder.join("src"))?;
        let host = root().join("wasi-host");
        let manifest = format!(
            "[package]\nname = \"fresh\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\nwasmtime = \"{major}\"\n\
             pipkin-wasi-host = {{ path = {host:?}, default-features = false, features = [\"wasmtime-{major}\"] }}\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), FRESH_PROGRAM)?;
        let _ = fs::remove_file(folder.join("Cargo.lock"));
        let manifest = folder.join("Cargo.toml");
        let tree = Step::new("cargo tree --edges normal --prefix none --manifest-path").path(&manifest).output()?;
        let mut found: Vec<&str> = tree.lines().filter(|line| line.starts_with("wasmtime v")).map(version).collect();
        found.sort_unstable();
        found.dedup();
        let is_it =
            |version: &str| version.strip_prefix('v').and_then(|version| version.split('.').next()) == Some(&major.to_string());
        if !matches!(found.as_slice(), [only] if is_it(only)) {
            return failed(format!("a program with `wasmtime = \"{major}\"` gets {found:?}"));
        }
        if major == COMPILED && std::env::var_os(COMPILE).is_some() {
            let check = Step::new("cargo check --manifest-path").path(&manifest);
            check.env("CARGO_TARGET_DIR", target_dir().display().to_string()).run()?;
        }
    }
    Ok(())
}

/// Of a line such as `wasmtime v50.0.1 (*)`.
fn version(line: &str) -> &str {
    line.split(' ').nth(1).unwrap_or_default()
}

fn windows_tests(tools: &Tools) -> Outcome {
    let tests = Step::new("cargo test -p pipkin --features testing --lib --tests --target").arg(WINDOWS);
    if cfg!(windows) {
        return tests.run();
    }
    tools.windows_tests()?;
    let wine = target_dir().join("wine");
    fs::create_dir_all(&wine)?;
    let stub = wine.join("bcryptprimitives.dll");
    if !stub.exists() {
        let source = root().join("tests/xtask/src/checks/wine_stub.c");
        Step::new("x86_64-w64-mingw32-gcc -O2 -shared -o").path(&stub).path(&source).arg("-ladvapi32").run()?;
    }
    let prefix = wine.join("prefix");
    fs::create_dir_all(&prefix)?;
    let prefix = prefix.display().to_string();
    // One server for all programs: one that ends behind a program may refuse the next one. It lives on, and so must not hold a pipe of ours;
    // one that a run before has left is as good.
    let server = Step::new("wineserver -p").env("WINEPREFIX", prefix.clone()).env("WINEDEBUG", "-all");
    let _ = server.run_into(&wine.join("server.log"));
    let result = tests
        .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine")
        .env("WINEPREFIX", prefix.clone())
        .env("WINEPATH", format!("Z:{}", wine.display()))
        .env("WINEDEBUG", "-all")
        .run();
    // wine's own processes would live on for a while and hold our output open
    let _ = Step::new("wineserver -k").env("WINEPREFIX", prefix).succeeds();
    result
}
