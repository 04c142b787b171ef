//! The kind of profile that a run takes: the wanted kind, what this machine supports, and its cost. Hone decides once per run,
//! before it builds anything.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_binary::lock::Lock;
use hone_binary::perf::{Event, Perf};
use hone_binary::{Builder, ProfileForm, Refusal, TargetKind as Target};
use hone_diagnose::emulator::Emulator;
use serde::{Deserialize, Serialize};

use super::steps::{Steps, Told};
use crate::job::Job;
use crate::outcome::{Left, in_a_line};
use hone_experiment::ending::Usage;
use hone_experiment::phase::Phase;
use hone_experiment::spec::ProfileWish;
use hone_experiment::variants::{self, BoltBy, Made, Variant};

/// A kind of profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Counts of an instrumented build.
    Counts,
    /// Go's own profiler.
    Pprof,
    /// Samples of the plain program by perf.
    Perf(Event),
    /// A trace of the plain program under an emulator.
    Emulated,
    /// A profile that already exists.
    Given { file: PathBuf, form: ProfileForm },
}

/// The kinds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kinds {
    /// For BOLT.
    pub(super) bolt: Kind,
    /// For variants that need plain samples, whatever kind is wanted. The inner error is why there are none.
    pub(super) plain: Option<Result<Event, String>>,
}

impl Kinds {
    /// The kind for a variant of BOLT's.
    pub(super) fn for_bolt(&self, by: BoltBy) -> Result<Kind> {
        match (by, &self.plain) {
            (BoltBy::Wanted, _) => Ok(self.bolt.clone()),
            (BoltBy::Emulator, _) => Ok(Kind::Emulated),
            (BoltBy::Samples, Some(Ok(event))) => Ok(Kind::Perf(*event)),
            (BoltBy::Samples, Some(Err(why))) => Err(Left(why.clone()).into()),
            (BoltBy::Samples, None) => bail!("Hone has not tried whether this machine gives plain samples"),
        }
    }
}

impl Kind {
    /// The kind and its cost, in words.
    fn words(&self, target: Target) -> String {
        match self {
            Self::Counts => match target {
                Target::Given => "counts of the BOLT-instrumented program (exact; it runs 3 to 30 times \
                                  slower during training)"
                    .to_owned(),
                _ => "counts of an instrumented build (exact; one more build, which runs 1.1 to 4 times \
                      slower during training, BOLT's 3 to 30 times)"
                    .to_owned(),
            },
            Self::Pprof => "Go's own profiler (the plain program runs about 1 % slower)".to_owned(),
            Self::Perf(Event::Branches) => {
                "branch records of the plain program (it runs about 1 % slower; nearly as good as counts)"
                    .to_owned()
            }
            Self::Perf(event) => format!(
                "{} of the plain program (it runs about 1 % slower; BOLT has to estimate the branches)",
                event.text()
            ),
            Self::Emulated => "an exact trace of the plain program under an emulator (no hardware counters \
                               and no other build; it runs 3 to 20 times slower during the trace)"
                .to_owned(),
            Self::Given { file, form } => format!("{form}, {} (no training)", file.display()),
        }
    }
}

impl Job<'_> {
    /// The kind for a compiler. The choice does not depend on the machine.
    pub(super) fn compiler_kind(&self, target: Target) -> Result<Kind> {
        Ok(match &self.experiment.profile {
            ProfileWish::File(_) => match self.given_profile()? {
                Some(Kind::Given { form, .. }) if form.is_for_bolt() => own_kind(target),
                Some(given) => given,
                None => own_kind(target),
            },
            ProfileWish::Branches => Kind::Perf(Event::Branches),
            ProfileWish::Auto
            | ProfileWish::Instrumented
            | ProfileWish::Pprof
            | ProfileWish::Samples
            | ProfileWish::Emulated => own_kind(target),
        })
    }

    /// The profile that the experiment names by its path.
    pub(super) fn given_profile(&self) -> Result<Option<Kind>> {
        let ProfileWish::File(path) = &self.experiment.profile else { return Ok(None) };
        let file = self.beside(path);
        let form = ProfileForm::detect(&file).map_err(Refusal::from)?;
        // A lock file that belongs to another profile shows that the two were mixed up.
        Lock::read(&file)?;
        Ok(Some(Kind::Given { file: file.canonicalize()?, form }))
    }

    /// The variants that an existing profile can serve; an error if the user asked for others.
    pub(super) fn fitting_the_given(&self, variants: &[Variant], target: Target) -> Result<Vec<Variant>> {
        let Some(Kind::Given { file, form }) = self.given_profile()? else { return Ok(variants.to_vec()) };
        let fits_target = match form {
            ProfileForm::Counts => matches!(target, Target::Cargo | Target::Clang),
            ProfileForm::Samples => target == Target::Clang,
            ProfileForm::Pprof => target == Target::Go,
            _ => target != Target::Go,
        };
        if !fits_target {
            bail!(Usage(format!(
                "optimize.profile names {form} ({}), which {target} does not support\n  next: train instead \
                 (profile = \"auto\")",
                file.display()
            )));
        }
        let is_shaped = |variant: &&Variant| matches!(variant.made, Made::Shaped { .. });
        let shaped = variants.iter().find(is_shaped);
        match (form.is_for_bolt(), shaped) {
            (true, Some(_)) if !self.experiment.variants_are_asked => {
                let names = variants::for_bolt_alone();
                variants::of(Some(&names), &self.experiment.target.form, &[], false)
                    .map_err(|(_, problem)| Usage(problem).into())
            }
            (true, Some(variant)) => bail!(Usage(format!(
                "optimize.profile names {form} ({}), which only BOLT can use, but the compiler makes `{}`\n  \
                 next: leave that variant out, or name a profile for the compiler",
                file.display(),
                variant.name
            ))),
            (false, None) => bail!(Usage(format!(
                "optimize.profile names {form} ({}), but no variant uses it\n  next: ask for the variant \
                 pgo, or name a profile for BOLT",
                file.display()
            ))),
            _ => Ok(variants.to_vec()),
        }
    }

    /// The expected kind for BOLT in a plan, without a test of the machine.
    pub(super) fn planned_for_bolt(&self, by: BoltBy) -> Result<Kind> {
        Ok(match (by, &self.experiment.profile, self.given_profile()?) {
            (BoltBy::Emulator, ..) => Kind::Emulated,
            (BoltBy::Samples, ..) | (_, ProfileWish::Samples, _) => Kind::Perf(Event::Clock),
            (_, ProfileWish::Emulated, _) => Kind::Emulated,
            (_, ProfileWish::Branches, _) => Kind::Perf(Event::Branches),
            (_, _, Some(given @ Kind::Given { form, .. })) if form.is_for_bolt() => given,
            _ => Kind::Counts,
        })
    }

    /// Tests what perf provides on this machine, decides, and reports the decision.
    pub(super) fn kinds(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        compiler: &Kind,
        variants: &[Variant],
    ) -> Result<Kinds> {
        steps.run(Phase::Baseline, "profile-kind", || {
            let (kinds, note) = self.decide(builder.kind(), compiler, variants)?;
            let _ = std::fs::remove_dir(self.trials());
            Ok(Told { note, command: None, result: kinds })
        })
    }

    fn decide(&self, target: Target, compiler: &Kind, variants: &[Variant]) -> Result<(Kinds, String)> {
        let by_compiler = !variants::profiles(variants).is_empty();
        let by_bolt = variants::bolt_is_wanted(variants);
        let mut reasons = Vec::new();
        let bolt = match (&self.experiment.profile, self.given_profile()?) {
            _ if !by_bolt => Kind::Counts,
            (_, Some(given @ Kind::Given { form, .. })) if form.is_for_bolt() => given,
            (ProfileWish::Branches, _) => Kind::Perf(self.branches()?),
            (ProfileWish::Samples, _) => Kind::Perf(self.plain_samples()?),
            (ProfileWish::Emulated, _) => {
                Emulator::find()?;
                Kind::Emulated
            }
            (ProfileWish::Auto, _) => match self.branches() {
                Ok(event) => Kind::Perf(event),
                Err(error) => {
                    reasons.push(format!("no branch records: {}", crate::outcome::left_out(error)?));
                    Kind::Counts
                }
            },
            _ => Kind::Counts,
        };
        if by_compiler && *compiler == Kind::Perf(Event::Branches) && !by_bolt {
            self.branches()?;
        }
        let plain = match variants::needs_samples(variants) {
            true => Some(match self.plain_samples() {
                Ok(event) => Ok(event),
                Err(error) => Err(crate::outcome::left_out(error)?),
            }),
            false => None,
        };
        let mut parts = Vec::new();
        match (by_compiler, by_bolt) {
            (true, true) if *compiler == bolt => parts.push(compiler.words(target)),
            (true, true) => {
                parts.push(format!("for the compiler {}", compiler.words(target)));
                parts.push(format!("for BOLT {}", bolt.words(Target::Given)));
            }
            (true, false) => parts.push(compiler.words(target)),
            (false, true) => parts.push(bolt.words(Target::Given)),
            (false, false) => {}
        }
        match &plain {
            Some(Ok(event)) => {
                parts.push(format!("for {} {}", variants::SAMPLED_BOLT, Kind::Perf(*event).words(target)));
            }
            Some(Err(why)) => parts.push(format!("no plain samples: {}", first_line(why))),
            None => {}
        }
        if variants::needs_emulator(variants) {
            parts.push(format!("for {} {}", variants::EMULATED_BOLT, Kind::Emulated.words(target)));
        }
        parts.extend(reasons.iter().map(|reason| first_line(reason).to_owned()));
        let note = if parts.is_empty() { "no variant needs a profile".to_owned() } else { parts.join("; ") };
        Ok((Kinds { bolt, plain }, note))
    }

    /// The event of branch records, tested.
    fn branches(&self) -> Result<Event> {
        let tried = perf()?.tries(self.runner, &self.trials(), Event::Branches)?;
        Ok(tried.map(|()| Event::Branches).map_err(Refusal::from)?)
    }

    /// The event for plain samples, tested.
    fn plain_samples(&self) -> Result<Event> {
        let tried = perf()?.plain_event(self.runner, &self.trials())?;
        Ok(tried.map_err(Refusal::from)?)
    }

    fn trials(&self) -> PathBuf {
        let scratch = self.folder.scratch().join("perf");
        std::path::absolute(&scratch).unwrap_or(scratch)
    }
}

/// A missing perf is a reason to leave out the variants that need it. It does not end the run.
pub(super) fn perf() -> Result<Perf> {
    Perf::find().map_err(|error| Left(in_a_line(&error)).into())
}

fn own_kind(target: Target) -> Kind {
    if target == Target::Go { Kind::Pprof } else { Kind::Counts }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether a compiler uses it as a sample profile.
pub(super) fn are_samples(kind: &Kind) -> bool {
    matches!(kind, Kind::Perf(_) | Kind::Given { form: ProfileForm::Samples, .. })
}

/// The place of an existing profile in the run, under a name that its tools recognise.
pub(super) fn kept_name(form: ProfileForm) -> &'static Path {
    Path::new(match form {
        ProfileForm::Counts => "given.profdata",
        ProfileForm::Samples => "given.prof",
        ProfileForm::Pprof => "given.pprof",
        ProfileForm::Fdata => "given.fdata",
        ProfileForm::AddedUpBranches | ProfileForm::AddedUpAddresses => "given.pa",
        ProfileForm::Perf => "given.data",
    })
}
