//! What others build on: the WIT package, the public interfaces of the crates, and the terms of what the crates build on themselves.

use super::{crates, version};
use crate::shell::{Outcome, Step, failed, root, target_dir};
use crate::tools::Tools;
use std::fs;
use std::path::Path;

/// What only this repository calls, or what is no part of the package.
const NOT_IN_WIT: [&str; 2] = ["proof", "spin"];
/// An inner part of two other crates: it promises nothing.
const NO_PROMISE: &str = "pipkin-wasi-shared";

/// One file with the package and what it refers to, as a registry of components takes it. `wkg` writes its lock file and its own copies of
/// dependencies, so it gets a copy of the folder.
pub(super) fn wit(tools: &Tools) -> Outcome {
    tools.wkg()?;
    let folder = target_dir().join("rehearsal/wit");
    let _ = fs::remove_dir_all(&folder);
    copy(&root().join("wit"), &folder.join("wit"))?;
    Step::new("wkg wit build --wit-dir wit --output pipkin-kv.wasm").dir(folder.clone()).run()?;
    let packed = fs::read(folder.join("pipkin-kv.wasm"))?;
    println!("pipkin-kv.wasm: {} bytes", packed.len());
    let wanted = format!("pipkin:kv/store@{}", version()?);
    if !packed.windows(wanted.len()).any(|bytes| bytes == wanted.as_bytes()) {
        return failed(format!("the packed WIT does not name {wanted}"));
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if NOT_IN_WIT.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if target.extension().is_some_and(|extension| extension == "wit") {
            fs::copy(entry.path(), &target)?;
        }
    }
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
