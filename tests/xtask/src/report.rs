//! Runs the checks one after the other and keeps the score.

use crate::checks::Check;
use crate::shell::Stop;
use crate::tools::{Tools, must_run};
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
        let speed = if check.quick { "quick" } else { "" };
        println!("{:<22} {speed:<6} {}", check.name, check.about);
    }
}

/// Runs all of them, whatever happens, and ends with the line `N passed, N failed`. Says whether all is well.
pub(crate) fn run(checks: &[Check]) -> bool {
    let must_run = must_run();
    let tools = Tools::default();
    let start = Instant::now();
    let mut score = Vec::new();
    for (number, check) in checks.iter().enumerate() {
        println!("\n=== {} ({} of {}): {}", check.name, number + 1, checks.len(), check.about);
        let check_start = Instant::now();
        let (verdict, reason) = match check.run(&tools) {
            Ok(()) => (Verdict::Passed, String::new()),
            Err(Stop::CannotRun(why)) if !must_run => (Verdict::Skipped, why),
            Err(stop) => (Verdict::Failed, stop.to_string()),
        };
        let line = line(&check.name, verdict, check_start.elapsed(), &reason);
        println!("--- {line}");
        score.push((verdict, line));
    }
    println!("\n=== all checks, {}", seconds(start.elapsed()));
    for (_, line) in &score {
        println!("{line}");
    }
    let verdicts: Vec<Verdict> = score.iter().map(|(verdict, _)| *verdict).collect();
    println!("\n{}", closing_line(&verdicts));
    !verdicts.contains(&Verdict::Failed)
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
    use Verdict::{Failed, Passed, Skipped};

    #[test]
    fn the_closing_line_counts_every_check_once() {
        assert_eq!(closing_line(&[Passed, Passed]), "2 passed, 0 failed");
        assert_eq!(closing_line(&[Passed, Skipped, Failed, Passed]), "2 passed, 1 failed, 1 skipped");
    }
}
