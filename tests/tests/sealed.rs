//! Sealed stores under attack. See `pipkin_tests::suite::sealed`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::sealed::{Budget, run};

#[test]
fn no_change_goes_unnoticed_and_no_key_meets_a_nonce_twice() {
    let sessions = env_u64("PIPKIN_SEALED_SESSIONS", 3000);
    let quota = Quota::new("sealed", sessions);
    unwrap("sealed", run(&Budget { sessions, seed: env_u64("PIPKIN_SEED", 1) }, &quota));
    quota.finish("changes and sessions of sealed stores");
}
