//! The documents tell the truth where a machine can tell: links, names of checks, where `unsafe` stands, no paths of somebody's machine.

use super::Check;
use crate::shell::{Outcome, failed, root};
use crate::tools::Tools;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of ours or of the tools that hold no document of the repository.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", "pkg", "dist", ".git"];
const MACHINE_PATHS: [&str; 5] = ["/work/", "/root/", "/home/", "/Users/", "/tmp/"];

pub(super) fn checks() -> Vec<Check> {
    vec![Check::quick(
        "docs-true",
        "links in the documents lead somewhere, commands in them exist, `unsafe` stands where they say",
        docs_true,
    )]
}

fn docs_true(_: &Tools) -> Outcome {
    let mut documents = Vec::new();
    collect(&root(), "md", &mut documents)?;
    let mut complaints = Vec::new();
    for document in &documents {
        let text = fs::read_to_string(document)?;
        let shown = document.strip_prefix(root()).unwrap_or(document).display().to_string();
        complaints.extend(complaints_about(document, &text).into_iter().map(|complaint| format!("{shown}: {complaint}")));
    }
    complaints.extend(unsafe_complaints(&fs::read_to_string(root().join("ARCHITECTURE.md"))?, &unsafe_files()?));
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() {
        println!("{} documents read", documents.len());
        return Ok(());
    }
    failed(format!("{} false statements in {} documents", complaints.len(), documents.len()))
}

fn collect(folder: &Path, wanted: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && !SKIPPED_FOLDERS.contains(&name) {
            collect(&path, wanted, found)?;
        } else if path.extension().is_some_and(|extension| extension == wanted) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

fn complaints_about(document: &Path, text: &str) -> Vec<String> {
    let paths = MACHINE_PATHS.iter().filter(|path| text.contains(**path)).map(|path| format!("names the machine path {path}"));
    let links =
        links(text).filter(|link| !leads_somewhere(document, text, link)).map(|link| format!("the link {link} leads nowhere"));
    let names = checks_named(text).filter(|name| !super::all().iter().any(|check| check.answers_to(name)));
    paths.chain(links).chain(names.map(|name| format!("there is no check named {name}"))).collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn leads_somewhere(document: &Path, text: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = document.parent().unwrap_or(document).join(file);
    match anchor {
        None => target.exists(),
        Some(anchor) if file.is_empty() => has_heading(text, anchor),
        Some(anchor) => fs::read_to_string(target).is_ok_and(|text| has_heading(&text, anchor)),
    }
}

/// Whether a heading turns into this anchor by the usual rule: lower case, blanks to hyphens, no punctuation.
fn has_heading(text: &str, anchor: &str) -> bool {
    let slug = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line.trim_start_matches('#').trim()) == anchor)
}

/// The names after `--only`, unless they are placeholders in capitals.
fn checks_named(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ',');
    text.split("xtask test --only ")
        .skip(1)
        .map(move |rest| rest.split_once(|c| !is_name(c)).map_or(rest, |(names, _)| names))
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
}

/// Source files with `unsafe` in their code. This one only speaks of it.
fn unsafe_files() -> io::Result<Vec<String>> {
    let mut sources = Vec::new();
    collect(&root(), "rs", &mut sources)?;
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.ends_with("checks/documents.rs")) {
        if has_unsafe(&fs::read_to_string(source)?) {
            let path = source.strip_prefix(root()).unwrap_or(source).components();
            found.push(path.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/"));
        }
    }
    Ok(found)
}

fn has_unsafe(code: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = code.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.split(|c| !is_word(c))).any(|word| word == "unsafe")
}

/// Holds the list in the fifth invariant against the files.
fn unsafe_complaints(architecture: &str, files: &[String]) -> Vec<String> {
    let list = architecture.split_once("5. `unsafe` stands in").map_or("", |(_, rest)| rest);
    let list = list.split_once("\n6. ").map_or("", |(list, _)| list);
    let places: Vec<&str> = list.split('`').skip(1).step_by(2).filter(|place| place.contains('/')).collect();
    let is_in = |file: &str, place: &str| file == place || place.ends_with('/') && file.starts_with(place);
    let unlisted = files.iter().filter(|file| !places.iter().any(|place| is_in(file, place)));
    let idle = places.iter().filter(|place| !files.iter().any(|file| is_in(file, place)));
    let unlisted = unlisted.map(|file| format!("ARCHITECTURE.md: `unsafe` stands in {file}, which is not in the list"));
    unlisted.chain(idle.map(|place| format!("ARCHITECTURE.md: no `unsafe` stands in {place}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_link_anchor_check_or_path_is_seen() {
        let document = root().join("CONTRIBUTING.md");
        let good = "# The Shape: a, b\n[x](Cargo.toml) [y](https://a.b/c) [z](#the-shape-a-b) `cargo xtask test --only fmt,doc` `--only NAME`";
        assert_eq!(complaints_about(&document, good), Vec::<String>::new());
        for bad in ["[x](no-such-file)", "[x](#no-heading)", "cargo xtask test --only fmt,nothing", "see /root/x"] {
            assert_eq!(complaints_about(&document, bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn the_list_of_unsafe_files_must_be_neither_too_short_nor_too_long() {
        assert!(has_unsafe("    unsafe { x() } // SAFETY: y") && has_unsafe("#[unsafe(no_mangle)]"));
        assert!(!has_unsafe("// unsafe here\ndeny(unsafe_op_in_unsafe_fn)"));
        let text = "5. `unsafe` stands in `a/b.rs` and `c/`, beside `x`.\n6. `d/e.rs`";
        let complaints =
            |files: &[&str]| unsafe_complaints(text, &files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>()).len();
        assert_eq!(complaints(&["a/b.rs", "c/d.rs"]), 0);
        assert_eq!(complaints(&["a/b.rs", "c/d.rs", "d/e.rs"]), 1);
        assert_eq!(complaints(&["a/b.rs"]), 1);
    }
}
