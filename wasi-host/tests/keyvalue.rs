//! `wasi:keyvalue` out of the native engine: the promises of the standard, what the engine adds to them, and the same program with the
//! component in the host's place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

#[path = "support/build.rs"]
mod build;
#[path = "support/program.rs"]
mod program;

use pipkin::Db;
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin_tape::Tape;
use pipkin_wasi_host::keyvalue::{SyncPolicy, WasiKeyValueCtx, hostcall_fuel};
use program::Program;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The conformance program makes this many checks and more.
const CHECKS_MIN: u32 = 70;

fn stores(directory: &Path) -> WasiKeyValueCtx {
    WasiKeyValueCtx::builder().directory(directory).store("").store("named").build()
}

fn checks(output: &str) -> u32 {
    output.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn the_standard_is_kept_in_both_drafts() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("conformance"));
    for name in ["", "named"] {
        let output = program.run(&stores(folder.path()), &[name]).unwrap();
        assert!(checks(&output) >= CHECKS_MIN, "{output}");
        println!("provider: {output}");
    }
    let each_set = WasiKeyValueCtx::builder().directory(folder.path()).store_with("s", SyncPolicy::EachSet).build();
    assert!(program.run(&each_set, &["s"]).is_ok());
}

#[test]
fn the_component_keeps_it_too_when_it_is_composed_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::of(&build::composed(&build::program("conformance"), build::product()));
    let output = program.run_in(folder.path(), &["named"]).unwrap();
    assert!(checks(&output) >= CHECKS_MIN, "{output}");
    println!("composed: {output}");
    let db = Db::open(folder.path().join("named.pipkin")).unwrap();
    assert!(db.is_empty().unwrap() && db.verify().unwrap().is_ok());
}

#[test]
fn a_program_that_counts_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("counter");
    let program = Program::new(&path);
    let context = stores(folder.path());
    assert_eq!(program.run(&context, &[]).unwrap(), "run 1\n");
    assert_eq!(program.run(&context, &[]).unwrap(), "run 2\n", "another instance, the same context");
    drop(context);
    assert_eq!(program.run(&stores(folder.path()), &[]).unwrap(), "run 3\n", "another context, the same file");

    let composed = Program::of(&build::composed(&path, build::product()));
    assert_eq!(composed.run_in(folder.path(), &[]).unwrap(), "run 4\n", "the component, the same file");
    assert_eq!(Db::open(folder.path().join("default.pipkin")).unwrap().get("runs").unwrap().unwrap(), b"4");
}

#[test]
fn the_component_names_files_as_the_provider_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("editor");
    let native = Program::new(&path);
    let composed = Program::of(&build::composed(&path, build::product()));
    let context = || WasiKeyValueCtx::builder().directory(folder.path()).store("my.store").build();
    composed.run_in(folder.path(), &["my.store"]).unwrap();
    native.run(&context(), &["my.store"]).unwrap();
    let files: Vec<_> = folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["my.store.pipkin"]);
}

/// What is in a file when the tape has been played, looked at natively.
fn content(path: &Path) -> pipkin_tape::Digest {
    let db = Db::open(path).unwrap();
    pipkin_tape::verified(&db).unwrap();
    pipkin_tape::digest(&db).unwrap()
}

#[test]
fn the_tape_through_pipkin_kv_leaves_what_it_leaves_natively() {
    let folder = tempfile::tempdir().unwrap();
    let player = build::program("player");
    Program::new(&player).run(&stores(folder.path()), &["named"]).unwrap();
    assert_eq!(content(&folder.path().join("named.pipkin")), Tape::FULL.expected(), "served by the host");

    let composed = Program::of(&build::composed(&player, build::product()));
    composed.run_in(folder.path(), &["composed.pipkin"]).unwrap();
    assert_eq!(content(&folder.path().join("composed.pipkin")), Tape::FULL.expected(), "composed with the component");
}

/// The position that the program `historian` has left in a store.
fn left_position(db: &Db) -> pipkin::Position {
    pipkin::Position::from_bytes(db.get("position").unwrap().unwrap().try_into().unwrap())
}

#[test]
fn snapshots_and_positions_hold_served_by_the_host_and_composed_and_natively_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let historian = build::program("historian");
    let served = Db::builder().segment_size(16 * 1024).path(folder.path().join("served.pipkin")).open().unwrap();
    let context = WasiKeyValueCtx::builder().directory(folder.path()).engine("named", served.clone(), SyncPolicy::Manual);
    let output = Program::new(&historian).run(&context.store("other").build(), &["named", "other"]).unwrap();
    assert_eq!(
        output, "snapshots and positions hold; of a closed store: an answer\n",
        "the host shares the store, and keeps it open"
    );
    assert_eq!(served.stats().unwrap().snapshots, 0, "those that the guest has never dropped end with it");

    let composed = Program::of(&build::composed(&historian, build::product()));
    let output = composed.run_in(folder.path(), &["composed.pipkin", "second.pipkin"]).unwrap();
    assert_eq!(output, "snapshots and positions hold; of a closed store: Reason::Closed\n");
    let composed = Db::open(folder.path().join("composed.pipkin")).unwrap();

    for db in [&served, &composed] {
        assert!(db.verify().unwrap().is_ok());
        assert_eq!(db.get("k").unwrap().unwrap(), b"w");
        assert_eq!(db.state_of(left_position(db)), pipkin::PositionState::Durable, "the same 16 bytes natively");
    }
    assert_eq!(served.state_of(left_position(&composed)), pipkin::PositionState::Unknown);
}

#[test]
fn records_expire_served_by_the_host_and_composed_and_natively_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = build::program("sessions");
    let output = Program::new(&sessions).run(&stores(folder.path()), &["named"]).unwrap();
    assert_eq!(output, "what expires goes, and what is kept stays\n");
    let composed = Program::of(&build::composed(&sessions, build::product()));
    assert_eq!(composed.run_in(folder.path(), &["composed.pipkin"]).unwrap(), output);
    for name in ["named.pipkin", "composed.pipkin"] {
        let db = Db::open(folder.path().join(name)).unwrap();
        assert!(db.verify().unwrap().is_ok());
        let sessions = db.find_namespace("sessions").unwrap();
        let hour = std::time::Duration::from_secs(3600);
        assert_eq!(sessions.default_ttl(), Some(hour), "the default is in the file");
        let left = sessions.ttl("7").unwrap().unwrap();
        assert!(left <= hour && left > hour / 2, "{left:?}");
    }
}

#[test]
fn groups_and_ranges_hold_served_by_the_host_with_and_without_order_and_composed() {
    let folder = tempfile::tempdir().unwrap();
    let visitor = build::program("visitor");
    let order =
        |ordered| Db::builder().segment_size(16 * 1024).ordered(ordered).path(folder.path().join(format!("{ordered}.pipkin")));
    for ordered in [false, true] {
        let served = order(ordered).open().unwrap();
        let context = WasiKeyValueCtx::builder().engine("named", served.clone(), SyncPolicy::Manual).build();
        assert_eq!(Program::new(&visitor).run(&context, &["all", "named"]).unwrap(), "groups and ranges hold\n", "{ordered}");
        assert!(served.verify().unwrap().is_ok());
    }
    let composed = Program::of(&build::composed(&visitor, build::product()));
    assert_eq!(composed.run_in(folder.path(), &["all", "composed.pipkin"]).unwrap(), "groups and ranges hold\n");
    let composed = Db::open(folder.path().join("composed.pipkin")).unwrap();
    assert!(composed.verify().unwrap().is_ok());
    assert_eq!(composed.find_namespace("users").unwrap().len().unwrap(), 2);
}

/// The README shows what the programs `sessions`, `trader`, `follower` and `chronicler` do.
#[test]
fn the_examples_of_the_readme_are_what_programs_run() {
    let programs = [
        include_str!("../programs/src/bin/sessions.rs"),
        include_str!("../programs/src/bin/trader.rs"),
        include_str!("../programs/src/bin/follower.rs"),
        include_str!("../programs/src/bin/chronicler.rs"),
    ];
    let examples: Vec<&str> = include_str!("../README.md").split("```rust,ignore\n").skip(1).collect();
    assert_eq!(examples.len(), programs.len());
    for (example, program) in examples.into_iter().zip(programs) {
        let example = example.split_once("```").unwrap().0;
        let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let (shown, run) = (lines(example.trim_end()), lines(program));
        assert!(shown.len() > 5 && run.windows(shown.len()).any(|lines| lines == shown), "{example}");
    }
}

#[test]
fn only_listed_stores_open() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("counter"));
    let nothing = WasiKeyValueCtx::builder().directory(folder.path()).store("other").build();
    assert!(program.run(&nothing, &[]).unwrap_err().contains("NoSuchStore"));
    let denied = WasiKeyValueCtx::builder().directory(folder.path()).deny("").build();
    assert!(program.run(&denied, &[]).unwrap_err().contains("AccessDenied"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a refused name makes no file");
}

#[test]
fn the_embedder_and_its_guests_share_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("own")).unwrap();
    db.insert("runs", "41").unwrap();
    let program = Program::new(&build::program("counter"));
    let context = WasiKeyValueCtx::builder().engine("", db.clone(), SyncPolicy::Manual).build();
    assert_eq!(program.run(&context, &[]).unwrap(), "run 42\n");
    assert_eq!(db.get("runs").unwrap().unwrap(), b"42");
    context.flush().unwrap();

    db.insert("runs", "many").unwrap();
    assert!(program.run(&context, &[]).unwrap_err().contains("is no counter"));
}

#[test]
fn guests_that_count_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (program, context) = (Program::new(&build::program("counter")), stores(folder.path()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| assert!(program.run(&context, &[]).is_ok())));
        }
    });
    assert_eq!(program.run(&context, &[]).unwrap(), "run 101\n");
}

#[test]
fn a_store_that_is_open_elsewhere_is_an_error_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("counter"));
    let holder = Db::open(folder.path().join("default.pipkin")).unwrap();
    let context = stores(folder.path());
    let words = program.run(&context, &[]).unwrap_err();
    assert!(words.contains("is open elsewhere"), "{words}");
    // It said "/tmp/.../default.pipkin is open in process 4711": where the host keeps its files, and who it is.
    let (place, process) = (folder.path().to_str().unwrap(), std::process::id().to_string());
    assert!(!words.contains(place) && !words.contains(&process), "{words}");
    drop(holder);
    assert_eq!(program.run(&context, &[]).unwrap(), "run 1\n", "the next guest tries again");
}

/// `wasi:keyvalue@0.2.0-draft2` is in use with two texts of one name: programs for Spin, whose `get-many` answers otherwise, could not be
/// linked at all, though the documents said that the draft is the one that Spin speaks.
#[test]
fn the_text_of_spin_is_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = build::program("conformance-spin");
    let output = Program::new(&path).run(&stores(folder.path()), &["named"]).unwrap();
    assert!(checks(&output) >= CHECKS_MIN / 2, "{output}");
    println!("provider: {output}");
    let composed = Program::of(&build::composed(&path, build::spin()));
    let output = composed.run_in(folder.path(), &["composed"]).unwrap();
    assert!(checks(&output) >= CHECKS_MIN / 2, "{output}");
    println!("composed: {output}");
    assert!(Db::open(folder.path().join("composed.pipkin")).unwrap().is_empty().unwrap());
}

#[test]
fn which_text_a_program_was_built_for_is_seen() {
    let spin = Program::new(&build::program("conformance-spin"));
    let published = Program::new(&build::program("conformance"));
    assert!(spin.speaks_spin() && !published.speaks_spin());
    assert!(!Program::new(&build::program("counter")).speaks_spin(), "it imports no batch");
    let folder = tempfile::tempdir().unwrap();
    let words = spin.run_as(&stores(folder.path()), false).unwrap_err();
    assert!(words.contains("get-many"), "linked with the other text it does not start: {words}");
    let words = published.run_as(&stores(folder.path()), true).unwrap_err();
    assert!(words.contains("get-many"), "{words}");
}

/// The files of a folder, in bytes.
fn bytes_in(folder: &Path) -> u64 {
    folder.read_dir().unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// A program that ends without dropping its bucket left 4 MiB behind each time: 88 MB for a handful of records.
#[test]
fn programs_that_drop_nothing_leave_small_stores() {
    const RUNS: u64 = 60;
    let path = build::program("forgetful");
    let run_all = |run: &dyn Fn(&str)| (0..RUNS).for_each(|number| run(&format!("key {}", number % 5)));

    let folder = tempfile::tempdir().unwrap();
    let composed = Program::of(&build::composed(&path, build::product()));
    run_all(&|key| drop(composed.run_in(folder.path(), &["s", key]).unwrap()));
    let composed_bytes = bytes_in(folder.path());
    (0..20).for_each(|_| drop(composed.run_in(folder.path(), &["s", "key 1"]).unwrap()));
    assert_eq!(bytes_in(folder.path()), composed_bytes, "more of them leave no more");
    let db = Db::open(folder.path().join("s.pipkin")).unwrap();
    assert!(db.len().unwrap() == 5 && db.verify().unwrap().is_ok());

    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&path);
    let context = || WasiKeyValueCtx::builder().directory(folder.path()).store("s").build();
    run_all(&|key| drop(program.run(&context(), &["s", key]).unwrap()));
    let served_bytes = bytes_in(folder.path());
    println!("{RUNS} runs left {composed_bytes} bytes in the component's store, {served_bytes} in the provider's");
    // Without a lock, nobody writes for a while to where an earlier one still may. In that time come so many, and each takes an extent: the
    // first ones have 16 KiB, and then they double every few.
    assert!(composed_bytes <= 13 << 20, "an extent for each in ten seconds at most, however many runs: {composed_bytes}");
    assert!(served_bytes < 1 << 16, "the provider closes what programs leave open: {served_bytes}");
}

/// A program composed with the component made a store of whatever name it liked.
#[test]
fn the_component_opens_only_the_buckets_that_the_host_lists() {
    let folder = tempfile::tempdir().unwrap();
    let composed = Program::of(&build::composed(&build::program("forgetful"), build::product()));
    std::fs::write(folder.path().join("pipkin-buckets"), "sessions\r\ndefault\n").unwrap();
    for allowed in ["sessions", "", "default"] {
        composed.run_in(folder.path(), &[allowed, "k"]).unwrap();
    }
    for refused in ["other", "session", "sessions2", "pipkin-buckets"] {
        let words = composed.run_in(folder.path(), &[refused, "k"]).unwrap_err();
        assert!(words.contains("NoSuchStore"), "{words}");
    }
    let mut files: Vec<_> =
        folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["default.pipkin", "pipkin-buckets", "sessions.pipkin"]);
    std::fs::write(folder.path().join("pipkin-buckets"), "").unwrap();
    assert!(composed.run_in(folder.path(), &["sessions", "k"]).is_err(), "an empty list allows none");
}

/// Programs that stored a value as long as the fuel that the README named were ended: the key counts, too.
#[test]
fn the_fuel_of_a_call_has_room_for_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(&build::program("editor"));
    let (key, value) = ("k".repeat(64 << 10), 3 << 20);
    let line = format!("{key}\t{}\n", "v".repeat(value));
    let run = |fuel| program.run_with_fuel(&stores(folder.path()), &["named"], &line, fuel);
    assert!(run(value).is_err(), "the fuel of the value alone is not enough");
    assert_eq!(run(hostcall_fuel(value)).unwrap(), "1 changes\n");
}

/// A sync, which takes milliseconds, was done in the thread of the runtime: everything else on it waited.
#[test]
fn a_set_that_is_synced_does_not_hold_the_runtime_up() {
    let ticks = |leaves_the_thread| {
        let slow = FaultStorage::new(MemoryStorage::new());
        slow.before_sync(|| std::thread::sleep(std::time::Duration::from_millis(200)));
        let db = Db::builder().open_storage(Box::new(slow)).unwrap();
        let context = WasiKeyValueCtx::builder().engine("s", db.clone(), SyncPolicy::EachSet).build();
        let ticks = Program::new(&build::program("forgetful")).ticks_while(&context, &["s", "k"], leaves_the_thread);
        assert_eq!(db.len().unwrap(), 1);
        ticks
    };
    let (blocking, leaving) = (ticks(false), ticks(true));
    println!("during a sync of 200 ms the runtime ran {blocking} times with the calls that block, {leaving} with the others");
    assert!(leaving >= 20, "{leaving}");
    assert!(blocking < leaving / 2, "{blocking} {leaving}: this test sees nothing");
}

/// The key is the host's alone: the program reads and writes as ever, the file tells nothing of it, and without the key nobody gets in.
#[test]
fn a_sealed_store_is_opened_for_guests_that_never_see_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("default.pipkin");
    let program = Program::new(&build::program("counter"));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let listed = || {
        let heard = errors.clone();
        let told = move |name: &str, error: &pipkin::Error| heard.lock().unwrap().push(format!("{name:?} {error:?}"));
        WasiKeyValueCtx::builder()
            .directory(folder.path())
            .store("")
            .presets("", [("a plain word", "another plain word")])
            .on_error(told)
    };
    // A name of the same file has the same key.
    let key = || listed().encryption_key("default", [7; 32]).build();
    assert_eq!(program.run(&key(), &[]).unwrap(), "run 1\n");
    let context = key();
    assert_eq!(program.run(&context, &[]).unwrap(), "run 2\n");
    assert_eq!(program.run(&context, &[]).unwrap(), "run 3\n");
    drop(context);
    assert_eq!(errors.lock().unwrap().len(), 0);
    let before = std::fs::read(&file).unwrap();
    for word in [&b"plain word"[..], b"runs", &[7; 32]] {
        assert!(!before.windows(word.len()).any(|window| window == word), "{word:?}");
    }
    for (context, error) in [
        (listed().build(), "KeyNeeded"),
        (listed().encryption_key("", [8; 32]).build(), "WrongKey"),
        (listed().encryption_passphrase("", "none").build(), "WrongKey"),
        (listed().read_only("").build(), "KeyNeeded"),
    ] {
        program.run(&context, &[]).unwrap_err();
        let heard: Vec<String> = errors.lock().unwrap().drain(..).collect();
        assert!(!heard.is_empty() && heard.iter().all(|heard| heard.contains(error)), "{heard:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(
        program.run(&listed().encryption_key("", [7; 32]).store_with("", SyncPolicy::EachSet).build(), &[]).unwrap(),
        "run 4\n"
    );
    let db = Db::builder().encryption_key([7; 32]).path(&file).open().unwrap();
    assert_eq!(db.get("a plain word").unwrap().as_deref(), Some(&b"another plain word"[..]));
    db.close().unwrap();
    let other = tempfile::tempdir().unwrap();
    Db::open(other.path().join("default.pipkin")).unwrap().close().unwrap();
    let heard = errors.clone();
    let sealed = WasiKeyValueCtx::builder().directory(other.path()).store("").encryption_key("", [7; 32]);
    let sealed = sealed.on_error(move |_, error| heard.lock().unwrap().push(format!("{error:?}")));
    assert!(!format!("{sealed:?}").contains("7, 7"));
    assert!(program.run(&sealed.build(), &[]).is_err());
    assert_eq!(*errors.lock().unwrap(), ["NotSealed"]);
}
