//! Instructions and misses of the caches by function, counted by valgrind, so that what else the machine does is not measured. What the compiler
//! has put into another function counts as part of that one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A last cache of 32 MiB, whatever the machine has.
const LAST_CACHE: &str = "--LL=33554432,16,64";
/// Functions below this share of all instructions are added up.
const LEAST: f64 = 0.02;

/// What a function has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Reads that the last cache did not have.
    pub misses: u64,
}

/// Runs this program again, under valgrind, and counts by function; `None` without valgrind. `counts` is a file to write.
///
/// # Errors
///
/// Where the program fails.
pub fn by_function(counts: &Path, arguments: &[&OsStr]) -> io::Result<Option<BTreeMap<String, Counts>>> {
    let run = Command::new("valgrind")
        .args(["-q", "--tool=callgrind", "--cache-sim=yes", LAST_CACHE])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe()?)
        .args(arguments)
        .stdout(Stdio::null())
        .status();
    match run {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(status) if !status.success() => return Err(io::Error::other(format!("the program under valgrind failed: {status}"))),
        Ok(_) => {}
    }
    let said = Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no", "--tree=none", "--show=Ir,DLmr"])
        .arg(counts)
        .output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut functions = BTreeMap::<String, Counts>::new();
    for (instructions, misses, name) in said.lines().filter_map(parsed) {
        let of = functions.entry(name.to_owned()).or_default();
        of.instructions += instructions;
        of.misses += misses;
    }
    Ok(Some(functions))
}

/// A line such as `1,234 (5.67%) 89 (1.23%)  file:function [program]`; a dot stands for no misses.
fn parsed(line: &str) -> Option<(u64, u64, &str)> {
    let (instructions, rest) = column(line)?;
    let (misses, rest) = column(rest)?;
    let (_, name) = rest.trim().split_once(':')?;
    Some((instructions, misses, name.split(" [").next().unwrap_or(name)))
}

fn column(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix(". ") {
        return Some((0, rest));
    }
    let (number, rest) = line.split_once(" (")?;
    Some((number.replace(',', "").parse().ok()?, rest.split_once("%)")?.1))
}

/// Prints what the longer of two runs has done more than the shorter one, for each of so many `of`.
pub fn print(name: &str, of: (u64, &str), short: &BTreeMap<String, Counts>, long: &BTreeMap<String, Counts>) {
    let each = |more: u64, less: u64| (more as f64 - less as f64) / of.0.max(1) as f64;
    let mut parts: Vec<(f64, f64, &str)> = long
        .iter()
        .map(|(function, count)| {
            let before = short.get(function).copied().unwrap_or_default();
            (each(count.instructions, before.instructions), each(count.misses, before.misses), function.as_str())
        })
        .collect();
    parts.sort_by(|one, other| other.0.total_cmp(&one.0));
    let sum = |parts: &[(f64, f64, &str)]| parts.iter().fold((0.0, 0.0), |(one, other), part| (one + part.0, other + part.1));
    let (total, misses) = sum(&parts);
    println!("\n{name}: {total:.0} instructions and {misses:.1} misses of the last cache for {}", of.1);
    let (large, small): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(count, ..)| *count >= total * LEAST);
    for (count, misses, function) in large {
        println!("{count:>8.0} {misses:>6.1}  {function}");
    }
    let (count, misses) = sum(&small);
    println!("{count:>8.0} {misses:>6.1}  everything else");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_two_columns_and_a_function() {
        let line = "1,234,567 (61.18%) 8,901 (2.53%)  ???:pipkin::db::get::<[u8; 24]> [/somewhere/program]";
        assert_eq!(parsed(line), Some((1_234_567, 8_901, "pipkin::db::get::<[u8; 24]>")));
        assert_eq!(parsed("7 (0.01%) .            ???:main"), Some((7, 0, "main")));
        assert_eq!(parsed("2,017 (100.0%) 351 (100.0%)  PROGRAM TOTALS"), None);
    }
}
