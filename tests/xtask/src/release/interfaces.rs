//! What others build on: the WIT package, the public interfaces of the crates, and the terms of what the crates build on themselves.

use super::{crates, version};
use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::tools::Tools;
use std::fs;

/// What others build on. The worlds of the component itself are in `component.wit`, which is not packed: they export two versions of
/// `wasi:keyvalue`, and `wkg` resolves a package to one.
const WIT_FILES: [&str; 5] = ["types.wit", "store.wit", "events.wit", "admin.wit", "world.wit"];
/// What the package must have.
const WIT_NAMES: [&str; 5] = ["types", "store", "admin", "client", "admin-client"];
/// An inner part of two other crates: it promises nothing.
const NO_PROMISE: &str = "pipkin-wasi-shared";

/// One file with the package, as a registry of components takes it. `wkg` leaves a lock file, so it gets a copy of the folder.
pub(super) fn wit(tools: &Tools) -> Outcome {
    tools.wkg()?;
    let folder = target_dir().join("rehearsal/wit");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("wit"))?;
    for file in WIT_FILES {
        fs::copy(root().join("wit").join(file), folder.join("wit").join(file))?;
    }
    Step::new("wkg build --wit-dir wit --output pipkin-kv.wasm").dir(folder.clone()).run()?;
    let packed = fs::read(folder.join("pipkin-kv.wasm"))?;
    let version = version()?;
    for name in WIT_NAMES {
        let wanted = format!("pipkin:kv/{name}@{version}");
        if !packed.windows(wanted.len()).any(|bytes| bytes == wanted.as_bytes()) {
            return failed(format!("the packed WIT does not name {wanted}"));
        }
    }
    println!("pipkin-kv.wasm: {} bytes, with {}", packed.len(), WIT_NAMES.join(", "));
    Ok(())
}

/// Compares the libraries with the last tag, or with `baseline`.
pub(super) fn semver(tools: &Tools, baseline: Option<&str>) -> Outcome {
    let tag = Step::new("git describe --tags --abbrev=0 --match v*").output().map(|tag| tag.trim().to_owned());
    let Some(baseline) = baseline.map(str::to_owned).or(tag.ok()) else {
        println!("no earlier release: there is no tag `v*` to compare with, and --baseline names no revision");
        return Ok(());
    };
    tools.cargo_semver_checks()?;
    let published = crates::published()?;
    let names = published.iter().filter(|package| package.is_library && package.name != NO_PROMISE);
    Step::new("cargo semver-checks --default-features --baseline-rev")
        .arg(baseline)
        .args(names.flat_map(|package| ["-p", package.name.as_str()]))
        .limit_minutes(40)
        .run()
}

/// Licences, duplicates and sources are judged from what is on this machine. The list of known vulnerabilities is not.
pub(super) fn deny(tools: &Tools, advisories: bool) -> Outcome {
    tools.cargo_deny()?;
    Step::new("cargo deny check licenses bans sources").run()?;
    if advisories {
        return Step::new("cargo deny check advisories").run();
    }
    println!("WARNING: known vulnerabilities were NOT looked for. Their list comes from the network:");
    println!(
        "WARNING: before a release run `cargo xtask release --rehearse --only deny --advisories` where GitHub can be reached"
    );
    Ok(())
}
