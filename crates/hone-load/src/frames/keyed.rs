//! Requests of keyed records. The key determines the partition, so the batches fill as the keys fall, and hot keys make hot partitions.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use hone_kafka::{BatchBuilder, Codec, partition_of_key};
use hone_record::Workload;

use super::{POOL_BYTES, Pool, Producer, codec_of, encoding, request};
use crate::admin::TopicLayout;
use crate::engine::turn::Turn;
use crate::error::LoadError;
use crate::keys::KeySource;
use crate::payload::Values;

/// The turn through the requests is the sample of the keys' distribution that the broker sees, so it is longer than without keys.
const FRAMES: usize = 4_096;
/// If this many records for one request give none for some leader, the keys never reach that leader.
const PATIENCE: usize = 64;

/// Batches on their way into requests.
struct Filling {
    codec: Codec,
    /// One for each partition.
    builders: Vec<BatchBuilder>,
    /// Full batches of each partition, the oldest first.
    waiting: Vec<VecDeque<Vec<u8>>>,
    /// Partitions of each leader with waiting batches: always fewer than a request of it has.
    ready: Vec<Vec<usize>>,
    /// Number of requests still wanted of each leader.
    left: Vec<usize>,
    /// The leader of each partition; `None` without a leader, and its records are left out.
    leader_of: Vec<Option<usize>>,
    /// The topics in turn.
    turn: Turn,
    /// Partitions of each topic.
    width: usize,
}

pub(super) fn pools(
    workload: &Workload,
    layout: &TopicLayout,
    mut keys: KeySource,
    values: &mut Values,
    producer: Option<Producer>,
) -> Result<Vec<Pool>, LoadError> {
    let pool = |(_, led): &(String, Vec<i32>)| Pool { partitions: led.clone(), ..Pool::empty() };
    let mut pools: Vec<Pool> = layout.leaders.iter().map(pool).collect();
    let width = workload.partitions_per_request as usize;
    let records = width * workload.records_per_batch as usize;
    let request_bytes = records * workload.record_bytes as usize;
    let wanted = FRAMES.min(POOL_BYTES / request_bytes.max(1)).max(pools.len());
    let mut filling = Filling::new(workload, layout, wanted)?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let mut made = 0;
    for _ in 0..wanted * records * PATIENCE {
        if made >= wanted && pools.iter().all(|pool| !pool.requests.is_empty()) {
            // The keys determine how often each is written to.
            pools.iter_mut().for_each(|pool| pool.weight = pool.requests.len() as f64);
            return Ok(pools);
        }
        let key = keys.next_key();
        let Some(leader) = filling.push(workload, &key, &values.next_value(), now_ms)? else { continue };
        let width = width.min(layout.leaders[leader].1.len());
        if let Some(batches) = filling.take_request(leader, width) {
            pools[leader].requests.push(request(workload, &layout.topics, batches, producer)?);
            made += 1;
        }
    }
    Err(LoadError::Setting {
        name: "keys",
        problem: format!(
            "fill no request for some of the {} leaders of {} partitions; use more distinct keys, fewer \
             partitions or fewer partitions per request",
            pools.len(),
            filling.leader_of.len()
        ),
    })
}

impl Filling {
    fn new(workload: &Workload, layout: &TopicLayout, wanted: usize) -> Result<Self, LoadError> {
        let codec = codec_of(workload)?;
        let led: usize = layout.leaders.iter().map(|(_, led)| led.len()).sum();
        let mut leader_of = vec![None; led.max(workload.all_partitions() as usize)];
        for (leader, (_, partitions)) in layout.leaders.iter().enumerate() {
            for partition in partitions {
                if let Some(slot) = usize::try_from(*partition).ok().and_then(|at| leader_of.get_mut(at)) {
                    *slot = Some(leader);
                }
            }
        }
        Ok(Self {
            codec,
            builders: leader_of.iter().map(|_| BatchBuilder::new(codec)).collect(),
            waiting: vec![VecDeque::new(); leader_of.len()],
            ready: vec![Vec::new(); layout.leaders.len()],
            left: vec![wanted; layout.leaders.len()],
            width: leader_of.len() / workload.topics.count().max(1) as usize,
            leader_of,
            turn: Turn::new(workload.topics.weights()),
        })
    }

    /// Adds a record to the partition of its key; returns the leader if a batch is now full. It drops records of leaders that have all
    /// their requests, and of partitions that already have as many waiting batches as can ever be used. Otherwise hot keys would fill the
    /// memory.
    fn push(
        &mut self,
        workload: &Workload,
        key: &[u8],
        value: &[u8],
        now_ms: i64,
    ) -> Result<Option<usize>, LoadError> {
        let topic = self.turn.next().unwrap_or(0);
        let partition = topic * self.width + partition_of_key(key, self.width as u32) as usize;
        let Some(leader) = self.leader_of[partition] else { return Ok(None) };
        let builder = &mut self.builders[partition];
        builder.push(Some(key), Some(value), now_ms);
        if (builder.record_count() as u32) < workload.records_per_batch {
            return Ok(None);
        }
        let full = std::mem::replace(builder, BatchBuilder::new(self.codec));
        let waiting = &mut self.waiting[partition];
        if waiting.len() >= self.left[leader] {
            return Ok(None);
        }
        waiting.push_back(full.build().map_err(|error| encoding(&error))?);
        if waiting.len() == 1 {
            self.ready[leader].push(partition);
        }
        Ok(Some(leader))
    }

    /// The oldest full batches of as many partitions as a request has. A partition can stand in a request only once.
    fn take_request(&mut self, leader: usize, width: usize) -> Option<Vec<(i32, Vec<u8>)>> {
        let (ready, waiting) = (&mut self.ready[leader], &mut self.waiting);
        if ready.len() < width {
            return None;
        }
        let oldest = |at: &usize| Some((*at as i32, waiting[*at].pop_front()?));
        let batches = ready.iter().filter_map(oldest).collect();
        ready.retain(|at| !waiting[*at].is_empty());
        self.left[leader] = self.left[leader].saturating_sub(1);
        Some(batches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{ProduceFrame, batches, codec, records};
    use hone_record::{Keys, Payload, Schedule, Sizes};
    use std::collections::BTreeMap;

    fn workload(keys: Keys, records_per_batch: u32, partitions_per_request: u32) -> Workload {
        Workload {
            name: "test".to_owned(),
            engine: hone_record::Engine::Wire,
            seed: 3,
            schedule: Schedule::Uniform,
            requests_per_s: 1.0,
            records_per_batch,
            record_bytes: 20,
            sizes: Sizes::Fixed,
            payload: Payload::Bytes { compressible_share: 0.5 },
            keys,
            compression: "none".to_owned(),
            connections: 1,
            in_flight: 1,
            topics: hone_record::TopicShares::default(),
            partitions: 6,
            partitions_per_request,
            acks: 1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: hone_record::GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processing: hone_record::Processing::default(),
            fetch: hone_record::FetchLimits::default(),
            read_from: hone_record::ReadFrom::End,
            backlog_bytes: 0,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 1.0,
            timeout_s: 1.0,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
        }
    }

    fn layout() -> TopicLayout {
        let leaders = vec![("a:1".to_owned(), vec![0, 3, 4]), ("b:1".to_owned(), vec![1, 2, 5])];
        TopicLayout { topics: "t".into(), leaders }
    }

    /// Partition, which stands four bytes before the length of its batch, and keys of every batch of a request.
    fn contents(frame: &ProduceFrame) -> Vec<(i32, Vec<Vec<u8>>)> {
        let batch = |range: &std::ops::Range<usize>| {
            let at = range.start - 8;
            let partition = i32::from_be_bytes(frame.bytes()[at..at + 4].try_into().unwrap());
            let found = batches(&frame.bytes()[range.clone()]).next().unwrap().unwrap();
            let plain = codec::decompress(found.header.codec(), found.payload(), 1 << 20).unwrap();
            let keys = records(&plain, found.header.record_count);
            (partition, keys.map(|record| record.unwrap().key.unwrap().to_vec()).collect())
        };
        frame.batches().iter().map(batch).collect()
    }

    #[test]
    fn every_record_goes_where_its_key_leads() {
        for (per_batch, width) in [(1, 1), (7, 1), (3, 2)] {
            let workload = workload(Keys::Uniform { distinct: 1_000 }, per_batch, width);
            let pools = super::super::pools(&workload, &layout(), None).unwrap();
            for (pool, (_, led)) in pools.iter().zip(layout().leaders) {
                assert!(pool.requests.len() > 1_000, "{}", pool.requests.len());
                for request in &pool.requests {
                    let (found, cargo) = (contents(&request.frame), request.cargo);
                    assert_eq!((found.len(), cargo.records), (width as usize, u64::from(per_batch * width)));
                    let distinct: std::collections::BTreeSet<i32> =
                        found.iter().map(|batch| batch.0).collect();
                    assert_eq!(distinct.len(), found.len(), "a partition stands in a request once");
                    for (partition, keys) in found {
                        assert!(led.contains(&partition));
                        let right = |key: &Vec<u8>| partition_of_key(key, 6) == partition as u32;
                        assert!(keys.iter().all(right) && keys.len() == per_batch as usize);
                    }
                }
            }
        }
    }

    #[test]
    fn hot_keys_make_hot_partitions() {
        let workload = workload(Keys::Zipf { distinct: 1_000_000, exponent: 1.2 }, 1, 1);
        let pools = super::super::pools(&workload, &layout(), None).unwrap();
        let mut by_partition = [0_usize; 6];
        for request in pools.iter().flat_map(|pool| &pool.requests) {
            by_partition[contents(&request.frame)[0].0 as usize] += 1;
        }
        let hottest = partition_of_key(b"k00000000", 6) as usize;
        let share = by_partition[hottest] as f64 / by_partition.iter().sum::<usize>() as f64;
        // 1/ζ(1.2, 10^6 terms) is 0.194 for the first key alone; the rest spreads.
        assert!(share > 0.27, "{by_partition:?}");
        assert_eq!(by_partition.iter().max(), by_partition.get(hottest), "{by_partition:?}");
    }

    #[test]
    fn keys_that_lead_past_a_leader_are_refused() {
        for (per_batch, width) in [(1, 1), (1, 2), (5, 3)] {
            let workload = workload(Keys::Uniform { distinct: 1 }, per_batch, width);
            let error = super::super::pools(&workload, &layout(), None).unwrap_err();
            assert!(error.to_string().contains("use more distinct keys"), "{error}");
        }
    }

    #[test]
    fn what_hot_keys_fill_beyond_the_wanted_is_not_kept() {
        let workload = workload(Keys::Uniform { distinct: 1 }, 1, 2);
        let mut filling = Filling::new(&workload, &layout(), 10).unwrap();
        for _ in 0..1_000 {
            filling.push(&workload, b"k00000000", b"value", 1).unwrap();
        }
        let kept: usize = filling.waiting.iter().map(VecDeque::len).sum();
        assert_eq!(kept, 10);
        // Alone a partition fills a request of one; when the leader has all of its requests, nothing waits for it.
        let leader = filling.leader_of[partition_of_key(b"k00000000", 6) as usize].unwrap();
        assert_eq!(filling.take_request(leader, 2), None);
        while filling.take_request(leader, 1).is_some() {}
        assert_eq!(filling.left[leader], 0);
        filling.push(&workload, b"k00000000", b"value", 1).unwrap();
        assert!(filling.waiting.iter().all(VecDeque::is_empty));
    }
}
