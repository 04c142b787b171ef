//! HdrHistogram's percentile format (`.hgrm`), which its plotters read.

use std::fmt::Write as _;

use crate::histogram::Hdr;

/// Number of steps between a percentile and the next one half as far from 100 %, as in HdrHistogram's own tools.
const STEPS_PER_HALF: u32 = 5;

impl Hdr {
    /// The distribution in HdrHistogram's percentile format. Values are microseconds with three decimals, so no nanosecond is lost.
    pub fn to_hgrm(&self) -> String {
        let histogram = self.inner();
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let us = |ns: f64| ns / 1e3;
        let (mut below, mut last) = (0, None);
        for step in histogram.iter_quantiles(STEPS_PER_HALF) {
            below += step.count_since_last_iteration();
            let value_us = us(step.value_iterated_to() as f64);
            let quantile = step.quantile_iterated_to();
            // The iterator returns the end several times; it is written once.
            if last == Some(1.0) {
                break;
            }
            // Writing into a String can't fail.
            let _ = if quantile < 1.0 {
                writeln!(text, "{value_us:12.3} {quantile:2.12} {below:10} {:14.2}", 1.0 / (1.0 - quantile))
            } else {
                writeln!(text, "{value_us:12.3} {quantile:2.12} {below:10}")
            };
            last = Some(quantile);
        }
        let _ = write!(
            text,
            "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n\
             #[Buckets = {:12}, SubBuckets     = {:12}]\n",
            us(histogram.mean()),
            us(histogram.stdev()),
            us(histogram.max() as f64),
            histogram.len(),
            histogram.buckets(),
            SUB_BUCKETS,
        );
        text
    }
}

/// Bucket size for three digits: the smallest power of two that is at least 2 * 10^3.
const SUB_BUCKETS: u32 = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies from 1 ns to 80 s, with gaps, and one far out.
    fn spread() -> Hdr {
        let mut hdr = Hdr::new();
        let mut state = 12_345_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            hdr.record_ns(200_000 + (state >> 33) % 1_000_000);
        }
        for ns in [1, 999, 80_000_000_000, 80_000_000_000_000] {
            hdr.record_ns(ns);
        }
        hdr
    }

    /// `reference.hgrm` was written by `Histogram.outputPercentileDistribution(stream, 5, 1000.0)` of HdrHistogram 2.2.2
    /// (Java) from the V2 encoding of the same histogram.
    #[test]
    fn the_text_is_what_hdrhistogram_writes() {
        let (ours, reference) = (spread().to_hgrm(), include_str!("reference.hgrm"));
        for (line, (ours, reference)) in ours.lines().zip(reference.lines()).enumerate() {
            assert_eq!(ours, reference, "line {}", line + 1);
        }
        assert_eq!(ours.lines().count(), reference.lines().count());
    }

    #[test]
    fn nothing_measured_is_still_a_file() {
        let text = Hdr::new().to_hgrm();
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}
