//! What a topic can ask for: values checked against a schema, batches packed anew; and idempotent producers.

mod support;

use hone_kafka::{BatchHeader, Codec, batch as patch, batches};
use support::*;

const SCHEMA: &str = r#"{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}"#;

#[test]
fn a_batch_with_one_bad_value_is_refused_whole_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(create(&mut client, "t", &[("hone.value.schema", SCHEMA)]).0, 0);
    for codec in Codec::ALL {
        let refused =
            produce(&mut client, "t", batch(codec, &[r#"{"id": 1}"#, r#"{"id": "x"}"#, "{", r#"{"id": 2}"#]));
        assert_eq!((refused.error_code, refused.base_offset), (87, -1), "{}", codec.name());
        let indexes: Vec<_> = refused.record_errors.iter().map(|error| error.batch_index).collect();
        assert_eq!(indexes, [1, 2]);
        assert!(refused.record_errors[1].batch_index_error_message.as_deref().unwrap().contains("not JSON"));
        assert!(refused.error_message.unwrap().contains("record 1 breaks hone.value.schema"));
        assert_eq!(produce(&mut client, "t", batch(codec, &[r#"{"id": 1}"#, r#"{"id": 2}"#])).error_code, 0);
    }
    assert_eq!(
        read_all(&mut client, "t").len(),
        2 * Codec::ALL.len(),
        "nothing of a refused batch is stored"
    );
    // Before version 8 there is only the code.
    let response = client.call(7, &produce_request("t", 0, batch(Codec::None, &["{"])));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 87);
}

#[test]
fn batches_are_packed_by_the_codec_of_the_topic() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let value = "compress me ".repeat(50);
    for wanted in
        [Some(Codec::None), Some(Codec::Gzip), Some(Codec::Snappy), Some(Codec::Lz4), Some(Codec::Zstd), None]
    {
        let name = wanted.map_or("producer", Codec::name);
        assert_eq!(create(&mut client, name, &[("compression.type", name)]).0, 0);
        let sent = Codec::ALL.map(|codec| batch(codec, &[&value, "b"]));
        for batch in &sent {
            assert_eq!(produce(&mut client, name, batch.clone()).error_code, 0);
        }
        let set = fetch(&mut client, name, 0);
        for (index, (batch, sent)) in batches(&set).zip(&sent).enumerate() {
            let batch = batch.unwrap();
            let sent = hone_kafka::BatchHeader::parse(sent).unwrap();
            patch::verify_crc(batch.bytes).unwrap();
            assert_eq!(batch.header.codec(), wanted.unwrap_or(sent.codec()));
            assert_eq!(batch.header.base_offset, 2 * index as i64);
            let times = (batch.header.base_timestamp, batch.header.max_timestamp);
            assert_eq!(times, (sent.base_timestamp, sent.base_timestamp + 1));
        }
        assert_eq!(read_all(&mut client, name).len(), 2 * Codec::ALL.len());
    }
}

#[test]
fn properties_are_checked_when_a_topic_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    for (name, value, wanted) in [
        ("compression.type", "best", "use producer"),
        ("hone.value.schema", "{", "not JSON"),
        ("hone.value.schema", r#"{"$ref": "file:///etc/hostname"}"#, "outside of the inline schema"),
        ("compresion.type", "gzip", "unknown property"),
    ] {
        let (code, message) = create(&mut client, "t", &[(name, value)]);
        assert_eq!(code, 40);
        assert!(message.contains(wanted), "{message}");
    }
    let mut request = create_request("t", 1, &[]);
    request.topics[0].replication_factor = 3;
    assert_eq!(client.call(5, &request).topics[0].error_code, 38);
}

#[test]
fn batches_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let good = batch(Codec::None, &["a", "b"]);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        // A lie with a true checksum.
        let _ = patch::set_timestamps(&mut bytes, 1_000, 1_001);
        bytes
    };
    let cases: [(&str, Vec<u8>, i16); 9] = [
        ("no batch", vec![], 87),
        ("two batches", [good.clone(), good.clone()].concat(), 87),
        ("torn", good[..good.len() - 1].to_vec(), 2),
        ("old format", changed(&|bytes| bytes[16] = 1), 43),
        ("record count", changed(&|bytes| bytes[60] = 3), 87),
        ("last offset delta", changed(&|bytes| bytes[26] = 7), 87),
        ("count and delta agree, records do not", changed(&|bytes| (bytes[60], bytes[26]) = (3, 2)), 87),
        ("control batch", changed(&|bytes| bytes[22] |= 1 << 5), 87),
        (
            "bad checksum",
            {
                let mut bytes = good.clone();
                bytes[70] ^= 1;
                bytes
            },
            2,
        ),
    ];
    for (what, bytes, code) in cases {
        assert_eq!(produce(&mut client, "t", bytes).error_code, code, "{what}");
    }
    assert!(read_all(&mut client, "t").is_empty());
}

#[test]
fn a_bomb_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("compression.type", "none")]);
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Lz4] {
        let bomb = patch::with_payload(&batch(codec, &["x"]), &vec![0; 80 << 20], codec).unwrap();
        let refused = produce(&mut client, "t", bomb);
        assert_eq!(refused.error_code, 10, "{}: {:?}", codec.name(), refused.error_message);
    }
}

fn sequenced(sequence: i32, values: &[&str]) -> Vec<u8> {
    let mut bytes = batch(Codec::None, values);
    patch::set_producer(&mut bytes, 4_711, 0, sequence).unwrap();
    bytes
}

#[test]
fn an_idempotent_producer_is_deduplicated_and_its_gaps_refused_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    create(&mut client, "t", &[]);
    let first = produce(&mut client, "t", sequenced(7, &["a", "b"]));
    assert_eq!((first.error_code, first.base_offset), (0, 0), "a stranger may begin anywhere");
    assert_eq!(produce(&mut client, "t", sequenced(9, &["c"])).base_offset, 2);
    let again = produce(&mut client, "t", sequenced(7, &["a", "b"]));
    assert_eq!((again.error_code, again.base_offset), (0, 0), "the same offset for the same batch");
    assert_eq!(produce(&mut client, "t", sequenced(11, &["gap"])).error_code, 45);
    drop(client);
    running.stop().unwrap();

    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    assert_eq!(produce(&mut client, "t", sequenced(9, &["c"])).base_offset, 2);
    assert_eq!(produce(&mut client, "t", sequenced(11, &["gap"])).error_code, 45);
    assert_eq!(produce(&mut client, "t", sequenced(10, &["d"])).base_offset, 3);
    assert_eq!(read_all(&mut client, "t"), ["a", "b", "c", "d"]);
    let stored = fetch(&mut client, "t", 0);
    assert_eq!(BatchHeader::parse(&stored).unwrap().producer_id, 4_711);
}
