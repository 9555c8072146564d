//! `cargo xtask release --rehearse`: everything a release does, short of publishing it.

mod changelog;
mod crates;
mod interfaces;
mod npm;

use crate::checks::Check;
use crate::shell::{Outcome, failed, root};
use crate::{HELP, report};
use std::fs;

/// What the arguments choose.
#[derive(Clone, Default)]
struct Options {
    /// Compare with this revision instead of the last tag.
    baseline: Option<String>,
    /// Ask for known vulnerabilities, too: their list comes from the network.
    advisories: bool,
}

/// Says whether all is well.
pub(crate) fn run(args: &[String]) -> Outcome<bool> {
    let (mut rehearse, mut only, mut options) = (false, Vec::new(), Options::default());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.len()) {
            ("--rehearse", _) => rehearse = true,
            ("--advisories", _) => options.advisories = true,
            ("--baseline", 1..) => options.baseline = args.next().cloned(),
            ("--only", 1..) => only.extend(args.next().into_iter().flat_map(|names| names.split(',')).map(str::to_owned)),
            ("--baseline" | "--only", _) => return failed(format!("{arg} wants a value")),
            (other, _) => return failed(format!("`release` does not know {other}\n\n{HELP}")),
        }
    }
    if !rehearse {
        return failed("a release is rehearsed here and published by hand: add --rehearse, and see CONTRIBUTING.md");
    }
    let mut steps = steps(&options);
    if let Some(unknown) = only.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        return failed(format!("there is no step {unknown}, but {}", names.join(", ")));
    }
    steps.retain(|step| only.is_empty() || only.contains(&step.name));
    let good = report::run(&steps);
    if good && only.is_empty() {
        let published: Vec<String> = crates::published()?.into_iter().map(|package| format!("-p {}", package.name)).collect();
        println!("\nTo release: date the entry in CHANGELOG.md, commit, then");
        println!("  git tag v{}", version()?);
        println!("  cargo publish {}", published.join(" "));
        println!("  (cd web/npm && npm publish)");
    }
    Ok(good)
}

/// Cheap ones first.
fn steps(options: &Options) -> Vec<Check> {
    let (for_semver, for_deny) = (options.clone(), options.clone());
    vec![
        Check::slow("changelog", "CHANGELOG.md has an entry for the version, and every package has that version", |_| {
            changelog::check()
        }),
        Check::slow("deny", "licences, duplicates and sources of all dependencies", move |tools| {
            interfaces::deny(tools, for_deny.advisories)
        }),
        Check::slow("wit", "the package pipkin:kv as one file, with all that others build on", interfaces::wit),
        Check::slow("npm", "the packed npm tarball in a new app: used in Node, type-checked", npm::check),
        Check::slow("docs", "the pages as docs.rs builds them, from the packages", crates::docs),
        Check::slow("crates", "every crate compiles from its package alone", crates::package),
        Check::slow("semver", "the public interfaces against the last release", move |tools| {
            interfaces::semver(tools, for_semver.baseline.as_deref())
        }),
    ]
}

/// The one version that everything has.
fn version() -> Outcome<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    match manifest.lines().find_map(|line| line.strip_prefix("version = ")) {
        Some(version) => Ok(version.trim_matches('"').to_owned()),
        None => failed("Cargo.toml names no version"),
    }
}
