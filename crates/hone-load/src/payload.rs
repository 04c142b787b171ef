//! Contents of records: seeded values, equal for both arms of a pair.

use std::fmt::Write as _;
use std::sync::Arc;

use hone_record::{Payload, Sizes, Workload};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::error::LoadError;
use crate::sizes::{MOST_BYTES, SizeSource};

/// The JSON shapes that [`Values`] can make.
pub const JSON_SHAPES: [&str; 2] = ["orders", "telemetry"];

/// A JSON value may miss its size by this much: one more item, or one fewer.
const MOST_OFF: usize = 70;

/// An endless sequence of record values.
#[derive(Debug)]
pub struct Values {
    random: ChaCha8Rng,
    make: Make,
    sizes: SizeSource,
    /// Size of the value in progress.
    bytes: usize,
    serial: u64,
}

#[derive(Debug, Clone)]
enum Make {
    Bytes {
        compressible_share: f64,
    },
    Orders,
    Telemetry,
    /// The lines, used in turn; at least one.
    Lines(Arc<[Vec<u8>]>),
}

/// A larger payload file exceeds any broker's caches, and the load would only take memory from the broker.
const PAYLOAD_FILE_LIMIT_BYTES: u64 = 256 << 20;

fn wrong_file(problem: String) -> LoadError {
    LoadError::Setting { name: "payload file", problem }
}

fn payload_file(path: &str) -> Result<Vec<u8>, LoadError> {
    let cannot = |error| wrong_file(format!("{path} can't be read: {error}"));
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    if size > PAYLOAD_FILE_LIMIT_BYTES {
        return Err(wrong_file(format!(
            "{path} has {size} bytes, at most {PAYLOAD_FILE_LIMIT_BYTES} are allowed"
        )));
    }
    std::fs::read(path).map_err(cannot)
}

/// Lines, without the empty ones.
fn lines_in(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The lines of a file without the empty ones.
fn lines_of(path: &str) -> Result<Arc<[Vec<u8>]>, LoadError> {
    let text = payload_file(path)?;
    match lines_in(&text).map(<[u8]>::len).max() {
        None => Err(wrong_file(format!("{path} has no line; each line is the value of a record"))),
        Some(bytes) if bytes > MOST_BYTES as usize => Err(wrong_file(format!(
            "{path} has a line of {bytes} bytes, at most {MOST_BYTES} are allowed; each line is a record's \
             value"
        ))),
        Some(_) => Ok(lines_in(&text).map(<[u8]>::to_vec).collect()),
    }
}

/// The mean of lengths, rounded up.
fn mean_of(lengths: impl Iterator<Item = usize>) -> u32 {
    let (count, bytes) =
        lengths.fold((0_usize, 0_usize), |(count, bytes), length| (count + 1, bytes + length));
    bytes.div_ceil(count.max(1)) as u32
}

/// Writes the hash of a payload file and the mean length of its lines into the workload. An existing hash must match the file.
pub(crate) fn pin(workload: &mut Workload) -> Result<(), LoadError> {
    let Payload::File { path, sha256 } = &mut workload.payload else { return Ok(()) };
    let text = payload_file(path)?;
    let found = crate::replay::sha256_hex(&text);
    if !sha256.is_empty() && *sha256 != found {
        return Err(wrong_file(format!("{path} has changed: SHA-256 {found}, expected {sha256}")));
    }
    *sha256 = found;
    workload.record_bytes = mean_of(lines_in(&text).map(<[u8]>::len));
    Ok(())
}

impl Values {
    /// Values of about `bytes` bytes. [`Payload::Bytes`] has exactly this size, JSON comes within a field of it, and a shape has a smallest
    /// size.
    ///
    /// # Errors
    /// Returns an error when the JSON shape is unknown or the compressible share lies outside 0 to 1.
    pub fn new(payload: &Payload, bytes: u32, seed: u64) -> Result<Self, LoadError> {
        Self::sized(payload, Sizes::Fixed, bytes, seed)
    }

    /// The values of a workload. Its sizes apply to bytes and JSON; the lines of a file have their own.
    ///
    /// # Errors
    /// Returns the errors of [`Values::new`].
    pub fn from_workload(workload: &Workload) -> Result<Self, LoadError> {
        Self::sized(&workload.payload, workload.sizes, workload.record_bytes, workload.seed)
    }

    fn sized(payload: &Payload, sizes: Sizes, bytes: u32, seed: u64) -> Result<Self, LoadError> {
        let make = match payload {
            Payload::Bytes { compressible_share } if (0.0..=1.0).contains(compressible_share) => {
                Make::Bytes { compressible_share: *compressible_share }
            }
            Payload::Bytes { compressible_share } => {
                return Err(LoadError::Setting {
                    name: "compressible_share",
                    problem: format!("{compressible_share} does not lie between 0 and 1"),
                });
            }
            Payload::Json { shape } => match shape.as_str() {
                "orders" => Make::Orders,
                "telemetry" => Make::Telemetry,
                other => {
                    return Err(LoadError::Setting {
                        name: "payload shape",
                        problem: format!(
                            "`{other}` is unknown; valid are bytes, file:PATH, {}",
                            JSON_SHAPES.join(", ")
                        ),
                    });
                }
            },
            Payload::File { path, .. } => Make::Lines(lines_of(path)?),
        };
        let values = |sizes, bytes| Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            make: make.clone(),
            sizes: SizeSource::new(sizes, bytes, seed),
            bytes: 0,
            serial: 0,
        };
        let is_json = matches!(make, Make::Orders | Make::Telemetry);
        let least = if is_json { values(Sizes::Fixed, 0).next_value().len() } else { 1 };
        if bytes as usize + MOST_OFF < least {
            return Err(LoadError::Setting {
                name: "record_bytes",
                problem: format!("is {bytes}, but the smallest value of this shape has about {least} bytes"),
            });
        }
        Ok(values(sizes, bytes))
    }

    /// Mean length of a file's lines, rounded up; `None` for generated values.
    pub(crate) fn mean_line_bytes(&self) -> Option<u32> {
        match &self.make {
            Make::Lines(lines) => Some(mean_of(lines.iter().map(Vec::len))),
            Make::Bytes { .. } | Make::Orders | Make::Telemetry => None,
        }
    }

    /// The next value.
    pub fn next_value(&mut self) -> Vec<u8> {
        let bytes = self.sizes.next_bytes();
        self.next_of(bytes)
    }

    /// The next value with this size; the lines of a file have their own.
    pub(crate) fn next_of(&mut self, bytes: u32) -> Vec<u8> {
        self.serial += 1;
        self.bytes = bytes as usize;
        match &self.make {
            Make::Bytes { compressible_share } => self.bytes_value(*compressible_share),
            Make::Lines(lines) => lines[(self.serial - 1) as usize % lines.len()].clone(),
            Make::Orders => self.order().into_bytes(),
            Make::Telemetry => self.reading().into_bytes(),
        }
    }

    fn bytes_value(&mut self, compressible_share: f64) -> Vec<u8> {
        let repeated = (self.bytes as f64 * compressible_share).round() as usize;
        let mut value = vec![b'.'; self.bytes];
        self.random.fill_bytes(&mut value[repeated..]);
        value
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u32) as usize]
    }

    /// A shop order: nested objects, arrays, enums, a pattern. Items are added until the size is reached.
    fn order(&mut self) -> String {
        const CURRENCIES: [&str; 4] = ["EUR", "USD", "GBP", "JPY"];
        const CHANNELS: [&str; 3] = ["web", "app", "store"];
        let serial = self.serial;
        let mut text = format!(
            r#"{{"order_id":"ord-{:012x}","customer":{{"id":{},"name":"{} {}","vip":{}}},"currency":"{}","channel":"{}","items":["#,
            serial,
            1 + self.below(2_000_000),
            self.pick(&FIRST_NAMES),
            self.pick(&LAST_NAMES),
            self.below(20) == 0,
            self.pick(&CURRENCIES),
            self.pick(&CHANNELS),
        );
        loop {
            let (sku, quantity, cents) = (self.below(90_000), 1 + self.below(9), 99 + self.below(99_900));
            let _ = write!(
                text,
                r#"{{"sku":"{}-{:05}","quantity":{quantity},"unit_price":{}.{:02}}}"#,
                self.pick(&["AX", "BK", "CT", "DV"]),
                sku,
                cents / 100,
                cents % 100
            );
            // One more item has 60 bytes, the closing fields have 40.
            if text.len() + 100 > self.bytes {
                break;
            }
            text.push(',');
        }
        let _ = write!(text, r#"],"placed_at_ms":{}}}"#, 1_700_000_000_000 + self.serial * 17);
        text
    }

    /// A device reading: mostly numbers, a map, and a list of tags that grows to the size.
    fn reading(&mut self) -> String {
        const STATES: [&str; 4] = ["ok", "degraded", "failed", "maintenance"];
        const TAGS: [&str; 8] =
            ["hall-a", "hall-b", "roof", "spare", "calibrated", "leased", "line-3", "line-7"];
        let serial = self.serial;
        let mut text = format!(
            r#"{{"device":"dev-{:06}","sequence":{},"state":"{}","values":{{"temperature_c":{}.{},"humidity_pct":{},"pressure_hpa":{},"voltage_v":3.{:03}}},"tags":["#,
            self.below(50_000),
            serial,
            self.pick(&STATES),
            self.below(60),
            self.below(10),
            self.below(101),
            950 + self.below(100),
            self.below(1000),
        );
        loop {
            let _ = write!(text, r#""{}""#, self.pick(&TAGS));
            if text.len() + 45 > self.bytes {
                break;
            }
            text.push(',');
        }
        let _ = write!(text, r#"],"at_ms":{}}}"#, 1_700_000_000_000 + self.serial * 5);
        text
    }
}

const FIRST_NAMES: [&str; 8] = ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Tony", "Radia"];
const LAST_NAMES: [&str; 8] =
    ["Moreau", "Okafor", "Lindqvist", "Tanaka", "Novak", "Silva", "Haddad", "Kowalski"];

#[cfg(test)]
mod tests {
    use super::*;

    fn json(shape: &str, bytes: u32, seed: u64) -> Values {
        Values::new(&Payload::Json { shape: shape.to_owned() }, bytes, seed).unwrap()
    }

    #[test]
    fn json_values_are_json_and_near_their_size() {
        for shape in JSON_SHAPES {
            for bytes in [300, 512, 2_000] {
                let mut values = json(shape, bytes, 5);
                for _ in 0..200 {
                    let value = values.next_value();
                    serde_json::from_slice::<serde_json::Value>(&value).unwrap();
                    let off = value.len().abs_diff(bytes as usize);
                    assert!(off < MOST_OFF, "{shape} {bytes}: {} bytes", value.len());
                }
            }
        }
    }

    #[test]
    fn the_compressible_share_is_what_it_says() {
        let mut values = Values::new(&Payload::Bytes { compressible_share: 0.75 }, 1_000, 1).unwrap();
        let value = values.next_value();
        assert_eq!(value.len(), 1_000);
        assert!(value[..750].iter().all(|byte| *byte == b'.'));
        let distinct: std::collections::BTreeSet<u8> = value[750..].iter().copied().collect();
        assert!(distinct.len() > 100);
    }

    /// A record of the plain half costs at most its bytes with every codec, so a stated share gives the expected ratio.
    #[test]
    fn the_stated_compressibility_is_what_codecs_reach() {
        use hone_kafka::{BatchBuilder, Codec};
        for (share, codec, least, most) in [
            (0.0, Codec::Lz4, 0.99, 1.02),
            (0.0, Codec::Zstd, 0.99, 1.02),
            (0.5, Codec::Lz4, 0.49, 0.56),
            (0.5, Codec::Zstd, 0.49, 0.56),
            (0.9, Codec::Lz4, 0.09, 0.14),
            (0.9, Codec::Zstd, 0.09, 0.14),
        ] {
            let mut values = Values::new(&Payload::Bytes { compressible_share: share }, 1_000, 1).unwrap();
            let batch = |codec, values: &mut Values| {
                let mut builder = BatchBuilder::new(codec);
                (0..100).for_each(|_| builder.push(None, Some(&values.next_value()), 0));
                builder.build().unwrap().len() as f64
            };
            let ratio = batch(codec, &mut values) / batch(Codec::None, &mut values);
            assert!((least..=most).contains(&ratio), "{share} with {}: {ratio}", codec.name());
        }
    }

    #[test]
    fn sizes_are_spread_as_asked() {
        let payload = Payload::Json { shape: "orders".to_owned() };
        let sizes = Sizes::Uniform { least_bytes: 300, most_bytes: 900 };
        let mut values = Values::sized(&payload, sizes, 600, 1).unwrap();
        let lengths: Vec<usize> = (0..2_000).map(|_| values.next_value().len()).collect();
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        assert!(mean.abs_diff(600) < 40, "{mean}");
        assert!(lengths.iter().any(|length| *length < 380) && lengths.iter().any(|length| *length > 820));
    }

    #[test]
    fn a_payload_file_is_pinned_by_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values").display().to_string();
        std::fs::write(&path, "abc").unwrap();
        let mut workload = of_file(&path);
        pin(&mut workload).unwrap();
        let Payload::File { sha256, .. } = &workload.payload else { panic!("another payload") };
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        pin(&mut workload).unwrap();
        std::fs::write(&path, "abd").unwrap();
        assert!(pin(&mut workload).unwrap_err().to_string().contains("has changed"));
    }

    fn of_file(path: &str) -> Workload {
        let payload = Payload::File { path: path.to_owned(), sha256: String::new() };
        Workload { payload, ..crate::schedule::tests::workload(hone_record::Schedule::Uniform, 1.0, 1) }
    }

    #[test]
    fn the_size_of_a_file_s_values_is_the_mean_of_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values").display().to_string();
        std::fs::write(&path, "12345\n\n1234567890\n").unwrap();
        let mut workload = of_file(&path);
        assert_eq!(Values::from_workload(&workload).unwrap().mean_line_bytes(), Some(8));
        pin(&mut workload).unwrap();
        assert_eq!(workload.record_bytes, 8);
        assert_eq!(json("orders", 300, 1).mean_line_bytes(), None);
        let mut made = Workload {
            payload: Payload::Bytes { compressible_share: 0.5 },
            ..crate::schedule::tests::workload(hone_record::Schedule::Uniform, 1.0, 1)
        };
        pin(&mut made).unwrap();
        assert_eq!(made.record_bytes, 100, "generated values have the requested size");
    }

    #[test]
    fn a_line_that_no_record_can_hold_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values").display().to_string();
        std::fs::write(&path, vec![b'v'; MOST_BYTES as usize + 1]).unwrap();
        let error = Values::from_workload(&of_file(&path)).unwrap_err().to_string();
        assert!(error.contains("has a line of 67108865 bytes"), "{error}");
    }

    #[test]
    fn the_lines_of_a_file_come_in_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values").display().to_string();
        let payload = Payload::File { path: path.clone(), sha256: String::new() };
        let error = Values::new(&payload, 100, 1).unwrap_err().to_string();
        assert!(error.contains(&path), "{error}");
        std::fs::write(&path, "\n\n").unwrap();
        assert!(Values::new(&payload, 100, 1).unwrap_err().to_string().contains("has no line"));
        std::fs::write(&path, "first\n\nsecond\n").unwrap();
        let mut values = Values::new(&payload, 100, 1).unwrap();
        let three: Vec<Vec<u8>> = (0..3).map(|_| values.next_value()).collect();
        assert_eq!(three, [b"first".to_vec(), b"second".to_vec(), b"first".to_vec()]);
    }

    #[test]
    fn a_seed_repeats_the_values() {
        let (mut first, mut again, mut other) =
            (json("orders", 300, 1), json("orders", 300, 1), json("orders", 300, 2));
        let (value, repeated, different) = (first.next_value(), again.next_value(), other.next_value());
        assert_eq!(value, repeated);
        assert_ne!(value, different);
    }

    #[test]
    fn unknown_shapes_and_shares_are_refused_by_name() {
        let error = Values::new(&Payload::Json { shape: "order".into() }, 500, 1).unwrap_err().to_string();
        assert!(
            error.contains("`order` is unknown; valid are bytes, file:PATH, orders, telemetry"),
            "{error}"
        );
        assert!(Values::new(&Payload::Bytes { compressible_share: 1.5 }, 10, 1).is_err());
        let error = Values::new(&Payload::Json { shape: "orders".into() }, 20, 1).unwrap_err().to_string();
        assert!(error.contains("the smallest value"), "{error}");
    }
}
