//! Reader of `perf record` data: samples with their files. It reads in one pass from bytes that are not trusted, in bounded memory. The
//! code is pure.
//!
//! A sample has an address in a process. Records of mappings between the samples give the file at that address, and perf writes the records
//! of each core one after another. So the reader sorts records by time, round by round as perf itself does (`order.rs`). If samples have no
//! time, it uses the order of the file.
//!
//! Of a sample it reads address, thread, time and event. All of these precede the fields of variable length (counter values, call chains,
//! raw data, branch stacks), which are skipped with the record.

mod bytes;
mod counts;
mod fault;
mod generated;
mod head;
mod order;
mod record;
mod run;
mod samples;
mod space;
mod stream;

use std::io::{Read, Seek};

use counts::Counts;
use head::Head;
use order::Queue;
use record::Record;
use stream::Stream;

pub use fault::PerfFault;
pub use generated::GeneratedCode;
pub use samples::{Lying, Samples, Split, Thread};

/// Reads the whole data.
///
/// # Errors
/// Returns [`PerfFault`], with the next step. Data that is truncated after some samples is read up to there, with a note.
pub fn read<R: Read + Seek>(input: R) -> Result<Samples, PerfFault> {
    let mut input = input;
    let head = Head::read(&mut input)?;
    let mut stream = Stream::over(input, &head)?;
    let mut queue = Queue::default();
    let mut counts = Counts::default();
    while let Some(bytes) = stream.next()? {
        match Record::parse(bytes, &head) {
            Record::Sample(sample) if head.is_wanted(sample.event) => queue.sample(sample, &mut counts),
            Record::Sample(_) => counts.others += 1,
            Record::Process(time, event) => queue.process_event(time, event, &mut counts),
            Record::Round => queue.round(&mut counts),
            Record::Lost(records) => counts.lost = counts.lost.saturating_add(records),
            Record::Compressed => return Err(PerfFault::Compressed),
            Record::Trace(bytes) => stream.skip(bytes)?,
            Record::Broken => counts.broken += 1,
            Record::Other => {}
        }
    }
    queue.end(&mut counts);
    if counts.samples == 0 {
        return Err(PerfFault::Empty { event: head.event() });
    }
    Ok(counts.samples(head, stream.breaks_off(), queue.was_cut()))
}

/// Whether a file begins like perf's data.
pub fn is_data(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn word_bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn record(kind: u64, misc: u64, body: &[Vec<u8>]) -> Vec<u8> {
        let body = body.concat();
        [word_bytes(&[kind | misc << 32 | (8 + body.len() as u64) << 48]), body].concat()
    }

    /// Of process 7, a page from an address on. The name is as long as eight letters and the end of them.
    fn mapped(address: u64, name: &str, misc: u64, id: [u64; 3]) -> Vec<u8> {
        let mut name = name.as_bytes().to_vec();
        name.resize(16, 0);
        record(
            10,
            misc,
            &[word_bytes(&[7 | 7 << 32, address, 4096, 0]), word_bytes(&id), word_bytes(&[0]), name],
        )
    }

    fn sampled(address: u64) -> Vec<u8> {
        record(9, 2, &[word_bytes(&[address, 7 | 7 << 32])])
    }

    /// Of the CPU's clock, with address and thread.
    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let data = records.concat();
        let mut bytes = b"PERFILE2".to_vec();
        bytes.extend(word_bytes(&[104, 80, 104, 80, 184, data.len() as u64]));
        bytes.resize(104, 0);
        bytes.extend(word_bytes(&[1, 0, 0, 3, 0, 0, 0, 0, 0, 0]));
        [bytes, data].concat()
    }

    #[test]
    fn build_ids_are_taken_from_mappings() {
        const HAS_ID: u64 = 1 << 14;
        // Four bytes of an id, and rubbish behind them; one that is no id says a device and an inode.
        let id = |first: u64| [4 | first << 32, u64::MAX, u64::MAX];
        let bytes = file(&[
            mapped(0x1000, "/bin/x", HAS_ID, id(0xddcc_bbaa)),
            mapped(0x2000, "/bin/y", 0, id(0xddcc_bbaa)),
            mapped(0x3000, "/bin/z", HAS_ID, id(1)),
            mapped(0x4000, "/bin/z", HAS_ID, id(2)),
            mapped(0x5000, "/bin/long", HAS_ID, [21, 0, 0]),
            sampled(0x1010),
            sampled(0x2010),
        ]);
        let samples = read(io::Cursor::new(bytes)).unwrap();
        assert_eq!(
            (samples.samples, &samples.paths[..2]),
            (2, &["/bin/x".to_owned(), "/bin/y".to_owned()][..])
        );
        let mut ids: Vec<(&str, &str)> =
            samples.build_ids.iter().map(|(path, id)| (path.as_str(), id.as_str())).collect();
        ids.sort_unstable();
        assert_eq!(ids, [("/bin/x", "aabbccdd"), ("/bin/z", "")], "built again while perf recorded");
    }
}
