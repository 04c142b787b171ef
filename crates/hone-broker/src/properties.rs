//! The properties of a topic, fixed when it is made.

use std::collections::BTreeMap;

use hone_kafka::Codec;

use crate::schema::Schema;
use crate::validate::Rules;

/// Kafka's default for `max.message.bytes`.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 1_048_588;
/// A compromise between open files and what a start has to scan at a time.
const DEFAULT_SEGMENT_BYTES: u64 = 128 << 20;
/// Below this a segment holds hardly more than one batch.
const LEAST_SEGMENT_BYTES: u64 = 1 << 12;

const COMPRESSION: &str = "compression.type";
const SCHEMA: &str = "hone.value.schema";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
const TIMESTAMP_BEFORE: &str = "message.timestamp.before.max.ms";
const TIMESTAMP_AFTER: &str = "message.timestamp.after.max.ms";
const MAX_MESSAGE: &str = "max.message.bytes";
const CREATE_TIME: &str = "CreateTime";
const SEGMENT: &str = "segment.bytes";
/// Properties whose only accepted value says what this broker does anyway: it keeps everything.
const FIXED: [(&str, &str); 3] =
    [("cleanup.policy", "delete"), ("retention.bytes", "-1"), ("retention.ms", "-1")];

/// What a topic asks of the broker.
pub(crate) struct Properties {
    /// `None` keeps the producer's codec.
    pub(crate) compression: Option<Codec>,
    /// Checks every record value.
    pub(crate) schema: Option<Schema>,
    /// What every record must be.
    pub(crate) records: Rules,
    /// Largest batch, as stored by the producer.
    pub(crate) max_message_bytes: usize,
    /// Size at which a segment is closed and the next one begun.
    pub(crate) segment_bytes: u64,
    /// As they were given.
    pub(crate) given: BTreeMap<String, String>,
}

impl Properties {
    /// Checks the given properties. The error names the property and what it may be.
    pub(crate) fn parse(given: BTreeMap<String, String>) -> Result<Self, String> {
        let mut properties = Self {
            compression: None,
            schema: None,
            records: Rules::default(),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            given: BTreeMap::new(),
        };
        for (name, value) in &given {
            properties.set(name, value)?;
        }
        properties.given = given;
        Ok(properties)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            COMPRESSION => self.compression = compression(value)?,
            SCHEMA => {
                self.schema = Some(Schema::compile(value).map_err(|error| format!("{SCHEMA}: {error}"))?);
            }
            TIMESTAMP_TYPE => self.records.log_append_time = is_log_append_time(value)?,
            TIMESTAMP_BEFORE => self.records.before_max_ms = milliseconds(name, value)?,
            TIMESTAMP_AFTER => self.records.after_max_ms = milliseconds(name, value)?,
            MAX_MESSAGE => self.max_message_bytes = number(name, value, 0)? as usize,
            SEGMENT => self.segment_bytes = number(name, value, LEAST_SEGMENT_BYTES)?,
            _ => return fixed(name, value),
        }
        Ok(())
    }

    /// Name, value and whether it was given, for every property that has a value.
    pub(crate) fn describe(&self) -> Vec<(String, String, bool)> {
        let mut rows: BTreeMap<String, (String, bool)> = BTreeMap::new();
        for (name, value) in FIXED {
            rows.insert(name.to_owned(), (value.to_owned(), false));
        }
        rows.insert(COMPRESSION.to_owned(), ("producer".to_owned(), false));
        rows.insert(MAX_MESSAGE.to_owned(), (self.max_message_bytes.to_string(), false));
        rows.insert(TIMESTAMP_TYPE.to_owned(), (CREATE_TIME.to_owned(), false));
        rows.insert(TIMESTAMP_BEFORE.to_owned(), (self.records.before_max_ms.to_string(), false));
        rows.insert(TIMESTAMP_AFTER.to_owned(), (self.records.after_max_ms.to_string(), false));
        rows.insert(SEGMENT.to_owned(), (self.segment_bytes.to_string(), false));
        for (name, value) in &self.given {
            rows.insert(name.clone(), (value.clone(), true));
        }
        rows.into_iter().map(|(name, (value, given))| (name, value, given)).collect()
    }
}

fn compression(value: &str) -> Result<Option<Codec>, String> {
    if value == "producer" {
        return Ok(None);
    }
    Codec::from_name(value).map(Some).ok_or_else(|| {
        format!("{COMPRESSION} is `{value}`, wanted producer, none, uncompressed, gzip, snappy, lz4 or zstd")
    })
}

fn is_log_append_time(value: &str) -> Result<bool, String> {
    match value {
        CREATE_TIME => Ok(false),
        "LogAppendTime" => Ok(true),
        _ => Err(format!("{TIMESTAMP_TYPE} is `{value}`, wanted {CREATE_TIME} or LogAppendTime")),
    }
}

fn milliseconds(name: &str, value: &str) -> Result<i64, String> {
    match value.parse() {
        Ok(milliseconds) if milliseconds >= 0 => Ok(milliseconds),
        _ => Err(format!("{name} is `{value}`, wanted milliseconds from 0 on")),
    }
}

fn number(name: &str, value: &str, least: u64) -> Result<u64, String> {
    let most = i32::MAX as u64;
    match value.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{name} is `{value}`, wanted a number from {least} to {most}")),
    }
}

fn fixed(name: &str, value: &str) -> Result<(), String> {
    match FIXED.iter().find(|(known, _)| *known == name) {
        Some((_, only)) if *only == value => Ok(()),
        Some((_, only)) => Err(format!("{name} is `{value}`, this broker only does `{only}`")),
        None => Err(format!(
            "unknown property `{name}`; known are {COMPRESSION}, {SCHEMA}, {TIMESTAMP_TYPE}, {TIMESTAMP_BEFORE}, \
             {TIMESTAMP_AFTER}, {MAX_MESSAGE} and {SEGMENT}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: &str) -> Result<Properties, String> {
        Properties::parse([(name.to_owned(), value.to_owned())].into_iter().collect())
    }

    #[test]
    fn good_values_are_taken() {
        assert_eq!(parse(COMPRESSION, "zstd").unwrap().compression, Some(Codec::Zstd));
        assert_eq!(parse(COMPRESSION, "uncompressed").unwrap().compression, Some(Codec::None));
        assert_eq!(parse(COMPRESSION, "producer").unwrap().compression, None);
        assert_eq!(parse(SEGMENT, "4096").unwrap().segment_bytes, 4096);
        assert!(parse(SCHEMA, r#"{"type": "object"}"#).unwrap().schema.is_some());
        assert!(parse("retention.ms", "-1").is_ok());
    }

    #[test]
    fn bad_values_are_named_with_what_they_may_be() {
        for (name, value, wanted) in [
            (COMPRESSION, "brotli", "wanted producer"),
            (SEGMENT, "12", "from 4096"),
            (MAX_MESSAGE, "-1", "from 0"),
            (SCHEMA, "{", "hone.value.schema: the schema is not JSON"),
            (TIMESTAMP_TYPE, "Never", "LogAppendTime"),
            (TIMESTAMP_AFTER, "-1", "from 0"),
            ("retention.ms", "1000", "only does `-1`"),
            ("retention.mss", "1000", "unknown property"),
        ] {
            let error = parse(name, value).err().unwrap_or_default();
            assert!(error.contains(wanted), "{name}={value}: {error}");
        }
    }
}
