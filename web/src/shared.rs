//! State that is kept between two calls from JavaScript: an open store, and the input and output bytes of calls.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::Db;
use pipkin::storage::CachedStorage;

use crate::failure::Failure;
use crate::followers::Followers;
use crate::held::AllHeld;
use crate::hold::Hold;
use crate::one_thread::OfOneThread;
use crate::order::Order;
use crate::room::Room;
use crate::storage::OpfsStorage;
use crate::transactions::Transactions;

/// An open store with what the worker keeps beside it.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) db: Db,
    pub(crate) order: Order,
    pub(crate) room: Room,
    /// Snapshots of tabs.
    pub(crate) held: AllHeld,
    /// Transactions of tabs.
    pub(crate) transactions: Transactions,
    /// Readers of changes of tabs.
    pub(crate) followers: Followers,
    /// Walks over events of tabs.
    #[cfg(feature = "full")]
    pub(crate) walks: crate::walks::Walks,
    /// Set while an export is read from the file.
    pub(crate) hold: RefCell<Option<Hold>>,
    /// The file of the store; `None` for a store in memory.
    pub(crate) file: Option<Arc<CachedStorage<OpfsStorage>>>,
}

impl Open {
    pub(crate) fn new(db: Db, file: Option<Arc<CachedStorage<OpfsStorage>>>) -> Self {
        Self {
            db,
            order: Order::default(),
            room: Room::default(),
            held: AllHeld::default(),
            transactions: Transactions::default(),
            followers: Followers::default(),
            #[cfg(feature = "full")]
            walks: crate::walks::Walks::default(),
            hold: RefCell::default(),
            file,
        }
    }

    /// Releases the cached blocks that the last call may have viewed. Every call must begin with this.
    pub(crate) fn begin_call(&self) {
        if let Some(file) = &self.file {
            // SAFETY: there is one thread, and it is not in the engine now; what earlier calls have returned are copies.
            unsafe { file.end_call() };
        }
    }

    /// Forgets cached blocks, so that the next reads come from the file.
    pub(crate) fn look_at_the_file(&self) {
        self.file.iter().for_each(|file| file.forget());
    }
}

/// Buffers with more bytes than this are freed after use.
const KEPT_MAX: usize = 64 * 1024;
/// The result of a call: a number, or the length of the answer.
pub(crate) type Said = Result<f64, Failure>;

/// The result of a call that found no value.
pub(crate) const NONE: f64 = -1.0;
/// The result of a call that has failed; [`failure`] has the error.
const FAILED: f64 = -2.0;

#[derive(Debug)]
struct Shared {
    input: Vec<u8>,
    answer: Vec<u8>,
    failure: Option<Failure>,
}

static SHARED: OfOneThread<RefCell<Shared>> =
    OfOneThread(RefCell::new(Shared { input: Vec::new(), answer: Vec::new(), failure: None }));

/// Makes room for `len` bytes that JavaScript passes to the next call, and frees a large answer.
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

/// The address of the last answer.
pub(crate) fn answer() -> *const u8 {
    SHARED.0.borrow().answer.as_ptr()
}

/// Keeps an answer for JavaScript to read, and returns its length.
pub(crate) fn give(answer: Vec<u8>) -> f64 {
    let len = answer.len() as f64;
    SHARED.0.borrow_mut().answer = answer;
    len
}

/// Runs `work` on the input bytes. An error is kept for [`failure`].
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

/// Takes the error of the last failed call.
pub(crate) fn failure() -> Option<Failure> {
    SHARED.0.borrow_mut().failure.take()
}
