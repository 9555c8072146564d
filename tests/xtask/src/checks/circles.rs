//! No files of the npm package import each other in a circle; an import of types counts.

use super::Check;
use crate::shell::{Outcome, failed, root};
use crate::tools::Tools;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Where its sources are.
const SOURCES: &str = "web/npm/src";
/// There are this many and more: a folder that has moved has no circles either.
const FILES_MIN: usize = 30;

/// What each file imports, by their names without endings.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(super) fn checks() -> Vec<Check> {
    vec![Check::quick("circles", "no files of the npm package import each other in a circle", circles)]
}

fn circles(_: &Tools) -> Outcome {
    let mut files = Imports::new();
    for entry in fs::read_dir(root().join(SOURCES))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(name) = name.strip_suffix(".ts").filter(|name| !name.ends_with(".d")) {
            files.insert(name.to_owned(), imports_of(&fs::read_to_string(&path)?));
        }
    }
    let found = in_circles(&files);
    for file in &found {
        let others: Vec<&str> =
            files.get(file).into_iter().flatten().filter(|name| found.contains(*name)).map(String::as_str).collect();
        println!("{SOURCES}/{file}.ts is in a circle, by its import of {}", others.join(", "));
    }
    if files.len() < FILES_MIN {
        return failed(format!("only {} files in {SOURCES}", files.len()));
    }
    if !found.is_empty() {
        return failed(format!("{} files in circles", found.len()));
    }
    println!("{} files read", files.len());
    Ok(())
}

/// The files beside it that a source imports, whatever it takes from them.
fn imports_of(source: &str) -> BTreeSet<String> {
    let quoted = source.split("\"./").skip(1).filter_map(|rest| rest.split_once('"'));
    quoted.filter_map(|(path, _)| path.strip_suffix(".js")).map(str::to_owned).collect()
}

/// Takes away what imports nothing that is left, and what nothing that is left imports, until that changes nothing.
fn in_circles(files: &Imports) -> BTreeSet<String> {
    let mut left: BTreeSet<String> = files.keys().cloned().collect();
    loop {
        let imports = |name: &String| files.get(name).into_iter().flatten();
        let imported: BTreeSet<&String> = left.iter().flat_map(imports).collect();
        let kept: BTreeSet<String> = left
            .iter()
            .filter(|name| imported.contains(name) && imports(name).any(|other| left.contains(other)))
            .cloned()
            .collect();
        if kept.len() == left.len() {
            return left;
        }
        left = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_circle_are_found_and_others_are_not() {
        let file = |name: &str, source: &str| (name.to_owned(), imports_of(source));
        let mut files = Imports::from([
            file("index", "import { open } from \"./store.js\";\nexport type { A } from \"./types.js\";"),
            file(
                "store",
                "import \"./types.js\"; import type { B } from \"./worker.js\"; new URL(\"./data.wasm\", import.meta.url)",
            ),
            file("worker", "import {\n  a,\n  b,\n} from \"./types.js\";"),
            file("types", "import fs from \"node:fs\";"),
        ]);
        assert!(in_circles(&files).is_empty());
        files.extend([file("types", "const later = import(\"./store.js\");")]);
        assert!(in_circles(&files).into_iter().eq(["store", "types", "worker"].map(str::to_owned)));
    }
}
