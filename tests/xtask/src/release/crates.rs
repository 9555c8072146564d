//! Crates: packaged, built from their packages, and documented as docs.rs does it.

use crate::shell::{Outcome, Step, Stop, failed, root, target_dir};
use crate::tools::Tools;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
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

/// Every crate is packaged, and built from its package: what it forgot to take along is missed here, not by its users. Crates that depend on
/// each other find each other's packages, not the folders.
pub(super) fn package() -> Outcome {
    let published = published()?;
    for package in &published {
        let listed = Step::new("cargo package --list --allow-dirty -p").arg(&package.name).output()?;
        for wanted in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if !listed.lines().any(|file| file == wanted) {
                return failed(format!("the package of {} lacks {wanted}: link it beside its Cargo.toml", package.name));
            }
        }
        if !package.has_repository {
            println!("{}: `repository` is not set; set it in Cargo.toml once there is a public forge", package.name);
        }
    }
    let folder = target_dir().join("rehearsal/crates");
    forget_packages(&published, &folder)?;
    let names = published.iter().flat_map(|package| ["-p", package.name.as_str()]);
    let step = Step::new("cargo package --allow-dirty").args(names).limit_minutes(60);
    step.env("CARGO_TARGET_DIR", folder.display().to_string()).run()
}

/// Cargo takes a package of a registry as unchangeable: what it has unpacked and compiled of one serves as long as name and version are
/// the same, as they are in every rehearsal of a release.
fn forget_packages(published: &[Published], folder: &Path) -> Outcome {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap_or_default();
    // A registry on this machine has no host, which the name of its folder would begin with.
    let registries = entries(&home.join("registry/src")).into_iter().filter(|path| name_of(path).starts_with('-'));
    let unpacked = registries.flat_map(|registry| entries(&registry));
    let compiled = entries(&folder.join("debug/.fingerprint"));
    for path in unpacked.chain(compiled) {
        // A hash or a version comes after the name.
        let name = name_of(&path).rsplit_once('-').map(|(name, _)| name.to_owned());
        if name.is_some_and(|name| published.iter().any(|package| package.name == name)) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A nightly compiler, `--cfg docsrs`, and the features that the crate asks for.
pub(super) fn docs(tools: &Tools) -> Outcome {
    tools.nightly(&["rustc"])?;
    let folder = target_dir().join("docs-rs");
    for package in published()?.iter().filter(|package| package.is_library) {
        let mut step = Step::new("cargo +nightly doc --no-deps --lib -p").arg(&package.name);
        if !package.features.is_empty() {
            step = step.arg("--features").arg(package.features.join(","));
        }
        step.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings").env("CARGO_TARGET_DIR", folder.display().to_string()).run()?;
        let page = folder.join("doc").join(package.name.replace('-', "_")).join("index.html");
        if !fs::exists(root().join(&page))? {
            return failed(format!("there is no {}", page.display()));
        }
    }
    Ok(())
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
    }
}
