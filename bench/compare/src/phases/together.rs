//! Several threads at once.

use crate::Result;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs `body` over each part, each in a thread of its own. The clock runs from when the first thread starts until the last one is
/// done; the threads read it themselves, because whoever waits for them may be woken late.
pub(super) fn together<P: Send, T: Send>(
    parts: impl Iterator<Item = P>,
    body: impl Fn(P) -> Result<T> + Sync,
) -> Result<(Duration, Vec<T>)> {
    let parts: Vec<P> = parts.collect();
    let ready = Barrier::new(parts.len());
    let run = &|part: P| {
        ready.wait();
        let start = Instant::now();
        let result = body(part);
        (start, result, Instant::now())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || run(part))).collect();
        let (mut starts, mut ends, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for thread in threads {
            let (start, result, end) = thread.join().map_err(|_| "a thread has panicked")?;
            starts.push(start);
            ends.push(end);
            results.push(result?);
        }
        let took = starts.iter().min().zip(ends.iter().max()).map(|(start, end)| *end - *start);
        Ok((took.unwrap_or_default(), results))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_thread_counts() {
        let sleep = |milliseconds: u64| {
            std::thread::sleep(Duration::from_millis(milliseconds));
            Ok(milliseconds)
        };
        let done = together([1, 50, 1].into_iter(), sleep);
        assert!(done.is_ok_and(|(took, results)| took >= Duration::from_millis(50) && results == [1, 50, 1]));
    }
}
