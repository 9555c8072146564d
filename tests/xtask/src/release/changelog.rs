//! The words of a release: what changed, and under which number.

use super::version;
use crate::shell::{Outcome, Stop, failed, root};
use std::fs;

/// The parts of an entry: a release says what changed for a user, and in the file.
const PARTS: [&str; 2] = ["### For a user", "### The file"];

pub(super) fn check() -> Outcome {
    let read = |path: &str| fs::read_to_string(root().join(path));
    let version = version()?;
    let changelog = read("CHANGELOG.md")?;
    let heading = entry(&changelog, &version).map_err(Stop::Failed)?;
    println!("CHANGELOG.md: {heading}");
    let npm = format!("\"version\": \"{version}\"");
    let wit = format!("package pipkin:kv@{version};");
    for (file, line) in [("web/npm/package.json", npm), ("wit/types.wit", wit)] {
        if !read(file)?.lines().any(|found| found.trim().trim_end_matches(',') == line) {
            return failed(format!("{file} has another version than Cargo.toml: it should say `{line}`"));
        }
        println!("{file}: {line}");
    }
    Ok(())
}

/// The heading of the entry for a version, or what is missing.
fn entry<'a>(changelog: &'a str, version: &str) -> Result<&'a str, String> {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix("## ").and_then(|line| line.strip_prefix(version));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    };
    let mut lines = changelog.lines();
    let Some(heading) = lines.by_ref().find(is_it) else {
        return Err(format!("CHANGELOG.md has no entry for {version}: write one under the heading `## {version}, unreleased`"));
    };
    let body: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    for part in PARTS {
        let text = body.iter().skip_while(|line| **line != part).skip(1).take_while(|line| !line.starts_with('#'));
        if text.map(|line| line.trim().len()).sum::<usize>() == 0 {
            return Err(format!("the entry for {version} in CHANGELOG.md says nothing under `{part}`"));
        }
    }
    Ok(heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Changelog\n\n## 0.2.0, unreleased\n\n### For a user\n\n- More.\n\n### The file\n\nAs before.\n\n\
                        ## 0.1.0, 2026-12-01\n\n### For a user\n\n### The file\n";

    #[test]
    fn a_version_without_an_entry_in_the_changelog_is_refused() {
        assert_eq!(entry(GOOD, "0.2.0"), Ok("## 0.2.0, unreleased"));
        for missing in ["0.3.0", "0.2", "0.2.0-beta", "2.0"] {
            assert!(entry(GOOD, missing).is_err_and(|why| why.contains("has no entry")), "{missing}");
        }
    }

    #[test]
    fn an_entry_that_says_nothing_of_the_user_or_the_file_is_refused() {
        assert!(entry(GOOD, "0.1.0").is_err_and(|why| why.contains("### For a user")));
        assert!(entry(&GOOD.replace("As before.", ""), "0.2.0").is_err_and(|why| why.contains("### The file")));
    }
}
