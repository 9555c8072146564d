//! The documents tell the truth where a machine can tell: links, names of checks, where `unsafe` stands, exit codes, no paths of
//! somebody's machine.

use super::Check;
use crate::shell::{Outcome, failed, root};
use crate::tools::Tools;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of ours or of the tools that hold no document of the repository.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", "pkg", "dist", ".git"];
const README_WORDS_MAX: usize = 1500;
const MACHINE_PATHS: [&str; 5] = ["/work/", "/root/", "/home/", "/Users/", "/tmp/"];

pub(super) fn checks() -> Vec<Check> {
    vec![Check::quick(
        "docs-true",
        "links in the documents lead somewhere, commands in them exist, `unsafe` and exit codes are as they say",
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
    let read = |path: &str| fs::read_to_string(root().join(path));
    complaints.extend(length_complaint(&read("README.md")?));
    complaints.extend(exit_code_complaints(
        &read("core/cli/README.md")?,
        &read("core/cli/src/command.rs")?,
        &read("core/cli/src/exit.rs")?,
    ));
    complaints.extend(unsafe_complaints(&read("ARCHITECTURE.md")?, &unsafe_files()?));
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

/// The front page is for somebody who has five minutes; what does not fit has a page elsewhere.
fn length_complaint(readme: &str) -> Option<String> {
    let words = readme.split_whitespace().count();
    (words > README_WORDS_MAX)
        .then(|| format!("README.md: {words} words, the most is {README_WORDS_MAX}: move something to another page"))
}

/// The exit codes of `pipkin` are in its help, in its README, which may say less of each, and in the code.
fn exit_code_complaints(readme: &str, help: &str, code: &str) -> Vec<String> {
    let help = help.split_once("Exit codes:\n").map_or("", |(_, rest)| rest);
    let mut in_help: Vec<(&str, String)> = Vec::new();
    for line in help.lines().take_while(|line| line.starts_with("  ")) {
        match (line.trim().split_once(' ').filter(|(code, _)| is_number(code)), in_help.last_mut()) {
            (Some((code, meaning)), _) => in_help.push((code, meaning.trim().to_owned())),
            (None, Some((_, meaning))) => *meaning = format!("{meaning} {}", line.trim()),
            (None, None) => {}
        }
    }
    let table = readme.split_once("| exit code | meaning |").map_or("", |(_, rest)| rest).trim_start();
    let rows = table.lines().take_while(|line| line.starts_with('|')).filter_map(|line| line.trim_matches('|').split_once('|'));
    let in_readme: Vec<(&str, &str)> =
        rows.map(|(code, meaning)| (code.trim(), meaning.trim())).filter(|(code, _)| is_number(code)).collect();
    let in_code = code.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ").map(|(_, code)| code));
    let in_code: Vec<&str> = in_code.filter(|code| is_number(code)).collect();
    let mut complaints = Vec::new();
    for (code, meaning) in &in_readme {
        if !in_help.iter().any(|(other, words)| other == code && words.starts_with(meaning)) {
            complaints.push(format!("core/cli/README.md: the help of pipkin does not say of exit code {code}: {meaning}"));
        }
    }
    let (readme, help) = (in_readme.iter().map(|(code, _)| *code), in_help.iter().map(|(code, _)| *code));
    if !readme.eq(in_code.iter().copied()) || !help.eq(in_code.iter().copied()) {
        complaints.push("core/cli/README.md: not all exit codes of pipkin are there, in its help and in its code".to_owned());
    }
    complaints
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
    fn a_front_page_that_has_grown_too_long_is_seen() {
        assert_eq!(length_complaint(&"word ".repeat(1500)), None);
        assert!(length_complaint(&"word ".repeat(1501)).is_some_and(|why| why.contains("1501 words")));
    }

    #[test]
    fn an_exit_code_that_is_missing_or_means_something_else_is_seen() {
        let readme = "| exit code | meaning |\n|---|---|\n| 0 | done |\n| 7 | the file system failed |\n\n| 9 | other |";
        let help = "x\nExit codes:\n  0    done\n  7    the file\n       system failed or refused\nA closed pipe";
        let code = "    Done = 0,\n    Io = 7,\n";
        assert_eq!(exit_code_complaints(readme, help, code), Vec::<String>::new());
        assert_eq!(exit_code_complaints(&readme.replace("done", "no"), help, code).len(), 1);
        assert_eq!(exit_code_complaints(readme, help, &code.replace('7', "8")).len(), 1);
        assert_eq!(exit_code_complaints(&readme.replace("| 7 |", "| 8 |"), help, code).len(), 2);
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
