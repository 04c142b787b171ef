//! A broker that stores nothing: it reads Produce requests and acknowledges them at once, with as little CPU as possible. It shows the
//! generator's capacity when the target costs almost nothing.
//!
//!     cargo run --release -p hone-load --example sink -- 127.0.0.1:29192 &
//!     hone load 127.0.0.1:29192 --topic sink --rate 150000 --acks 1
//!
//! It supports Metadata (a topic of any name, eight partitions) and Produce of version 7 with one partition per request. Any other request
//! closes the connection.

#![expect(clippy::print_stdout, reason = "a program for benchmarks, which says where it listens")]

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

use bytes::BytesMut;
use hone_kafka::{Frame, RequestHead};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Encodable as _, StrBytes};

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const PARTITIONS: i32 = 8;
const FRAME_LIMIT: usize = 64 << 20;
const READ_BYTES: usize = 1 << 20;

struct Client {
    stream: TcpStream,
    inbound: Vec<u8>,
    received: usize,
    outbound: Vec<u8>,
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(&address)?;
    let port = listener.local_addr()?.port();
    println!("ready kafka={}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let poll = epoll()?;
    watch(poll, listener.as_raw_fd())?;
    let mut clients: HashMap<RawFd, Client> = HashMap::new();
    loop {
        for socket in ready(poll)? {
            if socket == listener.as_raw_fd() {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    watch(poll, stream.as_raw_fd())?;
                    let inbound = vec![0; READ_BYTES];
                    let client = Client { stream, inbound, received: 0, outbound: Vec::new() };
                    clients.insert(client.stream.as_raw_fd(), client);
                }
            } else if let Some(client) = clients.get_mut(&socket)
                && !client.serve(port)
            {
                clients.remove(&socket);
            }
        }
    }
}

impl Client {
    /// `false` when the client is gone or needs something that is not supported.
    fn serve(&mut self, port: u16) -> bool {
        match self.stream.read(&mut self.inbound[self.received..]) {
            Ok(0) => return false,
            Ok(count) => self.received += count,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
        let mut consumed = 0;
        loop {
            match Frame::split(&self.inbound[consumed..self.received], FRAME_LIMIT) {
                Frame::Incomplete { needed_bytes } => {
                    self.inbound.copy_within(consumed..self.received, 0);
                    self.received -= consumed;
                    if self.inbound.len() < needed_bytes {
                        self.inbound.resize(needed_bytes, 0);
                    }
                    break;
                }
                Frame::TooLarge { .. } => return false,
                Frame::Complete { body, consumed_bytes } => {
                    let Ok(head) = RequestHead::parse(body) else { return false };
                    match head.api_key {
                        PRODUCE => acknowledge(&mut self.outbound, head.correlation_id),
                        METADATA => tell_leaders(&mut self.outbound, &head, port),
                        _ => return false,
                    }
                    consumed += consumed_bytes;
                }
            }
        }
        // Acknowledgements are small. If a socket does not take one at once, the client has stopped reading.
        let written = self.stream.write_all(&self.outbound);
        self.outbound.clear();
        written.is_ok()
    }
}

/// One topic without a name, one partition, no error, offset 0.
fn acknowledge(out: &mut Vec<u8>, correlation_id: i32) {
    const REST: [u8; 44] = [
        0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255,
        255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    out.extend_from_slice(&(4 + REST.len() as u32).to_be_bytes());
    out.extend_from_slice(&correlation_id.to_be_bytes());
    out.extend_from_slice(&REST);
}

/// The requested topic, led by the only broker.
fn tell_leaders(out: &mut Vec<u8>, head: &RequestHead<'_>, port: u16) {
    let asked = head.rest.get(4..).and_then(|rest| {
        let length = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
        std::str::from_utf8(rest.get(2..2 + length)?).ok()
    });
    let partition = |index| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(BrokerId(1))
            .with_replica_nodes(vec![BrokerId(1)])
            .with_isr_nodes(vec![BrokerId(1)])
    };
    let topic = |name: &str| {
        MetadataResponseTopic::default()
            .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
            .with_partitions((0..PARTITIONS).map(partition).collect())
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(1))
        .with_host(StrBytes::from_static_str("127.0.0.1"))
        .with_port(i32::from(port));
    let answer = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_topics(asked.into_iter().map(topic).collect());
    let mut body = BytesMut::new();
    if answer.encode(&mut body, 7).is_ok() {
        out.extend_from_slice(&(4 + body.len() as u32).to_be_bytes());
        out.extend_from_slice(&head.correlation_id.to_be_bytes());
        out.extend_from_slice(&body);
    }
}

fn epoll() -> io::Result<RawFd> {
    // SAFETY: no pointers are passed.
    match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        poll => Ok(poll),
    }
}

fn watch(poll: RawFd, socket: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: socket as u64 };
    // SAFETY: the event lives through the call.
    match unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, socket, &raw mut event) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn ready(poll: RawFd) -> io::Result<Vec<RawFd>> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    // SAFETY: there is room for the requested number of events.
    let count = unsafe { libc::epoll_wait(poll, events.as_mut_ptr(), events.len() as i32, -1) };
    match usize::try_from(count) {
        Ok(count) => Ok(events[..count].iter().map(|event| event.u64 as RawFd).collect()),
        Err(_) if io::Error::last_os_error().kind() == ErrorKind::Interrupted => Ok(Vec::new()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
