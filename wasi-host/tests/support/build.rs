//! Components for the tests, built by cargo: once for each test process, after that cargo finds them built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder that all test processes share. Not the common target folder, because cargo holds the lock of that while it runs tests.
pub(crate) fn folder() -> PathBuf {
    root().join("target/guest")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap()
}

/// The component: the one that the environment names, or as cargo builds it.
#[allow(dead_code, reason = "not every test binary needs every component")]
pub(crate) fn product() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("PIPKIN_COMPONENT") {
        Some(path) => path.into(),
        None => build("pipkin-wasi-guest", "pipkin_wasi_guest", "product", &[]),
    })
}

/// The same with sealed stores.
#[allow(dead_code, reason = "not every test binary needs every component")]
pub(crate) fn sealed() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("pipkin-wasi-guest", "pipkin_wasi_guest", "sealed", &["--features", "encrypt"]))
}

/// The same with the text of the standard that Spin has.
#[allow(dead_code, reason = "not every test binary needs every component")]
pub(crate) fn spin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("pipkin-wasi-guest", "pipkin_wasi_guest", "spin", &["--features", "spin"]))
}

/// The same, and the interfaces that only tests call.
#[allow(dead_code, reason = "not every test binary needs every component")]
pub(crate) fn proof() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("pipkin-wasi-guest", "pipkin_wasi_guest", "proof", &["--features", "proof"]))
}

/// A program that imports a store.
#[allow(dead_code, reason = "not every test binary needs every component")]
pub(crate) fn program(name: &str) -> PathBuf {
    build("pipkin-wasi-programs", name, name, &["--bin", name])
}

/// One with the engine in it that seals its store.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) fn sealing_program(name: &str) -> PathBuf {
    build("pipkin-wasi-programs", name, &format!("{name}-sealing"), &["--bin", name, "--features", "encrypt"])
}

/// Builds a component and puts it aside under a name of its own: with other features it would have the same.
fn build(package: &str, file: &str, name: &str, args: &[&str]) -> PathBuf {
    let target = folder();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", package, "--target", "wasm32-wasip2", "--profile", "component"])
        .args(args)
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root())
        .status()
        .expect("cargo starts");
    assert!(status.success(), "{name} does not build; is the target there? `rustup target add wasm32-wasip2`");
    let aside = target.join(format!("{name}.wasm"));
    let bytes = std::fs::read(target.join(format!("wasm32-wasip2/component/{file}.wasm"))).unwrap();
    if std::fs::read(&aside).ok().as_deref() != Some(&bytes) {
        std::fs::write(&aside, bytes).unwrap();
    }
    aside
}

/// The program with the component in the place of the host's stores, as one component.
#[allow(dead_code, reason = "not every test binary composes")]
pub(crate) fn composed(program: &Path, component: &Path) -> Vec<u8> {
    let out = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "-p", "pipkin-wasi-composer", "--target-dir"])
        .arg(folder())
        .arg("--")
        .args([program, component, out.path()])
        .current_dir(root())
        .status()
        .expect("cargo starts");
    assert!(status.success(), "composing failed");
    std::fs::read(out.path()).unwrap()
}
