//! `pipkin keys`: who can open a sealed store; passphrases that are asked for; and that no secret is ever shown.

use crate::support::{Folder, STORE, hex};

/// Unmistakable, so that a search for it finds it.
const SECRET: &str = "hunter2-hunter2";

/// A folder with a sealed store, the keys `one` (which opens it) and `two`, and the passphrases `first` and `second`.
fn sealed() -> Folder {
    let folder = Folder::new();
    folder.write("one", [7; 32]);
    folder.write("two", [8; 32]);
    folder.write("first", SECRET);
    folder.write("second", "another");
    folder.ok(&["put", STORE, "color", "green", "--key-file", "one"]);
    folder
}

fn opens(folder: &Folder, how: [&str; 2]) -> bool {
    let run = folder.run(&["get", STORE, "color", how[0], how[1]]);
    assert!(run.code == 0 || run.code == 2 && run.err.contains("key"), "{run:?}");
    run.code == 0
}

#[test]
fn a_choice_that_a_sealed_store_refuses_makes_no_namespace() {
    let folder = sealed();
    let set = ["namespaces", "set", STORE, "documents", "--compression", "on-write", "--key-file", "one"];
    let run = folder.run(&set).exits(2);
    assert!(run.err.contains("compress"), "{}", run.err);
    assert_eq!(folder.ok(&["namespaces", "list", STORE, "--key-file", "one"]), b"");
    let set = folder.json(&[&set[..], &["--compress-sealed"]].concat());
    assert_eq!(set, serde_json::json!({"namespace": "documents", "compression": "on-write"}));
}

#[test]
fn keys_and_passphrases_are_listed_added_removed_and_replaced() {
    let folder = sealed();
    let list = |how: [&str; 2]| folder.json(&["keys", "list", STORE, how[0], how[1]])["slots"].clone();
    let key = ["--key-file", "one"];
    assert_eq!(list(key), serde_json::json!([{ "number": 0, "kind": "key" }]));
    let added = folder.json(&["keys", "add", STORE, "--key-file", "one", "--new-passphrase-file", "first"]);
    assert_eq!(added["added"], 1);
    assert!(opens(&folder, key) && opens(&folder, ["--passphrase-file", "first"]));
    assert_eq!(folder.run(&["keys", "list", STORE, "--key-file", "one"]).text(), "0\tkey\n1\tpassphrase\n");

    // The passphrase that opens the store is the one that is replaced.
    folder.ok(&["keys", "replace", STORE, "--passphrase-file", "first", "--new-passphrase-file", "second"]);
    let second = ["--passphrase-file", "second"];
    assert!(opens(&folder, second) && !opens(&folder, ["--passphrase-file", "first"]));

    // Of several, another one only by its number.
    let run = folder.run(&["keys", "replace", STORE, "--key-file", "one", "--new-key-file", "two"]).exits(2);
    assert!(run.err.contains("number"), "{}", run.err);
    assert_eq!(list(key), serde_json::json!([{ "number": 0, "kind": "key" }, { "number": 1, "kind": "passphrase" }]));
    let replaced = folder.json(&["keys", "replace", STORE, "0", "--passphrase-file", "second", "--new-key-file", "two"]);
    assert_eq!((&replaced["added"], &replaced["removed"]), (&2.into(), &0.into()));
    assert!(!opens(&folder, key) && opens(&folder, ["--key-file", "two"]));
    assert_eq!(folder.json(&["keys", "remove", STORE, "2", "--passphrase-file", "second"])["removed"], 2);
    assert!(!opens(&folder, ["--key-file", "two"]));
    // The only one needs no number.
    folder.ok(&["keys", "replace", STORE, "--passphrase-file", "second", "--new-key-file", "one"]);
    assert!(opens(&folder, key) && !opens(&folder, second));

    for args in [
        &["keys", "remove", STORE, "2"][..],
        &["keys", "remove", STORE, "5"],
        &["keys", "replace", STORE, "5", "--new-key-file", "two"],
        &["keys", "add", STORE],
        &["keys", "add", STORE, "--new-key-file", "one", "--new-passphrase-file", "first"],
        &["keys", "add", STORE, "--new-key-file", "one"],
        &["keys", "add", STORE, "--new-key-file", "first"],
    ] {
        folder.run(&[args, &["--key-file", "one"]].concat()).exits(2);
    }
    folder.ok(&["put", "plain.pipkin", "a", "1"]);
    let run = folder.run(&["keys", "list", "plain.pipkin", "--json"]).exits(2);
    assert_eq!(run.error()["kind"], "not-sealed");
    assert_eq!(folder.run(&["keys", "list", STORE, "--json"]).exits(2).error()["kind"], "key-needed");
}

#[test]
fn after_a_rotation_only_the_new_key_opens_the_store() {
    let folder = sealed();
    folder.ok(&["keys", "add", STORE, "--key-file", "one", "--new-passphrase-file", "first"]);
    let report = folder.json(&["keys", "rotate", STORE, "--passphrase-file", "first", "--new-key-file", "two"]);
    assert_eq!((&report["finished"], &report["segments_left"]), (&true.into(), &0.into()));
    assert!(opens(&folder, ["--key-file", "two"]));
    assert!(!opens(&folder, ["--key-file", "one"]) && !opens(&folder, ["--passphrase-file", "first"]));
    // Nothing is left to finish.
    assert_eq!(folder.json(&["keys", "rotate", STORE, "--key-file", "two"])["finished"], true);
}

#[test]
fn salvage_of_a_sealed_store_takes_its_key_and_seals_the_copy() {
    let folder = sealed();
    folder.ok(&["keys", "export", STORE, "page", "--key-file", "one"]);
    let mut bytes = folder.read(STORE);
    for slot in [0, 4096] {
        bytes[slot..slot + 512].fill(9);
    }
    folder.write(STORE, &bytes);
    assert_eq!(folder.run(&["salvage", STORE, "a", "--json"]).exits(2).error()["kind"], "key-needed");
    folder.run(&["salvage", STORE, "a", "--key-file", "two"]).exits(3);
    folder.run(&["salvage", STORE, "a", "--key-file", "one"]).exits(3);
    let with = ["--key-file", "one", "--key-page", "page"];
    let run = folder.run(&[&["salvage", STORE, "a"], &with[..]].concat()).exits(3);
    assert!(run.text().contains("1 record copied") && run.text().contains("newest state"), "{run:?}");
    assert_eq!(folder.ok(&["get", "a", "color", "--key-file", "one"]), b"green");
    assert_eq!(folder.run(&["get", "a", "color", "--json"]).exits(2).error()["kind"], "key-needed");
    let run = folder.run(&[&["salvage", STORE, "b", "--plain", "--json"], &with[..]].concat()).exits(3);
    let report: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!((&report["records"], &report["history_unproven"]), (&1.into(), &true.into()));
    assert_eq!(folder.ok(&["get", "b", "color"]), b"green");
    let left: Vec<String> = folder.names().into_iter().filter(|name| name.contains(".part")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_store_that_has_lost_its_page_of_keys_opens_with_the_exported_one() {
    let folder = sealed();
    let report = folder.json(&["keys", "export", STORE, "page", "--key-file", "one"]);
    assert_eq!(report["bytes"], folder.read("page").len());
    folder.run(&["keys", "export", STORE, "page", "--key-file", "one"]).exits(2);
    let mut bytes = folder.read(STORE);
    for place in [1024, 5120, 12_288] {
        bytes[place..place + 3072].fill(0);
    }
    folder.write(STORE, &bytes);
    let get = ["get", STORE, "color", "--key-file", "one"];
    folder.run(&get).exits(3);
    folder.run(&["get", STORE, "color", "--key-page", "page"]).exits(2);
    folder.run(&[&get[..], &["--key-page", "one"]].concat()).exits(2);
    folder.run(&[&get[..], &["--key-page", "none"]].concat()).exits(7);
    assert_eq!(folder.ok(&[&get[..], &["--key-page", "page"]].concat()), b"green");
    // A write puts the copies back.
    folder.ok(&["put", STORE, "size", "large", "--key-file", "one", "--key-page", "page"]);
    assert_eq!(folder.ok(&get), b"green");
}

#[test]
fn stats_say_whether_a_store_is_sealed_and_how() {
    let folder = sealed();
    folder.ok(&["keys", "add", STORE, "--key-file", "one", "--new-key-file", "two"]);
    let stats = folder.json(&["stats", STORE, "--key-file", "two"]);
    assert_eq!(stats["sealed"], serde_json::json!({ "cipher": "AES-256-GCM", "slots": 2 }));
    assert!(folder.run(&["stats", STORE, "--key-file", "two"]).text().contains("AES-256-GCM; 2 of"));
    folder.ok(&["put", "plain.pipkin", "a", "1"]);
    assert_eq!(folder.json(&["stats", "plain.pipkin"])["sealed"], serde_json::Value::Null);
    assert!(!folder.run(&["stats", "plain.pipkin"]).text().contains("sealed"));
}

#[test]
fn no_answer_and_no_error_repeats_a_secret() {
    let folder = sealed();
    folder.ok(&["keys", "add", STORE, "--key-file", "one", "--new-passphrase-file", "first"]);
    folder.write("almost", format!("{SECRET}{SECRET}{SECRET}"));
    let bytes = [7; 32];
    let key = [hex(&bytes), String::from_utf8_lossy(&bytes).into_owned()];
    let typed = format!("--passphrase={SECRET}");
    let typed_new = format!("--new-passphrase={SECRET}");
    let lines: [&[&str]; 14] = [
        &["keys", "list", STORE, "--passphrase-file", "first"],
        &["keys", "add", STORE, "--passphrase-file", "first", "--new-key-file", "one"],
        &["keys", "add", STORE, "--key-file", "one", "--new-passphrase-file", "first"],
        &["keys", "add", STORE, "--key-file", "first", "--new-key-file", "two"],
        &["keys", "add", STORE, "--key-file", "almost", "--new-key-file", "two"],
        &["keys", "replace", STORE, "--passphrase-file", "first", "--new-passphrase-file", "first"],
        &["keys", "export", STORE, "page", "--passphrase-file", "first"],
        &["get", STORE, "color", "--passphrase-file", "almost"],
        &["get", STORE, "color", "--key-file", "two", "--key-page", "first"],
        &["stats", STORE, "--passphrase-file", "first"],
        &["verify", STORE, "--passphrase-file", "first"],
        &["get", STORE, "color", &typed],
        &["keys", "add", STORE, "--key-file", "one", &typed_new],
        &["keys", "--help"],
    ];
    for line in lines {
        for json in [&[][..], &["--json"]] {
            let run = folder.run(&[line, json].concat());
            let shown = format!("{}{}", String::from_utf8_lossy(&run.out), run.err);
            for secret in [SECRET, &key[0], &key[1]] {
                assert!(!shown.contains(secret), "{line:?}: {shown}");
            }
        }
    }
    let run = folder.run(&["get", STORE, "color", &typed, "--json"]).exits(2);
    assert!(run.error()["message"].as_str().unwrap().contains("not an argument"));
    let help = folder.command(&["--help"]).env("PIPKIN_PASSPHRASE", SECRET).output().unwrap();
    assert!(help.status.success() && !String::from_utf8_lossy(&help.stdout).contains(SECRET));
}

#[cfg(target_os = "linux")]
mod terminal {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    const CTRL_C: &str = "\u{3}";

    /// Runs the command on a terminal of its own, where `said` is typed, one line for each question. Returns the exit code and what the terminal
    /// showed; `look` sees the process while it waits for the first answer.
    fn on_a_terminal(folder: &Folder, args: &[&str], said: &[&str], look: &dyn Fn(u32)) -> (i32, String) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let pipkin = folder.command(args);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(pipkin.get_program()).args(args).current_dir(pipkin.get_current_dir().unwrap());
        let mut child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        drop(command);
        let (mut terminal, mut shown) = (File::from(master), String::new());
        let mut questions = 0;
        let mut buffer = [0; 4096];
        // A terminal that nobody has open any more fails to be read.
        while let Ok(count @ 1..) = terminal.read(&mut buffer) {
            shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            while shown.matches(": ").count() > questions && said.len() > questions {
                if questions == 0 {
                    look(child.id());
                }
                // Ctrl-C ends no line: the line would be read before anybody hears of it.
                let end = if said[questions] == CTRL_C { "" } else { "\n" };
                write!(terminal, "{}{end}", said[questions]).unwrap();
                questions += 1;
            }
        }
        (child.wait().unwrap().code().unwrap(), shown)
    }

    #[test]
    fn a_passphrase_is_asked_for_and_not_shown() {
        let folder = Folder::new();
        let nothing = |_: u32| {};
        let run = |args: &[&str], said: &[&str]| {
            let (code, shown) = on_a_terminal(&folder, args, said, &nothing);
            assert!(!shown.contains(SECRET), "{shown}");
            (code, shown)
        };
        let put = ["put", STORE, "color", "green", "--passphrase"];
        // Whoever makes a store types twice; a slip makes none.
        let (code, shown) = run(&put, &[SECRET, "a slip"]);
        assert!(code == 2 && shown.contains("differ"), "{shown}");
        assert_eq!(folder.names().len(), 0);
        assert_eq!(run(&put, &["", ""]).0, 2);
        assert_eq!(run(&put, &[SECRET, SECRET]).0, 0);
        let (code, shown) = run(&["get", STORE, "color", "--passphrase"], &[SECRET]);
        assert!(code == 0 && shown.trim_end().ends_with("green"), "{shown}");
        assert_eq!(run(&["get", STORE, "color", "--passphrase"], &["wrong"]).0, 2);
        let change = ["keys", "replace", STORE, "--passphrase", "--new-passphrase"];
        assert_eq!(run(&change, &[SECRET, "new", "newer"]).0, 2);
        assert_eq!(run(&change, &[SECRET, "new", "new"]).0, 0);
        assert_eq!(run(&["get", STORE, "color", "--passphrase"], &["new"]).0, 0);
    }

    #[test]
    fn ctrl_c_at_the_question_ends_the_command_and_lets_the_terminal_show_again() {
        let folder = sealed();
        let (code, shown) = on_a_terminal(&folder, &["get", STORE, "color", "--passphrase"], &[CTRL_C], &|_| {});
        assert!(code == 130 && shown.contains("interrupted"), "{shown}");
        // What the same terminal shows afterwards.
        let script =
            format!("trap : INT; '{}' get {STORE} color --passphrase; echo it has ended; exec cat", env!("CARGO_BIN_EXE_pipkin"));
        let echo = folder.command(&["get"]);
        let mut shell = Command::new("script");
        shell.args(["--quiet", "--return", "--command", &script, "/dev/null"]).current_dir(echo.get_current_dir().unwrap());
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut shown, mut buffer, mut step) = (String::new(), [0; 4096], 0);
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let (seen, answer) = [(": ", CTRL_C), ("it has ended", "shown again\n\u{4}"), ("never", "")][step.min(2)];
            if shown.contains(seen) {
                input.write_all(answer.as_bytes()).unwrap();
                step += 1;
            }
        }
        child.wait().unwrap();
        assert_eq!(shown.matches("shown again").count(), 2, "echoed, and by `cat`: {shown}");
    }

    #[test]
    fn without_a_terminal_nothing_is_asked_and_the_command_says_what_to_give() {
        let folder = sealed();
        for args in [
            &["get", STORE, "color", "--passphrase", "--json"][..],
            &["keys", "add", STORE, "--key-file", "one", "--new-passphrase", "--json"],
        ] {
            let pipkin = folder.command(args);
            let mut command = Command::new("setsid");
            command.arg("--wait").arg(pipkin.get_program()).args(args).current_dir(pipkin.get_current_dir().unwrap());
            let output = command.stdin(Stdio::null()).output().unwrap();
            let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!((output.status.code(), &error["error"]["kind"]), (Some(2), &"usage".into()));
            assert!(error["error"]["message"].as_str().unwrap().contains("--passphrase-file"), "{error}");
        }
    }

    #[test]
    fn the_list_of_processes_shows_no_secret() {
        let folder = sealed();
        folder.ok(&["keys", "add", STORE, "--key-file", "one", "--new-passphrase-file", "first"]);
        let looked = std::cell::Cell::new(0);
        let look = |setsid: u32| {
            for entry in std::fs::read_dir("/proc").unwrap().map(Result::unwrap) {
                let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
                let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
                let status = String::from_utf8_lossy(&read("status")).into_owned();
                if pid == setsid || status.contains(&format!("PPid:\t{setsid}\n")) {
                    looked.set(looked.get() + 1);
                    for shown in [read("cmdline"), read("environ")] {
                        assert!(!shown.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
                    }
                }
            }
        };
        let args = ["keys", "replace", STORE, "--passphrase-file", "first", "--new-passphrase"];
        let (code, _) = on_a_terminal(&folder, &args, &["new", "new"], &look);
        assert!(code == 0 && looked.get() > 0, "{code}, {looked:?}");
    }
}

#[test]
fn a_plain_store_is_sealed_and_made_plain_again() {
    let folder = Folder::new();
    folder.write("one", [7; 32]);
    folder.write("two", [8; 32]);
    folder.ok(&["put", STORE, "color", SECRET]);
    folder.ok(&["put", STORE, "ada", "Ada", "--namespace", "users"]);
    let digest = folder.json(&["digest", STORE]);
    assert_eq!(folder.run(&["encrypt", STORE]).exits(2).text(), "");
    let report = folder.json(&["encrypt", STORE, "--key-file", "one"]);
    assert_eq!((&report["sealed"], &report["records"]), (&true.into(), &1.into()));
    let bytes = std::fs::read(folder.path(STORE)).unwrap();
    assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    assert_eq!(folder.run(&["get", STORE, "color", "--json"]).exits(2).error()["kind"], "key-needed");
    assert_eq!(folder.json(&["digest", STORE, "--key-file", "one"]), digest);
    folder.run(&["encrypt", STORE, "--key-file", "two"]).exits(2);
    assert_eq!(folder.run(&["decrypt", STORE, "--key-file", "two", "--json"]).exits(2).error()["kind"], "wrong-key");
    assert_eq!(folder.json(&["decrypt", STORE, "--key-file", "one"])["sealed"], false);
    assert_eq!(folder.json(&["digest", STORE]), digest);
    assert_eq!(folder.run(&["decrypt", STORE, "--key-file", "one", "--json"]).exits(2).error()["kind"], "not-sealed");
    folder.run(&["decrypt", "none.pipkin", "--key-file", "one"]).exits(6);
}

/// A store that a program was making plain: nothing but `decrypt` opens it, and salvage says what it has.
#[test]
fn a_store_that_was_being_made_plain_is_decrypted_to_the_end() {
    let folder = Folder::new();
    folder.write("one", [7; 32]);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/disabling/begun.pipkin");
    let before = std::fs::read(golden).unwrap();
    folder.write(STORE, &before);
    for verb in [&["get", STORE, "color"][..], &["stats", STORE], &["verify", STORE], &["digest", STORE], &["compact", STORE]] {
        let verb = [verb, &["--key-file", "one", "--json"]].concat();
        assert_eq!(folder.run(&verb).exits(2).error()["kind"], "disabling-encryption", "{verb:?}");
    }
    assert_eq!(folder.run(&["digest", STORE, "--json"]).exits(2).error()["kind"], "key-needed");
    assert_eq!(folder.json(&["verify", STORE])["authenticated"], false);
    assert_eq!(std::fs::read(folder.path(STORE)).unwrap(), before);
    let salvaged = folder.json(&["salvage", STORE, "salvaged.pipkin", "--key-file", "one", "--plain"]);
    assert_eq!(salvaged["unauthenticated"], true);
    assert_eq!(folder.json(&["decrypt", STORE, "--key-file", "one"])["sealed"], false);
    assert_eq!(folder.json(&["digest", STORE]), folder.json(&["digest", "salvaged.pipkin"]));
    assert_eq!(folder.json(&["verify", STORE])["authenticated"], true);
}
