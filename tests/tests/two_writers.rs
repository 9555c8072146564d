//! Two sessions on one file that nobody can lock. See `pipkin_tests::suite::two_writers`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::two_writers::{Budget, Counts, Host, parse, random, run, run_one};
use pipkin_tests::suite::{sleepers, takeover};
use std::sync::atomic::Ordering;

/// Runs that are owed.
const RUNS_LEAST: u64 = 12_000;

/// Two sessions on a file that is not locked, though its storage says so, are caught: as it was before there was a fence.
#[test]
fn sessions_that_do_not_know_of_each_other_lose_what_was_flushed() {
    const HOSTS: &[Host] = &[Host::ThoughtLocked];
    let budget = Budget { pauses: 1, pauses_coarse: 0, random: 0, seed: 1, hosts: HOSTS };
    let failure = run(&budget, &Counts::new(0)).expect_err("two writers without a fence");
    println!("two writers without a fence: {}", failure.what.lines().next().unwrap_or_default());
}

#[test]
fn two_sessions_on_one_file_lose_nothing_that_was_flushed() {
    const HOSTS: &[Host] = &[Host::Plain, Host::Cached, Host::Sealed, Host::SealedCached];
    let seed = std::env::var("PIPKIN_SEED").ok().map(|_| random(env_u64("PIPKIN_SEED", 0), HOSTS));
    let trial = std::env::var("PIPKIN_TRIAL").ok().map(|text| parse(&text).expect("the words that a failure prints"));
    if let Some(trial) = seed.or(trial) {
        let report = run_one(&trial);
        println!("{trial}\n{report:?}");
        return drop(report.unwrap());
    }
    let budget = Budget {
        pauses: env_u64("PIPKIN_PAUSES", 1) as usize,
        pauses_coarse: env_u64("PIPKIN_PAUSES_COARSE", 1) as usize,
        random: env_u64("PIPKIN_PLANS", 10_000),
        seed: 1,
        hosts: HOSTS,
    };
    let counts = Counts::new(RUNS_LEAST);
    unwrap("two writers", run(&budget, &counts));
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    counts.runs.finish(format_args!(
        "{} calls of the storage, {} flushes acknowledged, {} sessions fenced off; {} records written and not flushed are gone, in {} runs; in {} \
         runs a session slept through several of the other one, in {} of them that cost the store something",
        get(&counts.calls),
        get(&counts.flushes),
        get(&counts.fenced),
        get(&counts.written_lost),
        get(&counts.runs_written_lost),
        get(&counts.slept),
        get(&counts.slept_lost),
    ));
}

/// In front of every write of it, for one session of others, and for more than the four after which its places were forgotten once.
#[test]
fn a_session_that_sleeps_in_front_of_a_write_destroys_nothing() {
    let most = env_u64("PIPKIN_SLEEPERS", 0) as usize;
    let all = most > 0;
    let others: &[usize] = if all { &[1, 2, 3, 4, 5, 6, 8, 12, 20, 40] } else { &[1, 5] };
    let others = others.get(..others.iter().filter(|&&others| !all || others <= most).count()).unwrap_or_default();
    let counts = Quota::new("sleepers", 1000);
    unwrap("sleepers", sleepers::run(&sleepers::Budget { others, all }, &counts));
    counts.finish("writes and syncs that came late");
    unwrap("idle sessions", sleepers::idle(100));
}

/// Every session ended right behind its first record, before it could put anything in order, as an instance does that has little fuel. Whoever
/// comes next goes through all that they have left.
#[test]
fn a_takeover_costs_the_same_however_many_sessions_died_in_theirs() {
    let deaths = env_u64("PIPKIN_TAKEOVERS", 100) as usize;
    let costs = takeover::costs(deaths as u64);
    let most = |from: usize, to: usize| {
        let some = costs.get(from..to).unwrap_or_default();
        let largest = |what: fn(&takeover::Cost) -> u64| some.iter().map(what).max().unwrap_or_default();
        [largest(|cost| cost.calls), largest(|cost| cost.read), largest(|cost| cost.written), largest(|cost| cost.len)]
    };
    let tenths: Vec<[u64; 4]> = (0..10).map(|tenth| most(tenth * deaths / 10, (tenth + 1) * deaths / 10)).collect();
    let (early, late) = (most(0, deaths / 2), most(deaths / 2, deaths));
    println!("takeovers behind {deaths} unclean ends: calls, bytes read, written, length of the file, by tenths {tenths:?}");
    for (early, late) in early.into_iter().zip(late) {
        assert!(late <= early + early / 8, "it grows: {early} at most in the first half, {late} in the second");
    }
    assert!(late[3] < 64 << 20, "{} bytes for one record", late[3]);
}
