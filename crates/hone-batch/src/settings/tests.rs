use hone_kafka::Codec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

fn lines(client: Client, change: &Change) -> Vec<String> {
    sheet(client, change, None).unwrap().blocks[0].lines.clone()
}

fn linger(linger_us: u64) -> Change {
    Change { linger_us: Some(linger_us), ..Change::default() }
}

#[test]
fn every_client_has_its_own_name_and_unit_of_the_same_linger() {
    for (client, expected) in [
        (Client::Java, "linger.ms=20"),
        (Client::Librdkafka, "linger.ms=20"),
        (Client::FranzGo, "kgo.ProducerLinger(20 * time.Millisecond),"),
        (Client::KafkaPython, "linger_ms=20,"),
        (Client::Sarama, "config.Producer.Flush.Frequency = 20 * time.Millisecond"),
        (Client::Spring, "spring.kafka.producer.properties.linger.ms=20"),
        (Client::Connect, "producer.linger.ms=20"),
    ] {
        assert_eq!(lines(client, &linger(20_000)), [expected], "{client:?}");
    }
    let kafkajs = sheet(Client::Kafkajs, &linger(20_000), None).unwrap();
    assert!(kafkajs.blocks.is_empty() && kafkajs.rows[0].value.is_none(), "{kafkajs:?}");
}

/// Less than a millisecond is no wait at all for a client that counts in them, if it is cut off.
#[test]
fn a_fine_linger_is_rounded_up_and_said() {
    for (client, expected, is_rounded) in [
        (Client::Java, "linger.ms=1", true),
        (Client::KafkaPython, "linger_ms=1,", true),
        (Client::Librdkafka, "linger.ms=0.5", false),
        (Client::FranzGo, "kgo.ProducerLinger(500 * time.Microsecond),", false),
        (Client::Sarama, "config.Producer.Flush.Frequency = 500 * time.Microsecond", false),
    ] {
        let found = sheet(client, &linger(500), None).unwrap();
        assert_eq!(found.blocks[0].lines, [expected]);
        assert_eq!(
            found.traps.iter().any(|trap| trap.contains("500 µs became 1 ms")),
            is_rounded,
            "{client:?}"
        );
    }
}

/// librdkafka takes twice its linger for stickiness by itself; a value of its own would be wrong at the next linger.
#[test]
fn stickiness_follows_the_linger_where_the_client_lets_it() {
    let of =
        |partitioner, linger_us| Change { partitioner: Some(partitioner), linger_us, ..Change::default() };
    for linger_us in [None, Some(20_000)] {
        let sticky = lines(Client::Librdkafka, &of(Partitioner::Sticky, linger_us));
        assert!(sticky.contains(&"partitioner=consistent_random".to_owned()), "{sticky:?}");
        assert!(!sticky.iter().any(|line| line.starts_with("sticky.")), "{sticky:?}");
        let spread = lines(Client::Librdkafka, &of(Partitioner::RoundRobin, linger_us));
        assert!(spread.contains(&"sticky.partitioning.linger.ms=0".to_owned()), "{spread:?}");
    }
    let sheet = sheet(Client::Librdkafka, &of(Partitioner::RoundRobin, None), None).unwrap();
    assert!(sheet.rows.iter().any(|row| row.default == "twice linger.ms"), "{:?}", sheet.rows);
}

#[test]
fn what_is_done_without_a_property_takes_it_away() {
    let of = |client, partitioner| {
        removed(client, &Change { partitioner: Some(partitioner), ..Change::default() })
    };
    for partitioner in [Partitioner::Sticky, Partitioner::Murmur2] {
        assert_eq!(of(Client::Java, partitioner), ["partitioner.class"]);
        assert_eq!(of(Client::Librdkafka, partitioner), ["sticky.partitioning.linger.ms"]);
    }
    assert!(of(Client::Java, Partitioner::RoundRobin).is_empty());
    assert!(removed(Client::Java, &linger(5_000)).is_empty());
}

#[test]
fn what_idempotence_does_not_go_with_takes_it_away_aloud() {
    let acks = Change { acks: Some(1), ..Change::default() };
    assert_eq!(lines(Client::Java, &acks), ["acks=1", "enable.idempotence=false"]);
    assert_eq!(
        lines(Client::FranzGo, &acks),
        ["kgo.RequiredAcks(kgo.LeaderAck()),", "kgo.DisableIdempotentWrite(),"]
    );
    assert_eq!(lines(Client::KafkaPython, &acks), ["acks=1,", "enable_idempotence=False,"]);
    // Theirs is off already.
    assert_eq!(lines(Client::Librdkafka, &acks), ["acks=1"]);
    assert_eq!(lines(Client::Sarama, &acks), ["config.Producer.RequiredAcks = sarama.WaitForLocal"]);
    let sarama = Change { idempotent: Some(true), ..Change::default() };
    let needed = [
        "config.Producer.RequiredAcks = sarama.WaitForAll",
        "config.Producer.Idempotent = true",
        "config.Net.MaxOpenRequests = 1",
    ];
    assert_eq!(lines(Client::Sarama, &sarama), needed);
    for (change, expected) in [
        (Change { idempotent: Some(true), ..acks }, "needs acks=all"),
        (Change { idempotent: Some(true), in_flight: Some(6), ..Change::default() }, "at most 5"),
        (Change { acks: Some(2), ..Change::default() }, "must be 0, 1 or all"),
        (Change { batch_bytes: Some(0), ..Change::default() }, "batch size must be"),
        (Change::default(), "nothing to change"),
    ] {
        let problem = sheet(Client::Java, &change, None).unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn memory_is_checked_against_partitions() {
    let change = Change { batch_bytes: Some(128 << 10), ..Change::default() };
    let memory = |change: &Change, partitions| {
        let traps = sheet(Client::Java, change, partitions).unwrap().traps;
        traps.into_iter().find(|trap| trap.starts_with("Memory"))
    };
    // 32 MiB are 256 batches of 128 KiB.
    assert_eq!(memory(&change, Some(256)), None);
    let told = memory(&change, Some(257)).unwrap();
    assert!(told.contains("buffer.memory=33685504") && told.contains("32 MiB"), "{told}");
    assert_eq!(memory(&Change { buffer_bytes: Some(64 << 20), ..change }, Some(257)), None);
    assert!(memory(&change, None).unwrap().contains("--producer-partitions"));
    let sarama = sheet(Client::Sarama, &change, Some(10)).unwrap();
    assert_eq!(
        sarama.blocks[0].lines,
        ["config.Producer.Flush.Bytes = 1310720"],
        "a broker's trigger, not a partition's"
    );
    assert!(
        sarama.traps.iter().any(|trap| trap.contains("divide it by the number of brokers")),
        "{sarama:?}"
    );
}

#[test]
fn properties_leave_out_what_a_load_says_itself() {
    let change = Change {
        linger_us: Some(2_000),
        acks: Some(1),
        codec: Some(Codec::Lz4),
        idempotent: Some(false),
        batch_bytes: Some(9_000),
        ..Change::default()
    };
    for client in [Client::Java, Client::Librdkafka] {
        let names: Vec<&str> =
            properties(client, &change).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["linger.ms", "batch.size"], "{client:?}");
    }
    assert_eq!(properties(Client::Sarama, &change), None);
}

fn changes() -> impl Strategy<Value = Change> {
    let partitioner =
        prop::sample::select(vec![Partitioner::Sticky, Partitioner::RoundRobin, Partitioner::Murmur2]);
    let codec = prop::sample::select(Codec::ALL.to_vec());
    (
        (of(0..=90_000_000_u64), of(512..=2_000_000_000_u32), of(codec), of(partitioner)),
        (of(-1..=1_i16), of(1..=20_u32), of(any::<bool>()), of(1..=u64::MAX / 2)),
    )
        .prop_map(
            |((linger_us, batch_bytes, codec, partitioner), (acks, in_flight, idempotent, buffer_bytes))| {
                Change {
                    linger_us,
                    batch_bytes,
                    codec,
                    partitioner,
                    acks,
                    in_flight,
                    idempotent,
                    buffer_bytes,
                }
            },
        )
}

proptest! {
    /// The sheet contains every requested setting, as a line or as a refusal; it forgets nothing silently.
    #[test]
    fn nothing_that_was_asked_for_is_missing(change in changes(), partitions in prop::option::of(any::<u32>())) {
        for client in Client::ALL {
            let Ok(sheet) = sheet(client, &change, partitions) else {
                prop_assert!(change.check().is_err());
                continue;
            };
            let asked = [
                ("linger", change.linger_us.is_some()),
                ("batch size", change.batch_bytes.is_some()),
                ("codec", change.codec.is_some()),
                ("partitioner", change.partitioner.is_some()),
                ("acks", change.acks.is_some()),
                ("in flight", change.in_flight.is_some()),
                ("buffer memory", change.buffer_bytes.is_some()),
            ];
            for (about, is_asked) in asked {
                let told = sheet.rows.iter().any(|row| row.about == about);
                let forced = about != "linger" && about != "batch size";
                prop_assert!(told || !is_asked, "{client:?} forgets {about} of {change:?}");
                prop_assert!(is_asked || !told || forced, "{client:?} adds {about} to {change:?}");
            }
            let refused = sheet.rows.iter().filter(|row| row.value.is_none()).count();
            prop_assert!(refused == 0 || !sheet.traps.is_empty(), "a refusal without a way out: {sheet:?}");
        }
    }
}
