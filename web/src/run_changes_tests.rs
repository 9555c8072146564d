//! Messages of those who follow what changes: in front of writes, that come twice, that come to the next leader, that come too late.

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Position, Ttl};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::clock::BrowserClock;
use crate::failure::Code;
use crate::run;
use crate::shared::Open;
use crate::wire::{Answer, Asked, ChangesPage, Op, Request, decode, encode};

/// The number of a reader.
const READER: f64 = 3.0;

fn open(storage: &MemoryStorage) -> Open {
    let builder = Db::builder().entropy([3; 32]).segment_size(64 * 1024).clock(BrowserClock);
    Open::new(builder.open_storage(Box::new(storage.clone())).unwrap(), None)
}

/// The next leader, after the end of the one that has this file open.
fn next_leader(storage: &MemoryStorage) -> (MemoryStorage, Open) {
    let left = MemoryStorage::from_vec(storage.to_vec());
    let next = open(&left);
    (left, next)
}

fn run(open: &Open, ops: &[Op<'_>]) -> Vec<Answer> {
    run::run(open, &Request { durable: false, origin: None, ops: ops.to_vec() })
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Write((key, Some(value)))
}

const fn asked(after: Option<Position>) -> Asked<'static> {
    Asked { number: READER, after, appended: true, prefix: b"" }
}

fn page(open: &Open, asked: Asked<'_>) -> Result<ChangesPage, Code> {
    match run(open, &[Op::Changes(asked)]).pop() {
        Some(Answer::Changes(page)) => Ok(page),
        Some(Answer::Failed(failure)) => Err(failure.code),
        other => panic!("no page: {other:?}"),
    }
}

/// A commit in short: whether it comes again, and its changes, with a space in front of each.
fn heard(page: &ChangesPage) -> Vec<(bool, String)> {
    let mut rest = page.commits.as_slice();
    let mut take = |len: usize| rest.split_off(..len).unwrap();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let mut commits = Vec::new();
    for _ in 0..page.count {
        take(16);
        let comes_again = take(1) == [1];
        let len = number(take(4));
        let mut changes = take(len);
        let mut text = String::new();
        while let Some((&kind, _)) = changes.split_first() {
            changes = &changes[1..];
            let mut bytes = || {
                let len = number(&changes[..4]);
                let taken = String::from_utf8_lossy(&changes[4..4 + len]).into_owned();
                changes = &changes[4 + len..];
                taken
            };
            match kind {
                0 => text += &format!(" -{}", bytes()),
                1 => text += &format!(" {}={}", bytes(), bytes()),
                2 => {
                    text += &format!(" {}~{}", bytes(), bytes());
                    changes = &changes[8..];
                }
                _ => text += " nothing",
            }
        }
        commits.push((comes_again, text));
    }
    assert!(rest.is_empty());
    commits
}

/// The commits of a page that do not come again.
fn texts(page: &ChangesPage) -> Vec<String> {
    heard(page).into_iter().map(|(comes_again, text)| if comes_again { panic!("{text} comes again") } else { text }).collect()
}

#[wasm_bindgen_test]
fn a_page_has_whole_commits_of_its_prefix_once_they_are_durable_and_what_a_message_writes_behind_it() {
    let open = open(&MemoryStorage::new());
    let mut durable = Asked { appended: false, prefix: b"u/", ..asked(None) };
    let answers = run(&open, &[set(b"u/before", b"0"), Op::Changes(durable), set(b"u/a", b"1")]);
    let [_, Answer::Changes(first), _] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((texts(first).len(), first.is_at_end, first.is_anew), (0, true, true));
    durable.after = Some(first.position);
    let early = page(&open, Asked { number: 4.0, prefix: b"u/", ..asked(durable.after) }).unwrap();
    assert_eq!(texts(&early), [" u/a=1"]);
    assert_eq!(texts(&page(&open, durable).unwrap()), [""; 0]);
    let many = [(&b"u/b"[..], Some(&b"2"[..])), (b"other", Some(b"2")), (b"u/a", None)];
    run(&open, &[Op::WriteMany(many.to_vec())]);
    run(
        &open,
        &[Op::WriteManyFor(vec![((b"u/c", Some(b"3")), Ttl::After(core::time::Duration::from_secs(60)))]), set(b"x", b"4")],
    );
    run(&open, &[Op::Flush]);
    let second = page(&open, durable).unwrap();
    assert_eq!(texts(&second), [" u/a=1", " u/b=2 -u/a", " u/c~3"]);
    assert!(!second.is_anew && second.is_at_end);
    open.db.clear().unwrap();
    run(&open, &[Op::Flush]);
    assert_eq!(texts(&page(&open, Asked { after: Some(second.position), ..durable }).unwrap()), [" nothing"]);
}

#[wasm_bindgen_test]
fn a_page_that_is_asked_for_again_is_the_same_here_and_at_the_next_leader() {
    let storage = MemoryStorage::new();
    let first = open(&storage);
    let begun = page(&first, asked(None)).unwrap();
    run(&first, &[set(b"a", b"1")]);
    let one = page(&first, asked(Some(begun.position))).unwrap();
    // Its answer was lost, and it is asked for again: by another way, and after the leader has gone.
    run(&first, &[set(b"b", b"2")]);
    let again = page(&first, asked(Some(begun.position))).unwrap();
    assert_eq!(
        (texts(&one), one.is_anew, texts(&again), again.is_anew),
        (vec![" a=1".into()], false, vec![" a=1".into(), " b=2".into()], true)
    );
    let (left, next) = next_leader(&storage);
    let elsewhere = page(&next, asked(Some(begun.position))).unwrap();
    assert_eq!((texts(&elsewhere), elsewhere.is_anew), (texts(&again), true));
    run(&next, &[set(b"c", b"3")]);
    assert_eq!(texts(&page(&next, asked(Some(one.position))).unwrap()), [" b=2", " c=3"]);
    // Between two pages of one reader, on the third leader, too.
    let behind = page(&next, asked(Some(again.position))).unwrap();
    let (_, third) = next_leader(&left);
    run(&third, &[set(b"d", b"4")]);
    let last = page(&third, asked(Some(behind.position))).unwrap();
    assert_eq!(heard(&last).iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), [" d=4"]);
}

#[wasm_bindgen_test]
fn a_reader_that_has_heard_nothing_yet_goes_on_at_the_next_leader() {
    // New, closed before, ended without a close: and each time nothing was written since.
    let storage = MemoryStorage::new();
    for round in 0..6 {
        let leader = open(&storage);
        let begun = page(&leader, asked(None)).unwrap();
        let (_, next) = next_leader(&storage);
        assert_eq!(texts(&page(&next, asked(Some(begun.position))).unwrap()), [""; 0]);
        run(&next, &[set(b"a", b"1"), Op::Flush]);
        assert_eq!(texts(&page(&next, Asked { appended: false, ..asked(Some(begun.position)) }).unwrap()), [" a=1"]);
        if round % 2 == 0 {
            run(&leader, &[set(b"b", b"1")]);
        }
        if round % 3 == 0 {
            leader.db.close().unwrap();
        } else {
            core::mem::forget(leader);
        }
    }
}

/// A leader flushes what it has found before it hands a position out.
#[wasm_bindgen_test]
fn what_a_leader_has_left_unflushed_is_heard_at_the_next_one_without_a_write() {
    let storage = MemoryStorage::new();
    let first = open(&storage);
    let begun = page(&first, asked(None)).unwrap();
    run(&first, &[set(b"a", b"1")]);
    let durable = Asked { appended: false, ..asked(Some(begun.position)) };
    let (_, next) = next_leader(&storage);
    assert_eq!(texts(&page(&next, durable).unwrap()), [" a=1"]);
}

#[wasm_bindgen_test]
fn commits_without_a_position_of_their_own_say_so_until_their_leader_goes() {
    let storage = MemoryStorage::new();
    let first = open(&storage);
    let begun = page(&first, asked(None)).unwrap();
    run(&first, &[set(b"a", b"1")]);
    // The segment goes on after a close; after any other end there is another one.
    first.db.close().unwrap();
    let (left, next) = next_leader(&storage);
    // These come before anybody asks for a position.
    run(&next, &[set(b"b", b"2")]);
    run(&next, &[set(b"c", b"3")]);
    let early = page(&next, asked(Some(begun.position))).unwrap();
    assert_eq!(heard(&early), [(false, " a=1".into()), (true, " b=2".into()), (true, " c=3".into())]);
    // The page has ended behind them: whoever goes on there hears nothing twice.
    run(&next, &[set(b"d", b"4")]);
    let (_, third) = next_leader(&left);
    assert_eq!(texts(&page(&third, asked(Some(early.position))).unwrap()), [" d=4"]);
    assert_eq!(texts(&page(&third, asked(Some(begun.position))).unwrap()), [" a=1", " b=2", " c=3", " d=4"]);
}

#[wasm_bindgen_test]
fn a_commit_that_was_heard_early_and_is_lost_ends_its_reader() {
    let storage = MemoryStorage::new();
    let first = open(&storage);
    let begun = page(&first, asked(None)).unwrap();
    run(&first, &[set(b"kept", b"1"), Op::Flush]);
    let before = storage.to_vec();
    run(&first, &[set(b"lost", b"2")]);
    let early = page(&first, asked(Some(begun.position))).unwrap();
    assert_eq!(texts(&early), [" kept=1", " lost=2"]);
    let next = open(&MemoryStorage::from_vec(before));
    for round in 0..3 {
        assert_eq!(page(&next, asked(Some(early.position))).unwrap_err(), Code::UnknownPosition, "round {round}");
        run(&next, &[set(b"other", &[round; 300])]);
    }
}

#[wasm_bindgen_test]
fn positions_that_no_reader_was_given_are_refused_with_what_to_do() {
    let (one, other) = (open(&MemoryStorage::new()), open(&MemoryStorage::new()));
    for store in [&one, &other] {
        run(store, &[set(b"a", b"1")]);
    }
    let elsewhere = Db::builder().entropy([9; 32]).in_memory().unwrap().insert_with_position("a", "1").unwrap();
    let mut hostile = vec![[0xff; 16], elsewhere.to_bytes()];
    let own = page(&one, asked(None)).unwrap().position.to_bytes();
    for bit in 0..128 {
        let mut bytes = own;
        bytes[bit / 8] ^= 1 << (bit % 8);
        hostile.push(bytes);
    }
    for bytes in hostile {
        // Where the log begins later, it cannot tell.
        assert!(
            matches!(page(&one, asked(Some(Position::from_bytes(bytes)))), Err(Code::UnknownPosition | Code::Compacted)),
            "{bytes:?}"
        );
    }
    assert_eq!(heard(&page(&other, asked(Some(Position::START))).unwrap()).len(), 1);
}

#[wasm_bindgen_test]
fn a_position_from_before_what_was_compacted_away_is_refused_and_a_reader_keeps_what_it_has_not_read() {
    let open = open(&MemoryStorage::new());
    let churn = |open: &Open, rounds: u32| {
        for round in 0..rounds {
            run(open, &[set(&(round % 50).to_le_bytes(), &[7; 1500])]);
        }
        open.db.flush().unwrap();
        open.db.compact().unwrap();
        open.db.flush().unwrap();
    };
    let begun = page(&open, asked(None)).unwrap();
    churn(&open, 1000);
    let mut after = begun.position;
    let mut count = 0;
    loop {
        let page = page(&open, asked(Some(after))).unwrap();
        assert!(page.commits.len() < 1024 * 1024 && !page.is_anew, "a page of {} bytes", page.commits.len());
        count += page.count;
        after = page.position;
        if page.is_at_end {
            break;
        }
    }
    assert_eq!(count, 1000);
    drop(open.followers.take(READER));
    churn(&open, 1000);
    assert_eq!(page(&open, asked(Some(begun.position))).unwrap_err(), Code::Compacted);
}

#[wasm_bindgen_test]
fn a_leader_that_keeps_everything_has_what_the_readers_of_the_one_before_have_not_read() {
    for keeps in [true, false] {
        let storage = MemoryStorage::new();
        let first = open(&storage);
        let begun = page(&first, asked(None)).unwrap();
        let value = vec![7; 1500];
        let churn = |open: &Open| (0..1000_u32).for_each(|round| drop(run(open, &[set(&(round % 50).to_le_bytes(), &value)])));
        run(&first, &[set(b"a", b"1")]);
        let (_left, next) = next_leader(&storage);
        if keeps {
            next.followers.keep_all(&next.db, -1.0).unwrap();
        }
        // Others write first.
        churn(&next);
        next.db.flush().unwrap();
        next.db.compact().unwrap();
        next.db.flush().unwrap();
        let page = page(&next, asked(Some(begun.position)));
        assert_eq!(
            page.as_ref().map(|page| texts(page)[0].clone()).map_err(|code| *code),
            if keeps { Ok(" a=1".into()) } else { Err(Code::Compacted) }
        );
    }
}

#[wasm_bindgen_test]
fn readers_that_nobody_asks_any_more_make_way_and_go_on_when_they_are_asked() {
    let open = open(&MemoryStorage::new());
    let begun = page(&open, asked(None)).unwrap();
    run(&open, &[set(b"a", b"1")]);
    for number in 0..3000 {
        page(&open, Asked { number: f64::from(number) + 100.0, ..asked(None) }).unwrap();
    }
    assert_eq!(open.followers.len(), 256);
    assert_eq!(texts(&page(&open, asked(Some(begun.position))).unwrap()), [" a=1"]);
    assert_eq!(open.followers.len(), 256);
    assert!(open.followers.take(READER).is_some() && open.followers.take(READER).is_none());
}

#[wasm_bindgen_test]
fn a_commit_that_is_too_long_is_refused_again_and_again_and_nothing_is_passed_over() {
    let open = open(&MemoryStorage::new());
    let long = vec![1; 65 * 1024 * 1024];
    // Its segment has nothing else in it, so that compaction leaves it where it is.
    run(&open, &[set(b"a", &long)]);
    let before = page(&open, asked(None)).unwrap();
    run(&open, &[set(b"b", &long), set(b"c", &long)]);
    for _ in 0..3 {
        assert_eq!(page(&open, asked(Some(before.position))).unwrap_err(), Code::Usage);
    }
    let now = open.db.position().unwrap();
    run(&open, &[set(b"e", b"1")]);
    assert_eq!(texts(&page(&open, asked(Some(now))).unwrap()), [" e=1"]);
}

#[wasm_bindgen_test]
fn messages_and_answers_are_those_of_the_page() {
    let request = [&[0, 18][..], &READER.to_le_bytes(), &[3], &[5; 16], &[2, 0, 0, 0], b"u/"].concat();
    let ops = decode(&request, None).unwrap().ops;
    let [Op::Changes(Asked { number, after: Some(after), appended: true, prefix: b"u/" })] = ops[..] else { panic!("{ops:?}") };
    assert_eq!((number, after.to_bytes()), (READER, [5; 16]));
    for len in 1..request.len() {
        assert!(decode(&request[..len], None).is_none_or(|request| request.ops.is_empty()), "{len} bytes");
    }
    // In a snapshot and in a transaction there is nothing to follow.
    for kind in [11, 16] {
        assert!(decode(&[&[0, kind][..], &1_f64.to_le_bytes(), &request[1..]].concat(), None).is_none());
    }
    let page = ChangesPage { is_at_end: true, is_anew: true, position: after, count: 7, commits: vec![9] };
    assert_eq!(encode(&[Answer::Changes(page)]), [&[8, 3][..], &[5; 16], &[7, 0, 0, 0, 9]].concat());
}
