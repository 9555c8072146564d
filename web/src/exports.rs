//! What JavaScript calls: `npm/src/wasm.ts` is the other end.
//!
//! Reads and writes of one key, and packed messages, take and return only numbers. Their input bytes are written, concatenated, into the
//! [room]; output bytes are read at [`answer`]. A result below 0 means that there is no value (-1) or that [`failure`] has an error (-2).
//!
//! The gain over arguments and results of `&[u8]` and `Vec<u8>`, in microseconds per call, measured with a build of each by
//! `node web/npm/bench/versions.mjs DIST DIST`:
//!
//! | | Chromium 156 | Firefox 153 |
//! |---|---|---|
//! | `get` of 150 bytes | 0.65 instead of 0.73 | 0.6 instead of 0.9 |
//! | `get` into a buffer of the caller | 0.35 instead of 0.93 | 0.5 instead of 1.0 |
//! | `has` | 0.20, the same | 0.2 instead of 0.4 |
//! | `run`, a message that reads one key | 3.2 instead of 3.4 | 2.2 instead of 2.5 |
//! | `set` of 150 bytes in a file | 28.8 instead of 29.2 | 90.2 instead of 93.1 |

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Ref, RefCell};
use core::time::Duration;

use pipkin::storage::{CachedStorage, MemoryStorage};
use pipkin::{Builder, Db, Error, Position, PositionState, Storage};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::FileSystemSyncAccessHandle;

use crate::clock::BrowserClock;
use crate::failure::{Code, Failure};
use crate::hold::Hold;
use crate::secret::{self, Secret};
use crate::shared::{self, NONE, Open, Said, give};
use crate::storage::{OpfsStorage, cached};
use crate::{compression, cut, json, requests, run, wire};

fn failed(error: Error) -> Failure {
    (&error).into()
}

fn written(error: Error) -> Failure {
    Failure::of_write(&error)
}

fn committed(error: Error) -> Failure {
    Failure::of_commit(&error)
}

/// Splits the input into the key, of `key` bytes, and what follows it.
fn parts(input: &[u8], key: usize) -> (&[u8], &[u8]) {
    input.split_at_checked(key).unwrap_or_default()
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues, catch)]
    pub(crate) fn fill_with_random(bytes: &mut [u8]) -> Result<JsValue, JsValue>;
}

/// 256 random bits of the browser's cryptographic generator.
pub(crate) fn entropy() -> Result<[u8; 32], JsValue> {
    let mut random = [0; 32];
    fill_with_random(&mut random).map(|_| random)
}

/// Makes room for `len` input bytes of the next call, and returns its address.
#[wasm_bindgen]
pub fn room(len: usize) -> *mut u8 {
    shared::room(len)
}

/// The address of the last call's output bytes; that call returned their number.
#[wasm_bindgen]
pub fn answer() -> *const u8 {
    shared::answer()
}

/// The error of the last call that returned -2, taken out; `undefined` when there is none.
#[wasm_bindgen]
pub fn failure() -> JsValue {
    shared::failure().map_or(JsValue::UNDEFINED, JsValue::from)
}

/// One store, until it is closed.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Store(RefCell<Option<Open>>);

#[wasm_bindgen]
impl Store {
    /// Opens the store in a file, with at most `cache` bytes of it in memory. A new store gets segments of `segment` bytes. `kind` and `secret` say
    /// what opens a sealed one; see [`Secret`].
    pub fn open(
        file: FileSystemSyncAccessHandle,
        create: bool,
        cache: u32,
        segment: u32,
        kind: u8,
        secret: &[u8],
    ) -> Result<Store, JsValue> {
        let file = OpfsStorage::from_handle(file).and_then(|file| cached(file, cache as usize));
        let file = Arc::new(file.map_err(|error| failed(error.into()))?);
        let builder = Db::builder().create(create).segment_size(segment);
        Self::over(Box::new(file.clone()), Some(file), builder, Secret { kind, bytes: secret })
    }

    /// Opens an empty store in memory; it ends with this worker.
    #[wasm_bindgen(js_name = inMemory)]
    pub fn in_memory(segment: u32) -> Result<Store, JsValue> {
        let builder = Db::builder().segment_size(segment);
        Self::over(Box::new(MemoryStorage::new()), None, builder, Secret { kind: 0, bytes: &[] })
    }

    fn over(
        storage: Box<dyn Storage>,
        file: Option<Arc<CachedStorage<OpfsStorage>>>,
        builder: Builder,
        secret: Secret<'_>,
    ) -> Result<Store, JsValue> {
        let builder = secret::opens(builder.clock(BrowserClock), secret, entropy()?)?;
        let db = secret::open(builder, secret, storage).map_err(failed)?;
        // Says which module is needed before anything is read.
        if cfg!(not(feature = "sealed")) && db.is_compressed() {
            return Err(Failure::new(Code::Version, "its values are compressed: open it with `pipkin-sealed.wasm`").into());
        }
        Ok(Self(RefCell::new(Some(Open::new(db, file)))))
    }

    /// The open store; fails if it was closed. Every call must begin with this.
    fn open_one(&self) -> Result<Ref<'_, Open>, Failure> {
        let open = Ref::filter_map(self.0.borrow(), Option::as_ref);
        let open = open.map_err(|_| Failure::new(Code::Closed, "the store has been closed; open it again"))?;
        open.begin_call();
        Ok(open)
    }

    /// Runs a call that takes its input from the room, see the head of this file.
    fn call(&self, work: &dyn Fn(&Open, &[u8]) -> Said) -> f64 {
        shared::call(&|input| work(&*self.open_one()?, input))
    }

    /// Reads the value of a key into [`answer`] and returns its length; -1 when there is none.
    pub fn get(&self, key: usize) -> f64 {
        self.call(&|open, input| Ok(open.db.get(parts(input, key).0).map_err(failed)?.map_or(NONE, give)))
    }

    /// Stores a value.
    pub fn set(&self, key: usize, value: usize) -> f64 {
        self.call(&|open, input| {
            let (key, rest) = parts(input, key);
            let value = parts(rest, value).0;
            open.room.with(&open.db, &mut || open.db.insert(key, value).map(drop)).map_err(committed)?;
            open.order.apply(&[(key, Some(value))]);
            Ok(0.0)
        })
    }

    /// Removes a key; 1 if it was there.
    pub fn delete(&self, key: usize) -> f64 {
        self.call(&|open, input| {
            let key = parts(input, key).0;
            let mut there = false;
            open.room.with(&open.db, &mut || open.db.remove(key).map(|removed| there = removed)).map_err(committed)?;
            open.order.apply(&[(key, None)]);
            Ok(f64::from(u8::from(there)))
        })
    }

    /// 1 when a key has a value.
    pub fn has(&self, key: usize) -> f64 {
        self.call(&|open, input| Ok(f64::from(u8::from(open.db.contains_key(parts(input, key).0).map_err(failed)?))))
    }

    /// Carries out a message and encodes the answers; see `wire`. A message that may be sent twice is followed by the 16 bytes of its tab's
    /// name, and `number` is its number within that tab.
    pub fn run(&self, request: usize, client: usize, number: f64) -> f64 {
        self.call(&|open, input| {
            let (request, rest) = parts(input, request);
            let origin = parts(rest, client).0.try_into().ok().map(|client| (client, number as u64));
            let request = wire::decode(request, origin);
            let request = request.ok_or_else(|| Failure::new(Code::Usage, "a message that makes no sense"))?;
            Ok(give(wire::encode(&run::run(open, &request))))
        })
    }

    /// Makes the browser hand everything that was written to the operating system.
    pub fn flush(&self) -> Result<(), JsValue> {
        Ok(self.open_one()?.db.flush().map(drop).map_err(written)?)
    }

    /// Whether a write or a flush has failed: further ones are refused until the file is opened again.
    #[wasm_bindgen(js_name = isPoisoned)]
    pub fn is_poisoned(&self) -> bool {
        self.open_one().is_ok_and(|open| open.db.is_poisoned())
    }

    /// Copies live records together, and returns the space of the rest. Returns a report as JSON, as the next three methods do.
    pub fn compact(&self) -> Result<String, JsValue> {
        Ok(json::compacted(&self.open_one()?.db.compact().map_err(written)?))
    }

    /// Figures about the store.
    pub fn stats(&self) -> Result<String, JsValue> {
        Ok(json::stats(&self.open_one()?.db.stats().map_err(failed)?))
    }

    /// What the file is used for, front to back.
    pub fn segments(&self) -> Result<String, JsValue> {
        Ok(json::segments(&self.open_one()?.db.segments().map_err(failed)?))
    }

    /// Checks every byte that counts against its checksum, in the file itself.
    pub fn verify(&self) -> Result<String, JsValue> {
        let open = self.open_one()?;
        open.look_at_the_file();
        Ok(json::verified(&open.db.verify().map_err(failed)?))
    }

    /// Describes a copy of the store as it is at this moment; see `cut`.
    pub fn cut(&self) -> Result<Vec<u8>, JsValue> {
        let open = self.open_one()?;
        file_of(&open)?;
        open.look_at_the_file();
        Ok(cut::cut(&open.db).map_err(failed)?)
    }

    /// Reads a piece of a cut from the file; fails if other bytes have been written there since the cut.
    pub fn piece(&self, offset: f64, len: usize, crc: u32) -> Result<Vec<u8>, JsValue> {
        Ok(cut::piece(file_of(&*self.open_one()?)?, offset as u64, len, crc)?)
    }

    /// Starts or stops keeping every record at its offset, as an export needs.
    pub fn hold(&self, on: bool) -> Result<(), JsValue> {
        let open = self.open_one()?;
        let hold = &mut *open.hold.borrow_mut();
        if on {
            // Keep an existing hold: a new one would release segments that the first export still needs.
            hold.get_or_insert_with(|| Hold::of(&open.db));
        } else {
            *hold = None;
            open.room.look_again();
        }
        Ok(())
    }

    /// Takes a snapshot, which a message then reads by that number, unless there is one already. Returns its position, or no bytes if it has
    /// none.
    #[wasm_bindgen(js_name = takeSnapshot)]
    pub fn take_snapshot(&self, number: f64) -> Result<Vec<u8>, JsValue> {
        let open = self.open_one()?;
        open.held.take(&open.db, number);
        Ok(open.held.with(number, |held| Ok(bytes_of(held.snapshot.position())))?)
    }

    /// How many records a snapshot has.
    #[wasm_bindgen(js_name = sizeOfSnapshot)]
    pub fn size_of_snapshot(&self, number: f64) -> Result<f64, JsValue> {
        Ok(self.open_one()?.held.with(number, |held| held.snapshot.len().map(|len| len as f64).map_err(failed))?)
    }

    /// Begins a transaction, in which messages then read and write by that number, unless there is one already.
    pub fn begin(&self, number: f64) -> Result<(), JsValue> {
        let open = self.open_one()?;
        Ok(open.transactions.begin(&open.db, number)?)
    }

    /// Keeps all changes that are in the file for those who have not read them, until that number is given up.
    #[wasm_bindgen(js_name = keepChanges)]
    pub fn keep_changes(&self, number: f64) -> Result<(), JsValue> {
        let open = self.open_one()?;
        Ok(open.followers.keep_all(&open.db, number).map_err(failed)?)
    }

    /// Gives a snapshot, a transaction or a reader of changes up.
    #[wasm_bindgen(js_name = giveUp)]
    pub fn give_up(&self, number: f64) -> Result<(), JsValue> {
        let open = self.open_one()?;
        open.held.give_up(number);
        drop(open.transactions.take(number));
        drop(open.followers.take(number));
        open.room.look_again();
        Ok(())
    }

    /// The position of what is visible, as 16 bytes.
    pub fn position(&self) -> Result<Vec<u8>, JsValue> {
        let open = self.open_one()?;
        let mut position = None;
        open.room.with(&open.db, &mut || open.db.position().map(|now| position = Some(now))).map_err(written)?;
        Ok(bytes_of(position))
    }

    /// The same where no call before has asked for one: no bytes, and nothing is written.
    #[wasm_bindgen(js_name = knownPosition)]
    pub fn known_position(&self) -> Result<Vec<u8>, JsValue> {
        Ok(bytes_of(self.open_one()?.db.snapshot().position()))
    }

    /// What the store knows about a position: a number, in the order of `STATES` in `wasm.ts`.
    #[wasm_bindgen(js_name = stateOf)]
    pub fn state_of(&self, position: &[u8]) -> Result<u8, JsValue> {
        let open = self.open_one()?;
        Ok(match open.db.state_of(position_of(position)?) {
            PositionState::Durable => 0,
            PositionState::Appended => 1,
            PositionState::Compacted => 2,
            _ => 3,
        })
    }

    /// Makes the browser hand everything up to a position to the operating system.
    #[wasm_bindgen(js_name = flushTo)]
    pub fn flush_to(&self, position: &[u8]) -> Result<(), JsValue> {
        Ok(self.open_one()?.db.flush_to(position_of(position)?).map(drop).map_err(written)?)
    }

    /// Sets how long records live whose write does not say, in milliseconds; infinite: for ever. Flushed at once.
    #[wasm_bindgen(js_name = setDefaultTtl)]
    pub fn set_default_ttl(&self, ms: f64) -> Result<(), JsValue> {
        let open = self.open_one()?;
        let ttl = ms.is_finite().then(|| Duration::from_millis(ms as u64));
        open.room.with(&open.db, &mut || open.db.set_default_ttl(ttl)).map_err(committed)?;
        Ok(open.db.flush().map(drop).map_err(written)?)
    }

    /// How long that is; infinite: for ever.
    #[wasm_bindgen(js_name = defaultTtl)]
    pub fn default_ttl(&self) -> Result<f64, JsValue> {
        Ok(self.open_one()?.db.default_ttl().map_or(f64::INFINITY, |ttl| ttl.as_millis() as f64))
    }

    /// Sets when values are compressed: a number, in the order of `WHENS` in `types.ts`. Flushed at once.
    #[wasm_bindgen(js_name = setCompression)]
    pub fn set_compression(&self, when: u8) -> Result<(), JsValue> {
        let open = self.open_one()?;
        open.room.with(&open.db, &mut || compression::set(&open.db, when)).map_err(committed)?;
        Ok(open.db.flush().map(drop).map_err(written)?)
    }

    /// When they are compressed.
    pub fn compression(&self) -> Result<u8, JsValue> {
        Ok(compression::of(&self.open_one()?.db))
    }

    /// Lists or changes what opens a sealed store; see [`secret::change`]. Returns what it has done as JSON.
    #[wasm_bindgen(js_name = changeKeys)]
    pub fn change_keys(&self, what: u8, slot: u8, kind: u8, secret: &[u8]) -> Result<String, JsValue> {
        let open = self.open_one()?;
        Ok(secret::change(&open.db, what, slot, Secret { kind, bytes: secret }).map_err(written)?)
    }

    /// Sets the time of the store back to the browser's clock; returns how many records live again.
    #[wasm_bindgen(js_name = resetClock)]
    pub fn reset_clock(&self) -> Result<f64, JsValue> {
        let open = self.open_one()?;
        let living = open.db.reset_clock().map_err(written)?;
        open.order.forget();
        Ok(living as f64)
    }

    /// Forgets the requests of all tabs except the living ones. `living` is their concatenated names of 16 bytes.
    #[wasm_bindgen(js_name = forgetRequestsOfAllBut)]
    pub fn forget_requests_of_all_but(&self, living: &[u8]) -> Result<(), JsValue> {
        Ok(requests::forget_all_but(&self.open_one()?.db, living.as_chunks().0).map_err(written)?)
    }

    /// Flushes, closes the file and gives up its lock.
    pub fn close(&self) -> Result<(), JsValue> {
        let open = self.0.borrow_mut().take();
        Ok(open.map_or(Ok(()), |open| open.db.clone().close().map_err(written))?)
    }
}

fn bytes_of(position: Option<Position>) -> Vec<u8> {
    position.map(|position| position.to_bytes().to_vec()).unwrap_or_default()
}

fn position_of(bytes: &[u8]) -> Result<Position, Failure> {
    let bytes = bytes.try_into().map_err(|_| Failure::new(Code::Usage, "a position has 16 bytes"))?;
    Ok(Position::from_bytes(bytes))
}

fn file_of(open: &Open) -> Result<&dyn Storage, Failure> {
    match &open.file {
        Some(file) => Ok(&**file),
        None => Err(Failure::new(Code::Unavailable, "a store in memory has no file to export")),
    }
}

/// Verifies the store in a file that is not open, and that this opens it, if it is sealed. Returns a report as JSON.
#[wasm_bindgen(js_name = verifyFile)]
pub fn verify_file(file: FileSystemSyncAccessHandle, kind: u8, secret: &[u8]) -> Result<String, JsValue> {
    let file = OpfsStorage::from_handle(file).map_err(|error| failed(error.into()))?;
    Ok(secret::verified(file, Secret { kind, bytes: secret })?)
}

/// Fails if this does not open the sealed store that has this front, which is not secret.
#[wasm_bindgen(js_name = checkKey)]
pub fn check_key(front: &[u8], kind: u8, secret: &[u8]) -> Result<(), JsValue> {
    Ok(secret::check(front, Secret { kind, bytes: secret })?)
}
