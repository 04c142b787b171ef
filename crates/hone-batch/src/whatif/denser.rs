//! The same producers with more to send: Hone divides the gaps between records.
//!
//! It does not overlay several copies of the flow: copies average away the peaks of a flow, need several times the memory, and there is no
//! copy and a half. With divided gaps, independent arrivals stay independent (Poisson at N times the rate), bursts keep their size and come
//! N times as often, and transactions keep their records.

use super::stream::Stream;

impl Stream {
    /// The same records, this many times as dense.
    pub(super) fn denser(&self, times: f64) -> Self {
        let at_us = self.at_us.iter().map(|us| (*us as f64 / times) as u64).collect();
        Self { at_us, ..self.clone() }
    }
}

/// The window of a flow that is this many times as dense, in microseconds.
pub(super) fn window_us(span_us: u64, times: Option<f64>) -> u64 {
    ((span_us as f64 / times.unwrap_or(1.0)) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::stream::NO_KEY;
    use super::*;

    #[test]
    fn gaps_are_divided_and_nothing_else_changes() {
        let mut stream = Stream::default();
        for (at_us, partition) in [(0, 0), (300, 1), (300, 0), (1_000, 1)] {
            stream.push(at_us, partition, 7, NO_KEY);
        }
        let denser = stream.denser(2.5);
        assert_eq!(denser.at_us, [0, 120, 120, 400]);
        assert_eq!(denser.partition, stream.partition);
        assert_eq!(
            (window_us(1_000, Some(2.5)), window_us(1_000, None), window_us(0, None)),
            (400, 1_000, 1)
        );
    }
}
