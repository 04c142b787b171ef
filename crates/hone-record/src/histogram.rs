//! Latency histograms: HDR in memory, a base64 text of HDR V2 without compression on disk.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Smallest latency that is resolved, in nanoseconds.
pub const LATENCY_LOW_NS: u64 = 1;
/// Largest latency: the longest window and the longest timeout together (25 hours), so that no value is ever cut.
pub const LATENCY_HIGH_NS: u64 = 90_000_000_000_000;
/// Three significant digits: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Smallest number of samples beyond a quantile for the quantile to be reported (docs/method.md, Tails).
pub const SAMPLES_BEYOND: u64 = 10;

/// Number of samples that leaves enough of them beyond a quantile (0 to 1).
pub fn samples_for(quantile: f64) -> u64 {
    (SAMPLES_BEYOND as f64 / (1.0 - quantile)).round() as u64
}

/// A quantile for people: 0.999 is `p99.9`.
pub fn percentile(quantile: f64) -> String {
    // 0.999 * 100 is 99.9 except for the last bits.
    format!("p{}", (quantile * 1e8).round() / 1e6)
}

/// A latency histogram in nanoseconds. On disk: base64 of HdrHistogram's V2 encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Hdr(Histogram<u64>);

/// Reasons why a text is not a histogram.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HdrError {
    /// The text is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The text is base64, but not an HDR V2 histogram.
    #[error("the histogram is not HDR V2: {0}")]
    Hdr(String),
}

impl Default for Hdr {
    fn default() -> Self {
        Self::new()
    }
}

impl Hdr {
    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LATENCY_LOW_NS, LATENCY_HIGH_NS, DIGITS);
        Self(histogram.expect("the bounds are constants that HdrHistogram accepts"))
    }

    pub(crate) fn inner(&self) -> &Histogram<u64> {
        &self.0
    }

    /// Counts one latency. A latency above [`LATENCY_HIGH_NS`], which no window reaches, counts as that value.
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.0.saturating_record(latency_ns);
    }

    /// Removes all samples.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        // Both sides have the bounds of `new`, or were checked against them in `from_base64`.
        self.0.add(&other.0).expect("histograms of one kind have the same bounds");
    }

    /// The samples that another histogram does not have; `None` if the other one has samples that are missing here.
    pub fn without(&self, other: &Self) -> Option<Self> {
        let mut left = self.clone();
        left.0.subtract(&other.0).ok()?;
        Some(left)
    }

    /// The latency at a quantile if this many longer samples were added; `None` if the quantile is one of them.
    pub fn quantile_us_with_longer(&self, quantile: f64, longer: u64) -> Option<f64> {
        let rank = (quantile * (self.count() + longer) as f64).ceil().max(1.0);
        // The rank is reduced by one half, since a quotient rounded up in binary would give the next rank.
        (rank <= self.count() as f64).then(|| self.quantile_us((rank - 0.5) / self.count() as f64)).flatten()
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency at a quantile (0 to 1), in microseconds; `None` without samples.
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// The latency at a quantile, only if at least `beyond` samples lie above it. A p99.9 needs 1,000 samples for each sample beyond.
    pub fn quantile_us_if_supported(&self, quantile: f64, beyond: u64) -> Option<f64> {
        // The factor is a little above 1, since 1 - 0.999 is slightly off a thousandth in binary.
        let above = (self.count() as f64 * (1.0 - quantile) + 1e-6).floor();
        (above >= beyond as f64).then(|| self.quantile_us(quantile)).flatten()
    }

    /// Number of samples above a latency, within the histogram's precision.
    pub fn count_above_us(&self, latency_us: f64) -> u64 {
        let above_ns = (latency_us * 1e3) as u64;
        self.0.count_between(above_ns.saturating_add(1), LATENCY_HIGH_NS)
    }

    /// Whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Largest sample, in microseconds.
    pub fn max_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e3)
    }

    /// Arithmetic mean, in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean() / 1e3)
    }

    /// The text that goes into a record.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a histogram with our bounds serialises into memory");
        STANDARD.encode(bytes)
    }

    /// Reads the text of a record.
    ///
    /// # Errors
    /// Returns an error when the text is not base64, not HDR V2, or has other bounds than [`Hdr::new`].
    pub fn from_base64(text: &str) -> Result<Self, HdrError> {
        let bytes = STANDARD.decode(text)?;
        check_head(&bytes).map_err(|why| HdrError::Hdr(why.to_owned()))?;
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HdrError::Hdr(error.to_string()))?;
        let mut hdr = Self::new();
        hdr.0.add(&histogram).map_err(|error| HdrError::Hdr(error.to_string()))?;
        Ok(hdr)
    }
}

/// Compares the head of HDR's V2 encoding with the rest: cookie, length of the counts, an offset, digits, low, high, a ratio. The decoder
/// allocates memory for any length and bounds that the head states.
fn check_head(bytes: &[u8]) -> Result<(), &'static str> {
    const COOKIE: u32 = 0x1c84_9313;
    let (head, counts) = bytes.split_first_chunk::<40>().ok_or("the text ends within the header")?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    if word(0) != COOKIE {
        return Err("the header of an uncompressed histogram is missing");
    }
    if usize::try_from(word(4)) != Ok(counts.len()) {
        return Err("the length in the header differs from the length of the counts");
    }
    // A narrower range, as in older records, fits into this one without loss. Other digits would not.
    if word(12) != u32::from(DIGITS)
        || long(16) != LATENCY_LOW_NS
        || !(2..=LATENCY_HIGH_NS).contains(&long(24))
    {
        return Err("its bounds are not 1 ns to 25 h with 3 digits");
    }
    Ok(())
}

/// A histogram as text. In memory a histogram has hundreds of kilobytes, as text a few. A window keeps one for each second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedHdr(String);

impl PackedHdr {
    /// Decodes the histogram; it is empty if no text was stored.
    ///
    /// # Errors
    /// Returns the errors of [`Hdr::from_base64`].
    pub fn unpack(&self) -> Result<Hdr, HdrError> {
        if self.0.is_empty() { Ok(Hdr::new()) } else { Hdr::from_base64(&self.0) }
    }
}

impl From<&Hdr> for PackedHdr {
    fn from(hdr: &Hdr) -> Self {
        Self(hdr.to_base64())
    }
}

impl Serialize for Hdr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for Hdr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_base64(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_survive_the_text_form() {
        let mut hdr = Hdr::new();
        for ns in (1..=1000).map(|step| step * 1_000) {
            hdr.record_ns(ns);
        }
        let back = Hdr::from_base64(&hdr.to_base64()).unwrap();
        assert_eq!(back, hdr);
        let p50 = back.quantile_us(0.5).unwrap();
        assert!((p50 - 500.0).abs() <= 1.0, "{p50}");
    }

    #[test]
    fn what_is_packed_comes_back_and_nothing_is_the_empty_histogram() {
        let mut hdr = Hdr::new();
        hdr.record_ns(80_000_000_000_000);
        hdr.record_ns(17);
        assert_eq!(PackedHdr::from(&hdr).unpack().unwrap(), hdr);
        assert_eq!(PackedHdr::default().unpack().unwrap().count(), 0);
    }

    #[test]
    fn a_histogram_of_a_narrower_range_is_read() {
        let mut older = Histogram::<u64>::new_with_bounds(1, 600_000_000_000, DIGITS).unwrap();
        older.record(123_456).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&older, &mut bytes).unwrap();
        let read = Hdr::from_base64(&STANDARD.encode(bytes)).unwrap();
        assert_eq!(read.count(), 1);
        assert!((read.max_us().unwrap() - 123.456).abs() < 0.1);
    }

    #[test]
    fn samples_above_a_latency_are_counted() {
        let mut hdr = Hdr::new();
        (1..=1_000).for_each(|step| hdr.record_ns(step * 1_000_000));
        assert!(hdr.count_above_us(250_000.0).abs_diff(750) <= 1, "{}", hdr.count_above_us(250_000.0));
        assert_eq!(hdr.count_above_us(2e6), 0);
    }

    #[test]
    fn a_tail_without_samples_beyond_it_is_not_told() {
        let mut hdr = Hdr::new();
        (0..999).for_each(|_| hdr.record_ns(1_000));
        assert_eq!(hdr.quantile_us_if_supported(0.999, 1), None);
        hdr.record_ns(1_000);
        assert!(hdr.quantile_us_if_supported(0.999, 1).is_some());
        assert!(
            hdr.quantile_us_if_supported(99.9 / 100.0, 1).is_some(),
            "a rounding error asks for one sample more"
        );
    }

    #[test]
    fn longer_than_the_range_is_kept_at_its_end() {
        let mut hdr = Hdr::new();
        hdr.record_ns(u64::MAX);
        assert_eq!(hdr.count(), 1);
        assert!(hdr.max_us().unwrap() >= 90_000e6);
    }

    #[test]
    fn broken_text_is_refused() {
        for text in ["", "!!!", "AAAA"] {
            assert!(Hdr::from_base64(text).is_err(), "{text}");
        }
    }

    fn bytes_of(samples_ns: &[u64]) -> Vec<u8> {
        let mut hdr = Hdr::new();
        samples_ns.iter().for_each(|&ns| hdr.record_ns(ns));
        STANDARD.decode(hdr.to_base64()).unwrap()
    }

    /// These heads must be rejected before any memory is allocated for them.
    #[test]
    fn a_head_that_lies_is_refused() {
        let whole = bytes_of(&[17, 80_000_000_000_000]);
        assert_eq!(check_head(&whole), Ok(()));
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            check_head(&bytes).unwrap_err()
        };
        assert!(with(4, 0xff).contains("the length in the header"));
        assert!(with(0, 0).contains("header of an uncompressed histogram"));
        for (at, byte) in [(15, 5), (23, 2), (24, 0x7f), (16, 1)] {
            assert!(with(at, byte).contains("its bounds are not"), "{at}");
        }
        assert!(check_head(&whole[..39]).unwrap_err().contains("within the header"));
        assert!(check_head(&whole[..whole.len() - 1]).unwrap_err().contains("the length in the header"));
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            samples_ns in prop::collection::vec(1..LATENCY_HIGH_NS, 0..20),
            damage in prop::collection::vec((0_usize..400, any::<u8>()), 0..8),
        ) {
            let mut bytes = bytes_of(&samples_ns);
            for (at, byte) in damage {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            if let Ok(hdr) = Hdr::from_base64(&STANDARD.encode(bytes)) {
                let _ = (hdr.count(), hdr.mean_us(), hdr.max_us(), hdr.quantile_us(0.999), hdr.to_base64());
            }
        }
    }
}
