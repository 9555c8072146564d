//! The command as a person uses it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step is a failed test")]

#[path = "../../tests/support/build.rs"]
mod build;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipkin-host"));
    command
        .current_dir(folder)
        .env("PIPKIN_COMPONENT", build::product())
        .env("PIPKIN_CACHE", build::folder().join("cache"))
        .args(args);
    command
}

fn run(folder: &Path, args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = command(folder, args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that reads nothing has perhaps ended by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The exit code, with stdout on a medium without room.
#[cfg(target_os = "linux")]
fn to_a_full_medium(folder: &Path, args: &[&str]) -> i32 {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    command(folder, args).stdout(full).status().unwrap().code().unwrap()
}

#[test]
fn verbs_do_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let ok = |args: &[&str], input: &str| {
        let (code, out, error) = run(folder.path(), args, input);
        assert_eq!((code, error.as_str()), (0, ""), "{args:?}");
        out
    };
    ok(&["put", "a.pipkin", "greeting", "hello"], "");
    ok(&["put", "a.pipkin", "from stdin"], "line\n");
    assert_eq!(ok(&["get", "a.pipkin", "greeting"], ""), "hello");
    assert_eq!(ok(&["edit", "a.pipkin"], "a\\tb\tc\\x00\nfrom stdin\nuser/1\tx\n"), "3 changes\n");
    assert_eq!(ok(&["scan", "a.pipkin", "--prefix", "a"], ""), "a\\tb\tc\\x00\n");
    assert_eq!(ok(&["scan", "a.pipkin", "--prefix", "user/", "--keys-only"], ""), "user/1\n");
    assert!(ok(&["stats", "a.pipkin"], "").starts_with("records       3\n"));
    assert!(ok(&["verify", "a.pipkin"], "").ends_with(" 0 damaged places\n"));
    assert!(ok(&["compact", "a.pipkin"], "").ends_with(" bytes freed\n"));
    ok(&["put", "a.pipkin", "", "empty key"], "");
    assert_eq!(ok(&["edit", "a.pipkin"], "\nnone\n\n"), "1 changes\n");
    assert_eq!(ok(&["get", "a.pipkin", ""], ""), "empty key");
    ok(&["rm", "a.pipkin", "greeting", "user/1", ""], "");
    let native = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
    assert_eq!(native.len().unwrap(), 1);
    assert_eq!(native.get("a\tb").unwrap().unwrap(), b"c\0");
}

/// One commit of all of them took more memory than the component has.
#[test]
fn long_values_are_edited_in_short_commits() {
    let folder = tempfile::tempdir().unwrap();
    let value = "v".repeat(1 << 20);
    let lines: String = (0..40).map(|n| format!("{n}\t{value}\n")).collect();
    let (code, out, error) = run(folder.path(), &["--memory", "32", "edit", "a.pipkin"], &lines);
    assert_eq!((code, out.as_str(), error.as_str()), (0, "40 changes\n", ""));
}

#[test]
fn exit_codes_are_those_of_pipkin() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "no store").unwrap();
    let code = |args: &[&str], input: &str, words: &str| {
        let (code, _, error) = run(folder.path(), args, input);
        assert!(error.contains(words), "{args:?}: {error}");
        code
    };
    assert_eq!(code(&["get", "none.pipkin", "k"], "", "there is no store"), 6);
    assert!(!folder.path().join("none.pipkin").exists());
    assert_eq!(code(&["get", "text", "k"], "", "not a pipkin store"), 6);
    #[cfg(unix)]
    assert_eq!(code(&["get", "/dev/null", "k"], "", "names a device"), 6);
    assert_eq!(code(&["put", "a.pipkin", "k", "v"], "", ""), 0);
    #[cfg(target_os = "linux")]
    assert_eq!(to_a_full_medium(folder.path(), &["get", "a.pipkin", "k"]), 5);
    assert_eq!(code(&["get", "a.pipkin", "none"], "", ""), 1);
    assert_eq!(code(&["rm", "a.pipkin", "none"], "", ""), 1);
    assert_eq!(code(&["put", "a.pipkin", &"k".repeat(65_537), "v"], "", "use a shorter key"), 2);
    assert_eq!(code(&["edit", "a.pipkin"], "bad \\q\n", "no record"), 7);
    assert_eq!(code(&["--component", "text", "get", "a.pipkin", "k"], "", "the component does not start"), 2);
    let holder = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
    assert_eq!(code(&["get", "a.pipkin", "k"], "", "is open in process"), 4);
    drop(holder);
    // In the middle of the first record.
    let mut bytes = std::fs::read(folder.path().join("a.pipkin")).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'k').filter(|at| *at > 16 * 1024);
    let at = at.or_else(|| (16 * 1024..bytes.len()).find(|at| bytes.get(*at..at + 2) == Some(b"kv"))).unwrap();
    *bytes.get_mut(at).unwrap() ^= 1;
    std::fs::write(folder.path().join("a.pipkin"), bytes).unwrap();
    assert_eq!(code(&["verify", "a.pipkin"], "", ""), 3);
}

#[test]
fn a_program_remembers_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let (counter, editor) = (build::program("counter"), build::program("editor"));
    let (counter, editor) = (counter.to_str().unwrap(), editor.to_str().unwrap());
    assert_eq!(run(folder.path(), &["run", counter], "").1, "run 1\n");
    assert_eq!(run(folder.path(), &["run", "--sync", counter], "").1, "run 2\n");
    assert_eq!(run(folder.path(), &["get", "default.pipkin", "runs"], "").1, "2");
    let (code, out, _) = run(folder.path(), &["run", "--store", "s", editor, "--", "s"], "k\tv\nnone\n");
    assert_eq!((code, out.as_str()), (0, "2 changes\n"));
    assert_eq!(run(folder.path(), &["scan", "s.pipkin"], "").1, "k\tv\n");
    let (code, _, error) = run(folder.path(), &["run", "--store", "s", editor, "--", "other"], "");
    assert!(code == 1 && error.contains("NoSuchStore"), "{code} {error}");

    assert_eq!(run(folder.path(), &["--memory", "16", "run", counter], "").1, "run 3\n");
    let (code, _, error) = run(folder.path(), &["--memory", "1", "run", counter], "");
    assert!(code == 7 && error.contains("limit"), "{code} {error}");
}

#[test]
fn what_follows_reads_beside_the_writer_and_refuses_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let writer = pipkin::Db::open(folder.path().join("default.pipkin")).unwrap();
    writer.insert("color", "green").unwrap();
    let ok = |args: &[&str]| {
        let (code, out, error) = run(folder.path(), args, "");
        assert_eq!((code, error.as_str()), (0, ""), "{args:?}");
        out
    };
    assert_eq!(run(folder.path(), &["get", "default.pipkin", "color"], "").0, 4);
    assert_eq!(ok(&["get", "--follow", "default.pipkin", "color"]), "green");
    writer.insert("color", "red").unwrap();
    assert_eq!(ok(&["scan", "default.pipkin", "--follow"]), "color\tred\n");
    assert!(ok(&["stats", "--follow", "default.pipkin"]).starts_with("records       1\n"));

    let teller = build::program("teller");
    let args = ["run", "--follow", teller.to_str().unwrap()];
    let mut child = command(folder.path(), &args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut asks, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut told = |line: &str| {
        writeln!(asks, "{line}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    };
    assert_eq!(told("color"), "red");
    for round in 0..200 {
        writer.insert("color", round.to_string()).unwrap();
        writer.insert(format!("{round}"), [7; 3000]).unwrap();
        if round % 50 == 49 {
            writer.compact().unwrap();
        }
        assert_eq!(told("color"), round.to_string());
    }
    assert_eq!((told("shape").as_str(), told("color\tblue").as_str()), ("none", "Error::AccessDenied"));
    writer.remove("color").unwrap();
    assert_eq!(told("color"), "none");
    drop((asks, answers));
    assert!(child.wait().unwrap().success());
    let (code, _, error) = run(folder.path(), &["run", "--follow", "--store", "none", args[2], "--", "none"], "");
    assert!(code == 1 && !folder.path().join("none.pipkin").exists(), "{code} {error}");
}

#[test]
fn programs_run_with_sealed_stores_whose_key_only_the_command_reads() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("digits"), format!("{}\n", "07".repeat(32))).unwrap();
    std::fs::write(folder.path().join("key"), [7; 32]).unwrap();
    std::fs::write(folder.path().join("short"), [7; 31]).unwrap();
    std::fs::write(folder.path().join("words"), "correct horse\n").unwrap();
    let program = build::program("counter");
    let counter = program.to_str().unwrap();
    // `run` needs no component of pipkin's.
    let count = |how: &[&str]| {
        let args = [&["run"], how, &[counter]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_pipkin-host")).current_dir(folder.path()).args(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(count(&["--key-file", "key"]).1, "run 1\n");
    assert_eq!(count(&["--key-file", "digits"]).1, "run 2\n");
    let bytes = std::fs::read(folder.path().join("default.pipkin")).unwrap();
    assert!(!bytes.windows(4).any(|window| window == b"runs"));
    for how in [&[][..], &["--passphrase-file", "words"], &["--key-file", "short"], &["--key-file", "none"]] {
        let (code, out, error) = count(how);
        assert!(code != 0 && out.is_empty() && !error.is_empty() && !error.contains("correct horse"), "{how:?}: {error}");
    }
    let (_, _, error) = count(&[]);
    assert!(error.contains("sealed"), "{error}");
    let db = pipkin::Db::builder().encryption_key([7; 32]).path(folder.path().join("default.pipkin")).open().unwrap();
    assert_eq!(db.len().unwrap(), 1);
}
