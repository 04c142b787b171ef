//! The properties of the broker: defaults for topics, and what holds for all of them.
//!
//! A value is looked for in the broker's own properties, then in those of the cluster (in the protocol: a broker without
//! a name), then in what the broker was started with, then in the defaults. The first two can be changed while it runs.

use std::collections::BTreeMap;

use super::definition::{Definition, Wanted, find, nearest};
use super::{CLEANUP_POLICIES, CODECS, LEAST_SEGMENT_BYTES, Layer, Row, Source, TIMESTAMP_TYPES, row};
use crate::endpoint::{Endpoint, NODE_ID};
use crate::settings::Settings;

const MOST_I32: i64 = i32::MAX as i64;
const MOST_I64: i64 = i64::MAX;
const LEAST_I64: i64 = i64::MIN;
const AT_START: &str = "it is fixed when the broker starts";
const ONE_BROKER: &str = "this cluster has one broker";
const NO_REPLICA: &str = "Accepted and without effect: this cluster has one broker and no replica.";

/// There is no class of that name; tools ask whether there is any.
const AUTHORIZER: &str = "hone_broker.security.acl";
const AUTO_CREATE: &str = "auto.create.topics.enable";
const PARTITIONS: &str = "num.partitions";
pub(super) const WRITE_CACHING: &str = "write_caching_default";
pub(super) const FLUSH_MS: &str = "raft_replica_max_flush_delay_ms";
pub(super) const FLUSH_BYTES: &str = "raft_replica_max_pending_flush_bytes";

/// By name.
pub(super) static TABLE: &[Definition] = &[
    define("advertised.listeners", &[], Wanted::ReadOnly(AT_START), "", "Address that clients connect to."),
    define(
        "authorizer.class.name",
        &[],
        Wanted::ReadOnly(AT_START),
        "",
        "Class of the authorizer; empty if authorization is off.",
    ),
    define(
        AUTO_CREATE,
        &["auto_create_topics_enabled"],
        Wanted::Bool,
        "true",
        "Whether a client's request for an unknown topic creates the topic.",
    ),
    define("broker.id", &[], Wanted::ReadOnly(AT_START), "1", "Id of this broker."),
    define("broker.rack", &[], Wanted::ReadOnly(ONE_BROKER), "", "Rack of this broker: none."),
    define(
        "compression.type",
        &["log_compression_type"],
        Wanted::Word(CODECS),
        "producer",
        "Default of compression.type of topics.",
    ),
    define(
        "default.replication.factor",
        &["default_topic_replications"],
        Wanted::ReadOnly(ONE_BROKER),
        "1",
        "Replicas of a partition.",
    ),
    define(
        "delete.topic.enable",
        &["delete_topic_enable"],
        Wanted::ReadOnly("every topic can be deleted"),
        "true",
        "Whether DeleteTopics deletes topics.",
    ),
    throttle("follower.replication.throttled.rate"),
    define(
        "group.initial.rebalance.delay.ms",
        &["group_initial_rebalance_delay"],
        Wanted::ReadOnly(AT_START),
        "50",
        "Time that the first members of an empty group wait for others.",
    ),
    define(
        "inter.broker.protocol.version",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "",
        "Version of the protocol between brokers: none.",
    ),
    throttle("leader.replication.throttled.rate"),
    define(
        "log.cleaner.delete.retention.ms",
        &["tombstone_retention_ms"],
        Wanted::Number(0, MOST_I64),
        "86400000",
        "Default of delete.retention.ms of topics.",
    ),
    define(
        "log.cleaner.max.compaction.lag.ms",
        &["max_compaction_lag_ms"],
        Wanted::Number(1, MOST_I64),
        "9223372036854775807",
        "Default of max.compaction.lag.ms of topics.",
    ),
    define(
        "log.cleaner.min.cleanable.ratio",
        &["min_cleanable_dirty_ratio"],
        Wanted::Ratio,
        "0.5",
        "Default of min.cleanable.dirty.ratio of topics.",
    ),
    define(
        "log.cleaner.min.compaction.lag.ms",
        &["min_compaction_lag_ms"],
        Wanted::Number(0, MOST_I64),
        "0",
        "Default of min.compaction.lag.ms of topics.",
    ),
    define(
        "log.cleanup.policy",
        &["log_cleanup_policy"],
        Wanted::Words(CLEANUP_POLICIES),
        "delete",
        "Default of cleanup.policy of topics.",
    ),
    define("log.dirs", &["log.dir"], Wanted::ReadOnly(AT_START), "", "Data folder of the broker."),
    define(
        "log.flush.interval.messages",
        &[],
        Wanted::Number(1, MOST_I64),
        "9223372036854775807",
        "Default of flush.messages of topics. Accepted and without effect.",
    ),
    define(
        "log.message.format.version",
        &[],
        Wanted::ReadOnly("this broker serves batches of format 2 only"),
        "3.0-IV1",
        "Format of batches: 2, that of Kafka 0.11 and newer.",
    ),
    define(
        "log.message.timestamp.after.max.ms",
        &["log_message_timestamp_after_max_ms"],
        Wanted::Number(0, MOST_I64),
        "3600000",
        "Default of message.timestamp.after.max.ms of topics.",
    ),
    define(
        "log.message.timestamp.before.max.ms",
        &["log_message_timestamp_before_max_ms"],
        Wanted::Number(0, MOST_I64),
        "9223372036854775807",
        "Default of message.timestamp.before.max.ms of topics.",
    ),
    define(
        "log.message.timestamp.type",
        &["log_message_timestamp_type"],
        Wanted::Word(TIMESTAMP_TYPES),
        "CreateTime",
        "Default of message.timestamp.type of topics.",
    ),
    define(
        "log.retention.bytes",
        &["retention_bytes"],
        Wanted::Number(LEAST_I64, MOST_I64),
        "-1",
        "Default of retention.bytes of topics.",
    ),
    define(
        "log.retention.hours",
        &[],
        Wanted::ReadOnly("set log.retention.ms"),
        "168",
        "Default of log.retention.ms, in hours.",
    ),
    define(
        "log.retention.ms",
        &["log_retention_ms"],
        Wanted::Number(-1, MOST_I64),
        "604800000",
        "Default of retention.ms of topics.",
    ),
    define(
        "log.roll.ms",
        &["log_segment_ms"],
        Wanted::Number(1, MOST_I64),
        "604800000",
        "Default of segment.ms of topics.",
    ),
    define(
        "log.segment.bytes",
        &["log_segment_size"],
        Wanted::Number(LEAST_SEGMENT_BYTES, MOST_I32),
        "134217728",
        "Default of segment.bytes of topics.",
    ),
    define(
        "message.max.bytes",
        &["kafka_batch_max_bytes"],
        Wanted::Number(0, MOST_I32),
        "1048588",
        "Default of max.message.bytes of topics.",
    ),
    define(
        "min.insync.replicas",
        &[],
        Wanted::Number(1, 1),
        "1",
        "This cluster has one broker and no replica.",
    ),
    define("node.id", &[], Wanted::ReadOnly(AT_START), "1", "Id of this broker."),
    define("num.io.threads", &[], Wanted::ReadOnly(AT_START), "", "Threads that serve requests."),
    define(
        PARTITIONS,
        &["default_topic_partitions"],
        Wanted::Number(1, 10_000),
        "1",
        "Partitions of a topic that is created without a number.",
    ),
    define(
        "offsets.topic.replication.factor",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "1",
        "Copies of the offsets of groups.",
    ),
    define(
        "process.roles",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "broker,controller",
        "Roles of this process in the cluster.",
    ),
    define(
        FLUSH_MS,
        &["log.flush.interval.ms"],
        Wanted::Number(0, MOST_I64),
        "100",
        "Default of flush.ms of topics: longest time that a write stays unflushed.",
    ),
    define(
        FLUSH_BYTES,
        &[],
        Wanted::Number(1, MOST_I64),
        "262144",
        "Default of flush.bytes of topics: largest number of unflushed bytes of a partition.",
    ),
    throttle("replica.alter.log.dirs.io.max.bytes.per.second"),
    define(
        "replica.fetch.max.bytes",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "1048576",
        "Bytes that a replica requests from its leader at once. Without effect: there is no replica.",
    ),
    define(
        "socket.request.max.bytes",
        &["kafka_request_max_bytes"],
        Wanted::ReadOnly(AT_START),
        "",
        "Largest request in bytes. The broker closes the connection of a longer request.",
    ),
    define(
        "transaction.state.log.min.isr",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "1",
        "Copies of the state of transactions that a write waits for.",
    ),
    define(
        "transaction.state.log.replication.factor",
        &[],
        Wanted::ReadOnly(ONE_BROKER),
        "1",
        "Copies of the state of transactions.",
    ),
    define(
        "unclean.leader.election.enable",
        &[],
        Wanted::Bool,
        "false",
        "Default of unclean.leader.election.enable of topics. Accepted and without effect.",
    ),
    define(
        WRITE_CACHING,
        &[],
        Wanted::Word(&["true", "false", "disabled"]),
        "false",
        "Default of write.caching of topics. `disabled` overrides the topics: acks=all then always waits for the flush.",
    ),
];

const fn define(
    name: &'static str,
    aliases: &'static [&'static str],
    wanted: Wanted,
    default: &'static str,
    documentation: &'static str,
) -> Definition {
    Definition { name, aliases, wanted, default, broker: None, documentation }
}

/// A limit on bytes a second between replicas, which tools set while they move partitions.
const fn throttle(name: &'static str) -> Definition {
    define(name, &[], Wanted::Number(0, MOST_I64), "9223372036854775807", NO_REPLICA)
}

/// Whether a property may be given this value when the broker starts. The error names the property, what it may be, and
/// where to look for others.
pub(crate) fn check(name: &str, value: &str) -> Result<(), String> {
    match TABLE.iter().find(|definition| definition.is(name)) {
        Some(Definition { name, wanted: Wanted::ReadOnly(reason), .. }) => {
            Err(match STARTED_WITH.iter().find(|(property, _)| property == name) {
                Some((_, flag)) => format!("--{flag} sets {name}"),
                None => format!("{name} can't be set: {reason}"),
            })
        }
        Some(definition) => definition.check(value).map(drop),
        None => Err(unknown(name)),
    }
}

/// Properties that have a flag of their own on the command line, and no other way to be set.
const STARTED_WITH: &[(&str, &str)] = &[
    ("advertised.listeners", "advertise"),
    ("log.dirs", "data"),
    ("num.io.threads", "threads"),
    ("socket.request.max.bytes", "max-request-bytes"),
];

/// Proposes the default of a topic's property, what is spelled alike, or what holds the name, in this order.
fn unknown(name: &str) -> String {
    const LIST: &str = "--list-properties lists all properties";
    /// A shorter piece is in many names.
    const LEAST_PIECE_BYTES: usize = 4;
    let default_of_topics = super::TABLE.iter().find(|definition| definition.name == name);
    if let Some(default) = default_of_topics.and_then(|definition| definition.broker) {
        return format!("`{name}` is a property of topics, and `{default}` is its default for all topics");
    }
    if default_of_topics.is_some() {
        return format!("`{name}` is a property of topics; set it for a topic. For the broker, {LIST}");
    }
    let known = TABLE.iter().map(|definition| definition.name);
    let also = TABLE.iter().flat_map(|definition| definition.aliases.iter().copied());
    if let Some(near) = nearest(name, known.clone().chain(also)) {
        return format!("unknown property `{name}`; did you mean `{near}`? {LIST}");
    }
    let holding: Vec<_> = known.filter(|known| known.contains(name)).collect();
    if name.len() < LEAST_PIECE_BYTES || holding.is_empty() {
        return format!("unknown property `{name}`; {LIST}");
    }
    format!("unknown property `{name}`; similar ones are {}; {LIST}", holding.join(", "))
}

/// Every property that can be set when the broker starts, as text for the command line.
pub(crate) fn page() -> String {
    const HEAD: &str = "\
Properties of the broker, for --property NAME=VALUE. Changes by clients take precedence over these values.
";
    let mut page = HEAD.to_owned();
    for definition in TABLE.iter().filter(|definition| !definition.is_read_only()) {
        let (name, default) = (definition.name, definition.default);
        let also = match definition.aliases {
            [] => String::new(),
            aliases => format!(" (also {})", aliases.join(", ")),
        };
        let (wanted, about) = (definition.wanted_in_words(), definition.documentation);
        page.push_str(&format!("\n{name}{also}\n    {about}\n    {wanted} [{default}]\n"));
    }
    page
}

/// Where properties of the broker can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All brokers of the cluster.
    Cluster,
    /// This broker; these win.
    Broker,
}

/// The properties of the broker, by where they were set.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrokerProperties {
    /// Whether nothing touches the disk.
    in_memory: bool,
    fixed: BTreeMap<String, String>,
    cluster: BTreeMap<String, String>,
    broker: BTreeMap<String, String>,
}

/// What clients call the one listener's way to talk.
fn protocol(settings: &Settings) -> &'static str {
    match (settings.tls.is_some(), settings.sasl) {
        (false, false) => "PLAINTEXT",
        (false, true) => "SASL_PLAINTEXT",
        (true, false) => "SSL",
        (true, true) => "SASL_SSL",
    }
}

impl BrokerProperties {
    /// What a broker is started with. The error names the property and what it may be.
    pub(crate) fn fixed(settings: &Settings, advertised: &Endpoint) -> Result<Self, String> {
        let authorizer = if settings.authorize { AUTHORIZER } else { "" };
        let fixed = [
            ("advertised.listeners", format!("{}://{advertised}", protocol(settings))),
            ("authorizer.class.name", authorizer.to_owned()),
            ("broker.id", NODE_ID.to_string()),
            (AUTO_CREATE, settings.auto_create_topics.to_string()),
            ("group.initial.rebalance.delay.ms", settings.group_initial_delay_ms.to_string()),
            ("log.dirs", settings.place()),
            ("node.id", NODE_ID.to_string()),
            ("num.io.threads", settings.threads.to_string()),
            (PARTITIONS, settings.default_partitions.to_string()),
            ("socket.request.max.bytes", settings.max_request_bytes.to_string()),
        ];
        let is_default = |(name, value): &(&str, String)| {
            TABLE.iter().any(|definition| definition.name == *name && definition.default == value)
        };
        let given = fixed.into_iter().filter(|pair| !is_default(pair));
        let mut fixed: BTreeMap<_, _> = given.map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in &settings.properties {
            let definition = find(TABLE, name)?;
            fixed.insert(definition.name.to_owned(), definition.check(value)?);
        }
        Ok(Self { fixed, ..Self::default() })
    }

    /// These, of a broker that keeps everything in memory.
    pub(crate) fn in_memory(self) -> Self {
        Self { in_memory: true, ..self }
    }

    /// Whether nothing touches the disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// These, with other ones in a scope. The error names the property and what it may be.
    pub(crate) fn with(&self, scope: Scope, given: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut checked = BTreeMap::new();
        for (name, value) in given {
            let definition = find(TABLE, name)?;
            checked.insert(definition.name.to_owned(), definition.check(value)?);
        }
        let mut changed = self.clone();
        match scope {
            Scope::Cluster => changed.cluster = checked,
            Scope::Broker => changed.broker = checked,
        }
        Ok(changed)
    }

    /// What was set in a scope.
    pub(crate) fn given(&self, scope: Scope) -> &BTreeMap<String, String> {
        match scope {
            Scope::Cluster => &self.cluster,
            Scope::Broker => &self.broker,
        }
    }

    /// The value in force; that of a name that is not in the table is empty.
    pub(crate) fn value(&self, name: &str) -> &str {
        let set = [&self.broker, &self.cluster, &self.fixed].into_iter().find_map(|layer| layer.get(name));
        match set {
            Some(value) => value,
            None => TABLE
                .iter()
                .find(|definition| definition.is(name))
                .map_or("", |definition| definition.default),
        }
    }

    /// Whether Metadata for an unknown topic makes it (if the client does not forbid it).
    pub(crate) fn auto_create_topics(&self) -> bool {
        self.value(AUTO_CREATE) == "true"
    }

    /// Partitions of a topic that is made without a number.
    pub(crate) fn default_partitions(&self) -> i32 {
        self.value(PARTITIONS).parse().unwrap_or(1)
    }

    /// Whether the topics' write caching is overruled.
    pub(crate) fn forbids_write_caching(&self) -> bool {
        self.value(WRITE_CACHING) == "disabled"
    }

    /// Where the value of a property comes from, and the values behind it.
    pub(crate) fn layers(&self, definition: &'static Definition) -> Vec<Layer> {
        let name = definition.name;
        let set =
            [(&self.broker, Source::Broker), (&self.cluster, Source::Cluster), (&self.fixed, Source::Start)];
        let mut layers: Vec<_> = set
            .into_iter()
            .filter_map(|(values, source)| Some(Layer { name, value: values.get(name)?.clone(), source }))
            .collect();
        if !definition.default.is_empty() {
            layers.push(Layer { name, value: definition.default.to_owned(), source: Source::Default });
        }
        layers
    }

    /// Every property of this broker.
    pub(crate) fn describe(&self) -> Vec<Row> {
        TABLE.iter().map(|definition| row(definition, self.layers(definition))).collect()
    }

    /// The properties that were set for the whole cluster.
    pub(crate) fn describe_cluster(&self) -> Vec<Row> {
        let set = TABLE.iter().filter_map(|definition| {
            let value = self.cluster.get(definition.name)?.clone();
            Some(row(definition, vec![Layer { name: definition.name, value, source: Source::Cluster }]))
        });
        set.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: &str) -> BTreeMap<String, String> {
        [(name.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn every_default_is_a_value_that_could_be_set() {
        for definition in TABLE.iter().filter(|definition| !definition.is_read_only()) {
            assert_eq!(definition.check(definition.default).as_deref(), Ok(definition.default));
        }
        assert!(TABLE.is_sorted_by_key(|definition| definition.name));
    }

    #[test]
    fn the_broker_wins_over_the_cluster_and_that_over_the_start() {
        let mut settings = Settings::new("d");
        settings.default_partitions = 3;
        let start = BrokerProperties::fixed(&settings, &settings.listen.into()).unwrap();
        assert_eq!(start.default_partitions(), 3);
        let cluster = start.with(Scope::Cluster, &given(PARTITIONS, "5")).unwrap();
        assert_eq!(cluster.default_partitions(), 5);
        let broker = cluster.with(Scope::Broker, &given("default_topic_partitions", " 7 ")).unwrap();
        assert_eq!(broker.default_partitions(), 7);
        assert_eq!(broker.given(Scope::Broker), &given(PARTITIONS, "7"), "under the name in the table");
        let definition = find(TABLE, PARTITIONS).unwrap();
        let layers: Vec<_> =
            broker.layers(definition).into_iter().map(|layer| (layer.value, layer.source)).collect();
        let text = str::to_owned;
        assert_eq!(
            layers,
            [
                (text("7"), Source::Broker),
                (text("5"), Source::Cluster),
                (text("3"), Source::Start),
                (text("1"), Source::Default)
            ]
        );
        assert_eq!(broker.describe_cluster().len(), 1);
        let without = broker.with(Scope::Broker, &BTreeMap::new()).unwrap();
        assert_eq!(without.default_partitions(), 5);
    }

    /// What tools ask a broker for, with what holds for a cluster of one.
    #[test]
    fn what_tools_ask_for_is_told() {
        let mut settings = Settings::new("d");
        let told = |settings: &Settings, name: &str| {
            let properties = BrokerProperties::fixed(settings, &settings.listen.into()).unwrap();
            let row = properties.describe().into_iter().find(|row| row.definition.name == name);
            row.unwrap_or_else(|| panic!("{name}")).value
        };
        for (name, value) in [
            ("authorizer.class.name", None),
            ("broker.id", Some("1")),
            ("broker.rack", None),
            ("delete.topic.enable", Some("true")),
            ("inter.broker.protocol.version", None),
            ("log.dirs", Some("d")),
            ("log.flush.interval.messages", Some("9223372036854775807")),
            ("log.message.format.version", Some("3.0-IV1")),
            ("log.retention.hours", Some("168")),
            ("node.id", Some("1")),
            ("offsets.topic.replication.factor", Some("1")),
            ("process.roles", Some("broker,controller")),
            ("replica.fetch.max.bytes", Some("1048576")),
            ("transaction.state.log.min.isr", Some("1")),
            ("transaction.state.log.replication.factor", Some("1")),
            ("unclean.leader.election.enable", Some("false")),
        ] {
            assert_eq!(told(&settings, name).as_deref(), value, "{name}");
        }
        settings.authorize = true;
        assert_eq!(told(&settings, "authorizer.class.name").as_deref(), Some(AUTHORIZER));
        let hours = TABLE.iter().find(|row| row.name == "log.retention.hours").unwrap();
        let ms = TABLE.iter().find(|row| row.name == "log.retention.ms").unwrap();
        let number = |row: &Definition| row.default.parse::<u64>().unwrap();
        assert_eq!(number(hours) * 3_600_000, number(ms));
    }

    #[test]
    fn at_the_start_wrong_names_are_told_with_right_ones() {
        for (name, wanted) in [
            ("num.partition", "did you mean `num.partitions`?"),
            ("kafka_batch_max_byte", "did you mean `kafka_batch_max_bytes`?"),
            ("retention.ms", "`retention.ms` is a property of topics, and `log.retention.ms` is its default"),
            ("preallocate", "`preallocate` is a property of topics; set it for a topic"),
            (
                "compaction.lag",
                "similar ones are log.cleaner.max.compaction.lag.ms, log.cleaner.min.compaction.lag.ms",
            ),
            ("background.threads", "unknown property `background.threads`; --list-properties"),
            ("x", "unknown property `x`; --list-properties"),
            ("log.dirs", "--data sets log.dirs"),
            ("broker.id", "broker.id can't be set"),
        ] {
            let error = check(name, "1").unwrap_err();
            assert!(error.contains(wanted), "{name}: {error}");
        }
        let flags = crate::arguments::flags();
        for (property, flag) in STARTED_WITH {
            assert!(find(TABLE, property).unwrap().is_read_only());
            assert!(flags.iter().any(|known| known.name == *flag), "--{flag}");
        }
    }

    #[test]
    fn what_can_not_be_set_is_refused_with_the_reason() {
        let properties = BrokerProperties::default();
        for (name, value, wanted) in [
            ("broker.id", "2", "broker.id can't be set: it is fixed when the broker starts"),
            ("default.replication.factor", "3", "this cluster has one broker"),
            ("min.insync.replicas", "2", "use 1. This cluster has one broker and no replica."),
            (WRITE_CACHING, "maybe", "use true, false or disabled"),
            (PARTITIONS, "0", "use a number from 1 to 10000"),
            (AUTO_CREATE, "yes", "use true or false"),
            ("num.partition", "2", "did you mean `num.partitions`?"),
            ("background.threads", "2", "unknown property `background.threads`"),
        ] {
            let error = properties.with(Scope::Cluster, &given(name, value)).err().unwrap_or_default();
            assert!(error.contains(wanted), "{name}={value}: {error}");
        }
    }
}
