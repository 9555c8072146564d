//! The engine and the programs of this host, as the checks build them: once.

use crate::shell::{Outcome, Step, target_dir};

/// The packages of a native program, for cargo's command line. They are always chosen together: features depend on the choice, and with
/// others cargo compiles the engine once more.
pub(crate) const NATIVE_PACKAGES: &str = "-p pipkin -p pipkin-cli -p pipkin-examples -p pipkin-reader -p pipkin-tape";
/// What the engine has that is not on by default, but for its planted bugs.
pub(crate) const ENGINE_FEATURES: &str =
    "pipkin/testing,pipkin/typed,pipkin/compress,pipkin/rkyv,pipkin/encrypt,pipkin/async,pipkin/io-uring";

/// Builds the `pipkin` command, with the features that the tests give the engine, and says where it is.
pub(crate) fn pipkin_command() -> Outcome<String> {
    // Some test makes cargo count the dependencies of tests.
    Step::new(&format!("cargo build {NATIVE_PACKAGES} --features {ENGINE_FEATURES} --bins --test cli")).run()?;
    let command = target_dir().join("debug").join(format!("pipkin{}", std::env::consts::EXE_SUFFIX));
    Ok(command.display().to_string())
}
