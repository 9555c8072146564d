//! Sources of an import: a file or stdin, and its format.

use crate::exit::{Failure, Outcome};
use crate::verbs::import::batch::{Batch, Trouble};
use clap::ValueEnum;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The format of records outside of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A directory tree: the key is the path within it, the value the bytes of the file
    Dir,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header row
    Csv,
}

impl Format {
    /// The format that the extension of a file name implies.
    pub(crate) fn from_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            "csv" | "tsv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// The cell separator that the extension of a file name implies.
pub(crate) fn default_delimiter(path: &Path) -> u8 {
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("tsv") => b'\t',
        _ => b',',
    }
}

/// A reader of records in some format.
pub(crate) trait RecordSource: Send {
    /// Adds the next record to `batch`; returns false at the end. After an error the batch is unchanged.
    fn next_into(&mut self, batch: &mut Batch) -> Result<bool, Trouble>;

    /// How many bytes of the source have been read.
    fn position(&self) -> u64;
}

/// Opens a file or stdin; returns its length, too, if it has one.
pub(crate) fn open(path: &Path) -> Outcome<(Box<dyn Read + Send>, Option<u64>)> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
    let about = file.metadata().map_err(|error| Failure::io("look at", path, &error))?;
    if about.is_dir() {
        return Err(Failure::usage(format!("{} is a directory; import it with --format dir", path.display())));
    }
    // A named pipe has no length.
    let len = about.is_file().then_some(about.len());
    Ok((Box::new(file), len))
}
