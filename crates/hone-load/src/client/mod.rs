//! Engines that are real clients: they get records, and make the requests themselves.

pub(crate) mod command;
#[cfg_attr(not(feature = "librdkafka"), path = "without_librdkafka.rs")]
pub(crate) mod librdkafka;
mod protocol;

use std::sync::Arc;

use hone_record::{Engine, Recording, Workload};

use crate::engine::End;
use crate::error::LoadError;
use crate::keys::KeySource;
use crate::payload::Values;
use crate::recording;

/// Number of records in turn: more than a codec or a cache remembers, and a sample of the keys' distribution.
const RECORDS: usize = 1 << 16;
/// Memory for all of them; with large records there are fewer.
const MATERIAL_BYTES: usize = 64 << 20;
/// The same for the records of a recording, which have their own order.
const RECORDED_BYTES: usize = 512 << 20;
/// Smallest number of records in a turn.
const LEAST_RECORDS: usize = 64;

/// A record for the client.
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

/// Records made before the window and sent in turn.
pub(crate) fn material(workload: &Workload) -> Result<Arc<[Material]>, LoadError> {
    let mut values = Values::from_workload(workload)?;
    if let Some(lines) = recording::lines(workload)? {
        let mut left = RECORDED_BYTES;
        let has_room = |line: &&recording::Line| {
            let had = left > 0;
            left = left.saturating_sub(line.bytes as usize);
            had
        };
        let of = |line: &recording::Line| Material {
            key: line.key.map(|number| Recording::key(number).into_bytes()),
            value: values.next_of(line.bytes),
        };
        return Ok(lines.iter().take_while(has_room).map(of).collect());
    }
    let mut keys = KeySource::new(&workload.keys, workload.seed);
    let count = (MATERIAL_BYTES / workload.record_bytes.max(1) as usize).clamp(LEAST_RECORDS, RECORDS);
    let record = |_| Material { key: keys.as_mut().map(KeySource::next_key), value: values.next_value() };
    Ok((0..count).map(record).collect())
}

/// The producer of each record, in turn.
pub(crate) fn turns(workload: &Workload) -> Result<Arc<[u32]>, LoadError> {
    let count = workload.connections.max(1);
    Ok(match recording::lines(workload)? {
        Some(lines) => lines.iter().map(|line| line.producer % count).collect(),
        None => (0..count).collect(),
    })
}

/// Checks the settings that only clients have.
pub(crate) fn check(workload: &Workload) -> Result<(), LoadError> {
    if workload.records_per_batch != 1 || workload.partitions_per_request != 1 {
        return Err(LoadError::Setting {
            name: "records_per_batch",
            problem: "must be 1, like partitions_per_request: a scheduled request is one record for the \
                client, whose batches are an output; control them by its settings, for example linger.ms"
                .to_owned(),
        });
    }
    Ok(())
}

/// A backlog below this is not a sign of saturation: the records due in a tenth of a second and in the linger. A client that waits for more
/// records has them at any time.
pub(crate) fn usual_backlog(workload: &Workload) -> u64 {
    let waits_s = 0.1 + linger_s(workload);
    (workload.requests_per_s * waits_s).ceil().max(100.0) as u64
}

/// Names of the linger in milliseconds: Kafka's and librdkafka's, librdkafka's other name, and names that a program may use.
const LINGER: [&str; 3] = ["linger.ms", "queue.buffering.max.ms", "linger_ms"];
/// A longer linger does not justify a backlog.
const LINGER_S_MOST: f64 = 60.0;

/// The linger from the settings, in seconds. A default is milliseconds, and lies within the tenth of a second.
fn linger_s(workload: &Workload) -> f64 {
    let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = &workload.engine else {
        return 0.0;
    };
    let asked = LINGER.iter().filter_map(|name| settings.get(*name)?.trim().parse::<f64>().ok());
    asked.filter(|linger_ms| linger_ms.is_finite()).fold(0.0, f64::max).clamp(0.0, LINGER_S_MOST * 1e3) / 1e3
}

/// If nothing was delivered for this long before the end of a schedule, and records failed instead, the target is gone.
const SILENCE_NS: u64 = 1_000_000_000;

/// Whether records are still delivered. A client keeps trying when a broker is gone, and mere counts would hide that.
#[derive(Debug, Default)]
struct Pulse {
    acked_ns: u64,
    /// Time since then.
    failed: u64,
    last_error: String,
}

impl Pulse {
    fn acked(&mut self, at_ns: u64) {
        self.acked_ns = self.acked_ns.max(at_ns);
        self.failed = 0;
    }

    fn failed(&mut self, error: &str) {
        self.failed += 1;
        if self.last_error != error {
            error.clone_into(&mut self.last_error);
        }
    }

    /// The end of a stretch whose last record was due at this time.
    fn end(&self, last_due_ns: u64) -> End {
        if self.failed == 0 || last_due_ns < self.acked_ns.saturating_add(SILENCE_NS) {
            return End::Complete;
        }
        End::Broken(format!(
            "no record was delivered after {:.1} s; {} records failed from then on, the last by `{}`",
            self.acked_ns as f64 / 1e9,
            self.failed,
            self.last_error
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lingers_is_no_backlog_of_the_target() {
        let with = |settings: &[(&str, &str)]| {
            let mut load = crate::schedule::tests::workload(hone_record::Schedule::Uniform, 2_000.0, 1);
            let settings =
                settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            load.engine = Engine::Librdkafka { settings };
            usual_backlog(&load)
        };
        assert_eq!(with(&[]), 200);
        assert_eq!(with(&[("linger.ms", "500")]), 1_200);
        assert_eq!(with(&[("linger.ms", "much"), ("queue.buffering.max.ms", "1e9")]), 120_200);
    }

    #[test]
    fn long_lines_of_a_file_get_fewer_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values").display().to_string();
        std::fs::write(&path, vec![b'v'; 1 << 20]).unwrap();
        let mut load = crate::schedule::tests::workload(hone_record::Schedule::Uniform, 2_000.0, 1);
        load.payload = hone_record::Payload::File { path, sha256: String::new() };
        crate::payload::pin(&mut load).unwrap();
        let bytes: u64 = material(&load).unwrap().iter().map(Material::bytes).sum();
        assert_eq!(bytes, MATERIAL_BYTES as u64);
    }

    #[test]
    fn a_recording_is_sent_record_by_record_and_producer_by_producer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording").display().to_string();
        std::fs::write(&path, "0 0 - 100\n0.1 5 26 7\n0.2 1 - 30\n").unwrap();
        let mut load = crate::schedule::tests::workload(hone_record::Schedule::Uniform, 2_000.0, 1);
        (load.connections, load.recording) = (4, Some(Recording { path, sha256: String::new() }));
        let made = material(&load).unwrap();
        let sizes: Vec<usize> = made.iter().map(|record| record.value.len()).collect();
        assert_eq!(sizes, [100, 7, 30]);
        assert_eq!((made[0].key.as_deref(), made[1].key.as_deref()), (None, Some(&b"1a"[..])));
        assert_eq!(*turns(&load).unwrap(), [0, 1, 1], "producers beyond those that there are come around");
        load.recording = None;
        assert_eq!(*turns(&load).unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_target_that_has_gone_is_told_from_one_that_comes_back() {
        let mut pulse = Pulse::default();
        pulse.acked(3_400_000_000);
        assert!(matches!(pulse.end(9_000_000_000), End::Complete), "nothing was due in between");
        (0..7).for_each(|_| pulse.failed("timeout"));
        assert!(matches!(pulse.end(4_000_000_000), End::Complete), "too short for a judgement");
        let End::Broken(reason) = pulse.end(5_000_000_000) else { panic!("not reported") };
        assert_eq!(
            reason,
            "no record was delivered after 3.4 s; 7 records failed from then on, the last by `timeout`"
        );
        pulse.acked(4_900_000_000);
        assert!(matches!(pulse.end(9_000_000_000), End::Complete), "deliveries resumed");
    }
}
