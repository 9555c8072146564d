//! Installers. Each looks first, installs only what is missing, and says what to do where it cannot.
//!
//! Nothing of the user's is replaced: cargo tools go to `target/tools`, npm packages to the folder that asks for them.

use crate::shell::{Outcome, Step, Stop, root, target_dir};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The `wasm-bindgen` command must have the version of the library; this one is used when no lock file names it.
const WASM_BINDGEN: &str = "0.2.130";
/// The oldest Node that has everything that building and testing the npm package uses.
const NODE_MAJOR: u32 = 20;

/// Where nobody looks at single checks, a missing tool must not look like success.
pub(crate) fn must_run() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Whether the lists of `apt-get` are fresh. It installs for one caller at a time; whoever wants what another installs waits, and finds it.
static APT_LISTS_FRESH: Mutex<bool> = Mutex::new(false);

/// What checks need beyond the toolchain.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tools;

/// A command that `cargo install` can build.
struct CargoTool<'a> {
    package: &'a str,
    binary: &'a str,
    version: &'a str,
    /// Whether no other version will do.
    exact: bool,
    /// Whether to build with the package's own lock file.
    locked: bool,
}

impl Tools {
    /// Adds what the active toolchain lacks of these compilation targets.
    pub(crate) fn rust_targets(&self, wanted: &[&str]) -> Outcome {
        add_targets(&[], wanted)
    }

    /// A compiler of this version, beside the active one, that builds for these targets.
    pub(crate) fn rust_with_targets(&self, version: &str, wanted: &[&str]) -> Outcome {
        self.rust(version)?;
        add_targets(&["--toolchain", version], wanted)
    }

    /// A compiler of this version, beside the active one.
    pub(crate) fn rust(&self, version: &str) -> Outcome {
        if Step::new("rustup run").arg(version).arg("rustc").arg("--version").succeeds() {
            return Ok(());
        }
        or_cannot(Step::new("rustup toolchain install --no-self-update --profile minimal").arg(version).run())
    }

    /// A nightly toolchain with these components; whichever nightly is there already serves.
    pub(crate) fn nightly(&self, components: &[&str]) -> Outcome {
        // Checks run beside each other.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let installed = Step::new("rustup component list --toolchain nightly --installed").output().unwrap_or_default();
        let has = |component: &&str| installed.lines().any(|line| line.starts_with(*component));
        if !installed.is_empty() && components.iter().all(has) {
            return Ok(());
        }
        let components = components.iter().flat_map(|component| ["--component", component]);
        or_cannot(Step::new("rustup toolchain install nightly --no-self-update --profile minimal").args(components).run())
    }

    pub(crate) fn cargo_fuzz(&self) -> Outcome {
        self.cxx()?;
        self.cargo_tool(&CargoTool { package: "cargo-fuzz", binary: "cargo-fuzz", version: "0.13.2", exact: false, locked: true })
    }

    pub(crate) fn cargo_deny(&self) -> Outcome {
        self.cargo_tool(&CargoTool { package: "cargo-deny", binary: "cargo-deny", version: "0.20.2", exact: false, locked: true })
    }

    pub(crate) fn cargo_semver_checks(&self) -> Outcome {
        self.cargo_tool(&CargoTool {
            package: "cargo-semver-checks",
            binary: "cargo-semver-checks",
            version: "0.51.0",
            exact: false,
            locked: true,
        })
    }

    /// Packs WIT as registries of components take it.
    pub(crate) fn wkg(&self) -> Outcome {
        self.cargo_tool(&CargoTool { package: "wkg", binary: "wkg", version: "0.16.1", exact: false, locked: true })
    }

    /// `wasm-pack`, the `wasm-bindgen` that it would otherwise build in silence, a driver and a Chromium.
    pub(crate) fn wasm_pack(&self) -> Outcome {
        self.wasm_bindgen()?;
        self.cargo_tool(&CargoTool { package: "wasm-pack", binary: "wasm-pack", version: "0.15.1", exact: false, locked: true })?;
        self.chromium_driver()
    }

    /// A driver and a Chromium.
    pub(crate) fn chromium_driver(&self) -> Outcome {
        self.debian("chromedriver --version", &["chromium", "chromium-driver"])
    }

    pub(crate) fn chromium(&self) -> Outcome {
        self.debian("chromium --version", &["chromium"])
    }

    pub(crate) fn firefox(&self) -> Outcome {
        self.debian("firefox-esr --version", &["firefox-esr"])
    }

    /// A Python that has the package `cryptography`: the one on the path, or that of the system.
    pub(crate) fn python(&self) -> Outcome<String> {
        const SYSTEM: &str = "/usr/bin/python3";
        let probe = |python: &str| format!("{python} -c __import__('cryptography')");
        if Step::new(&probe("python3")).succeeds() {
            return Ok("python3".into());
        }
        self.debian(&probe(SYSTEM), &["python3-cryptography"])?;
        Ok(SYSTEM.into())
    }

    /// WebKitGTK, the driver of its test browser, and a screen in memory: it has no mode without one.
    pub(crate) fn webkit(&self) -> Outcome {
        self.debian("WebKitWebDriver --help", &["webkit2gtk-driver"])?;
        self.debian("Xvfb -help", &["xvfb"])
    }

    /// What building the npm package takes: the target, `wasm-bindgen`, and Node with npm.
    pub(crate) fn npm_build(&self) -> Outcome {
        self.wasm_bindgen()?;
        self.node()
    }

    /// Node with npm.
    pub(crate) fn node(&self) -> Outcome {
        self.debian("npm --version", &["nodejs", "npm"])?;
        let version = Step::new("node --version").output().unwrap_or_default();
        let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < NODE_MAJOR) {
            return cannot(format!("Node {NODE_MAJOR} or newer is needed, here is {}", version.trim()));
        }
        Ok(())
    }

    /// What a lock file of npm names, into the folder that holds it.
    pub(crate) fn npm_packages(&self, folder: &str) -> Outcome {
        or_cannot(Step::new("npm ci --no-audit --no-fund").dir(folder).run())
    }

    /// `wasm-bindgen`, and the runner of its tests.
    pub(crate) fn wasm_bindgen(&self) -> Outcome {
        self.rust_targets(&["wasm32-unknown-unknown"])?;
        let version = locked_version("wasm-bindgen").unwrap_or_else(|| WASM_BINDGEN.to_owned());
        // Not with its own lock file: that names versions which a registry may not carry yet.
        self.cargo_tool(&CargoTool {
            package: "wasm-bindgen-cli",
            binary: "wasm-bindgen",
            version: &version,
            exact: true,
            locked: false,
        })
    }

    pub(crate) fn windows_tests(&self) -> Outcome {
        self.windows_compiler()?;
        self.debian("wine --version", &["wine64", "wine"])
    }

    /// RocksDB is C++, and the bindings to it are made by libclang.
    pub(crate) fn rocksdb(&self) -> Outcome {
        self.cxx()?;
        if has_libclang() {
            return Ok(());
        }
        let by_hand = "install libclang-dev by hand, or leave rocksdb out of --peers";
        let mut lists_fresh = APT_LISTS_FRESH.lock().unwrap_or_else(PoisonError::into_inner);
        apt_get(&["libclang-dev"], &mut lists_fresh).map_err(|stop| Stop::CannotRun(format!("{stop}; {by_hand}")))
    }

    /// A C compiler for WebAssembly and the headers of a C library; the library itself comes with the Rust target.
    pub(crate) fn c_for_wasi(&self) -> Outcome<PathBuf> {
        const HEADERS: &str = "/usr/include/wasm32-wasi";
        self.debian("clang --version", &["clang"])?;
        self.debian("llvm-ar --version", &["llvm"])?;
        self.debian(&format!("test -f {HEADERS}/stdio.h"), &["wasi-libc"])?;
        Ok(HEADERS.into())
    }

    /// Boards with an Arm processor, emulated.
    pub(crate) fn arm_emulator(&self) -> Outcome {
        self.debian("qemu-system-arm --version", &["qemu-system-arm"])
    }

    /// The programs that make file systems. One that cannot be had is no reason to do without the others.
    pub(crate) fn file_systems(&self) -> Outcome {
        for (probe, package) in [("mkfs.ext4 -V", "e2fsprogs"), ("mkfs.xfs -V", "xfsprogs"), ("mkfs.btrfs -V", "btrfs-progs")] {
            if let Err(stop) = self.debian(probe, &[package]) {
                println!("{stop}");
            }
        }
        Ok(())
    }

    fn windows_compiler(&self) -> Outcome {
        self.rust_targets(&["x86_64-pc-windows-gnu"])?;
        self.debian("x86_64-w64-mingw32-gcc --version", &["gcc-mingw-w64-x86-64-posix"])
    }

    /// libFuzzer is C++, a fresh machine may have a C compiler only.
    fn cxx(&self) -> Outcome {
        let had = self.debian("c++ --version", &["g++"]);
        had.map_err(|stop| Stop::CannotRun(format!("libFuzzer needs a C++ compiler: {stop}")))
    }

    fn cargo_tool(&self, tool: &CargoTool<'_>) -> Outcome {
        if let Ok(text) = Step::new(tool.binary).arg("--version").output()
            && (!tool.exact || text.split_whitespace().any(|word| word == tool.version))
        {
            return Ok(());
        }
        let tools = target_dir().join("tools");
        let mut step = Step::new("cargo install --debug --quiet --force")
            // an unoptimised tool is built three times faster and is fast enough
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", tools.join("build").display().to_string())
            .arg("--root")
            .path(&tools)
            .args([tool.package, "--version", tool.version]);
        if tool.locked {
            step = step.arg("--locked");
        }
        or_cannot(step.run())
    }

    /// Asks `probe` whether the program is there, and `apt-get` for the packages if not.
    fn debian(&self, probe: &str, packages: &[&str]) -> Outcome {
        let mut lists_fresh = APT_LISTS_FRESH.lock().unwrap_or_else(PoisonError::into_inner);
        if Step::new(probe).succeeds() {
            return Ok(());
        }
        let by_hand = format!("install {} by hand", packages.join(", "));
        apt_get(packages, &mut lists_fresh).map_err(|stop| Stop::CannotRun(format!("{stop}; {by_hand}")))?;
        if Step::new(probe).succeeds() {
            Ok(())
        } else {
            cannot(format!("`{probe}` still fails after the installation; {by_hand}"))
        }
    }
}

fn apt_get(packages: &[&str], lists_fresh: &mut bool) -> Outcome {
    let apt = apt_command()?;
    let log = target_dir().join("apt-get.log");
    if !std::mem::replace(lists_fresh, true) {
        // One package source of several that does not answer is no reason to give up.
        let _ = Step::new(&format!("{apt} update")).run_into(&log);
    }
    Step::new(&format!("{apt} install -y --no-install-recommends")).args(packages.iter().copied()).run_into(&log)
}

/// Looks where bindgen looks.
fn has_libclang() -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let inner =
        std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().flat_map(|entry| [entry.path(), entry.path().join("lib")]);
    let usual = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    named.into_iter().chain(inner).chain(usual).any(|folder| {
        let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| is_libclang(&file.file_name().to_string_lossy()))
    })
}

/// `libclang.so` or `libclang-14.so.1`, but not `libclang-cpp.so`.
fn is_libclang(file: &str) -> bool {
    let rest = file.strip_prefix("libclang").unwrap_or_default();
    rest.starts_with(".so") || rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn cannot<T>(why: String) -> Outcome<T> {
    Err(Stop::CannotRun(why))
}

fn add_targets(toolchain: &[&str], wanted: &[&str]) -> Outcome {
    let Ok(installed) = Step::new("rustup target list --installed").args(toolchain.iter().copied()).output() else {
        return cannot(format!("rustup is needed to see and add the targets {}", wanted.join(", ")));
    };
    let missing: Vec<&str> = wanted.iter().copied().filter(|&target| !installed.lines().any(|line| line == target)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    or_cannot(Step::new("rustup target add").args(toolchain.iter().copied()).args(missing).run())
}

/// An installation that fails says nothing about the code under test.
fn or_cannot(outcome: Outcome) -> Outcome {
    outcome.map_err(|stop| Stop::CannotRun(stop.to_string()))
}

/// How to call `apt-get` with the rights that it needs, without ever asking for a password.
fn apt_command() -> Outcome<String> {
    if !Step::new("apt-get --version").succeeds() {
        return cannot("there is no apt-get here".to_owned());
    }
    let root = as_root().map_err(|stop| Stop::CannotRun(format!("apt-get needs root: {stop}")))?;
    Ok(format!("{root}env DEBIAN_FRONTEND=noninteractive apt-get"))
}

/// What to put in front of a command that only root may run; nothing for root.
pub(crate) fn as_root() -> Outcome<&'static str> {
    if Step::new("id -u").output().is_ok_and(|id| id.trim() == "0") {
        return Ok("");
    }
    if Step::new("sudo -n true").succeeds() { Ok("sudo -n ") } else { cannot("`sudo -n` is refused".to_owned()) }
}

/// The version of a dependency in the first lock file that names it.
fn locked_version(package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    ["web/Cargo.lock", "Cargo.lock"].iter().find_map(|lock| {
        let text = std::fs::read_to_string(root().join(lock)).ok()?;
        let mut lines = text.lines().skip_while(|line| *line != name);
        lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"').map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_for_programs_in_c_plus_plus_is_not_libclang() {
        assert!(is_libclang("libclang.so.1") && is_libclang("libclang-14.so.14"));
        assert!(!is_libclang("libclang-cpp.so.14") && !is_libclang("libclangAST.a"));
    }
}
