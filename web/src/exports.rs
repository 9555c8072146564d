//! What JavaScript calls: `npm/src/engine.ts` is the other end. Bytes come in through the [room](shared::room), one behind the other, and
//! go out as the [answer](shared::answer); everything else is numbers.
#![allow(unsafe_code, reason = "names that the other end knows")]

use alloc::boxed::Box;
use alloc::sync::Arc;

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Storage, verify_storage};

use crate::failure::{Code, Failure};
use crate::hold::Hold;
use crate::json;
use crate::shared::{self, NONE, Store, call, give, said};
use crate::{OpfsStorage, cached, cut, requests, run, wire};

fn failed(error: Error) -> Failure {
    (&error).into()
}

fn written(error: Error) -> Failure {
    Failure::of_write(&error)
}

fn committed(error: Error) -> Failure {
    Failure::of_commit(&error)
}

/// A key, and what stands behind it.
fn parts(input: &[u8], key: usize) -> (&[u8], &[u8]) {
    input.split_at_checked(key).unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn room(len: usize) -> *mut u8 {
    shared::room(len)
}

#[unsafe(no_mangle)]
extern "C" fn answer() -> *const u8 {
    shared::answer()
}

/// Opens the store in a file, with at most `cache` bytes of it in memory, or without one a store in memory. A new store gets segments of
/// `segment` bytes. 16 random bytes come in. Answers with the number of the store.
#[unsafe(no_mangle)]
extern "C" fn store_open(file: u32, create: u32, cache: u32, segment: u32) -> f64 {
    said((|| {
        let of_file = |file| cached(OpfsStorage::of_file(file)?, cache as usize).map(Arc::new);
        let file = (file != 0).then(|| of_file(file)).transpose().map_err(|error| failed(error.into()))?;
        let storage: Box<dyn Storage> = match &file {
            None => Box::new(MemoryStorage::new()),
            Some(file) => Box::new(file.clone()),
        };
        let entropy = shared::random();
        let builder = Db::builder().create(create != 0).segment_size(segment).entropy(entropy);
        Ok(shared::insert(builder.open_storage(storage).map_err(failed)?, file))
    })())
}

/// Carries a message out and answers it; see `wire`. One that may come twice has the 16 bytes of a tab behind it, and its `number` there.
#[unsafe(no_mangle)]
extern "C" fn store_run(store: usize, request: usize, client: usize, number: f64) -> f64 {
    call(store, &|store, input| {
        let (request, rest) = parts(input, request);
        let origin = parts(rest, client).0.try_into().ok().map(|client| (client, number as u64));
        let request = wire::decode(request, origin).ok_or_else(|| Failure::new(Code::Usage, "a message that makes no sense"))?;
        Ok(give(wire::encode(&run::run(&store.db, &store.order, &store.room, &request))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn store_get(store: usize, key: usize) -> f64 {
    call(store, &|store, input| Ok(store.db.get(parts(input, key).0).map_err(failed)?.map_or(NONE, give)))
}

#[unsafe(no_mangle)]
extern "C" fn store_set(store: usize, key: usize, value: usize) -> f64 {
    call(store, &|store, input| {
        let (key, rest) = parts(input, key);
        let value = parts(rest, value).0;
        store.room.with(&store.db, &mut || store.db.insert(key, value).map(drop)).map_err(committed)?;
        store.order.apply(&[(key, Some(value))]);
        Ok(0.0)
    })
}

/// Removes a key; 1 if it was there.
#[unsafe(no_mangle)]
extern "C" fn store_delete(store: usize, key: usize) -> f64 {
    call(store, &|store, input| {
        let key = parts(input, key).0;
        let mut there = false;
        store.room.with(&store.db, &mut || store.db.remove(key).map(|removed| there = removed)).map_err(committed)?;
        store.order.apply(&[(key, None)]);
        Ok(f64::from(u8::from(there)))
    })
}

/// Whether a key has a value.
#[unsafe(no_mangle)]
extern "C" fn store_has(store: usize, key: usize) -> f64 {
    call(store, &|store, input| Ok(f64::from(u8::from(store.db.contains_key(parts(input, key).0).map_err(failed)?))))
}

/// Has the browser hand everything to the system: 1 when it did, 0 for a store in memory.
#[unsafe(no_mangle)]
extern "C" fn store_flush(store: usize) -> f64 {
    call(store, &|store, _| Ok(f64::from(store.db.flush().map_err(written)? as u8)))
}

/// 1 when a write or a flush has failed: no more of them are taken until the file is opened again.
#[unsafe(no_mangle)]
extern "C" fn store_poisoned(store: usize) -> f64 {
    call(store, &|store, _| Ok(f64::from(u8::from(store.db.is_poisoned()))))
}

/// Copies what lives together, and gives the rest of the file back. Answers in JSON, as the next three do.
#[unsafe(no_mangle)]
extern "C" fn store_compact(store: usize) -> f64 {
    call(store, &|store, _| Ok(give(json::compacted(&store.db.compact().map_err(written)?))))
}

/// Figures about the store.
#[unsafe(no_mangle)]
extern "C" fn store_stats(store: usize) -> f64 {
    call(store, &|store, _| Ok(give(json::stats(&store.db.stats().map_err(failed)?))))
}

/// What the file is used for, front to back.
#[unsafe(no_mangle)]
extern "C" fn store_segments(store: usize) -> f64 {
    call(store, &|store, _| Ok(give(json::segments(&store.db.segments().map_err(failed)?))))
}

/// Holds every byte that counts against its checksum.
#[unsafe(no_mangle)]
extern "C" fn store_verify(store: usize) -> f64 {
    call(store, &|store, _| {
        store.look_at_the_file();
        Ok(give(json::verified(&store.db.verify().map_err(failed)?)))
    })
}

/// Describes a copy of the store as it is at this moment; see `cut`.
#[unsafe(no_mangle)]
extern "C" fn store_cut(store: usize) -> f64 {
    call(store, &|store, _| {
        file_of(store)?;
        store.look_at_the_file();
        Ok(give(cut::cut(&store.db).map_err(failed)?))
    })
}

/// Reads bytes of a cut from the file.
#[unsafe(no_mangle)]
extern "C" fn store_piece(store: usize, offset: f64, len: usize, crc: u32) -> f64 {
    call(store, &|store, _| Ok(give(cut::piece(file_of(store)?, offset as u64, len, crc)?)))
}

/// Keeps every record in its place, or stops doing so.
#[unsafe(no_mangle)]
extern "C" fn store_hold(store: usize, on: u32) -> f64 {
    call(store, &|store, _| {
        let hold = &mut *store.hold.borrow_mut();
        if on != 0 {
            // The first one also serves whoever comes later; a new one would let go of what the first needs.
            hold.get_or_insert_with(|| Hold::of(&store.db));
        } else {
            *hold = None;
            store.room.look_again();
        }
        Ok(0.0)
    })
}

fn file_of(store: &Store) -> Result<&dyn Storage, Failure> {
    match &store.file {
        Some(file) => Ok(&**file),
        None => Err(Failure::new(Code::Unavailable, "a store in memory has no file to export")),
    }
}

/// Forgets the requests of all tabs but the living ones, whose names of 16 bytes come in.
#[unsafe(no_mangle)]
extern "C" fn store_forget(store: usize, living: usize) -> f64 {
    call(store, &|store, input| {
        requests::forget_all_but(&store.db, parts(input, living).0.as_chunks().0).map_err(written)?;
        Ok(0.0)
    })
}

/// Flushes, closes the file and gives up its lock.
#[unsafe(no_mangle)]
extern "C" fn store_close(store: usize) -> f64 {
    said(shared::remove(store).map_or(Ok(0.0), |store| store.db.clone().close().map(|()| 0.0).map_err(written)))
}

/// Verifies the store in a file that is not open. Answers in JSON.
#[unsafe(no_mangle)]
extern "C" fn verify_file(file: u32) -> f64 {
    said((|| {
        let file = OpfsStorage::of_file(file).map_err(|error| failed(error.into()))?;
        Ok(give(json::verified(&verify_storage(&file).map_err(failed)?)))
    })())
}
