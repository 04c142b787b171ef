//! Reads a topic as fast as a broker gives it: raw Fetch over one connection, two requests on their way at any time.
//!
//!     drain ADDR TOPIC PARTITIONS SECONDS
//!
//! The first pass over all partitions is not counted: it brings the log into the page cache. Then it prints `warm`, waits
//! for a line on its standard input, reads for so many seconds, from the start again whenever a partition ends, and prints
//! one line of JSON. Batches are walked by their headers, to know the next offset; records are not decoded.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_kafka::wire::Reader;
use hone_kafka::{BatchError, batches, error_name};

const FETCH: i16 = 1;
/// The last version with plain headers; every broker in use has it.
const VERSION: i16 = 11;
/// Of an answer, and of what it has for one partition.
const MOST_BYTES: i32 = 8 << 20;
/// A single batch may be larger than asked for.
const ANSWER_LIMIT_BYTES: usize = 64 << 20;
const ON_THEIR_WAY: usize = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("usage: drain ADDR TOPIC PARTITIONS SECONDS");
    let (address, topic) = (next()?, next()?);
    let partitions: usize = next()?.parse().context("wanted a number of partitions")?;
    let limit = Duration::from_secs_f64(next()?.parse().context("wanted seconds")?);
    if partitions < ON_THEIR_WAY {
        bail!(
            "the next offset of a partition is known only with its answer: {ON_THEIR_WAY} partitions are needed"
        );
    }
    let mut drain = Drain::connect(&address, topic, partitions)?;
    drain.run(|drain| drain.passes.iter().all(|passes| *passes > 0))?;
    writeln!(std::io::stdout(), "warm")?;
    std::io::stdin().read_line(&mut String::new())?;
    (drain.bytes, drain.fetches) = (0, 0);
    let start = Instant::now();
    drain.run(|_| start.elapsed() >= limit)?;
    let (seconds, bytes, fetches) = (start.elapsed().as_secs_f64(), drain.bytes, drain.fetches);
    writeln!(std::io::stdout(), r#"{{"bytes":{bytes},"seconds":{seconds},"fetches":{fetches}}}"#)?;
    Ok(())
}

struct Drain {
    stream: TcpStream,
    topic: String,
    /// Next offset of each partition.
    offsets: Vec<i64>,
    /// How often each partition was read to its end.
    passes: Vec<u32>,
    buffer: Vec<u8>,
    bytes: u64,
    fetches: u64,
}

impl Drain {
    fn connect(address: &str, topic: String, partitions: usize) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("can't reach {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let (offsets, passes) = (vec![0; partitions], vec![0; partitions]);
        Ok(Self { stream, topic, offsets, passes, buffer: Vec::new(), bytes: 0, fetches: 0 })
    }

    /// Reads until `done` and takes the answers that are still on their way.
    fn run(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let count = self.offsets.len();
        for partition in 0..ON_THEIR_WAY {
            self.ask(partition)?;
        }
        let mut partition = 0;
        let mut on_their_way = ON_THEIR_WAY;
        while on_their_way > 0 {
            self.take(partition)?;
            on_their_way -= 1;
            if !done(self) {
                self.ask((partition + ON_THEIR_WAY) % count)?;
                on_their_way += 1;
            }
            partition = (partition + 1) % count;
        }
        Ok(())
    }

    fn ask(&mut self, partition: usize) -> Result<()> {
        let offset = self.offsets.get(partition).copied().unwrap_or(0);
        self.stream.write_all(&request(&self.topic, partition as i32, offset)).context("can't send a Fetch")
    }

    fn take(&mut self, partition: usize) -> Result<()> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).context("no answer to a Fetch")?;
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_LIMIT_BYTES {
            bail!("an answer of {length} bytes to a Fetch");
        }
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let body = self.buffer.get_mut(..length).unwrap_or_default();
        self.stream.read_exact(body).context("half an answer to a Fetch")?;
        let answer = Answer::parse(body)?;
        if answer.partition != partition as i32 {
            bail!("an answer for partition {} where {partition} was asked", answer.partition);
        }
        self.bytes += answer.records_bytes as u64;
        self.fetches += 1;
        if let (Some(offset), Some(passes)) =
            (self.offsets.get_mut(partition), self.passes.get_mut(partition))
        {
            let next = answer.next_offset.unwrap_or(*offset);
            let ended = next >= answer.high_watermark;
            *passes += u32::from(ended);
            *offset = if ended { 0 } else { next };
        }
        Ok(())
    }
}

fn request(topic: &str, partition: i32, offset: i64) -> Vec<u8> {
    let mut frame = vec![0; 4];
    for field in [FETCH, VERSION] {
        frame.extend_from_slice(&field.to_be_bytes());
    }
    put_i32s(&mut frame, &[0]);
    put_text(&mut frame, "drain");
    put_i32s(&mut frame, &[-1, 500, 1, MOST_BYTES]); // no replica, wait, least and most bytes
    frame.push(0); // read uncommitted
    put_i32s(&mut frame, &[0, -1, 1]); // no session, one topic
    put_text(&mut frame, topic);
    put_i32s(&mut frame, &[1, partition, -1]); // one partition, no epoch
    for field in [offset, -1] {
        frame.extend_from_slice(&field.to_be_bytes());
    }
    put_i32s(&mut frame, &[MOST_BYTES, 0]); // nothing forgotten
    put_text(&mut frame, ""); // no rack
    let length = (frame.len() - 4) as i32;
    frame.splice(..4, length.to_be_bytes());
    frame
}

fn put_i32s(out: &mut Vec<u8>, numbers: &[i32]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// What one Fetch brought.
struct Answer {
    partition: i32,
    high_watermark: i64,
    records_bytes: usize,
    /// Behind the last whole batch; `None` without one.
    next_offset: Option<i64>,
}

impl Answer {
    fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        reader.take(8, "correlation id and throttle time")?;
        check("Fetch", reader.i16("error code")?)?;
        reader.i32("session id")?;
        if reader.array_length(6, "topics")? != 1 {
            bail!("an answer without the topic");
        }
        reader.string("topic")?;
        if reader.array_length(35, "partitions")? != 1 {
            bail!("an answer without the partition");
        }
        let partition = reader.i32("partition")?;
        check("Fetch of a partition", reader.i16("error code")?)?;
        let high_watermark = reader.i64("high watermark")?;
        reader.take(16, "last stable offset and log start")?;
        for _ in 0..reader.nullable_array_length(16, "aborted transactions")?.unwrap_or(0) {
            reader.take(16, "an aborted transaction")?;
        }
        reader.i32("preferred replica")?;
        let length = usize::try_from(reader.i32("records")?).unwrap_or(0);
        let records = reader.take(length, "records")?;
        Ok(Self { partition, high_watermark, records_bytes: records.len(), next_offset: behind(records)? })
    }
}

fn check(what: &str, code: i16) -> Result<()> {
    if code != 0 {
        bail!("{what}: {}", error_name(code));
    }
    Ok(())
}

/// A record set may end within a batch, which then comes whole with the next answer.
fn behind(records: &[u8]) -> Result<Option<i64>> {
    let mut next = None;
    for batch in batches(records) {
        match batch {
            Ok(batch) => next = Some(batch.header.last_offset() + 1),
            Err(BatchError::Torn { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(next)
}
