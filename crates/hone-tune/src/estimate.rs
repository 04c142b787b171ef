//! Estimates the duration of a run, part by part, before anything is started: least and most, as far as that is known. Pure,
//! except that it looks up programs.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use hone_load::Security;
use hone_record::{Altitude, Hope, Mode};
use serde::Serialize;

use super::candidate::Candidate;
use super::propose::{AtMost, at_most};
use super::session::PILOT_PAIRS;
use super::settings::{TuneSettings, turns};
use hone_experiment::arm::{Place, is_address};
use hone_experiment::jvm::{advice_for, is_java};
use hone_experiment::takes::Takes;

/// Time limit for a start and a stop of a target that Hone starts, and for the preparation of a window of a running one. Most
/// brokers take a second.
const START_MOST_S: f64 = 5.0;
const PREPARED_MOST_S: f64 = 1.0;

/// Seconds, least and most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    pub(crate) least_s: f64,
    /// `None`: not known.
    pub(crate) most_s: Option<f64>,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its name in words.
    pub what: String,
    #[serde(flatten)]
    pub(crate) takes: Span,
}

/// The duration of a candidate that is known before the first look.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    pub(crate) candidate: String,
    #[serde(flatten)]
    pub(crate) takes: Span,
}

/// The duration of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    pub(crate) parts: Vec<Part>,
    pub(crate) total: Span,
    /// Of each known candidate, in the order of their names in the settings.
    pub known: Vec<Known>,
    /// One comparison.
    pub comparison: Span,
    /// Time until the first change is tried: builds, first look, its comparison.
    pub first_change_s: f64,
}

/// A run that was not started, with its estimated duration.
#[derive(Debug, Clone, Serialize)]
pub struct Planned {
    /// The settings.
    #[serde(flatten)]
    pub asked: TuneSettings,
    /// Its estimated duration.
    pub estimate: Estimate,
    /// The reason why Hone proposes no machine settings, where they are allowed.
    pub no_knobs: Option<String>,
}

impl Span {
    fn times(self, count: f64) -> Self {
        Self { least_s: self.least_s * count, most_s: self.most_s.map(|most| most * count) }
    }

    fn or_nothing(self) -> Self {
        Self { least_s: 0.0, ..self }
    }

    fn sum(spans: impl Iterator<Item = Self>) -> Self {
        spans.fold(Self { least_s: 0.0, most_s: Some(0.0) }, |sum, one| Self {
            least_s: sum.least_s + one.least_s,
            most_s: sum.most_s.zip(one.most_s).map(|(sum, most)| sum + most),
        })
    }
}

impl TuneSettings {
    /// The duration of the whole run. `builds` are the requested ones.
    ///
    /// # Errors
    /// When a candidate can't be applied.
    pub fn estimate(&self, security: &Security, builds: Option<&Takes>) -> Result<Estimate> {
        let (plain, modes) = self.modes(security)?;
        let takes = |mode| self.trial(mode);
        let of = self.candidates.iter().zip(&modes);
        let known: Vec<Known> =
            of.map(|(one, mode)| Known { candidate: one.name.clone(), takes: takes(*mode) }).collect();
        let built = builds
            .filter(|_| self.allowed.contains(&Altitude::Binary))
            .map_or(0, |builds| builds.tried.len());
        let rules = self.rules_at_most()?;
        let look = Part {
            what: format!("first look: {PILOT_PAIRS} pairs of the original state"),
            takes: self.windows(plain, PILOT_PAIRS),
        };
        let comparison = takes(modes.first().copied().unwrap_or(plain));
        let of_builds = builds.map(of_builds);
        let before_s = of_builds.iter().chain([&look]).map(|part| part.takes.least_s).sum::<f64>();
        // A setting outside of the target can't have two values at once, and is part of all later states.
        let last = modes.iter().find(|mode| **mode == Mode::Solo).copied().unwrap_or(plain);
        let parts: Vec<Part> = of_builds
            .into_iter()
            .chain([look])
            .chain(self.of_known(&known, false, "from the file"))
            .chain(self.of_known(&known, true, "that Hone knows already"))
            .chain(of_those_built(built, takes(plain)))
            .chain(of_rules(&rules, takes(plain)))
            .chain(of_the_end(self.kept_at_most(built, rules.len()), takes(last)))
            .collect();
        let total = Span::sum(parts.iter().map(|part| part.takes));
        Ok(Estimate { parts, total, known, comparison, first_change_s: before_s + comparison.least_s })
    }

    /// The mode of the original state's pairs, and of each candidate's pairs.
    fn modes(&self, security: &Security) -> Result<(Mode, Vec<Mode>)> {
        let base = self.with_stand_in()?.base(security)?;
        let first = base.with([])?;
        let mode_of = |candidate: &Candidate| Ok(self.mode_of([&first, &base.with([candidate])?]));
        let modes = self.candidates.iter().map(mode_of).collect::<Result<_>>()?;
        Ok((self.mode_of([&first, &first]), modes))
    }

    /// A comparison. At most it runs twice, if neighbours disturb the first one.
    fn trial(&self, mode: Mode) -> Span {
        let once = self.windows(mode, self.pairs + self.control_pairs);
        let times = if self.comparison.keep_disturbed { 1.0 } else { 2.0 };
        Span { most_s: once.most_s.map(|most_s| most_s * times), ..once }
    }

    /// Least: windows only, and for loads that climb the shortest climb that gives a capacity. Most: with starts, and with a
    /// warm-up at the load's rate. A target that sustains the load does not take longer for it.
    fn windows(&self, mode: Mode, pairs: u32) -> Span {
        let load = &self.workload;
        let start_s = if is_address(&self.place) { PREPARED_MOST_S } else { START_MOST_S };
        let warm_up_s = load.warmup_requests as f64 / load.requests_per_s.max(1.0);
        let [least_s, most_s] = [load.least_s(), load.duration_s].map(|window_s| turns(mode) * window_s);
        let of_all = |pair_s: f64| f64::from(pairs) * pair_s;
        Span { least_s: of_all(least_s), most_s: Some(of_all(most_s + 2.0 * (warm_up_s + start_s))) }
    }

    /// The known candidates, either of the file or of Hone.
    fn of_known(&self, known: &[Known], is_found: bool, what: &str) -> Option<Part> {
        let of = self.candidates.iter().zip(known).filter(|(one, _)| one.is_found == is_found);
        let spans: Vec<Span> = of.map(|(_, known)| known.takes).collect();
        let what = format!("{}: one comparison each", counted(spans.len(), what));
        (!spans.is_empty()).then(|| Part { what, takes: Span::sum(spans.into_iter()) })
    }

    /// The largest number of changes that Hone's rules can propose.
    fn rules_at_most(&self) -> Result<Vec<AtMost>> {
        if !self.find {
            return Ok(Vec::new());
        }
        let is_cluster = is_address(&self.place);
        let limit_ms = self.latency_limit_ms()?;
        let mut all = at_most(&self.workload, &self.allowed, limit_ms, self.durability, is_cluster);
        if self.allowed.contains(&Altitude::Broker) {
            let machine = hone_host::observe::machine(Path::new("/"));
            let (of_jvm, has_pools) = match self.comparison.place(&self.place) {
                Ok(Place::Program(program)) => {
                    let of_jvm = advice_for(&program, machine.cores, machine.memory_bytes);
                    (of_jvm.len() as u32, is_java(&program))
                }
                Ok(Place::Address(_)) => (0, true),
                Err(_) => (0, false),
            };
            all.extend(AtMost::virtual_machine(of_jvm));
            all.extend(has_pools.then(|| AtMost::threads(machine.cores)).flatten());
        }
        let may = |rule: &AtMost| {
            let example = Candidate::of_settings(std::slice::from_ref(&rule.example), Hope::default());
            example.is_ok_and(|example| self.forbidden_by(&example).is_none())
        };
        Ok(all.into_iter().filter(may).collect())
    }

    /// At most one value per setting is kept, one build, and one change per rule.
    fn kept_at_most(&self, built: usize, rules: usize) -> usize {
        let place = |candidate: &Candidate| match candidate.program {
            Some(_) => String::new(),
            None => candidate.place().to_owned(),
        };
        let places: BTreeSet<String> = self.candidates.iter().map(place).collect();
        let has_build = self.candidates.iter().any(|candidate| candidate.program.is_some());
        places.len() + usize::from(built > 0 && !has_build) + rules
    }
}

fn of_builds(builds: &Takes) -> Part {
    let what = format!(
        "builds: loads for training and checks; the compile time of {} programs comes on top",
        builds.programs()
    );
    Part { what, takes: Span { least_s: builds.rest_s(0, 0.0, [0.0; 3]), most_s: None } }
}

fn of_those_built(built: usize, one: Span) -> Option<Part> {
    let what = format!("{}: one comparison each", counted(built, "from these builds"));
    (built > 0).then(|| Part { what, takes: one.times(built as f64) })
}

fn of_rules(rules: &[AtMost], one: Span) -> Option<Part> {
    let words: Vec<String> = rules.iter().map(AtMost::words).collect();
    let what = format!("candidates from the first look: from none to {}", words.join(", "));
    let count: u32 = rules.iter().map(|rule| rule.count).sum();
    (count > 0).then(|| Part { what, takes: one.times(f64::from(count)).or_nothing() })
}

fn of_the_end(kept: usize, one: Span) -> Option<Part> {
    let what = format!(
        "final re-tests: none if fewer than 2 changes are kept, up to all {kept} with each one removed in \
         turn and against the original state"
    );
    (kept > 1).then(|| Part { what, takes: one.times(kept as f64 + 1.0).or_nothing() })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} candidate{} {what}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::parse;

    /// 13 sequential pairs of 5 s: 130 s.
    const FILE: &str = "name = \"orders\"\n[tune]\ntarget = \"127.0.0.1:9092\"\nkeep_disturbed = true\nMORE\n\
                        [[tune.candidate]]\nset = \"topic.retention.ms=60000\"\n[[tune.candidate]]\nset = \"batch-size=64KiB\"\n\
                        [workload.orders]\nclient = \"librdkafka\"\nrequests_per_s = 1000\nwarmup_requests = 2000\nduration_s = 5\n";

    fn estimate_with(more: &str, builds: Option<&Takes>) -> Estimate {
        of_text(&FILE.replace("MORE", more), builds)
    }

    fn of_text(text: &str, builds: Option<&Takes>) -> Estimate {
        let asked = parse(text, Path::new("hone.toml"), "unused").unwrap();
        asked.estimate(&Security::default(), builds).unwrap()
    }

    fn least(estimate: &Estimate) -> Vec<f64> {
        estimate.parts.iter().map(|part| part.takes.least_s).collect()
    }

    #[test]
    fn known_windows_give_the_sum() {
        let found = estimate_with("find = false", None);
        // 5 pairs of the look, 13 for each candidate, and at the end none, or three comparisons.
        assert_eq!(least(&found), [50.0, 260.0, 0.0]);
        assert_eq!(found.total.least_s, 310.0);
        assert_eq!(found.first_change_s, 180.0);
        // Two windows of a pair have 5 s each, 2 s of warm-up, and a second before them.
        let pair_s = 2.0 * (5.0 + 2.0 + 1.0);
        assert_eq!(found.total.most_s, Some(pair_s * (5.0 + 13.0 * (2.0 + 3.0))));
        assert_eq!(
            found.known[1],
            Known { candidate: "batch-size=64KiB".to_owned(), takes: found.comparison }
        );
        let again = of_text(&FILE.replace("keep_disturbed = true\nMORE", "find = false"), None);
        assert_eq!(again.total.most_s, Some(pair_s * (5.0 + 2.0 * 13.0 * (2.0 + 3.0))), "but for the look");
    }

    /// A climb ends where the SLO breaks, which may be before its highest rate.
    #[test]
    fn a_climb_takes_four_steps_at_least_and_all_of_them_at_most() {
        let climb = "objective = \"capacity\"\nslo = \"p99=10ms\"\nfind = false";
        let text = FILE.replace("MORE", climb).replace("duration_s = 5\n", "");
        let found = of_text(&text, None);
        // Steps of 1.2 s with a rest of 0.1 s, 72 of them from 1,000 to 32,000 requests/s.
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        assert!(near(found.first_change_s, 2.0 * 4.0 * 1.3 * 18.0), "{found:?}");
        let pair_s = 2.0 * (72.0 * 1.3 + 2.0 + 1.0);
        assert!(near(found.comparison.most_s.unwrap(), 13.0 * pair_s), "{found:?}");
    }

    #[test]
    fn what_may_be_found_takes_nothing_at_least_and_all_of_it_at_most() {
        // How many cores there are decides on the broker's pools of threads.
        let found = estimate_with("forbid = [\"broker.num.*\"]", None);
        assert_eq!(found.total.least_s, 310.0);
        let part =
            found.parts.iter().find(|part| part.what.contains("candidates from the first look")).unwrap();
        // Lingers of 10 ms and more, and a codec.
        assert!(part.what.ends_with("5 lingers, 1 codec"), "{}", part.what);
        let alone = estimate_with("forbid = [\"linger*\", \"codec\", \"broker.num.*\"]\nfind = true", None);
        assert_eq!(alone.parts.len(), 3, "{alone:?}");
        // Write caching sets its bounds, too, and each of them may be forbidden.
        let lax = |more: &str| estimate_with(&format!("durability = true\n{more}"), None);
        let has_caching =
            |found: &Estimate| found.parts.iter().any(|part| part.what.contains("1 write caching"));
        assert!(has_caching(&lax("")) && !has_caching(&lax("forbid = [\"topic.flush.*\"]")));
    }

    #[test]
    fn builds_take_their_loads_and_nobody_knows_what_more() {
        let builds = Takes {
            compiled: [1, 1, 2],
            loads_s: [3.0, 10.0, 0.0],
            tried: vec!["pgo".to_owned(), "bolt".to_owned()],
            trained_by: Vec::new(),
        };
        let found = estimate_with("find = false", Some(&builds));
        assert_eq!(least(&found), [13.0, 50.0, 260.0, 260.0, 0.0]);
        assert_eq!(found.total.most_s, None);
        assert!(found.parts[0].what.contains("the compile time of 4 programs"), "{}", found.parts[0].what);
        assert!(
            found.parts[4].what.contains("up to all 3 with each one removed in turn"),
            "{}",
            found.parts[4].what
        );
        assert_eq!(found.first_change_s, 193.0);
    }
}
