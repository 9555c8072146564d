//! The engine and the command line on this host: tests, miri, the demonstration.

use super::evidence::suites;
use super::{Check, Pair, run_tests};
use crate::native::{ENGINE_FEATURES, NATIVE_PACKAGES};
use crate::shell::{Outcome, Step, Stop, failed, root};
use crate::sizes::is_nightly;
use crate::tools::Tools;
use std::thread;

/// Interpreted, so the slowest tests per line: these modules hold the `unsafe` code and the decoders. An interpreter uses one processor, so
/// there are several of them, with what else each wants.
///
/// The epochs on which the ordered index stands go against the older model of borrows, and leave their last garbage to the end of the
/// process. The skip list above goes against the newer model, too, so `ordered::map` is tested without miri.
const MIRI: [(&[&str], &str); 4] = [
    // Of recovery, which has no `unsafe` of its own: a failed open, a torn tail and a closed store. Each open takes a minute.
    (&["recover::tests::decisions::r11_", "recover::tests::decisions::r12_", "recover::tests::decisions::r16_"], ""),
    (&["frame::"], ""),
    (&["index::", "pins::", "storage::cached::"], ""),
    (&["ordered::block::", "ordered::leaf::"], "-Zmiri-tree-borrows -Zmiri-ignore-leaks"),
];

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::quick("xtask", "the tests of the task runner and of the suites' tools", |_| {
            Step::new("cargo test -p xtask").run()?;
            suites(false).arg("--lib").run()
        }),
        Check::quick(
            "unit",
            "all tests of the engine, the command, the examples, and stores of every version of the format",
            |_| Step::new(&format!("cargo test {NATIVE_PACKAGES} --features {ENGINE_FEATURES} --no-fail-fast")).run(),
        ),
        Check::slow("foreign", "stores of other engines, made by them, are imported whole", foreign).at_night(),
        Check::slow("bench", "every bench runs once; no figures", bench).at_night(),
        Check::slow("demo", "the main job on real data: `cargo xtask demo`", demo).installing(Tools::chromium_driver).at_night(),
        Check::slow("schedules", "writers, readers, flushers and compaction in thousands of orders of their steps", schedules)
            .paired(Pair::SchedulesAndMiri),
        Check::slow("miri", "frame, index, recovery, pins and the blocks of a cache are free of undefined behaviour", miri)
            .paired(Pair::SchedulesAndMiri)
            .at_night(),
        Check::slow("races", "ThreadSanitizer sees no race between writers, readers and compaction", races)
            .paired(Pair::RacesAndFuzzing)
            .at_night(),
    ]
}

/// The command and what it imports from, for cargo's command line. RocksDB takes ten minutes to compile: see [`foreign`].
pub(super) const FOREIGN_PACKAGES: &str = "-p pipkin-cli -p pipkin-foreign --features \
    pipkin-cli/from-emdb,pipkin-cli/from-leveldb,pipkin-cli/from-lmdb,pipkin-cli/from-redb,pipkin-cli/from-sled,pipkin-cli/from-sqlite";

/// At night with RocksDB.
fn foreign(tools: &Tools) -> Outcome {
    let rocksdb = if is_nightly() { ",pipkin-cli/from-rocksdb" } else { "" };
    if is_nightly() {
        tools.rocksdb()?;
    }
    let step = Step::new(&format!("cargo test {FOREIGN_PACKAGES}{rocksdb} --test")).limit_minutes(60);
    run_tests(step.clone().arg("engines"), &[])?;
    run_tests(step.arg("cli"), &["foreign::"])
}

/// In the profile of the tests, which compiles in half the time.
fn bench(_: &Tools) -> Outcome {
    Step::new("cargo bench -p pipkin-bench --profile dev -- --test").run()
}

/// The data first: where it cannot be had, the check cannot run.
fn demo(_: &Tools) -> Outcome {
    crate::demo::fetch_data()?;
    Step::new("cargo xtask demo").limit_minutes(60).run()
}

/// In a folder of its own: the flag would make cargo build everything else anew.
fn schedules(_: &Tools) -> Outcome {
    let step = Step::new("cargo test -p pipkin --no-default-features --features std,testing,ordered")
        .env("RUSTFLAGS", "--cfg shuttle")
        .env("CARGO_TARGET_DIR", root().join("target/shuttle").display().to_string())
        .limit_minutes(15);
    run_tests(step.clone().arg("--lib"), &["index::schedules::", "ordered::schedules::", "db::schedules::"])?;
    run_tests(step.args(["--test", "schedules"]), &[])
}

/// The standard library is built with the sanitizer, too, or it would see none of its locks. In a folder of its own, as above.
fn races(tools: &Tools) -> Outcome {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Err(Stop::CannotRun("ThreadSanitizer is run on Linux, x86-64 or AArch64".to_owned()));
    }
    tools.nightly(&["rust-src"])?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let step = Step::new("cargo +nightly test --release -Zbuild-std --target")
        .arg(target)
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", root().join("target/races").display().to_string())
        .limit_minutes(20);
    let engine = step.clone().args("-p pipkin --features testing --lib".split(' '));
    run_tests(engine, &["index::", "ordered::", "pins::"])?;
    run_tests(step.args("-p pipkin-tests --test model".split(' ')), &["threads_on_bytes_that_nobody_guards"])
}

fn miri(tools: &Tools) -> Outcome {
    tools.nightly(&["miri", "rust-src"])?;
    let step = Step::new("cargo +nightly miri test -p pipkin --no-default-features --features std,ordered,testing --lib")
        .limit_minutes(25);
    let with_flags = |flags: &str| step.clone().env("MIRIFLAGS", format!("-Zmiri-disable-isolation {flags}"));
    with_flags("").arg("--no-run").run()?;
    thread::scope(|scope| {
        let runs: Vec<_> =
            MIRI.into_iter().map(|(modules, flags)| scope.spawn(move || run_tests(with_flags(flags), modules))).collect();
        runs.into_iter().try_for_each(|run| run.join().unwrap_or_else(|_| failed("a run under miri panicked")))
    })
}
