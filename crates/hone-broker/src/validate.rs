//! What a batch must be before it is stored: judged from its header, and from its records where a topic asks for that.
//!
//! Pure: batch, rules and time come in, a refusal comes out. A refusal of single records names each of them with its
//! reason, as Kafka does; the whole batch is refused then.

use hone_kafka::batch::TimestampType;
use hone_kafka::{BatchHeader, Codec, Record, records};

use crate::code;
use crate::schema::Schema;

/// Complaints sent back for one batch.
const MOST_RECORD_ERRORS: usize = 20;
/// A record without a time.
const NO_TIMESTAMP: i64 = -1;
/// First version of Produce whose clients know zstd; a batch from an older one is one that its consumers can't read.
const ZSTD_FROM_VERSION: i16 = 7;

/// What a topic asks of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// `message.timestamp.type=LogAppendTime`: the broker's time replaces the producer's.
    pub(crate) log_append_time: bool,
    /// `message.timestamp.before.max.ms`
    pub(crate) before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub(crate) after_max_ms: i64,
    /// Whether the topic is compacted. A record without a key can't be compacted.
    pub(crate) keys_required: bool,
}

impl Default for Rules {
    /// Those of Kafka 4.
    fn default() -> Self {
        Self {
            log_append_time: false,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            keys_required: false,
        }
    }
}

impl Rules {
    /// Whether the broker must decompress records to check them. The header has their largest timestamp.
    pub(crate) fn look_inside(&self) -> bool {
        self.keys_required || !self.log_append_time && self.before_max_ms != i64::MAX
    }

    fn judge_time(&self, time: i64, now_ms: i64) -> Result<(), String> {
        if self.log_append_time || time == NO_TIMESTAMP {
            return Ok(());
        }
        if time < now_ms.saturating_sub(self.before_max_ms) {
            let most = self.before_max_ms;
            return Err(format!(
                "its timestamp {time} is earlier than message.timestamp.before.max.ms={most} allows"
            ));
        }
        if time > now_ms.saturating_add(self.after_max_ms) {
            let most = self.after_max_ms;
            return Err(format!(
                "its timestamp {time} is later than message.timestamp.after.max.ms={most} allows"
            ));
        }
        Ok(())
    }
}

/// Why a batch is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: i16,
    pub(crate) message: String,
    /// Numbers of records in the batch, each with what is wrong with it.
    pub(crate) records: Vec<(i32, String)>,
}

impl Refusal {
    fn batch(error: i16, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { error, message: message.into(), records: Vec::new() })
    }
}

/// Judges a header whose checksum is right. `version` is that of Produce.
pub(crate) fn header(
    header: &BatchHeader,
    rules: &Rules,
    version: i16,
    now_ms: i64,
) -> Result<(), Box<Refusal>> {
    let invalid = |message: &str| Err(Refusal::batch(code::INVALID_RECORD, message));
    if header.record_count < 1 || header.last_offset_delta != header.record_count - 1 {
        return invalid("record count and last offset delta of the batch disagree");
    }
    if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
        return invalid("a producer id without epoch and sequence");
    }
    if header.codec() == Codec::Zstd && version < ZSTD_FROM_VERSION {
        let message = format!(
            "zstd in Produce version {version}; zstd needs version {ZSTD_FROM_VERSION}, so use a \
                     newer client"
        );
        return Err(Refusal::batch(code::UNSUPPORTED_COMPRESSION_TYPE, message));
    }
    if header.timestamp_type() == TimestampType::LogAppend {
        let message = "the batch has the timestamp type LogAppendTime, which only the broker may set";
        return Err(Refusal::batch(code::INVALID_TIMESTAMP, message));
    }
    // The header's largest timestamp can only be too late. Only the records show whether one is too early.
    let latest = Rules { before_max_ms: i64::MAX, ..*rules };
    latest.judge_time(header.max_timestamp, now_ms).map_err(|complaint| {
        Refusal::batch(code::INVALID_TIMESTAMP, format!("the latest record: {complaint}"))
    })
}

/// Checks decompressed records.
pub(crate) fn unpacked(
    plain: &[u8],
    header: &BatchHeader,
    rules: &Rules,
    schema: Option<&Schema>,
    now_ms: i64,
) -> Result<(), Box<Refusal>> {
    let mut complaints: Vec<(i32, i16, String)> = Vec::new();
    for (index, record) in (0..).zip(records(plain, header.record_count)) {
        let record = record.map_err(|error| Refusal::batch(code::INVALID_RECORD, error.to_string()))?;
        if record.offset_delta != index {
            let message = format!("record {index} has offset delta {}", record.offset_delta);
            return Err(Refusal::batch(code::INVALID_RECORD, message));
        }
        if complaints.len() < MOST_RECORD_ERRORS
            && let Err((error, complaint)) = judge(&record, header, rules, schema, now_ms)
        {
            complaints.push((index, error, complaint));
        }
    }
    let Some((index, _, first)) = complaints.first() else { return Ok(()) };
    let untimely = complaints.iter().find(|(_, error, _)| *error == code::INVALID_TIMESTAMP);
    Err(Box::new(Refusal {
        error: untimely.map_or(code::INVALID_RECORD, |(_, error, _)| *error),
        message: format!("record {index} {first}"),
        records: complaints.into_iter().map(|(index, _, complaint)| (index, complaint)).collect(),
    }))
}

fn judge(
    record: &Record<'_>,
    header: &BatchHeader,
    rules: &Rules,
    schema: Option<&Schema>,
    now_ms: i64,
) -> Result<(), (i16, String)> {
    if rules.keys_required && record.key.is_none() {
        return Err((code::INVALID_RECORD, "has no key, but a compacted topic requires one".to_owned()));
    }
    let time = header.base_timestamp.saturating_add(record.timestamp_delta);
    rules
        .judge_time(time, now_ms)
        .map_err(|complaint| (code::INVALID_TIMESTAMP, format!("has an invalid timestamp: {complaint}")))?;
    let Some(schema) = schema else { return Ok(()) };
    let broken = |complaint| (code::INVALID_RECORD, format!("breaks hone.value.schema: {complaint}"));
    schema.check(record.value).map_err(broken)
}

#[cfg(test)]
mod tests {
    use hone_kafka::{BatchBuilder, batch};

    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn built(rows: &[(Option<&str>, &str, i64)]) -> (BatchHeader, Vec<u8>) {
        let mut builder = BatchBuilder::new(Codec::None);
        for (key, value, time) in rows {
            builder.push(key.map(str::as_bytes), Some(value.as_bytes()), *time);
        }
        let bytes = builder.build().unwrap();
        (BatchHeader::parse(&bytes).unwrap(), bytes)
    }

    fn judged(
        rows: &[(Option<&str>, &str, i64)],
        rules: &Rules,
        schema: Option<&Schema>,
    ) -> Result<(), Box<Refusal>> {
        let (header, bytes) = built(rows);
        unpacked(&bytes[batch::HEADER_BYTES..], &header, rules, schema, NOW_MS)
    }

    #[test]
    fn the_default_rules_take_old_records_and_refuse_those_of_the_future() {
        let rules = Rules::default();
        assert!(!rules.look_inside());
        for (time, good) in [
            (0, true),
            (-1, true),
            (NOW_MS + 3_600_000, true),
            (NOW_MS + 3_600_001, false),
            (i64::MAX, false),
        ] {
            let rows = [(None, "v", time)];
            assert_eq!(judged(&rows, &rules, None).is_ok(), good, "{time}");
            let by_header = header(&built(&rows).0, &rules, 9, NOW_MS);
            assert_eq!(by_header.is_ok(), good, "{time}");
            assert_eq!(by_header.err().map_or(32, |refusal| refusal.error), 32);
        }
        let appended = Rules { log_append_time: true, ..rules };
        assert!(header(&built(&[(None, "v", i64::MAX)]).0, &appended, 9, NOW_MS).is_ok());
    }

    #[test]
    fn every_untimely_record_is_named() {
        let rules = Rules { before_max_ms: 1_000, after_max_ms: 0, ..Rules::default() };
        assert!(rules.look_inside());
        let rows = [
            (None, "a", NOW_MS),
            (None, "b", NOW_MS - 1_001),
            (None, "c", NOW_MS - 1_000),
            (None, "d", NOW_MS + 1),
        ];
        let refusal = judged(&rows, &rules, None).unwrap_err();
        assert_eq!(refusal.error, code::INVALID_TIMESTAMP);
        assert_eq!(refusal.records.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
        assert!(refusal.records[0].1.contains("message.timestamp.before.max.ms=1000"), "{refusal:?}");
        assert!(refusal.records[1].1.contains("message.timestamp.after.max.ms=0"), "{refusal:?}");
    }

    #[test]
    fn a_compacted_topic_wants_keys() {
        let rules = Rules { keys_required: true, ..Rules::default() };
        assert!(rules.look_inside());
        let rows = [(Some("k"), "a", NOW_MS), (None, "b", NOW_MS), (Some(""), "c", NOW_MS)];
        let refusal = judged(&rows, &rules, None).unwrap_err();
        assert_eq!(
            (refusal.error, refusal.records.len(), refusal.records[0].0),
            (code::INVALID_RECORD, 1, 1)
        );
        assert!(refusal.message.starts_with("record 1 has no key"), "{refusal:?}");
        assert_eq!(judged(&rows, &Rules::default(), None), Ok(()));
    }

    #[test]
    fn complaints_about_values_are_bounded_and_the_frame_is_still_checked() {
        let schema = Schema::compile(r#"{"type": "integer"}"#).unwrap();
        let rows: Vec<_> = (0..50).map(|_| (None, "no", NOW_MS)).collect();
        let refusal = judged(&rows, &Rules::default(), Some(&schema)).unwrap_err();
        assert_eq!((refusal.error, refusal.records.len()), (code::INVALID_RECORD, MOST_RECORD_ERRORS));
        assert!(refusal.message.starts_with("record 0 breaks hone.value.schema: "), "{refusal:?}");
        let (mut header, bytes) = built(&[(None, "1", NOW_MS), (None, "2", NOW_MS)]);
        header.record_count = 1;
        let refusal =
            unpacked(&bytes[batch::HEADER_BYTES..], &header, &Rules::default(), Some(&schema), NOW_MS)
                .unwrap_err();
        assert!(refusal.message.contains("after the last"), "{refusal:?}");
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        let rules = Rules::default();
        let good = built(&[(None, "a", NOW_MS)]).0;
        let check = |change: &dyn Fn(&mut BatchHeader), version| {
            let mut changed = good;
            change(&mut changed);
            header(&changed, &rules, version, NOW_MS).err().map_or(0, |refusal| refusal.error)
        };
        assert_eq!(check(&|_| (), 0), 0);
        assert_eq!(check(&|header| header.record_count = 0, 9), code::INVALID_RECORD);
        assert_eq!(check(&|header| header.last_offset_delta = 1, 9), code::INVALID_RECORD);
        assert_eq!(check(&|header| header.producer_id = 5, 9), code::INVALID_RECORD);
        assert_eq!(check(&|header| header.attributes = 4, 6), code::UNSUPPORTED_COMPRESSION_TYPE);
        assert_eq!(check(&|header| header.attributes = 4, 7), 0);
        assert_eq!(check(&|header| header.attributes = 8, 9), code::INVALID_TIMESTAMP);
    }
}
