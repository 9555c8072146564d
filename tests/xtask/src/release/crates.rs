//! Crates: packaged, compiled from their packages, and documented from them as docs.rs does it.

use super::version;
use crate::shell::{Outcome, Step, Stop, failed, root, target_dir};
use crate::tools::Tools;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tinyjson::JsonValue;

type Object = HashMap<String, JsonValue>;

/// A crate of this workspace that is published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) name: String,
    /// What its metadata for docs.rs turns on.
    features: Vec<String>,
    pub(super) is_library: bool,
    has_repository: bool,
}

/// Every crate compiles from its package: what it forgot to take along is missed here, not by its users.
///
/// Type checks by the compiler of the documentation: a package that lacks a file or names a wrong version fails by any compiler, and
/// Wasmtime, the longest part, is compiled once for both steps. That the code links and works is for `cargo xtask test`.
pub(super) fn package(tools: &Tools) -> Outcome {
    tools.nightly(&["rustc"])?;
    let published = published()?;
    for package in &published {
        let listed = Step::new("cargo package --list --allow-dirty -p").arg(&package.name).output()?;
        for wanted in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if !listed.lines().any(|file| file == wanted) {
                return failed(format!("the package of {} lacks {wanted}: link it beside its Cargo.toml", package.name));
            }
        }
    }
    let folder = unpacked(&published)?;
    // One at a time: together, one could live on features that another asks for.
    for package in &published {
        let step = Step::new("cargo +nightly check -p").arg(&package.name).limit_minutes(60);
        in_packages(step, &folder).run()?;
    }
    // Registries take crates without it, so this is no failure.
    if published.iter().any(|package| !package.has_repository) {
        println!("NOTE: Cargo.toml names no `repository`, so the pages of the crates will not lead to their sources:");
        println!("NOTE: once the address is public, set it in [workspace.package] and take it over in every crate");
    }
    Ok(())
}

/// A nightly compiler, `--cfg docsrs`, and the features that the crate asks for.
pub(super) fn docs(tools: &Tools) -> Outcome {
    tools.nightly(&["rustc"])?;
    let published = published()?;
    let folder = unpacked(&published)?;
    for package in published.iter().filter(|package| package.is_library) {
        let mut step = Step::new("cargo +nightly doc --no-deps --lib -p").arg(&package.name).limit_minutes(60);
        if !package.features.is_empty() {
            step = step.arg("--features").arg(package.features.join(","));
        }
        in_packages(step, &folder).env("RUSTDOCFLAGS", "--cfg docsrs -D warnings").run()?;
        let page = folder.join("target/doc").join(package.name.replace('-', "_")).join("index.html");
        if !fs::exists(&page)? {
            return failed(format!("there is no {}", page.display()));
        }
    }
    Ok(())
}

fn in_packages(step: Step, folder: &Path) -> Step {
    step.dir(folder).env("CARGO_TARGET_DIR", folder.join("target").display().to_string())
}

/// Packs all crates, once in a run of this program, and unpacks them into a workspace in which they find each other's packages instead of the
/// folders of this repository. Returns its folder.
fn unpacked(published: &[Published]) -> Outcome<PathBuf> {
    static IS_DONE: Mutex<bool> = Mutex::new(false);
    let mut is_done = IS_DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target_dir().join("rehearsal/packages");
    if *is_done {
        return Ok(folder);
    }
    let packed = target_dir().join("rehearsal");
    let names = published.iter().flat_map(|package| ["-p", package.name.as_str()]);
    let step = Step::new("cargo package --no-verify --allow-dirty").args(names);
    step.env("CARGO_TARGET_DIR", packed.display().to_string()).run()?;
    fs::create_dir_all(&folder)?;
    let version = version()?;
    for package in published {
        let unpacked = folder.join(format!("{}-{version}", package.name));
        let _ = fs::remove_dir_all(&unpacked);
        let archive = packed.join("package").join(format!("{}-{version}.crate", package.name));
        // Not with the times of the archive, which are the same in every package: cargo would take old results for those of new files.
        Step::new("tar -xzmf").path(&archive).arg("-C").path(&folder).run()?;
    }
    fs::write(folder.join("Cargo.toml"), workspace_of(published, &version))?;
    // The versions that are tested here.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    *is_done = true;
    Ok(folder)
}

/// The manifest of a workspace of unpacked packages.
fn workspace_of(published: &[Published], version: &str) -> String {
    let folders = published.iter().map(|package| format!("\"{}-{version}\"", package.name)).collect::<Vec<_>>();
    let patches = published.iter().zip(&folders).map(|(package, folder)| format!("{} = {{ path = {folder} }}\n", package.name));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n{}",
        folders.join(", "),
        patches.collect::<String>()
    )
}

/// The crates that do not say `publish = false`.
pub(super) fn published() -> Outcome<Vec<Published>> {
    let metadata = Step::new("cargo metadata --no-deps --format-version 1").output()?;
    let metadata: JsonValue = metadata.parse().map_err(|error| Stop::Failed(format!("cargo metadata: {error}")))?;
    let packages = published_in(&metadata);
    if packages.is_empty() { failed("every crate says `publish = false`") } else { Ok(packages) }
}

fn published_in(metadata: &JsonValue) -> Vec<Published> {
    let packages = field(metadata, "packages").and_then(|packages| packages.get::<Vec<JsonValue>>());
    packages.into_iter().flatten().filter_map(published_crate).collect()
}

/// `None` for one that is not published.
fn published_crate(package: &JsonValue) -> Option<Published> {
    if !field(package, "publish")?.is_null() {
        return None;
    }
    let docs = field(package, "metadata").and_then(|metadata| field(metadata, "docs.rs"));
    let features = docs.and_then(|docs| field(docs, "features")).map_or_else(Vec::new, strings);
    let targets = field(package, "targets")?.get::<Vec<JsonValue>>()?;
    let is_library = targets.iter().any(|target| field(target, "kind").is_some_and(|kind| strings(kind) == ["lib"]));
    let has_repository = field(package, "repository").is_some_and(|repository| !repository.is_null());
    Some(Published { name: field(package, "name")?.get::<String>()?.clone(), features, is_library, has_repository })
}

fn field<'a>(value: &'a JsonValue, name: &str) -> Option<&'a JsonValue> {
    value.get::<Object>()?.get(name)
}

fn strings(value: &JsonValue) -> Vec<String> {
    value.get::<Vec<JsonValue>>().into_iter().flatten().filter_map(|value| value.get::<String>().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_published_unless_it_says_otherwise_and_has_the_features_that_its_pages_need() {
        let metadata = r#"{"packages":[
            {"name":"engine","publish":null,"repository":null,"targets":[{"kind":["lib"]},{"kind":["test"]}],
             "metadata":{"docs.rs":{"features":["testing"]}}},
            {"name":"command","publish":null,"repository":"x","targets":[{"kind":["bin"]}],"metadata":null},
            {"name":"tests","publish":[],"repository":null,"targets":[{"kind":["lib"]}],"metadata":null}]}"#;
        let expected = [("engine", vec!["testing".to_owned()], true, false), ("command", vec![], false, true)];
        let expected = expected.map(|(name, features, is_library, has_repository)| Published {
            name: name.to_owned(),
            features,
            is_library,
            has_repository,
        });
        assert_eq!(published_in(&metadata.parse().unwrap_or(JsonValue::Null)), expected);
        let workspace = workspace_of(&expected, "0.1.0");
        assert!(workspace.contains(r#"members = ["engine-0.1.0", "command-0.1.0"]"#), "{workspace}");
        assert!(
            workspace
                .ends_with("[patch.crates-io]\nengine = { path = \"engine-0.1.0\" }\ncommand = { path = \"command-0.1.0\" }\n")
        );
    }
}
