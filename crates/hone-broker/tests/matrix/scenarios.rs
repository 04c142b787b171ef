//! What the cells ask of a client and of the broker.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::{BatchBuilder, Codec};
use kafka_protocol::records::RecordBatchDecoder;
use serde_json::{Value, json};

use super::Stage;
use super::stored::{Batch, now_ms, number, value};

/// What came of one cell: a note for the table, or why it failed.
pub(crate) type Answers = Vec<(&'static str, Result<String, String>)>;

pub(crate) struct Scenario {
    pub(crate) cells: &'static [&'static str],
    pub(crate) play: fn(&mut Stage) -> Answers,
}

const RECORDS: usize = 1000;
/// Written in each phase of a group's life.
const WAVE: usize = 600;
const GROUP_PARTITIONS: i32 = 6;
const RETENTION_MS: &str = "123456789";
const ALTERED_MS: &str = "987654321";

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { cells: &["produce"], play: |stage| one("produce", produce(stage, "none", "all", false)) },
    Scenario { cells: &["acks-1"], play: |stage| one("acks-1", produce(stage, "none", "1", false)) },
    Scenario { cells: &["acks-0"], play: |stage| one("acks-0", produce(stage, "none", "0", false)) },
    Scenario { cells: &["idempotent"], play: |stage| one("idempotent", produce(stage, "none", "all", true)) },
    Scenario { cells: &["codec-none"], play: |stage| one("codec-none", produce(stage, "none", "all", true)) },
    Scenario { cells: &["codec-gzip"], play: |stage| one("codec-gzip", produce(stage, "gzip", "all", true)) },
    Scenario {
        cells: &["codec-snappy"],
        play: |stage| one("codec-snappy", produce(stage, "snappy", "all", true)),
    },
    Scenario { cells: &["codec-lz4"], play: |stage| one("codec-lz4", produce(stage, "lz4", "all", true)) },
    Scenario { cells: &["codec-zstd"], play: |stage| one("codec-zstd", produce(stage, "zstd", "all", true)) },
    Scenario { cells: &["round-trip"], play: |stage| one("round-trip", round_trip(stage)) },
    Scenario { cells: &["consume"], play: |stage| one("consume", consume(stage)) },
    Scenario { cells: &["resume"], play: |stage| one("resume", resume(stage)) },
    Scenario { cells: &["group"], play: |stage| one("group", group(stage, "classic")) },
    Scenario { cells: &["static"], play: |stage| one("static", static_members(stage, "classic")) },
    Scenario { cells: &["group-848"], play: |stage| one("group-848", group(stage, "consumer")) },
    Scenario { cells: &["static-848"], play: |stage| one("static-848", static_members(stage, "consumer")) },
    Scenario {
        cells: &["create-topic", "describe-topic", "describe-configs", "alter-configs", "create-partitions"],
        play: admin_topic,
    },
    Scenario { cells: &["list-offsets", "delete-records"], play: admin_log },
    Scenario {
        cells: &["list-groups", "describe-groups", "group-offsets", "delete-groups"],
        play: admin_groups,
    },
    Scenario { cells: &["describe-cluster", "delete-topic"], play: admin_delete },
    Scenario { cells: &["txn-commit", "txn-abort", "read-committed"], play: transactions },
    Scenario { cells: &["txn-open", "list-transactions", "describe-producers"], play: open_transaction },
    Scenario { cells: &["txn-offsets"], play: |stage| one("txn-offsets", transaction_offsets(stage)) },
    Scenario { cells: &["txn-fence"], play: |stage| one("txn-fence", fence(stage)) },
];

fn one(cell: &'static str, answer: Result<String, String>) -> Answers {
    vec![(cell, answer)]
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

impl Stage {
    fn play(&mut self, cell: &str, parameters: &[(&str, &str)]) -> Result<Vec<Value>, String> {
        self.program.play(cell, parameters)
    }

    /// Plays a cell that says one thing.
    fn ask(&mut self, cell: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let steps = self.play(cell, parameters)?;
        steps.into_iter().next_back().ok_or_else(|| format!("{cell}: the client said nothing"))
    }

    /// A topic with values 0 to `count`.
    fn filled(&mut self, what: &str, partitions: usize, count: usize) -> String {
        let topic = self.name(what);
        self.wire.create(&topic, partitions as i32);
        self.wire.fill(&topic, partitions, count);
        topic
    }
}

/// Each of the steps as a cell of its own, judged by `judge`.
fn steps(
    played: Result<Vec<Value>, String>,
    cells: &[&'static str],
    judge: impl Fn(&str, &Value) -> Result<String, String>,
) -> Answers {
    let played = match played {
        Ok(played) => played,
        Err(why) => return cells.iter().map(|cell| (*cell, Err(why.clone()))).collect(),
    };
    let judged = |cell: &'static str| {
        let step = played.iter().find(|step| step["step"] == cell)?;
        Some((
            cell,
            match step["error"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => judge(cell, step),
            },
        ))
    };
    cells.iter().copied().filter_map(judged).collect()
}

fn fields(step: &Value, wanted: &Value) -> Result<String, String> {
    let said: BTreeMap<&String, &Value> =
        step.as_object().unwrap().iter().filter(|(name, _)| *name != "step").collect();
    let wanted: BTreeMap<&String, &Value> = wanted.as_object().unwrap().iter().collect();
    ensure(said == wanted, || format!("{said:?}, not {wanted:?}"))?;
    let words: Vec<String> = said.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok(words.join(", "))
}

/// Every record is stored once, in order, in batches of the wanted codec and kind.
fn produce(stage: &mut Stage, codec: &str, acks: &str, idempotent: bool) -> Result<String, String> {
    let topic = stage.name("produce");
    stage.wire.create(&topic, 3);
    let (records, flag) = (RECORDS.to_string(), idempotent.to_string());
    let said = stage.ask(
        "produce",
        &[("topic", &topic), ("records", &records), ("codec", codec), ("acks", acks), ("idempotent", &flag)],
    )?;
    ensure(said["records"] == RECORDS, || format!("the client counts {said}"))?;
    if acks == "0" {
        // Nobody said when they had arrived.
        let begun = std::time::Instant::now();
        while (0..3).map(|partition| stage.wire.end_offset(&topic, partition)).sum::<i64>() < RECORDS as i64 {
            ensure(begun.elapsed() < super::support::PATIENCE, || "records did not arrive".to_owned())?;
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    let batches = stage.wire.batches(&topic, 3);
    check_values(&batches, 0..RECORDS)?;
    check_codec(&batches, codec)?;
    check_sequences(&batches, idempotent)?;
    Ok(format!("{RECORDS} records in {} batches", batches.len()))
}

/// The stored values are the wanted ones, each once, and in each partition they rise.
fn check_values(batches: &[Batch], wanted: std::ops::Range<usize>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<i32, usize> = BTreeMap::new();
    for batch in batches {
        for (_, content) in &batch.records {
            let content = content.as_deref().ok_or("a record without value")?;
            let number = number(content).ok_or_else(|| format!("a foreign value {content:?}"))?;
            ensure(content == value(number).as_bytes(), || {
                format!("value {number} is stored with another text")
            })?;
            ensure(seen.insert(number), || format!("value {number} is stored twice"))?;
            let before = last.insert(batch.partition, number);
            ensure(before.is_none_or(|before| before < number), || {
                format!("value {number} is behind {before:?}")
            })?;
        }
    }
    ensure(seen.iter().copied().eq(wanted.clone()), || {
        format!("{} of {} values are stored", seen.len(), wanted.len())
    })
}

/// Clients send a batch as it is when packing does not make it smaller, which can happen to the first ones of a
/// record or two; a batch of many such records always gets smaller.
fn check_codec(batches: &[Batch], wanted: &str) -> Result<(), String> {
    let wanted = Codec::from_name(wanted).unwrap();
    let large: Vec<&Batch> = batches.iter().filter(|batch| batch.header.record_count >= 10).collect();
    ensure(!large.is_empty(), || "no batch is large enough to tell its codec".to_owned())?;
    match large.iter().find(|batch| batch.header.codec() != wanted) {
        None => Ok(()),
        Some(other) => {
            Err(format!("a batch is stored as {}, not {}", other.header.codec().name(), wanted.name()))
        }
    }
}

/// An idempotent producer numbers its records, one after the other in each partition; another one does not.
fn check_sequences(batches: &[Batch], idempotent: bool) -> Result<(), String> {
    let mut next: BTreeMap<i32, i32> = BTreeMap::new();
    for batch in batches {
        let header = &batch.header;
        if !idempotent {
            // Epoch and sequence mean nothing here, and clients fill them as they like.
            ensure(header.producer_id == -1, || {
                format!("producer id {} on a plain batch", header.producer_id)
            })?;
            continue;
        }
        ensure(header.producer_id >= 0 && header.producer_epoch >= 0, || {
            "a batch without producer id".to_owned()
        })?;
        let wanted = next.entry(batch.partition).or_default();
        ensure(header.base_sequence == *wanted, || {
            format!("sequence {} for {wanted}", header.base_sequence)
        })?;
        *wanted += header.record_count;
    }
    Ok(())
}

/// Null and empty keys and values, repeated headers and the client's timestamps come back, and are stored so.
fn round_trip(stage: &mut Stage) -> Result<String, String> {
    let topic = stage.name("round-trip");
    stage.wire.create(&topic, 1);
    let at = now_ms() - 5000;
    let said = stage.ask("round-trip", &[("topic", &topic), ("timestamp", &at.to_string())])?;
    let wanted = json!([
        { "key": null, "value": "null key", "headers": [], "timestamp": at },
        { "key": "tombstone", "value": null, "headers": [], "timestamp": at + 1 },
        { "key": "", "value": "", "headers": [], "timestamp": at + 2 },
        { "key": "headers", "value": "v", "headers": [["a", "1"], ["b", ""], ["a", "2"]], "timestamp": at + 3 },
    ]);
    let (wanted, note) = match stage.client {
        "kcat" => (without_timestamps(wanted), "null, empty, headers"),
        _ => (wanted, "null, empty, headers, timestamps"),
    };
    ensure(said["records"] == wanted, || format!("{}, not {wanted}", said["records"]))?;
    let log = stage.wire.log(&topic, 0);
    let mut stored = Vec::new();
    for set in
        RecordBatchDecoder::decode_all(&mut bytes::Bytes::from(log)).map_err(|error| error.to_string())?
    {
        stored.extend(set.records);
    }
    for (record, wanted) in stored.iter().zip(wanted.as_array().unwrap()) {
        let text = |bytes: &Option<bytes::Bytes>| {
            bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let stored = json!({ "key": text(&record.key), "value": text(&record.value) });
        ensure(stored["key"] == wanted["key"] && stored["value"] == wanted["value"], || {
            format!("{stored} is stored")
        })?;
        let headers = wanted["headers"].as_array().unwrap();
        let names: BTreeSet<&str> = headers.iter().map(|pair| pair[0].as_str().unwrap()).collect();
        ensure(record.headers.len() == names.len(), || format!("headers {:?} are stored", record.headers))?;
    }
    ensure(stored.len() == 4, || format!("{} records are stored", stored.len()))?;
    Ok(note.to_owned())
}

/// kcat can not set them.
fn without_timestamps(mut records: Value) -> Value {
    for record in records.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        record.remove("timestamp");
    }
    records
}

/// What [`Stage::filled`] wrote, or the wave of a transaction, as a client must have read it.
fn checksums(partitions: usize, numbers: impl Iterator<Item = usize>) -> Value {
    let mut sums: BTreeMap<String, (usize, flate2::Crc)> = BTreeMap::new();
    for number in numbers {
        let (records, crc) =
            sums.entry((number % partitions).to_string()).or_insert_with(|| (0, flate2::Crc::new()));
        *records += 1;
        crc.update(value(number).as_bytes());
        crc.update(b"\n");
    }
    sums.into_iter()
        .map(|(name, (records, crc))| (name, json!({ "records": records, "crc": crc.sum() })))
        .collect()
}

fn consume(stage: &mut Stage) -> Result<String, String> {
    let topic = stage.filled("consume", 3, RECORDS);
    let records = RECORDS.to_string();
    let said = stage.ask("consume", &[("topic", &topic), ("partitions", "3"), ("records", &records)])?;
    let wanted = checksums(3, 0..RECORDS);
    ensure(said["partitions"] == wanted, || format!("{}, not {wanted}", said["partitions"]))?;
    Ok(format!("{RECORDS} records in order, all codecs"))
}

fn resume(stage: &mut Stage) -> Result<String, String> {
    let topic = stage.filled("resume", 3, RECORDS);
    let (group, records, first) = (stage.name("group"), RECORDS.to_string(), RECORDS * 2 / 5);
    let said = stage.ask(
        "resume",
        &[("topic", &topic), ("group", &group), ("records", &records), ("first", &first.to_string())],
    )?;
    let wanted = json!({ "first": first, "second": RECORDS - first, "distinct": RECORDS });
    let note = fields(&said, &wanted)?;
    let ends: Vec<i64> = (0..3).map(|partition| stage.wire.end_offset(&topic, partition)).collect();
    let committed = stage.wire.committed(&group, &topic, 3);
    ensure(committed == ends, || format!("offsets {committed:?} are committed, the ends are {ends:?}"))?;
    Ok(note)
}

/// Each partition has one owner in every phase, nothing is lost, and all that was read is committed.
fn group(stage: &mut Stage, protocol: &str) -> Result<String, String> {
    let topic = stage.name("group");
    stage.wire.create(&topic, GROUP_PARTITIONS);
    let (group, partitions, wave) = (stage.name("group"), GROUP_PARTITIONS.to_string(), WAVE.to_string());
    let played = stage.play(
        "group",
        &[
            ("topic", &topic),
            ("group", &group),
            ("partitions", &partitions),
            ("records", &wave),
            ("protocol", protocol),
        ],
    )?;
    for (number, (phase, members)) in [("three", 3), ("left", 2), ("joined", 3)].into_iter().enumerate() {
        let step =
            played.iter().find(|step| step["step"] == phase).ok_or_else(|| format!("no phase {phase}"))?;
        check_owners(&step["owned"], members).map_err(|why| format!("{phase}: {why}"))?;
        let distinct = (number + 1) * WAVE;
        ensure(step["distinct"] == distinct, || {
            format!("{phase}: {} of {distinct} records", step["distinct"])
        })?;
    }
    let end =
        played.iter().find(|step| step["step"] == "group").ok_or("the client said nothing at the end")?;
    ensure(end["distinct"] == 3 * WAVE, || format!("{} of {} records", end["distinct"], 3 * WAVE))?;
    // At least once: what was read and not yet committed when a partition changed hands comes again. More than a wave
    // of it would mean that commits are lost.
    let twice = end["records"].as_u64().unwrap_or(0).saturating_sub(3 * WAVE as u64);
    ensure(twice <= WAVE as u64, || format!("{twice} records came twice"))?;
    let committed: i64 = stage.wire.committed(&group, &topic, GROUP_PARTITIONS).iter().sum();
    ensure(committed == 3 * WAVE as i64, || format!("{committed} of {} records are committed", 3 * WAVE))?;
    check_protocol(stage, &group, protocol)?;
    Ok(format!("3 members, 2, 3; {} records, {twice} twice", 3 * WAVE))
}

/// A client whose broker does not know the new protocol may fall back to the classic one without a word.
fn check_protocol(stage: &mut Stage, group: &str, wanted: &str) -> Result<(), String> {
    if wanted == "classic" {
        return Ok(());
    }
    let found = stage.wire.group_type(group);
    ensure(found == wanted, || format!("the group follows the {found} protocol"))
}

fn check_owners(owned: &Value, members: usize) -> Result<(), String> {
    let owned = owned.as_array().ok_or("no owners")?;
    ensure(owned.len() == members, || format!("{} members", owned.len()))?;
    let partitions: Vec<i64> =
        owned.iter().flat_map(|one| one.as_array().into_iter().flatten()).filter_map(Value::as_i64).collect();
    let each: BTreeSet<i64> = partitions.iter().copied().collect();
    let whole = partitions.len() == each.len() && each.iter().copied().eq(0..i64::from(GROUP_PARTITIONS));
    ensure(whole, || format!("the partitions are owned as {owned:?}"))
}

fn static_members(stage: &mut Stage, protocol: &str) -> Result<String, String> {
    let topic = stage.name("static");
    stage.wire.create(&topic, GROUP_PARTITIONS);
    let (group, partitions) = (stage.name("group"), GROUP_PARTITIONS.to_string());
    let said = stage.ask(
        "static",
        &[("topic", &topic), ("group", &group), ("partitions", &partitions), ("protocol", protocol)],
    )?;
    check_owners(&said["before"], 3)?;
    ensure(said["before"] == said["after"], || format!("{} became {}", said["before"], said["after"]))?;
    ensure(said["revoked"] == false, || "the other members were made to rebalance".to_owned())?;
    check_protocol(stage, &group, protocol)?;
    Ok("came back to its partitions, nobody else noticed".to_owned())
}

fn admin_topic(stage: &mut Stage) -> Answers {
    let topic = stage.name("admin");
    let parameters = [
        ("topic", topic.as_str()),
        ("retention_ms", RETENTION_MS),
        ("altered_ms", ALTERED_MS),
        ("partitions", "3"),
        ("more", "5"),
    ];
    if stage.client == "kcat" {
        stage.wire.create(&topic, 3);
    }
    let played = stage.play("admin-topic", &parameters);
    let cells = &["create-topic", "describe-topic", "describe-configs", "alter-configs", "create-partitions"];
    let mut answers = steps(played, cells, |cell, step| match cell {
        "create-topic" => fields(step, &json!({})),
        "describe-topic" => fields(step, &json!({ "partitions": 3 })),
        "describe-configs" => fields(step, &json!({ "retention_ms": RETENTION_MS })),
        "alter-configs" => fields(step, &json!({ "altered": ALTERED_MS })),
        _ => fields(step, &json!({ "partitions": 5 })),
    });
    // The client's word for it is not enough.
    let there = stage.wire.partition_count(&topic);
    for (cell, answer) in &mut answers {
        if *cell == "create-partitions" && answer.is_ok() && there != 5 {
            *answer = Err(format!("the topic has {there} partitions"));
        }
    }
    answers
}

fn admin_log(stage: &mut Stage) -> Answers {
    let topic = stage.name("log");
    stage.wire.create(&topic, 1);
    let begin = now_ms() - 60_000;
    for number in 0..10 {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, Some(value(number).as_bytes()), begin + number as i64 * 1000);
        stage.wire.write(&topic, 0, builder.build().unwrap());
    }
    // Between the records 4 and 5.
    let at = (begin + 4500).to_string();
    let played = stage.play("admin-log", &[("topic", &topic), ("at", &at), ("before", "4")]);
    steps(played, &["list-offsets", "delete-records"], |cell, step| match cell {
        "list-offsets" => fields(step, &json!({ "earliest": 0, "latest": 10, "at": 5 })),
        _ => fields(step, &json!({ "low_watermark": 4, "earliest": 4 })),
    })
}

fn admin_groups(stage: &mut Stage) -> Answers {
    let (topic, group) = (stage.filled("offsets", 1, 20), stage.name("group"));
    stage.wire.commit(&group, &topic, 7);
    let played = stage.play("admin-groups", &[("group", &group), ("topic", &topic)]);
    let cells = &["list-groups", "describe-groups", "group-offsets", "delete-groups"];
    steps(played, cells, |cell, step| match cell {
        "list-groups" => fields(step, &json!({ "listed": true })),
        "describe-groups" => {
            let state = step["state"].as_str().unwrap_or_default().to_ascii_lowercase();
            ensure(state == "empty", || format!("the group is {step}"))?;
            Ok("empty".to_owned())
        }
        "group-offsets" => fields(step, &json!({ "committed": 7 })),
        _ => fields(step, &json!({ "listed": false })),
    })
}

fn admin_delete(stage: &mut Stage) -> Answers {
    let topic = stage.name("deleted");
    stage.wire.create(&topic, 1);
    let played = stage.play("admin-delete", &[("topic", &topic)]);
    steps(played, &["describe-cluster", "delete-topic"], |cell, step| match cell {
        "describe-cluster" => fields(step, &json!({ "brokers": 1 })),
        _ => fields(step, &json!({ "listed": false })),
    })
}

/// Counts of the markers in a partition: commits and aborts.
fn markers(batches: &[Batch]) -> (usize, usize) {
    let kind = |batch: &Batch| {
        batch.records.first().and_then(|record| record.0.clone()).and_then(|key| key.get(3).copied())
    };
    let count = |wanted| {
        batches.iter().filter(|batch| batch.header.is_control() && kind(batch) == Some(wanted)).count()
    };
    (count(1), count(0))
}

/// The stored batches of a topic, once they hold the wanted markers: a coordinator may answer before it has written them.
fn marked(stage: &mut Stage, topic: &str, wanted: (usize, usize)) -> Result<Vec<Batch>, String> {
    let begun = std::time::Instant::now();
    loop {
        let batches = stage.wire.batches(topic, 1);
        let found = markers(&batches);
        if found == wanted {
            return Ok(batches);
        }
        ensure(begun.elapsed() < super::support::PATIENCE, || {
            format!("{found:?} markers for commits and aborts, not {wanted:?}")
        })?;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Commit, abort, commit: the markers are stored, and each isolation level shows what it should.
fn transactions(stage: &mut Stage) -> Answers {
    const WAVES: [(&str, &str); 3] =
        [("txn-commit", "commit"), ("txn-abort", "abort"), ("txn-commit", "commit")];
    let (topic, id, records) = (stage.name("txn"), stage.name("id"), RECORDS.to_string());
    stage.wire.create(&topic, 1);
    let mut answers: Answers = Vec::new();
    let mut wanted = (0, 0);
    for (number, (cell, finish)) in WAVES.into_iter().enumerate() {
        if stage.client == "kcat" && finish == "abort" {
            continue;
        }
        let first = (number * RECORDS).to_string();
        let played = stage.ask(
            "txn",
            &[("topic", &topic), ("id", &id), ("first", &first), ("records", &records), ("finish", finish)],
        );
        if finish == "commit" {
            wanted.0 += 1
        } else {
            wanted.1 += 1
        }
        let answer = played.and_then(|_| {
            let batches = marked(stage, &topic, wanted)?;
            let plain = batches.iter().filter(|batch| !batch.header.is_transactional()).count();
            ensure(plain == 0, || format!("{plain} batches are stored as not transactional"))?;
            Ok(format!("{RECORDS} records and a marker"))
        });
        answers.retain(|(name, before)| *name != cell || before.is_err());
        if !answers.iter().any(|(name, _)| *name == cell) {
            answers.push((cell, answer));
        }
    }
    if stage.client != "kcat" {
        answers.push(("read-committed", read_committed(stage, &topic)));
    }
    answers
}

fn read_committed(stage: &mut Stage, topic: &str) -> Result<String, String> {
    let committed = (0..RECORDS).chain(2 * RECORDS..3 * RECORDS);
    let levels = [
        ("read_committed", 2 * RECORDS, checksums(1, committed)),
        ("read_uncommitted", 3 * RECORDS, checksums(1, 0..3 * RECORDS)),
    ];
    for (isolation, records, wanted) in levels {
        let records = records.to_string();
        let said = stage.ask(
            "consume",
            &[("topic", topic), ("partitions", "1"), ("records", &records), ("isolation", isolation)],
        )?;
        ensure(said["partitions"] == wanted, || {
            format!("{isolation}: {}, not {wanted}", said["partitions"])
        })?;
    }
    Ok(format!("{} committed of {}", 2 * RECORDS, 3 * RECORDS))
}

fn open_transaction(stage: &mut Stage) -> Answers {
    const VISIBLE: usize = 100;
    let (topic, id) = (stage.filled("open", 1, VISIBLE), stage.name("id"));
    let (visible, records) = (VISIBLE.to_string(), RECORDS.to_string());
    let played = stage
        .play("txn-open", &[("topic", &topic), ("id", &id), ("visible", &visible), ("records", &records)]);
    steps(played, &["txn-open", "list-transactions", "describe-producers"], |cell, step| match cell {
        "txn-open" => fields(step, &json!({ "committed": VISIBLE, "uncommitted": VISIBLE + RECORDS })),
        "list-transactions" => {
            let ids = step["ongoing"].as_array().ok_or("no list")?;
            ensure(ids.iter().any(|one| *one == id.as_str()), || format!("{id} is not among {ids:?}"))?;
            Ok("listed as ongoing".to_owned())
        }
        _ => fields(step, &json!({ "open": 1 })),
    })
}

/// Offsets sent along count when the transaction is committed, and not when it is aborted.
fn transaction_offsets(stage: &mut Stage) -> Result<String, String> {
    const TAKEN: usize = 300;
    let (source, topic) = (stage.filled("source", 1, RECORDS), stage.name("sink"));
    stage.wire.create(&topic, 1);
    let (group, id, records) = (stage.name("group"), stage.name("id"), TAKEN.to_string());
    for (finish, wanted) in [("abort", -1), ("commit", TAKEN as i64)] {
        stage.ask(
            "txn-offsets",
            &[
                ("topic", &topic),
                ("source", &source),
                ("group", &group),
                ("id", &id),
                ("records", &records),
                ("finish", finish),
            ],
        )?;
        marked(stage, &topic, (usize::from(finish == "commit"), 1))?;
        let committed = stage.wire.committed(&group, &source, 1);
        ensure(committed == [wanted], || format!("offset {committed:?} after {finish}, not {wanted}"))?;
    }
    Ok(format!("nothing after abort, {TAKEN} after commit"))
}

/// A producer whose id another one has taken over must fail, and leave nothing behind.
fn fence(stage: &mut Stage) -> Result<String, String> {
    let (topic, id, records) = (stage.name("fence"), stage.name("id"), RECORDS.to_string());
    stage.wire.create(&topic, 1);
    let said = stage.ask("txn-fence", &[("topic", &topic), ("id", &id), ("records", &records)])?;
    let fenced = said["fenced"].as_str().ok_or("the first producer noticed nothing")?.to_owned();
    let lower = fenced.to_ascii_lowercase();
    ensure(lower.contains("fenced") || lower.contains("epoch"), || format!("another error: {fenced}"))?;
    let seen = stage.ask(
        "consume",
        &[("topic", &topic), ("partitions", "1"), ("records", &records), ("isolation", "read_committed")],
    )?;
    let wanted = checksums(1, 0..RECORDS);
    ensure(seen["partitions"] == wanted, || format!("{}, not {wanted}", seen["partitions"]))?;
    Ok("the zombie failed and left nothing".to_owned())
}
