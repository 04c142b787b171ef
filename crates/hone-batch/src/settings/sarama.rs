//! IBM/sarama.

use super::model::{Block, Change, Client, Partitioner, Row, Sheet, Traps, go_duration};

pub(super) fn sheet(change: &Change, partitions: Option<u32>) -> Sheet {
    let rows = rows(change, partitions);
    let lines = rows.iter().filter_map(|row| Some(format!("config.{} = {}", row.name, row.value.as_ref()?)));
    Sheet {
        client: Client::Sarama,
        title: "Sarama",
        read_in: "sarama 1.61.1, config.go and produce_set.go",
        blocks: vec![Block { place: "Go, on a *sarama.Config", lines: lines.collect() }],
        traps: traps(change, partitions),
        sources: vec!["sarama 1.61.1, config.go, produce_set.go, partitioner.go"],
        rows,
    }
}

/// Triggers count all partitions of a broker, so a cap for one has to be that of all.
fn flush_bytes(change: &Change, partitions: Option<u32>) -> Option<u64> {
    Some(u64::from(change.batch_bytes?).saturating_mul(partitions.unwrap_or(1).into()))
}

fn rows(change: &Change, partitions: Option<u32>) -> Vec<Row> {
    let row = |about, name, default, value: Option<String>| {
        value.map(|value| Row { about, name, default, value: Some(value) })
    };
    let idempotent = change.idempotent == Some(true);
    let acks = change.acks.or(idempotent.then_some(-1));
    let in_flight = if idempotent { Some(1) } else { change.in_flight };
    let partitioner = change.partitioner.map(|of| Row {
        about: "partitioner",
        name: "Producer.Partitioner",
        default: "NewHashPartitioner: keys by FNV-1a, not Java's murmur2; else a random partition for every record",
        value: match of {
            Partitioner::Sticky => None,
            Partitioner::RoundRobin => Some("sarama.NewRoundRobinPartitioner".to_owned()),
            Partitioner::Murmur2 => Some("sarama.NewMurmur2Partitioner".to_owned()),
        },
    });
    let buffer = change.buffer_bytes.map(|_| Row {
        about: "buffer memory",
        name: "",
        default: "no setting in bytes; ChannelBufferSize 256 messages for each channel",
        value: None,
    });
    [
        row(
            "linger",
            "Producer.Flush.Frequency",
            "0: as fast as possible",
            change.linger_us.map(go_duration),
        ),
        row(
            "batch size",
            "Producer.Flush.Bytes",
            "0: no trigger by bytes",
            flush_bytes(change, partitions).map(|bytes| bytes.to_string()),
        ),
        row(
            "codec",
            "Producer.Compression",
            "none",
            change.codec.map(|codec| codec_constant(codec.name()).to_owned()),
        ),
        partitioner,
        row(
            "acks",
            "Producer.RequiredAcks",
            "1 (WaitForLocal)",
            acks.map(|acks| acks_constant(acks).to_owned()),
        ),
        row(
            "idempotence",
            "Producer.Idempotent",
            "false",
            change.idempotent.map(|idempotent| idempotent.to_string()),
        ),
        row("in flight", "Net.MaxOpenRequests", "5", in_flight.map(|in_flight| in_flight.to_string())),
        buffer,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn codec_constant(name: &str) -> &'static str {
    match name {
        "gzip" => "sarama.CompressionGZIP",
        "snappy" => "sarama.CompressionSnappy",
        "lz4" => "sarama.CompressionLZ4",
        "zstd" => "sarama.CompressionZSTD",
        _ => "sarama.CompressionNone",
    }
}

fn acks_constant(acks: i16) -> &'static str {
    match acks {
        0 => "sarama.NoResponse",
        1 => "sarama.WaitForLocal",
        _ => "sarama.WaitForAll",
    }
}

fn traps(change: &Change, partitions: Option<u32>) -> Vec<String> {
    let mut traps = Traps::default();
    traps.tell(
        change.linger_us.is_some() || change.batch_bytes.is_some(),
        "There is no linger for a partition. Flush.Frequency, Flush.Bytes and Flush.Messages are triggers for a broker: the first that \
         is met sends the messages of all its partitions, so they count over partitions.",
    );
    traps.tell(
        change.batch_bytes.is_some() && partitions.is_none(),
        "Flush.Bytes is for all partitions of a broker together: multiply it by those that a producer writes \
         to there (--producer-partitions).",
    );
    traps.tell(
        change.batch_bytes.is_some() && partitions.is_some_and(|partitions| partitions > 1),
        "Flush.Bytes counts the partitions of one broker, but this value is for all of \
         --producer-partitions: divide it by the number of brokers that lead them, or the trigger comes that \
         much later.",
    );
    traps.tell(
        change.batch_bytes.is_some() && change.linger_us.is_none(),
        "Flush.Bytes or Flush.Messages without Flush.Frequency do not send the last messages: set a linger, \
         too.",
    );
    traps.tell(
        change.batch_bytes.is_some_and(|bytes| bytes >= 1 << 20),
        "A batch of one partition ends at Producer.MaxMessageBytes (1048576), which is also the largest message.",
    );
    traps.tell(
        change.linger_us.is_some_and(|linger_us| linger_us > 0),
        "SyncProducer.SendMessage waits for each message: one record per batch at any frequency. Use \
         SendMessages or AsyncProducer.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::Sticky),
        "There is no sticky partitioner: messages without a key are spread one by one. Write one (sarama.Partitioner), or give messages \
         that belong together one key.",
    );
    traps.tell(
        change.partitioner == Some(Partitioner::Murmur2),
        "Changing the hash moves keys to other partitions: their order breaks at the change.",
    );
    traps.tell(
        change.idempotent == Some(true),
        "Idempotence requires acks all, Net.MaxOpenRequests 1 and a Version of V0_11_0_0 or later: one \
         request at a time is slow unless batches are large.",
    );
    traps.tell(
        change.acks.is_none(),
        "The default is acks 1: records that a leader loses before replication are lost, unlike with the \
         other clients.",
    );
    traps.tell(
        change.buffer_bytes.is_some(),
        "There is no memory limit: only Flush.Bytes and the channels limit the waiting records, so limit \
         what you pass to the producer.",
    );
    traps.tell(
        change.codec.is_some_and(|codec| codec.name() == "zstd"),
        "zstd needs config.Version of V2_1_0_0 or later.",
    );
    traps.0
}
