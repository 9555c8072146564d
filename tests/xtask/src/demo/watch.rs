//! A watcher: a second process that follows the store while others write it. It must tell of every change once, in order.

use crate::shell::{Outcome, Step, Stop, failed};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use tinyjson::JsonValue;

/// How long a commit may take to arrive; what is missing by then was missed.
const PATIENCE: Duration = Duration::from_secs(60);
/// It looks a hundred times a second where nothing comes: by then it would have told of what is there.
const SILENCE: Duration = Duration::from_millis(500);
/// No key of the data begins so: the records that are there already are not asked for.
const NO_KEY: &str = "no such key";

/// A change as it is told: a key, and its new value, or none when it is removed.
type Told = (String, Option<String>);

/// The running command `pipkin watch --follow`.
pub(super) struct Watcher {
    process: Child,
    lines: Receiver<String>,
    positions: HashSet<String>,
    /// Who writes has a key for itself, which is no part of the data.
    left_out: Option<&'static str>,
}

impl Watcher {
    /// Starts one that begins at the present end of the log. `watch` is `pipkin watch STORE`.
    pub(super) fn start(watch: &Step) -> Outcome<Self> {
        println!("\n=== a second process watches");
        let end = watch.clone().args(["--initial", "--prefix", NO_KEY]).output()?;
        let end = object(end.trim()).and_then(|mut end| text(&mut end, "end"));
        let Some(end) = end else { return failed("`pipkin watch` does not say where it ends") };
        let mut process = watch.clone().args(["--follow", "--from", &end]).start()?;
        let (sender, lines) = channel();
        if let Some(output) = process.stdout.take() {
            let tell = move |line: String| sender.send(line).is_ok();
            spawn(move || BufReader::new(output).lines().map_while(Result::ok).all(tell));
        }
        Ok(Self { process, lines, positions: HashSet::new(), left_out: None })
    }

    /// Waits until it has told of these changes, one after the other, and of nothing else.
    pub(super) fn tells<'a>(&mut self, expected: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Outcome {
        self.compare(expected, false)
    }

    /// The same where who wrote has chosen the order, and keeps a key for itself.
    pub(super) fn tells_in_some_order<'a>(
        &mut self,
        expected: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        left_out: &'static str,
    ) -> Outcome {
        self.left_out = Some(left_out);
        self.compare(expected, true)
    }

    fn compare<'a>(&mut self, expected: impl IntoIterator<Item = (&'a str, Option<&'a str>)>, sorted: bool) -> Outcome {
        let begun = Instant::now();
        let mut expected: Vec<Told> =
            expected.into_iter().map(|(key, value)| (key.to_owned(), value.map(str::to_owned))).collect();
        let before = self.positions.len();
        let mut told = self.collect(expected.len())?;
        if sorted {
            told.sort_unstable();
            expected.sort_unstable();
        }
        if let Some((told, expected)) = told.iter().zip(&expected).find(|(told, expected)| told != expected) {
            return failed(format!("the watcher tells of {told:?}, and what was written there is {expected:?}"));
        }
        if let Some(more) = told.get(expected.len()) {
            return failed(format!("the watcher tells of {more:?}, which nobody has written"));
        }
        let commits = self.positions.len() - before;
        println!("the watcher told of {} changes in {commits} commits, the last {:.0?} later", told.len(), begun.elapsed());
        Ok(())
    }

    /// The changes of whole commits, at least so many.
    fn collect(&mut self, least: usize) -> Outcome<Vec<Told>> {
        let mut told = Vec::new();
        while told.len() < least {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    Stop::Failed(format!("the watcher has told of {} changes, and of no more", told.len()))
                }
                RecvTimeoutError::Disconnected => Stop::Failed(format!("the watcher has ended, after {} changes", told.len())),
            })?;
            told.extend(self.told(&line)?);
        }
        Ok(told)
    }

    /// The changes of a commit of which it has not told before.
    fn told(&mut self, line: &str) -> Outcome<Vec<Told>> {
        let Some((position, mut changes)) = commit(line) else { return failed(format!("the watcher says: {line}")) };
        if !self.positions.insert(position) {
            return failed(format!("the watcher tells of a commit twice: {line}"));
        }
        changes.retain(|(key, _)| self.left_out != Some(key));
        Ok(changes)
    }

    /// What has been written since is no commit: it tells of nothing more. Ends it.
    pub(super) fn tells_nothing_more(mut self) -> Outcome {
        sleep(SILENCE);
        if let Some(status) = self.process.try_wait()? {
            return failed(format!("the watcher has ended by itself: {status}"));
        }
        self.process.kill()?;
        self.process.wait()?;
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if let Some(more) = self.told(&line)?.first() {
                return failed(format!("the watcher tells of {more:?}, which nobody has written"));
            }
        }
        println!("the watcher told of {} commits in all, each once", self.positions.len());
        Ok(())
    }
}

/// Where the demonstration ends early, the process ends, too.
impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

type Object = HashMap<String, JsonValue>;

fn object(line: &str) -> Option<Object> {
    line.parse::<JsonValue>().ok()?.try_into().ok()
}

fn text(object: &mut Object, field: &str) -> Option<String> {
    object.remove(field)?.try_into().ok()
}

/// The position of a commit, and its changes.
fn commit(line: &str) -> Option<(String, Vec<Told>)> {
    let mut line = object(line)?;
    let changes: Vec<JsonValue> = line.remove("changes")?.try_into().ok()?;
    let told = changes.into_iter().map(|change| {
        let mut change: Object = change.try_into().ok()?;
        let key = text(&mut change, "key")?;
        match text(&mut change, "change")?.as_str() {
            "put" => Some((key, Some(text(&mut change, "value")?))),
            "remove" => Some((key, None)),
            _ => None,
        }
    });
    Some((text(&mut line, "position")?, told.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_as_the_command_prints_it() {
        let line = r#"{"position":"07","changes":[{"change":"put","key":"a","value":"1"},{"change":"remove","key":"b"}]}"#;
        let told = vec![("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)];
        assert_eq!(commit(line), Some(("07".to_owned(), told)));
        assert_eq!(commit(r#"{"position":"07","changes":[{"change":"clear"}]}"#), None);
        assert_eq!(commit(r#"{"end":"07"}"#), None);
    }

    /// A watcher that says these lines, without a process of the store behind it.
    fn saying(lines: &[&str]) -> Outcome<Watcher> {
        let process = Step::new("sleep 60").start()?;
        let (sender, receiver) = channel();
        for line in lines {
            sender.send((*line).to_owned()).map_err(|error| Stop::Failed(error.to_string()))?;
        }
        Ok(Watcher { process, lines: receiver, positions: HashSet::new(), left_out: None })
    }

    #[test]
    fn a_commit_that_is_missed_or_told_twice_fails() -> Outcome {
        let put = |position: u8, key: &str| {
            format!(r#"{{"position":"{position}","changes":[{{"change":"put","key":"{key}","value":"1"}}]}}"#)
        };
        let (a, b) = (put(1, "a"), put(2, "b"));
        let all = || [("a", Some("1")), ("b", Some("1"))];
        assert!(saying(&[&a, &b])?.tells(all()).is_ok());
        assert!(saying(&[&b])?.tells(all()).is_err());
        assert!(saying(&[&a])?.tells(all()).is_err());
        assert!(saying(&[&a, &a, &b])?.tells(all()).is_err());
        let mut more = saying(&[&a, &b, &put(3, "b")])?;
        more.tells(all())?;
        assert!(more.tells_nothing_more().is_err());
        Ok(())
    }
}
