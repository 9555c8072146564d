//! Where exported records go.

use crate::bytes::{Form, RecordJson};
use crate::choices::{Choices, NamespaceJson};
use crate::exit::{Exit, Failure, Outcome};
use crate::new_file::{NewFile, copy_rights, create_private};
use crate::output::{self, json_line};
use crate::verbs::import::dir::path_of;
use crate::verbs::import::source::{Format, default_delimiter};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The target of a running export.
pub(crate) enum Sink {
    Stdout(Table<BufWriter<io::StdoutLock<'static>>>),
    File { table: Table<BufWriter<File>>, new_file: NewFile },
    Tree { root: PathBuf, store: PathBuf },
}

/// Why a record was not exported.
pub(crate) enum Refused {
    /// This key cannot be a file of the tree; the next one may.
    Key(String),
    /// Writing has failed; the export cannot continue.
    Failed(Failure),
}

impl Sink {
    pub(crate) fn create(store: &Path, target: &Path, format: Format, form: Form, force: bool) -> Outcome<Self> {
        let delimiter = default_delimiter(target);
        match format {
            Format::Dir => create_folder(store, target),
            _ if target.as_os_str() == "-" => {
                let table = Table::new(output::stdout(), format, form, delimiter).map_err(|error| Failure::stdout(&error))?;
                Ok(Self::Stdout(table))
            }
            _ => {
                let new_file = NewFile::new(target, store, force)?;
                let failure = |error: io::Error| Failure::io("write", target, &error);
                let file = BufWriter::with_capacity(256 * 1024, new_file.make(create_private).map_err(failure)?);
                let table = Table::new(file, format, form, delimiter).map_err(failure)?;
                Ok(Self::File { table, new_file })
            }
        }
    }

    pub(crate) fn write(&mut self, key: &[u8], value: &[u8], expires_ms: Option<u64>) -> Result<(), Refused> {
        match self {
            Self::Stdout(table) => table.write(key, value, expires_ms).map_err(|error| Refused::Failed(Failure::stdout(&error))),
            Self::File { table, new_file } => table
                .write(key, value, expires_ms)
                .map_err(|error| Refused::Failed(Failure::io("write", new_file.target(), &error))),
            Self::Tree { root, store } => write_file(store, root, key, value),
        }
    }

    /// Says that what follows is of this namespace, and what that says of its records. Only NDJSON can.
    pub(crate) fn begin_namespace(&mut self, name: &str, choices: Choices) -> Outcome<()> {
        match self {
            Self::Stdout(table) => table.begin_namespace(name, choices).map_err(|error| Failure::stdout(&error)),
            Self::File { table, new_file } => {
                table.begin_namespace(name, choices).map_err(|error| Failure::io("write", new_file.target(), &error))
            }
            Self::Tree { .. } => Ok(()),
        }
    }

    /// Ends the export: flushes stdout, or syncs the file and gives it its final name.
    pub(crate) fn finish(self) -> Outcome<()> {
        match self {
            Self::Stdout(table) => table.into_inner().and_then(|mut out| out.flush()).map_err(|error| Failure::stdout(&error)),
            Self::File { table, new_file } => {
                let synced =
                    table.into_inner().and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all());
                synced.map_err(|error| Failure::io("write", new_file.target(), &error))?;
                new_file.finish()
            }
            Self::Tree { .. } => Ok(()),
        }
    }
}

/// Writes records as lines of NDJSON or rows of CSV.
pub(crate) struct Table<W: Write> {
    rows: Rows<W>,
    form: Form,
    /// The namespace of the next records, in an export of all of them.
    namespace: String,
}

enum Rows<W: Write> {
    Ndjson(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> Table<W> {
    fn new(out: W, format: Format, form: Form, delimiter: u8) -> io::Result<Self> {
        let rows = if format == Format::Csv {
            let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
            writer.write_record(["key", "value", "key_encoding", "value_encoding"]).map_err(io_error)?;
            Rows::Csv(Box::new(writer))
        } else {
            Rows::Ndjson(out)
        };
        Ok(Self { rows, form, namespace: String::new() })
    }

    fn begin_namespace(&mut self, name: &str, choices: Choices) -> io::Result<()> {
        name.clone_into(&mut self.namespace);
        match &mut self.rows {
            // The default one is there anyway.
            Rows::Ndjson(out) if !name.is_empty() || !choices.are_none() => {
                json_line(out, &NamespaceJson { namespace: name, choices })
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, key: &[u8], value: &[u8], expires_ms: Option<u64>) -> io::Result<()> {
        match &mut self.rows {
            Rows::Ndjson(out) => json_line(out, &RecordJson::new(self.form, key, value).expiring(expires_ms).of(&self.namespace)),
            Rows::Csv(writer) => {
                let (key, key_encoding) = self.form.marked(key);
                let (value, value_encoding) = self.form.marked(value);
                let row = [&key, &value, key_encoding.unwrap_or_default(), value_encoding.unwrap_or_default()];
                writer.write_record(row).map_err(io_error)
            }
        }
    }

    fn into_inner(self) -> io::Result<W> {
        match self.rows {
            Rows::Ndjson(out) => Ok(out),
            Rows::Csv(writer) => {
                writer.into_inner().map_err(|error| io::Error::new(error.error().kind(), error.error().to_string()))
            }
        }
    }
}

/// The I/O error inside a CSV error. csv's own conversion hides its kind, so that a closed pipe would not be recognised.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Creates the target directory, or accepts an existing empty one.
fn create_folder(store: &Path, target: &Path) -> Outcome<Sink> {
    create_folders(store, target).map_err(|error| Failure::io("create", target, &error))?;
    let mut entries = fs::read_dir(target).map_err(|error| Failure::io("list", target, &error))?;
    if entries.next().is_some() {
        let what = format!("{} is not empty and was left as it is; choose a new directory", target.display());
        return Err(Failure::new(Exit::Usage, "exists", what));
    }
    Ok(Sink::Tree { root: target.to_path_buf(), store: store.to_path_buf() })
}

/// Creates folders that are accessible to the same users as the store.
fn create_folders(store: &Path, folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        let mode = fs::metadata(store)?.permissions().mode() & 0o666 | 0o600;
        // Add search permission (x) wherever there is read permission.
        builder.mode(mode | (mode & 0o444) >> 2);
    }
    #[cfg(not(unix))]
    let _ = store;
    builder.create(folder)
}

fn write_file(store: &Path, root: &Path, key: &[u8], value: &[u8]) -> Result<(), Refused> {
    let Some(relative) = path_of(key) else {
        return Err(Refused::Key(format!("the key {:?} cannot be the name of a file", Form::Text.plain(key))));
    };
    let path = root.join(relative);
    let create = || {
        if let Some(folder) = path.parent() {
            create_folders(store, folder)?;
        }
        create_private(&path)
    };
    let mut file = create().map_err(|error| match error.kind() {
        // `a` and `a/b`; or `A` and `a` on a file system that ignores case; or a name that is too long for the file system.
        io::ErrorKind::AlreadyExists
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => {
            Refused::Key(format!("there is no place for the key {:?} in a directory: {error}", Form::Text.plain(key)))
        }
        _ => Refused::Failed(Failure::io("create", &path, &error)),
    })?;
    let written = file.write_all(value).and_then(|()| copy_rights(store, &path));
    written.map_err(|error| Refused::Failed(Failure::io("write", &path, &error)))
}
