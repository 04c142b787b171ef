//! A topic as its own producers write it, compared with the load that imitates them.

use serde::{Deserialize, Serialize};

/// A topic's batches over a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicFigures {
    /// Records per second.
    pub records_per_s: f64,
    /// Bytes of batches per second, headers included.
    pub bytes_per_s: f64,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Number of producers.
    pub producers: u64,
    /// Whether there may be more producers. Producers without an id are visible only if their batches overlap.
    #[serde(default)]
    pub may_be_more: bool,
}

impl TopicFigures {
    /// Mean bytes per batch.
    pub fn bytes_per_batch(&self) -> f64 {
        self.bytes_per_s / self.batches_per_s
    }

    /// Mean number of records per batch.
    pub fn records_per_batch(&self) -> f64 {
        self.records_per_s / self.batches_per_s
    }
}

/// A topic and the load that imitates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The topic.
    pub topic: String,
    /// The topic over the recorded period.
    pub today: TopicFigures,
    /// The test topic as the load wrote it.
    pub here: TopicFigures,
    /// Probable reasons for their differences, in words; empty if they are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A figure in which the replica differs from its topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaDifference {
    /// Name of the figure, with its unit.
    pub what: &'static str,
    /// Value in the topic.
    pub today: f64,
    /// Value in the test topic.
    pub here: f64,
}

impl ReplicaDifference {
    /// The replica's value divided by the topic's, minus 1.
    pub fn change(&self) -> f64 {
        self.here / self.today - 1.0
    }
}

impl Replica {
    /// A replica is like its topic if records, bytes and batches per second differ by at most this share.
    pub const LIKE: f64 = 0.10;

    /// The deciding figures, of the topic and of the replica.
    pub fn figures(&self) -> [ReplicaDifference; 3] {
        let of = |what, figure: fn(&TopicFigures) -> f64| ReplicaDifference {
            what,
            today: figure(&self.today),
            here: figure(&self.here),
        };
        [
            of("records/s", |figures| figures.records_per_s),
            of("bytes/s", |figures| figures.bytes_per_s),
            of("batches/s", |figures| figures.batches_per_s),
        ]
    }

    /// The figures that differ too much.
    pub fn differences(&self) -> Vec<ReplicaDifference> {
        // A figure that is not a number is not alike.
        let is_like = |figure: &ReplicaDifference| figure.change().abs() <= Self::LIKE;
        self.figures().into_iter().filter(|figure| !is_like(figure)).collect()
    }

    /// Whether no figure differs too much.
    pub fn is_like(&self) -> bool {
        self.differences().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(records_per_s: f64, bytes_per_s: f64, batches_per_s: f64) -> TopicFigures {
        TopicFigures { records_per_s, bytes_per_s, batches_per_s, producers: 1, may_be_more: false }
    }

    #[test]
    fn a_replica_differs_by_the_figures_that_are_off_by_more_than_a_tenth() {
        let today = figures(1_000.0, 100_000.0, 50.0);
        let of = |here| Replica { topic: "t".into(), today, here, reasons: Vec::new() };
        assert!(of(figures(1_090.0, 91_000.0, 54.9)).is_like());
        let unlike = of(figures(1_000.0, 100_000.0, 44.0)).differences();
        assert_eq!((unlike.len(), unlike[0].what), (1, "batches/s"));
        assert!((unlike[0].change() + 0.12).abs() < 1e-9);
        assert_eq!(of(figures(0.0, 0.0, 0.0)).differences().len(), 3);
        let nothing = Replica { today: figures(0.0, 0.0, 0.0), ..of(figures(1.0, 1.0, 1.0)) };
        assert_eq!(nothing.differences().len(), 3, "no replica is like a topic without a rate");
        assert!((today.bytes_per_batch() - 2_000.0).abs() < 1e-9);
    }
}
