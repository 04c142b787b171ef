//! Stands between a load and a broker, and tells the load something else about the cluster than the broker does.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const METADATA_KEY: i16 = 3;
const METADATA_VERSION: i16 = 7;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
/// Correlation id and throttle time stand before the brokers.
const BEFORE_BROKERS: usize = 8;

/// What happens to the broker's answers to Metadata.
pub type Rewrite = dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync;

/// Passes everything on, and every answer to Metadata by `rewrite`. Lives as long as the test.
pub fn stand_before(broker: &str, rewrite: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (broker, rewrite): (String, Arc<Rewrite>) = (broker.to_owned(), Arc::new(rewrite));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A broker that is away shows as a connection that ends at once.
            if let Ok(upstream) = TcpStream::connect(&broker) {
                pass(client, upstream, Arc::clone(&rewrite));
            }
        }
    });
    address
}

fn pass(client: TcpStream, upstream: TcpStream, rewrite: Arc<Rewrite>) {
    let asked = Arc::new(Mutex::new(VecDeque::new()));
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    let noted = Arc::clone(&asked);
    thread::spawn(move || {
        while let Some(frame) = read_frame(&mut from) {
            let is_metadata =
                frame[..4] == [METADATA_KEY.to_be_bytes(), METADATA_VERSION.to_be_bytes()].concat();
            noted.lock().unwrap().push_back(is_metadata);
            if write_frame(&mut to, &frame).is_none() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    thread::spawn(move || {
        let (mut from, mut to) = (upstream, client);
        while let Some(mut frame) = read_frame(&mut from) {
            if asked.lock().unwrap().pop_front() == Some(true) {
                frame = rewrite(frame);
            }
            if write_frame(&mut to, &frame).is_none() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

/// Adds brokers to those that the answer names.
pub fn with_brokers(mut answer: Vec<u8>, more: &[(i32, String)]) -> Vec<u8> {
    let count = int(&answer, BEFORE_BROKERS) + more.len() as i32;
    answer[BEFORE_BROKERS..BEFORE_BROKERS + 4].copy_from_slice(&count.to_be_bytes());
    let mut added = Vec::new();
    for (id, address) in more {
        let (host, port) = address.rsplit_once(':').unwrap();
        added.extend(id.to_be_bytes());
        added.extend((host.len() as i16).to_be_bytes());
        added.extend(host.as_bytes());
        added.extend(port.parse::<i32>().unwrap().to_be_bytes());
        added.extend((-1_i16).to_be_bytes());
    }
    let at = BEFORE_BROKERS + 4;
    answer.splice(at..at, added);
    answer
}

/// An answer of a broker that has not heard of the topic: with the error, and without partitions.
pub fn without_topic(mut answer: Vec<u8>) -> Vec<u8> {
    let short = |at: usize| i16::from_be_bytes(answer[at..at + 2].try_into().unwrap());
    let after_text = |at: usize| at + 2 + short(at).max(0) as usize;
    let mut at = BEFORE_BROKERS + 4;
    for _ in 0..int(&answer, BEFORE_BROKERS) {
        at = after_text(after_text(at + 4) + 4);
    }
    // Behind the cluster's id and the controller's: how many topics, and the error of the first.
    let topics = after_text(at) + 4;
    if int(&answer, topics) != 1 {
        return answer;
    }
    let after_name = after_text(topics + 6);
    answer[topics + 4..topics + 6].copy_from_slice(&UNKNOWN_TOPIC_OR_PARTITION.to_be_bytes());
    answer.truncate(after_name + 1);
    answer.extend(0_i32.to_be_bytes());
    answer
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> Option<()> {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes()[..], frame].concat()).ok()
}
