//! How much the suites do. Each has its normal size itself, which finds every planted bug in the time that CI has; these are for a night.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a suite reads from the environment, its size for a night, and which suite that is.
const NIGHTLY: &[(&str, &str, &str)] = &[
    ("PIPKIN_CACHE_CUTS", "150000", "evidence-cache: power cuts behind failed syncs"),
    ("PIPKIN_CRASH_IMAGES", "8000000", "evidence-crash: images that a crash leaves"),
    (
        "PIPKIN_FLIP_STRIDE",
        "1",
        "unit, evidence-codec and -expiry: of so many bits, bytes, lengths or cuts in a row one is tried",
    ),
    ("PIPKIN_CUTS", "1000", "power-cut: cuts under real file systems"),
    ("PIPKIN_EVENT_IMAGES", "200000", "evidence-events: images of stores with event streams"),
    ("PIPKIN_EVENT_RACES", "100000", "evidence-events: races for one version of a stream"),
    ("PIPKIN_EXPIRY_HISTORIES", "20000", "evidence-expiry: histories of records that expire"),
    ("PIPKIN_FOLLOWED", "20000", "evidence-changes: stores whose changes are followed"),
    ("PIPKIN_STORES_FOLLOWED", "5000", "evidence-following: stores with readers beside the writer"),
    ("PIPKIN_FUZZ_SECONDS", "600", "fuzz-build: seconds for each target"),
    ("PIPKIN_GROUP_IMAGES", "300000", "evidence-groups: images of stores with deleted groups"),
    ("PIPKIN_ORDER_IMAGES", "100000", "evidence-order: images of stores with keys in order"),
    ("PIPKIN_SEALED_SESSIONS", "50000", "evidence-sealed: sessions on copies of a sealed store"),
    ("PIPKIN_COMPRESSION_IMAGES", "300000", "evidence-compression: images of stores with compressed values"),
    ("PIPKIN_HEALTHY", "all", "evidence-planted: suites that also run without a bug"),
    ("PIPKIN_MANY", "1000", "evidence-many: histories of reads of several keys beside writers"),
    ("PIPKIN_HISTORIES", "1000", "evidence-moments: histories of snapshots under writers"),
    ("PIPKIN_IN_FILE", "5000", "evidence-in_file: histories of stores with their index in the file"),
    ("PIPKIN_INPUTS", "3000000", "evidence-hostile: hostile files"),
    ("PIPKIN_KILLS", "3000", "evidence-kill: processes that are killed"),
    ("PIPKIN_BEHIND_COMPACTION", "1000", "evidence-behind_compaction: stores read by another process"),
    ("PIPKIN_KILLED_FOLLOWERS", "3000", "evidence-killed_followers: processes that are killed"),
    ("PIPKIN_KILLED_FOLLOWING", "10000", "evidence-killed_following: writers and their readers that are killed"),
    ("PIPKIN_KILLS_CHROMIUM", "200", "web-npm: kills of workers, pages and browsers"),
    ("PIPKIN_KILLS_FIREFOX", "50", "web-firefox: the same"),
    ("PIPKIN_LIES", "6000", "evidence-rot: devices that lie"),
    ("PIPKIN_LIFE_DEATHS", "30000", "evidence-lives: deaths in a row on full media"),
    ("PIPKIN_LONGEST", "3", "evidence-exhaustive: operations in a row, from every start"),
    ("PIPKIN_LOST_HEADERS", "20000", "evidence-rot: lost headers of flushed segments"),
    ("PIPKIN_MIXED_IMAGES", "100000", "evidence-mixed: images of stores with all capabilities"),
    ("PIPKIN_PAUSES_COARSE", "2", "evidence-two_writers: pauses in the plans that are all tried"),
    ("PIPKIN_PLANS", "60000", "evidence-two_writers: schedules of two sessions"),
    ("PIPKIN_PROJECTION_KILLS", "1000", "evidence-projections: processes that are killed"),
    ("PIPKIN_RECORDS_MAX", "20000000", "evidence-reopen: records of the largest store"),
    ("PIPKIN_SCHEDULES", "20000", "schedules: orders of threads' steps"),
    ("PIPKIN_SLEEPERS", "20", "evidence-two_writers: sessions that come and go while one sleeps, at most"),
    ("PIPKIN_STORES", "30000", "evidence-rot: stores with rot"),
    ("PIPKIN_TAPES", "4000", "evidence-model: tapes against the model"),
    ("PIPKIN_TRANSACTIONS", "100000", "evidence-serializable: transactions beside each other"),
    ("PIPKIN_WORKLOADS", "3000", "evidence-errors: workloads with failing calls"),
    ("PIPKIN_WRITERS_IMAGES", "25000", "evidence-writers: images of several writers"),
];

/// How much longer a command may take then.
const PATIENCE: u32 = 16;

static IS_NIGHTLY: AtomicBool = AtomicBool::new(false);

/// From now on commands get the sizes for a night, but for those that the environment sets.
pub(crate) fn set_nightly() {
    IS_NIGHTLY.store(true, Ordering::Relaxed);
    for (name, size, suite) in NIGHTLY {
        println!("{name}={} ({suite})", setting(name).unwrap_or_else(|| (*size).to_owned()));
    }
}

/// True for the sizes for a night.
pub(crate) fn is_nightly() -> bool {
    IS_NIGHTLY.load(Ordering::Relaxed)
}

/// The size that a suite is to have, where it is not the suite's own.
pub(crate) fn setting(name: &str) -> Option<String> {
    let nightly = NIGHTLY.iter().find(|(other, ..)| *other == name).filter(|_| IS_NIGHTLY.load(Ordering::Relaxed));
    std::env::var(name).ok().or_else(|| nightly.map(|(_, size, _)| (*size).to_owned()))
}

/// All that differ from the suites' own.
pub(crate) fn settings() -> impl Iterator<Item = (&'static str, String)> {
    NIGHTLY.iter().filter_map(|(name, ..)| Some((*name, setting(name)?)))
}

/// How much longer than the normal size a command may take.
pub(crate) fn patience() -> u32 {
    if IS_NIGHTLY.load(Ordering::Relaxed) { PATIENCE } else { 1 }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::NIGHTLY;
    use crate::shell::root;
    use std::process::Command;

    /// A size that no suite reads would be an option that does nothing.
    #[test]
    fn every_size_is_read_by_a_suite() {
        for (name, ..) in NIGHTLY {
            let found =
                Command::new("git").current_dir(root()).args(["grep", "-lw", name, "--", "*.rs", "*.mjs", "*.mts"]).output();
            let found = String::from_utf8(found.expect("git").stdout).expect("paths");
            assert!(found.lines().any(|path| !path.ends_with("xtask/src/sizes.rs")), "nothing reads {name}");
        }
    }
}
