//! What compression saves and costs: JSON documents of some 190 bytes, and bytes that do not compress, each in a store without compression, one
//! that compaction compresses, and one that writes compress, too.
//!
//! ```text
//! npm install @mdn/browser-compat-data
//! PIPKIN_BENCH_COMPAT=node_modules/@mdn/browser-compat-data/data.json cargo bench -p pipkin-bench --bench compression
//! ```
//!
//! Without the variable the documents are generated, and more alike than real ones. Times are medians of seven rounds that alternate.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "a failure ends the measurement, which prints")]

use pipkin::{Compression, Db};
use pipkin_bench::Random;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

const DOCUMENTS: usize = 38_000;
const ROUNDS: usize = 7;
const WAYS: [(&str, Compression); 3] =
    [("off", Compression::Off), ("on compaction", Compression::OnCompaction), ("on write", Compression::OnWrite)];

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// A document for each browser of each feature.
fn walk(path: &str, node: &Value, out: &mut Vec<String>) {
    let Value::Object(fields) = node else { return };
    if let Some(compat) = fields.get("__compat")
        && let Some(Value::Object(support)) = compat.get("support")
    {
        for (browser, support) in support {
            out.push(
                json!({ "feature": path, "browser": browser, "support": support, "status": compat.get("status") }).to_string(),
            );
        }
    }
    for (name, child) in fields.iter().filter(|(name, _)| *name != "__compat") {
        walk(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, child, out);
    }
}

fn documents() -> Records {
    let mut all = Vec::new();
    match std::env::var_os("PIPKIN_BENCH_COMPAT") {
        Some(path) => {
            let text = std::fs::read_to_string(path).expect("the file can be read");
            walk("", &serde_json::from_str(&text).expect("it is JSON"), &mut all);
        }
        None => {
            let mut random = Random::new(1);
            for _ in 0..DOCUMENTS {
                let (feature, version) = (random.below(30_000), random.below(150));
                let browser = ["chrome", "edge", "firefox", "opera", "safari"].get(random.below(5) as usize);
                all.push(
                    json!({ "feature": format!("api.Interface{feature}.method{version}"), "browser": browser,
                    "support": { "version_added": version.to_string() },
                    "status": { "deprecated": version % 2 == 0, "experimental": false, "standard_track": true } })
                    .to_string(),
                );
            }
        }
    }
    let step = all.len() / DOCUMENTS;
    let chosen = all.into_iter().step_by(step.max(1)).take(DOCUMENTS);
    chosen.enumerate().map(|(number, text)| ((number as u32).to_be_bytes().to_vec(), text.into_bytes())).collect()
}

fn incompressible() -> Records {
    let mut random = Random::new(2);
    let value = |random: &mut Random| (0..190).map(|_| random.below(256) as u8).collect();
    (0..DOCUMENTS as u32).map(|number| (number.to_be_bytes().to_vec(), value(&mut random))).collect()
}

/// Nanoseconds of each record, and what was left of the file.
#[derive(Clone, Copy, Default)]
struct Round {
    put: f64,
    compact: f64,
    get: f64,
    file: u64,
    values: u64,
}

fn each(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / DOCUMENTS as f64
}

fn round(folder: &Path, records: &Records, order: &[usize], compression: Compression) -> Round {
    let path = folder.join("store.pipkin");
    let open = || Db::builder().path(&path).background(false).compression(compression).open().expect("it opens");
    let db = open();
    let start = Instant::now();
    records.iter().for_each(|(key, value)| db.insert(key, value).expect("there is room"));
    let put = each(start);
    db.flush().expect("it syncs");
    let start = Instant::now();
    db.compact().expect("there is room");
    let compact = each(start);
    let stats = db.compression_stats().expect("it is whole");
    let plain: u64 = records.iter().map(|(_, value)| value.len() as u64).sum();
    db.close().expect("it syncs");
    let file = std::fs::metadata(&path).expect("it is there").len();
    let db = open();
    // The index is built, and the file in memory.
    order.iter().filter_map(|&number| records.get(number)).for_each(|(key, _)| drop(db.get(key)));
    let start = Instant::now();
    for (key, value) in order.iter().filter_map(|&number| records.get(number)) {
        let found = db.get(key).expect("it is whole").expect("it is there");
        assert_eq!(found.len(), value.len());
    }
    let get = each(start);
    drop(db);
    std::fs::remove_file(&path).expect("it goes");
    Round { put, compact, get, file, values: plain - stats.plain_bytes + stats.stored_bytes + stats.dictionary_bytes }
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (what, records) in [("JSON documents", documents()), ("random bytes", incompressible())] {
        let plain: usize = records.iter().map(|(_, value)| value.len()).sum();
        println!("{} {what}, {} bytes of values, {} each, keys of 4", records.len(), plain, plain / records.len().max(1));
        let mut order: Vec<usize> = (0..records.len()).collect();
        Random::new(3).shuffle(&mut order);
        let mut rounds = WAYS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (rounds, (_, compression)) in rounds.iter_mut().zip(WAYS) {
                rounds.push(round(folder.path(), &records, &order, compression));
            }
        }
        let plain_file = rounds.first().and_then(|rounds| rounds.first()).map_or(0, |round| round.file);
        for (rounds, (name, _)) in rounds.iter().zip(WAYS) {
            let last = rounds.last().copied().unwrap_or_default();
            println!(
                "  {name:14} put {:5.0} ns, compact {:6.0} ns, get {:5.0} ns; file {:9} bytes ({:.2}x), values and dictionaries {:9} ({:.2}x)",
                median(rounds, |round| round.put),
                median(rounds, |round| round.compact),
                median(rounds, |round| round.get),
                last.file,
                plain_file as f64 / last.file.max(1) as f64,
                last.values,
                plain as f64 / last.values.max(1) as f64,
            );
        }
    }
}
