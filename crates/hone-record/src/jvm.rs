//! A service on a Java virtual machine: its JDK, its starts, and the caches that shorten them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is only measured of a Java service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JvmAccount {
    /// The baseline's JDK, with version and vendor.
    pub jdk: String,
    /// Flags in force of the baseline, by name.
    pub flags: BTreeMap<String, String>,
    /// The starts of each variant, the baseline first.
    pub starts: Vec<JvmStarts>,
    /// The caches that were made.
    pub caches: Vec<JvmCache>,
}

/// Starts of one variant. Each start is in a fresh data folder, and all variants take turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JvmStarts {
    /// Its name.
    pub variant: String,
    /// The complete command line.
    pub command: String,
    /// Number of starts.
    pub starts: u32,
    /// Seconds until it was ready.
    pub ready_s: Option<OverBaseline>,
    /// CPU seconds until it was ready.
    pub ready_cpu_s: Option<OverBaseline>,
    /// Peak resident memory when it was ready, in bytes.
    pub rss_bytes: Option<OverBaseline>,
    /// CPU per record in the first seconds, without any warm-up, in microseconds.
    pub cold_cpu_us_per_record: Option<OverBaseline>,
    /// p99 latency of these seconds in microseconds.
    pub cold_latency_us_p99: Option<OverBaseline>,
}

/// A figure, and its ratio to the baseline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OverBaseline {
    /// The median.
    pub median: f64,
    /// Geometric mean of the ratios to the baseline's start of the same turn, with its 95 % interval: ratio, low, high. `None` for the
    /// baseline, and with fewer than three turns.
    pub ratio: Option<[f64; 3]>,
}

impl OverBaseline {
    /// Of the values of all turns, with the baseline's values of the same turns. The interval is Student's, of the log ratios.
    ///
    /// `None` without values.
    pub fn new(values: &[f64], baseline: Option<&[f64]>) -> Option<Self> {
        let median = crate::median::median(values.iter().copied())?;
        let logs: Vec<f64> = baseline
            .into_iter()
            .flat_map(|baseline| values.iter().zip(baseline))
            .filter(|(value, base)| **value > 0.0 && **base > 0.0)
            .map(|(value, base)| (value / base).ln())
            .collect();
        Some(Self { median, ratio: interval(&logs) })
    }

    /// Whether the whole interval is below the baseline.
    pub fn is_less(&self) -> bool {
        self.ratio.is_some_and(|[_, _, high]| high < 1.0)
    }

    /// Whether the whole interval is above the baseline.
    pub fn is_more(&self) -> bool {
        self.ratio.is_some_and(|[_, low, _]| low > 1.0)
    }
}

/// Fewer turns give no interval.
const FEWEST_TURNS: usize = 3;

fn interval(logs: &[f64]) -> Option<[f64; 3]> {
    if logs.len() < FEWEST_TURNS {
        return None;
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = crate::student::t_quantile(0.975, count - 1.0) * (variance / count).sqrt();
    Some([mean.exp(), (mean - half).exp(), (mean + half).exp()])
}

/// A cache of an earlier run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JvmCache {
    /// The variant that uses it.
    pub variant: String,
    /// Its kind in words.
    pub kind: String,
    /// Its file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// Classes that came from it at a start, and all classes.
    pub classes: [u64; 2],
    /// The training workloads.
    pub trained_by: Vec<String>,
    /// Seconds from the stop of the training to the end of the process, in which the cache is written.
    pub written_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_turn() {
        let found = OverBaseline::new(&[2.0, 4.0, 8.0], Some(&[4.0, 8.0, 16.0])).unwrap();
        assert_eq!(found.median, 4.0);
        let [ratio, low, high] = found.ratio.unwrap();
        assert!((ratio - 0.5).abs() < 1e-9 && (low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
        assert!(found.is_less() && !found.is_more());
        assert_eq!(OverBaseline::new(&[2.0, 4.0], Some(&[1.0, 1.0])).unwrap().ratio, None, "two turns");
        assert_eq!(OverBaseline::new(&[2.0], None).unwrap().ratio, None);
        assert_eq!(OverBaseline::new(&[], None), None);
        let wide = OverBaseline::new(&[1.0, 2.0, 4.0], Some(&[2.0, 2.0, 2.0])).unwrap();
        assert!(!wide.is_less() && !wide.is_more());
    }
}
