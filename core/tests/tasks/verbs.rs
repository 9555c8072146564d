//! Nothing that a handle can do is missing in the async face, unless it is named here with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Verbs of `Db`, `Namespace` and `Events` without a future of the same name.
const WITHOUT: [(&str, &str); 18] = [
    ("backup_to_storage", "borrows a storage: `with`"),
    ("break_lock", "of a file and not of a store"),
    ("lock_holder", "of a file and not of a store"),
    ("builder", "the same builder; it opens by `open_async`"),
    ("open_in_memory", "does not wait: `Db::open_in_memory()?.to_async()`"),
    ("compression", "feature `compress`: `with`"),
    ("set_compression", "feature `compress`: `with`"),
    ("is_compressed", "looks in memory"),
    ("compression_stats", "feature `compress`: `with`"),
    ("focus", "a way to write keys: `with`, `group` and `delete_group`"),
    ("get_many_with", "its closure gets borrowed values: `with`"),
    ("get_with", "its closure gets borrowed values: `with`"),
    ("get_zerocopy", "its value borrows the store: `get_zerocopy_owned`"),
    ("page", "the streams `iter` and `keys`"),
    ("range_with", "the stream `range`"),
    ("range_rev_with", "the stream `range_rev`"),
    ("typed", "feature `typed`: `with`"),
    ("to_async", "leads here"),
];

/// Parts of the names of verbs that concern the keys of sealed stores (feature `encrypt`): those are for `with`.
const OF_KEYS: [&str; 6] = ["encryption", "passphrase", "key_rotation", "key_slot", "key_page", "cipher"];

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// The public methods in the `impl` blocks of these types.
fn methods(texts: &[String], types: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in texts {
        let mut is_inside = false;
        let mut is_hidden = false;
        for line in text.lines() {
            if line.starts_with("impl") {
                is_inside = types.iter().any(|name| line == format!("impl {name} {{"));
            }
            is_hidden |= line.trim() == "#[doc(hidden)]";
            let Some(rest) = line.strip_prefix("    pub ").filter(|_| is_inside) else { continue };
            let rest = rest.trim_start_matches("const ").trim_start_matches("async ");
            let Some(rest) = rest.strip_prefix("fn ") else { continue };
            if !std::mem::take(&mut is_hidden) {
                names.insert(rest.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
    names
}

#[test]
fn every_verb_has_a_future_or_a_reason() {
    let (mut blocking, mut async_face) = (Vec::new(), Vec::new());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/db");
    sources(&folder.join("tasks"), &mut async_face);
    sources(&folder, &mut blocking);
    let blocking = methods(&blocking, &["Db", "Namespace", "Events"]);
    let mut futures = methods(&async_face, &["AsyncDb", "AsyncNamespace", "AsyncEvents"]);
    // Those that a macro writes for namespaces and snapshots.
    futures.extend(["iter", "keys", "range", "range_prefix", "range_keys", "iter_from", "iter_after"].map(str::to_owned));
    assert!(blocking.len() > 90 && futures.len() > 90, "{} and {}", blocking.len(), futures.len());
    let without: BTreeSet<String> = WITHOUT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = blocking
        .difference(&futures)
        .filter(|name| !without.contains(*name))
        .filter(|name| !OF_KEYS.iter().any(|part| name.contains(part)))
        .collect();
    assert!(missing.is_empty(), "no future and no reason: {missing:?}");
    let gone: Vec<_> = without.difference(&blocking).collect();
    assert!(gone.is_empty(), "a reason for nothing: {gone:?}");
    let both: Vec<_> = without.intersection(&futures).collect();
    assert!(both.is_empty(), "a reason and a future: {both:?}");
}
