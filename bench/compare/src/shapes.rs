//! What the sets with limited memory load: how many times as much as the memory, in values of which length.

use crate::data::KEY_LEN;
use crate::scale::Scale;

/// A set with limited memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The name of the set.
    pub(crate) set: &'static str,
    /// The head of its table.
    pub(crate) title: &'static str,
    /// Keys and values take so many times the memory.
    pub(crate) times: u64,
    /// Bytes of a value.
    pub(crate) value: usize,
}

pub(crate) const SHAPES: [Shape; 4] = [
    Shape { set: "limited-4-150", title: "Four times the memory, values of 150 bytes", times: 4, value: 150 },
    Shape { set: "limited-4-1024", title: "Four times the memory, values of 1 KiB", times: 4, value: 1024 },
    Shape { set: "limited-16-150", title: "Sixteen times the memory, values of 150 bytes", times: 16, value: 150 },
    Shape { set: "limited-16-1024", title: "Sixteen times the memory, values of 1 KiB", times: 16, value: 1024 },
];

impl Shape {
    pub(crate) fn of(set: &str) -> Option<Self> {
        SHAPES.into_iter().find(|shape| shape.set == set)
    }

    pub(crate) fn records(&self, scale: &Scale) -> u64 {
        self.times * scale.memory_limit / (KEY_LEN + self.value) as u64
    }

    /// The name of a row of this set.
    pub(crate) fn row(&self, name: &str) -> String {
        format!("{}_{name}", self.set)
    }
}
