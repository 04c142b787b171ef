//! The conclusions about a topic's batches: whether they hurt, why they are as they are, and the cheapest remedy.

use std::collections::BTreeMap;

use hone_record::{BatchCap, BatchFinding, BatchTrigger, BatchVerdict, KeyUse};

use crate::trigger::Habits;

/// An NVMe page: below it, each batch that is flushed alone writes a page ("Batch tuning in Redpanda", part 2).
pub const LEAST_BYTES: f64 = 4_096.0;
/// The better goal for topics of high volume (same source).
pub const BETTER_BYTES: f64 = 16_384.0;
/// Below this rate batches cost next to nothing, whatever their size. Hone's own limit.
pub const LOW_BATCHES_PER_S: f64 = 100.0;
/// The most reasons in a report.
const MOST_TOLD: usize = 6;
/// Up to this many producers with the same reason are listed separately.
const MOST_ALONE: usize = 3;
/// From this share of small batches on, the report gives a reason for a producer.
const SMALL_SHARE: f64 = 0.2;
const LEAST_SHARE: f64 = 0.02;
/// A sender with a longer mean wait waits for the broker.
const KEPT_WAITING_MS: u64 = 20;
/// From this share of records without a key on, they stay with one partition at a time.
const KEYLESS_SHARE: f64 = 0.05;
/// The action without a replay.
const REPLAY: &str =
    "replay the topic's records with `hone batch whatif`, which shows the effect of linger and batch size";

/// The remedy if no linger helps, and the same for records with keys.
pub const FEWER: &str =
    "write with fewer producers, to fewer partitions, or with a sticky partitioner for records without keys";
/// See [`FEWER`].
pub const FEWER_FOR_KEYS: &str = "write to fewer partitions, or with fewer producers for the same keys";
/// The remedy if flushes or ends of transactions close the batches.
pub const LESS_OFTEN: &str = "flush or commit less often: after many records, or after a time";
/// For clients that the user can't change.
pub const UNTUNABLE: &str = ". If you can't change the clients, `hone batch caching` shows the gain and the \
                             risk of acknowledging from memory";
const BLOG: &str = "Batch tuning in Redpanda, parts 1 and 2";
const ARRIVALS: &str = "E[n] = 1 + rate x linger, for a producer and a partition";
const ACCUMULATOR: &str = "Kafka's RecordAccumulator.drain";

/// The facts about a topic for the verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Topic<'a> {
    /// Mean bytes of a batch.
    pub mean_bytes: f64,
    /// Batches below 16 KiB, and their bytes.
    pub small: [u64; 2],
    /// Bytes of whole pages per byte, if each batch was written alone.
    pub pages: f64,
    /// Batches per second, if the times show it.
    pub batches_per_s: Option<f64>,
    /// All batches, for shares.
    pub batches: u64,
    /// Number of partitions.
    pub partitions: usize,
    /// The evidence of the keys.
    pub keys: Option<&'a KeyUse>,
    /// The longest linger that the user tolerates.
    pub tolerable_linger_ms: f64,
}

/// One producer, or all without an id.
#[derive(Debug, Clone, PartialEq)]
pub struct Writer<'a> {
    /// Its id.
    pub id: Option<i64>,
    /// Batches.
    pub batches: u64,
    /// Mean records of a batch.
    pub mean_records: f64,
    /// Mean bytes of a batch, of those below 16 KiB.
    pub mean_bytes: f64,
    /// Share of its batches that are below, 0 to 1.
    pub small_share: f64,
    /// Records per second to one partition.
    pub rate: Option<f64>,
    /// Number of partitions that it writes to.
    pub partitions: usize,
    /// The least number of producers.
    pub mixed: usize,
    /// Median of the times from first to last record.
    pub middle_span_ms: Option<u64>,
    /// The evidence of its headers.
    pub habits: &'a Habits,
}

/// The topic's size first, then the reasons, those of most batches first. A reason that many producers share appears once.
pub fn findings(topic: &Topic<'_>, writers: &[Writer<'_>]) -> Vec<BatchFinding> {
    let size = size(topic);
    if matches!(size.verdict, BatchVerdict::Healthy | BatchVerdict::Quiet | BatchVerdict::NoEvidence) {
        return vec![size];
    }
    let mut by_verdict: BTreeMap<BatchVerdict, Vec<BatchFinding>> = BTreeMap::new();
    for finding in writers.iter().flat_map(|writer| reasons(topic, writer)) {
        by_verdict.entry(finding.verdict).or_default().push(finding);
    }
    let mut told: Vec<BatchFinding> = by_verdict.into_values().flat_map(told_once).collect();
    told.sort_by(|one, other| other.share.total_cmp(&one.share));
    let some = told.iter().filter(|finding| finding.share >= LEAST_SHARE).count().clamp(1, MOST_TOLD);
    told.truncate(some);
    std::iter::once(size).chain(told).collect()
}

/// Separate findings if they are few, otherwise one, in the words of the largest.
fn told_once(mut same: Vec<BatchFinding>) -> Vec<BatchFinding> {
    same.sort_by(|one, other| other.share.total_cmp(&one.share));
    if same.len() <= MOST_ALONE {
        return same;
    }
    let (count, share) = (same.len(), same.iter().map(|finding| finding.share).sum());
    let largest = same.into_iter().next();
    largest
        .map(|largest| {
            let who = largest.producer.map_or_else(String::new, |id| format!(" (here {id})"));
            let evidence =
                format!("{count} producers; the one with the most batches{who}: {}", largest.evidence);
            vec![BatchFinding { share, producer: None, evidence, ..largest }]
        })
        .unwrap_or_default()
}

fn share(topic: &Topic<'_>, writer: &Writer<'_>) -> f64 {
    writer.batches as f64 / topic.batches.max(1) as f64
}

fn size(topic: &Topic<'_>) -> BatchFinding {
    let told = |verdict, evidence: String, action: &str| BatchFinding {
        verdict,
        share: 1.0,
        producer: None,
        evidence,
        action: action.to_owned(),
        rule: BLOG.to_owned(),
    };
    if topic.batches == 0 {
        let none = "there is no batch of a producer".to_owned();
        return told(BatchVerdict::NoEvidence, none, "read a longer time (--last), or a time with load");
    }
    let [small, small_bytes] = topic.small;
    let small_share = small as f64 / topic.batches as f64;
    let small_mean = small_bytes as f64 / small.max(1) as f64;
    let rate = topic.batches_per_s.map_or(String::new(), |rate| format!(", {rate:.0} batches/s"));
    // A mean hides the problem if sizes differ.
    let parts = if (0.01..0.99).contains(&small_share) {
        format!(
            "; {:.0} % of the batches are below 16 KiB, with {small_mean:.0} bytes on average",
            100.0 * small_share
        )
    } else {
        String::new()
    };
    let seen = format!("{:.0} bytes per batch on average{rate}{parts}", topic.mean_bytes);
    let small_per_s = topic.batches_per_s.map(|rate| rate * small_share);
    let is_large = small_per_s.map_or(small_share < 0.5, |rate| rate < LOW_BATCHES_PER_S);
    if is_large && topic.mean_bytes >= BETTER_BYTES {
        told(BatchVerdict::Healthy, seen, "no change is necessary")
    } else if is_large && small_per_s.is_some() {
        let rule = format!("fewer than {LOW_BATCHES_PER_S} small batches/s (Hone's own)");
        let action = "no change is necessary; check again when it has more traffic";
        BatchFinding { rule, ..told(BatchVerdict::Quiet, format!("{seen}: too few to matter"), action) }
    } else if small_mean >= LEAST_BYTES {
        told(BatchVerdict::Fair, format!("{seen}: above 4 KiB, below 16 KiB"), "worth a try if CPU is short")
    } else {
        let seen = format!(
            "{seen}: if each is written to disk alone, 4 KiB pages make {:.1} times as many bytes",
            topic.pages
        );
        told(BatchVerdict::Small, seen, "see the reasons below, in their order")
    }
}

fn reasons(topic: &Topic<'_>, writer: &Writer<'_>) -> Vec<BatchFinding> {
    let mut found = Vec::new();
    if let Some(dealt) = dealt_in_turn(topic, writer) {
        found.push(dealt);
    }
    if writer.small_share >= SMALL_SHARE {
        let main = writer.habits.triggers.first().map_or(BatchTrigger::Unknown, |(trigger, _)| *trigger);
        found.push(reason(topic, writer, main));
    }
    found
}

fn reason(topic: &Topic<'_>, writer: &Writer<'_>, main: BatchTrigger) -> BatchFinding {
    let evidence = writer.habits.evidence.join("; ");
    let told = |verdict, action: String, rule: &str| BatchFinding {
        verdict,
        share: share(topic, writer),
        producer: writer.id,
        evidence: evidence.clone(),
        action,
        rule: rule.to_owned(),
    };
    match main {
        BatchTrigger::Size | BatchTrigger::Count => {
            told(BatchVerdict::SizeCapped, larger(writer.habits.cap), "Kafka's ProducerConfig, KIP-782")
        }
        // With others that waited for their linger, a longer one helps all of them.
        BatchTrigger::Drained if !shows(writer.habits, BatchTrigger::Time) => told(
            BatchVerdict::CoDrained,
            "raise batch.size for the hot partitions, spread their leaders or their keys; a longer linger changes nothing".to_owned(),
            ACCUMULATOR,
        ),
        BatchTrigger::Flush => told(
            BatchVerdict::Flusher,
            LESS_OFTEN.to_owned() + UNTUNABLE,
            "Kafka's RecordAccumulator.beginFlush",
        ),
        BatchTrigger::OneByOne => {
            let linger_ms = writer.habits.linger_ms.filter(|linger_ms| *linger_ms > 0);
            let rule = match linger_ms {
                Some(_) => "a closed loop sends one record per round trip, and waits for the whole linger \
                            each time",
                None => "a closed loop sends one record per round trip, whatever the linger is",
            };
            told(BatchVerdict::SyncSender, of_a_waiting_sender(linger_ms.map(|ms| ms as f64)), rule)
        }
        BatchTrigger::SenderFree if writer.middle_span_ms.is_some_and(|span| span >= KEPT_WAITING_MS) => told(
            BatchVerdict::BackPressured,
            "the broker is the bottleneck: larger batches (batch.size, linger) shorten its queue and the \
             latency".to_owned(),
            BLOG,
        ),
        BatchTrigger::Unknown => told(
            BatchVerdict::NoEvidence,
            "read a longer time (--last), or more bytes (--read-limit)".to_owned(),
            "thresholds of the triggers",
        ),
        BatchTrigger::Time | BatchTrigger::Drained | BatchTrigger::SenderFree | BatchTrigger::Alone => {
            let (verdict, action) = by_linger(topic, writer);
            told(verdict, action, ARRIVALS)
        }
    }
}

/// The remedy for a sender that waits for each answer, and for at least this many milliseconds.
pub fn of_a_waiting_sender(linger_ms: Option<f64>) -> String {
    let action = match linger_ms {
        Some(linger_ms) => format!(
            "set linger to 0: the sender waits for each answer, so each record waits {linger_ms} ms (the \
             linger, or the shortest answer) for others that never come. Or let the application send \
             asynchronously; then the linger fills batches"
        ),
        None => {
            "do not raise linger: each record would wait for it. Let the application send asynchronously (if \
             a timer sends the records without waiting, linger helps)"
                .to_owned()
        }
    };
    action + UNTUNABLE
}

/// Whether this trigger closed more than a few of its batches.
fn shows(habits: &Habits, wanted: BatchTrigger) -> bool {
    habits.triggers.iter().any(|(trigger, share)| *trigger == wanted && *share > 0.01)
}

fn larger(cap: Option<BatchCap>) -> String {
    match cap {
        Some(BatchCap::Bytes(bytes)) => {
            let wanted = (bytes * 4).max(65_536);
            format!(
                "raise batch.size from {bytes} to {wanted}; Java reserves that much memory for every \
                 partition with an open batch (buffer.memory)"
            )
        }
        Some(BatchCap::Records(records)) => format!("raise batch.num.messages above {records}"),
        None => "raise batch.size".to_owned(),
    }
}

/// Whether a second record arrives within the longest tolerable linger. A replay shows the gain of a linger.
fn by_linger(topic: &Topic<'_>, writer: &Writer<'_>) -> (BatchVerdict, String) {
    let Some(rate) = writer.rate.filter(|rate| *rate > 0.0) else {
        return (
            BatchVerdict::NoEvidence,
            "the records' times give no rate; read a longer time (--last)".to_owned(),
        );
    };
    // A sticky partitioner sends all of them to one partition at a time.
    let is_keyless = topic.keys.is_some_and(|keys| keys.keyed_share < KEYLESS_SHARE);
    let at_once = if is_keyless { writer.partitions as f64 } else { 1.0 };
    if rate * at_once * topic.tolerable_linger_ms / 1e3 >= 1.0 {
        return (BatchVerdict::LingerBound, REPLAY.to_owned());
    }
    let each = format!(
        "{rate:.1} records/s to each of {} partitions: few arrive within a linger of {:.0} ms",
        writer.partitions, topic.tolerable_linger_ms
    );
    let keyed = topic
        .keys
        .is_some_and(|keys| keys.keyed_share > 0.95 && keys.distinct as usize >= 4 * topic.partitions);
    if keyed && topic.partitions >= 8 {
        return (BatchVerdict::KeySpread, format!("{each}; {FEWER_FOR_KEYS}"));
    }
    (BatchVerdict::RateStarved, format!("{each}; {FEWER}{UNTUNABLE}"))
}

/// Records without keys that go to all partitions in turn (Java did so before KIP-480, and its RoundRobinPartitioner does).
fn dealt_in_turn(topic: &Topic<'_>, writer: &Writer<'_>) -> Option<BatchFinding> {
    let keys = topic.keys.filter(|keys| keys.keyed_share < 0.05)?;
    let spread = writer.partitions;
    // Several sticky producers have several partitions open, and can't be separated.
    if spread < 3 || writer.small_share < SMALL_SHARE || writer.mixed > 1 {
        return None;
    }
    let habits = writer.habits;
    // A sticky partitioner fills one partition's batch at a time.
    let open = habits.open_at_once >= 2.0_f64.max(0.35 * spread as f64);
    let hops = writer.mean_records < 2.0 && habits.stays < 0.5 / spread as f64 && habits.open_at_once < 2.0;
    let is_one_by_one =
        habits.triggers.first().is_some_and(|(trigger, _)| *trigger == BatchTrigger::OneByOne);
    if !(open || hops) || is_one_by_one {
        return None;
    }
    let seen = if open {
        format!("{:.1} of {spread} partitions have an open batch of it at once", habits.open_at_once)
    } else {
        format!("each batch goes to another one of {spread} partitions")
    };
    Some(BatchFinding {
        verdict: BatchVerdict::RoundRobin,
        share: share(topic, writer),
        producer: writer.id,
        evidence: format!("{:.0} % of the records have no key, and {seen}", 100.0 * (1.0 - keys.keyed_share)),
        action: "use a sticky partitioner, unless the application chooses the partitions: remove \
                 RoundRobinPartitioner in Java (2.4 and later are sticky by default, best from 3.3 on), set \
                 sticky.partitioning.linger.ms in librdkafka"
            .to_owned(),
        rule: "KIP-480, KIP-794".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(mean_bytes: f64, batches_per_s: f64) -> Topic<'static> {
        Topic {
            mean_bytes,
            small: if mean_bytes < BETTER_BYTES { [1_000, 1_000 * mean_bytes as u64] } else { [0, 0] },
            pages: 2.0,
            batches_per_s: Some(batches_per_s),
            batches: 1_000,
            partitions: 6,
            keys: None,
            tolerable_linger_ms: 100.0,
        }
    }

    fn habits(trigger: BatchTrigger) -> Habits {
        Habits { triggers: vec![(trigger, 1.0)], record_bytes: 100.0, ..Habits::default() }
    }

    fn writer(habits: &Habits, rate: f64) -> Writer<'_> {
        Writer {
            id: Some(7),
            batches: 1_000,
            mean_records: 5.0,
            mean_bytes: 561.0,
            small_share: 1.0,
            rate: Some(rate),
            partitions: 6,
            mixed: 1,
            middle_span_ms: Some(3),
            habits,
        }
    }

    fn reason_of(trigger: BatchTrigger, rate: f64) -> (BatchVerdict, String) {
        let habits = habits(trigger);
        let all = findings(&topic(561.0, 5_000.0), &[writer(&habits, rate)]);
        assert_eq!(all[0].verdict, BatchVerdict::Small);
        (all[1].verdict, all[1].action.clone())
    }

    #[test]
    fn sizes_and_rates_decide_whether_it_matters() {
        let of = |bytes, rate| findings(&topic(bytes, rate), &[])[0].verdict;
        assert_eq!(of(16_384.0, 1e5), BatchVerdict::Healthy);
        assert_eq!(of(100.0, 99.0), BatchVerdict::Quiet);
        assert_eq!(of(100.0, 100.0), BatchVerdict::Small);
        assert_eq!(of(4_096.0, 100.0), BatchVerdict::Fair);
        // 2 % of the bytes hurt, and the mean looks well.
        let mixed = Topic { small: [980, 980 * 200], ..topic(20_000.0, 5_100.0) };
        assert_eq!(findings(&mixed, &[])[0].verdict, BatchVerdict::Small);
        let unknown = Topic { batches_per_s: None, ..topic(100.0, 0.0) };
        assert_eq!(findings(&unknown, &[])[0].verdict, BatchVerdict::Small, "no rate is no low rate");
        let none = Topic { batches: 0, ..topic(0.0, 0.0) };
        assert_eq!(findings(&none, &[])[0].verdict, BatchVerdict::NoEvidence);
    }

    #[test]
    fn many_producers_with_one_reason_are_told_once() {
        let habits = habits(BatchTrigger::Alone);
        let writers: Vec<Writer<'_>> =
            (0..60).map(|id| Writer { id: Some(id), batches: 16, ..writer(&habits, 5.0) }).collect();
        let told = findings(&topic(561.0, 5_000.0), &writers);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!((told[1].verdict, told[1].producer), (BatchVerdict::RateStarved, None));
        assert!(
            (told[1].share - 0.96).abs() < 1e-9 && told[1].evidence.starts_with("60 producers"),
            "{told:?}"
        );
    }

    #[test]
    fn a_second_record_within_the_tolerable_linger_is_what_a_linger_needs() {
        let (verdict, action) = reason_of(BatchTrigger::Time, 500.0);
        assert_eq!(verdict, BatchVerdict::LingerBound);
        assert!(action.contains("hone batch whatif"), "{action}");
        let (verdict, action) = reason_of(BatchTrigger::Alone, 5.0);
        assert_eq!(verdict, BatchVerdict::RateStarved);
        assert!(action.starts_with("5.0 records/s to each of 6 partitions"), "{action}");
        let with = |tolerable_linger_ms, keyed_share| {
            let habits = habits(BatchTrigger::Time);
            let keys = KeyUse { records: 100, keyed_share, ..KeyUse::default() };
            let topic = Topic { tolerable_linger_ms, keys: Some(&keys), ..topic(561.0, 5_000.0) };
            by_linger(&topic, &writer(&habits, 100.0)).0
        };
        assert_eq!(with(10.0, 1.0), BatchVerdict::LingerBound);
        assert_eq!(with(9.0, 1.0), BatchVerdict::RateStarved);
        // All six partitions' records come to one at a time.
        assert_eq!(with(2.0, 0.0), BatchVerdict::LingerBound);
    }

    #[test]
    fn many_keys_over_many_partitions_are_told_from_a_low_rate() {
        let habits = habits(BatchTrigger::Alone);
        let of = |distinct, partitions, keyed_share| {
            let keys = KeyUse { records: 1_000, keyed_share, distinct, ..KeyUse::default() };
            let topic = Topic { keys: Some(&keys), partitions, ..topic(561.0, 5_000.0) };
            findings(&topic, &[writer(&habits, 5.0)])[1].verdict
        };
        assert_eq!(of(400, 12, 1.0), BatchVerdict::KeySpread);
        assert_eq!(of(47, 12, 1.0), BatchVerdict::RateStarved, "fewer than four keys a partition");
        assert_eq!(of(400, 4, 1.0), BatchVerdict::RateStarved, "few partitions");
        assert_eq!(of(400, 12, 0.5), BatchVerdict::RateStarved, "half of them without keys");
    }

    #[test]
    fn where_linger_does_harm_it_is_said() {
        let (verdict, action) = reason_of(BatchTrigger::OneByOne, 160.0);
        assert_eq!(verdict, BatchVerdict::SyncSender);
        assert!(action.starts_with("do not raise linger"), "{action}");
        assert_eq!(reason_of(BatchTrigger::Drained, 160.0).0, BatchVerdict::CoDrained);
        assert_eq!(reason_of(BatchTrigger::Flush, 160.0).0, BatchVerdict::Flusher);
        assert_eq!(reason_of(BatchTrigger::Unknown, 160.0).0, BatchVerdict::NoEvidence);
    }

    #[test]
    fn a_sender_that_is_kept_waiting_is_told_from_one_that_does_not_wait() {
        assert_eq!(reason_of(BatchTrigger::SenderFree, 5_000.0).0, BatchVerdict::LingerBound);
        let habits = habits(BatchTrigger::SenderFree);
        let kept = Writer { middle_span_ms: Some(40), ..writer(&habits, 5_000.0) };
        assert_eq!(findings(&topic(561.0, 5_000.0), &[kept])[1].verdict, BatchVerdict::BackPressured);
    }

    #[test]
    fn records_that_are_dealt_in_turn_are_seen() {
        let keys = KeyUse { records: 100, keyed_share: 0.0, ..KeyUse::default() };
        let without_keys = Topic { keys: Some(&keys), ..topic(561.0, 5_000.0) };
        let all_open = Habits { open_at_once: 5.2, ..habits(BatchTrigger::Time) };
        let told = |habits: &Habits, topic| {
            let all = findings(topic, &[writer(habits, 500.0)]);
            all.iter().any(|finding| finding.verdict == BatchVerdict::RoundRobin)
        };
        assert!(told(&all_open, &without_keys));
        let sticky = Habits { open_at_once: 1.1, stays: 0.2, ..habits(BatchTrigger::Time) };
        assert!(!told(&sticky, &without_keys));
        let keyed = KeyUse { keyed_share: 1.0, ..keys.clone() };
        assert!(!told(&all_open, &Topic { keys: Some(&keyed), ..without_keys }));
        let several = Writer { mixed: 4, ..writer(&all_open, 500.0) };
        let found = findings(&without_keys, &[several]);
        assert!(found.iter().all(|finding| finding.verdict != BatchVerdict::RoundRobin), "{found:?}");
    }
}
