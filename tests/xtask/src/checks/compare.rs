//! The comparison with other engines, as far as it goes without compiling any of them.

use super::Check;
use crate::shell::{Outcome, Step, target_dir};
use crate::tools::Tools;

pub(super) fn checks() -> Vec<Check> {
    vec![Check::slow("compare", "the comparison is formatted, lint-free, and measures pipkin and the limits", compare).at_night()]
}

/// So little of everything that only errors are of interest.
const SCALE: [(&str, &str); 9] = [
    ("PIPKIN_BENCH_RECORDS", "5000"),
    ("PIPKIN_BENCH_ROUNDS", "1"),
    ("PIPKIN_BENCH_DURABLE_PUTS", "5"),
    ("PIPKIN_BENCH_BATCHES", "2"),
    ("PIPKIN_BENCH_UNFLUSHED_PUTS", "500"),
    ("PIPKIN_BENCH_GROUP_PUTS", "2"),
    ("PIPKIN_BENCH_LARGE_VALUES", "5"),
    ("PIPKIN_BENCH_EVENTS", "2000"),
    ("PIPKIN_BENCH_LIMITED_RECORDS", "2000"),
];

fn compare(_: &Tools) -> Outcome {
    Step::new("cargo fmt --check --manifest-path bench/compare/Cargo.toml").run()?;
    let cargo = |line: &str| {
        Step::new(&format!("cargo {line} --no-default-features --manifest-path bench/compare/Cargo.toml"))
            .env("CARGO_TARGET_DIR", target_dir().display().to_string())
    };
    cargo("clippy --all-targets").args(["--", "-D", "warnings"]).run()?;
    cargo("test --bins").run()?;
    let mut step = cargo("run --bin pipkin-compare").args(["--", "--quick", "--peers", "", "--out"]);
    for (name, value) in SCALE {
        step = step.env(name, value);
    }
    step.path(&target_dir().join("compare-check")).run()
}
