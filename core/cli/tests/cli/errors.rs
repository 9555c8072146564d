//! Bad paths, a second opener, closed pipes: the exit codes and what stays as it was.

use crate::support::{Folder, STORE};
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Every verb that needs an existing store.
const VERBS: [&[&str]; 13] = [
    &["get", STORE, "key"],
    &["rm", STORE, "key"],
    &["scan", STORE],
    &["stats", STORE],
    &["verify", STORE],
    &["salvage", STORE, "new.pipkin"],
    &["compact", STORE],
    &["backup", STORE, "new.pipkin"],
    &["export", STORE, "out.csv"],
    &["digest", STORE],
    &["namespaces", "list", STORE],
    &["namespaces", "set", STORE, "name", "--ordered", "yes"],
    &["namespaces", "drop", STORE, "name"],
];

fn with_json(args: &[&'static str]) -> Vec<&'static str> {
    [args, &["--json"]].concat()
}

#[test]
fn a_store_that_is_not_there_is_not_created_by_asking() {
    let folder = Folder::new();
    for args in VERBS {
        let error = folder.run(&with_json(args)).exits(6).error();
        assert_eq!(error["kind"], "not-found", "{args:?}");
    }
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_directory_is_no_store() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path(STORE)).unwrap();
    for args in VERBS.iter().chain(&[&["put", STORE, "a", "b"][..]]) {
        let error = folder.run(&with_json(args)).exits(6).error();
        assert_eq!(error["kind"], "is-directory", "{args:?}");
    }
    assert_eq!(folder.names(), [STORE]);
}

#[test]
fn a_foreign_file_stays_as_it_is() {
    let folder = Folder::new();
    for content in [&b"hello, this is a text file\n"[..], &[0; 20_000], &[0xff; 100_000]] {
        folder.write(STORE, content);
        for args in VERBS.iter().chain(&[&["put", STORE, "a", "b"][..]]) {
            let run = folder.run(&with_json(args));
            assert_eq!(run.code, 6, "{args:?} on {} bytes: {}", content.len(), run.err);
            assert_eq!(run.error()["kind"], "not-a-store", "{args:?}");
            assert_eq!(folder.read(STORE), content, "{args:?}");
        }
        assert_eq!(folder.names(), [STORE]);
    }
}

/// An empty file was no store "at this path", literally; and `verify` said something else than `get`.
#[test]
fn an_empty_file_is_called_empty_by_its_name() {
    let folder = Folder::new();
    folder.write(STORE, "");
    for args in VERBS {
        let run = folder.run(&with_json(args)).exits(6);
        assert_eq!(run.error()["kind"], "not-a-store", "{args:?}");
        let words = run.error()["message"].as_str().unwrap().to_owned();
        assert!(words.starts_with(STORE) && words.contains("it is empty"), "{args:?}: {words}");
        assert_eq!(folder.read(STORE), b"", "{args:?}");
    }
    assert_eq!(folder.names(), [STORE]);
    folder.ok(&["put", STORE, "a", "b"]);
    assert_eq!(folder.ok(&["get", STORE, "a"]), b"b", "it becomes a store as soon as something is written");
}

/// They were told as usage errors, though the table of exit codes counts them as other kinds of file.
#[cfg(unix)]
#[test]
fn a_pipe_a_socket_and_a_device_are_no_stores_and_are_called_what_they_are() {
    let folder = Folder::new();
    assert!(std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path("device")).unwrap();
    for name in ["pipe", "socket", "device"] {
        for args in VERBS.iter().chain(&[&["put", STORE, "a", "b"][..]]) {
            let args: Vec<&str> = args.iter().map(|&arg| if arg == STORE { name } else { arg }).chain(["--json"]).collect();
            let run = folder.run(&args).exits(6);
            assert_eq!(run.error()["kind"], "not-a-store", "{args:?}");
            let words = run.error()["message"].as_str().unwrap().to_owned();
            assert!(words.starts_with(&format!("{name} is a {name}")), "{args:?}: {words}");
        }
    }
    assert_eq!(folder.names(), ["device", "pipe", "socket"]);
}

#[test]
fn a_second_opener_is_told_who_holds_the_store() {
    let folder = Folder::new();
    let mut holder = folder.command(&["import", STORE, "-", "--format", "ndjson"]).stdin(Stdio::piped()).spawn().unwrap();
    holder.stdin.as_mut().unwrap().write_all(b"{\"key\":\"key\",\"value\":\"value\"}\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(folder.path(STORE)).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < deadline, "the import never made a store");
        std::thread::sleep(Duration::from_millis(20));
    }
    // It waits for more input now, and holds the lock. Asking before that could make it the second opener.
    std::thread::sleep(Duration::from_millis(300));
    for args in VERBS.iter().chain(&[&["put", STORE, "a", "b"][..]]) {
        let run = folder.run(&with_json(args)).exits(4);
        assert_eq!(run.error()["holder_pid"], holder.id(), "{args:?}: {}", run.err);
    }
    let run = folder.run(&["get", STORE, "key"]).exits(4);
    assert!(run.err.contains(&format!("process {}", holder.id())), "{}", run.err);

    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(folder.ok(&["get", STORE, "key"]), b"value", "nothing stays locked");
}

#[test]
fn several_readers_may_look_at_the_same_time() {
    let folder = Folder::new();
    let records: String = (0..50_000).map(|i| format!("{{\"key\":\"k{i}\",\"value\":\"some value of record {i}\"}}\n")).collect();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], records.as_bytes()).success();
    // More than a pipe takes: it holds the store until it is read.
    let mut reader = folder.command(&["scan", STORE]).spawn().unwrap();
    let mut out = reader.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    assert_eq!(folder.ok(&["get", STORE, "k7"]), b"some value of record 7");
    drop(out);
    reader.wait().unwrap();
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = Folder::new();
    let records: String = (0..50_000).map(|i| format!("{{\"key\":\"k{i}\",\"value\":\"some value of record {i}\"}}\n")).collect();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], records.as_bytes()).success();
    for args in [
        &["scan", STORE][..],
        &["scan", STORE, "--json"],
        &["scan", STORE, "--keys-only", "--sort"],
        &["export", STORE, "-"],
        &["export", STORE, "-", "--format", "csv"],
    ] {
        let mut child = folder.command(args).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
    }
}

/// A full disk behind stdout ended with the exit code of a full store, and help that could not be written with 0.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_told_as_such() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "value"]);
    let verbs =
        [&["get", STORE, "key"][..], &["scan", STORE], &["export", STORE, "-"], &["stats", STORE], &["stats", STORE, "--json"]];
    for args in verbs.into_iter().chain([&["--help"][..], &["--version"], &["help", "put"], &["completions", "bash"]]) {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn limits_and_nonsense_are_usage_errors() {
    let folder = Folder::new();
    let long = "k".repeat(65_537);
    assert_eq!(folder.run(&["put", STORE, &long, "x", "--json"]).exits(2).error()["kind"], "key-too-long");
    folder.ok(&["put", STORE, &long[1..], "x"]);
    assert_eq!(folder.ok(&["get", STORE, &long[1..]]), b"x");
    folder.run(&["put", STORE, "a", "x", "-n", ""]).exits(2);
    folder.run(&["put", STORE, "a", "x", "-n", &"n".repeat(2000)]).exits(2);
    for args in [
        &["put", STORE, "a"][..],
        &["put", STORE, "a", "b", "--file", "c"],
        &["put", STORE, "--hex", "0g", "x"],
        &["get", STORE, "--base64", "?"],
        &["get", STORE, "--hex", "--base64", "00"],
        &["frobnicate"],
        &["import", STORE, "x.csv", "--no-header"],
        &[],
    ] {
        let run = folder.run(args).exits(2);
        assert!(!run.err.is_empty() && run.out.is_empty(), "{args:?}");
    }
    assert_eq!(folder.run(&["frobnicate", "--json"]).exits(2).error()["kind"], "usage");
    folder.run(&["put", STORE, "a", "--file", "missing"]).exits(7);
}

#[test]
fn a_value_that_never_comes_locks_nobody_out() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "value"]);
    let mut slow = folder.command(&["put", STORE, "slow", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = slow.stdin.take().unwrap();
    stdin.write_all(b"first half, ").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    folder.ok(&["put", STORE, "other", "x"]);
    stdin.write_all(b"second half").unwrap();
    drop(stdin);
    assert!(slow.wait().unwrap().success());
    assert_eq!(folder.ok(&["get", STORE, "slow"]), b"first half, second half");
}

/// A file system without space for the note of who holds the store (Btrfs writes it to another place each time) refused the opening, and with
/// it every removal. Here a limit on the length of files takes its place.
#[cfg(target_os = "linux")]
#[test]
fn a_store_can_be_opened_where_there_is_no_space_for_the_note_of_its_holder() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "key", "value"]);
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" rm test.pipkin missing";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pipkin")])
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && words.contains("is not in the store"), "{words}");
}
