//! A connection that may break at any moment, and the requests of the story.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use hone_kafka::{BatchBuilder, Codec};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;

use crate::model::{PLANS, Place, key_of};
use crate::support::*;

/// Of Produce.
pub(crate) const VERSION: i16 = 12;

/// One connection; `None` from any of its methods means that it broke.
pub(crate) struct Line {
    stream: TcpStream,
    next_id: i32,
}

impl Line {
    pub(crate) fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { stream, next_id: 0 })
    }

    pub(crate) fn send<R: Request>(&mut self, version: i16, request: &R) -> Option<()> {
        self.next_id += 1;
        self.stream.write_all(&frame(version, self.next_id, request)).ok()
    }

    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.read(&mut body)?;
        Some(decode::<R>(version, Bytes::from(body)).1)
    }

    /// A broker that is alive and silent is no broken connection.
    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("no answer within {PATIENCE:?}")
            }
            Err(_) => None,
        }
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        self.send(version, request)?;
        self.receive::<R>(version)
    }

    /// Reads the answer to a Produce of one batch.
    pub(crate) fn receive_produced(&mut self) -> Option<PartitionProduceResponse> {
        let mut response = self.receive::<ProduceRequest>(VERSION)?;
        Some(response.responses.remove(0).partition_responses.remove(0))
    }
}

/// Who writes, as the broker knows producers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// One batch of values, each with the key that belongs to it.
pub(crate) fn values_batch(
    values: &[String],
    producer: Option<(Producer, i32)>,
    transactional: bool,
) -> Vec<u8> {
    let mut builder = BatchBuilder::new(if values.len() % 4 == 3 { Codec::Lz4 } else { Codec::None });
    for value in values {
        builder.push(Some(key_of(value).as_bytes()), Some(value.as_bytes()), now_ms());
    }
    let mut bytes = builder.build().unwrap();
    if transactional {
        hone_kafka::batch::set_transactional(&mut bytes, false).unwrap();
    }
    if let Some((producer, sequence)) = producer {
        hone_kafka::batch::set_producer(&mut bytes, producer.id, producer.epoch, sequence).unwrap();
    }
    bytes
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_millis() as i64
}

pub(crate) fn produce_to(place: Place, acks: i16, batch: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(place.1).with_records(Some(batch.into()));
    let topics =
        TopicProduceData::default().with_name(topic(PLANS[place.0].name)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(10_000).with_topic_data(vec![topics])
}

/// A producer of no transactions.
pub(crate) fn init_idempotent(line: &mut Line) -> Option<Producer> {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let answer = line.call(4, &request)?;
    assert_eq!(answer.error_code, 0);
    Some(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch })
}

/// The owner of a transactional id; what was open is aborted, what was asked for is done.
pub(crate) fn init_transactional(line: &mut Line, name: &str) -> Option<Producer> {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(text(name))))
        .with_transaction_timeout_ms(600_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let begun = std::time::Instant::now();
    loop {
        let answer = line.call(4, &request)?;
        if answer.error_code == 0 {
            return Some(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch });
        }
        assert_eq!(answer.error_code, 51, "only one that ends can be in the way");
        assert!(begun.elapsed() < PATIENCE, "transaction of {name} does not end");
    }
}
