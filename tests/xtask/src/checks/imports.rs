//! Modules use each other as the tables of ARCHITECTURE.md say: down a table, and no more than its column names. Files make no circles.

use super::Check;
use crate::shell::{Outcome, failed, root};
use crate::sources::{Sources, circles_of_typescript};
use crate::tools::Tools;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The crates whose files make no circles, and the folders that have a table of their own are in them.
const CRATES: [&str; 17] = [
    "core/src",
    "core/cli/src",
    "core/foreign/src",
    "web/src",
    "wasi-host/src",
    "wasi-host/guest/src",
    "wasi-host/shared/src",
    "wasi-host/cli/src",
    "wasi-host/composer/src",
    "tests/src",
    "tests/xtask/src",
    "tests/tape/src",
    "tests/reader/src",
    "tests/power-cut/src",
    "bench/src",
    "bench/compare/src",
    "bench/compare-wasi/src",
];
const TYPESCRIPT: &str = "web/npm/src";
/// Folders that must have a table.
const TABLES: [&str; 8] = [
    "core/src",
    "core/cli/src",
    "core/foreign/src",
    "web/src",
    "wasi-host/src",
    "wasi-host/src/keyvalue",
    "wasi-host/guest/src",
    "wasi-host/shared/src",
];
/// The one pair that the document names as going both ways: the lower and the upper.
const PAIR: (&str, &str) = ("error", "storage");
pub(super) fn checks() -> Vec<Check> {
    vec![Check::quick(
        "imports",
        "modules use each other as the tables of ARCHITECTURE.md say, and files make no circles",
        imports,
    )]
}

fn imports(_: &Tools) -> Outcome {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let (mut files, mut complaints) = (0, Vec::new());
    for folder in CRATES {
        let sources = Sources::read(&root().join(folder))?;
        files += sources.len();
        let circles = sources.circles();
        complaints.extend(circles.iter().map(|circle| format!("{folder}: a circle of {}", circle.join(", "))));
        for table in TABLES.iter().filter(|table| crate_of(table) == folder) {
            let inside = table.strip_prefix(folder).unwrap_or_default().trim_start_matches('/');
            let rows = rows(&document, table);
            if rows.is_empty() {
                complaints.push(format!("ARCHITECTURE.md has no table of {table}"));
            }
            let used = of_modules(&sources.used(), inside);
            complaints.extend(complaints_about(&rows, &used).into_iter().map(|complaint| format!("{table}: {complaint}")));
        }
    }
    let scripts = typescript()?;
    files += scripts.len();
    let circles = circles_of_typescript(&scripts);
    complaints.extend(circles.iter().map(|circle| format!("{TYPESCRIPT}: a circle of {}", circle.join(", "))));
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() {
        println!("{files} files read");
        return Ok(());
    }
    failed(format!("{} times the files and ARCHITECTURE.md do not agree", complaints.len()))
}

fn typescript() -> Outcome<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(TYPESCRIPT))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".ts") {
            let text = fs::read_to_string(root().join(TYPESCRIPT).join(&name))?;
            files.push((name, text));
        }
    }
    Ok(files)
}

/// The longest of the crates that the folder is in.
fn crate_of(folder: &str) -> &'static str {
    let holds = |name: &&&str| folder == **name || folder.strip_prefix(**name).is_some_and(|rest| rest.starts_with('/'));
    CRATES.iter().filter(holds).max_by_key(|name| name.len()).copied().unwrap_or_default()
}

/// One row of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    modules: Vec<String>,
    may_use: MayUse,
}

#[derive(Debug, PartialEq, Eq)]
enum MayUse {
    Everything,
    These(Vec<String>),
}

/// The rows of the table of that folder, from the user inwards.
fn rows(document: &str, folder: &str) -> Vec<Row> {
    let head = format!("| `{folder}/` | purpose | may use |");
    let rows = document.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let names = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/').to_owned()).collect()
    };
    let row = |line: &str| {
        let cell = |number| line.split('|').nth(number).unwrap_or_default();
        let may_use = if cell(3).trim() == "everything below" { MayUse::Everything } else { MayUse::These(names(cell(3))) };
        Row { modules: names(cell(1)), may_use }
    };
    rows.map(row).collect()
}

/// The modules that each module of a folder uses. What stands in the folder's own file is everybody's.
fn of_modules<'a>(used: &BTreeMap<&'a str, BTreeSet<&'a str>>, folder: &str) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let module = |file: &'a str| -> Option<&'a str> {
        let inside = if folder.is_empty() { file } else { file.strip_prefix(folder)?.strip_prefix('/')? };
        let first = inside.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "lib" | "main" | "mod")).then_some(name)
    };
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, others) in used {
        if let Some(name) = module(file) {
            let others = others.iter().filter_map(|other| module(other)).filter(|other| *other != name);
            modules.entry(name).or_default().extend(others);
        }
    }
    modules
}

/// The last row is open to all.
fn complaints_about(rows: &[Row], used: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let row_of = |module: &str| rows.iter().position(|row| row.modules.iter().any(|name| name == module));
    let mut complaints = Vec::new();
    for (module, others) in used {
        let Some(own) = row_of(module) else {
            complaints.push(format!("{module} is in no row"));
            continue;
        };
        for other in others.iter().filter(|other| (*module, **other) != PAIR) {
            let Some(place) = row_of(other) else { continue };
            let may_use = rows.get(own).map(|row| &row.may_use);
            let is_named = match may_use {
                Some(MayUse::These(names)) => names.iter().any(|name| name == other),
                _ => true,
            };
            if place < own {
                complaints.push(format!("{module} uses {other}, which stands above it"));
            } else if place > own && place + 1 < rows.len() && !is_named {
                complaints.push(format!("{module} uses {other}, which its row does not name"));
            }
        }
    }
    for row in rows {
        let MayUse::These(names) = &row.may_use else { continue };
        let is_used = |name: &&String| {
            row.modules.iter().any(|own| used.get(own.as_str()).is_some_and(|used| used.contains(name.as_str())))
        };
        let idle = names.iter().filter(|name| !is_used(name));
        complaints.extend(idle.map(|name| format!("{} may use {name}, and does not", row.modules.join(", "))));
        let gone = row.modules.iter().filter(|module| !used.contains_key(module.as_str()));
        complaints.extend(gone.map(|module| format!("there is no {module}")));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "text\n\n| `x/src/` | purpose | may use |\n|---|---|---|\n| `db/`, `iter` | upper | everything below |\n\
        | `log/` | lower | `frame` |\n| `frame` | | nothing |\n| `base` | | nothing |\n\n| `other` |\n";

    fn complaints(uses: &[(&str, &[&str])]) -> Vec<String> {
        let all = [("db", &[][..]), ("iter", &[]), ("log", &["frame"]), ("frame", &[]), ("base", &[])];
        let mut used: BTreeMap<&str, BTreeSet<&str>> =
            all.iter().map(|(name, used)| (*name, used.iter().copied().collect())).collect();
        uses.iter().for_each(|(name, others)| used.entry(name).or_default().extend(others.iter()));
        complaints_about(&rows(DOCUMENT, "x/src"), &used)
    }

    #[test]
    fn an_import_that_goes_up_or_that_no_row_names_is_found() {
        assert_eq!(rows(DOCUMENT, "x/src").len(), 4);
        assert_eq!(complaints(&[("db", &["log", "iter", "base"]), ("log", &["base"])]), [""; 0]);
        assert_eq!(complaints(&[("log", &["db", "iter"])]).len(), 2);
        assert_eq!(complaints(&[("frame", &["log"])]), ["frame uses log, which stands above it"]);
        assert_eq!(complaints(&[("new", &[])]), ["new is in no row"]);
        let narrower = DOCUMENT.replace("| lower | `frame` |", "| lower | nothing |");
        let used = BTreeMap::from([("log", BTreeSet::from(["frame"]))]);
        let of_log = |document: &str| {
            let all = complaints_about(&rows(document, "x/src"), &used);
            all.into_iter().filter(|complaint| complaint.starts_with("log")).collect::<Vec<_>>()
        };
        assert_eq!(of_log(&narrower), ["log uses frame, which its row does not name"]);
        assert_eq!(
            of_log(&DOCUMENT.replace("| lower | `frame` |", "| lower | `frame`, `base` |")),
            ["log may use base, and does not"]
        );
    }

    #[test]
    fn modules_are_files_and_folders_of_the_table_that_they_are_in() {
        let used = BTreeMap::from([("a/x.rs", BTreeSet::from(["b.rs", "a/y/z.rs", "lib.rs"])), ("b.rs", BTreeSet::new())]);
        assert_eq!(of_modules(&used, ""), BTreeMap::from([("a", BTreeSet::from(["b"])), ("b", BTreeSet::new())]));
        assert_eq!(of_modules(&used, "a"), BTreeMap::from([("x", BTreeSet::from(["y"]))]));
        assert_eq!(
            (crate_of("wasi-host/src/keyvalue"), crate_of("wasi-host/guest/src")),
            ("wasi-host/src", "wasi-host/guest/src")
        );
    }
}
