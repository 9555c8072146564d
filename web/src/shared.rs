//! What lies between two calls from JavaScript: an open store, and the bytes of calls of numbers on their way in and out.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::Db;
use pipkin::storage::CachedStorage;

use crate::failure::Failure;
use crate::hold::Hold;
use crate::one_thread::OfOneThread;
use crate::order::Order;
use crate::room::Room;
use crate::storage::OpfsStorage;

/// One open store.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) db: Db,
    pub(crate) order: Order,
    pub(crate) room: Room,
    /// While somebody takes a copy.
    pub(crate) hold: RefCell<Option<Hold>>,
    /// What the store is in, unless that is memory.
    pub(crate) file: Option<Arc<CachedStorage<OpfsStorage>>>,
}

impl Open {
    pub(crate) fn new(db: Db, file: Option<Arc<CachedStorage<OpfsStorage>>>) -> Self {
        Self { db, order: Order::default(), room: Room::default(), hold: RefCell::default(), file }
    }

    /// To be called before anything else of a call.
    pub(crate) fn begin_call(&self) {
        if let Some(file) = &self.file {
            // SAFETY: there is one thread, which is here and not in the engine; what earlier calls have answered are copies.
            unsafe { file.end_call() };
        }
    }

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
/// The call has failed, and [`failure`] says how.
const FAILED: f64 = -2.0;

#[derive(Debug)]
struct Shared {
    input: Vec<u8>,
    answer: Vec<u8>,
    failure: Option<Failure>,
}

static SHARED: OfOneThread<RefCell<Shared>> =
    OfOneThread(RefCell::new(Shared { input: Vec::new(), answer: Vec::new(), failure: None }));

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
pub(crate) fn give(answer: Vec<u8>) -> f64 {
    let len = answer.len() as f64;
    SHARED.0.borrow_mut().answer = answer;
    len
}

/// Works on what stands in the room in front of it.
pub(crate) fn call(work: &dyn Fn(&[u8]) -> Said) -> f64 {
    let input = core::mem::take(&mut SHARED.0.borrow_mut().input);
    let result = work(&input);
    let shared = &mut *SHARED.0.borrow_mut();
    shared.input = input;
    result.unwrap_or_else(|failure| {
        shared.failure = Some(failure);
        FAILED
    })
}

/// How the last call failed.
pub(crate) fn failure() -> Option<Failure> {
    SHARED.0.borrow_mut().failure.take()
}
