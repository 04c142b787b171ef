//! How clients handle records until they are on the wire: the rules, their defaults, and their sources.

use hone_kafka::codec::Codec;

/// Clients whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// The Java client before 4.0, which does not linger by default.
    Java3,
    /// The Java client from 4.0 on (KIP-1030).
    Java4,
    /// librdkafka, and what is built on it: confluent-kafka for Python, .NET, Go and JavaScript, kcat, rdkafka for Rust.
    Librdkafka,
    /// franz-go.
    FranzGo,
}

/// The contents of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A request with the head batch of every partition that the broker leads, as soon as one of them is ready.
    Together,
    /// A request for each batch that is ready; the others go on waiting.
    Alone,
}

/// The start of the linger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the append of a batch's first record.
    FirstRecord,
    /// From there, or from the last request that took a batch of that partition and left another one.
    FirstRecordOrTurn,
}

/// The size at which a batch is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullBy {
    /// By its estimated compressed size.
    Guess,
    /// By its uncompressed records.
    Plain,
}

/// The partition of records without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyless {
    /// To one partition until it has this many bytes (by the estimated compressed size) and its batch is full, or twice as many (KIP-794,
    /// KAFKA-14156).
    ByGuess {
        /// Bytes, `batch.size`.
        bytes: u32,
    },
    /// To one partition until it has this many bytes of records.
    ByBytes {
        /// Bytes.
        bytes: u32,
    },
    /// To one partition for a time.
    ByTime {
        /// Microseconds.
        us: u64,
    },
    /// To the next one with each record: `RoundRobinPartitioner`, and applications that choose the partition.
    EachInTurn,
}

/// The rules of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The client.
    pub client: Client,
    /// `linger.ms`, in microseconds.
    pub linger_us: u64,
    /// `batch.size`, or `ProducerBatchMaxBytes`.
    pub batch_bytes: u32,
    /// The most records of a batch.
    pub batch_records: u32,
    /// The most bytes of a request: `max.request.size`, or `BrokerMaxWriteBytes`.
    pub request_bytes: u64,
    /// The most unanswered requests of a broker.
    pub in_flight: u32,
    /// The same, of a partition.
    pub in_flight_each: u32,
    /// The memory for waiting records: `buffer.memory`, or `queue.buffering.max.kbytes`. When it is used up, an application's call blocks.
    pub memory_bytes: u64,
    /// The same, in records.
    pub memory_records: u64,
    /// The codec of batches.
    pub codec: Codec,
    /// The partition of records without a key.
    pub keyless: Keyless,
    /// The contents of a request.
    pub turn: Turn,
    /// The start of the linger.
    pub clock: Clock,
    /// The size at which a batch is full.
    pub full_by: FullBy,
}

/// A rule, with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The rule.
    pub rule: &'static str,
    /// File and function.
    pub read_in: &'static str,
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 4] = [Self::Java3, Self::Java4, Self::Librdkafka, Self::FranzGo];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java3 => "java3",
            Self::Java4 => "java4",
            Self::Librdkafka => "librdkafka",
            Self::FranzGo => "franz-go",
        }
    }

    /// The client of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Its defaults.
    pub fn defaults(self) -> Rules {
        match self {
            Self::Java3 => java(0),
            Self::Java4 => java(5_000),
            Self::Librdkafka => librdkafka(),
            Self::FranzGo => franz_go(),
        }
    }

    /// Its rules, and their sources.
    pub fn sources(self) -> &'static [Source] {
        match self {
            Self::Java3 | Self::Java4 => &JAVA,
            Self::Librdkafka => &LIBRDKAFKA,
            Self::FranzGo => &FRANZ_GO,
        }
    }
}

/// `ProducerConfig` of kafka-clients 3.9 and 4.x; with idempotence, which is the default since 3.0.
fn java(linger_us: u64) -> Rules {
    const BATCH_SIZE: u32 = 16_384;
    Rules {
        client: if linger_us == 0 { Client::Java3 } else { Client::Java4 },
        linger_us,
        batch_bytes: BATCH_SIZE,
        batch_records: u32::MAX,
        request_bytes: 1 << 20,
        in_flight: 5,
        in_flight_each: u32::MAX,
        memory_bytes: 32 << 20,
        memory_records: u64::MAX,
        codec: Codec::None,
        keyless: Keyless::ByGuess { bytes: BATCH_SIZE },
        turn: Turn::Together,
        clock: Clock::FirstRecord,
        full_by: FullBy::Guess,
    }
}

/// `CONFIGURATION.md` of librdkafka 2.12.
fn librdkafka() -> Rules {
    Rules {
        client: Client::Librdkafka,
        linger_us: 5_000,
        batch_bytes: 1_000_000,
        batch_records: 10_000,
        request_bytes: 1_000_000,
        in_flight: 1_000_000,
        in_flight_each: u32::MAX,
        memory_bytes: 1 << 30,
        memory_records: 100_000,
        codec: Codec::None,
        keyless: Keyless::ByTime { us: 10_000 },
        turn: Turn::Alone,
        clock: Clock::FirstRecord,
        full_by: FullBy::Plain,
    }
}

/// `config.go` of franz-go 1.22.2. Before 1.20 it did not linger.
fn franz_go() -> Rules {
    Rules {
        client: Client::FranzGo,
        linger_us: 10_000,
        batch_bytes: 1_000_012,
        batch_records: u32::MAX,
        request_bytes: 100 << 20,
        in_flight: 5,
        in_flight_each: u32::MAX,
        memory_bytes: u64::MAX,
        memory_records: 50_000,
        codec: Codec::Snappy,
        keyless: Keyless::ByBytes { bytes: 64 << 10 },
        turn: Turn::Together,
        clock: Clock::FirstRecordOrTurn,
        full_by: FullBy::Plain,
    }
}

impl Rules {
    /// With another linger; librdkafka's time for a sticky partition changes along, because its default is twice the linger.
    #[must_use]
    pub fn with_linger_us(mut self, linger_us: u64) -> Self {
        self.linger_us = linger_us;
        if let Keyless::ByTime { us } = &mut self.keyless {
            *us = linger_us.saturating_mul(2);
        }
        self
    }

    /// With another limit of records per batch.
    #[must_use]
    pub fn with_batch_records(mut self, records: u32) -> Self {
        self.batch_records = records;
        self
    }

    /// With another batch size; Java's sticky partitioner uses the same setting.
    #[must_use]
    pub fn with_batch_bytes(mut self, batch_bytes: u32) -> Self {
        self.batch_bytes = batch_bytes;
        if let Keyless::ByGuess { bytes } = &mut self.keyless {
            *bytes = batch_bytes.max(1);
        }
        self
    }

    /// With another codec.
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// librdkafka with `enable.idempotence=true`, which limits the requests in flight of a partition (`RD_KAFKA_IDEMP_MAX_INFLIGHT`).
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        if self.turn == Turn::Alone {
            self.in_flight = 5;
            self.in_flight_each = 5;
        }
        self
    }
}

const JAVA: [Source; 10] = [
    Source {
        rule: "a batch is ready when it is full, when a second one waits after it, when its linger is over \
               or when memory is used up",
        read_in: "RecordAccumulator.partitionReady, batchReady",
    },
    Source {
        rule: "linger runs from the append of the first record",
        read_in: "RecordAccumulator.appendNewBatch, ProducerBatch.waitedTimeMs",
    },
    Source {
        rule: "a ready partition makes its broker ready, and then the head batch of every partition of that broker is taken, up to max.request.size",
        read_in: "RecordAccumulator.ready, drainBatchesForOneNode",
    },
    Source {
        rule: "a broker with max.in.flight.requests.per.connection (5) unanswered requests is not ready; more records gather",
        read_in: "Sender.sendProducerData, InFlightRequests.canSendMore",
    },
    Source {
        rule: "a record fits if the estimate for the batch plus the uncompressed record is within \
               batch.size; the estimate is header + records x ratio x 1.05",
        read_in: "MemoryRecordsBuilder.hasRoomFor, estimatedBytesWritten",
    },
    Source {
        rule: "the ratio begins at 1, improves by 0.005 per batch and worsens by at least 0.05, by topic",
        read_in: "CompressionRatioEstimator.updateEstimation",
    },
    Source {
        rule: "each unanswered batch holds batch.size of buffer.memory",
        read_in: "RecordAccumulator.append, deallocate",
    },
    Source {
        rule: "records without a key stay with a partition until it has batch.size bytes and its batch is full, or twice as many; the next one is chosen at random, weighted by queues that differ",
        read_in: "BuiltInPartitioner.updatePartitionInfo, nextPartition; RecordAccumulator.partitionChanged",
    },
    Source {
        rule: "linger.ms 0 before 4.0 and 5 since; batch.size 16384; buffer.memory 32 MiB",
        read_in: "ProducerConfig, KIP-1030",
    },
    Source { rule: "keys go by murmur2 modulo partitions", read_in: "BuiltInPartitioner.partitionForKey" },
];

const LIBRDKAFKA: [Source; 6] = [
    Source {
        rule: "a partition is ready when its queue has batch.num.messages, or batch.size bytes of keys and values, or its first record is older than linger.ms",
        read_in: "rdkafka_msg.c, rd_kafka_msgq_allow_wakeup_at",
    },
    Source {
        rule: "each request has one batch of one partition; it takes no others along",
        read_in: "rdkafka_broker.c, rd_kafka_toppar_producer_serve",
    },
    Source {
        rule: "a batch takes records until batch.num.messages or the smaller of batch.size and \
               message.max.bytes, before compression",
        read_in: "rdkafka_msgset_writer.c, rd_kafka_msgset_writer_write_msgq",
    },
    Source {
        rule: "with idempotence 5 requests of a partition are in flight, without it a million of a broker",
        read_in: "rdkafka_idempotence.h, rdkafka_conf.c",
    },
    Source {
        rule: "records without a key stay with a partition for sticky.partitioning.linger.ms, which is twice linger.ms unless it is set",
        read_in: "rdkafka_msg.c, rd_kafka_msg_sticky_partition; rdkafka_conf.c",
    },
    Source {
        rule: "linger.ms 5, batch.size 1,000,000, batch.num.messages 10,000",
        read_in: "CONFIGURATION.md of 2.12",
    },
];

const FRANZ_GO: [Source; 6] = [
    Source {
        rule: "a partition asks for a request when its linger is over, when a second batch waits after the \
               first, or at once without a linger",
        read_in: "sink.go, checkIfShouldDrainOrStartLinger",
    },
    Source {
        rule: "a request takes the head batch of every partition of the broker and stops their lingers; the \
               linger of a remaining batch restarts",
        read_in: "sink.go, createReq",
    },
    Source {
        rule: "a batch is full at ProducerBatchMaxBytes before compression",
        read_in: "sink.go, tryBuffer",
    },
    Source { rule: "5 requests of a broker are in flight with idempotence", read_in: "sink.go, newSink" },
    Source {
        rule: "records without a key stay with a partition for 64 KiB, then the next is chosen at random, \
               weighted by one over its waiting records",
        read_in: "partitioner.go, UniformBytesPartitioner",
    },
    Source {
        rule: "linger 10 ms, ProducerBatchMaxBytes 1,000,012, snappy, 50,000 records may wait",
        read_in: "config.go of 1.22.2",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_clients() {
        let linger_ms: Vec<_> = Client::ALL.map(|client| client.defaults().linger_us / 1_000).into();
        assert_eq!(linger_ms, [0, 5, 5, 10]);
        for client in Client::ALL {
            assert_eq!((client.defaults().client, Client::from_name(client.name())), (client, Some(client)));
            assert!(client.sources().iter().all(|source| !source.read_in.is_empty()));
        }
        assert_eq!(Client::from_name("sarama"), None);
    }

    #[test]
    fn settings_that_hang_together_move_together() {
        let java = Client::Java4.defaults().with_batch_bytes(65_536);
        assert_eq!(java.keyless, Keyless::ByGuess { bytes: 65_536 });
        let librdkafka = Client::Librdkafka.defaults().with_linger_us(50_000);
        assert_eq!(librdkafka.keyless, Keyless::ByTime { us: 100_000 });
        assert_eq!(librdkafka.idempotent().in_flight_each, 5);
        assert_eq!(Client::Java4.defaults().idempotent(), Client::Java4.defaults());
    }
}
