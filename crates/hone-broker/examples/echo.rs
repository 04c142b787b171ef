//! The floor under every broker: the same frames in, answers of the same size out, and nothing in between.
//!
//! One epoll and one thread for each core; no log, no checks, no state. Every Produce (version 7) is answered with the
//! same bytes but for the correlation id; Metadata (version 7) says that one topic has its partitions here, so that
//! `hone load --topic` takes it for a broker. Anything else closes the connection.
//!
//!     echo --topic NAME [--partitions N] [--threads N]
//!
//! It prints `ready kafka=ADDR pid=N` and serves until it is killed.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, bail};
use hone_kafka::{Frame, RequestHead};
use lexopt::prelude::*;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
/// Of both, as `hone load` asks them: the last ones with plain headers.
const VERSION: i16 = 7;
/// As much as the broker reads at a time.
const READ_BYTES: usize = 256 << 10;
const FRAME_LIMIT_BYTES: usize = 32 << 20;
const BELL: Token = Token(usize::MAX);

struct Arguments {
    topic: String,
    partitions: i32,
    threads: usize,
}

fn main() -> Result<()> {
    let arguments = parse(lexopt::Parser::from_env())?;
    let listener = TcpListener::bind("127.0.0.1:0").context("can't listen on loopback")?;
    let address = listener.local_addr()?;
    let answers = Arc::new(Answers {
        produce: produce_answer(&arguments.topic),
        metadata: metadata(&arguments, address),
    });
    let inboxes = (0..arguments.threads).map(|_| start(&answers)).collect::<Result<Vec<_>>>()?;
    writeln!(std::io::stdout(), "ready kafka={address} pid={}", std::process::id())?;
    // In turn, so that a handful of connections is spread evenly.
    for inbox in inboxes.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        inbox.put(TcpStream::from_std(stream))?;
    }
    Ok(())
}

fn parse(mut parser: lexopt::Parser) -> Result<Arguments> {
    let threads = available_parallelism().map_or(1, usize::from);
    let mut arguments = Arguments { topic: String::new(), partitions: 8, threads };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("topic") => arguments.topic = parser.value()?.string()?,
            Long("partitions") => arguments.partitions = parser.value()?.parse()?,
            Long("threads") => arguments.threads = parser.value()?.parse()?,
            _ => return Err(argument.unexpected().into()),
        }
    }
    if arguments.topic.is_empty() || arguments.topic.len() > 249 || arguments.threads == 0 {
        bail!("usage: echo --topic NAME [--partitions N] [--threads N]");
    }
    Ok(arguments)
}

/// Complete frames; the correlation id stands behind the length.
struct Answers {
    produce: Vec<u8>,
    metadata: Vec<u8>,
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_i32s(out: &mut Vec<u8>, numbers: &[i32]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_i32s(&mut frame, &[body.len() as i32 + 4, 0]);
    frame.extend_from_slice(body);
    frame
}

/// One topic, one partition, no error, as for a request of one batch.
fn produce_answer(topic: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_i32s(&mut body, &[1]);
    put_text(&mut body, topic);
    put_i32s(&mut body, &[1, 0]); // one partition, its index
    body.extend_from_slice(&0_i16.to_be_bytes());
    for field in [0_i64, -1, 0] {
        body.extend_from_slice(&field.to_be_bytes()); // base offset, append time, log start
    }
    put_i32s(&mut body, &[0]); // throttle time
    framed(&body)
}

fn metadata(arguments: &Arguments, address: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    put_i32s(&mut body, &[0, 1, 0]); // throttle time, one broker, its id
    put_text(&mut body, &address.ip().to_string());
    put_i32s(&mut body, &[address.port().into()]);
    body.extend_from_slice(&[0xff; 4]); // no rack, no cluster id
    put_i32s(&mut body, &[0, 1]); // controller, one topic
    body.extend_from_slice(&[0; 2]);
    put_text(&mut body, &arguments.topic);
    body.push(0); // not internal
    put_i32s(&mut body, &[arguments.partitions]);
    for partition in 0..arguments.partitions {
        body.extend_from_slice(&[0; 2]);
        // Leader and its epoch, one replica, the same in sync, none offline.
        put_i32s(&mut body, &[partition, 0, 0, 1, 0, 1, 0, 0]);
    }
    framed(&body)
}

/// New connections of one thread.
struct Inbox {
    streams: Arc<Mutex<Vec<TcpStream>>>,
    bell: Waker,
}

impl Inbox {
    fn put(&self, stream: TcpStream) -> Result<()> {
        self.streams.lock().map_err(|_| anyhow::anyhow!("a thread has failed"))?.push(stream);
        Ok(self.bell.wake()?)
    }
}

fn start(answers: &Arc<Answers>) -> Result<Inbox> {
    let poll = Poll::new()?;
    let bell = Waker::new(poll.registry(), BELL)?;
    let streams = Arc::new(Mutex::new(Vec::new()));
    let (inbox, answers) = (Arc::clone(&streams), Arc::clone(answers));
    std::thread::spawn(move || serve(poll, &inbox, &answers));
    Ok(Inbox { streams, bell })
}

struct Client {
    stream: TcpStream,
    /// A frame that has not come whole.
    rest: Vec<u8>,
    /// What the socket did not take.
    unsent: Vec<u8>,
}

fn serve(mut poll: Poll, inbox: &Mutex<Vec<TcpStream>>, answers: &Answers) -> Result<()> {
    let mut events = Events::with_capacity(256);
    let mut clients: HashMap<usize, Client> = HashMap::new();
    let mut next_id = 0;
    let (mut scratch, mut out) = (vec![0; READ_BYTES], Vec::new());
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            let Token(id) = event.token();
            if event.token() == BELL {
                for mut stream in
                    inbox.lock().map_err(|_| anyhow::anyhow!("the acceptor has failed"))?.drain(..)
                {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(next_id), interest)?;
                    clients.insert(next_id, Client { stream, rest: Vec::new(), unsent: Vec::new() });
                    next_id += 1;
                }
            } else if let Some(client) = clients.get_mut(&id)
                && client.drive(&mut scratch, &mut out, answers).is_err()
            {
                clients.remove(&id);
            }
        }
    }
}

impl Client {
    fn drive(&mut self, scratch: &mut [u8], out: &mut Vec<u8>, answers: &Answers) -> Result<()> {
        self.send(&[])?;
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => bail!("the client has gone"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            out.clear();
            let read = scratch.get(..count).unwrap_or_default();
            if self.rest.is_empty() {
                let consumed = answer_all(read, out, answers)?;
                self.rest.extend_from_slice(read.get(consumed..).unwrap_or_default());
            } else {
                self.rest.extend_from_slice(read);
                let consumed = answer_all(&self.rest, out, answers)?;
                self.rest.drain(..consumed);
            }
            self.send(out)?;
            // The end of a stream is told by a short read as well as by an empty one, and that saves a call.
            if count < scratch.len() {
                return Ok(());
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut left = bytes;
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            left = &self.unsent;
        }
        let mut sent = 0;
        while let Some(rest) = left.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        } else {
            self.unsent.drain(..sent);
        }
        Ok(())
    }
}

/// Answers every whole frame; returns the bytes used up.
fn answer_all(stream: &[u8], out: &mut Vec<u8>, answers: &Answers) -> Result<usize> {
    let mut at = 0;
    loop {
        match Frame::split(stream.get(at..).unwrap_or_default(), FRAME_LIMIT_BYTES) {
            Frame::Incomplete { .. } => return Ok(at),
            Frame::TooLarge { length } => bail!("a frame of {length} bytes"),
            Frame::Complete { body, consumed_bytes } => {
                let head = RequestHead::parse(body)?;
                let answer = match (head.api_key, head.api_version) {
                    (PRODUCE, VERSION) => &answers.produce,
                    (METADATA, VERSION) => &answers.metadata,
                    (key, version) => bail!("API {key} in version {version} is not answered"),
                };
                let id_at = out.len() + 4;
                out.extend_from_slice(answer);
                if let Some(field) = out.get_mut(id_at..id_at + 4) {
                    field.copy_from_slice(&head.correlation_id.to_be_bytes());
                }
                at += consumed_bytes;
            }
        }
    }
}
