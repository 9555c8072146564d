//! import: formats, options, bad input.

use crate::support::{Folder, Records, STORE, digest_of};
use serde_json::Value;

fn records(pairs: &[(&str, &str)]) -> Records {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn assert_holds(folder: &Folder, pairs: &[(&str, &str)]) {
    assert_eq!(folder.digest(STORE), digest_of(&records(pairs)), "{}", folder.run(&["scan", STORE]).text());
}

#[test]
fn ndjson_takes_key_and_value_fields_or_the_whole_line() {
    let folder = Folder::new();
    let text = "\u{feff}{\"id\": 1, \"name\": \"one\"}\r\n\r\n{\"id\": \"b\\n\", \"name\": {\"x\": [1.0]}}";
    folder.write("in.ndjson", text);
    folder.write("in.jsonl", text);
    folder.ok(&["import", STORE, "in.ndjson", "--key", "id", "--value", "name"]);
    assert_holds(&folder, &[("1", "one"), ("b\n", "{\"x\": [1.0]}")]);
    std::fs::remove_file(folder.path(STORE)).unwrap();
    folder.ok(&["import", STORE, "in.jsonl", "--key", "id"]);
    assert_holds(&folder, &[("1", "{\"id\": 1, \"name\": \"one\"}"), ("b\n", "{\"id\": \"b\\n\", \"name\": {\"x\": [1.0]}}")]);
}

#[test]
fn csv_takes_columns_or_the_whole_row() {
    let folder = Folder::new();
    folder.write("in.csv", "id,name\n1,\"a,\"\"b\"\n2,\n");
    folder.ok(&["import", STORE, "in.csv", "--key", "id", "--value", "name"]);
    assert_holds(&folder, &[("1", "a,\"b"), ("2", "")]);
    folder.ok(&["import", STORE, "in.csv", "--key", "id"]);
    assert_holds(&folder, &[("1", r#"{"id":"1","name":"a,\"b"}"#), ("2", r#"{"id":"2","name":""}"#)]);
    folder.write("in.txt", "x;1\ny;2\n");
    std::fs::remove_file(folder.path(STORE)).unwrap();
    folder.ok(&["import", STORE, "in.txt", "--format", "csv", "--delimiter", ";", "--no-header", "--key", "2", "--value", "1"]);
    assert_holds(&folder, &[("1", "x"), ("2", "y")]);
}

#[test]
fn a_tree_becomes_one_record_per_file_and_links_are_left_out() {
    let folder = Folder::new();
    folder.write("tree/a.txt", "a");
    folder.write("tree/sub/deep/b.bin", b"\x00\xff");
    folder.write("tree/sub/empty", "");
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/hostname", folder.path("tree/link")).unwrap();
    let report = folder.json(&["import", STORE, "tree"]);
    assert_eq!(report["records"], 3);
    #[cfg(unix)]
    assert_eq!(report["skipped"], 1);
    let mut expected = records(&[("a.txt", "a"), ("sub/empty", "")]);
    expected.insert(b"sub/deep/b.bin".to_vec(), b"\x00\xff".to_vec());
    assert_eq!(folder.digest(STORE), digest_of(&expected));
}

#[test]
fn a_store_inside_the_tree_is_not_imported_into_itself() {
    let folder = Folder::new();
    folder.write("a", "x");
    folder.ok(&["put", STORE, "old", "y"]);
    folder.ok(&["import", STORE, "."]);
    assert_holds(&folder, &[("a", "x"), ("old", "y")]);
}

#[test]
fn stdin_needs_a_format_and_then_works() {
    let folder = Folder::new();
    assert!(folder.run(&["import", STORE, "-"]).exits(2).err.contains("--format"));
    folder.run(&["import", STORE, "-", "--format", "dir"]).exits(2);
    folder.run_with_stdin(&["import", STORE, "-", "--format", "csv"], b"key,value\na,1\n").success();
    folder.run_with_stdin(&["import", STORE, "-", "--format", "ndjson"], b"{\"key\":\"b\",\"value\":\"2\"}\n").success();
    assert_holds(&folder, &[("a", "1"), ("b", "2")]);
}

#[test]
fn imports_go_into_the_named_namespace_and_replace_what_is_there() {
    let folder = Folder::new();
    folder.write("in.ndjson", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"a\",\"value\":\"2\"}\n");
    folder.ok(&["put", STORE, "a", "0", "-n", "space"]);
    let report = folder.json(&["import", STORE, "in.ndjson", "-n", "space", "--durable"]);
    assert_eq!(report["records"], 2);
    assert_eq!(report["durability"], "device");
    assert_eq!(folder.ok(&["scan", STORE, "-n", "space"]), b"a\t2\n", "of two lines the later one counts");
    assert_eq!(folder.ok(&["scan", STORE]), b"");
}

#[test]
fn many_records_arrive_in_batches_of_1000_or_1_mib() {
    let folder = Folder::new();
    let lines: String = (0..2500).map(|i| format!("{{\"key\":\"k{i}\",\"value\":\"{i}\"}}\n")).collect();
    folder.write("small.ndjson", lines);
    assert_eq!(folder.json(&["import", STORE, "small.ndjson"])["batches"], 3);
    let value = "v".repeat(300_000);
    let lines: String = (0..8).map(|i| format!("{{\"key\":\"large{i}\",\"value\":\"{value}\"}}\n")).collect();
    folder.write("large.ndjson", lines);
    assert_eq!(folder.json(&["import", STORE, "large.ndjson"])["batches"], 2);
    assert_eq!(folder.json(&["stats", STORE])["records"], 2508);
    assert_eq!(folder.ok(&["get", STORE, "large7"]), value.as_bytes());
}

#[test]
fn a_bad_line_is_named_and_what_came_before_it_is_kept() {
    let folder = Folder::new();
    folder.write("in.ndjson", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\"\n{\"key\":\"c\",\"value\":\"3\"}\n");
    let run = folder.run(&["import", STORE, "in.ndjson"]).exits(8);
    assert!(run.err.contains("line 2") && run.err.contains("1 record from before"), "{}", run.err);
    assert_holds(&folder, &[("a", "1")]);
    let run = folder.run(&["import", STORE, "in.ndjson", "--json"]).exits(8);
    assert_eq!(run.error()["records"], 1);
    let report = folder.json(&["import", STORE, "in.ndjson", "--skip-invalid"]);
    assert_eq!((&report["records"], &report["skipped"]), (&Value::from(2), &Value::from(1)));
    assert_holds(&folder, &[("a", "1"), ("c", "3")]);
}

#[test]
fn bad_rows_and_long_keys_are_named_too() {
    let folder = Folder::new();
    folder.write("in.csv", "key,value\na,1\nb,2,3\n");
    assert!(folder.run(&["import", STORE, "in.csv"]).exits(8).err.contains("line: 3"));
    folder.write("no.csv", "x,y\n");
    assert!(folder.run(&["import", STORE, "no.csv"]).exits(8).err.contains("(x, y)"));
    folder.write("long.ndjson", format!("{{\"key\":\"{}\",\"value\":\"\"}}\n", "k".repeat(70_000)));
    let run = folder.run(&["import", STORE, "long.ndjson"]).exits(8);
    assert!(run.err.contains("line 1") && run.err.contains("70000"), "{}", run.err);
}

#[test]
fn a_misspelt_source_leaves_no_store_behind() {
    let folder = Folder::new();
    folder.run(&["import", STORE, "missing.ndjson"]).exits(7);
    folder.run(&["import", STORE, "missing"]).exits(2);
    folder.run(&["import", STORE, "missing", "--format", "dir"]).exits(7);
    folder.write("in.txt", "");
    folder.run(&["import", STORE, "in.txt"]).exits(2);
    folder.run(&["import", STORE, ".", "--format", "ndjson"]).exits(2);
    folder.write("in.ndjson", "");
    folder.run(&["import", STORE, "in.ndjson", "--delimiter", ";"]).exits(2);
    assert_eq!(folder.names(), ["in.ndjson", "in.txt"]);
    folder.ok(&["import", STORE, "in.ndjson"]);
    assert_holds(&folder, &[]);
}

#[test]
fn progress_can_be_asked_for_where_stderr_is_no_terminal() {
    let folder = Folder::new();
    folder.write("in.ndjson", "{\"key\":\"a\",\"value\":\"1\"}\n");
    assert_eq!(folder.run(&["import", STORE, "in.ndjson"]).success().err, "");
    let run = folder.run(&["import", STORE, "in.ndjson", "--progress", "always"]).success();
    assert!(run.err.contains("import ["), "{:?}", run.err);
    assert_eq!(folder.run(&["import", STORE, "in.ndjson", "--progress", "never"]).success().err, "");
}
