//! `cargo xtask demo`: the main job on real data, ended by a comparison of digests.
//!
//! The data comes from a public package and is checked against a known SHA-256, so every run of it is the same run.
//! Hosts are stages behind one [`Plan`]: what must come out is computed once, from the source, without pipkin.

mod browser;
mod data;
mod digest;
mod journey;
mod native;
mod plan;
mod sealed;
mod visits;
mod wasi;
mod watch;

use crate::shell::{Outcome, failed, target_dir};
use plan::Plan;
use std::fs;
use std::path::PathBuf;

pub(crate) fn run(args: &[String]) -> Outcome {
    if args.first().is_some_and(|arg| arg == "--serve") {
        return browser::serve(args.get(1).map(String::as_str));
    }
    let (mut wanted, mut keep) = (None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--keep" => keep = true,
            "--data" => wanted = Some(args.next().map_or("", String::as_str)),
            other => {
                return failed(format!("`demo` does not know {other}, see `cargo xtask help`"));
            }
        }
    }
    let folder = folder()?;
    let set = data::obtain(&folder, wanted)?;
    let plan = Plan::new(&set);
    println!("{}: {} records, {} distinct keys", set.about, set.records.len(), plan.loaded.len());
    println!("the plan: overwrite {}, remove {}", plan.overwritten.len(), plan.removed.len());
    let stage = native::run(&folder, &plan)?;
    wasi::run(&stage, &plan)?;
    browser::run(&stage, &plan)?;
    journey::run(&stage)?;
    visits::run(&stage)?;
    sealed::run(&stage)?;
    stage.close(keep)?;
    println!("\nthe demonstration has ended well: what came out is what the source says");
    Ok(())
}

/// Fills the cache, so that a failure to do so can be told from a failure of the store.
pub(crate) fn fetch_data() -> Outcome {
    data::obtain(&folder()?, None).map(|_| ())
}

fn folder() -> Outcome<PathBuf> {
    let folder = target_dir().join("demo");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
