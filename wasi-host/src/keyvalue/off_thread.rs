//! Calls that wait for a device, off the thread of the runtime.

use wasmtime::Result;
use wasmtime_wasi::runtime::spawn_blocking;

/// The future that a function of the host returns.
pub(super) type Later<'a, A> = Box<dyn Future<Output = Result<A>> + Send + 'a>;

/// Runs `work`: in a blocking thread if it `waits`, else in this one. Dropping the future does not stop work that has begun.
pub(super) async fn off_thread<A: Send + 'static>(waits: bool, work: impl FnOnce() -> A + Send + 'static) -> A {
    if waits { spawn_blocking(work).await } else { work() }
}
