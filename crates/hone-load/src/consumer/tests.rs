//! Consumers of a small cluster of stand-ins, whose leaders stop answering, disappear and return.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hone_kafka::{BatchBuilder, Codec, batch};
use hone_record::Engine;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataResponse, RequestHeader,
    TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::*;

/// How a node treats connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Serves,
    /// Accepts connections and never answers.
    Hangs,
    /// Closes connections.
    Dead,
}

#[derive(Debug)]
struct State {
    moods: Vec<Mood>,
    ports: Vec<u16>,
    /// By partition: the node that leads, where the log begins, where it ends.
    leaders: Vec<Option<usize>>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    sockets: Vec<Vec<TcpStream>>,
    /// Connections over which a node was asked for records.
    readers: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Cluster(Arc<Mutex<State>>);

impl Cluster {
    fn start(nodes: usize, leaders: &[usize]) -> Self {
        let listeners: Vec<TcpListener> =
            (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let cluster = Self(Arc::new(Mutex::new(State {
            moods: vec![Mood::Serves; nodes],
            ports: listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect(),
            leaders: leaders.iter().copied().map(Some).collect(),
            starts: vec![0; leaders.len()],
            ends: vec![0; leaders.len()],
            sockets: (0..nodes).map(|_| Vec::new()).collect(),
            readers: vec![0; nodes],
        })));
        for (node, listener) in listeners.into_iter().enumerate() {
            let cluster = cluster.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let cluster = cluster.clone();
                    cluster.state().sockets[node].push(stream.try_clone().unwrap());
                    std::thread::spawn(move || cluster.serve(node, stream));
                }
            });
        }
        cluster
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.state().ports[node])
    }

    fn layout(&self) -> TopicLayout {
        let leaders = self.state().leaders.clone();
        let mut led: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (partition, leader) in leaders.into_iter().enumerate() {
            led.entry(self.address(leader.unwrap())).or_default().push(partition as i32);
        }
        TopicLayout { topics: "t".into(), leaders: led.into_iter().collect() }
    }

    /// The node dies; its partitions have this leader from now on.
    fn kill(&self, node: usize, successor: Option<usize>) {
        let mut state = self.state();
        state.moods[node] = Mood::Dead;
        for leader in state.leaders.iter_mut().filter(|leader| **leader == Some(node)) {
            *leader = successor;
        }
        state.sockets[node].drain(..).for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    fn serve(&self, node: usize, mut stream: TcpStream) {
        let mut reads = false;
        loop {
            let mood = self.state().moods[node];
            if mood == Mood::Dead {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            let mut length = [0; 4];
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut body = vec![0; u32::from_be_bytes(length) as usize];
            if stream.read_exact(&mut body).is_err() {
                return;
            }
            let mut answer = body[4..8].to_vec();
            match body[1] {
                1 => {
                    if !std::mem::replace(&mut reads, true) {
                        self.state().readers[node] += 1;
                    }
                    self.fetched(node, &body).encode(&mut answer, 11).unwrap();
                }
                2 => self.starts(&body).encode(&mut answer, 2).unwrap(),
                _ => self.metadata().encode(&mut answer, 7).unwrap(),
            }
            if self.state().moods[node] == Mood::Hangs {
                continue;
            }
            let length = (answer.len() as u32).to_be_bytes();
            if stream.write_all(&[&length[..], &answer].concat()).is_err() {
                return;
            }
        }
    }

    fn metadata(&self) -> MetadataResponse {
        let state = self.state();
        let broker = |(node, port): (usize, &u16)| {
            MetadataResponseBroker::default()
                .with_node_id((node as i32).into())
                .with_host(StrBytes::from_static_str("127.0.0.1"))
                .with_port((*port).into())
        };
        let partition = |(index, leader): (usize, &Option<usize>)| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(leader.map_or(-1, |leader| leader as i32).into())
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(name()))
            .with_partitions(state.leaders.iter().enumerate().map(partition).collect());
        MetadataResponse::default()
            .with_brokers(state.ports.iter().enumerate().map(broker).collect())
            .with_topics(vec![topic])
    }

    /// One record a batch, and a short wait when there is nothing.
    fn fetched(&self, node: usize, body: &[u8]) -> FetchResponse {
        let mut body = Bytes::copy_from_slice(body);
        RequestHeader::decode(&mut body, 1).unwrap();
        let request = FetchRequest::decode(&mut body, 11).unwrap();
        let asked: Vec<(i32, i64)> =
            request.topics[0].partitions.iter().map(|asked| (asked.partition, asked.fetch_offset)).collect();
        let answer = || asked.iter().map(|(index, from)| self.partition(node, *index, *from)).collect();
        let mut partitions: Vec<PartitionData> = answer();
        let is_empty = |of: &PartitionData| of.error_code == 0 && of.records.as_ref().unwrap().is_empty();
        if partitions.iter().all(is_empty) {
            std::thread::sleep(Duration::from_millis(20));
            partitions = answer();
        }
        let topic = FetchableTopicResponse::default().with_topic(name()).with_partitions(partitions);
        FetchResponse::default().with_responses(vec![topic])
    }

    fn partition(&self, node: usize, index: i32, from: i64) -> PartitionData {
        let state = self.state();
        let at = index as usize;
        let refused = |code| {
            let of = PartitionData::default().with_partition_index(index).with_error_code(code);
            of.with_high_watermark(-1).with_log_start_offset(-1)
        };
        if state.leaders[at] != Some(node) {
            return refused(6);
        }
        if from < state.starts[at] {
            return refused(1);
        }
        let mut records = Vec::new();
        for offset in from..state.ends[at] {
            let mut builder = BatchBuilder::new(Codec::None);
            builder.push(None, Some(b"value"), 1_000);
            let mut one = builder.build().unwrap();
            batch::set_base_offset(&mut one, offset).unwrap();
            records.extend_from_slice(&one);
        }
        PartitionData::default()
            .with_partition_index(index)
            .with_high_watermark(state.ends[at])
            .with_log_start_offset(state.starts[at])
            .with_records(Some(records.into()))
    }

    /// Answers only requests for the beginning of logs.
    fn starts(&self, body: &[u8]) -> ListOffsetsResponse {
        let mut body = Bytes::copy_from_slice(body);
        RequestHeader::decode(&mut body, 1).unwrap();
        let index = ListOffsetsRequest::decode(&mut body, 2).unwrap().topics[0].partitions[0].partition_index;
        let partition = ListOffsetsPartitionResponse::default()
            .with_partition_index(index)
            .with_offset(self.state().starts[index as usize]);
        let topic = ListOffsetsTopicResponse::default().with_name(name()).with_partitions(vec![partition]);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }
}

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

/// A load with this many consumers.
fn load(consumers: u32) -> Workload {
    Workload { consumers, ..Workload::of_operations("read", Engine::Wire) }
}

/// Consumers in an open window, and a producer of records for them.
struct Scene {
    cluster: Cluster,
    consumers: Consumers,
    start: Instant,
}

impl Scene {
    /// Consumers know the cluster by `bootstrap`.
    fn open(cluster: Cluster, count: u32, bootstrap: usize) -> Self {
        let layout = cluster.layout();
        let from: BTreeMap<i32, i64> =
            layout.leaders.iter().flat_map(|(_, led)| led).map(|p| (*p, 0)).collect();
        let address = cluster.address(bootstrap);
        let consumers = Consumers::start(&load(count), &address, &Access::plain(), &layout, &from).unwrap();
        consumers.begin(from, Duration::from_secs(10)).unwrap();
        let start = Instant::now();
        consumers.open(start, 60_000_000_000, BTreeMap::new());
        Self { cluster, consumers, start }
    }

    /// Stores a record and acknowledges it.
    fn put(&self, partition: i32) {
        let first = {
            let mut state = self.cluster.state();
            let end = &mut state.ends[partition as usize];
            *end += 1;
            *end - 1
        };
        let intended_ns = self.start.elapsed().as_nanos() as u64;
        let placed = Placed { partition, first, records: 1, intended_ns };
        self.consumers.orders().unwrap().send(ConsumerCommand::Placed(placed)).unwrap();
    }

    fn put_slowly(&self, partitions: &[i32], times: usize) {
        for _ in 0..times {
            partitions.iter().for_each(|partition| self.put(*partition));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn kinds(consumed: &Consumed) -> Vec<EventKind> {
    consumed.events.iter().map(|event| event.kind).collect()
}

#[test]
fn a_lost_leader_stops_only_what_it_led() {
    // The first broker asked for the new leaders hangs.
    let scene = Scene::open(Cluster::start(3, &[0, 1, 0]), 2, 2);
    scene.cluster.state().moods[2] = Mood::Hangs;
    scene.put_slowly(&[0, 1, 2], 5);
    std::thread::sleep(Duration::from_millis(200));
    scene.cluster.kill(1, None);
    scene.put_slowly(&[0, 2], 100);
    scene.put_slowly(&[1], 7);
    let consumed = scene.consumers.finish(Duration::from_secs(1));
    let seen = &consumed.end_to_end;
    assert_eq!((seen.missing, seen.fetched_records), (2 * 7, 2 * (15 + 200)), "{:?}", consumed.events);
    assert_eq!(kinds(&consumed), [EventKind::ConnectionLost; 2], "{:?}", consumed.events);
    // What did not come is a sample of the time that it waited: it was put before the drain of a second.
    assert_eq!((seen.latency.count(), seen.missing_latency.count()), (2 * (15 + 200 + 7), 2 * 7));
    assert_eq!(seen.missing_latency.count_above_us(999_000.0), 2 * 7);
    let fetches = seen.fetches.as_ref().unwrap();
    assert!(fetches.answered > fetches.empty && fetches.latency.count() == fetches.answered, "{fetches:?}");
    assert!(fetches.bytes >= seen.fetched_bytes && fetches.mean_bytes().unwrap() > 0.0, "{fetches:?}");
}

#[test]
fn a_lost_leaders_partitions_go_on_as_soon_as_another_leads() {
    let scene = Scene::open(Cluster::start(2, &[0, 1, 1]), 1, 0);
    scene.put_slowly(&[0, 1, 2], 5);
    std::thread::sleep(Duration::from_millis(200));
    scene.cluster.kill(1, None);
    scene.put_slowly(&[0, 1, 2], 30);
    // One after the other.
    for partition in [2, 1] {
        scene.cluster.state().leaders[partition] = Some(0);
        scene.put_slowly(&[0, 1, 2], 40);
    }
    let consumed = scene.consumers.finish(Duration::from_secs(60));
    let seen = &consumed.end_to_end;
    assert_eq!((seen.missing, seen.fetched_records), (0, 3 * 115), "{:?}", consumed.events);
    assert_eq!(seen.latency.count(), 3 * 115);
    let wanted = [EventKind::ConnectionLost, EventKind::Reconnected, EventKind::Reconnected];
    assert_eq!(kinds(&consumed), wanted, "{:?}", consumed.events);
}

#[test]
fn a_partition_that_moves_leaves_the_others_where_they_are() {
    let scene = Scene::open(Cluster::start(2, &[0, 0, 0]), 1, 0);
    scene.put_slowly(&[0, 1, 2], 5);
    scene.cluster.state().leaders[1] = Some(1);
    scene.put_slowly(&[0, 1, 2], 50);
    let cluster = scene.cluster.clone();
    let consumed = scene.consumers.finish(Duration::from_secs(60));
    assert_eq!((consumed.end_to_end.missing, consumed.end_to_end.fetched_records), (0, 3 * 55));
    assert_eq!(cluster.state().readers, [1, 1], "no link was opened again");
    let told: Vec<&str> = consumed.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(told, [format!("consumer 1 reads partitions 1 at {}", cluster.address(1))]);
    assert_eq!(kinds(&consumed), [EventKind::LeaderMoved]);
}

#[test]
fn a_leader_that_hangs_is_left_when_another_one_leads() {
    let scene = Scene::open(Cluster::start(2, &[0, 1]), 1, 0);
    scene.put_slowly(&[0, 1], 5);
    {
        let mut state = scene.cluster.state();
        state.moods[1] = Mood::Hangs;
        state.leaders[1] = Some(0);
    }
    scene.put_slowly(&[0, 1], 20);
    let consumed = scene.consumers.finish(Duration::from_secs(60));
    assert_eq!((consumed.end_to_end.missing, consumed.end_to_end.fetched_records), (0, 2 * 25));
    assert_eq!(kinds(&consumed), [EventKind::LeaderMoved], "{:?}", consumed.events);
}

#[test]
fn the_end_does_not_wait_for_a_repair() {
    let scene = Scene::open(Cluster::start(4, &[0, 1, 2]), 20, 3);
    scene.cluster.state().moods = vec![Mood::Hangs, Mood::Hangs, Mood::Serves, Mood::Hangs];
    scene.cluster.kill(2, None);
    std::thread::sleep(Duration::from_millis(300));
    scene.put(2);
    let begun = Instant::now();
    let consumed = scene.consumers.finish(Duration::from_millis(100));
    // Each of 20 consumers had four brokers to ask, with a second for each.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(consumed.end_to_end.missing, 20);
}

#[test]
fn what_retention_took_is_missing_and_reading_goes_on_where_the_log_begins() {
    let scene = Scene::open(Cluster::start(1, &[0]), 1, 0);
    scene.put_slowly(&[0], 5);
    std::thread::sleep(Duration::from_millis(200));
    {
        let mut state = scene.cluster.state();
        (state.starts[0], state.ends[0]) = (8, 5);
    }
    // Of these the broker has the last two.
    scene.put_slowly(&[0], 5);
    let consumed = scene.consumers.finish(Duration::from_secs(60));
    assert_eq!((consumed.end_to_end.missing, consumed.end_to_end.fetched_records), (3, 5 + 2));
    assert_eq!(kinds(&consumed), []);
}
