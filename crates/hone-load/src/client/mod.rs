//! Engines that are real clients: they get records, and make the requests themselves.

pub(crate) mod command;
pub(crate) mod librdkafka;
mod protocol;
mod settings;
mod statistics;

use std::sync::Arc;

use hone_record::Workload;

use crate::LoadError;
use crate::keys::KeySource;
use crate::payload::Values;

/// Records in turn; more of them than a codec or a cache remembers, and a sample of the keys' distribution.
const RECORDS: usize = 1 << 16;
/// Memory for all of them; large records get fewer.
const MATERIAL_BYTES: usize = 64 << 20;
/// The fewest that make a turn.
const LEAST_RECORDS: usize = 64;

/// A record to hand over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Material {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
}

impl Material {
    /// Bytes of key and value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.as_ref().map_or(0, Vec::len) + self.value.len()) as u64
    }
}

/// Records made before the window, which are handed over in turn.
pub(crate) fn material(workload: &Workload) -> Result<Arc<[Material]>, LoadError> {
    let mut values = Values::of(workload)?;
    let mut keys = KeySource::new(&workload.keys, workload.seed);
    let count = (MATERIAL_BYTES / workload.record_bytes.max(1) as usize).clamp(LEAST_RECORDS, RECORDS);
    let record = |_| Material { key: keys.as_mut().map(KeySource::next_key), value: values.next_value() };
    Ok((0..count).map(record).collect())
}

/// Checks what is particular to clients.
pub(crate) fn check(workload: &Workload) -> Result<(), LoadError> {
    if workload.records_per_batch != 1 || workload.partitions_per_request != 1 {
        return Err(LoadError::Setting {
            name: "records_per_batch",
            problem: "must be 1, as must partitions_per_request: a request of the schedule is one record handed to \
                      the client, whose batches are an output; shape them by its settings, for example linger.ms"
                .to_owned(),
        });
    }
    Ok(())
}

/// A backlog below this is no sign of saturation: what is due in a tenth of a second, because a client that waits for more
/// records has some of them at any time.
pub(crate) fn usual_backlog(workload: &Workload) -> u64 {
    (workload.requests_per_s / 10.0).ceil().max(100.0) as u64
}
