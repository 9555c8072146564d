//! watch.

use crate::support::{Folder, STORE};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

fn lines(folder: &Folder, args: &[&str]) -> Vec<Value> {
    let text = folder.run(&[&["watch", STORE][..], args].concat()).success().text().to_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The changes of each commit, and the position at the end.
fn changes(folder: &Folder, args: &[&str]) -> (Vec<Value>, String) {
    let mut lines = lines(folder, args);
    let end = lines.pop().unwrap()["end"].as_str().unwrap().to_owned();
    (lines.into_iter().map(|mut line| line["changes"].take()).collect(), end)
}

#[test]
fn watch_prints_every_commit_from_a_position_on_and_says_where_it_ends() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    folder.ok(&["put", STORE, "b", "2", "-n", "users"]);
    let (first, end) = changes(&folder, &["--from", "start"]);
    let put = |key: &str, value: &str| json!({"change": "put", "key": key, "value": value});
    let users = json!({"change": "clear", "namespace": "users"});
    let of_users = json!({"change": "put", "namespace": "users", "key": "b", "value": "2"});
    assert_eq!(first, [json!([put("a", "1")]), json!([users]), json!([of_users])]);
    folder.ok(&["rm", STORE, "a"]);
    folder.ok(&["put", STORE, "c", "3"]);
    let bytes = folder.read(STORE);
    let (more, _) = changes(&folder, &["--from", &end]);
    assert_eq!(more, [json!([{"change": "remove", "key": "a"}]), json!([put("c", "3")])]);
    assert_eq!(changes(&folder, &["--from", &end, "--prefix", "c"]).0, [json!([put("c", "3")])]);
    assert_eq!(changes(&folder, &["--from", "start", "--namespace", "users"]).0.len(), 2);
    assert!(folder.read(STORE) == bytes, "reading changes nothing");
    let state = lines(&folder, &["--initial"]);
    let records: Vec<&Value> = state.iter().filter(|line| line.get("record").is_some()).collect();
    assert_eq!(
        records,
        [&json!({"record": {"key": "c", "value": "3"}}), &json!({"record": {"key": "b", "value": "2"}, "namespace": "users"})]
    );
}

#[test]
fn a_consumer_goes_on_where_it_has_ended() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    assert_eq!(changes(&folder, &["--consumer", "mailer"]).0, [] as [Value; 0]);
    for value in ["2", "3"] {
        folder.ok(&["put", STORE, "a", value]);
        folder.ok(&["compact", STORE]);
    }
    assert_eq!(changes(&folder, &["--consumer", "mailer"]).0.len(), 2);
    assert_eq!(changes(&folder, &["--consumer", "mailer"]).0.len(), 0);
    folder.run(&["watch", STORE, "--consumer", "mailer", "--forget"]).success();
    folder.run(&["watch", STORE, "--consumer", "mailer", "--forget"]).exits(1);
    assert_eq!(lines(&folder, &["--consumer", "mirror", "--initial"]).len(), 2);
}

#[test]
fn watch_refuses_what_makes_no_sense_and_names_what_helps() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    let (_, end) = changes(&folder, &["--from", "start"]);
    folder.run(&["watch", STORE]).exits(2);
    folder.run(&["watch", STORE, "--from", "yesterday"]).exits(2);
    folder.run(&["watch", STORE, "--from", &end, "--consumer", "a"]).exits(2);
    folder.run(&["watch", STORE, "--from", "ffffffffffffffffffffffffffffff00"]).exits(1);
    let lines: String = (0..2000).map(|number| format!("{{\"key\":\"k\",\"value\":\"{number:0>100}\"}}\n")).collect();
    folder.write("lines", lines);
    folder.ok(&["import", STORE, "lines", "--format", "ndjson"]);
    folder.ok(&["compact", STORE]);
    let run = folder.run(&["watch", STORE, "--from", "start", "--json"]);
    if run.code != 0 {
        let error: Value = serde_json::from_str(run.err.lines().last().unwrap()).unwrap();
        assert_eq!((run.code, &error["error"]["kind"]), (1, &json!("compacted")));
        let oldest = error["error"]["oldest"].as_str().unwrap();
        folder.run(&["watch", STORE, "--from", oldest]).success();
    }
}

/// It reads beside a process that has the store open, and hears of what that writes.
#[test]
fn a_followed_store_is_printed_as_others_write_it() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    let mut child = folder.command(&["watch", STORE, "--initial", "--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let put = |value: &str| json!([{"change": "put", "key": "a", "value": value}]);
    assert_eq!(next()["record"], json!({"key": "a", "value": "1"}));
    for value in ["2", "3"] {
        folder.ok(&["put", STORE, "a", value]);
        assert_eq!(next()["changes"], put(value));
    }
    let db = pipkin::Db::open(folder.path(STORE)).unwrap();
    for value in ["4", "5"] {
        db.insert("a", value).unwrap();
        db.flush().unwrap();
        assert_eq!(next()["changes"], put(value));
    }
    let mut early = folder.command(&["watch", STORE, "--initial", "--follow", "--appended"]).spawn().unwrap();
    let mut early_lines = BufReader::new(early.stdout.take().unwrap()).lines();
    assert!(early_lines.next().unwrap().unwrap().contains("\"5\""));
    db.insert("a", "not flushed").unwrap();
    assert!(early_lines.next().unwrap().unwrap().contains("not flushed"));
    db.close().unwrap();
    assert_eq!(next()["changes"], put("not flushed"));
    // A store that is removed or replaced is another one: it ends, and says so.
    std::fs::remove_file(folder.path(STORE)).unwrap();
    assert_eq!((child.wait().unwrap().code(), early.wait().unwrap().code()), (Some(7), Some(7)));
    folder.run(&["watch", STORE, "--consumer", "a", "--follow"]).exits(2);
    folder.run(&["watch", STORE, "--initial", "--appended"]).exits(2);
}

#[test]
fn reads_beside_a_process_that_has_the_store_open() {
    let folder = Folder::new();
    let db = pipkin::Db::open(folder.path(STORE)).unwrap();
    db.insert("a", "1").unwrap();
    db.namespace("users").unwrap().insert("b", "2").unwrap();
    let run = folder.run(&["get", STORE, "a"]).exits(4);
    assert!(run.err.contains("--follow"), "{}", run.err);
    assert_eq!(folder.run(&["get", STORE, "a", "--follow"]).success().text(), "1");
    assert_eq!(folder.run(&["scan", STORE, "--follow", "-n", "users"]).success().text(), "b\t2\n");
    assert_eq!(folder.run(&["ttl", STORE, "a", "--follow"]).success().text(), "never\n");
    folder.run(&["get", STORE, "b", "--follow"]).exits(1);
    db.insert("a", "3").unwrap();
    assert_eq!(folder.run(&["get", STORE, "a", "--follow"]).success().text(), "3");
    drop(db);
    assert_eq!(folder.run(&["get", STORE, "a", "--follow"]).success().text(), "3");
    folder.run(&["get", "nowhere.pipkin", "a", "--follow"]).exits(6);
}

/// Who wonders why a file does not shrink is told for whom it is kept, and how to end that.
#[test]
fn stats_name_the_consumers_and_what_is_kept_for_them() {
    let folder = Folder::new();
    folder.ok(&["put", STORE, "a", "1"]);
    assert_eq!(folder.json(&["stats", STORE])["consumers"], json!([]));
    folder.ok(&["watch", STORE, "--consumer", "slow\u{1b}[2J"]);
    let lines: String = (0..30_000).map(|number| format!("{{\"key\":\"k\",\"value\":\"{number:0>300}\"}}\n")).collect();
    folder.write("lines", lines);
    folder.ok(&["import", STORE, "lines", "--format", "ndjson"]);
    folder.ok(&["compact", STORE]);
    let stats = folder.json(&["stats", STORE]);
    let slow = &stats["consumers"][0];
    assert_eq!((&slow["name"], &slow["is_too_far_behind"]), (&json!("slow\u{1b}[2J"), &json!(false)));
    assert!(stats["history_bytes"].as_u64().unwrap() > 1 << 20 && slow["behind_bytes"].as_u64().unwrap() > 9_000_000, "{stats}");
    let run = folder.run(&["stats", STORE]).success();
    assert!(
        run.text().contains(r#"consumer     "slow\u{1b}[2J", "#) && run.text().contains("kept for consumers"),
        "{}",
        run.text()
    );
    folder.ok(&["watch", STORE, "--consumer", "slow\u{1b}[2J", "--forget"]);
    folder.ok(&["compact", STORE]);
    let stats = folder.json(&["stats", STORE]);
    assert_eq!((&stats["consumers"], &stats["history_bytes"]), (&json!([]), &json!(0)));
    assert!(stats["file_bytes"].as_u64().unwrap() < 1 << 20, "{stats}");
}
