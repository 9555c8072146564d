//! The table of checks, in the order in which they run: what is cheap and fails often comes first.

mod circles;
mod compare;
mod documents;
mod engine;
mod evidence;
mod format;
mod hosts;
mod imports;
mod style;
pub(crate) mod wasm;

use crate::shell::{Outcome, Step, failed};
use crate::tools::Tools;

type Body = Box<dyn Fn(&Tools) -> Outcome + Send + Sync>;
type Install = fn(&Tools) -> Outcome;

/// Checks that compile in folders of their own, mostly on one processor, and measure no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    SchedulesAndMiri,
    RacesAndFuzzing,
}

/// When a check runs that nobody has asked for by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With `--quick`, too: done in seconds once things are compiled, and needs no tool beyond the toolchain.
    Quick,
    Slow,
    /// With `--nightly` alone.
    Night,
}

/// One entry: `cargo xtask test --only NAME` runs it alone.
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) about: &'static str,
    pub(crate) pace: Pace,
    /// Checks that follow each other and have the same pair run at once.
    pub(crate) pair: Option<Pair>,
    /// What the body begins with, and may be done long before: it waits for the network and for disks, not for a processor.
    install: Option<Install>,
    body: Body,
}

impl Check {
    fn quick(name: &str, about: &'static str, body: impl Fn(&Tools) -> Outcome + Send + Sync + 'static) -> Check {
        Check { name: name.to_owned(), about, pace: Pace::Quick, pair: None, install: None, body: Box::new(body) }
    }

    pub(crate) fn slow(name: &str, about: &'static str, body: impl Fn(&Tools) -> Outcome + Send + Sync + 'static) -> Check {
        Check { name: name.to_owned(), about, pace: Pace::Slow, pair: None, install: None, body: Box::new(body) }
    }

    /// What is left for the night.
    pub(crate) fn at_night(self) -> Check {
        Check { pace: Pace::Night, ..self }
    }

    pub(crate) fn paired(self, pair: Pair) -> Check {
        Check { pair: Some(pair), ..self }
    }

    pub(crate) fn installing(self, install: Install) -> Check {
        Check { install: Some(install), ..self }
    }

    /// Installs what it can ahead of its turn. A failure is left to [`Self::run`], which tries again.
    pub(crate) fn prepare(&self, tools: &Tools) {
        if let Some(install) = self.install {
            let _ = install(tools);
        }
    }

    pub(crate) fn run(&self, tools: &Tools) -> Outcome {
        (self.body)(tools)
    }

    /// `--only evidence` means every `evidence-...`.
    pub(crate) fn answers_to(&self, wanted: &str) -> bool {
        self.name == wanted || self.name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
    }
}

pub(crate) fn all() -> Vec<Check> {
    [
        style::checks(),
        documents::checks(),
        imports::checks(),
        circles::checks(),
        hosts::compile_checks(),
        compare::checks(),
        engine::checks(),
        format::checks(),
        evidence::fuzz_checks(),
        evidence::checks(),
        evidence::power_cut_checks(),
        wasm::checks(),
        hosts::run_checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs a test command, then fails if it holds no test for one of `filters`: a test that is not there cannot fail.
fn run_tests(command: Step, filters: &[&str]) -> Outcome {
    let all = command.arg("--");
    all.clone().args(filters.iter().copied()).arg("--nocapture").run()?;
    let listed = all.arg("--list").output()?;
    match filters_without_test(&listed, filters).first() {
        None => Ok(()),
        Some(filter) => failed(format!("there is no test in {filter}")),
    }
}

/// `listed` is what a test binary prints for `--list`. Without filters one test of any name is enough.
fn filters_without_test<'a>(listed: &str, filters: &[&'a str]) -> Vec<&'a str> {
    let filters = if filters.is_empty() { &[""] } else { filters };
    let tests: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    filters.iter().copied().filter(|filter| !tests.iter().any(|test| test.contains(filter))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once() {
        let names: Vec<String> = all().into_iter().map(|check| check.name).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "{names:?}");
    }

    #[test]
    fn a_family_name_selects_its_members_only() {
        let check = Check::slow("evidence-crash", "", |_| Ok(()));
        assert!(check.answers_to("evidence"));
        assert!(check.answers_to("evidence-crash"));
        assert!(!check.answers_to("evid"));
        assert!(!check.answers_to("evidence-crash-more"));
    }

    #[test]
    fn a_suite_without_tests_is_not_a_suite_that_passes() {
        let listed = "frame::tests::a: test\nindex::tests::b: test\n\n2 tests, 0 benchmarks\n";
        assert!(filters_without_test(listed, &["frame::", "index::"]).is_empty());
        assert_eq!(filters_without_test(listed, &["frame::", "pins::"]), ["pins::"]);
        assert!(filters_without_test(listed, &[]).is_empty());
        assert_eq!(filters_without_test("0 tests, 0 benchmarks", &[]).len(), 1);
    }
}
