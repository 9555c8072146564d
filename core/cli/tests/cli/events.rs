//! events.

use crate::support::{Folder, STORE};
use serde_json::{Value, json};

fn lines(folder: &Folder, args: &[&str]) -> Vec<Value> {
    let text = folder.run(&[&["events"][..], args].concat()).success().text().to_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn append(folder: &Folder, args: &[&str]) {
    folder.ok(&[&["events", "append", STORE, "orders"][..], args].concat());
}

#[test]
fn events_are_appended_as_expected_and_read_in_every_way() {
    let folder = Folder::new();
    append(&folder, &["order-7", "Placed", "3 apples", "--tag", "customer:ada", "--expect", "none", "--metadata", "m"]);
    append(&folder, &["order-8", "Placed", "1 pear", "--tag", "customer:ada", "--tag", "pears"]);
    append(&folder, &["order-7", "Paid", "", "--expect", "1", "--id", "000000000000000000000000000000ff"]);
    let refused = folder.run(&["events", "append", STORE, "orders", "order-7", "Paid", "", "--expect", "1"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("should have version 1, and is at version 2"), "{}", refused.err);
    let again = ["order-7", "Paid", "", "--expect", "1", "--id", "000000000000000000000000000000ff", "--json"];
    let again = folder.run(&[&["events", "append", STORE, "orders"][..], &again].concat()).success();
    assert_eq!(serde_json::from_str::<Value>(again.text()).unwrap(), json!({"number": 3, "version": 2, "repeated": true}));
    let numbers = |args: &[&str]| -> Vec<u64> {
        let lines = lines(&folder, &[&["read", STORE, "orders"][..], args].concat());
        lines.iter().map(|line| line["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&[]), [1, 2, 3]);
    assert_eq!(numbers(&["--reverse", "--limit", "2"]), [3, 2]);
    assert_eq!(numbers(&["--stream", "order-7"]), [1, 3]);
    assert_eq!(numbers(&["--stream", "order-7", "--from", "2"]), [3]);
    assert_eq!(numbers(&["--type", "Placed"]), [1, 2]);
    assert_eq!(numbers(&["--type", "Placed", "--type", "Paid", "--from", "2"]), [2, 3]);
    assert_eq!(numbers(&["--tag", "customer:ada", "--tag", "pears"]), [2]);
    let mut first = lines(&folder, &["read", STORE, "orders", "--limit", "1"]).remove(0);
    assert!(first["time_ms"].take().as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(first["id"].take().as_str().unwrap().len(), 32);
    let expected = json!({
        "number": 1, "stream": "order-7", "version": 1, "type": "Placed", "payload": "3 apples", "tags": ["customer:ada"],
        "metadata": "m", "id": null, "time_ms": null,
    });
    assert_eq!(first, expected);
    assert_eq!(folder.run(&["events", "list", STORE]).success().text(), "orders\n");
    let none = folder.run(&["events", "read", STORE, "none"]);
    assert!(none.code == 1 && none.err.contains("no log of events"), "{none:?}");
}

#[test]
fn a_cursor_goes_on_where_it_has_ended_and_streams_are_truncated() {
    let folder = Folder::new();
    for version in 0..5 {
        append(&folder, &["s", "T", &version.to_string()]);
    }
    let follow = || lines(&folder, &["follow", STORE, "orders", "--cursor", "mailer", "--type", "T"]).len();
    assert_eq!((follow(), follow()), (5, 0));
    append(&folder, &["s", "T", "5"]);
    assert_eq!((follow(), follow()), (1, 0));
    assert_eq!(folder.run(&["events", "cursors", STORE, "orders"]).success().text(), "mailer\t6\n");
    folder.ok(&["events", "cursors", STORE, "orders", "--forget", "mailer"]);
    assert_eq!(folder.run(&["events", "cursors", STORE, "orders", "--forget", "mailer"]).code, 1);
    let truncate =
        |how: &[&str]| folder.run(&[&["events", "truncate", STORE, "orders", "s"][..], how].concat()).success().text().to_owned();
    assert_eq!(truncate(&["--before", "2"]), "1 event removed\n");
    assert_eq!(truncate(&["--keep", "2"]), "3 events removed\n");
    assert_eq!(lines(&folder, &["read", STORE, "orders"]).len(), 2);
    assert_eq!(truncate(&["--all"]), "2 events removed\n");
    append(&folder, &["s", "T", "", "--expect", "6"]);
    let anew = || folder.run(&["events", "append", STORE, "orders", "s", "T", "", "--expect", "anew"]);
    assert!(anew().code == 1 && anew().err.contains("should have no event that is left, and is at version 7"), "{:?}", anew());
    assert_eq!(truncate(&["--all"]), "1 event removed\n");
    assert_eq!(anew().success().text(), "event 8, version 1\n");
    assert_eq!(lines(&folder, &["read", STORE, "orders", "--stream", "s"]).len(), 1);
    assert_eq!(folder.run(&["events", "truncate", STORE, "orders", "s"]).code, 2);
}

#[test]
fn events_are_read_beside_the_process_that_appends_them() {
    let folder = Folder::new();
    let db = pipkin::Db::open(folder.path(STORE)).unwrap();
    let log = db.events("orders").unwrap();
    for kind in ["Placed", "Paid"] {
        log.append("order-7", pipkin::Expected::Any, [pipkin::NewEvent::new(kind, "")]).unwrap();
    }
    assert_eq!(folder.run(&["events", "read", STORE, "orders"]).code, 4);
    let read = || lines(&folder, &["read", STORE, "orders", "--follow", "--stream", "order-7"]).len();
    assert_eq!(read(), 2);
    log.truncate("order-7", 2).unwrap();
    assert_eq!(read(), 1);
}

#[test]
fn retention_is_set_shown_and_kept_in_the_file() {
    let folder = Folder::new();
    for version in 0..5 {
        append(&folder, &["s", "T", &version.to_string()]);
    }
    let retention =
        |how: &[&str]| folder.run(&[&["events", "retention", STORE, "orders"][..], how].concat()).success().text().to_owned();
    assert_eq!(retention(&[]), "all events are kept\n");
    let both = "kept: events of the last 604800 s, of these the last 3 events";
    assert_eq!(retention(&["--max-age", "7d", "--max-events", "3"]), format!("{both}; 2 removed\n"));
    assert_eq!(retention(&[]), format!("{both}\n"));
    assert_eq!(lines(&folder, &["read", STORE, "orders"]).len(), 3);
    assert_eq!(retention(&["--all"]), "all events are kept\n");
    assert_eq!(folder.run(&["events", "retention", STORE, "orders", "--max-age", "soon"]).code, 2);
}

/// All events of a log, without their numbers, which rise over all events of a store.
fn events_of(folder: &Folder, store: &str, log: &str) -> Vec<Value> {
    let mut events = lines(folder, &["read", store, log]);
    for event in &mut events {
        event.as_object_mut().unwrap().remove("number");
    }
    events
}

#[test]
fn what_read_prints_is_imported_once_with_ids_times_and_versions() {
    let folder = Folder::new();
    append(&folder, &["order-7", "Placed", "3 apples", "--tag", "customer:ada", "--tag", "apples", "--metadata", "m"]);
    append(&folder, &["order-8", "Placed", "\u{e4} \" \\", "--expect", "none"]);
    append(&folder, &["order-7", "Paid", "", "--expect", "1"]);
    let raw = folder.run_with_stdin(&["events", "append", STORE, "orders", "order-7", "Raw"], &[0xff, 0, 0xfe]);
    raw.success();
    let printed = folder.ok(&["events", "read", STORE, "orders"]);
    folder.write("events.ndjson", &printed);
    let import = |store: &str| folder.run(&["events", "import", store, "orders", "events.ndjson"]).success().text().to_owned();
    assert_eq!(import("copy.pipkin"), "4 events imported into copy.pipkin\n");
    assert_eq!(events_of(&folder, "copy.pipkin", "orders"), events_of(&folder, STORE, "orders"));
    assert_eq!(import("copy.pipkin"), "4 events imported into copy.pipkin, 4 of them had been there already\n");
    // What a run before has not come to is appended, what it has come to is passed over.
    append(&folder, &["order-8", "Paid", "late"]);
    let more = folder.ok(&["events", "read", STORE, "orders"]);
    let piped = folder.run_with_stdin(&["events", "import", "copy.pipkin", "orders", "-", "--json"], &more).success();
    assert_eq!(serde_json::from_str::<Value>(piped.text()).unwrap(), json!({"events": 5, "repeated": 4}));
    assert_eq!(events_of(&folder, "copy.pipkin", "orders"), events_of(&folder, STORE, "orders"));
    // An export of all namespaces says that events are not in it.
    let exported = folder.json(&["export", STORE, "all.ndjson", "--all-namespaces"]);
    assert_eq!(exported["left_out_event_logs"], 1);
}

#[test]
fn an_import_of_events_refuses_what_would_not_be_the_same() {
    let folder = Folder::new();
    for payload in ["0", "1", "2"] {
        append(&folder, &["s", "T", payload]);
    }
    folder.ok(&["events", "truncate", STORE, "orders", "s", "--before", "2"]);
    let printed = folder.ok(&["events", "read", STORE, "orders"]);
    folder.write("events.ndjson", &printed);
    let import = |args: &[&str]| folder.run(&[&["events", "import", "copy.pipkin", "orders"][..], args].concat());
    let refused = import(&["events.ndjson"]).exits(1);
    assert!(refused.err.contains("line 1: ") && refused.err.contains("version 1, and is at version 0"), "{}", refused.err);
    assert!(refused.err.contains("--new-versions") && refused.err.contains("0 events from before"), "{}", refused.err);
    import(&["events.ndjson", "--new-versions"]).success();
    let events = events_of(&folder, "copy.pipkin", "orders");
    assert_eq!(events.iter().map(|event| event["version"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for (line, hint) in [
        ("{}", "stream"),
        ("[1]", "no event"),
        (r#"{"stream":"t","type":"T","payload":""}"#, "no version"),
        (r#"{"stream":"t","version":0,"type":"T","payload":""}"#, "no version"),
        (r#"{"stream":"t","version":2,"type":"T","payload":"","id":"xy"}"#, "32 hexadecimal digits"),
        (r#"{"stream":"t","version":2,"type":"T","payload":"?","payload_encoding":"base64"}"#, "payload"),
        (r#"{"stream":"t","version":2,"type":"T","payload":"","metadata_encoding":"rot13"}"#, "rot13"),
        (r#"{"stream":"t","version":2,"type":"T","payload":"","time_ms":281474976710656}"#, "time_ms"),
        (r#"{"stream":"","version":1,"type":"T","payload":""}"#, "stream"),
    ] {
        let good = r#"{"stream":"t","version":1,"type":"T","payload":"","id":"000000000000000000000000000000ff"}"#;
        folder.write("bad.ndjson", format!("{good}\n\n{line}\n"));
        let failed = import(&["bad.ndjson"]).exits(8);
        assert!(failed.err.contains("line 3: ") && failed.err.contains(hint), "{line}: {}", failed.err);
        assert!(failed.err.contains("1 event from before"), "{line}: {}", failed.err);
    }
    // What came before the bad line is there, once.
    assert_eq!(lines(&folder, &["read", "copy.pipkin", "orders", "--stream", "t"]).len(), 1);
    import(&["missing.ndjson"]).exits(7);
}
