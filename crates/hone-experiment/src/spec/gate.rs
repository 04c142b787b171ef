//! `[gate]`: the limits for a commit.

use std::collections::BTreeMap;

use hone_record::Metric;
use serde::Deserialize;

use super::{Compare, File, Names, Optimize, Wrong};
use crate::notation::Share;

/// The limits at which a commit fails.
#[derive(Debug, Clone, PartialEq)]
pub struct GateWishes {
    /// The growth from which the primary metric and each guard metric are worse (0.03 = 3 %).
    pub worse_by: BTreeMap<Metric, f64>,
    /// Whether a comparison fails, too, that could not have detected such a growth of the primary metric.
    pub require_power: bool,
    /// The growth of the instructions per operation from which counts are worse.
    pub counted_worse_by: f64,
}

/// The same keys as in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GateFile {
    judge: Vec<String>,
    worse_by: Option<Share>,
    guards: BTreeMap<Metric, Share>,
    require_power: bool,
    counted_worse_by: Option<Share>,
    pairs: Option<u32>,
    control_pairs: Option<u32>,
    rounds: Option<u32>,
    builds: Option<u32>,
}

/// A default: small enough to see a change that matters, and large enough to ignore most effects of code layout. `builds` makes
/// these effects a part of the confidence interval.
const WORSE_BY: Share = Share(0.03);

/// The default for counts, which repeat within a few hundredths of a per cent.
const COUNTED_WORSE_BY: Share = Share(0.005);

impl GateFile {
    fn worse_by(&self) -> Share {
        self.worse_by.unwrap_or(WORSE_BY)
    }

    /// The limits of all metrics that decide.
    pub(super) fn wishes(&self, compare: &Compare) -> GateWishes {
        let worse_by = self.worse_by();
        let guards = compare.guards.iter().filter(|guard| **guard != compare.primary);
        let limit = |metric: &Metric| (*metric, self.guards.get(metric).unwrap_or(&worse_by).0);
        let worse_by = guards.map(limit).chain([(compare.primary, worse_by.0)]).collect();
        let counted_worse_by = self.counted_worse_by.unwrap_or(COUNTED_WORSE_BY).0;
        GateWishes { worse_by, require_power: self.require_power, counted_worse_by }
    }
}

impl File {
    /// Turns a file into the spec of a gate: nothing is trained, and every judging workload is one comparison.
    ///
    /// # Errors
    /// When no workload judges, or a deciding metric has two limits.
    pub(super) fn for_gate(&mut self) -> Result<(), Wrong> {
        let gate = &self.gate;
        let judge = if gate.judge.is_empty() { self.optimize.judge.clone() } else { gate.judge.clone() };
        let Some(first) = judge.first().cloned() else {
            let problem = "there is no judging workload; name at least one, for example judge = [\"NAME\"]";
            return Err(("gate".to_owned(), "judge", problem.to_owned()));
        };
        let primary = self.compare.primary;
        if gate.guards.contains_key(&primary) {
            let problem =
                format!("{} decides here and is no guard metric; its limit is `worse_by`", primary.name());
            return Err(("gate".to_owned(), "guards", problem));
        }
        let limits = gate.guards.iter().map(|(metric, limit)| (*metric, "guards", limit.0));
        let never = |(metric, _, limit): &(Metric, &str, f64)| !metric.lower_is_better() && *limit >= 1.0;
        if let Some((metric, key, _)) = limits.chain([(primary, "worse_by", gate.worse_by().0)]).find(never) {
            let problem = format!("{} can't fall by 100 % or more; use a smaller limit", metric.name());
            return Err(("gate".to_owned(), key, problem));
        }
        let compare = &mut self.compare;
        compare.pairs = gate.pairs.unwrap_or(compare.pairs);
        compare.control_pairs = gate.control_pairs.unwrap_or(compare.control_pairs);
        compare.rounds = gate.rounds.unwrap_or(compare.rounds);
        let more = gate.guards.keys().filter(|guard| !compare.guards.contains(guard)).copied();
        compare.guards.extend(more.collect::<Vec<_>>());
        // One gate judges all workloads, so they share the error of the file.
        compare.alpha /= judge.len() as f64;
        self.optimize = Optimize {
            train: Names(vec![first]),
            builds: gate.builds.or(self.optimize.builds),
            judge,
            judge_what_was_trained: true,
            ..Optimize::default()
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Experiment, parse_for_gate};
    use super::*;

    fn read(more: &str) -> Result<Experiment, String> {
        let text = format!(
            "name = \"orders\"\n[target]\nmanifest = \".\"\npackage = \"p\"\nbin = \"b\"\nargs = [\"{{port}}\"]\n[workload.a]\n\
             [workload.b]\nrequests_per_s = 50\n{more}"
        );
        parse_for_gate(&text, Path::new("hone.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_gate_needs_neither_a_training_nor_variants() {
        let found = read("[gate]\njudge = [\"b\"]\n").unwrap();
        assert_eq!(found.judging.iter().map(|load| &*load.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(found.gate.worse_by, BTreeMap::from([(Metric::CpuPerRecord, 0.03)]));
        assert!(!found.gate.require_power && found.gate.counted_worse_by == 0.005);
        // The judging workloads of [optimize], if the gate names none.
        let found = read("[optimize]\ntrain = \"a\"\njudge = [\"b\", \"a\"]\n").unwrap();
        assert_eq!(found.judging.len(), 2);
        assert_eq!(found.compare.alpha, 0.025, "all workloads together err as often as the file allows");
    }

    #[test]
    fn each_guard_rail_has_a_limit() {
        let found = read(
            "[compare]\nguards = [\"latency-p50\"]\npairs = 20\n[gate]\njudge = [\"b\"]\nworse_by = 0.05\npairs = 9\nrounds = 12\n\
             [gate.guards]\nlatency-p90 = \"10 %\"\n",
        )
        .unwrap();
        let limits = [(Metric::CpuPerRecord, 0.05), (Metric::LatencyP50, 0.05), (Metric::LatencyP90, 0.1)];
        assert_eq!(found.gate.worse_by, BTreeMap::from(limits));
        assert_eq!(found.compare.guards, [Metric::LatencyP50, Metric::LatencyP90]);
        assert_eq!((found.compare.pairs, found.compare.rounds), (9, 12));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (more, expected) in [
            ("", "there is no judging workload"),
            ("[gate]\njudge = [\"c\"]\n", "hone.toml:11: unknown workload `c`"),
            ("[gate]\nworse_by = \"little\"\n", "invalid share `little`"),
            ("[gate]\nworse_by = 0\n", "invalid share `0`"),
            ("[gate]\nwors_by = 1\n", "did you mean `worse_by`?"),
            (
                "[gate]\njudge = [\"b\"]\n[gate.guards]\ncpu-per-record = \"1%\"\n",
                "cpu-per-record decides here and is no guard metric; its limit is `worse_by`",
            ),
            ("[gate.guards]\nlatency-p95 = \"3%\"\n", "latency-p9"),
        ] {
            let message = read(more).unwrap_err();
            assert!(message.contains(expected), "{more}\n{message}");
        }
    }
}
