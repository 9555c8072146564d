//! Runs the checks, most of them one after the other, and keeps the score.

use crate::checks::{Check, Pace};
use crate::shell::Stop;
use crate::tools::{Tools, must_run};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        }
    }
}

pub(crate) fn list(checks: &[Check]) {
    for check in checks {
        let pace = match check.pace {
            Pace::Quick => "quick",
            Pace::Slow => "",
            Pace::Night => "night",
        };
        println!("{:<22} {pace:<6} {}", check.name, check.about);
    }
}

/// Runs all of them, whatever happens, and ends with the line `N passed, N failed`. Says whether all is well.
pub(crate) fn run(checks: &[Check]) -> bool {
    thread::scope(|scope| {
        // Beside the first checks, which compile.
        scope.spawn(|| checks.iter().for_each(|check| check.prepare(&Tools)));
        run_all(checks)
    })
}

fn run_all(checks: &[Check]) -> bool {
    let start = Instant::now();
    let mut score = Vec::new();
    for group in checks.chunk_by(|check, next| check.pair.is_some() && check.pair == next.pair) {
        for (number, check) in (score.len() + 1..).zip(group) {
            println!("\n=== {} ({number} of {}): {}", check.name, checks.len(), check.about);
        }
        score.extend(match group {
            [check] => vec![judge(check, &Tools)],
            _ => beside_each_other(group),
        });
    }
    println!("\n=== all checks, {}", seconds(start.elapsed()));
    for (_, line) in &score {
        println!("{line}");
    }
    let verdicts: Vec<Verdict> = score.iter().map(|(verdict, _)| *verdict).collect();
    println!("\n{}", closing_line(&verdicts));
    !verdicts.contains(&Verdict::Failed)
}

/// Their output mixes: whoever wants to read that of one runs it alone.
fn beside_each_other(checks: &[Check]) -> Vec<(Verdict, String)> {
    thread::scope(|scope| {
        let runs: Vec<_> = checks.iter().map(|check| scope.spawn(|| judge(check, &Tools))).collect();
        let verdict = |(run, check): (thread::ScopedJoinHandle<'_, (Verdict, String)>, &Check)| {
            run.join().unwrap_or_else(|_| (Verdict::Failed, line(&check.name, Verdict::Failed, Duration::ZERO, "it panicked")))
        };
        runs.into_iter().zip(checks).map(verdict).collect()
    })
}

/// Runs a check, and prints its line.
fn judge(check: &Check, tools: &Tools) -> (Verdict, String) {
    let start = Instant::now();
    let (verdict, reason) = match check.run(tools) {
        Ok(()) => (Verdict::Passed, String::new()),
        Err(Stop::CannotRun(why)) if !must_run() => (Verdict::Skipped, why),
        Err(stop) => (Verdict::Failed, stop.to_string()),
    };
    let line = line(&check.name, verdict, start.elapsed(), &reason);
    println!("--- {line}");
    (verdict, line)
}

fn line(name: &str, verdict: Verdict, took: Duration, reason: &str) -> String {
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("{name:<22} {:<7} {:>9}{colon}{reason}", verdict.word(), seconds(took))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn closing_line(verdicts: &[Verdict]) -> String {
    let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let skipped = match count(Verdict::Skipped) {
        0 => String::new(),
        some => format!(", {some} skipped"),
    };
    format!("{} passed, {} failed{skipped}", count(Verdict::Passed), count(Verdict::Failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Pair;
    use crate::shell::failed;
    use Verdict::{Failed, Passed, Skipped};
    use std::sync::{Arc, Barrier};

    #[test]
    fn the_closing_line_counts_every_check_once() {
        assert_eq!(closing_line(&[Passed, Passed]), "2 passed, 0 failed");
        assert_eq!(closing_line(&[Passed, Skipped, Failed, Passed]), "2 passed, 1 failed, 1 skipped");
    }
    /// Alone, each would wait without end.
    #[test]
    fn a_pair_runs_at_once_and_each_of_it_has_its_verdict() {
        let met = Arc::new(Barrier::new(2));
        let checks: Vec<Check> = [true, false]
            .map(|good| {
                let met = met.clone();
                let body = move |_: &Tools| {
                    met.wait();
                    if good { Ok(()) } else { failed("as it should") }
                };
                Check::slow(if good { "good" } else { "bad" }, "", body).paired(Pair::RacesAndFuzzing)
            })
            .into();
        assert!(!run(&checks));
        let verdicts: Vec<Verdict> = beside_each_other(&checks).into_iter().map(|(verdict, _)| verdict).collect();
        assert!(verdicts == [Passed, Failed]);
    }
}
