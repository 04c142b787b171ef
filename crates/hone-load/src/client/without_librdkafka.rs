//! In place of librdkafka where a build leaves out its C library.

use std::collections::BTreeMap;

use hone_record::Workload;

use crate::error::LoadError;
use crate::sender::Sender;
use crate::settings::Settings;

/// Refuses the engine before anything is asked of a broker.
pub(crate) fn check(_: &Workload, _: &BTreeMap<String, String>) -> Result<(), LoadError> {
    Err(left_out())
}

/// As [`check`].
pub(crate) fn sender(
    _: &Settings,
    _: &Workload,
    _: &BTreeMap<String, String>,
    _: &str,
) -> Result<Box<dyn Sender>, LoadError> {
    Err(left_out())
}

fn left_out() -> LoadError {
    LoadError::Setting {
        name: "engine",
        problem: "is librdkafka, which this build of Hone leaves out\n  next: build it with `cargo build --release -p hone`, without \
                  --no-default-features"
            .to_owned(),
    }
}
