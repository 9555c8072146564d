//! Transactions beside each other, other writes, clears and compaction.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::serializable::{Budget, Counts, run};

/// Transactions of the normal run; the nightly one has 100,000.
const TRANSACTIONS: u64 = 3_000;
/// Tries of each thread in a history. At least a third of them are committed.
const TRIES: u64 = 150;
/// Transactions in a history, at least.
const IN_HISTORY: u64 = 4 * TRIES / 3;

#[test]
fn the_order_of_the_positions_explains_what_every_transaction_has_read() {
    let transactions = env_u64("PIPKIN_TRANSACTIONS", TRANSACTIONS);
    let histories = transactions.div_ceil(IN_HISTORY);
    let counts = Counts::new(transactions, if histories < 4 { 0 } else { histories });
    let budget = Budget { histories, tries: TRIES, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("serializable", run(&budget, &counts));
    counts.conflicts.iter().for_each(|quota| quota.finish("counted"));
    counts.transactions.finish(format_args!("{histories} histories, seeds from {}", budget.seed));
}
