//! Produce requests, encoded before the window opens.

use std::time::{SystemTime, UNIX_EPOCH};

use hone_kafka::{BatchBuilder, Codec, ProduceFrame};
use hone_record::Workload;

use crate::LoadError;
use crate::admin::{CLIENT_ID, TopicLayout};
use crate::connection::Cargo;
use crate::keys::KeySource;
use crate::payload::Values;

mod keyed;

/// Distinct requests for one leader; they are sent in turn.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The requests and what each carries.
    pub frames: Vec<(ProduceFrame, Cargo)>,
}

/// So many distinct requests keep a broker from seeing the same bytes again while they are in its caches' memory of
/// branches, without the load growing large itself.
const FRAMES: usize = 256;
/// Memory for all requests of a pool; large requests get fewer.
const POOL_BYTES: usize = 64 << 20;

/// One pool for each leader of the layout.
pub(crate) fn pools(workload: &Workload, layout: &TopicLayout) -> Result<Vec<Pool>, LoadError> {
    let mut values = Values::of(workload)?;
    if let Some(keys) = KeySource::new(&workload.keys, workload.seed) {
        return keyed::pools(workload, layout, keys, &mut values);
    }
    layout
        .leaders
        .iter()
        .map(|(_, partitions)| pool(workload, &layout.topic, partitions, &mut values))
        .collect()
}

fn pool(
    workload: &Workload,
    topic: &str,
    partitions: &[i32],
    values: &mut Values,
) -> Result<Pool, LoadError> {
    let codec = codec_of(workload)?;
    let width = (workload.partitions_per_request as usize).min(partitions.len());
    let request_bytes = width * workload.records_per_batch as usize * workload.record_bytes.max(1) as usize;
    // A multiple of the partitions, so that the turn through the pool loads them evenly.
    let rounds = (FRAMES.min(POOL_BYTES / request_bytes.max(1))).div_ceil(partitions.len()).max(1);
    let frames = (0..rounds * partitions.len()).map(|index| {
        let batches = (0..width)
            .map(|offset| {
                let partition = partitions[(index * width + offset) % partitions.len()];
                Ok((partition, batch(workload.records_per_batch, codec, values)?))
            })
            .collect::<Result<Vec<_>, LoadError>>()?;
        frame(workload, topic, &batches)
    });
    Ok(Pool { frames: frames.collect::<Result<_, _>>()? })
}

fn frame(
    workload: &Workload,
    topic: &str,
    batches: &[(i32, Vec<u8>)],
) -> Result<(ProduceFrame, Cargo), LoadError> {
    let borrowed: Vec<(i32, &[u8])> =
        batches.iter().map(|(partition, batch)| (*partition, batch.as_slice())).collect();
    let cargo = Cargo {
        records: batches.len() as u64 * u64::from(workload.records_per_batch),
        bytes: batches.iter().map(|(_, batch)| batch.len() as u64).sum(),
    };
    let timeout_ms = (workload.timeout_s * 1e3) as i32;
    let frame = ProduceFrame::new(CLIENT_ID, workload.acks, timeout_ms, topic, &borrowed)
        .map_err(|error| encoding(&error))?;
    Ok((frame, cargo))
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

/// The codec of a workload's name.
pub(crate) fn codec_of(workload: &Workload) -> Result<Codec, LoadError> {
    Codec::from_name(&workload.compression).ok_or_else(|| LoadError::Setting {
        name: "compression",
        problem: format!("`{}` is not one of none, gzip, snappy, lz4, zstd", workload.compression),
    })
}
