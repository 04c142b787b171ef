//! Replaces librdkafka in a build without its C library.

use std::collections::BTreeMap;

use hone_record::Workload;

use crate::error::LoadError;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::topic_set::TopicSet;

/// Rejects the engine before any request to a broker.
pub(crate) fn check(_: &Workload, _: &BTreeMap<String, String>) -> Result<(), LoadError> {
    Err(left_out())
}

/// Does the same as [`check`].
pub(crate) fn sender(
    _: &Settings,
    _: &Workload,
    _: &BTreeMap<String, String>,
    _: &TopicSet,
) -> Result<Box<dyn Sender>, LoadError> {
    Err(left_out())
}

fn left_out() -> LoadError {
    LoadError::Setting {
        name: "engine",
        problem: "is librdkafka, which this build of Hone does not include\n  next: build it with `cargo \
            build --release -p hone`, without --no-default-features"
            .to_owned(),
    }
}
