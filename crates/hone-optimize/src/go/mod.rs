//! Extras of a Go program besides its variants: profiles of the running service, findings in them, its own benchmarks, and the file that a
//! plain `go build` uses as its profile.

mod bench;
mod place;
mod profile;
mod spots;
mod stack;

use anyhow::{Result, bail};
use hone_binary::go::GoPgo;
use hone_binary::{Builder, Built, TargetKind};
use hone_record::{GoAccount, VariantFacts};

use super::steps::Steps;
use super::{Job, Profiles, Taken};
use hone_experiment::bench::Subject;
use hone_experiment::phase::Phase;
use hone_experiment::spec::target::Form;
use hone_experiment::variants::{Mix, PGO, Profile};

pub use place::place_fitting;
pub(super) use stack::most_while;

/// An address needs only a name and a port.
pub(super) fn pprof_url(address: &str) -> String {
    if address.contains("://") { address.to_owned() } else { format!("http://{address}") }
}

/// The profile of all trainings, if there is one.
fn of_all(profiles: &Profiles) -> Option<&Taken> {
    profiles.get(&Profile::First(Mix::All))?.as_ref().ok()
}

impl Job<'_> {
    /// The profile address of a started Go program; `None` for other targets.
    pub(super) fn pprof_of(&self, subject: &Subject) -> Option<String> {
        self.is_go().then(|| pprof_url(&subject.fill(&self.target().pprof)))
    }

    pub(super) fn is_go(&self) -> bool {
        matches!(self.experiment.target.form, Form::Go(_))
    }

    /// The builder with the extras of a Go module. Only the steps that need it create it, so a job after them needs no Go.
    fn go_shop(&self) -> Result<GoPgo<'_>> {
        match &self.experiment.target.form {
            Form::Go(go) => GoPgo::prepare(self.runner, self.go_target(go)?, &self.work()),
            _ => bail!("the target is not a Go program"),
        }
    }

    /// How well the profile in the sources still fits.
    pub(super) fn look_at_lying(&self, steps: &mut Steps<'_>, baseline: &Built) -> Result<Option<String>> {
        if !self.is_go() {
            return Ok(None);
        }
        steps.run(Phase::Baseline, "default-profile", || self.lying_profile(&self.go_shop()?, baseline))
    }

    /// The functions that use time and memory.
    pub(super) fn look_at_go(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        profiles: &Profiles,
        found_profile: Option<String>,
    ) -> Result<Option<GoAccount>> {
        if builder.kind() != TargetKind::Go {
            return Ok(None);
        }
        let mut account = GoAccount { found_profile, ..GoAccount::default() };
        if let Some(taken) = of_all(profiles) {
            (account.hot_spots, account.findings) =
                steps.run(Phase::Train, "hot-spots", || self.hot_spots(builder, taken))?;
        }
        Ok(Some(account))
    }

    /// The extras after the verdicts: benchmarks, and the placed profile.
    pub(super) fn finish_go(
        &self,
        steps: &mut Steps<'_>,
        profiles: &Profiles,
        variants: &[VariantFacts],
        account: Option<GoAccount>,
    ) -> Result<Option<GoAccount>> {
        let Some(mut account) = account else { return Ok(None) };
        if let Some(plan) = &self.experiment.go.bench {
            match self.go_benchmarks(steps, plan, of_all(profiles))? {
                Ok(found) => account.benchmarks = Some(found),
                Err(why) => account.no_benchmarks = Some(why),
            }
        }
        if self.experiment.go.place {
            let pgo = variants.iter().find(|variant| variant.name == PGO);
            account.placed =
                Some(steps.run(Phase::Judge, "place-profile", || self.placed(of_all(profiles), pgo))?);
        }
        Ok(Some(account))
    }
}
