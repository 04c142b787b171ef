//! The properties of a topic, with the names, ranges and defaults of the big brokers, and what follows from them: how
//! its batches are treated, how its logs are kept, when an acknowledgement is given.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hone_kafka::Codec;

use crate::log_config::LogConfig;
use crate::schema::Schema;
use crate::validate::Rules;

pub(crate) mod broker;
pub(crate) mod definition;
mod topic;

use broker::BrokerProperties;
use definition::{Definition, Kind, find, items};
use topic::TABLE;

/// Below this a segment holds hardly more than one batch.
const LEAST_SEGMENT_BYTES: i64 = 1 << 12;
const MOST_I32: i64 = i32::MAX as i64;
const LEAST_I64: i64 = i64::MIN;
const MOST_I64: i64 = i64::MAX;
const CODECS: &[&str] = &["producer", "none", "uncompressed", "gzip", "snappy", "lz4", "zstd"];
const CLEANUP_POLICIES: &[&str] = &["delete", "compact"];
const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];

const CLEANUP: &str = "cleanup.policy";
const COMPRESSION: &str = "compression.type";
const GZIP_LEVEL: &str = "compression.gzip.level";
const LZ4_LEVEL: &str = "compression.lz4.level";
const ZSTD_LEVEL: &str = "compression.zstd.level";
const DELETE_RETENTION: &str = "delete.retention.ms";
const DURABILITY: &str = "hone.durability";
const FLUSH_BYTES: &str = "flush.bytes";
const FLUSH_MS: &str = "flush.ms";
const MAX_LAG: &str = "max.compaction.lag.ms";
const MAX_MESSAGE: &str = "max.message.bytes";
const MIN_LAG: &str = "min.compaction.lag.ms";
const MIN_RATIO: &str = "min.cleanable.dirty.ratio";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";
const SCHEMA: &str = "hone.value.schema";
const SEGMENT_BYTES: &str = "segment.bytes";
const SEGMENT_MS: &str = "segment.ms";
const TIMESTAMP_AFTER: &str = "message.timestamp.after.max.ms";
const TIMESTAMP_BEFORE: &str = "message.timestamp.before.max.ms";
const TIMESTAMP_DIFFERENCE: &str = "message.timestamp.difference.max.ms";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
const WRITE_CACHING: &str = "write.caching";

/// Where a value comes from, in the numbers of DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum Source {
    Topic = 1,
    Broker = 2,
    Cluster = 3,
    Start = 4,
    Default = 5,
}

/// One of the values that a property has, or would have if those before it were not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// A property as it is described.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) definition: &'static Definition,
    pub(crate) kind: Kind,
    /// `None` for a property that has neither value nor default.
    pub(crate) value: Option<String>,
    pub(crate) source: Source,
    /// The value in force first.
    pub(crate) layers: Vec<Layer>,
}

fn row(definition: &'static Definition, layers: Vec<Layer>) -> Row {
    let first = layers.first();
    Row {
        definition,
        kind: definition.kind(),
        value: first.map(|layer| layer.value.clone()),
        source: first.map_or(Source::Default, |layer| layer.source),
        layers,
    }
}

/// What an acknowledgement with acks=all means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The batch is on disk.
    Fsync,
    /// The batch is in memory, and there is no disk.
    Memory,
    /// The batch is in memory, and will be on disk within these.
    WriteCaching { flush_ms: u64, flush_bytes: u64 },
}

impl Durability {
    /// In one word, for a label.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Memory => "memory",
            Self::WriteCaching { .. } => "write_caching",
        }
    }

    fn of(log: &LogConfig, broker: &BrokerProperties) -> Self {
        if broker.is_in_memory() {
            Self::Memory
        } else if log.write_caching {
            Self::WriteCaching { flush_ms: log.flush_ms, flush_bytes: log.flush_bytes }
        } else {
            Self::Fsync
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fsync => formatter.write_str("acks=all: fsync"),
            Self::Memory => formatter.write_str("acks=all: memory, lost when the broker stops"),
            Self::WriteCaching { flush_ms, flush_bytes } => {
                write!(formatter, "acks=all: memory, flushed within {flush_ms} ms or {flush_bytes} bytes")
            }
        }
    }
}

/// What a topic asks of the broker.
#[derive(Clone)]
pub(crate) struct Properties {
    /// `None` keeps the producer's codec.
    pub(crate) compression: Option<Codec>,
    /// Level of that codec; `None` for its default.
    pub(crate) compression_level: Option<i32>,
    /// Checks every record value.
    pub(crate) schema: Option<Arc<Schema>>,
    /// Largest batch, as sent by the producer.
    pub(crate) max_message_bytes: usize,
    /// What every record must be.
    pub(crate) records: Rules,
    /// As they were given, checked.
    pub(crate) given: BTreeMap<String, String>,
    durability: Durability,
    log: LogConfig,
}

/// The values in force: those given, over those of the broker.
struct Values<'a> {
    given: &'a BTreeMap<String, String>,
    broker: &'a BrokerProperties,
}

impl<'a> Values<'a> {
    fn text(&self, name: &str) -> &'a str {
        if let Some(value) = self.given.get(name) {
            return value;
        }
        match TABLE.iter().find(|definition| definition.name == name) {
            Some(Definition { broker: Some(behind), .. }) => self.broker.value(behind),
            Some(definition) => definition.default,
            None => "",
        }
    }

    fn parse<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name);
        text.parse().map_err(|_| format!("invalid {name} `{text}`"))
    }

    /// Below 0 there is no limit.
    fn limit(&self, name: &str) -> Result<Option<u64>, String> {
        Ok(u64::try_from(self.parse::<i64>(name)?).ok())
    }

    /// How far the time of a record may lie on one side: the topic's own bound, else its bound for both sides, else the broker's.
    fn time_bound(&self, name: &str) -> Result<i64, String> {
        let has_both = !self.given.contains_key(name) && self.given.contains_key(TIMESTAMP_DIFFERENCE);
        self.parse(if has_both { TIMESTAMP_DIFFERENCE } else { name })
    }

    fn compression_level(&self, codec: Option<Codec>) -> Result<Option<i32>, String> {
        match codec {
            Some(Codec::Gzip) => Ok(Some(self.parse(GZIP_LEVEL)?).filter(|level| *level >= 0)),
            Some(Codec::Zstd) => self.parse(ZSTD_LEVEL).map(Some),
            _ => Ok(None),
        }
    }

    fn log_config(&self) -> Result<LogConfig, String> {
        let policy = self.text(CLEANUP);
        let (min_lag, max_lag) = (self.parse(MIN_LAG)?, self.parse(MAX_LAG)?);
        if min_lag > max_lag {
            return Err(format!("{MIN_LAG} is {min_lag}, above {MAX_LAG}, which is {max_lag}"));
        }
        Ok(LogConfig {
            segment_bytes: self.parse(SEGMENT_BYTES)?,
            segment_ms: self.parse(SEGMENT_MS)?,
            retention_bytes: self.limit(RETENTION_BYTES)?,
            retention_ms: self.limit(RETENTION_MS)?,
            compact: items(policy).any(|policy| policy == "compact"),
            delete: items(policy).any(|policy| policy == "delete"),
            min_cleanable_dirty_ratio: self.parse(MIN_RATIO)?,
            min_compaction_lag_ms: min_lag,
            max_compaction_lag_ms: max_lag,
            delete_retention_ms: self.parse(DELETE_RETENTION)?,
            log_append_time: self.text(TIMESTAMP_TYPE) == "LogAppendTime",
            write_caching: self.text(WRITE_CACHING) == "true" && !self.broker.forbids_write_caching(),
            flush_ms: self.parse(FLUSH_MS)?,
            flush_bytes: self.parse(FLUSH_BYTES)?,
            max_message_bytes: self.parse(MAX_MESSAGE)?,
        })
    }
}

impl Properties {
    /// Checks the given properties; what is not given is as the broker has it. The error names the property and what
    /// it may be.
    pub(crate) fn parse(given: &BTreeMap<String, String>, broker: &BrokerProperties) -> Result<Self, String> {
        let mut checked = BTreeMap::new();
        for (name, value) in given {
            let definition = find(TABLE, name)?;
            checked.insert(definition.name.to_owned(), definition.check(value)?);
        }
        let schema = match checked.get(SCHEMA) {
            Some(text) => Some(Schema::compile(text).map_err(|error| format!("{SCHEMA}: {error}"))?),
            None => None,
        };
        Self::put_together(checked, schema.map(Arc::new), broker)
    }

    /// The same properties over a broker whose own have changed.
    pub(crate) fn over(&self, broker: &BrokerProperties) -> Result<Self, String> {
        Self::put_together(self.given.clone(), self.schema.clone(), broker)
    }

    fn put_together(
        given: BTreeMap<String, String>,
        schema: Option<Arc<Schema>>,
        broker: &BrokerProperties,
    ) -> Result<Self, String> {
        let values = Values { given: &given, broker };
        // `producer` is the one word that is no codec.
        let compression = Codec::from_name(values.text(COMPRESSION));
        let log = values.log_config()?;
        Ok(Self {
            compression,
            compression_level: values.compression_level(compression)?,
            schema,
            max_message_bytes: log.max_message_bytes,
            records: Rules {
                log_append_time: log.log_append_time,
                before_max_ms: values.time_bound(TIMESTAMP_BEFORE)?,
                after_max_ms: values.time_bound(TIMESTAMP_AFTER)?,
                keys_required: log.compact,
            },
            durability: Durability::of(&log, broker),
            log,
            given,
        })
    }

    /// How the logs of the topic are to be kept.
    pub(crate) fn log_config(&self) -> &LogConfig {
        &self.log
    }

    /// What an acknowledgement with acks=all means.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Every property of the topic.
    pub(crate) fn describe(&self, broker: &BrokerProperties) -> Vec<Row> {
        TABLE.iter().map(|definition| row(definition, self.layers(definition, broker))).collect()
    }

    /// The value in force of one property.
    pub(crate) fn in_force(&self, definition: &'static Definition, broker: &BrokerProperties) -> String {
        self.layers(definition, broker).into_iter().next().map(|layer| layer.value).unwrap_or_default()
    }

    fn layers(&self, definition: &'static Definition, broker: &BrokerProperties) -> Vec<Layer> {
        let name = definition.name;
        let given = self.given.get(name).cloned();
        let given = given.map(|value| Layer { name, value, source: Source::Topic });
        let behind = match definition.broker.map(|behind| find(broker::TABLE, behind)) {
            Some(Ok(behind)) => broker.layers(behind),
            _ if name == DURABILITY => {
                vec![Layer { name, value: self.durability().to_string(), source: Source::Default }]
            }
            _ if !definition.has_default() => Vec::new(),
            _ => vec![Layer { name, value: definition.default.to_owned(), source: Source::Default }],
        };
        given.into_iter().chain(behind).collect()
    }
}

/// A step of IncrementalAlterConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Set(&'a str),
    Delete,
    Append(&'a str),
    Subtract(&'a str),
}

/// Which table the properties of a step stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Topic,
    Broker,
}

impl Owner {
    fn table(self) -> &'static [Definition] {
        match self {
            Self::Topic => TABLE,
            Self::Broker => broker::TABLE,
        }
    }
}

/// Takes a step on properties as they were given; `in_force` is the value that a list is added to when none was given.
pub(crate) fn take_step(
    given: &mut BTreeMap<String, String>,
    owner: Owner,
    name: &str,
    step: Step<'_>,
    in_force: impl Fn(&'static Definition) -> String,
) -> Result<(), String> {
    let definition = match find(owner.table(), name) {
        Ok(definition) => definition,
        // Gone already.
        Err(_) if step == Step::Delete => return Ok(()),
        Err(error) => return Err(error),
    };
    let name = definition.name;
    let value = match step {
        Step::Delete => {
            given.remove(name);
            return Ok(());
        }
        Step::Set(value) => value.to_owned(),
        Step::Append(_) | Step::Subtract(_) if definition.kind() != Kind::List => {
            return Err(format!("{name} is not a list, so APPEND and SUBTRACT do not apply; use SET"));
        }
        Step::Append(more) => {
            let now = given.get(name).cloned().unwrap_or_else(|| in_force(definition));
            format!("{now},{more}")
        }
        Step::Subtract(less) => {
            let now = given.get(name).cloned().unwrap_or_else(|| in_force(definition));
            let left: Vec<_> = items(&now).filter(|item| !items(less).any(|gone| gone == *item)).collect();
            left.join(",")
        }
    };
    given.insert(name.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::broker::Scope;
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn parse(pairs: &[(&str, &str)]) -> Result<Properties, String> {
        Properties::parse(&given(pairs), &BrokerProperties::default())
    }

    fn refusal(name: &str, value: &str) -> String {
        parse(&[(name, value)]).err().unwrap_or_default()
    }

    fn over_cluster(cluster: &[(&str, &str)], pairs: &[(&str, &str)]) -> Properties {
        let broker = BrokerProperties::default().with(Scope::Cluster, &given(cluster)).unwrap();
        Properties::parse(&given(pairs), &broker).unwrap()
    }

    #[test]
    fn without_properties_a_topic_is_as_on_the_big_brokers() {
        let properties = parse(&[]).unwrap();
        assert_eq!(
            *properties.log_config(),
            LogConfig {
                segment_bytes: 128 << 20,
                segment_ms: 7 * 86_400_000,
                retention_bytes: None,
                retention_ms: Some(7 * 86_400_000),
                compact: false,
                delete: true,
                min_cleanable_dirty_ratio: 0.5,
                min_compaction_lag_ms: 0,
                max_compaction_lag_ms: i64::MAX as u64,
                delete_retention_ms: 86_400_000,
                log_append_time: false,
                write_caching: false,
                flush_ms: 100,
                flush_bytes: 262_144,
                max_message_bytes: 1_048_588,
            }
        );
        assert_eq!((properties.compression, properties.compression_level), (None, None));
        assert_eq!(properties.records.before_max_ms, i64::MAX);
        assert_eq!(properties.records.after_max_ms, 3_600_000);
        assert!(properties.schema.is_none());
    }

    #[test]
    fn good_values_are_taken() {
        let properties = parse(&[
            (CLEANUP, "compact, delete,compact"),
            (COMPRESSION, "zstd"),
            (ZSTD_LEVEL, "-5"),
            (RETENTION_BYTES, "1"),
            (RETENTION_MS, "-1"),
            (SEGMENT_BYTES, " 4096 "),
            (SEGMENT_MS, "1"),
            (MIN_RATIO, "0.01"),
            (MIN_LAG, "5"),
            (MAX_LAG, "6"),
            (DELETE_RETENTION, "0"),
            (TIMESTAMP_TYPE, "LogAppendTime"),
            (TIMESTAMP_BEFORE, "0"),
            (TIMESTAMP_AFTER, "9223372036854775807"),
            (MAX_MESSAGE, "0"),
            (SCHEMA, r#"{"type": "object"}"#),
            (FLUSH_MS, "0"),
            (FLUSH_BYTES, "1"),
            (WRITE_CACHING, "true"),
        ])
        .unwrap();
        assert_eq!(
            *properties.log_config(),
            LogConfig {
                segment_bytes: 4096,
                segment_ms: 1,
                retention_bytes: Some(1),
                retention_ms: None,
                compact: true,
                delete: true,
                min_cleanable_dirty_ratio: 0.01,
                min_compaction_lag_ms: 5,
                max_compaction_lag_ms: 6,
                delete_retention_ms: 0,
                log_append_time: true,
                write_caching: true,
                flush_ms: 0,
                flush_bytes: 1,
                max_message_bytes: 0,
            }
        );
        assert_eq!(properties.given.get(CLEANUP).map(String::as_str), Some("compact,delete"));
        assert_eq!((properties.compression, properties.compression_level), (Some(Codec::Zstd), Some(-5)));
        assert!(properties.schema.is_some());
        let gzip = |level| parse(&[(COMPRESSION, "gzip"), (GZIP_LEVEL, level)]).unwrap().compression_level;
        assert_eq!((gzip("-1"), gzip("9")), (None, Some(9)));
        assert_eq!(parse(&[(COMPRESSION, "uncompressed")]).unwrap().compression, Some(Codec::None));
        let only_compact = parse(&[(CLEANUP, "compact")]).unwrap();
        assert!(!only_compact.log_config().delete && only_compact.log_config().compact);
    }

    #[test]
    fn bad_values_are_named_with_what_they_may_be() {
        for (name, value, wanted) in [
            (CLEANUP, "", "use a list of delete or compact"),
            (CLEANUP, "compact,purge", "use a list of delete or compact"),
            (COMPRESSION, "brotli", "use producer, none, uncompressed, gzip, snappy, lz4 or zstd"),
            (COMPRESSION, "ZSTD", "use producer"),
            (GZIP_LEVEL, "0", "use -1 or a number from 1 to 9"),
            (GZIP_LEVEL, "10", "from 1 to 9"),
            (LZ4_LEVEL, "18", "from 1 to 17"),
            (ZSTD_LEVEL, "23", "from -131072 to 22"),
            (DELETE_RETENTION, "-1", "from 0 to"),
            ("file.delete.delay.ms", "-1", "from 0 to"),
            (FLUSH_BYTES, "0", "from 1 to"),
            ("flush.messages", "0", "from 1 to"),
            (FLUSH_MS, "-1", "from 0 to"),
            (DURABILITY, "acks=all: fsync", "hone.durability can't be set: it follows from write.caching"),
            (SCHEMA, "{", "hone.value.schema: the schema is not JSON"),
            ("index.interval.bytes", "-1", "from 0 to"),
            (MAX_LAG, "0", "from 1 to"),
            (MAX_MESSAGE, "-1", "from 0 to 2147483647"),
            (MAX_MESSAGE, "2147483648", "from 0 to 2147483647"),
            (TIMESTAMP_AFTER, "-1", "from 0 to"),
            (TIMESTAMP_BEFORE, "x", "from 0 to"),
            (TIMESTAMP_TYPE, "createtime", "use CreateTime or LogAppendTime"),
            (MIN_RATIO, "1.1", "use a number from 0 to 1"),
            (MIN_RATIO, "NaN", "use a number from 0 to 1"),
            (MIN_LAG, "-1", "from 0 to"),
            ("min.insync.replicas", "2", "use 1. This cluster has one broker"),
            ("preallocate", "1", "use true or false"),
            (RETENTION_BYTES, "x", "from -9223372036854775808 to"),
            (RETENTION_MS, "-2", "from -1 to"),
            (RETENTION_MS, "9223372036854775808", "from -1 to 9223372036854775807"),
            (SEGMENT_BYTES, "12", "from 4096 to 2147483647"),
            ("segment.index.bytes", "3", "from 4 to"),
            ("segment.jitter.ms", "-1", "from 0 to"),
            (SEGMENT_MS, "0", "from 1 to"),
            ("unclean.leader.election.enable", "", "use true or false"),
            (WRITE_CACHING, "disabled", "use true or false"),
            ("retention.mss", "1000", "did you mean `retention.ms`?"),
            ("owner", "me", "unknown property `owner`; DescribeConfigs lists"),
        ] {
            let error = refusal(name, value);
            assert!(error.contains(wanted), "{name}={value}: {error}");
        }
        let crossed = parse(&[(MIN_LAG, "7"), (MAX_LAG, "6")]).err().unwrap();
        assert!(crossed.contains("min.compaction.lag.ms is 7, above max.compaction.lag.ms, which is 6"));
    }

    /// Names and defaults of Kafka's LogConfig, 3.9 and 4, that have no effect here, with values that Kafka takes and refuses.
    #[test]
    fn properties_of_kafka_without_effect_have_its_defaults_and_its_bounds() {
        const MOST: &str = "9223372036854775807";
        for (name, default, good, bad) in [
            ("file.delete.delay.ms", "60000", &["0"][..], &["-1"][..]),
            ("flush.messages", MOST, &["1"], &["0"]),
            (
                "follower.replication.throttled.replicas",
                "",
                &["", "*", "0:1", "0:1,12:3", "0:1,,1:1"],
                &["0", "0:", "0:1:2", "-1:1", "+0:1", "*,0:1", "0:2147483648", "a:b"],
            ),
            ("index.interval.bytes", "4096", &["0"], &["-1", "2147483648"]),
            ("leader.replication.throttled.replicas", "", &["*", "0:1"], &["0.1"]),
            ("local.retention.bytes", "-2", &["-2", "-1", "0", MOST], &["-3"]),
            ("local.retention.ms", "-2", &["-2", "-1", "0", MOST], &["-3", ""]),
            ("message.downconversion.enable", "true", &["true", "FALSE"], &["1", ""]),
            (
                "message.format.version",
                "3.0-IV1",
                &["0.8.2", "0.10.0-IV1", "0.10.2.1", "0.11.0-IV2", "2.8", "2.8.1", "2.8-IV1", "3.9-IV0"],
                &["", "2", "0.8.3", "0.9.0-IV0", "2.8-IV2", "2.8-IV", "2.8-IV01", "4.0", "latest"],
            ),
            ("preallocate", "false", &["true"], &["yes"]),
            ("remote.copy.lag.bytes", "0", &["-1", MOST], &["-2"]),
            ("remote.copy.lag.ms", "0", &["-1", MOST], &["-2"]),
            ("remote.log.copy.disable", "false", &["true", "false"], &["0"]),
            ("remote.log.delete.on.disable", "false", &["true", "false"], &["0"]),
            ("remote.storage.enable", "false", &["false", "False"], &["true", "0"]),
            ("segment.index.bytes", "10485760", &["4"], &["3"]),
            ("segment.jitter.ms", "0", &["0", MOST], &["-1"]),
            ("unclean.leader.election.enable", "false", &["true"], &["0"]),
        ] {
            let broker = BrokerProperties::default();
            let rows = parse(&[]).unwrap().describe(&broker);
            let row = rows.into_iter().find(|row| row.definition.name == name).unwrap();
            assert_eq!((row.value.as_deref(), row.source), (Some(default), Source::Default), "{name}");
            for value in good {
                assert_eq!(refusal(name, value), "", "{name}={value}");
            }
            for value in bad {
                assert!(
                    refusal(name, value).contains(&format!("invalid {name} `{value}`: use")),
                    "{name}={value}"
                );
            }
        }
    }

    /// What Redpanda knows, and Confluent's names that it knows, too.
    #[test]
    fn what_asks_for_something_that_is_not_here_is_refused_with_the_reason() {
        let tiered = "This broker has no tiered storage.";
        let registry = "This broker uses no schema registry";
        for (name, good, bad, reason) in [
            ("compaction.strategy", "offset", "timestamp", "the record of a key with the highest offset"),
            ("confluent.key.schema.validation", "false", "true", registry),
            ("confluent.value.schema.validation", "false", "true", registry),
            ("confluent.value.subject.name.strategy", "RecordNameStrategy", "Mine", "TopicNameStrategy"),
            ("initial.retention.local.target.bytes", "1", "-2", "from -1 to"),
            ("initial.retention.local.target.ms", "-1", "x", "from -1 to"),
            ("redpanda.cloud_topic.enabled", "false", "true", tiered),
            ("redpanda.iceberg.delete", "false", "0", "true or false"),
            ("redpanda.iceberg.invalid.record.action", "drop", "keep", "drop or dlq_table"),
            ("redpanda.iceberg.mode", "disabled", "key_value", "This broker writes no Iceberg tables."),
            ("redpanda.iceberg.target.lag.ms", "60000", "0", "from 1 to"),
            ("redpanda.key.schema.id.validation", "false", "true", registry),
            (
                "redpanda.key.subject.name.strategy",
                "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
                "topicNameStrategy",
                "TopicNameStrategy",
            ),
            ("redpanda.leaders.preference", "ordered_racks:a, b", "racks:", "none, racks:RACK,RACK"),
            ("redpanda.remote.allowgaps", "true", "1", "true or false"),
            ("redpanda.remote.delete", "true", "1", "true or false"),
            ("redpanda.remote.read", "false", "true", tiered),
            ("redpanda.remote.recovery", "false", "true", tiered),
            ("redpanda.remote.write", "false", "true", tiered),
            ("redpanda.replicas.preference", "racks:a", "a", "none, racks:RACK,RACK"),
            ("redpanda.storage.mode", "local", "tiered", tiered),
            ("redpanda.value.schema.id.validation", "false", "true", registry),
            ("remote.storage.enable", "false", "true", tiered),
            ("replication.factor", "1", "3", "This cluster has one broker and no replica."),
            ("retention.local.target.bytes", "-1", "-2", "from -1 to"),
            ("retention.local.target.ms", "86400000", "", "from -1 to"),
            ("write.caching", "true", "disabled", "true or false"),
        ] {
            assert_eq!(refusal(name, good), "", "{name}={good}");
            let error = refusal(name, bad);
            assert!(error.starts_with(&format!("invalid {name} `{bad}`: use ")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(refusal("redpanda.iceberg.partition.spec", "(day(ts))"), "");
        for name in ["redpanda.remote.readreplica", "redpanda.virtual.cluster.id"] {
            let error = refusal(name, "x");
            assert!(error.starts_with(&format!("{name} can't be set: this broker has no ")), "{error}");
        }
    }

    proptest! {
        /// A value is kept as it is taken again when the broker starts.
        #[test]
        fn what_is_taken_once_is_taken_again(
            at in any::<prop::sample::Index>(),
            value in "(-?[0-9]{0,20}|[ a-zA-Z*]{0,9}|([0-9]{0,3}[:,.]){0,4}|[0-3][.][0-9]{1,2}(-IV[0-9]?)?|(ordered_)?racks:[a-c,]{0,5}|.{0,12})",
        ) {
            for table in [TABLE, broker::TABLE] {
                let definition = &table[at.index(table.len())];
                if let Ok(kept) = definition.check(&value) {
                    prop_assert_eq!(definition.check(&kept), Ok(kept), "{}", definition.name);
                }
            }
        }
    }

    #[test]
    fn the_one_bound_of_kafka_3_for_times_holds_where_no_other_is_given() {
        let bounds = |pairs: &[(&str, &str)]| {
            let rules = parse(pairs).unwrap().records;
            (rules.before_max_ms, rules.after_max_ms)
        };
        assert_eq!(bounds(&[(TIMESTAMP_DIFFERENCE, "7")]), (7, 7));
        assert_eq!(bounds(&[(TIMESTAMP_DIFFERENCE, "7"), (TIMESTAMP_BEFORE, "8")]), (8, 7));
        assert_eq!(bounds(&[(TIMESTAMP_AFTER, "9"), (TIMESTAMP_DIFFERENCE, "7")]), (7, 9));
        let cluster = [("log.message.timestamp.before.max.ms", "5")];
        let over = |pairs: &[(&str, &str)]| over_cluster(&cluster, pairs).records.before_max_ms;
        assert_eq!((over(&[]), over(&[(TIMESTAMP_DIFFERENCE, "7")])), (5, 7));
        assert!(refusal(TIMESTAMP_DIFFERENCE, "-1").contains("from 0 to"));
    }

    #[test]
    fn every_row_of_the_table_has_a_default_that_could_be_set() {
        assert!(TABLE.is_sorted_by_key(|definition| definition.name));
        for definition in TABLE.iter().filter(|definition| definition.broker.is_none()) {
            if definition.has_default() {
                assert_eq!(definition.check(definition.default).as_deref(), Ok(definition.default));
            }
        }
        for definition in TABLE {
            if let Some(behind) = definition.broker {
                let behind = find(broker::TABLE, behind).unwrap();
                assert!(
                    definition.name == WRITE_CACHING || definition.check(behind.default).is_ok(),
                    "{}",
                    definition.name
                );
                assert_eq!(
                    behind.name,
                    definition.broker.unwrap(),
                    "the table is looked up by name, not by alias"
                );
            }
        }
    }

    #[test]
    fn topics_take_what_they_do_not_say_from_the_cluster() {
        let cluster = [
            ("log_retention_ms", "1000"),
            ("log.segment.bytes", "8192"),
            ("compression.type", "lz4"),
            (broker::FLUSH_MS, "7"),
        ];
        let properties = over_cluster(&cluster, &[(SEGMENT_BYTES, "4096")]);
        assert_eq!(properties.log_config().retention_ms, Some(1000));
        assert_eq!(properties.log_config().segment_bytes, 4096);
        assert_eq!(properties.log_config().flush_ms, 7);
        assert_eq!(properties.compression, Some(Codec::Lz4));
        let back = properties.over(&BrokerProperties::default()).unwrap();
        assert_eq!(back.log_config().retention_ms, Some(604_800_000));
        assert_eq!(back.log_config().segment_bytes, 4096);
    }

    #[test]
    fn write_caching_follows_the_topic_unless_the_cluster_has_disabled_it() {
        let caching = |flush_ms, flush_bytes| Durability::WriteCaching { flush_ms, flush_bytes };
        for (cluster, topic, wanted) in [
            ("false", None, Durability::Fsync),
            ("false", Some("true"), caching(100, 262_144)),
            ("true", None, caching(100, 262_144)),
            ("true", Some("false"), Durability::Fsync),
            ("disabled", None, Durability::Fsync),
            ("disabled", Some("true"), Durability::Fsync),
        ] {
            let pairs: Vec<_> = topic.map(|value| (WRITE_CACHING, value)).into_iter().collect();
            let properties = over_cluster(&[(broker::WRITE_CACHING, cluster)], &pairs);
            assert_eq!(properties.durability(), wanted, "{cluster} {topic:?}");
        }
        let own = over_cluster(&[], &[(WRITE_CACHING, "true"), (FLUSH_MS, "5"), (FLUSH_BYTES, "6")]);
        assert_eq!(own.durability().to_string(), "acks=all: memory, flushed within 5 ms or 6 bytes");
        assert_eq!(Durability::Fsync.to_string(), "acks=all: fsync");
        let memory = BrokerProperties::default().in_memory();
        let kept_nowhere = Properties::parse(&given(&[(WRITE_CACHING, "true")]), &memory).ok().unwrap();
        assert_eq!(kept_nowhere.durability().to_string(), "acks=all: memory, lost when the broker stops");
    }

    #[test]
    fn a_row_tells_where_its_value_comes_from() {
        let broker =
            BrokerProperties::default().with(Scope::Cluster, &given(&[("log.retention.ms", "5")])).unwrap();
        let properties = Properties::parse(&given(&[(RETENTION_MS, "6")]), &broker).unwrap();
        let rows = properties.describe(&broker);
        assert_eq!(rows.len(), TABLE.len());
        let row = |name: &str| rows.iter().find(|row| row.definition.name == name).unwrap();
        let retention = row(RETENTION_MS);
        assert_eq!((retention.value.as_deref(), retention.source), (Some("6"), Source::Topic));
        let layers: Vec<_> =
            retention.layers.iter().map(|layer| (layer.name, layer.value.as_str(), layer.source)).collect();
        assert_eq!(
            layers,
            [
                (RETENTION_MS, "6", Source::Topic),
                ("log.retention.ms", "5", Source::Cluster),
                ("log.retention.ms", "604800000", Source::Default)
            ]
        );
        assert_eq!(row(DURABILITY).value.as_deref(), Some("acks=all: fsync"));
        assert!(row(DURABILITY).definition.is_read_only());
        assert_eq!((&row(SCHEMA).value, row(SCHEMA).layers.len()), (&None, 0));
    }

    #[test]
    fn steps_change_what_was_given() {
        let now = |_: &Definition| "delete".to_owned();
        let mut properties = given(&[(RETENTION_MS, "1")]);
        let mut step = |name: &str, step| take_step(&mut properties, Owner::Topic, name, step, now);
        step(SEGMENT_MS, Step::Set("9")).unwrap();
        step(RETENTION_MS, Step::Delete).unwrap();
        step("never.heard.of", Step::Delete).unwrap();
        step(CLEANUP, Step::Append("compact")).unwrap();
        assert!(step(SEGMENT_MS, Step::Append("1")).unwrap_err().contains("segment.ms is not a list"));
        assert!(step(SEGMENT_MS, Step::Subtract("1")).unwrap_err().contains("is not a list"));
        assert!(step("segment.m", Step::Set("1")).unwrap_err().contains("did you mean `segment.ms`"));
        assert_eq!(properties, given(&[(SEGMENT_MS, "9"), (CLEANUP, "delete,compact")]));
        let mut step = |name: &str, step| take_step(&mut properties, Owner::Topic, name, step, now);
        step(CLEANUP, Step::Subtract("delete")).unwrap();
        assert_eq!(properties, given(&[(SEGMENT_MS, "9"), (CLEANUP, "compact")]));
        // Tools that move partitions name replicas, and take them back.
        let throttled = "leader.replication.throttled.replicas";
        let mut properties = BTreeMap::new();
        let mut step = |step| take_step(&mut properties, Owner::Topic, throttled, step, |_| String::new());
        step(Step::Append("0:1")).unwrap();
        step(Step::Append("1:1")).unwrap();
        step(Step::Subtract("0:1")).unwrap();
        assert_eq!(properties, given(&[(throttled, "1:1")]));
    }
}
