//! The properties of topics: those of Apache Kafka 3 and 4, those of Redpanda, and the broker's own.
//!
//! Tools copy properties from one cluster to another, so all of them are known. What has no effect here is taken and says so. What
//! asks for something that this broker does not have is refused with the reason.

use super::definition::{Definition, Wanted};
use super::{
    CLEANUP, CLEANUP_POLICIES, CODECS, COMPRESSION, DELETE_RETENTION, DURABILITY, FLUSH_BYTES, FLUSH_MS,
    GZIP_LEVEL, LEAST_I64, LEAST_SEGMENT_BYTES, LZ4_LEVEL, MAX_LAG, MAX_MESSAGE, MIN_LAG, MIN_RATIO,
    MOST_I32, MOST_I64, RETENTION_BYTES, RETENTION_MS, SCHEMA, SEGMENT_BYTES, SEGMENT_MS, TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE, TIMESTAMP_DIFFERENCE, TIMESTAMP_TYPE, TIMESTAMP_TYPES, WRITE_CACHING, ZSTD_LEVEL,
    broker,
};

/// A switch that stays off: what it turns on is not here.
const OFF: Wanted = Wanted::Here(&["false"]);
const NO_TIERED_STORAGE: &str = "This broker has no tiered storage.";
const NOT_TIERED: &str = "Accepted and without effect: this broker has no tiered storage.";
const NOT_ICEBERG: &str = "Accepted and without effect: this broker writes no Iceberg tables.";
const NO_REGISTRY: &str = "This broker uses no schema registry; hone.value.schema checks values.";
const NO_SCHEMA_IDS: &str = "Accepted and without effect: this broker checks no schema ids.";
const NO_REPLICA: &str = "Accepted and without effect: this cluster has one broker and no replica.";
/// Short, and as Java's classes are called.
const STRATEGIES: &[&str] = &[
    "TopicNameStrategy",
    "RecordNameStrategy",
    "TopicRecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicNameStrategy",
    "io.confluent.kafka.serializers.subject.RecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
];

/// By name.
pub(super) static TABLE: &[Definition] = &[
    topic(
        CLEANUP,
        Wanted::Words(CLEANUP_POLICIES),
        Some("log.cleanup.policy"),
        "`delete` removes old segments by age and size; `compact` keeps the last record of each key.",
    ),
    alone(
        "compaction.strategy",
        Wanted::Here(&["offset"]),
        "offset",
        "This broker keeps the record of a key with the highest offset.",
    ),
    alone(
        GZIP_LEVEL,
        Wanted::NumberOr(-1, 1, 9),
        "-1",
        "Level for compression.type=gzip; -1 is gzip's default.",
    ),
    alone(
        LZ4_LEVEL,
        Wanted::Number(1, 17),
        "9",
        "Accepted and without effect: this broker has one level for compression.type=lz4.",
    ),
    topic(
        COMPRESSION,
        Wanted::Word(CODECS),
        Some("compression.type"),
        "Codec of stored batches; `producer` keeps the producer's codec.",
    ),
    alone(ZSTD_LEVEL, Wanted::Number(-131_072, 22), "3", "Level for compression.type=zstd."),
    alone("confluent.key.schema.validation", OFF, "false", NO_REGISTRY),
    alone(
        "confluent.key.subject.name.strategy",
        Wanted::Word(STRATEGIES),
        "TopicNameStrategy",
        NO_SCHEMA_IDS,
    ),
    alone("confluent.value.schema.validation", OFF, "false", NO_REGISTRY),
    alone(
        "confluent.value.subject.name.strategy",
        Wanted::Word(STRATEGIES),
        "TopicNameStrategy",
        NO_SCHEMA_IDS,
    ),
    topic(
        DELETE_RETENTION,
        Wanted::Number(0, MOST_I64),
        Some("log.cleaner.delete.retention.ms"),
        "Time that a compacted log keeps the tombstones of deleted keys.",
    ),
    alone(
        "file.delete.delay.ms",
        Wanted::Number(0, MOST_I64),
        "60000",
        "Accepted and without effect: the broker removes files at once.",
    ),
    topic(
        FLUSH_BYTES,
        Wanted::Number(1, MOST_I64),
        Some(broker::FLUSH_BYTES),
        "Largest number of unflushed bytes of a partition with write caching or acks=1.",
    ),
    topic(
        "flush.messages",
        Wanted::Number(1, MOST_I64),
        Some("log.flush.interval.messages"),
        "Accepted and without effect: flush.ms and flush.bytes decide when to flush.",
    ),
    topic(
        FLUSH_MS,
        Wanted::Number(0, MOST_I64),
        Some(broker::FLUSH_MS),
        "Longest time that a write stays unflushed with write caching or acks=1.",
    ),
    alone("follower.replication.throttled.replicas", Wanted::Replicas, "", NO_REPLICA),
    alone(
        DURABILITY,
        Wanted::ReadOnly(
            "it follows from write.caching, flush.ms, flush.bytes and the cluster's write_caching_default",
        ),
        "",
        "Durability guarantee of an acknowledgement.",
    ),
    alone(
        SCHEMA,
        Wanted::Schema,
        "",
        "Inline JSON Schema; the broker rejects batches with a record value that violates it.",
    ),
    alone(
        "index.interval.bytes",
        Wanted::Number(0, MOST_I32),
        "4096",
        "Accepted and without effect: there is an index entry for every 4096 bytes.",
    ),
    alone("initial.retention.local.target.bytes", Wanted::Number(-1, MOST_I64), "-1", NOT_TIERED),
    alone("initial.retention.local.target.ms", Wanted::Number(-1, MOST_I64), "-1", NOT_TIERED),
    alone("leader.replication.throttled.replicas", Wanted::Replicas, "", NO_REPLICA),
    alone("local.retention.bytes", Wanted::Number(-2, MOST_I64), "-2", NOT_TIERED),
    alone("local.retention.ms", Wanted::Number(-2, MOST_I64), "-2", NOT_TIERED),
    topic(
        MAX_LAG,
        Wanted::Number(1, MOST_I64),
        Some("log.cleaner.max.compaction.lag.ms"),
        "The broker compacts records older than this, regardless of min.cleanable.dirty.ratio.",
    ),
    topic(MAX_MESSAGE, Wanted::Number(0, MOST_I32), Some("message.max.bytes"), "Largest batch."),
    alone(
        "message.downconversion.enable",
        Wanted::Bool,
        "true",
        "Accepted and without effect: this broker serves batches of format 2 only.",
    ),
    alone(
        "message.format.version",
        Wanted::FormatVersion,
        "3.0-IV1",
        "Accepted and without effect: batches are of format 2, as in Kafka 3 and 4.",
    ),
    topic(
        TIMESTAMP_AFTER,
        Wanted::Number(0, MOST_I64),
        Some("log.message.timestamp.after.max.ms"),
        "Largest time by which a record's timestamp may be ahead of the broker's clock.",
    ),
    topic(
        TIMESTAMP_BEFORE,
        Wanted::Number(0, MOST_I64),
        Some("log.message.timestamp.before.max.ms"),
        "Largest time by which a record's timestamp may be behind the broker's clock.",
    ),
    alone(
        TIMESTAMP_DIFFERENCE,
        Wanted::Number(0, MOST_I64),
        "9223372036854775807",
        "Kafka 3's limit for both directions; message.timestamp.before.max.ms and .after.max.ms of the \
         topic take precedence.",
    ),
    topic(
        TIMESTAMP_TYPE,
        Wanted::Word(TIMESTAMP_TYPES),
        Some("log.message.timestamp.type"),
        "Source of a record's timestamp: the producer or the append.",
    ),
    topic(
        MIN_RATIO,
        Wanted::Ratio,
        Some("log.cleaner.min.cleanable.ratio"),
        "Share of uncompacted bytes from which on the broker compacts a log.",
    ),
    topic(
        MIN_LAG,
        Wanted::Number(0, MOST_I64),
        Some("log.cleaner.min.compaction.lag.ms"),
        "The broker does not compact records younger than this.",
    ),
    topic(
        "min.insync.replicas",
        Wanted::Number(1, 1),
        Some("min.insync.replicas"),
        "This cluster has one broker and no replica.",
    ),
    alone(
        "preallocate",
        Wanted::Bool,
        "false",
        "Accepted and without effect: segments grow with their writes.",
    ),
    alone("redpanda.cloud_topic.enabled", OFF, "false", NO_TIERED_STORAGE),
    alone("redpanda.iceberg.delete", Wanted::Bool, "true", NOT_ICEBERG),
    alone(
        "redpanda.iceberg.invalid.record.action",
        Wanted::Word(&["drop", "dlq_table"]),
        "dlq_table",
        NOT_ICEBERG,
    ),
    alone(
        "redpanda.iceberg.mode",
        Wanted::Here(&["disabled"]),
        "disabled",
        "This broker writes no Iceberg tables.",
    ),
    alone("redpanda.iceberg.partition.spec", Wanted::Text, "(hour(redpanda.timestamp))", NOT_ICEBERG),
    alone("redpanda.iceberg.target.lag.ms", Wanted::Number(1, MOST_I64), "60000", NOT_ICEBERG),
    alone("redpanda.key.schema.id.validation", OFF, "false", NO_REGISTRY),
    alone("redpanda.key.subject.name.strategy", Wanted::Word(STRATEGIES), "TopicNameStrategy", NO_SCHEMA_IDS),
    alone(
        "redpanda.leaders.preference",
        Wanted::Racks,
        "none",
        "Accepted and without effect: this cluster has one broker.",
    ),
    alone("redpanda.remote.allowgaps", Wanted::Bool, "false", NOT_TIERED),
    alone("redpanda.remote.delete", Wanted::Bool, "true", NOT_TIERED),
    alone("redpanda.remote.read", OFF, "false", NO_TIERED_STORAGE),
    alone(
        "redpanda.remote.readreplica",
        Wanted::ReadOnly("this broker has no tiered storage to read from"),
        "",
        NO_TIERED_STORAGE,
    ),
    alone("redpanda.remote.recovery", OFF, "false", NO_TIERED_STORAGE),
    alone("redpanda.remote.write", OFF, "false", NO_TIERED_STORAGE),
    alone("redpanda.replicas.preference", Wanted::Racks, "none", NO_REPLICA),
    alone("redpanda.storage.mode", Wanted::Here(&["local", "unset"]), "unset", NO_TIERED_STORAGE),
    alone("redpanda.value.schema.id.validation", OFF, "false", NO_REGISTRY),
    alone(
        "redpanda.value.subject.name.strategy",
        Wanted::Word(STRATEGIES),
        "TopicNameStrategy",
        NO_SCHEMA_IDS,
    ),
    alone(
        "redpanda.virtual.cluster.id",
        Wanted::ReadOnly("this broker has no virtual clusters"),
        "",
        "Virtual cluster of the topic.",
    ),
    alone("remote.copy.lag.bytes", Wanted::Number(-1, MOST_I64), "0", NOT_TIERED),
    alone("remote.copy.lag.ms", Wanted::Number(-1, MOST_I64), "0", NOT_TIERED),
    alone("remote.log.copy.disable", Wanted::Bool, "false", NOT_TIERED),
    alone("remote.log.delete.on.disable", Wanted::Bool, "false", NOT_TIERED),
    alone("remote.storage.enable", OFF, "false", NO_TIERED_STORAGE),
    alone("replication.factor", Wanted::Number(1, 1), "1", "This cluster has one broker and no replica."),
    topic(
        RETENTION_BYTES,
        Wanted::Number(LEAST_I64, MOST_I64),
        Some("log.retention.bytes"),
        "Size of a partition above which the broker removes its oldest segments; no limit below 0.",
    ),
    alone("retention.local.target.bytes", Wanted::Number(-1, MOST_I64), "-1", NOT_TIERED),
    alone("retention.local.target.ms", Wanted::Number(-1, MOST_I64), "-1", NOT_TIERED),
    topic(
        RETENTION_MS,
        Wanted::Number(-1, MOST_I64),
        Some("log.retention.ms"),
        "Age above which the broker removes segments; -1 for no limit.",
    ),
    topic(
        SEGMENT_BYTES,
        Wanted::Number(LEAST_SEGMENT_BYTES, MOST_I32),
        Some("log.segment.bytes"),
        "Size at which the broker closes a segment and begins the next one.",
    ),
    alone(
        "segment.index.bytes",
        Wanted::Number(4, MOST_I32),
        "10485760",
        "Accepted and without effect: the index is as large as it needs to be.",
    ),
    alone("segment.jitter.ms", Wanted::Number(0, MOST_I64), "0", "Accepted and without effect."),
    topic(
        SEGMENT_MS,
        Wanted::Number(1, MOST_I64),
        Some("log.roll.ms"),
        "Age at which the broker closes a segment.",
    ),
    topic(
        "unclean.leader.election.enable",
        Wanted::Bool,
        Some("unclean.leader.election.enable"),
        "Accepted and without effect: this cluster has one broker.",
    ),
    topic(
        WRITE_CACHING,
        Wanted::Word(&["true", "false"]),
        Some(broker::WRITE_CACHING),
        "Whether the broker acknowledges acks=all when the batch is in memory. It flushes by flush.ms and \
         flush.bytes. Never for transactions and group offsets. write_caching_default=disabled overrides \
         it.",
    ),
];

/// A property whose default is a property of the broker.
const fn topic(
    name: &'static str,
    wanted: Wanted,
    broker: Option<&'static str>,
    documentation: &'static str,
) -> Definition {
    Definition { name, aliases: &[], wanted, default: "", broker, documentation }
}

/// A property that only topics have.
const fn alone(
    name: &'static str,
    wanted: Wanted,
    default: &'static str,
    documentation: &'static str,
) -> Definition {
    Definition { name, aliases: &[], wanted, default, broker: None, documentation }
}
