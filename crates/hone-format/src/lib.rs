//! Numbers as people read and write them: one printer and one parser for each kind of quantity.
//!
//! A *measured* value has three significant digits, so that no page shows more digits than the measurement supports. A *setting* is printed
//! as it was given. The text holds ordinary spaces; an HTML writer replaces them by no-break spaces.

mod read;
mod write;

pub use read::{
    read_bytes, read_duration_s, read_number, read_rate, read_seconds, read_share, read_throughput,
};
pub use write::{
    NONE, TimeUnit, acks, bytes, change, change_interval, change_points, change_size, count, counted,
    date_utc, duration, exact, exact_bytes, exact_percent, interval, measured, of_unit, percent, rate, ratio,
    short, throughput, time_us,
};
