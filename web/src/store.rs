//! The store as JavaScript holds it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use js_sys::{Promise, Uint8Array};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, SegmentUse, Storage, verify_storage};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use web_sys::{FileSystemDirectoryHandle, FileSystemSyncAccessHandle};

use crate::error::open_error;
use crate::failure::{Code, Failure};
use crate::order::Order;
use crate::{Access, CachedStorage, OpfsStorage, entropy, requests, run, wire};

/// One open store.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Store {
    db: RefCell<Option<Db>>,
    order: Order,
}

fn failed(error: Error) -> JsValue {
    Failure::from(&error).into()
}

fn written(error: Error) -> JsValue {
    Failure::of_write(&error).into()
}

#[wasm_bindgen]
impl Store {
    /// Opens the store in the file `name` of a directory, with at most `cache` bytes of the file in memory. A new store gets
    /// segments of `segment` bytes.
    #[wasm_bindgen(unchecked_return_type = "Promise<Store>")]
    pub fn open(directory: FileSystemDirectoryHandle, name: String, create: bool, cache: u32, segment: u32) -> Promise {
        let access = if create { Access::Create } else { Access::Existing };
        let over = move |file| Self::over(Box::new(CachedStorage::new(file, cache as usize)), create, segment).map(JsValue::from);
        opened(&directory, name, access, Box::new(over))
    }

    /// A store that ends with this worker.
    #[wasm_bindgen(js_name = inMemory)]
    pub fn in_memory(segment: u32) -> Result<Store, JsValue> {
        Self::over(Box::new(MemoryStorage::new()), true, segment)
    }

    fn over(storage: Box<dyn Storage>, create: bool, segment: u32) -> Result<Store, JsValue> {
        let builder = Db::builder().create(create).segment_size(segment).entropy(entropy().map_err(failed)?);
        let db = builder.open_storage(storage).map_err(failed)?;
        Ok(Self { db: RefCell::new(Some(db)), order: Order::default() })
    }

    /// Works on the store, if it is still open.
    fn with<T>(&self, work: impl FnOnce(&Db) -> Result<T, JsValue>) -> Result<T, JsValue> {
        match &*self.db.borrow() {
            Some(db) => work(db),
            None => Err(Failure::new(Code::Closed, "the store has been closed; open it again").into()),
        }
    }

    /// Carries a message out and answers it; see `wire`. One that may come twice has a `client`, of 16 bytes, and its `number` there.
    pub fn run(&self, request: &[u8], client: &[u8], number: f64) -> Result<Vec<u8>, JsValue> {
        let origin = client.try_into().ok().map(|client| (client, number as u64));
        let request = wire::decode(request, origin).ok_or_else(|| Failure::new(Code::Usage, "a message that makes no sense"))?;
        self.with(|db| Ok(wire::encode(&run::run(db, &self.order, &request))))
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, JsValue> {
        self.with(|db| db.get(key).map_err(failed))
    }

    /// Copies the value of a key into the front of `into`, and answers with its length: -1 when there is none. A value that does
    /// not fit is not copied.
    #[wasm_bindgen(js_name = getInto)]
    pub fn get_into(&self, key: &[u8], into: &Uint8Array) -> Result<f64, JsValue> {
        self.with(|db| {
            let Some(value) = db.get_zerocopy(key).map_err(failed)? else { return Ok(-1.0) };
            if value.len() <= into.length() as usize {
                into.subarray(0, value.len() as u32).copy_from(&value);
            }
            Ok(value.len() as f64)
        })
    }

    /// Stores a value.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), JsValue> {
        self.with(|db| db.insert(key, value).map_err(written))?;
        self.order.apply(&[(key, Some(value))]);
        Ok(())
    }

    /// Removes a key; true if it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, JsValue> {
        let there = self.with(|db| db.remove(key).map_err(written))?;
        self.order.apply(&[(key, None)]);
        Ok(there)
    }

    /// Whether a key has a value.
    pub fn has(&self, key: &[u8]) -> Result<bool, JsValue> {
        self.with(|db| db.contains_key(key).map_err(failed))
    }

    /// Has the browser hand everything to the system: 1 when it did, 0 for a store in memory.
    pub fn flush(&self) -> Result<u8, JsValue> {
        self.with(|db| db.flush().map(|durability| durability as u8).map_err(written))
    }

    /// Copies what lives together, and gives the rest of the file back. Answers in JSON.
    pub fn compact(&self) -> Result<String, JsValue> {
        self.with(|db| {
            let report = db.compact().map_err(written)?;
            Ok(format!(r#"{{"segmentsRetired":{},"bytesFreed":{}}}"#, report.segments_retired, report.bytes_freed))
        })
    }

    /// Figures about the store, in JSON.
    pub fn stats(&self) -> Result<String, JsValue> {
        self.with(|db| {
            let stats = db.stats().map_err(failed)?;
            let records = db.len().map_err(failed)?;
            Ok(format!(
                concat!(
                    r#"{{"records":{},"fileBytes":{},"liveBytes":{},"deadBytes":{},"#,
                    r#""segments":{},"freeSegments":{},"segmentSize":{},"indexBytes":{}}}"#
                ),
                records,
                stats.file_bytes,
                stats.live_bytes,
                stats.dead_bytes,
                stats.segments,
                stats.free_segments,
                stats.segment_size,
                stats.index_bytes
            ))
        })
    }

    /// What the file is used for, front to back, in JSON.
    pub fn segments(&self) -> Result<String, JsValue> {
        self.with(|db| {
            let one = |segment: &SegmentUse| {
                let (what, bytes, used, live) = match *segment {
                    SegmentUse::Log { len, used, live, .. } => ("log", len, used, live),
                    SegmentUse::Free { len, .. } => ("free", len, 0, 0),
                    SegmentUse::Other { len, .. } => ("other", len, 0, 0),
                    _ => ("other", 0, 0, 0),
                };
                format!(r#"{{"use":"{what}","bytes":{bytes},"usedBytes":{used},"liveBytes":{live}}}"#)
            };
            Ok(list_json(db.segments().map_err(failed)?.iter().map(one)))
        })
    }

    /// Holds every byte that counts against its checksum. Answers in JSON.
    pub fn verify(&self) -> Result<String, JsValue> {
        self.with(|db| db.verify().map(|report| report_json(&report)).map_err(failed))
    }

    /// Copies the store, as it is at this moment, into a new file.
    #[wasm_bindgen(js_name = backupTo, unchecked_return_type = "Promise<void>")]
    pub fn backup_to(&self, directory: FileSystemDirectoryHandle, name: String) -> Promise {
        let db = match self.with(|db| Ok(db.clone())) {
            Ok(db) => db,
            Err(closed) => return Promise::reject(&closed),
        };
        let copy = move |target| db.backup_to_storage(&target).map(|_| JsValue::UNDEFINED).map_err(failed);
        opened(&directory, name, Access::Create, Box::new(copy))
    }

    /// Forgets the requests of all tabs but the living ones, whose names of 16 bytes stand one behind the other.
    #[wasm_bindgen(js_name = forgetRequestsOfAllBut)]
    pub fn forget_requests_of_all_but(&self, living: &[u8]) -> Result<(), JsValue> {
        self.with(|db| requests::forget_all_but(db, living.as_chunks().0).map_err(written))
    }

    /// Flushes, closes the file and gives up its lock.
    pub fn close(&self) -> Result<(), JsValue> {
        self.db.borrow_mut().take().map_or(Ok(()), |db| db.close().map_err(written))
    }
}

/// Verifies the store in a file that is not open. Answers in JSON.
#[wasm_bindgen(js_name = verifyFile, unchecked_return_type = "Promise<string>")]
pub fn verify_file(directory: FileSystemDirectoryHandle, name: String) -> Promise {
    let verify = |file| verify_storage(&file).map(|report| report_json(&report).into()).map_err(failed);
    opened(&directory, name, Access::Existing, Box::new(verify))
}

/// What is done with a file once it is open.
type Work = Box<dyn FnOnce(OpfsStorage) -> Result<JsValue, JsValue>>;

/// Opening in the words of JavaScript: what runs futures in Rust would take a twentieth of the module.
#[wasm_bindgen(inline_js = "
export const openFile = (directory, name, create, work) => directory.getFileHandle(name, { create })
  .then((file) => file.createSyncAccessHandle())
  .then((handle) => work(handle, undefined), (thrown) => work(undefined, thrown));
")]
extern "C" {
    #[wasm_bindgen(js_name = openFile)]
    fn open_file(directory: &FileSystemDirectoryHandle, name: &str, create: bool, work: &JsValue) -> Promise;
}

/// A promise of what `work` makes of the file. [`OpfsStorage::open`] does the same for Rust.
fn opened(directory: &FileSystemDirectoryHandle, name: String, access: Access, work: Work) -> Promise {
    let path = name.clone();
    let work = move |handle: Option<FileSystemSyncAccessHandle>, thrown: JsValue| match handle {
        Some(handle) => work(OpfsStorage::from_handle(handle).map_err(|error| failed(error.into()))?),
        None => Err(failed(open_error(&path, &thrown))),
    };
    open_file(directory, &name, access == Access::Create, &Closure::once_into_js(work))
}

fn report_json(report: &pipkin::VerifyReport) -> String {
    let damage = report.damage.iter().map(|damage| format!(r#"{{"offset":{},"what":"{}"}}"#, damage.offset, damage.what));
    format!(r#"{{"records":{},"bytesChecked":{},"damage":{}}}"#, report.records, report.bytes_checked, list_json(damage))
}

fn list_json(entries: impl Iterator<Item = String>) -> String {
    let mut list = String::from("[");
    for entry in entries {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(&entry);
    }
    list.push(']');
    list
}
