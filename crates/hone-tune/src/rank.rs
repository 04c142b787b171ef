//! Ranks changes by their expected gain per minute of testing. Pure.

use hone_format::{measured, time_us};
use hone_record::BatchState;

use super::candidate::Candidate;
use super::propose::LEAST_HOPE;

/// Expected gain of a profile-guided build, as a share of its user time. Services have saved 0 to 28 %, half of them less than
/// this (docs/results.md). No build changes the kernel's share.
const OF_USER_TIME: f64 = 0.12;

/// A candidate with the time that its test takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    pub candidate: Candidate,
    /// Seconds of its comparison. Its build is finished by then.
    pub(crate) cost_s: f64,
}

impl Ranked {
    /// Expected gain per minute, as a share of the objective.
    fn per_minute(&self) -> f64 {
        self.candidate.hope.share * 60.0 / self.cost_s.max(1e-3)
    }

    /// The figures behind its rank.
    pub(crate) fn reason(&self) -> String {
        format!(
            "{} % in about {}: {} % a minute",
            measured(self.candidate.hope.share * 100.0),
            time_us(self.cost_s.round() * 1e6),
            measured(self.per_minute() * 100.0)
        )
    }

    /// Its name, and the figures behind its rank.
    pub(crate) fn words(&self) -> String {
        format!("{} ({})", self.candidate.name, self.reason())
    }
}

/// Sorts by expected gain per minute, the largest first. The sort is stable: among equals the file's candidates come first.
pub(crate) fn ranked(candidates: impl IntoIterator<Item = (Candidate, f64)>) -> Vec<Ranked> {
    let mut all: Vec<Ranked> =
        candidates.into_iter().map(|(candidate, cost_s)| Ranked { candidate, cost_s }).collect();
    all.sort_by(|one, other| other.per_minute().total_cmp(&one.per_minute()));
    all
}

/// Limits a build's expected gain by the measured user share, since a build does not change the kernel's time. Other candidates
/// stay as they are. A build that the user asked for keeps at least the smallest gain, so that it is tried.
pub(crate) fn below_the_ceiling(candidate: Candidate, seen: &BatchState) -> Candidate {
    let user_share = seen.target_cpu.and_then(|cpu| cpu.user_share);
    let is_built = candidate.is_found && candidate.program.is_some();
    let Some(user_share) = user_share.filter(|_| is_built) else { return candidate };
    let mut bounded = candidate;
    bounded.hope.share = bounded.hope.share.min(OF_USER_TIME * user_share).max(LEAST_HOPE);
    bounded.hope.why.push_str(&format!(
        "; {} % of the CPU is user time here, and a build can only reduce that",
        measured(user_share * 100.0)
    ));
    bounded
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hone_record::{CpuSeconds, Hope};

    use super::*;

    fn candidate(setting: &str, share: f64) -> Candidate {
        Candidate::of_settings(&[setting.to_owned()], Hope::new(share, "seen")).unwrap()
    }

    #[test]
    fn what_saves_most_for_a_minute_comes_first() {
        let found = ranked([
            (candidate("host.vm.swappiness=1", 0.3), 240.0),
            (candidate("linger=5ms", 0.2), 120.0),
            (candidate("codec=lz4", 0.02), 120.0),
            (candidate("acks=1", 0.2), 120.0),
        ]);
        let names: Vec<&str> = found.iter().map(|one| &*one.candidate.name).collect();
        assert_eq!(names, ["linger=5ms", "acks=1", "host.vm.swappiness=1", "codec=lz4"]);
        assert_eq!(found[0].words(), "linger=5ms (20.0 % in about 120 s: 10.0 % a minute)");
        assert_eq!(found[2].reason(), "30.0 % in about 240 s: 7.50 % a minute");
    }

    #[test]
    fn a_build_is_hoped_to_save_a_part_of_the_user_time_alone() {
        let seen = |user_share| BatchState {
            target_cpu: Some(CpuSeconds { total_s: 9.0, user_share }),
            ..BatchState::default()
        };
        let hope = Hope::new(0.07, "guessed");
        let build = Candidate::of_program("build pgo".to_owned(), PathBuf::from("/pgo"), hope).by_hone();
        let bounded = |user_share| below_the_ceiling(build.clone(), &seen(user_share)).hope;
        assert!((bounded(Some(0.25)).share - 0.03).abs() < 1e-9);
        assert!(
            bounded(Some(0.25)).why.contains("25.0 % of the CPU is user time"),
            "{:?}",
            bounded(Some(0.25))
        );
        assert_eq!(bounded(Some(0.9)).share, 0.07, "never more than without a look");
        assert_eq!(bounded(Some(0.01)).share, LEAST_HOPE, "it is made, so it is tried");
        assert_eq!(bounded(None), build.hope);
        // The file's own value stays.
        let own = Candidate { is_found: false, ..build };
        assert_eq!(below_the_ceiling(own.clone(), &seen(Some(0.1))), own);
        let linger = candidate("linger=5ms", 0.2).by_hone();
        assert_eq!(below_the_ceiling(linger.clone(), &seen(Some(0.1))), linger);
    }
}
