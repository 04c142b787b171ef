//! The wall clock, for timestamps in files. Durations use other clocks.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The same in the form of Kafka's records.
pub fn now_ms() -> i64 {
    now_unix_ms().cast_signed()
}
