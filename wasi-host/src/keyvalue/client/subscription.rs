//! A guest's handle to a subscription to events, and its operations.

use super::wit::pipkin::kv::events::Page;
use super::wit::pipkin::kv::types::Error;
use super::{ClientDb, ClientTransaction};
use crate::keyvalue::context::Kept;
use crate::keyvalue::quota::Admitted;
use pipkin::Subscription;
use pipkin_wasi_shared::Following;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A guest's subscription to events, in the resource table of the embedder. Clones are the same one.
#[derive(Clone)]
pub struct ClientSubscription {
    following: Arc<Mutex<Following>>,
    store: ClientDb,
    _kept: Arc<Kept>,
}

impl ClientSubscription {
    pub(super) fn new(subscription: Subscription, store: ClientDb, kept: Kept) -> Self {
        Self { following: Arc::new(Mutex::new(Following::new(subscription))), store, _kept: Arc::new(kept) }
    }

    fn following(&self) -> MutexGuard<'_, Following> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn page(&self, max_events: u32, max_bytes: u32) -> Result<Page, Error> {
        let _in = self.store.engine.call()?;
        Ok(self.following().page(max_events, max_bytes, || Ok::<(), Error>(()))?.into())
    }

    pub(super) fn number(&self) -> u64 {
        self.following().number()
    }

    /// Whether an acknowledgement waits for the device.
    pub(super) fn waits(&self) -> bool {
        self.store.waits()
    }

    pub(super) fn ack(&self, number: u64) -> Result<(), Error> {
        let ack = || {
            let following = self.following();
            following.check(number)?;
            following.subscription().ack(number)
        };
        self.store.write_events(|_| Ok(Admitted::none()), ack)
    }

    pub(super) fn ack_in(&self, transaction: &mut ClientTransaction, number: u64) -> Result<(), Error> {
        let following = self.following();
        following.check(number)?;
        transaction.ack(following.subscription(), number)
    }
}
