//! Parsing and writing side by side: batches travel from the parser's thread to the writer and back for the next records.

use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::records;
use crate::progress::Progress;
use crate::store::Store;
use crate::verbs::import::batch::{Batch, Trouble};
use crate::verbs::import::source::RecordSource;
use pipkin::{Namespace, Ttl};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

/// The interval at which the writer checks for Ctrl-C while the source delivers nothing.
const PATIENCE: Duration = Duration::from_millis(100);

/// How far an import came.
#[derive(Default)]
pub(crate) struct Imported {
    pub(crate) records: u64,
    pub(crate) payload: u64,
    pub(crate) skipped: u64,
    pub(crate) batches: u64,
    /// How many bytes of the source have been imported completely.
    pub(crate) position: u64,
    pub(crate) ended: Ended,
}

impl Imported {
    /// This and what came next, which says how it ended.
    pub(crate) fn and(self, next: Self) -> Self {
        Self {
            records: self.records.saturating_add(next.records),
            payload: self.payload.saturating_add(next.payload),
            skipped: self.skipped.saturating_add(next.skipped),
            batches: self.batches.saturating_add(next.batches),
            position: self.position.saturating_add(next.position),
            ended: next.ended,
        }
    }
}

/// Why the import ended.
#[derive(Default)]
pub(crate) enum Ended {
    #[default]
    Done,
    Interrupted,
    BadRecord(String),
    Failed(Failure),
}

enum Message {
    Batch(Batch),
    End(Ended),
}

/// Imports everything that `source` delivers. Does not flush the store at the end.
pub(crate) fn run(
    source: Box<dyn RecordSource>,
    store: &Store,
    skip_invalid: bool,
    durable: bool,
    progress: &Progress,
) -> Imported {
    let mut imported = Imported::default();
    // One batch waits while one is written and one is filled: memory stays bounded even with values of 1 GiB.
    let (to_writer, from_parser) = mpsc::sync_channel(1);
    let (to_parser, from_writer) = mpsc::channel();
    // Not joined: after Ctrl-C it may be blocked in a read of stdin, which only the end of the process stops.
    let parser = thread::Builder::new().name("parser".to_owned()).spawn(move || {
        let ended = parse(source, skip_invalid, &to_writer, &from_writer);
        // Without a receiver the writer has stopped already, and has its own reason to report.
        let _ = to_writer.send(Message::End(ended));
    });
    if let Err(error) = parser {
        imported.ended = Ended::Failed(Failure::new(Exit::Io, "io", format!("cannot start a thread: {error}")));
        return imported;
    }
    imported.ended = loop {
        let batch = match receive(&from_parser) {
            Ok(Message::Batch(batch)) => batch,
            Ok(Message::End(ended)) => break ended,
            Err(ended) => break ended,
        };
        if let Err(failure) = write(store, &batch, durable) {
            break Ended::Failed(failure);
        }
        imported.records = imported.records.saturating_add(batch.len());
        imported.payload = imported.payload.saturating_add(batch.payload());
        imported.skipped = imported.skipped.saturating_add(batch.skipped);
        imported.batches = imported.batches.saturating_add(u64::from(batch.len() > 0));
        imported.position = batch.position;
        progress.set(imported.position);
        progress.say(records(imported.records));
        // Fails if the parser has ended already; the buffer is not needed then.
        let _ = to_parser.send(batch);
    };
    imported
}

/// The next batch, unless the user wants to stop.
fn receive(from_parser: &Receiver<Message>) -> Result<Message, Ended> {
    loop {
        if interrupt::requested() {
            return Err(Ended::Interrupted);
        }
        match from_parser.recv_timeout(PATIENCE) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Ended::Failed(Failure::new(
                    Exit::Io,
                    "bug",
                    "the parser stopped without a word; please report this",
                )));
            }
        }
    }
}

/// As one commit; a record that has expired takes the one away that it replaces.
fn insert_expiring(store: &Store, batch: &Batch) -> pipkin::Result<()> {
    let mut commit = store.records().batch();
    for (key, value, expiry) in batch.iter_expiring() {
        commit = match expiry {
            Some(expiry) => commit.insert_with_ttl(key, value, Ttl::At(expiry)),
            None => commit.insert(key, value),
        };
    }
    commit.commit()
}

/// Makes the namespaces that the batch names, then writes its records as one commit. A record that does not expire does so under no default.
fn insert_everywhere(store: &Store, batch: &Batch) -> pipkin::Result<()> {
    let namespace = |name: &str| if name.is_empty() { Ok(store.db().default_namespace()) } else { store.db().namespace(name) };
    for (name, choices) in &batch.named {
        choices.make(&namespace(name)?)?;
    }
    let spaces: Vec<Namespace> = batch.spaces().iter().map(|(_, name)| namespace(name)).collect::<Result<_, _>>()?;
    let mut begins = batch.spaces().iter().map(|(place, _)| *place).zip(&spaces).peekable();
    let (mut commit, mut space) = (store.db().batch(), store.records());
    for (place, (key, value, expiry)) in batch.iter_expiring().enumerate() {
        while let Some((_, next)) = begins.next_if(|(begin, _)| *begin <= place) {
            space = next;
        }
        commit = commit.insert_in_with_ttl(space, key, value, expiry.map_or(Ttl::Never, Ttl::At));
    }
    commit.commit()
}

fn write(store: &Store, batch: &Batch, durable: bool) -> Outcome<()> {
    if batch.len() > 0 || batch.has_namespaces() {
        let written = match batch {
            batch if batch.has_namespaces() => insert_everywhere(store, batch),
            batch if batch.has_expiring() => insert_expiring(store, batch),
            batch => store.records().insert_many(batch.iter()),
        };
        written.map_err(|error| store.failure(&error))?;
        if durable {
            store.db().flush().map_err(|error| store.failure(&error))?;
        }
    }
    Ok(())
}

/// Fills batches until the source ends or fails, or the writer has stopped.
fn parse(
    mut source: Box<dyn RecordSource>,
    skip_invalid: bool,
    to_writer: &SyncSender<Message>,
    from_writer: &Receiver<Batch>,
) -> Ended {
    loop {
        let mut batch = from_writer.try_recv().unwrap_or_default();
        batch.reset();
        let ended = fill(source.as_mut(), skip_invalid, &mut batch);
        batch.position = source.position();
        if to_writer.send(Message::Batch(batch)).is_err() {
            return Ended::Interrupted;
        }
        if let Some(ended) = ended {
            return ended;
        }
    }
}

/// Fills one batch; returns the reason if it is the last.
fn fill(source: &mut dyn RecordSource, skip_invalid: bool, batch: &mut Batch) -> Option<Ended> {
    while !batch.is_full() {
        match source.next_into(batch) {
            Ok(true) => {}
            Ok(false) => return Some(Ended::Done),
            Err(Trouble::Skippable(_)) if skip_invalid => batch.skipped = batch.skipped.saturating_add(1),
            Err(Trouble::Skippable(what)) => return Some(Ended::BadRecord(what)),
            Err(Trouble::Fatal(failure)) => return Some(Ended::Failed(failure)),
        }
    }
    None
}
