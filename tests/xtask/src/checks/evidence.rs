//! The suites that show that nothing is lost. They are found, not listed: a new file is a new check.

use super::{Check, Pair, run_tests};
use crate::shell::{Outcome, Step, Stop, failed, root, target_dir};
use crate::sizes::{is_nightly, setting};
use crate::tools::{Tools, as_root};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The suites, for cargo's command line. They are always chosen together: features depend on the choice, and with others cargo compiles the
/// engine once more.
const SUITES: &str = "--release -p pipkin-tests -p pipkin-power-cut";
/// Compiles planted bugs into the engine.
const PLANTED: &str = "pipkin-tests/planted-bugs,pipkin-power-cut/planted-bugs";
/// What a store must survive power cuts on.
const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Inputs of each target, the same in every run: what a search finds anew every day is for `PIPKIN_FUZZ_SECONDS`, not for a check.
const FUZZ_RUNS: u32 = 1000;
/// No input may take longer.
const FUZZ_INPUT_SECONDS_MAX: u32 = 60;
/// Inputs that a target must have run.
const FUZZ_INPUTS_LEAST: u64 = 500;

/// One check per integration test file of `tests/`.
pub(super) fn checks() -> Vec<Check> {
    rust_files(&root().join("tests/tests"))
        .into_iter()
        .map(|suite| {
            let name = format!("evidence-{suite}");
            Check::slow(&name, "a suite of tests/tests/, with its quota of trials", move |_| run_suite(&suite))
        })
        .collect()
}

/// `cargo test` of the suites and their tools. By day the bugs that `planted` switches on are compiled into all of them, each off: one engine and one
/// compilation serve all. At night only `planted` has them.
pub(super) fn suites(planted: bool) -> Step {
    let step = Step::new(&format!("cargo test {SUITES}"));
    if planted || !is_nightly() { step.args(["--features", PLANTED]) } else { step }
}

fn run_suite(suite: &str) -> Outcome {
    run_tests(suites(suite == "planted").args(["--test", suite]), &[])
}

pub(super) fn power_cut_checks() -> Vec<Check> {
    let about = "cuts under ext4, XFS and Btrfs, on a device that drops, tears and reorders what was not flushed";
    vec![Check::slow("power-cut", about, power_cut).installing(Tools::file_systems)]
}

/// As root, over the file systems that the machine has.
fn power_cut(tools: &Tools) -> Outcome {
    if !cfg!(target_os = "linux") {
        return Err(Stop::CannotRun("the suite mounts as Linux does".to_owned()));
    }
    let root = as_root().map_err(|stop| Stop::CannotRun(format!("only root may mount: {stop}")))?;
    tools.file_systems()?;
    run_tests(suites(true).args(["--bin", "pipkin-power-cut"]), &[])?;
    // Some test makes cargo count the dependencies of tests.
    Step::new(&format!("cargo build {SUITES} --features {PLANTED} --bin pipkin-power-cut --test planted")).run()?;
    let binary = target_dir().join("release/pipkin-power-cut");
    let able = Step::new(root).path(&binary).arg("able").output().map_err(|stop| Stop::CannotRun(stop.to_string()))?;
    let able: Vec<&str> = able.lines().collect();
    if able.is_empty() {
        return Err(Stop::CannotRun(format!("this machine has none of {}", FILE_SYSTEMS.join(", "))));
    }
    let settings = ["PIPKIN_CUTS", "PIPKIN_SEED", "PIPKIN_SYSTEM"].into_iter();
    let settings = settings.filter_map(|name| Some(format!("{name}={}", setting(name)?)));
    Step::new(root).arg("env").args(settings).path(&binary).args(able.iter().copied()).limit_minutes(60).run()?;
    match FILE_SYSTEMS.iter().find(|system| !able.contains(system)) {
        None => Ok(()),
        Some(system) => Err(Stop::CannotRun(format!("passed over {}, but this machine has no {system}", able.join(" and ")))),
    }
}

pub(super) fn fuzz_checks() -> Vec<Check> {
    if !root().join("tests/fuzz/Cargo.toml").exists() {
        return Vec::new();
    }
    let check = Check::slow("fuzz-build", "every fuzz target builds and survives a short run", fuzz);
    vec![check.paired(Pair::RacesAndFuzzing).at_night()]
}

fn fuzz(tools: &Tools) -> Outcome {
    tools.nightly(&["rustc"])?;
    tools.cargo_fuzz()?;
    cargo_fuzz("build").run()?;
    Step::new("cargo run --release -p pipkin-tests --example fuzz-seeds -- tests/fuzz/corpus/open_bytes").run()?;
    let targets = Step::new("cargo +nightly fuzz list --fuzz-dir tests/fuzz").output()?;
    if targets.trim().is_empty() {
        return failed("there is no fuzz target");
    }
    // Each uses one processor.
    let targets = Mutex::new(targets.lines());
    let next = || targets.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(|| std::iter::from_fn(next).try_for_each(fuzz_target)));
        runs.into_iter().try_for_each(|run| run.join().unwrap_or_else(|_| failed("a run of a fuzz target panicked")))
    })
}

fn cargo_fuzz(verb: &str) -> Step {
    Step::new(&format!("cargo +nightly fuzz {verb} --fuzz-dir tests/fuzz"))
}

/// Runs a target on its corpus, then on new inputs.
fn fuzz_target(target: &str) -> Outcome {
    let log = target_dir().join(format!("fuzz-{target}.log"));
    cargo_fuzz("run")
        // Long inputs from the start: what is longer than a few choices is worth the most here.
        .args([target, "--", "-print_final_stats=1", "-len_control=0"])
        .args(match setting("PIPKIN_FUZZ_SECONDS") {
            Some(seconds) => vec![format!("-max_total_time={seconds}")],
            None => vec!["-seed=1".to_owned(), format!("-runs={FUZZ_RUNS}")],
        })
        // An input that hangs is kept and shown with its stack, before the limit below would take the process away.
        .arg(format!("-timeout={FUZZ_INPUT_SECONDS_MAX}"))
        .limit_minutes(5)
        .run_into(&log)?;
    let inputs = inputs_run(&fs::read_to_string(&log)?);
    println!("{target}: {inputs} inputs (quota {FUZZ_INPUTS_LEAST})");
    if inputs < FUZZ_INPUTS_LEAST {
        return failed(format!("{target} ran {inputs} inputs, its quota is {FUZZ_INPUTS_LEAST}"));
    }
    Ok(())
}

/// What libFuzzer counts in its final statistics.
fn inputs_run(log: &str) -> u64 {
    let count = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The names of the Rust files in a folder, sorted, without `.rs`.
fn rust_files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_a_fuzz_run_are_those_that_it_says_it_ran() {
        assert_eq!(inputs_run("Done 7 runs\nstat::number_of_executed_units: 4096\nstat::average_exec_per_sec: 99\n"), 4096);
        assert_eq!(inputs_run("killed"), 0);
    }
}
