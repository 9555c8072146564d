//! What lies between two calls from JavaScript: the open stores, and bytes on their way in and out.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::Db;
use pipkin::storage::CachedStorage;

use crate::OpfsStorage;
use crate::failure::{Code, Failure};
use crate::hold::Hold;
use crate::order::Order;
use crate::room::Room;

/// One open store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) db: Db,
    pub(crate) order: Order,
    pub(crate) room: Room,
    /// While somebody takes a copy.
    pub(crate) hold: RefCell<Option<Hold>>,
    /// What the store is in, unless that is memory.
    pub(crate) file: Option<Arc<CachedStorage<OpfsStorage>>>,
}

impl Store {
    /// The next reads see the file, not what is in memory of it.
    pub(crate) fn look_at_the_file(&self) {
        self.file.iter().for_each(|file| file.forget());
    }
}

/// Larger buffers are given back when they have served.
const KEPT_MAX: usize = 64 * 1024;
/// What a call came to: a number, or how long the answer is.
pub(crate) type Said = Result<f64, Failure>;

/// There is nothing to answer with.
pub(crate) const NONE: f64 = -1.0;

#[derive(Debug)]
struct Shared {
    /// By number; a closed one leaves its place empty.
    stores: Vec<Option<Rc<Store>>>,
    input: Vec<u8>,
    answer: Vec<u8>,
}

/// What belongs to the only thread that there is.
pub(crate) struct OfOneThread<T>(pub(crate) T);

// SAFETY: without atomics, which `storage` insists on, a module has one thread; another worker has a module and a memory of its own.
unsafe impl<T> Sync for OfOneThread<T> {}

static SHARED: OfOneThread<RefCell<Shared>> =
    OfOneThread(RefCell::new(Shared { stores: Vec::new(), input: Vec::new(), answer: Vec::new() }));

/// Makes room for what JavaScript hands to the next call.
pub(crate) fn room(len: usize) -> *mut u8 {
    let shared = &mut *SHARED.0.borrow_mut();
    if shared.answer.capacity() > KEPT_MAX {
        shared.answer = Vec::new();
    }
    if shared.input.len() < len || shared.input.capacity() > KEPT_MAX {
        shared.input = alloc::vec![0; len.max(1024)];
    }
    shared.input.as_mut_ptr()
}

/// Where the last answer stands.
pub(crate) fn answer() -> *const u8 {
    SHARED.0.borrow().answer.as_ptr()
}

/// Keeps an answer until the next call, and says how long it is.
pub(crate) fn give(answer: impl Into<Vec<u8>>) -> f64 {
    let answer = answer.into();
    let len = answer.len() as f64;
    SHARED.0.borrow_mut().answer = answer;
    len
}

/// The random bits that stand in the room.
pub(crate) fn random() -> [u8; 32] {
    SHARED.0.borrow().input.first_chunk().copied().unwrap_or_default()
}

/// Takes a store in and returns its number.
pub(crate) fn insert(db: Db, file: Option<Arc<CachedStorage<OpfsStorage>>>) -> f64 {
    let stores = &mut SHARED.0.borrow_mut().stores;
    stores.push(Some(Rc::new(Store { db, order: Order::default(), room: Room::default(), hold: RefCell::default(), file })));
    (stores.len() - 1) as f64
}

/// Takes a store out again.
pub(crate) fn remove(store: usize) -> Option<Rc<Store>> {
    SHARED.0.borrow_mut().stores.get_mut(store)?.take()
}

/// Works on an open store and what stands in the room in front of it. A failure is less than [`NONE`] by the length of what is
/// said about it: its code, and its words.
pub(crate) fn call(store: usize, work: &dyn Fn(&Store, &[u8]) -> Said) -> f64 {
    let (store, input) = {
        let shared = &mut *SHARED.0.borrow_mut();
        (shared.stores.get(store).and_then(Clone::clone), core::mem::take(&mut shared.input))
    };
    let result = match store {
        Some(store) => {
            if let Some(file) = &store.file {
                // SAFETY: there is one thread, which is here and not in the engine; what earlier calls have answered are copies.
                unsafe { file.end_call() };
            }
            work(&store, &input)
        }
        None => Err(Failure::new(Code::Closed, "the store has been closed; open it again")),
    };
    SHARED.0.borrow_mut().input = input;
    said(result)
}

/// The same without a store.
pub(crate) fn said(result: Said) -> f64 {
    result.unwrap_or_else(|failure| {
        let mut words = failure.message.into_bytes();
        words.insert(0, failure.code as u8);
        NONE - give(words)
    })
}
