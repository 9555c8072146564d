//! `--from`: a store of another engine. A thread reads it, because engines hand their records on in a way of their own.

use super::{ImportArgs, Input};
use crate::exit::{Exit, Failure, Outcome};
use crate::verbs::import::batch::{Batch, Trouble};
use crate::verbs::import::source::RecordSource;
use clap::ValueEnum;
use pipkin_foreign::{Columns, Engine, Error, Record, Source, Table};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Records that travel together ...
const CHUNK_RECORDS: usize = 1000;
/// ... or this many bytes of them.
const CHUNK_BYTES: usize = 1024 * 1024;

/// An engine, for the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    Emdb,
    Leveldb,
    Lmdb,
    Redb,
    Rocksdb,
    Sled,
    Sqlite,
}

impl From {
    const fn engine(self) -> Engine {
        match self {
            Self::Emdb => Engine::Emdb,
            Self::Leveldb => Engine::LevelDb,
            Self::Lmdb => Engine::Lmdb,
            Self::Redb => Engine::Redb,
            Self::Rocksdb => Engine::RocksDb,
            Self::Sled => Engine::Sled,
            Self::Sqlite => Engine::Sqlite,
        }
    }
}

fn failure(error: &Error) -> Failure {
    let (exit, kind) = match error {
        Error::NotBuiltIn { .. } => (Exit::Usage, "not-built-in"),
        Error::NotFound { .. } => (Exit::NoStore, "not-found"),
        _ => (Exit::BadInput, "bad-input"),
    };
    Failure::new(exit, kind, error)
}

/// The libraries of some engines panic when they meet damage.
fn broken() -> Failure {
    Failure::bad_input("the library that reads the other store has failed: the store may be damaged")
}

/// One input for each table that is wanted. Looks at a record of each: a table that cannot be imported is refused before any is.
pub(super) fn open(engine: From, args: &ImportArgs) -> Outcome<Vec<Input>> {
    if args.table.is_none() && args.namespace.namespace.is_some() {
        return Err(Failure::usage("--namespace is for one --table; all of them become namespaces of their names"));
    }
    let columns = Columns { key: args.key.clone(), value: args.value.clone() };
    if engine != From::Sqlite && columns != Columns::default() {
        return Err(Failure::usage("--key and --value are for tables of SQLite; other engines know their keys"));
    }
    let look = || {
        let source = pipkin_foreign::open(engine.engine(), &args.source, &columns)?;
        let tables = match &args.table {
            Some(name) => vec![Table { name: name.clone(), is_default: true }],
            None => source.tables()?,
        };
        tables.iter().try_for_each(|table| source.read(&table.name, &mut |_| ControlFlow::Break(())))?;
        Ok((source, tables))
    };
    let looked = catch_unwind(AssertUnwindSafe(look)).map_err(|_| broken())?;
    let (source, tables) = looked.map_err(|error| failure(&error))?;
    let source: Shared = Arc::new(Mutex::new(source));
    let input = |table: Table| Input {
        records: Box::new(Records::of(source.clone(), table.name.clone())),
        namespace: (!table.is_default).then_some(table.name),
        total: None,
        left_out: 0,
    };
    Ok(tables.into_iter().map(input).collect())
}

/// The tables are read one after the other.
type Shared = Arc<Mutex<Box<dyn Source>>>;

/// Key, value and expiry of a record.
type Entry = (Vec<u8>, Vec<u8>, Option<u64>);
type Chunk = Vec<Entry>;

/// What the thread that reads sends.
enum Message {
    Chunk(Chunk),
    /// That was all of the table.
    End,
    Failed(Failure),
}

/// The records of a table, on their way from the thread that reads it. The thread begins with the first that is asked for.
struct Records {
    table: Option<(Shared, String)>,
    messages: Option<Receiver<Message>>,
    chunk: std::vec::IntoIter<Entry>,
    position: u64,
}

impl Records {
    fn of(source: Shared, table: String) -> Self {
        Self { table: Some((source, table)), messages: None, chunk: Vec::new().into_iter(), position: 0 }
    }

    fn start(&mut self) -> Result<(), Failure> {
        let Some((source, table)) = self.table.take() else { return Ok(()) };
        let (sender, messages) = mpsc::sync_channel(1);
        let read = move || read(&source, &table, &sender);
        let started = thread::Builder::new().name("reader".to_owned()).spawn(read);
        started.map_err(|error| Failure::new(Exit::Io, "io", format!("cannot start a thread: {error}")))?;
        self.messages = Some(messages);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Entry>, Failure> {
        self.start()?;
        loop {
            if let Some(record) = self.chunk.next() {
                return Ok(Some(record));
            }
            match self.messages.as_ref().and_then(|messages| messages.recv().ok()) {
                Some(Message::Chunk(chunk)) => self.chunk = chunk.into_iter(),
                Some(Message::End) => return Ok(None),
                Some(Message::Failed(failure)) => return Err(failure),
                // The thread has panicked.
                None => return Err(broken()),
            }
        }
    }
}

/// Sends the records of a table, and in the end what went wrong.
fn read(source: &Shared, table: &str, sender: &SyncSender<Message>) {
    let (mut chunk, mut bytes) = (Chunk::new(), 0_usize);
    let result = source.lock().unwrap_or_else(PoisonError::into_inner).read(table, &mut |Record { key, value, expires_at }| {
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
        chunk.push((key.to_vec(), value.to_vec(), expires_at));
        if chunk.len() < CHUNK_RECORDS && bytes < CHUNK_BYTES {
            return ControlFlow::Continue(());
        }
        bytes = 0;
        // Without a receiver the import has ended.
        match sender.send(Message::Chunk(core::mem::take(&mut chunk))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let end = result.map_or_else(|error| Message::Failed(failure(&error)), |()| Message::End);
    // Without a receiver nobody wants to know.
    let _ = sender.send(Message::Chunk(chunk)).and_then(|()| sender.send(end));
}

impl RecordSource for Records {
    fn next_into(&mut self, batch: &mut Batch) -> Result<bool, Trouble> {
        let Some((key, value, expires_at)) = self.next().map_err(Trouble::Fatal)? else { return Ok(false) };
        self.position = self.position.saturating_add(u64::try_from(key.len().saturating_add(value.len())).unwrap_or(u64::MAX));
        let pushed = match expires_at {
            Some(expires_at) => batch.push_expiring(&key, &value, expires_at),
            None => batch.push(&key, &value),
        };
        pushed.map(|()| true).map_err(|what| Trouble::Skippable(format!("the record of the key {}: {what}", key.escape_ascii())))
    }

    fn position(&self) -> u64 {
        self.position
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    /// 1,500 records, then what its field says.
    struct EndsWith(fn() -> pipkin_foreign::Result<()>);

    impl Source for EndsWith {
        fn tables(&self) -> pipkin_foreign::Result<Vec<Table>> {
            Ok(Vec::new())
        }

        fn read(&self, _table: &str, each: &mut pipkin_foreign::Each<'_>) -> pipkin_foreign::Result<()> {
            for number in 0..1500_u16 {
                let _ = each(Record { key: &number.to_be_bytes(), value: b"", expires_at: None });
            }
            (self.0)()
        }
    }

    /// How many records come, and whether it ends well.
    fn read_all(end: fn() -> pipkin_foreign::Result<()>) -> (usize, bool) {
        let mut records = Records::of(Arc::new(Mutex::new(Box::new(EndsWith(end)))), String::new());
        let mut count = 0;
        loop {
            match records.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, true),
                Err(_) => return (count, false),
            }
        }
    }

    #[test]
    fn a_table_that_ends_early_is_no_table_that_was_read() {
        assert_eq!(read_all(|| Ok(())), (1500, true));
        assert_eq!(read_all(|| Err(Error::NotFound { what: "block".to_owned() })), (1500, false));
        assert_eq!(read_all(|| panic!("as a library does that meets damage")), (1000, false));
    }
}
