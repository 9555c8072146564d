//! Calls that wait for a device, off the thread of the runtime.

use wasmtime::Result;
use wasmtime_wasi::runtime::spawn_blocking;

/// What a function of the host is until it has an answer.
pub(super) type Later<'a, A> = Box<dyn Future<Output = Result<A>> + Send + 'a>;

/// Does `work`; in a thread that may wait if it `waits`, and here if not. A call that is given up does not stop the work.
pub(super) async fn off_thread<A: Send + 'static>(waits: bool, work: impl FnOnce() -> A + Send + 'static) -> A {
    if waits { spawn_blocking(work).await } else { work() }
}
