//! Input that a broker must survive but seldom gets: bytes that are not requests, requests with wrong lengths, unknown topics, connections
//! that end half-way. It exercises the error paths, which no load does.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::error::LoadError;
use crate::line::CLIENT_ID;
use crate::security::connect;

/// Time to connect, and to write.
const LIMIT: Duration = Duration::from_secs(5);

/// Wait for an answer, which may never come.
const ANSWER_LIMIT: Duration = Duration::from_millis(50);

/// Pause between two faults. Each fault uses a port that stays blocked for a minute, and there are at most 28,000.
const EVERY: Duration = Duration::from_millis(5);

/// No broker has a topic of this name.
const NOBODYS_TOPIC: &str = "hone-provoke-no-such-topic";

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;

/// The fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InjectedFault {
    /// Bytes without any frame.
    Noise,
    /// A frame with random content.
    FramedNoise,
    /// A negative length.
    NegativeLength,
    /// A length of 2 GB, and the beginning of it.
    Oversized,
    UnknownApi,
    UnknownVersion,
    /// A text that is longer than its frame.
    LyingText,
    /// A list with more entries than its frame can hold.
    LyingList,
    UnknownTopic,
    ProduceToUnknown,
    /// An invalid batch.
    ProduceNoise,
    FetchFromUnknown,
    /// The connection ends inside a request.
    CutRequest,
    /// The connection ends before its answers are read.
    CutAnswers,
}

const FAULTS: [InjectedFault; 14] = [
    InjectedFault::Noise,
    InjectedFault::FramedNoise,
    InjectedFault::NegativeLength,
    InjectedFault::Oversized,
    InjectedFault::UnknownApi,
    InjectedFault::UnknownVersion,
    InjectedFault::LyingText,
    InjectedFault::LyingList,
    InjectedFault::UnknownTopic,
    InjectedFault::ProduceToUnknown,
    InjectedFault::ProduceNoise,
    InjectedFault::FetchFromUnknown,
    InjectedFault::CutRequest,
    InjectedFault::CutAnswers,
];

/// The result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Provoked {
    /// Number of connections, each with one fault.
    pub connections: u64,
    /// Number of connections on which the broker answered before it or Hone closed them.
    pub answered: u64,
}

/// Sends faults to a broker without TLS: each kind once, then in turns while `goes_on` allows. A broker should close the connection after
/// most of them, so a closed connection is not an error.
///
/// # Errors
/// Returns [`LoadError::Connect`] when the broker accepts no connections.
pub fn provoke(address: &str, seed: u64, goes_on: impl Fn() -> bool) -> Result<Provoked, LoadError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut provoked = Provoked::default();
    for (turn, fault) in FAULTS.iter().cycle().enumerate() {
        if turn >= FAULTS.len() && !goes_on() {
            break;
        }
        let stream = connect(address, LIMIT)?;
        provoked.connections += 1;
        provoked.answered += u64::from(one(stream, *fault, &bytes_of(*fault, &mut random)));
        std::thread::sleep(EVERY);
    }
    Ok(provoked)
}

/// Whether the broker answered. A failed write is not an error, since the broker may close the connection.
fn one(mut stream: TcpStream, fault: InjectedFault, bytes: &[u8]) -> bool {
    let is_cut = matches!(fault, InjectedFault::CutRequest | InjectedFault::CutAnswers);
    if stream.set_read_timeout(Some(ANSWER_LIMIT)).is_err() || stream.write_all(bytes).is_err() || is_cut {
        return false;
    }
    stream.read(&mut [0; 512]).is_ok_and(|length| length > 0)
}

fn bytes_of(fault: InjectedFault, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut noise = vec![0; 16 + (random.next_u32() % 200) as usize];
    random.fill_bytes(&mut noise);
    match fault {
        InjectedFault::Noise => noise,
        InjectedFault::FramedNoise => framed(&noise),
        InjectedFault::NegativeLength => [&(-7_i32).to_be_bytes()[..], &noise].concat(),
        InjectedFault::Oversized => [&i32::MAX.to_be_bytes()[..], &noise].concat(),
        InjectedFault::UnknownApi => request(9_999, 0, &noise),
        InjectedFault::UnknownVersion => request(API_VERSIONS, 99, &[]),
        InjectedFault::LyingText => {
            request(METADATA, 4, &[&1_i32.to_be_bytes()[..], &i16::MAX.to_be_bytes(), b"short"].concat())
        }
        InjectedFault::LyingList => request(METADATA, 4, &[&i32::MAX.to_be_bytes()[..], &text("t")].concat()),
        InjectedFault::UnknownTopic => {
            request(METADATA, 4, &[&1_i32.to_be_bytes()[..], &text(NOBODYS_TOPIC), &[0]].concat())
        }
        InjectedFault::ProduceToUnknown => request(PRODUCE, 3, &produce(NOBODYS_TOPIC, &[0; 70])),
        InjectedFault::ProduceNoise => request(PRODUCE, 3, &produce(NOBODYS_TOPIC, &noise)),
        InjectedFault::FetchFromUnknown => request(FETCH, 4, &fetch(NOBODYS_TOPIC)),
        InjectedFault::CutRequest => {
            let whole = request(PRODUCE, 3, &produce(NOBODYS_TOPIC, &[7; 2_000]));
            whole[..whole.len() / 2].to_vec()
        }
        InjectedFault::CutAnswers => request(API_VERSIONS, 0, &[]).repeat(50),
    }
}

fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as i32).to_be_bytes()[..], content].concat()
}

/// Uses the first header version that has a client id.
fn request(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let id = 7_i32;
    let head = [&api.to_be_bytes()[..], &version.to_be_bytes(), &id.to_be_bytes(), &text(CLIENT_ID)].concat();
    framed(&[head.as_slice(), body].concat())
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// No transaction, acknowledged by the leader, one partition of one topic.
fn produce(topic: &str, records: &[u8]) -> Vec<u8> {
    let (one, partition) = (1_i32.to_be_bytes(), 0_i32.to_be_bytes());
    [
        &(-1_i16).to_be_bytes()[..],
        &1_i16.to_be_bytes(),
        &1_000_i32.to_be_bytes(),
        &one,
        &text(topic),
        &one,
        &partition,
        &framed(records),
    ]
    .concat()
}

/// The request of a consumer, without waiting, one partition of one topic.
fn fetch(topic: &str) -> Vec<u8> {
    let (one, limit) = (1_i32.to_be_bytes(), 1_000_000_i32.to_be_bytes());
    let from = [&0_i32.to_be_bytes()[..], &0_i64.to_be_bytes(), &limit].concat();
    let head = [&(-1_i32).to_be_bytes()[..], &0_i32.to_be_bytes(), &one, &limit, &[0]].concat();
    [head.as_slice(), &one, &text(topic), &one, &from].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{FetchRequest, MetadataRequest, ProduceRequest};
    use kafka_protocol::protocol::Decodable as _;
    use std::net::TcpListener;

    /// What stands behind the header of a request.
    fn body(fault: InjectedFault) -> bytes::Bytes {
        let bytes = bytes_of(fault, &mut ChaCha8Rng::seed_from_u64(1));
        bytes::Bytes::copy_from_slice(&bytes[4 + 8 + 2 + CLIENT_ID.len()..])
    }

    #[test]
    fn requests_for_a_topic_of_nobody_are_requests() {
        let mut bytes = body(InjectedFault::UnknownTopic);
        let metadata = MetadataRequest::decode(&mut bytes, 4).unwrap();
        let name = metadata.topics.unwrap()[0].name.clone().unwrap();
        assert_eq!((name.0.as_str(), metadata.allow_auto_topic_creation), (NOBODYS_TOPIC, false));
        assert!(bytes.is_empty());
        let mut bytes = body(InjectedFault::ProduceToUnknown);
        let produce = ProduceRequest::decode(&mut bytes, 3).unwrap();
        assert_eq!((produce.topic_data[0].name.0.as_str(), produce.acks), (NOBODYS_TOPIC, 1));
        assert!(bytes.is_empty());
        let mut bytes = body(InjectedFault::FetchFromUnknown);
        let fetch = FetchRequest::decode(&mut bytes, 4).unwrap();
        assert_eq!(fetch.topics[0].topic.0.as_str(), NOBODYS_TOPIC);
        assert!(bytes.is_empty());
        assert!(MetadataRequest::decode(&mut body(InjectedFault::LyingText), 4).is_err());
        // Not by the decoder, which reserves room for as many entries as it is told.
        assert_eq!(body(InjectedFault::LyingList)[..4], i32::MAX.to_be_bytes());
    }

    #[test]
    fn each_kind_comes_at_least_once_and_a_broker_that_has_gone_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let hears = std::thread::spawn(move || {
            let mut heard = 0;
            // It says something to each, takes what comes, and goes.
            for stream in listener.incoming().take(FAULTS.len()) {
                let mut stream = stream.unwrap();
                let _ = stream.write_all(b"what?");
                heard += usize::from(stream.read(&mut [0; 64]).is_ok_and(|length| length > 0));
            }
            heard
        });
        let found = provoke(&address, 1, || false).unwrap();
        assert_eq!(found.connections, FAULTS.len() as u64);
        assert!(found.answered > 0);
        assert!(hears.join().unwrap() >= FAULTS.len() - 2);
        let gone = provoke(&address, 1, || true).unwrap_err();
        assert!(matches!(gone, LoadError::Connect { .. }), "{gone}");
    }
}
