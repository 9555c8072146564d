//! Ctrl-C leaves a good store and says how far the work came.

use crate::support::{Folder, STORE};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const BATCH: u64 = 1000;

fn ctrl_c(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn error_of(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(object["error"]["kind"], "interrupted");
    object["error"].clone()
}

fn lines(from: u64, to: u64) -> String {
    let mut text = String::new();
    for i in from..to {
        let _ = writeln!(text, "{{\"key\":\"key-{i:09}\",\"value\":\"the value of record number {i}, some bytes long\"}}");
    }
    text
}

/// Returns when the import is under way: the store is longer than an empty one.
fn wait_for_data(folder: &Folder) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(folder.path(STORE)).map_or(0, |file| file.len()) < 100_000 {
        assert!(Instant::now() < deadline, "the import never began");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns when the process catches the signal: on a machine that is busy a new one may take its time.
fn wait_for_the_handler(child: &Child) {
    let mask = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let caught = 1 << (Signal::INT.as_raw() - 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    // Where the system does not say it, the pause alone has to do.
    std::thread::sleep(Duration::from_secs(1));
    while let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", child.id()))
        && mask(&status).is_some_and(|mask| mask & caught == 0)
    {
        assert!(Instant::now() < deadline, "the command never looked for the signal");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The store opens and verifies and holds exactly the first `records` lines.
fn assert_is_prefix(folder: &Folder, records: u64) {
    assert_eq!(records % BATCH, 0, "stopped between two batches");
    assert_eq!(folder.json(&["verify", STORE])["ok"], true);
    let stats = folder.json(&["stats", STORE]);
    assert_eq!(stats["records"], records);
    assert_eq!(stats["closed_cleanly"], true);
    let out = folder.ok(&["scan", STORE, "--sort"]);
    let mut expected = String::new();
    for i in 0..records {
        let _ = writeln!(expected, "key-{i:09}\tthe value of record number {i}, some bytes long");
    }
    assert!(out == expected.as_bytes(), "the store holds something else than the first {records} records");
}

#[test]
fn ctrl_c_in_the_middle_of_an_import_leaves_a_prefix_of_whole_batches() {
    for trial in 0..5_u64 {
        let folder = Folder::new();
        let mut child =
            folder.command(&["import", STORE, "-", "--format", "ndjson", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Endless: only the signal ends it, wherever that finds it.
        let feeder = std::thread::spawn(move || {
            let mut next = 0;
            while stdin.write_all(lines(next, next + 5000).as_bytes()).is_ok() {
                next += 5000;
            }
        });
        wait_for_data(&folder);
        std::thread::sleep(Duration::from_millis(40 + trial * 50));
        ctrl_c(&child);
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        let records = error_of(&output)["records"].as_u64().unwrap();
        assert!(records > 0, "trial {trial} was interrupted before the first batch");
        assert_is_prefix(&folder, records);
    }
}

#[test]
fn ctrl_c_ends_the_import_of_a_large_file_and_a_second_run_completes_it() {
    let folder = Folder::new();
    let total = 400_000;
    folder.write("large.ndjson", lines(0, total));
    let child = folder.command(&["import", STORE, "large.ndjson", "--durable", "--json"]).spawn().unwrap();
    wait_for_data(&folder);
    ctrl_c(&child);
    let output = child.wait_with_output().unwrap();
    let error = error_of(&output);
    let records = error["records"].as_u64().unwrap();
    assert!(records < total, "it was finished before the signal came: use a larger file");
    assert!(error["position"].as_u64().unwrap() >= lines(0, records).len() as u64);
    assert_is_prefix(&folder, records);

    folder.ok(&["import", STORE, "large.ndjson"]);
    assert_is_prefix(&folder, total);
}

#[test]
fn ctrl_c_is_heeded_while_stdin_is_silent() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["import", STORE, "-", "--format", "ndjson", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines(0, 1500).as_bytes()).unwrap();
    wait_for_data(&folder);
    std::thread::sleep(Duration::from_secs(1));
    ctrl_c(&child);
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "it waited for stdin");
    let records = error_of(&output)["records"].as_u64().unwrap();
    assert_eq!(records, 1000, "the batch that was not full is not written");
    assert_is_prefix(&folder, records);
    drop(stdin);
}

#[test]
fn ctrl_c_in_a_put_that_waits_for_its_value_changes_nothing() {
    let folder = Folder::new();
    let mut child = folder.command(&["put", STORE, "key", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    wait_for_the_handler(&child);
    ctrl_c(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(folder.names().is_empty());
    drop(stdin);
}

#[test]
fn ctrl_c_in_an_export_removes_the_half_file() {
    let folder = Folder::new();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], lines(0, 200_000).as_bytes()).success();
    let child = folder.command(&["export", STORE, "out.ndjson", "--sort"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while folder.names().len() < 2 {
        assert!(Instant::now() < deadline, "the export never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    ctrl_c(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(folder.names(), [STORE]);
}

#[test]
fn ctrl_c_at_the_moment_when_a_file_appears_leaves_none_behind() {
    let folder = Folder::new();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], lines(0, 1000).as_bytes()).success();
    for verb in ["export", "backup", "salvage"] {
        for _ in 0..30 {
            let mut child = folder.command(&[verb, STORE, "out.ndjson"]).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if folder.names().len() == 2 {
                    ctrl_c(&child);
                    break;
                }
            }
            let output = child.wait_with_output().unwrap();
            match output.status.code() {
                Some(130) if folder.names() == [STORE] => {}
                // It was faster, or was stopped behind its last step: the file is whole and has its name.
                Some(0 | 130) => assert_eq!(folder.names(), ["out.ndjson", STORE], "{verb}"),
                other => panic!("{verb}: {other:?} {}", String::from_utf8_lossy(&output.stderr)),
            }
            let _ = std::fs::remove_file(folder.path("out.ndjson"));
        }
    }
}
