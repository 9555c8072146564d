//! The checks, for every text of the standard.

/// Where a check failed.
pub(crate) type Checked<T = ()> = Result<T, String>;

/// Counts, and fails with the place and the words.
pub(crate) struct Checks(pub(crate) u32);

impl Checks {
    pub(crate) fn that(&mut self, holds: bool, what: &str) -> Checked {
        self.0 += 1;
        if holds { Ok(()) } else { Err(format!("check {}: {what}", self.0)) }
    }
}

/// The checks that are the same in all texts; `$cursor` turns a cursor into what `list-keys` takes, `$found` keys and what `get-many` answers
/// into the values.
macro_rules! common {
    ($path:literal, $cursor:expr, $found:expr) => {
        wit_bindgen::generate!({ path: $path, world: "wasi:keyvalue/imports" });

        use crate::checks::{Checked, Checks};
        use wasi::keyvalue::store::{Bucket, Error};
        use wasi::keyvalue::{atomics, batch, store};

        fn words(error: Error) -> String {
            format!("an error that nothing asked for: {error:?}")
        }

        fn all_keys(bucket: &Bucket, mut between: impl FnMut()) -> Checked<Vec<String>> {
            let (mut keys, mut cursor) = (Vec::new(), None);
            for _ in 0..10_000 {
                let page = bucket.list_keys($cursor(&cursor)).map_err(words)?;
                keys.extend(page.keys);
                cursor = page.cursor;
                if cursor.is_none() {
                    keys.sort_unstable();
                    return Ok(keys);
                }
                between();
            }
            Err("list-keys does not end".to_owned())
        }

        fn stores(checks: &mut Checks, name: &str) -> Checked {
            let unknown = store::open("no such/store!");
            checks.that(matches!(unknown, Err(Error::NoSuchStore)), "a store that nobody provides is `no-such-store`")?;
            let bucket = store::open(name).map_err(words)?;
            checks.that(all_keys(&bucket, || {})?.is_empty(), "a new store has no keys")?;
            let pairs: [(&str, &[u8]); 6] =
                [("key", b"value"), ("", b"empty key"), ("empty value", b""), ("\u{e4}\u{1f980}", b"\0\xff"), ("a/b\\..", b"1"), ("key", b"newer")];
            for (key, value) in pairs {
                bucket.set(key, value).map_err(words)?;
                checks.that(bucket.get(key).map_err(words)?.as_deref() == Some(value), "what was set is got")?;
                checks.that(bucket.exists(key).map_err(words)?, "what was set exists")?;
            }
            let other = store::open(name).map_err(words)?;
            checks.that(other.get("key").map_err(words)?.as_deref() == Some(b"newer"), "another handle sees it")?;
            bucket.delete("key").map_err(words)?;
            checks.that(other.get("key").map_err(words)?.is_none(), "what was deleted is none")?;
            checks.that(!bucket.exists("key").map_err(words)?, "what was deleted does not exist")?;
            checks.that(bucket.delete("key").is_ok(), "deleting what is not there does nothing")?;
            checks.that(all_keys(&bucket, || {})?.len() == 4, "the keys are those that are there")?;
            for key in all_keys(&bucket, || {})? {
                bucket.delete(&key).map_err(words)?;
            }
            checks.that(all_keys(&bucket, || {})?.is_empty(), "every key that is listed can be deleted")
        }

        fn paging(checks: &mut Checks, name: &str) -> Checked {
            let bucket = store::open(name).map_err(words)?;
            let kept: Vec<String> = (0..3500).map(|n| format!("kept {n:04}")).collect();
            let records: Vec<(String, Vec<u8>)> = kept.iter().map(|key| (key.clone(), b"1".to_vec())).collect();
            batch::set_many(&bucket, &records).map_err(words)?;
            checks.that(all_keys(&bucket, || {})? == kept, "pages hold every key once")?;
            let mut number = 0;
            let found = all_keys(&bucket, || {
                for _ in 0..300 {
                    let _ = bucket.set(&format!("new {number}"), b"2");
                    let _ = bucket.set(&format!("kept {:04}", number * 7 % 3500), b"3");
                    number += 1;
                }
            })?;
            let still: Vec<&String> = found.iter().filter(|key| key.starts_with("kept")).collect();
            checks.that(number > 0 && still == kept.iter().collect::<Vec<_>>(), "writes between two pages hide and double nothing")?;
            batch::delete_many(&bucket, &all_keys(&bucket, || {})?).map_err(words)?;
            checks.that(all_keys(&bucket, || {})?.is_empty(), "all deleted")
        }

        fn batches(checks: &mut Checks, name: &str) -> Checked {
            let bucket = store::open(name).map_err(words)?;
            let pairs = [("a".to_owned(), b"1".to_vec()), ("b".to_owned(), vec![]), ("a".to_owned(), b"2".to_vec())];
            batch::set_many(&bucket, &pairs).map_err(words)?;
            let keys: Vec<String> = ["b", "none", "b", "a"].map(str::to_owned).into();
            let found: Vec<Option<Vec<u8>>> = $found(&keys, batch::get_many(&bucket, &keys).map_err(words)?)?;
            let expected = [Some(vec![]), None, Some(vec![]), Some(b"2".to_vec())];
            checks.that(found == expected, "one answer for each key, in their order, none for none")?;
            batch::delete_many(&bucket, &keys).map_err(words)?;
            checks.that(all_keys(&bucket, || {})?.is_empty(), "deleting many skips what is not there")?;
            checks.that(batch::set_many(&bucket, &[]).is_ok() && batch::delete_many(&bucket, &[]).is_ok(), "an empty batch is none")?;
            checks.that(batch::get_many(&bucket, &[]).is_ok_and(|found| found.is_empty()), "no keys, no values")
        }

        fn counters(checks: &mut Checks, name: &str) -> Checked {
            let bucket = store::open(name).map_err(words)?;
            checks.that(atomics::increment(&bucket, "n", 5).map_err(words)? == 5, "a counter that is not there begins with the delta")?;
            checks.that(atomics::increment(&bucket, "n", 0).map_err(words)? == 5, "a delta of zero reads")?;
            checks.that(atomics::increment(&bucket, "n", 37).map_err(words)? == 42, "the new value is returned")?;
            checks.that(bucket.get("n").map_err(words)?.as_deref() == Some(b"42"), "counters are decimal text")?;
            bucket.set("n", b"99").map_err(words)?;
            checks.that(atomics::increment(&bucket, "n", 1).map_err(words)? == 100, "a counter may be set")?;
            bucket.set("text", b"no number").map_err(words)?;
            checks.that(matches!(atomics::increment(&bucket, "text", 1), Err(Error::Other(_))), "text cannot be counted")?;
            checks.that(bucket.get("text").map_err(words)?.as_deref() == Some(b"no number"), "and stays as it is")?;
            bucket.set("max", Counter::MAX.to_string().as_bytes()).map_err(words)?;
            checks.that(matches!(atomics::increment(&bucket, "max", 1), Err(Error::Other(_))), "a counter does not wrap")?;
            checks.that(bucket.get("max").map_err(words)? == Some(Counter::MAX.to_string().into_bytes()), "and stays as it is")?;
            let keys = ["n", "text", "max"].map(str::to_owned);
            batch::delete_many(&bucket, &keys).map_err(words)
        }

        pub(crate) fn run(checks: &mut Checks, name: &str) -> Checked {
            stores(checks, name)?;
            paging(checks, name)?;
            batches(checks, name)?;
            counters(checks, name)?;
            own(checks, name)
        }
    };
}

/// What the second draft has beside that; both texts of it are the same here.
macro_rules! draft2 {
    () => {
        use atomics::{Cas, CasError};

        type Counter = i64;

        fn own(checks: &mut Checks, name: &str) -> Checked {
            let bucket = store::open(name).map_err(words)?;
            checks.that(atomics::increment(&bucket, "n", -3).map_err(words)? == -3, "counters go below zero")?;
            let foreign = bucket.list_keys(Some("no cursor"));
            checks.that(matches!(foreign, Err(Error::Other(_))), "a cursor that nobody gave out is an error")?;

            let cas = Cas::new(&bucket, "k").map_err(words)?;
            checks.that(cas.current().map_err(words)?.is_none(), "a key that is not there has no value")?;
            checks.that(atomics::swap(cas, b"a").is_ok(), "nobody wrote, so the swap passes")?;
            checks.that(bucket.get("k").map_err(words)?.as_deref() == Some(b"a"), "and has written")?;

            let cas = Cas::new(&bucket, "k").map_err(words)?;
            bucket.set("k", b"b").map_err(words)?;
            let Err(CasError::CasFailed(fresh)) = atomics::swap(cas, b"c") else {
                return Err("a swap over somebody's write must fail with `cas-failed`".to_owned());
            };
            checks.that(bucket.get("k").map_err(words)?.as_deref() == Some(b"b"), "a swap that fails writes nothing")?;
            checks.that(fresh.current().map_err(words)?.as_deref() == Some(b"b"), "the new handle is up to date")?;
            checks.that(atomics::swap(fresh, b"c").is_ok(), "and passes")?;

            let cas = Cas::new(&bucket, "k").map_err(words)?;
            bucket.set("k", b"x").map_err(words)?;
            bucket.set("k", b"c").map_err(words)?;
            checks.that(matches!(atomics::swap(cas, b"d"), Err(CasError::CasFailed(_))), "a value that came back was changed")?;

            let cas = Cas::new(&bucket, "k").map_err(words)?;
            bucket.delete("k").map_err(words)?;
            checks.that(matches!(atomics::swap(cas, b"d"), Err(CasError::CasFailed(_))), "a key that was deleted was changed")?;
            checks.that(!bucket.exists("k").map_err(words)?, "and stays deleted")?;

            let cas = Cas::new(&bucket, "k").map_err(words)?;
            bucket.set("k", b"x").map_err(words)?;
            bucket.delete("k").map_err(words)?;
            checks.that(atomics::swap(cas, b"d").is_ok(), "a key that is absent again passes: absence has no version")?;
            bucket.delete("k").map_err(words)?;
            bucket.delete("n").map_err(words)
        }
    };
}

/// What `get-many` answered in the text that was published: keys come back with their values.
pub(crate) fn with_keys(keys: &[String], found: Vec<Option<(String, Vec<u8>)>>) -> Checked<Vec<Option<Vec<u8>>>> {
    let is_its = |(key, found): (&String, &Option<(String, Vec<u8>)>)| found.as_ref().is_none_or(|(of, _)| of == key);
    if !keys.iter().zip(&found).all(is_its) {
        return Err("a value came with another key".to_owned());
    }
    Ok(found.into_iter().map(|found| found.map(|(_, value)| value)).collect())
}

/// Prints the number of checks, or what was not kept.
pub(crate) fn report(checks: &Checks, result: Checked) {
    match result {
        Ok(()) => println!("{} checks", checks.0),
        Err(what) => {
            println!("{what}");
            std::process::exit(1);
        }
    }
}
