//! The engine's modules use each other as ARCHITECTURE.md says: down its table, never up.

use super::Check;
use crate::shell::{Outcome, failed, root};
use crate::tools::Tools;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The head of the table.
const HEAD: &str = "| `core/src/` | purpose | may use |";
/// The one pair that the document names as going both ways: the lower and the upper.
const PAIR: (&str, &str) = ("error", "storage");

pub(super) fn checks() -> Vec<Check> {
    vec![Check::quick("imports", "the engine's modules use each other down the table in ARCHITECTURE.md", imports)]
}

fn imports(_: &Tools) -> Outcome {
    let rows = rows(&fs::read_to_string(root().join("ARCHITECTURE.md"))?);
    let source = root().join("core/src");
    let mut files = Vec::new();
    collect(&source, &mut files)?;
    let mut complaints = Vec::new();
    for file in &files {
        let place = file.strip_prefix(&source).unwrap_or(file);
        complaints.extend(complaints_about(&rows, place, &fs::read_to_string(file)?));
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() {
        println!("{} files read", files.len());
        return Ok(());
    }
    failed(format!("{} imports against the table in ARCHITECTURE.md", complaints.len()))
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// The modules of each row, from the user inwards.
fn rows(document: &str) -> Vec<Vec<String>> {
    let rows = document.lines().skip_while(|line| *line != HEAD).skip(2).take_while(|line| line.starts_with('|'));
    let names = |row: &str| -> Vec<String> {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/').to_owned()).collect()
    };
    rows.map(names).collect()
}

fn complaints_about(rows: &[Vec<String>], file: &Path, text: &str) -> Vec<String> {
    let row_of = |module: &str| rows.iter().position(|row| row.iter().any(|name| name == module));
    let first = file.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    let module = first.trim_end_matches(".rs");
    if module == "lib" {
        return Vec::new();
    }
    let Some(row) = row_of(module) else { return vec![format!("{}: {module} is in no row", file.display())] };
    // Tests may look at whatever they like.
    let is_test = file.file_stem().is_some_and(|stem| stem == "tests" || stem == "schedules");
    let code = if is_test { "" } else { text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default() };
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let used = code.flat_map(|line| line.split("crate::").skip(1)).filter_map(|rest| {
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        row_of(name).filter(|&used| used < row && (module, name) != PAIR).map(|_| name)
    });
    used.map(|name| format!("{}: {module} uses {name}, which stands above it", file.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "text\n\n| `core/src/` | purpose | may use |\n|---|---|---|\n| `db/`, `iter` | upper | all |\n| `log/` | lower | `x` |\n\n| `other` |\n";

    #[test]
    fn an_import_that_goes_up_is_found() {
        let rows = rows(DOCUMENT);
        assert_eq!(rows, [vec!["db", "iter"], vec!["log"]]);
        let complaints = |file: &str, text: &str| complaints_about(&rows, Path::new(file), text).len();
        assert_eq!(complaints("db/open.rs", "use crate::log::Log;\nuse crate::iter::Iter;"), 0);
        assert_eq!(complaints("log/mod.rs", "use crate::db::Db;\nlet x = crate::iter::y();"), 2);
        assert_eq!(complaints("log/mod.rs", "/// [`Db`](crate::db::Db)\n#[cfg(test)]\nmod tests { use crate::db::Db; }"), 0);
        assert_eq!(complaints("new.rs", ""), 1);
    }
}
