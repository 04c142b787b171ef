//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes and panics when the broker breaks a guarantee.
//! They are compiled for the feature `fuzzing` and for the unit tests, which feed them the corpora.
//!
//! Everything runs on the calling thread and begins with a fresh state, so an input that fails once always fails.

mod batch;
mod compaction;
mod connection;
mod cursor;
mod journal;
mod recovery;
mod requests;
mod scram;
mod world;

#[cfg(test)]
mod replay;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod seeds;

pub use batch::batch;
pub use compaction::compaction;
pub use connection::connection;
pub use journal::journal;
pub use recovery::recovery;
pub use requests::requests;
pub use scram::scram;

/// A target: bytes in, a panic when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 7] = [
    ("requests", requests),
    ("connection", connection),
    ("recovery", recovery),
    ("journal", journal),
    ("scram", scram),
    ("batch", batch),
    ("compaction", compaction),
];

/// A folder for one input, in memory where the system has a place for that: fsyncs there cost nothing.
fn folder() -> tempfile::TempDir {
    let shared = std::path::Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("hone-fuzz-").tempdir_in(place).expect("a folder for the input")
}
