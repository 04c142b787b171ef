//! twmb/franz-go.

use super::model::{Block, Change, Client, Partitioner, Row, Sheet, Traps, go_duration};

/// config.go refuses more.
const LINGER_US_MOST: u64 = 60_000_000;

pub(super) fn sheet(change: &Change) -> Sheet {
    let rows = rows(change);
    let options = rows.iter().filter_map(|row| row.value.as_ref());
    Sheet {
        client: Client::FranzGo,
        title: "franz-go",
        read_in: "franz-go 1.22.2, pkg/kgo/config.go",
        blocks: vec![Block {
            place: "options of kgo.NewClient (Go)",
            lines: options.map(|option| format!("{option},")).collect(),
        }],
        traps: traps(change),
        sources: vec!["franz-go 1.22.2 config.go and CHANGELOG.md", "franz-go#863"],
        rows,
    }
}

fn rows(change: &Change) -> Vec<Row> {
    let row = |about, name, default, value: Option<String>| {
        value.map(|value| Row { about, name, default, value: Some(value) })
    };
    let no_longer_numbered = change.idempotent == Some(false) || change.takes_idempotence_away();
    // With batch numbers, the user can't choose the requests in flight.
    let in_flight = change.in_flight.map(|in_flight| Row {
        about: "in flight",
        name: "MaxProduceRequestsInflightPerBroker",
        default: "5 with idempotence, which can't be changed; 1 without",
        value: no_longer_numbered.then(|| format!("kgo.MaxProduceRequestsInflightPerBroker({in_flight})")),
    });
    [
        row("linger", "ProducerLinger", "10 ms since 1.20.0, 0 before", change.linger_us.map(linger)),
        row(
            "batch size",
            "ProducerBatchMaxBytes",
            "1000012 bytes, before compression",
            change.batch_bytes.map(|bytes| format!("kgo.ProducerBatchMaxBytes({bytes})")),
        ),
        row(
            "codec",
            "ProducerBatchCompression",
            "snappy",
            change.codec.map(|codec| format!("kgo.ProducerBatchCompression({})", codec_option(codec.name()))),
        ),
        row(
            "partitioner",
            "RecordPartitioner",
            "UniformBytesPartitioner(64 KiB): keys by murmur2, else sticky by bytes",
            change.partitioner.map(|of| format!("kgo.RecordPartitioner({})", partitioner(of))),
        ),
        row("acks", "RequiredAcks", "all", change.acks.map(acks)),
        row(
            "idempotence",
            "DisableIdempotentWrite",
            "on",
            no_longer_numbered.then(|| "kgo.DisableIdempotentWrite()".to_owned()),
        ),
        in_flight,
        row(
            "buffer memory",
            "MaxBufferedBytes",
            "no limit, but MaxBufferedRecords 50000",
            change.buffer_bytes.map(|bytes| format!("kgo.MaxBufferedBytes({bytes})")),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn linger(linger_us: u64) -> String {
    format!("kgo.ProducerLinger({})", go_duration(linger_us))
}

fn codec_option(name: &str) -> &'static str {
    match name {
        "gzip" => "kgo.GzipCompression()",
        "snappy" => "kgo.SnappyCompression()",
        "lz4" => "kgo.Lz4Compression()",
        "zstd" => "kgo.ZstdCompression()",
        _ => "kgo.NoCompression()",
    }
}

fn partitioner(of: Partitioner) -> &'static str {
    match of {
        Partitioner::Sticky | Partitioner::Murmur2 => "kgo.UniformBytesPartitioner(64<<10, true, true, nil)",
        Partitioner::RoundRobin => "kgo.RoundRobinPartitioner()",
    }
}

fn acks(acks: i16) -> String {
    let option = match acks {
        0 => "kgo.NoAck()",
        1 => "kgo.LeaderAck()",
        _ => "kgo.AllISRAcks()",
    };
    format!("kgo.RequiredAcks({option})")
}

fn traps(change: &Change) -> Vec<String> {
    let mut traps = Traps::default();
    traps.tell(
        change.linger_us.is_some(),
        "When one partition's linger is over, the request takes all partitions of that broker, and their \
         lingers restart.",
    );
    traps.tell(
        change.linger_us.is_some(),
        "ProduceSync ends the linger of what it produces, so linger has no effect there.",
    );
    traps.tell(
        change.linger_us.is_some_and(|linger_us| linger_us > LINGER_US_MOST),
        "The linger may be a minute at most: NewClient refuses more.",
    );
    traps.tell(
        change.batch_bytes.is_some(),
        "ProducerBatchMaxBytes is also the size limit of a record before compression: a larger one fails. \
         Most batches never reach it, so lowering it makes batches smaller, and raising it seldom makes them \
         larger.",
    );
    traps.tell(
        change.buffer_bytes.is_some() || change.linger_us.is_some_and(|linger_us| linger_us >= 20_000),
        "MaxBufferedRecords (50000) blocks Produce first: rate times linger must fit.",
    );
    traps.tell(
        change.acks.is_some_and(|acks| acks != -1),
        "NewClient refuses acks other than all unless you also set DisableIdempotentWrite.",
    );
    traps.tell(
        change.idempotent == Some(false) || change.takes_idempotence_away(),
        "Without idempotence, only 1 request is in flight to a broker until \
         MaxProduceRequestsInflightPerBroker allows more, and more than 1 may change the order.",
    );
    traps.tell(
        change.in_flight.is_some() && change.idempotent != Some(false) && !change.takes_idempotence_away(),
        "With idempotence the number in flight is 5 and can't be set; NewClient refuses the option.",
    );
    traps.tell(
        change.codec.is_some_and(|codec| codec.name() == "none"),
        "The default is snappy, so you must set `none` explicitly.",
    );
    traps.0
}
