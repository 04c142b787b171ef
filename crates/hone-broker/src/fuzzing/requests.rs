//! Requests of every API, framed rightly around any body: no handler may panic, every answer must be one that a foreign
//! decoder reads to its last byte, nothing may be left when the clients have gone.
//!
//! An input is a byte for the kind of broker, then requests: API key, version, 16-bit length, body. Requests that wait
//! keep their connection; the next one comes on a new one.

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::Decodable;

use super::cursor::Cursor;
use super::world::{Client, Mode, World, put_topic_ids};
use crate::keys::{self, Api};

const MOST_REQUESTS: i32 = 12;
/// Instead of a key: a frame without a header, as tokens of the oldest login are.
pub(super) const BARE: u8 = 0xff;
/// APIs whose changes go through a thread of their own.
const ASIDE: [i16; 3] = [30, 31, 49];

/// One request of an input.
struct Asked<'a> {
    api: &'static Api,
    version: i16,
    bare: bool,
    body: &'a [u8],
}

/// Runs an input.
pub fn requests(data: &[u8]) {
    let mut input = Cursor::new(data);
    let mode = Mode::of(input.u8());
    let mut world = World::new(mode);
    let mut clients = vec![world.connect()];
    for correlation_id in 0..MOST_REQUESTS {
        if input.is_empty() {
            break;
        }
        let asked = next(&mut input);
        let mut frame = asked.frame(correlation_id);
        put_topic_ids(&world, &mut frame);
        let Some(client) = clients.last_mut() else { break };
        world.send(client, &frame);
        if ASIDE.contains(&asked.api.key) && !asked.bare && !mode.sasl {
            world.settle_aside(client, Client::has_answer);
        } else {
            world.settle(client, Client::has_answer);
        }
        let answer = client.take_answer();
        if let Some(answer) = &answer
            && !mode.sasl
            && !asked.bare
        {
            check(&asked, correlation_id, answer);
        }
        let is_whole = client.ended || client.received.is_empty();
        assert!(is_whole, "{} bytes of no answer to key {}", client.received.len(), asked.api.key);
        if client.ended {
            clients.pop();
        }
        if answer.is_none() {
            clients.push(world.connect());
        }
    }
    drop(clients);
    world.housekeep();
    world.end();
}

fn next<'a>(input: &mut Cursor<'a>) -> Asked<'a> {
    let (key, version) = (input.u8(), i16::from(input.u8()));
    let any = || keys::APIS.get(usize::from(key) % keys::APIS.len()).expect("the table has rows");
    let api = keys::find(i16::from(key)).map_or_else(any, |(_, api)| api);
    // One more than is served, to be refused.
    let served = api.min..=api.max + 1;
    let version =
        if served.contains(&version) { version } else { api.min + version % (api.max - api.min + 2) };
    Asked { api, version, bare: key == BARE, body: input.piece() }
}

impl Asked<'_> {
    fn frame(&self, correlation_id: i32) -> Vec<u8> {
        let mut frame = vec![0; 4];
        if !self.bare {
            frame.extend_from_slice(&self.api.key.to_be_bytes());
            frame.extend_from_slice(&self.version.to_be_bytes());
            frame.extend_from_slice(&correlation_id.to_be_bytes());
            frame.extend_from_slice(&[0, 1, b'f']);
            if self.version >= self.api.flexible_from {
                frame.push(0);
            }
        }
        frame.extend_from_slice(self.body);
        let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame
    }
}

/// Reads an answer by the foreign decoder.
fn check(asked: &Asked<'_>, correlation_id: i32, answer: &[u8]) {
    let (name, asked_version) = (asked.api.name, asked.version);
    let version = if asked.version > asked.api.max { 0 } else { asked.version };
    let key = ApiKey::try_from(asked.api.key).expect("a key that the foreign decoder knows");
    let mut bytes = Bytes::copy_from_slice(answer);
    let header = ResponseHeader::decode(&mut bytes, key.response_header_version(version))
        .unwrap_or_else(|error| panic!("no header of {name} v{asked_version}: {error}"));
    assert_eq!(header.correlation_id, correlation_id, "{name} v{asked_version}");
    // The foreign decoder begins with version 3 of Produce; what the older ones lack is in tests of its handler.
    if key == ApiKey::Produce && version < 3 {
        return;
    }
    if let Err(error) = ResponseKind::decode(key, &mut bytes, version) {
        panic!("an answer that is none of {name} v{asked_version}: {error:#}: {answer:02x?}");
    }
    assert!(bytes.is_empty(), "{} bytes behind the answer of {name} v{asked_version}", bytes.len());
}
