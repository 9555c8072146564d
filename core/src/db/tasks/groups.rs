//! Streams that fetch their items in groups: one group at a time, in a thread of the pool, when they are polled and have none left.

use super::handle::AsyncNamespace;
use super::pool::{CALLS, Work};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Fetches a group, and returns what the next one is fetched from; `None` at the end.
type Fetch<S, T> = fn(S) -> (Option<S>, Vec<T>);

pub(super) struct Groups<S, T> {
    /// What the next group is fetched from.
    rest: Option<S>,
    ready: VecDeque<T>,
    running: Option<Work<(Option<S>, Vec<T>)>>,
    fetch: Fetch<S, T>,
    // Last: it keeps the store open.
    home: AsyncNamespace,
}

impl<S: Send + 'static, T: Send + 'static> Groups<S, T> {
    pub(super) fn new(home: &AsyncNamespace, rest: S, fetch: Fetch<S, T>) -> Self {
        Self { rest: Some(rest), ready: VecDeque::new(), running: None, fetch, home: home.clone() }
    }

    /// The next item. Nothing is fetched unless this is called, and never more than one group ahead of it.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            if let Some(mut running) = self.running.take() {
                match Pin::new(&mut running).poll(cx) {
                    Poll::Ready((rest, group)) => (self.rest, self.ready) = (rest, group.into()),
                    Poll::Pending => {
                        self.running = Some(running);
                        return Poll::Pending;
                    }
                }
                continue;
            }
            let Some(rest) = self.rest.take() else { return Poll::Ready(None) };
            let fetch = self.fetch;
            self.running = Some(if self.home.must_stay() { Work::done(fetch(rest)) } else { CALLS.run(move || fetch(rest)) });
        }
    }
}
