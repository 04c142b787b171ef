//! One side of a comparison: the original state with some of the changes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hone_format::{did_you_mean, nearest};
use hone_host::knob;
use hone_load::Security;
use hone_record::{Change, Workload};

use super::candidate::Candidate;
use hone_experiment::arm::{Arm, Place};
use hone_experiment::change;
use hone_experiment::ending::Usage;
use hone_experiment::lever::{Lever, Set};
use hone_experiment::meter::Metrics;

/// The original state, to which changes are applied.
#[derive(Debug, Clone)]
pub struct Base {
    pub(super) place: Place,
    pub(super) workload: Workload,
    /// Root of the kernel's settings: `/`, except in tests.
    pub(super) host_root: PathBuf,
    pub(super) security: Security,
    pub(super) metrics: Metrics,
    /// The settings outside of the target as they were when the run began, by [`key`].
    pub found: BTreeMap<String, String>,
}

/// The key of a setting: its kind and name.
fn key(change: &Change) -> String {
    format!("{}.{}", change.kind, change.name)
}

/// A state that can be loaded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Side {
    pub(super) place: Place,
    pub(super) workload: Workload,
    pub(super) sets: Vec<Set>,
}

impl Base {
    /// Applies every candidate alone, so that an impossible one is found before the first window.
    ///
    /// # Errors
    /// With the candidate.
    pub fn check(&self, candidates: &[Candidate]) -> Result<()> {
        candidates.iter().try_for_each(|candidate| {
            let side = self.with([candidate])?;
            hone_load::check(&side.workload).with_context(|| format!("candidate `{}`", candidate.name))
        })
    }

    /// Reads the settings outside of the target that the candidates would change. A later change by another program is then found
    /// before it is measured or overwritten, and a setting that has the value already is not a change.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn look(&self, candidates: &[Candidate]) -> Result<BTreeMap<String, String>> {
        let changes = candidates.iter().flat_map(|candidate| &candidate.outside);
        let outside = changes.filter_map(|change| {
            let lever = Lever::of(change, &self.host_root, &self.security)?;
            let address = match (&lever, &self.place) {
                (Lever::Host { .. }, _) => "",
                (Lever::Cluster { .. }, Place::Address(address)) => address,
                // A broker that Hone starts for each window has the settings of its command.
                (Lever::Cluster { .. }, Place::Program(_)) => return None,
            };
            Some(lever.now(address).map(|now| (key(change), now)))
        });
        outside.collect()
    }

    /// Reads the machine settings that the candidates would change, so that a missing one is found before any build.
    ///
    /// # Errors
    /// With the candidate, and a suggestion.
    pub(crate) fn check_host(&self, candidates: &[Candidate]) -> Result<()> {
        for candidate in candidates {
            for change in candidate.outside.iter().filter(|change| change.kind == "host") {
                let Some(lever) = Lever::of(change, &self.host_root, &self.security) else { continue };
                lever.now("").map_err(|error| {
                    let near = nearest(&change.name, knob::KNOBS.iter().map(|knob| knob.name));
                    let near = near.filter(|near| *near != change.name).map(|near| format!("host.{near}"));
                    Usage(format!(
                        "candidate `{}`: {error:#}{}",
                        candidate.name,
                        did_you_mean(near.as_deref())
                    ))
                })?;
            }
        }
        Ok(())
    }

    /// Removes kept changes that have no effect on the state, because later ones override all their settings.
    ///
    /// # Errors
    /// When one can't be applied.
    pub(super) fn overtaken(&self, kept: &mut Vec<Candidate>) -> Result<Vec<Candidate>> {
        let all = self.with(&*kept)?;
        let mut gone = Vec::new();
        let mut at = 0;
        while at < kept.len() {
            let others = kept.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, other)| other);
            match self.with(others)? == all {
                true => gone.push(kept.remove(at)),
                false => at += 1,
            }
        }
        Ok(gone)
    }

    /// Every program that may be measured: the original one and those of the candidates.
    ///
    /// # Errors
    /// When a candidate can't be applied.
    pub fn arms(&self, candidates: &[Candidate]) -> Result<Vec<Arm>> {
        let first = Ok(self.arm("first", &self.with([])?));
        let others = candidates.iter().map(|one| Ok(self.arm(&one.name, &self.with([one])?)));
        std::iter::once(first).chain(others).collect()
    }

    /// The state with these changes, applied in this order.
    ///
    /// # Errors
    /// When one can't be applied.
    pub(super) fn with<'a>(&self, changes: impl IntoIterator<Item = &'a Candidate>) -> Result<Side> {
        let mut side = Side { place: self.place.clone(), workload: self.workload.clone(), sets: Vec::new() };
        for candidate in changes {
            self.make(candidate, &mut side).with_context(|| format!("candidate `{}`", candidate.name))?;
        }
        Ok(side)
    }

    fn make(&self, candidate: &Candidate, side: &mut Side) -> Result<()> {
        for step in &candidate.steps {
            side.workload = step.applied(&side.workload)?;
        }
        for change in &candidate.outside {
            match Lever::of(change, &self.host_root, &self.security) {
                Some(lever) => {
                    side.sets.retain(|set| set.lever != lever);
                    let was = self.found.get(&key(change)).cloned();
                    if was.as_ref().is_none_or(|was| !is_same_value(was, &change.to)) {
                        side.sets.push(Set { lever, value: change.to.clone(), was });
                    }
                }
                None => {
                    side.place = change::placed(change, &change.to, &side.place)?;
                }
            }
        }
        match (&candidate.program, &mut side.place) {
            (None, _) => Ok(()),
            (Some(path), Place::Program(program)) => {
                path.clone_into(&mut program.path);
                Ok(())
            }
            (Some(_), Place::Address(address)) => bail!(Usage(format!(
                "{address} runs already, so Hone can't try another build of it; set the target to the \
                 command that starts it"
            ))),
        }
    }

    /// An arm in that state.
    pub(super) fn arm(&self, name: &str, side: &Side) -> Arm {
        Arm {
            name: name.to_owned(),
            place: side.place.clone(),
            security: self.security.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// White space in the file comes from the kernel.
fn is_same_value(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hone_record::{Engine, Hope};

    use super::*;
    use hone_experiment::spec::WorkloadFile;

    fn base() -> Base {
        let limit = Duration::from_secs(1);
        let file = WorkloadFile { client: "librdkafka".to_owned(), ..WorkloadFile::default() };
        Base {
            place: Place::parse("sh --port {port} --threads 2", &[], limit, limit).unwrap(),
            workload: file.named("w").unwrap(),
            host_root: PathBuf::from("/"),
            security: Security::default(),
            metrics: Metrics::default(),
            found: BTreeMap::new(),
        }
    }

    fn candidate(setting: &str) -> Candidate {
        Candidate::of_settings(&[setting.to_owned()], Hope::default()).unwrap()
    }

    #[test]
    fn changes_of_all_altitudes_are_made_in_their_order() {
        let all = [
            "linger=5ms",
            "linger=20ms",
            "arg.--threads=1",
            "env.X=1",
            "host.vm.swappiness=1",
            "host.vm.swappiness=2",
        ];
        let all: Vec<Candidate> = all.into_iter().map(candidate).collect();
        let side = base().with(&all).unwrap();
        let Engine::Librdkafka { settings } = &side.workload.engine else { panic!("{side:?}") };
        assert_eq!(settings.get("linger.ms").map(String::as_str), Some("20"));
        let Place::Program(program) = &side.place else { panic!("{side:?}") };
        assert_eq!(program.args.last().map(String::as_str), Some("1"));
        assert!(program.env.contains_key("X"));
        assert_eq!(side.sets.iter().map(|set| &*set.value).collect::<Vec<_>>(), ["2"]);
        // All changes except for one.
        let without = base().with(all.iter().filter(|one| one.name != "linger=20ms")).unwrap();
        let Engine::Librdkafka { settings } = &without.workload.engine else { panic!("{without:?}") };
        assert_eq!(settings.get("linger.ms").map(String::as_str), Some("5"));
    }

    #[test]
    fn what_is_so_already_is_no_change_and_the_rest_knows_what_it_was() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/vm")).unwrap();
        std::fs::write(root.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        let mut base = Base { host_root: root.path().to_owned(), ..base() };
        let (same, other) = (candidate("host.vm.swappiness=60"), candidate("host.vm.swappiness=1"));
        base.found = base.look(&[same.clone(), other.clone(), candidate("linger=5ms")]).unwrap();
        assert_eq!(base.with([&same]).unwrap(), base.with([]).unwrap());
        let side = base.with([&other]).unwrap();
        assert_eq!(side.sets[0].was.as_deref(), Some("60"));
        // After a kept change it is a change: it restores the original value.
        assert_eq!(base.with([&other, &same]).unwrap(), base.with([]).unwrap());
    }

    /// A change without effect is reported as such and not measured.
    #[test]
    fn a_kept_change_that_others_have_set_anew_is_known() {
        let named = |changes: &[Candidate]| changes.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let of = |settings: &[&str]| {
            let mut kept: Vec<Candidate> = settings.iter().copied().map(candidate).collect();
            let gone = base().overtaken(&mut kept).unwrap();
            (named(&kept), named(&gone))
        };
        let (kept, gone) = of(&["client.linger.ms=20", "codec=lz4", "linger=100ms"]);
        assert_eq!(
            (kept, gone),
            (vec!["codec=lz4".to_owned(), "linger=100ms".to_owned()], vec!["client.linger.ms=20".to_owned()])
        );
        let (kept, gone) = of(&["linger=20ms,batch-size=64KiB", "linger=100ms"]);
        assert!(kept.len() == 2 && gone.is_empty(), "the batch size is still there: {gone:?}");
        // Of two changes with the same setting, one is enough.
        let (kept, _) = of(&["client.linger.ms=20", "linger=20ms"]);
        assert_eq!(kept.len(), 1);
        assert_eq!(of(&[]), (Vec::new(), Vec::new()));
    }

    /// Before an hour of builds, and in a dry run.
    #[test]
    fn a_setting_that_the_machine_does_not_have_is_told_with_what_was_meant() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/vm")).unwrap();
        std::fs::write(root.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        let base = Base { host_root: root.path().to_owned(), ..base() };
        base.check_host(&[candidate("host.vm.swappiness=1"), candidate("linger=5ms")]).unwrap();
        let error = base.check_host(&[candidate("host.vm.swapiness=1")]).unwrap_err();
        let told = format!("{error:#}");
        assert!(hone_experiment::usage::is_usage(&error), "{told}");
        assert!(
            told.contains("candidate `host.vm.swapiness=1`")
                && told.contains("did you mean `host.vm.swappiness`"),
            "{told}"
        );
    }

    /// A candidate's program that was rebuilt between two attempts is a different one.
    #[test]
    fn every_candidates_program_is_one_that_a_run_stands_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broker");
        std::fs::write(&path, "one").unwrap();
        let built = Candidate::of_program("pgo".to_owned(), path.clone(), Hope::default());
        let machine = hone_record::Machine::default();
        let standing = || {
            let arms = base().arms(std::slice::from_ref(&built)).unwrap();
            hone_experiment::standing::Standing::of(arms.iter(), std::iter::empty(), &machine).unwrap()
        };
        let then = standing();
        then.same_as(&standing(), folder.path()).unwrap();
        std::fs::write(&path, "two").unwrap();
        let refused = then.same_as(&standing(), folder.path()).unwrap_err().to_string();
        assert!(refused.contains("broker has other contents"), "{refused}");
    }

    #[test]
    fn a_broker_that_runs_has_no_other_build() {
        let mut base = base();
        base.place = Place::Address("127.0.0.1:9092".to_owned());
        let built = Candidate::of_program("pgo".to_owned(), PathBuf::from("/bin/sh"), Hope::default());
        let message = format!("{:#}", base.with([&built]).unwrap_err());
        assert!(message.contains("runs already"), "{message}");
        assert!(base.with([&candidate("arg.--threads=1")]).is_err());
    }
}
