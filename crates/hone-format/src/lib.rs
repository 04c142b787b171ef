//! Numbers as people read and write them: one printer and one parser for each kind of quantity. Also errors about the files and words that
//! people write.
//!
//! A *measured* value has three significant digits, so that no page shows more digits than the measurement supports. A *setting* is printed
//! as it was given. The text holds ordinary spaces; an HTML writer replaces them by no-break spaces.

mod file_error;
mod read;
mod spelling;
mod write;

pub use file_error::{FileError, in_plain_words};
pub use read::{
    read_bytes, read_duration_s, read_number, read_rate, read_seconds, read_share, read_throughput,
};
pub use spelling::{did_you_mean, nearest};
pub use write::{
    NONE, TimeUnit, acks, bytes, change, change_interval, change_points, change_size, count, counted,
    date_utc, duration, exact, exact_bytes, exact_change, exact_percent, interval, measured, of_unit,
    percent, rate, ratio, short, throughput, time_us,
};
