//! A file with the records of a topic, to be sent again: their sizes, keys and producers in the order of their times.
//!
//! Each line is a record: its time in seconds, the number of its producer, the number of its key (`-` for none) and the bytes of its value,
//! separated by spaces. Empty lines and lines that begin with `#` are skipped. The times are those of the schedule ([`crate::replay`]).

use hone_kafka::{BatchBuilder, Codec};
use hone_record::{Engine, Keys, Payload, Recording, Sizes, Workload};

use crate::error::LoadError;
use crate::payload::Values;
use crate::sizes::MOST_BYTES;

/// Number of words in a line.
pub(crate) const WORDS: usize = 4;
/// A larger file is more than a load should hold.
const FILE_LIMIT_BYTES: u64 = 1 << 30;
/// Upper limit of producer numbers.
const MOST_PRODUCERS: u32 = 10_000;
/// Limits of the batch for the search of a share: records and bytes.
const TRIED_RECORDS: u32 = 1_000;
const TRIED_BYTES: u32 = 4 << 20;
/// Number of halvings in the search of the share.
const TRIES: u32 = 10;

/// A record as its line describes it, without the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of its producer.
    pub producer: u32,
    /// Number of its key.
    pub key: Option<u64>,
    /// Bytes of its value.
    pub bytes: u32,
}

fn wrong(problem: String) -> LoadError {
    LoadError::Setting { name: "recording", problem }
}

/// The records that a workload sends; `None` if it generates its own.
pub(crate) fn lines(workload: &Workload) -> Result<Option<Vec<Line>>, LoadError> {
    let Some(Recording { path, sha256 }) = &workload.recording else { return Ok(None) };
    let text = read(path)?;
    let found = crate::replay::sha256_hex(text.as_bytes());
    if !sha256.is_empty() && *sha256 != found {
        return Err(wrong(format!("{path} has changed: SHA-256 {found}, expected {sha256}")));
    }
    lines_of(&text).map(Some).map_err(|problem| wrong(format!("{path}: {problem}")))
}

fn read(path: &str) -> Result<String, LoadError> {
    let cannot = |error| wrong(format!("{path} can't be read: {error}"));
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    if size > FILE_LIMIT_BYTES {
        return Err(wrong(format!("{path} has {size} bytes, at most {FILE_LIMIT_BYTES} are allowed")));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

/// Writes the hash of a recording and the mean size of its values into the workload. An existing hash must match the file.
pub(crate) fn pin(workload: &mut Workload) -> Result<(), LoadError> {
    let Some(lines) = lines(workload)? else { return Ok(()) };
    let bytes: u64 = lines.iter().map(|line| u64::from(line.bytes)).sum();
    workload.record_bytes = (bytes.div_ceil(lines.len().max(1) as u64)).max(1) as u32;
    if let Some(recording) = &mut workload.recording {
        recording.sha256 = crate::replay::sha256_hex(read(&recording.path)?.as_bytes());
    }
    Ok(())
}

fn lines_of(text: &str) -> Result<Vec<Line>, String> {
    let all = text.lines().map(str::trim).enumerate();
    let lines = all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = lines.map(|(index, line)| {
        line_of(line).ok_or_else(|| {
            format!(
                "line {}: `{line}` is not a record; write TIME PRODUCER KEY BYTES, with `-` for no key",
                index + 1
            )
        })
    });
    let found: Vec<Line> = read.collect::<Result<_, _>>()?;
    if found.is_empty() { Err("the file has no record".to_owned()) } else { Ok(found) }
}

fn line_of(line: &str) -> Option<Line> {
    let mut words = line.split_whitespace().skip(1);
    let producer = words.next()?.parse().ok().filter(|producer| *producer < MOST_PRODUCERS)?;
    let key = match words.next()? {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    let bytes = words.next()?.parse().ok().filter(|bytes| *bytes <= MOST_BYTES)?;
    words.next().is_none().then_some(Line { producer, key, bytes })
}

/// The problem with the recording of a workload.
pub(crate) fn check(workload: &Workload) -> Result<(), LoadError> {
    if workload.recording.is_none() {
        return Ok(());
    }
    if workload.engine == Engine::Wire {
        return Err(wrong(
            "needs a client, which makes batches of its records; set client = \"librdkafka\" or a command"
                .to_owned(),
        ));
    }
    if workload.sizes != Sizes::Fixed || workload.keys != Keys::None {
        return Err(wrong("has its own sizes and keys: leave out `sizes` and `keys`".to_owned()));
    }
    if matches!(workload.payload, Payload::File { .. }) {
        return Err(wrong("has its own sizes, like the lines of a file: use another payload".to_owned()));
    }
    lines(workload).map(|_| ())
}

/// Share of each value that must be one repeated byte for batches of such values to compress to `ratio`.
///
/// # Errors
/// Returns an error when the codec fails.
pub fn compressible_share(
    codec: Codec,
    ratio: f64,
    record_bytes: u32,
    records_per_batch: u32,
) -> Result<f64, LoadError> {
    let bytes = record_bytes.max(1);
    let count = records_per_batch.clamp(1, TRIED_RECORDS).min((TRIED_BYTES / bytes).max(1));
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..TRIES {
        let share = f64::midpoint(low, high);
        if packed_ratio(codec, share, bytes, count)? < ratio {
            low = share;
        } else {
            high = share;
        }
    }
    Ok(f64::midpoint(low, high))
}

/// Compression ratio of a batch of such values: bytes before over bytes after.
fn packed_ratio(codec: Codec, share: f64, bytes: u32, count: u32) -> Result<f64, LoadError> {
    let payload = Payload::Bytes { compressible_share: share };
    let mut values = Values::new(&payload, bytes, 1)?;
    let values: Vec<Vec<u8>> = (0..count).map(|_| values.next_value()).collect();
    let size = |codec| {
        let mut builder = BatchBuilder::new(codec);
        values.iter().for_each(|value| builder.push(None, Some(value.as_slice()), 0));
        let built = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok::<_, LoadError>(built.len().saturating_sub(hone_kafka::batch::HEADER_BYTES).max(1) as f64)
    };
    Ok(size(Codec::None)? / size(codec)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::Schedule;

    fn recorded(text: &str) -> (tempfile::TempDir, Workload) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording").display().to_string();
        std::fs::write(&path, text).unwrap();
        let mut load = crate::schedule::tests::workload(Schedule::Uniform, 1_000.0, 1);
        load.engine = Engine::Librdkafka { settings: Default::default() };
        load.recording = Some(Recording { path, sha256: String::new() });
        (folder, load)
    }

    const TEXT: &str = "# seconds producer key bytes\n0 0 - 100\n0.5 1 17 50\n0.5 0 0 1\n";

    #[test]
    fn each_record_has_its_producer_key_and_size() {
        let (_folder, mut load) = recorded(TEXT);
        check(&load).unwrap();
        let records = lines(&load).unwrap().unwrap();
        let expected = [(0, None, 100), (1, Some(17), 50), (0, Some(0), 1)];
        assert_eq!(records, expected.map(|(producer, key, bytes)| Line { producer, key, bytes }));
        pin(&mut load).unwrap();
        assert_eq!(load.record_bytes, 51);
        let path = load.recording.as_ref().unwrap().path.clone();
        std::fs::write(path, "0 0 - 100\n").unwrap();
        assert!(lines(&load).unwrap_err().to_string().contains("has changed"));
    }

    #[test]
    fn what_is_no_record_is_named_with_its_line() {
        for (text, expected) in [
            ("0 0 - 1\n0 0 -\n", "line 2: `0 0 -` is not a record"),
            ("0 0 - 1 7\n", "line 1"),
            ("0 10000 - 1\n", "line 1"),
            ("0 0 k 1\n", "line 1"),
            ("0 0 - 99999999999\n", "line 1"),
            ("# nothing\n", "the file has no record"),
        ] {
            assert!(lines_of(text).unwrap_err().contains(expected), "{text}");
        }
    }

    #[test]
    fn what_has_sizes_of_its_own_or_makes_its_own_batches_is_refused() {
        let (_folder, load) = recorded(TEXT);
        let wire = Workload { engine: Engine::Wire, ..load.clone() };
        let keyed = Workload { keys: Keys::Uniform { distinct: 3 }, ..load.clone() };
        let payload = Payload::File { path: "x".to_owned(), sha256: String::new() };
        for (wrong, expected) in [
            (wire, "needs a client"),
            (keyed, "its own sizes and keys"),
            (Workload { payload, ..load }, "file"),
        ] {
            let message = check(&wrong).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_share_packs_as_it_should() {
        for codec in [Codec::Lz4, Codec::Zstd, Codec::Snappy, Codec::Gzip] {
            for ratio in [1.2, 2.0, 4.0] {
                let share = compressible_share(codec, ratio, 300, 50).unwrap();
                let found = packed_ratio(codec, share, 300, 50).unwrap();
                assert!((found / ratio - 1.0).abs() < 0.05, "{codec:?} {ratio}: {found} by {share}");
            }
        }
    }
}
