//! Which file of a crate uses which, read from `use` and from paths in the code. Tests are left out: they may look at whatever they like.

use crate::shell::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files of tests, wherever they are.
const TESTS: [&str; 2] = ["tests", "schedules"];
/// What a name stands behind that is defined here.
const ITEMS: [&str; 9] = ["struct", "enum", "union", "fn", "trait", "type", "const", "static", "mod"];
/// Re-exports are followed that far.
const HOPS_MAX: u32 = 8;

/// `a::b::c`.
type Names = Vec<String>;

/// The files of one crate.
pub(crate) struct Sources {
    files: BTreeMap<String, File>,
    /// Files by the modules that they are.
    modules: BTreeMap<Names, String>,
}

#[derive(Default)]
struct File {
    module: Names,
    /// What it imports, by the name that it has there.
    uses: BTreeMap<String, Names>,
    globs: Vec<Names>,
    items: BTreeSet<String>,
    /// All paths that it names.
    paths: Vec<Names>,
}

impl Sources {
    /// Of the crate whose `lib.rs` or `main.rs` is in that folder.
    pub(crate) fn read(folder: &Path) -> Outcome<Self> {
        let mut found = Vec::new();
        collect(folder, &mut found)?;
        let mut texts = Vec::new();
        for file in found {
            let name = file.strip_prefix(folder).unwrap_or(&file).components();
            let name: Vec<_> = name.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            texts.push((name.join("/"), fs::read_to_string(&file)?));
        }
        Ok(Self::of(&texts))
    }

    /// Of files by their names and texts.
    pub(crate) fn of(texts: &[(String, String)]) -> Self {
        let texts: Vec<_> = texts.iter().filter_map(|(name, text)| Some((name, module_of(name)?, text))).collect();
        let tests: BTreeSet<Names> = texts
            .iter()
            .flat_map(|(_, module, text)| test_modules(text).map(|name| [module.as_slice(), &[name]].concat()))
            .collect();
        let texts: Vec<_> = texts.into_iter().filter(|(_, module, _)| !tests.contains(module)).collect();
        let modules: BTreeMap<Names, String> = texts.iter().map(|(name, module, _)| (module.clone(), (*name).clone())).collect();
        let file = |(name, module, text): &(&String, Names, &String)| ((*name).clone(), File::parse(module, text, &modules));
        let files = texts.iter().map(file).collect();
        Self { files, modules }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The files that each file uses, itself left out.
    pub(crate) fn used(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let used = |(name, file): &(&String, &File)| -> BTreeSet<&str> {
            let all = file.paths.iter().filter_map(|path| self.resolve(name, path, HOPS_MAX));
            all.filter(|other| other != name).collect()
        };
        self.files.iter().map(|entry| (entry.0.as_str(), used(&entry))).collect()
    }

    /// Groups of files that use each other in circles. What a file takes from those above it in the tree of modules does not count: a module
    /// and what it consists of are read together.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let mut used = self.used();
        for (name, others) in &mut used {
            let module = self.files.get(*name).map_or(&[][..], |file| &file.module);
            others.retain(|other| self.files.get(*other).is_none_or(|other| !is_above(&other.module, module)));
        }
        circles(&used)
    }

    /// The file in which that is defined which `path` names in `file`; none for what is not of this crate.
    fn resolve(&self, file: &str, path: &[String], hops: u32) -> Option<&str> {
        let full = self.absolute(&self.files.get(file)?.module, path)?;
        let depth = (0..=full.len()).rev().find(|&depth| self.modules.contains_key(full.get(..depth).unwrap_or_default()))?;
        let (module, rest) = full.split_at_checked(depth)?;
        let name = self.modules.get(module)?;
        let found = self.files.get(name)?;
        let Some(first) = rest.first() else { return Some(name) };
        if hops == 0 || found.items.contains(first) {
            return Some(name);
        }
        let behind = |path: &Names, rest: &[String]| -> Names { path.iter().chain(rest).cloned().collect() };
        if let Some(used) = found.uses.get(first) {
            return self.resolve(name, &behind(used, rest.get(1..).unwrap_or_default()), hops - 1);
        }
        let of_globs = found.globs.iter().filter_map(|glob| self.resolve(name, &behind(glob, rest), hops - 1));
        let defines = |other: &&str| self.files.get(*other).is_some_and(|other| other.items.contains(first));
        Some(of_globs.into_iter().find(defines).unwrap_or(name))
    }

    /// The path from the root of the crate on.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                Some([module.get(..module.len().saturating_sub(ups))?, path.get(ups..)?].concat())
            }
            child => self.modules.contains_key(&[module, &[child.to_owned()]].concat()).then(|| [module, path].concat()),
        }
    }
}

/// Groups of files of which each leads to each other one.
fn circles<'a>(used: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reach = |from: &str| -> BTreeSet<&'a str> {
        let (mut seen, mut next) = (BTreeSet::new(), used.get(from).into_iter().flatten().copied().collect::<Vec<_>>());
        while let Some(name) = next.pop() {
            if seen.insert(name) {
                next.extend(used.get(name).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = used.keys().map(|name| (*name, reach(name))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut circles: Vec<Vec<&'a str>> = Vec::new();
    for name in used.keys().filter(|name| reaches(name, name)) {
        if !circles.iter().any(|circle| circle.contains(name)) {
            circles.push(used.keys().copied().filter(|other| reaches(name, other) && reaches(other, name)).collect());
        }
    }
    circles
}

/// Files of TypeScript in one folder, by what each imports from beside it, types included.
pub(crate) fn circles_of_typescript(texts: &[(String, String)]) -> Vec<Vec<&str>> {
    fn imported((name, text): &(String, String)) -> (&str, BTreeSet<&str>) {
        let beside = text.split("from \"./").skip(1).filter_map(|rest| rest.split_once(".js\"")).map(|(name, _)| name);
        (name.trim_end_matches(".ts"), beside.collect())
    }
    circles(&texts.iter().map(imported).collect())
}

/// Whether `other` is `module` or one of those that it is part of.
fn is_above(other: &[String], module: &[String]) -> bool {
    other.len() < module.len() && module.starts_with(other)
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
    Ok(())
}

/// None for files that are not looked at.
fn module_of(file: &str) -> Option<Names> {
    let mut names: Names = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.iter().any(|name| TESTS.contains(&name.as_str())) || names.first().is_some_and(|first| first == "bin") {
        return None;
    }
    if file == "lib.rs" || file == "main.rs" || names.last().is_some_and(|last| last == "mod") {
        names.pop();
    }
    Some(names)
}

impl File {
    fn parse(module: &[String], text: &str, modules: &BTreeMap<Names, String>) -> Self {
        let tokens = without_tests(&tokens(text));
        let mut file = Self { module: module.to_vec(), ..Self::default() };
        let mut rest = tokens.as_slice();
        let mut before = ["", ""];
        while let Some((token, behind)) = rest.split_first() {
            let next = behind.first().map_or("", String::as_str);
            if token == "use" && next != "<" {
                let tree: Vec<&str> = behind.iter().map(String::as_str).take_while(|token| *token != ";").collect();
                rest = behind.get(tree.len()..).unwrap_or_default();
                file.import(&[], &tree);
                continue;
            }
            if ITEMS.contains(&token.as_str()) && is_name(next) {
                file.items.insert(next.to_owned());
            }
            if token == "macro_rules" {
                file.items.extend(behind.get(1).cloned());
            }
            if is_name(token) && before != [":", ":"] {
                let path = path(rest);
                let is_child = || modules.contains_key(&[module, std::slice::from_ref(token)].concat());
                if path.len() > 1 && (matches!(token.as_str(), "crate" | "self" | "super") || is_child()) {
                    file.paths.push(path);
                }
            }
            let [_, last] = before;
            before = [last, token];
            rest = behind;
        }
        file
    }

    /// Takes a tree of imports in, such as `a::{b, c as d}`.
    fn import(&mut self, front: &[String], tree: &[&str]) {
        let names = tree.split(|token| *token == ":").filter_map(|part| part.first());
        let names: Vec<&str> = names.copied().take_while(|name| *name != "{").collect();
        let mut path: Names = front.to_vec();
        if let Some(open) = tree.iter().position(|token| *token == "{") {
            path.extend(names.iter().map(|name| (*name).to_owned()));
            let inner = tree.get(open + 1..tree.len().saturating_sub(1)).unwrap_or_default();
            let mut depth = 0_i32;
            for part in inner.split(|token| {
                depth += i32::from(*token == "{") - i32::from(*token == "}");
                *token == "," && depth == 0
            }) {
                if !part.is_empty() {
                    self.import(&path, part);
                }
            }
            return;
        }
        path.extend(names.iter().map(|name| (*name).to_owned()));
        if path.last().is_some_and(|last| last == "*") {
            path.pop();
            self.globs.push(path.clone());
        } else {
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let renamed =
                tree.iter().rev().nth(1).filter(|token| **token == "as").and(tree.last()).map(|name| (*name).to_owned());
            if let Some(name) = renamed.or_else(|| path.last().cloned()) {
                self.uses.insert(name, path.clone());
            }
        }
        self.paths.push(path);
    }
}

/// The names at the front that are joined by `::`.
fn path(mut tokens: &[String]) -> Names {
    let mut path = Vec::new();
    while let Some((name, behind)) = tokens.split_first().filter(|(name, _)| is_name(name)) {
        path.push(name.clone());
        match behind {
            [one, two, rest @ ..] if one == ":" && two == ":" => tokens = rest,
            _ => break,
        }
    }
    path
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names and signs; no comments, no strings, no lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let behind = rest.get(first.len_utf8()..).unwrap_or_default();
        rest = if rest.starts_with("//") {
            rest.split_once('\n').map_or("", |(_, behind)| behind)
        } else if rest.starts_with("/*") {
            rest.split_once("*/").map_or("", |(_, behind)| behind)
        } else if first == '"' {
            behind_string(behind)
        } else if first == '\'' {
            behind_quote(behind)
        } else if is_name(rest) || first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            match raw_string(behind).filter(|_| matches!(name, "r" | "br" | "cr")) {
                Some(behind) => behind,
                None => {
                    found.push(name.to_owned());
                    behind
                }
            }
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            behind
        };
    }
    found
}

fn behind_string(text: &str) -> &str {
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.and_then(|end| text.get(end + 1..)).unwrap_or_default()
}

/// Behind the letter in quotes, or behind the quote of a lifetime.
fn behind_quote(text: &str) -> &str {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), Some(escaped)) => {
            let behind = text.get(1 + escaped.len_utf8()..).unwrap_or_default();
            behind.split_once('\'').map_or("", |(_, behind)| behind)
        }
        (Some(letter), Some('\'')) => text.get(letter.len_utf8() + 1..).unwrap_or_default(),
        _ => text,
    }
}

/// What is behind a raw string, if the text begins with the quote of one or with its number signs.
fn raw_string(text: &str) -> Option<&str> {
    let signs = text.len() - text.trim_start_matches('#').len();
    let body = text.get(signs..)?.strip_prefix('"')?;
    body.split_once(&format!("\"{}", "#".repeat(signs))).map(|(_, behind)| behind)
}

/// Leaves out attributes, what is only compiled for tests, and the paths of `pub(in ...)`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = tokens;
    let mut is_test = false;
    while let Some((token, behind)) = rest.split_first() {
        let opens = |sign: &str| behind.first().is_some_and(|next| next == sign);
        if token == "#" && (opens("[") || opens("!")) {
            let end = end_of(behind, "[", "]");
            let attribute: String = behind.get(..end).unwrap_or_default().concat();
            is_test |= attribute.starts_with("[cfg(test") || attribute.starts_with("[cfg(all(test");
            rest = behind.get(end..).unwrap_or_default();
        } else if is_test {
            let body = rest.iter().position(|token| token == "{" || token == ";").unwrap_or(rest.len());
            let is_block = rest.get(body).is_some_and(|token| token == "{");
            let end = if is_block { end_of(rest, "{", "}") } else { body + 1 };
            rest = rest.get(end..).unwrap_or_default();
            is_test = false;
        } else if token == "pub" && opens("(") {
            rest = behind.get(end_of(behind, "(", ")")..).unwrap_or_default();
        } else {
            kept.push(token.clone());
            rest = behind;
        }
    }
    kept
}

/// The files that a module has only for tests.
fn test_modules(text: &str) -> impl Iterator<Item = String> {
    let declared = text.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let item = rest.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#["))?;
        item.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    });
    declared.collect::<Vec<_>>().into_iter()
}

/// Where the first bracket that opens is closed.
fn end_of(tokens: &[String], open: &str, close: &str) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if token == open {
            depth += 1;
        } else if token == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources::of(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>())
    }

    fn used(sources: &Sources, file: &str) -> Vec<String> {
        sources.used().get(file).into_iter().flatten().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn imports_lead_to_the_file_that_defines_what_they_name() {
        let sources = sources(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::inner::Deep; pub use c::*;"),
            ("a.rs", "use crate::{Deep, b::{self, Other as Renamed}};\nuse std::fmt;\nfn f() { crate::OfGlob::new(); }"),
            ("b/mod.rs", "pub mod inner; pub struct Other; fn f() { inner::g(); }"),
            ("b/inner.rs", "pub struct Deep; use super::Other; pub fn g() {}"),
            ("c.rs", "pub struct OfGlob;"),
        ]);
        assert_eq!(used(&sources, "a.rs"), ["b/inner.rs", "b/mod.rs", "c.rs"]);
        assert_eq!(used(&sources, "b/mod.rs"), ["b/inner.rs"]);
        assert_eq!(used(&sources, "b/inner.rs"), ["b/mod.rs"]);
        assert!(sources.circles().is_empty(), "what a file takes from the module that it is part of is no circle");
    }

    #[test]
    fn circles_are_found_however_long() {
        let sources = sources(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; fn f(c: &'static crate::c::C) {}"),
            ("c.rs", "pub struct C; macro_rules! m { () => { $crate::a::A } }"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(sources.circles(), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn circles_of_typescript_are_found_through_types_too() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut files = vec![
            file("a.ts", "import type { B } from \"./b.js\";\nimport fs from \"node:fs\";"),
            file("b.ts", "export { C } from \"./c.js\";"),
            file("c.ts", ""),
        ];
        assert!(circles_of_typescript(&files).is_empty());
        files.push(file("d.ts", "import {\n  A,\n} from \"./a.js\";"));
        files.push(file("c.ts", "import { D } from \"./d.js\";"));
        assert_eq!(circles_of_typescript(&files), [["a", "b", "c", "d"]]);
    }

    #[test]
    fn tests_comments_strings_and_visibilities_name_nothing() {
        let text = "// crate::b::B\n/* crate::b::B */ const A: &str = \"crate::b::B \\\" crate::b::B\"; const C: char = '\"';\n\
            const R: &str = r#\"crate::b::B \"\"#;\n#[cfg(test)]\n#[allow(x)]\nmod tests { use crate::b::B; fn f() {} }\n\
            #[cfg(test)]\npub(crate) fn only() { crate::b::B }\npub(in crate::b) struct V<'a>(&'a u8);";
        let sources = sources(&[("lib.rs", ""), ("a.rs", text), ("b.rs", "pub struct B;"), ("b/tests.rs", "use crate::a::A;")]);
        assert_eq!(used(&sources, "a.rs"), [""; 0]);
        assert_eq!(sources.len(), 3);
        let of_tests = "#[cfg(test)]\n#[allow(x)]\nmod of_tests;";
        assert_eq!(self::sources(&[("lib.rs", of_tests), ("of_tests.rs", "use crate::a::A;"), ("a.rs", "")]).len(), 2);
        let sources = self::sources(&[("lib.rs", ""), ("a.rs", &format!("{text} use crate::b::B;")), ("b.rs", "pub struct B;")]);
        assert_eq!(used(&sources, "a.rs"), ["b.rs"]);
    }
}
