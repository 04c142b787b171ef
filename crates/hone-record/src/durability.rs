//! Differences between the arms of a comparison: their durability guarantees, and the work that their loads ask for.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::{Change, Comparison};
use crate::metric::Metric;
use crate::window::Environment;
use crate::workload::{Engine, Workload};

const ACKNOWLEDGED: &str = "what must have happened before a record counts as acknowledged";
const FLUSHED: &str = "when a record is safe from a power cut";
const REPLICAS: &str = "how many replicas must have a record";
const ELECTION: &str = "whether a leader that lacks acknowledged records may take over";
const ONCE: &str = "whether a repeated send is stored only once";
const TOGETHER: &str = "whether readers see records of failed transactions";

/// Words in the names of durability settings, and the guarantee that each affects. A setting matches if its name has these words in this
/// order side by side, in any spelling: `min.insync.replicas`, `KAFKA_MIN_INSYNC_REPLICAS`, `minInsyncReplicas`.
const PROMISES: [(&str, &str); 29] = [
    ("acks", ACKNOWLEDGED),
    ("requiredacks", ACKNOWLEDGED),
    ("flush", FLUSHED),
    ("fsync", FLUSHED),
    ("fdatasync", FLUSHED),
    ("no sync", FLUSHED),
    ("write caching", FLUSHED),
    ("write cache", FLUSHED),
    ("developer mode", FLUSHED),
    ("dev container", FLUSHED),
    ("dirty ratio", FLUSHED),
    ("dirty bytes", FLUSHED),
    ("dirty background ratio", FLUSHED),
    ("dirty background bytes", FLUSHED),
    ("dirty expire centisecs", FLUSHED),
    ("dirty writeback centisecs", FLUSHED),
    ("insync", REPLICAS),
    ("in sync", REPLICAS),
    ("isr", REPLICAS),
    ("replica lag", REPLICAS),
    ("replication factor", REPLICAS),
    ("default topic replication", REPLICAS),
    ("default topic replications", REPLICAS),
    ("minimum topic replications", REPLICAS),
    ("unclean", ELECTION),
    ("idempotence", ONCE),
    ("idempotent", ONCE),
    ("transactional id", TOGETHER),
    ("isolation level", TOGETHER),
];

/// The durability guarantee that a setting affects; `None` if it affects none.
fn promise_of(setting: &str) -> Option<&'static str> {
    let setting = format!(" {} ", lower_case_words(setting));
    PROMISES.iter().find(|(key, _)| setting.contains(&format!(" {key} "))).map(|(_, guarantee)| *guarantee)
}

/// Lower-case words with a space between them. A capital after a small letter begins a word.
fn lower_case_words(name: &str) -> String {
    let mut found = String::new();
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            found.push(' ');
        }
        if letter.is_alphanumeric() {
            found.extend(letter.to_lowercase());
        }
        before = letter;
    }
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Change {
    /// The guarantee that differs in B, if the changed setting affects one.
    pub fn promise(&self) -> Option<&'static str> {
        if self.kind == "arg" && self.name == "--memory" && self.to.is_empty() {
            return Some(FLUSHED);
        }
        // `--set KEY=VALUE` has the setting's name after the flag's name.
        let behind = if self.kind == "arg" { [Some(&self.to), self.from.as_ref()] } else { [None, None] };
        let names = std::iter::once(&self.name).chain(behind.into_iter().flatten());
        names.map(String::as_str).find_map(promise_of)
    }
}

impl Workload {
    /// Whether the latencies of the load end when a request is sent, since acks=0 brings no answer. The load or its client's own settings
    /// can ask for acks=0.
    pub fn ends_at_the_send(&self) -> bool {
        let of_client = match &self.engine {
            Engine::Wire | Engine::Tool { .. } | Engine::Exits { .. } => None,
            Engine::Librdkafka { settings } | Engine::Command { settings, .. } => settings
                .iter()
                .find(|(name, _)| promise_of(name) == Some(ACKNOWLEDGED))
                .map(|(_, value)| value.as_str()),
        };
        let none = |value: &str| ["0", "none", "no", "noresponse", "fireandforget"].contains(&value);
        let plain = |value: &str| lower_case_words(value).replace(' ', "");
        of_client.map_or(self.acks == 0, |value| none(&plain(value)))
    }

    fn records_per_s(&self) -> f64 {
        let batches = if self.engine == Engine::Wire { self.partitions_per_request } else { 1 };
        self.requests_per_s * f64::from(self.records_per_batch) * f64::from(batches)
    }
}

/// Why a ramp search provides the capacity and no other metric.
const CLIMBS: &str = "the load is a ramp search and ends in each window where the SLO is missed: no two \
    arms had the same load";

/// Metrics that can't be compared between two loads, with the reason.
pub fn refused_for_loads([a, b]: &[Workload; 2]) -> BTreeMap<Metric, String> {
    if a.climb().is_some() && b.climb().is_some() {
        let others = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Capacity);
        return others.map(|metric| (metric, CLIMBS.to_owned())).collect();
    }
    let (name, other) = match (a.ends_at_the_send(), b.ends_at_the_send()) {
        (true, false) => ("A", "B"),
        (false, true) => ("B", "A"),
        _ => return BTreeMap::new(),
    };
    let reason = format!(
        "with acks=0 a request of {name} ends when it is sent, and a request of {other} ends when it is \
         answered: these are two different latencies"
    );
    let latencies = Metric::ALL.into_iter().filter(|metric| metric.is_latency());
    latencies.map(|metric| (metric, reason.clone())).collect()
}

/// Durability settings of brokers and topics that differ, in words. Settings that one side does not report are left out.
pub fn unlike_promises([a, b]: [&Environment; 2]) -> Vec<String> {
    type Settings = BTreeMap<String, String>;
    type Of = fn(&Environment) -> &Settings;
    let kinds: [(&str, &str, Of); 2] = [
        ("broker", "configuration of broker", |of| &of.broker_config),
        ("topic", "topic settings", |of| &of.topic_config),
    ];
    let mut found = Vec::new();
    for (kind, unknown, settings) in kinds {
        if [a, b].iter().any(|of| of.unknown.iter().any(|what| what.starts_with(unknown))) {
            continue;
        }
        let (a, b) = (settings(a), settings(b));
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let Some(guarantee) = promise_of(name).filter(|_| a.get(name) != b.get(name)) else { continue };
            let value = |of: &Settings| of.get(name).map_or("not set", String::as_str).to_owned();
            found.push(format!("{kind}.{name}: {} in A, {} in B ({guarantee})", value(a), value(b)));
        }
    }
    if let (Some(of_a), Some(of_b)) = (a.replicas, b.replicas)
        && of_a != of_b
    {
        found.push(format!("replicas of the topic: {of_a} in A, {of_b} in B ({REPLICAS})"));
    }
    found
}

impl Comparison {
    /// The difference in durability guarantees, as a sentence. `None` if both arms have the same guarantees, as far as the change and the
    /// reported settings of brokers and topics show.
    pub fn other_promise(&self) -> Option<String> {
        let asked = match (&self.change, &self.workload_b) {
            (_, Some(b)) if b.acks != self.workload.acks => {
                Some((format!("acks={} in A, acks={} in B", self.workload.acks, b.acks), ACKNOWLEDGED))
            }
            (Some(change), _) => change.promise().map(|guarantee| (change.label(), guarantee)),
            _ => None,
        };
        if let Some((what, guarantee)) = asked {
            return Some(format!(
                "The arms have different durability guarantees: {what} ({guarantee}). The comparison asks \
                 for the price of this difference. It does not make B better at the same job."
            ));
        }
        (!self.unlike_promises.is_empty()).then(|| {
            format!(
                "The arms have different durability guarantees: {}. They do not do the same job. Make them \
                 alike, or read the result as the price of the guarantee.",
                self.unlike_promises.join("; ")
            )
        })
    }

    /// The difference between the loads of the arms, and the figures that stay comparable; `None` if both arms have the same load.
    pub fn unlike_loads(&self) -> Option<String> {
        let (a, b) = (&self.workload, self.workload_b.as_ref()?);
        let times = b.records_per_s() / a.records_per_s();
        if (times - 1.0).abs() > 1e-9 {
            return Some(format!(
                "The loads differ: at the same requests/s, B carries {times:.3} times the records/s of A. \
                 The fixed cost of a request is spread over more or fewer records. So CPU per record is the \
                 price of a record in each kind of request, and does not make B better at the same job. CPU \
                 per request and latencies belong to requests of different sizes. hone load --sweep-records \
                 compares batch sizes at the same records/s."
            ));
        }
        if a.record_bytes != b.record_bytes {
            return Some(format!(
                "The loads differ: records have {} bytes in A and {} in B, at the same records/s and \
                 requests/s. CPU per record and per request compare the price of records of these sizes. \
                 The ratio of CPU per byte is their ratio times {:.3}. Latencies belong to requests of \
                 different sizes.",
                a.record_bytes,
                b.record_bytes,
                f64::from(a.record_bytes) / f64::from(b.record_bytes)
            ));
        }
        (a.consumers != b.consumers).then(|| {
            format!(
                "The loads differ: {} consumers read from A and {} from B. CPU per record and per request \
                 include the cost of their fetches, so they are not the price of producing alone.",
                a.consumers, b.consumers
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: &str, name: &str, to: &str) -> Change {
        Change { kind: kind.to_owned(), name: name.to_owned(), from: None, to: to.to_owned(), was: None }
    }

    #[test]
    fn settings_that_bear_a_promise_are_known_in_any_spelling() {
        for (kind, name, to, promise) in [
            ("load", "acks", "1", ACKNOWLEDGED),
            ("client", "request.required.acks", "1", ACKNOWLEDGED),
            ("client", "RequiredAcks", "WaitForLocal", ACKNOWLEDGED),
            ("client", "requiredacks", "1", ACKNOWLEDGED),
            ("env", "KAFKA_PRODUCER_ACKS", "1", ACKNOWLEDGED),
            ("arg", "--producer-property", "acks=1", ACKNOWLEDGED),
            ("broker", "log.flush.interval.messages", "1", FLUSHED),
            ("topic", "flush.ms", "1000", FLUSHED),
            ("env", "KAFKA_LOG_FLUSH_INTERVAL_MS", "1", FLUSHED),
            ("topic", "write.caching", "true", FLUSHED),
            ("broker", "write_caching_default", "true", FLUSHED),
            ("broker", "raft_replica_max_pending_flush_bytes", "1", FLUSHED),
            ("broker", "raft_replica_max_flush_delay_ms", "1", FLUSHED),
            ("arg", "--unsafe-bypass-fsync", "true", FLUSHED),
            ("arg", "--memory", "", FLUSHED),
            ("arg", "--set", "redpanda.developer_mode=true", FLUSHED),
            ("host", "vm.dirty_expire_centisecs", "100", FLUSHED),
            ("host", "/sys/block/sda/queue/write_cache", "write through", FLUSHED),
            ("topic", "min.insync.replicas", "1", REPLICAS),
            ("env", "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1", REPLICAS),
            ("broker", "replica.lag.time.max.ms", "1", REPLICAS),
            ("broker", "default.replication.factor", "1", REPLICAS),
            ("broker", "default_topic_replications", "1", REPLICAS),
            ("broker", "unclean.leader.election.enable", "true", ELECTION),
            ("load", "idempotent", "true", ONCE),
            ("client", "enable.idempotence", "true", ONCE),
        ] {
            assert_eq!(change(kind, name, to).promise(), Some(promise), "{kind}.{name}={to}");
        }
        for (kind, name, to) in [
            ("client", "linger.ms", "5"),
            ("client", "batch.size", "5"),
            ("topic", "compression.type", "zstd"),
            ("broker", "num.io.threads", "4"),
            ("broker", "num.replica.fetchers", "4"),
            ("env", "CALLBACKS", "1"),
            ("env", "DIRTY", "1"),
            ("arg", "--memory", "4G"),
            ("host", "vm.swappiness", "1"),
        ] {
            assert_eq!(change(kind, name, to).promise(), None, "{kind}.{name}={to}");
        }
    }

    fn workload(acks: i16, settings: Option<(&str, &str)>) -> Workload {
        let engine = settings.map_or(Engine::Wire, |(name, value)| Engine::Command {
            command: vec!["client".to_owned()],
            settings: [(name.to_owned(), value.to_owned())].into(),
        });
        Workload { engine, acks, ..crate::merge::tests::workload() }
    }

    #[test]
    fn settings_of_two_targets_are_held_against_each_other() {
        let set = |settings: &[(&str, &str)]| {
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let of = |broker: &[(&str, &str)], topic: &[(&str, &str)], replicas| Environment {
            broker_config: set(broker),
            topic_config: set(topic),
            replicas,
            ..Environment::default()
        };
        let a = of(&[("log.flush.interval.messages", "1"), ("num.io.threads", "4")], &[], Some(1));
        assert_eq!(unlike_promises([&a, &a]), Vec::<String>::new());
        let b = of(&[("num.io.threads", "8")], &[("write.caching", "true")], Some(3));
        let told = unlike_promises([&a, &b]);
        let wanted = [
            "broker.log.flush.interval.messages: 1 in A, not set in B (when a record is safe from a power cut)",
            "topic.write.caching: not set in A, true in B (when a record is safe from a power cut)",
            "replicas of the topic: 1 in A, 3 in B (how many replicas must have a record)",
        ];
        assert_eq!(told, wanted);
        // A setting that could not be read is not the default.
        let unknown = vec!["configuration of broker 1: not authorised".to_owned()];
        let silent = Environment { unknown, ..of(&[], &[], None) };
        assert_eq!(unlike_promises([&a, &silent]), Vec::<String>::new());
    }

    #[test]
    fn what_ends_at_the_send_has_no_latency_beside_what_is_answered() {
        let plain = workload(-1, None);
        for (other, ends) in [
            (workload(0, None), true),
            (workload(1, None), false),
            (workload(-1, Some(("acks", "0"))), true),
            (workload(-1, Some(("RequiredAcks", "NoResponse"))), true),
            (workload(0, Some(("acks", "all"))), false),
            (workload(-1, Some(("linger.ms", "0"))), false),
        ] {
            let refused = refused_for_loads(&[plain.clone(), other.clone()]);
            assert_eq!(refused.contains_key(&Metric::LatencyP99), ends, "{other:?}");
            assert!(!refused.contains_key(&Metric::CpuPerRecord));
            assert_eq!(refused_for_loads(&[other.clone(), plain.clone()]).len(), refused.len());
            assert!(refused_for_loads(&[other.clone(), other]).is_empty(), "both end alike");
        }
        let refused = refused_for_loads(&[plain, workload(0, None)]);
        assert!(refused[&Metric::LatencyP50].contains("acks=0 a request of B ends when it is sent"));
    }
}
