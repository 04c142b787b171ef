//! A topic as its own producers write it, beside what a load that stands in for them writes.

use serde::{Deserialize, Serialize};

/// A topic's batches over a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicFigures {
    /// Records a second.
    pub records_per_s: f64,
    /// Bytes of batches a second, headers included.
    pub bytes_per_s: f64,
    /// Batches a second.
    pub batches_per_s: f64,
    /// Producers.
    pub producers: u64,
    /// Whether there may have been more producers: those without an id are seen only where their batches overlap.
    #[serde(default)]
    pub may_be_more: bool,
}

impl TopicFigures {
    /// Bytes of a batch in the mean.
    pub fn bytes_per_batch(&self) -> f64 {
        self.bytes_per_s / self.batches_per_s
    }

    /// Records of a batch in the mean.
    pub fn records_per_batch(&self) -> f64 {
        self.records_per_s / self.batches_per_s
    }
}

/// A topic and the load that replicates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The topic.
    pub topic: String,
    /// The topic, over the stretch that was recorded.
    pub today: TopicFigures,
    /// The test topic that the load wrote.
    pub here: TopicFigures,
    /// What probably makes the two differ, in words; empty where they are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A figure by which a replica is not like its topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaDifference {
    /// The figure, with its unit.
    pub what: &'static str,
    /// In the topic.
    pub today: f64,
    /// In the test topic.
    pub here: f64,
}

impl ReplicaDifference {
    /// The replica's over the topic's, less 1.
    pub fn change(&self) -> f64 {
        self.here / self.today - 1.0
    }
}

impl Replica {
    /// A replica is like its topic where records, bytes and batches a second differ by no more than this share.
    pub const LIKE: f64 = 0.10;

    /// The figures that decide, with the topic's and the replica's.
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

    /// Those of them that differ too much.
    pub fn differences(&self) -> Vec<ReplicaDifference> {
        // A figure that is no number is not alike.
        let is_like = |figure: &ReplicaDifference| figure.change().abs() <= Self::LIKE;
        self.figures().into_iter().filter(|figure| !is_like(figure)).collect()
    }

    /// Whether none differs too much.
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
        assert_eq!(nothing.differences().len(), 3, "nothing can be like a topic without a rate");
        assert!((today.bytes_per_batch() - 2_000.0).abs() < 1e-9);
    }
}
