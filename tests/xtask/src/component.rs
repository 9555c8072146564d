//! `cargo xtask component`: the component as it is shipped. What cargo builds works as well; this has the same code, smaller.

use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::tools::Tools;
use std::fs;
use std::path::{Path, PathBuf};

/// Names `wasm-opt` in its lock file.
const FOLDER: &str = "wasi-host/guest";
const TARGET: &str = "wasm32-wasip2";

/// What rustc turns on for the target.
const FEATURES: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-call-indirect-overlong",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
];
/// Functions stay as rustc made them: what `wasm-opt` inlines makes single gets slower.
const PASSES: [&str; 5] = [
    "-Os",
    "--one-caller-inline-max-function-size=0",
    "--always-inline-max-function-size=0",
    "--strip-debug",
    "--strip-producers",
];

/// The packages that stand on Wasmtime, for cargo's command line. They are always chosen together: features depend on the choice, and with
/// others cargo compiles Wasmtime, with all that it stands on, once more.
pub(crate) const WASMTIME_PACKAGES: &str = "-p pipkin-wasi-host -p pipkin-host -p pipkin-wasi-shared";

/// Kinds of sections in a component.
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
/// Magic number and version.
const PREAMBLE: usize = 8;

pub(crate) fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return failed("`component` takes no arguments");
    }
    let path = shipped(&Tools)?;
    println!("{}: {} bytes", path.display(), fs::metadata(&path)?.len());
    Ok(())
}

/// Builds `pipkin-host`, with the features that the tests give its dependencies, and says where it is.
pub(crate) fn host_command() -> Outcome<PathBuf> {
    // Some test makes cargo count the dependencies of tests.
    Step::new(&format!("cargo build {WASMTIME_PACKAGES} --bins --test component")).limit_minutes(60).run()?;
    Ok(target_dir().join("debug").join(format!("pipkin-host{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds a component as cargo makes it, and says in which folder it is: the one in which the tests of `wasi-host/` build components, too.
pub(crate) fn built(package: &[&str]) -> Outcome<PathBuf> {
    let folder = root().join("target/guest");
    let step = Step::new("cargo build --profile component --target").arg(TARGET).args(package.iter().copied());
    step.arg("--target-dir").path(&folder).run()?;
    Ok(folder.join(TARGET).join("component"))
}

/// Builds it, and says where it is.
pub(crate) fn shipped(tools: &Tools) -> Outcome<PathBuf> {
    tools.rust_targets(&[TARGET])?;
    tools.node()?;
    tools.npm_packages(FOLDER)?;
    let component = fs::read(built(&["-p", "pipkin-wasi-guest"])?.join("pipkin_wasi_guest.wasm"))?;
    let folder = target_dir().join("shipped");
    fs::create_dir_all(&folder)?;
    let Some(smaller) = smaller(&component, &mut |code| optimized(code, &folder))? else {
        return failed("what cargo built is no component");
    };
    let path = folder.join("pipkin_wasi_guest.wasm");
    fs::write(&path, smaller)?;
    Ok(path)
}

/// The core module with the engine, after `wasm-opt`.
fn optimized(code: &[u8], folder: &Path) -> Outcome<Vec<u8>> {
    let (from, to) = (folder.join("core.wasm"), folder.join("core-opt.wasm"));
    fs::write(&from, code)?;
    let program = root().join(FOLDER).join("node_modules/.bin/wasm-opt");
    Step::new("").path(&program).args(FEATURES).args(PASSES).path(&from).arg("-o").path(&to).run()?;
    Ok(fs::read(to)?)
}

/// The component with its largest module replaced, and without sections that only name things; `None` if this is no component.
fn smaller(component: &[u8], optimize: &mut dyn FnMut(&[u8]) -> Outcome<Vec<u8>>) -> Outcome<Option<Vec<u8>>> {
    let Some((preamble, sections)) = component.split_at_checked(PREAMBLE) else { return Ok(None) };
    let Some(sections) = split(sections) else { return Ok(None) };
    let largest = sections.iter().filter(|(kind, _)| *kind == CORE_MODULE).map(|(_, body)| body.len()).max();
    let mut out = preamble.to_vec();
    for (kind, body) in sections {
        if kind == CUSTOM {
            continue;
        }
        let is_largest = kind == CORE_MODULE && Some(body.len()) == largest;
        let body = if is_largest { optimize(body)? } else { body.to_vec() };
        out.push(kind);
        push_number(&mut out, body.len());
        out.extend(body);
    }
    Ok(largest.is_some().then_some(out))
}

/// Kind and content of each section.
fn split(mut bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut sections = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        let (len, rest) = number(rest)?;
        let (body, rest) = rest.split_at_checked(len)?;
        sections.push((*kind, body));
        bytes = rest;
    }
    Some(sections)
}

/// A number in LEB128 at the front of `bytes`, and what follows.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

fn push_number(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_module_is_replaced_and_what_only_names_goes() {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        for (kind, body) in [(0, &[9; 300][..]), (1, &[1; 200]), (7, &[7; 3]), (1, &[2; 10])] {
            component.push(kind);
            push_number(&mut component, body.len());
            component.extend(body);
        }
        let found = smaller(&component, &mut |code| {
            assert_eq!(code, [1; 200]);
            Ok(vec![3; 130])
        });
        let found = found.ok().flatten().unwrap_or_default();
        let sections = split(found.get(PREAMBLE..).unwrap_or_default());
        assert_eq!(sections, Some(vec![(1, &[3; 130][..]), (7, &[7; 3]), (1, &[2; 10])]));
        assert_eq!(smaller(b"\0asm\x0d\0\x01\0\x01\x05", &mut |code| Ok(code.to_vec())).ok(), Some(None));
    }
}
