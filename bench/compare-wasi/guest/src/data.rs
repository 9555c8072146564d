//! Keys and values, made before the clock starts. The host makes the same keys.

include!("../../src/data.rs");
