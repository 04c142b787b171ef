//! The wall clock, for what is written down; lengths are measured by other clocks.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The same as Kafka's records have it.
pub fn now_ms() -> i64 {
    now_unix_ms().cast_signed()
}
