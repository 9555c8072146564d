//! Plays operations on a store and on the model, and compares every answer.

mod compare;
mod fault;
mod host;
mod player;
pub mod space;

pub use compare::{check_gets, check_state, differences, dump};
pub use fault::Fault;
pub use host::{DiskHost, Host, Setup};
pub use player::Player;
