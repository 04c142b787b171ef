//! Produce requests, encoded before the window opens.

use std::time::{SystemTime, UNIX_EPOCH};

use hone_kafka::batch::set_producer;
use hone_kafka::{BatchBuilder, Codec, ProduceFrame, SequencePatch};
use hone_record::Workload;

use crate::admin::TopicLayout;
use crate::connection::{Cargo, InFlight, Sent};
use crate::engine::turn::Turn;
use crate::error::LoadError;
use crate::keys::KeySource;
use crate::line::CLIENT_ID;
use crate::payload::Values;
use crate::topic_set::TopicSet;

mod keyed;

/// A request that is sent again and again. Only correlation id and sequence change between two sends.
#[derive(Debug)]
pub(crate) struct Request {
    frame: ProduceFrame,
    /// Contents of the request.
    pub cargo: Cargo,
    /// The first partition that it writes to.
    pub partition: i32,
    /// The other partitions.
    others: Vec<i32>,
    /// Its batch if it has a producer id.
    sequence: Option<SequencePatch>,
}

impl Request {
    pub(crate) fn new(frame: ProduceFrame, cargo: Cargo, partition: i32) -> Self {
        Self { frame, cargo, partition, others: Vec::new(), sequence: None }
    }

    /// Appends its bytes to a buffer.
    pub(crate) fn put(&self, out: &mut Vec<u8>, correlation_id: i32, sequence: i32) {
        let start = out.len();
        out.extend_from_slice(self.frame.bytes());
        let bytes = &mut out[start..];
        ProduceFrame::write_correlation_id(bytes, correlation_id);
        if let Some(patch) = &self.sequence
            && let Some(batch) = self.frame.batches().first().and_then(|range| bytes.get_mut(range.clone()))
        {
            patch.apply(batch, sequence);
        }
    }

    /// The request on its way to the broker.
    pub(crate) fn sent(&self, intended_ns: u64, now_ns: u64) -> Sent {
        Sent {
            request: InFlight { intended_ns, sent_ns: now_ns, cargo: self.cargo },
            written_ns: now_ns,
            partition: self.partition,
            sequence: -1,
        }
    }
}

/// The producer, if the broker must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer {
    pub id: i64,
    pub epoch: i16,
}

/// Distinct requests for some partitions of one leader; they are sent in turn.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The requests.
    pub requests: Vec<Request>,
    /// The partitions that they write to, in order.
    pub partitions: Vec<i32>,
    /// How often they are sent, compared with other pools.
    pub weight: f64,
}

impl Pool {
    /// An empty pool, for a connection to a broker that leads no partition.
    pub(crate) fn empty() -> Self {
        Self { requests: Vec::new(), partitions: Vec::new(), weight: 0.0 }
    }

    /// A request for a partition, searched from a position in the turn. If no request begins with this partition, it is the next one among
    /// the requests to several partitions. A numbered batch is for its own partition only.
    pub(crate) fn request_for(&self, partition: i32, from: usize) -> Option<&Request> {
        let count = self.requests.len();
        let in_turn = || (0..count).map(|step| &self.requests[(from + step) % count]);
        in_turn()
            .find(|request| request.partition == partition)
            .or_else(|| in_turn().find(|request| request.others.contains(&partition)))
    }
}

/// Number of distinct requests. It is large enough that the broker does not see the same bytes again while its caches and branch predictors
/// still hold them, and small enough for memory.
const FRAMES: usize = 256;
/// The same where partitions have weights: the turn through the pool is as near to them as its length lets it be.
const WEIGHTED_FRAMES: usize = 4_096;
/// Memory for all requests of a pool. With large requests there are fewer of them.
const POOL_BYTES: usize = 64 << 20;

/// One pool for each entry of the layout: a leader, or a share of its partitions.
pub(crate) fn pools(
    workload: &Workload,
    layout: &TopicLayout,
    producer: Option<Producer>,
) -> Result<Vec<Pool>, LoadError> {
    let mut values = Values::from_workload(workload)?;
    if let Some(keys) = KeySource::new(&workload.keys, workload.seed) {
        return keyed::pools(workload, layout, keys, &mut values, producer);
    }
    layout
        .leaders
        .iter()
        .map(|(_, partitions)| pool(workload, &layout.topics, partitions, &mut values, producer))
        .collect()
}

fn pool(
    workload: &Workload,
    topics: &TopicSet,
    partitions: &[i32],
    values: &mut Values,
    producer: Option<Producer>,
) -> Result<Pool, LoadError> {
    let codec = codec_of(workload)?;
    let width = (workload.partitions_per_request as usize).min(partitions.len());
    let request_bytes = width * workload.records_per_batch as usize * workload.record_bytes.max(1) as usize;
    let shares = workload.topics.weights();
    let weights: Vec<f64> = partitions.iter().map(|number| shares[topics.index(*number)]).collect();
    // A multiple of the partitions, so that the turn through the pool loads them evenly, or long enough to load each by its weight.
    let frames = if workload.topics.is_equal() { FRAMES } else { WEIGHTED_FRAMES };
    let rounds = (frames.min(POOL_BYTES / request_bytes.max(1))).div_ceil(partitions.len()).max(1);
    let mut turn = Turn::new(weights.iter().copied());
    let mut next = || turn.next().map_or(0, |index| partitions[index]);
    let requests = (0..rounds * partitions.len()).map(|_| {
        let batches = (0..width)
            .map(|_| Ok((next(), batch(workload.records_per_batch, codec, values)?)))
            .collect::<Result<Vec<_>, LoadError>>()?;
        request(workload, topics, batches, producer)
    });
    Ok(Pool {
        requests: requests.collect::<Result<_, _>>()?,
        partitions: partitions.to_vec(),
        weight: weights.iter().sum(),
    })
}

fn request(
    workload: &Workload,
    topics: &TopicSet,
    mut batches: Vec<(i32, Vec<u8>)>,
    producer: Option<Producer>,
) -> Result<Request, LoadError> {
    if let Some(Producer { id, epoch }) = producer {
        for (_, batch) in &mut batches {
            set_producer(batch, id, epoch, 0).map_err(|error| encoding(&error))?;
        }
    }
    // Of several topics, the first batch of the request must be the first here, too.
    batches.sort_by_key(|(partition, _)| topics.index(*partition));
    let borrowed = batches.iter().map(|(partition, batch)| (*partition, batch.as_slice()));
    let cargo = Cargo {
        records: batches.len() as u64 * u64::from(workload.records_per_batch),
        bytes: batches.iter().map(|(_, batch)| batch.len() as u64).sum(),
    };
    let timeout_ms = (workload.timeout_s * 1e3) as i32;
    let frame = ProduceFrame::of_topics(CLIENT_ID, workload.acks, timeout_ms, &topics.by_topic(borrowed))
        .map_err(|error| encoding(&error))?;
    let (partition, batch) = batches.first().map_or((0, &[][..]), |(partition, batch)| (*partition, batch));
    let sequence =
        producer.map(|_| SequencePatch::new(batch)).transpose().map_err(|error| encoding(&error))?;
    let others = batches.iter().skip(1).map(|(partition, _)| *partition).collect();
    Ok(Request { frame, cargo, partition, others, sequence })
}

/// One batch of fresh values.
pub(crate) fn batch(records: u32, codec: Codec, values: &mut Values) -> Result<Vec<u8>, LoadError> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let mut builder = BatchBuilder::new(codec);
    for _ in 0..records {
        builder.push(None, Some(&values.next_value()), now_ms);
    }
    builder.build().map_err(|error| encoding(&error))
}

pub(crate) fn encoding(error: &dyn std::fmt::Display) -> LoadError {
    LoadError::Encode { what: "Produce v7".to_owned(), problem: error.to_string() }
}

/// The codec with the workload's name.
pub(crate) fn codec_of(workload: &Workload) -> Result<Codec, LoadError> {
    Codec::from_name(&workload.compression).ok_or_else(|| LoadError::Setting {
        name: "compression",
        problem: format!("`{}` is not one of none, gzip, snappy, lz4, zstd", workload.compression),
    })
}
