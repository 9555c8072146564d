//! A guest's readers of changes, without a name and with one, and their operations.

use super::wit::pipkin::kv::types::{ChangesOptions, ChangesPage, ConsumerState, Error};
use super::{ClientDb, ClientSnapshot, lost, over_quota};
use crate::keyvalue::context::Kept;
use crate::keyvalue::quota::Failure;
use crate::keyvalue::store_file::Call;
use crate::keyvalue::view::WasiKeyValue;
use pipkin::{Changes, Consumer, ConsumerBuilder, Error as Native, Position};
use pipkin_wasi_shared::{Asked, Follow, TOO_MANY_CONSUMERS, page};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::component::Resource;

/// Bytes of log that are kept for a reader that does not say how many; for a guest that only reads, the most.
const RETAIN_DEFAULT: u64 = 64 << 20;

/// A reader, the store that it is of, and the memory that it takes.
struct Reader<F> {
    follow: F,
    store: ClientDb,
    kept: Kept,
}

impl<F: Follow> Reader<F> {
    fn new(follow: F, store: ClientDb, mut kept: Kept) -> Self {
        kept.set(follow.memory_bytes());
        Self { follow, store, kept }
    }

    fn page(&mut self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        let Self { follow, store, kept } = self;
        let _in = store.engine.call()?;
        // What one step reads is known afterwards only. Once a guest keeps too much, it reads no further before it has taken some of that.
        let page = page(follow, max_commits, max_bytes, |follow| {
            if follow.has_read_ahead() { Ok(()) } else { kept.reserve(follow.memory_bytes()).map_err(over_quota) }
        });
        kept.set(follow.memory_bytes());
        Ok(page?.into())
    }
}

/// A guest's reader of changes, in the resource table of the embedder.
pub struct ClientChanges(Reader<Changes>);

impl ClientChanges {
    pub(super) fn page(&mut self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.0.page(max_commits, max_bytes)
    }

    pub(super) fn position(&self) -> Position {
        self.0.follow.position()
    }
}

/// A guest's consumer of changes, in the resource table of the embedder. Clones are the same one.
#[derive(Clone)]
pub struct ClientConsumer {
    reader: Arc<Mutex<Reader<Consumer>>>,
    store: ClientDb,
}

impl ClientConsumer {
    fn reader(&self) -> MutexGuard<'_, Reader<Consumer>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn page(&self, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.reader().page(max_commits, max_bytes)
    }

    pub(super) fn position(&self) -> Position {
        self.reader().follow.position()
    }

    /// Whether an acknowledgement waits for the device.
    pub(super) fn waits(&self) -> bool {
        self.store.waits()
    }

    pub(super) fn ack(&self, position: Position) -> Result<(), Error> {
        let db = self.store.engine.call()?;
        self.store.told(&db, || self.reader().follow.ack(position))?;
        self.store.settle(&db, self.store.durability)?;
        Ok(())
    }
}

impl ClientDb {
    /// Runs a call of a reader, which may write. The host hears of its errors, but of those that are answers.
    fn told<T>(&self, db: &Call<'_>, call: impl Fn() -> pipkin::Result<T>) -> Result<T, Error> {
        db.limits().with_room(db, || call().map_err(Failure::from)).map_err(|failure| match failure {
            Failure::Engine(
                answer @ (Native::UnknownPosition | Native::Compacted { .. } | Native::InvalidArgument(_) | Native::Nested),
            ) => answer.into(),
            failure => self.entry.failed(failure, db.limits()).into(),
        })
    }

    /// What a guest asks for, and may have: the store grows by what is kept for its readers.
    fn asked(&self, db: &Call<'_>, options: ChangesOptions) -> Asked {
        let mut asked = Asked::from(options);
        let of_readers = self.writable().is_err().then_some(RETAIN_DEFAULT);
        if let Some(most) = db.limits().history_bytes().into_iter().chain(of_readers).min() {
            asked.retain = Some(asked.retain.unwrap_or(RETAIN_DEFAULT).min(most));
        }
        asked
    }

    pub(super) fn changes(&self, options: ChangesOptions, kept: Kept) -> Result<ClientChanges, Error> {
        let db = self.engine.call()?;
        let builder = self.asked(&db, options).of(&db);
        let changes = self.told(&db, || builder.clone().start())?;
        Ok(ClientChanges(Reader::new(changes, self.clone(), kept)))
    }

    pub(super) fn changes_with_state(
        &self,
        options: ChangesOptions,
        kept: (Kept, Kept),
    ) -> Result<(ClientSnapshot, ClientChanges), Error> {
        let db = self.engine.call()?;
        let builder = self.asked(&db, options).of(&db);
        let (snapshot, changes) = self.told(&db, || builder.clone().with_state())?;
        let snapshot = ClientSnapshot::new(snapshot, self.engine.clone(), kept.0);
        Ok((snapshot, ClientChanges(Reader::new(changes, self.clone(), kept.1))))
    }

    fn consumer_named(&self, db: &Call<'_>, name: &str, options: ChangesOptions) -> Result<ConsumerBuilder, Error> {
        self.writable()?;
        let builder = self.asked(db, options).consumer(db, name)?;
        builder.ok_or_else(|| over_quota(TOO_MANY_CONSUMERS))
    }

    fn consumer_of(&self, consumer: Consumer, kept: Kept) -> ClientConsumer {
        let reader = Reader::new(consumer, self.clone(), kept);
        ClientConsumer { reader: Arc::new(Mutex::new(reader)), store: self.clone() }
    }

    pub(super) fn consumer(&self, name: &str, options: ChangesOptions, kept: Kept) -> Result<ClientConsumer, Error> {
        let db = self.engine.call()?;
        let builder = self.consumer_named(&db, name, options)?;
        let consumer = self.told(&db, || builder.clone().start())?;
        Ok(self.consumer_of(consumer, kept))
    }

    pub(super) fn consumer_with_state(
        &self,
        name: &str,
        options: ChangesOptions,
        kept: (Kept, Kept),
    ) -> Result<(ClientSnapshot, ClientConsumer), Error> {
        let db = self.engine.call()?;
        let builder = self.consumer_named(&db, name, options)?;
        let (snapshot, consumer) = self.told(&db, || builder.clone().with_state())?;
        Ok((ClientSnapshot::new(snapshot, self.engine.clone(), kept.0), self.consumer_of(consumer, kept.1)))
    }

    pub(super) fn consumers(&self) -> Result<Vec<ConsumerState>, Error> {
        Ok(self.engine.call()?.consumers()?.into_iter().map(Into::into).collect())
    }

    pub(super) fn remove_consumer(&self, name: &str) -> Result<bool, Error> {
        self.writable()?;
        let db = self.engine.call()?;
        let removed = self.told(&db, || db.remove_consumer(name))?;
        self.settle(&db, self.durability)?;
        Ok(removed)
    }
}

/// What a reader that is to be opened stands on: the store, and the count of it.
type Begin<K> = Result<(ClientDb, K), Error>;

impl WasiKeyValue<'_> {
    /// Counts a reader that keeps what `options` ask for.
    pub(super) fn reader(&self, db: &Resource<ClientDb>, options: &ChangesOptions) -> Begin<Kept> {
        let asked_for = options.prefix.len() + options.namespace.as_ref().map_or(0, String::len);
        Ok((self.db(db)?.clone(), self.ctx.keep(asked_for).map_err(over_quota)?))
    }

    /// The same with a snapshot.
    pub(super) fn reader_and_snapshot(&self, db: &Resource<ClientDb>, options: &ChangesOptions) -> Begin<(Kept, Kept)> {
        let (store, reader) = self.reader(db, options)?;
        Ok((store, (self.ctx.keep(0).map_err(over_quota)?, reader)))
    }

    /// Hands a guest a snapshot, and what comes after it.
    pub(super) fn with_state<T: Send + 'static>(
        &mut self,
        begun: Result<(ClientSnapshot, T), Error>,
    ) -> Result<(Resource<ClientSnapshot>, Resource<T>), Error> {
        let (snapshot, reader) = begun?;
        let snapshot = self.table.push(snapshot).map_err(lost)?;
        Ok((snapshot, self.table.push(reader).map_err(lost)?))
    }
}
