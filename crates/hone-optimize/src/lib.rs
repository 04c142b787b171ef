//! Takes a target through profile-guided optimisation, step by step: a tree of variants. Hone makes, verifies and checks each of them, and
//! compares it with the variant that it builds on. Each step ends in a file. An interrupted run continues after the last one.

mod asked;
mod attempt;
mod beside;
mod bolt;
mod budget;
mod cache;
mod carry;
mod ceiling;
mod check;
pub mod commits;
mod counts;
pub mod diagnose;
pub mod dry;
mod elsewhere;
pub(crate) mod emulated;
mod foretell;
pub mod gate;
pub mod go;
mod harm;
pub mod heat;
pub mod job;
mod judge;
mod jvm;
mod kinds;
mod layouts;
pub mod ledger;
mod length;
mod matrix;
mod outcome;
mod outside;
mod provenance;
mod provoke;
pub mod rule;
pub mod run;
mod sampling;
mod shop;
pub mod steps;
mod train;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::{BoltTools, Input};
use hone_binary::{BuildRequest, Builder, Built, Guide, Merged, TargetKind, owners};
use hone_diagnose::emulator::TraceOptions;
use hone_record::{
    Artifact, Ceiling, Durability, Optimization, ProfileProof, SmokeTest, VariantFacts, VariantState,
    WeightedTraining, Workload,
};

use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::phase::Phase;
use hone_experiment::rounds::Judged;
use hone_experiment::spec::Experiment;
use hone_experiment::spec::target::Form;
use hone_experiment::variants::{self, BASELINE, Made, Mix, Profile, Variant};
pub use job::Job;
pub use judge::is_worse;
use judge::{Edge, edges};
use kinds::{Kinds, are_samples};
use outcome::{FAILED, Left, Outcomes, Profiles, Taken, in_a_line, left_out};
use steps::{Steps, Told};

/// The tools that make variants.
#[derive(Clone, Copy)]
struct Makers<'a> {
    builder: &'a dyn Builder,
    tools: Option<&'a BoltTools>,
    kinds: &'a Kinds,
    compiler: &'a kinds::Kind,
}

/// Carries out every unfinished step.
///
/// # Errors
/// Returns the error of the step that failed. The measurements and builds before it stay; `--resume` continues after them.
pub fn optimize(job: &Job<'_>) -> Result<Optimization> {
    if let Some(jvm) = jvm::service_of(job) {
        return jvm::optimize(job, jvm);
    }
    let begun_ms = now_unix_ms();
    let builder = job.builder_or_its_note()?;
    let builder = &*builder;
    let (tools, variants) = job.variants(builder.kind())?;
    let compiler = job.compiler_kind(builder.kind())?;
    job.fits(builder, &variants, &compiler)?;
    let _alone = [job.lock(&job.work(), "building in")?, job.lock(job.folder.path(), "using")?];
    let underway = job.begin()?;
    job.is_of_the_same(builder, tools.as_ref())?;
    job.folder.write_note(TREE, &variants)?;
    job.note_builder(builder)?;
    let mut steps = Steps::new(job.folder, job.progress, job.only).of(underway);
    let kinds = job.kinds(&mut steps, builder, &compiler, &variants)?;

    let plain = job.order(&variants[0], Path::new(""), &compiler);
    let baseline = steps.run(Phase::Baseline, "build-baseline", || job.build(builder, &plain))?;
    let started_unix_ms = steps.quiet("start", || Ok(begun_ms))?;
    if job.target().check.is_some() {
        steps.run(Phase::Baseline, "check-baseline", || job.check_plain(&baseline))?;
    }
    if variants::needs_bolt(&variants) && job.can_be_provoked() {
        steps.run(Phase::Baseline, "provoke-baseline", || job.provoke_baseline(&baseline.executable))?.ok();
    }
    let ceilings = steps.run(Phase::Baseline, "ceiling", || job.ceilings(&baseline))?;
    let diagnosis = job.look_why(&mut steps, &baseline)?;
    let makers = Makers { builder, tools: tools.as_ref(), kinds: &kinds, compiler: &compiler };
    let first = (0, &variants[0]);
    let more = job.layouts(&mut steps, makers, first, None, &baseline, &Outcomes::default())?;
    let lying = job.look_at_lying(&mut steps, &baseline)?;
    let profiles = job.profiles(&mut steps, builder, &variants, &baseline, &compiler)?;
    let of_go = job.look_at_go(&mut steps, builder, &profiles, lying)?;
    if job.only == Some(Phase::Train)
        && let Some(why) = profiles.values().find_map(|profile| profile.as_ref().err())
    {
        bail!(
            "the phase train has no profile, so the phase build would leave out every variant that needs \
             one: {why}"
        );
    }
    let mut outcomes = Outcomes { made: BTreeMap::from([(0, baseline)]), ..Outcomes::default() };
    outcomes.layouts.insert(0, more);
    for index in 1..variants.len() {
        job.make(&mut steps, makers, &variants, index, &profiles, &mut outcomes)?;
    }
    outcomes.foretold = job.predict(&mut steps, &variants, &outcomes)?;
    // Before the first measurement, the next attempt may repeat all of it.
    let forget = || forget_failures(job.folder, FAILED);
    job.is_worth_judging(&variants, &outcomes, forget)?;
    job.watch_harm(&mut steps, &mut outcomes)?;
    job.is_worth_judging(&variants, &outcomes, || forget().and_then(|()| job.folder.remove(HARM)))?;
    let judged = job.judge(&mut steps, &variants, &mut outcomes)?;
    // Variants that were not made are in no comparison, and stay left out.
    let in_judging = format!("{FAILED}judge-");
    job.is_worth_judging(&variants, &outcomes, || forget_failures(job.folder, &in_judging))?;
    let edges = edges(&variants, &outcomes.made);

    let account = Account { variants: &variants, edges: &edges, outcomes: &outcomes, builder };
    let mut found = job.optimization(Vec::new(), ceilings, &account, judged, started_unix_ms);
    found.go = job.finish_go(&mut steps, &profiles, &found.variants, of_go)?;
    found.diagnosis = diagnosis;
    found.steps = steps.receipts;
    job.folder.write_record("optimization.json", found.clone())?;
    job.enter_in_ledger(&found)?;
    Ok(found)
}

/// The build of a variant whose profile exists. Variants of BOLT come from no compiler.
fn order_of(variant: &Variant, profile: &Path, kind: &kinds::Kind) -> BuildRequest {
    let plain = BuildRequest::plain(&variant.name);
    let or_relocs = |order: BuildRequest, relocs: bool| if relocs { order.with_relocs() } else { order };
    match variant.made {
        Made::Plain { relocs, jump_tables } => {
            let plain = if jump_tables { plain } else { plain.without_jump_tables() };
            or_relocs(plain, relocs)
        }
        Made::Rewritten { .. } | Made::Configured => plain,
        Made::Shaped { relocs, .. } => {
            let profile = profile.to_owned();
            let guide = if are_samples(kind) { Guide::SampleUse(profile) } else { Guide::Use(profile) };
            or_relocs(plain.guided(guide), relocs)
        }
    }
}

/// Runs a step that may fail without ending the run. A note keeps the failure: a resumed run leaves the same variants out, because it has
/// some of their comparisons. `again` repeats the step anyway.
fn or_noted<T>(
    folder: &RunFolder,
    name: &str,
    again: bool,
    work: impl FnOnce() -> Result<T>,
) -> Result<Result<T, String>> {
    let note = format!("{FAILED}{name}.json");
    if !again && let Some(why) = folder.read_note::<String>(&note)? {
        return Ok(Err(why));
    }
    match work() {
        Ok(done) => {
            folder.remove(&note)?;
            Ok(Ok(done))
        }
        Err(error) => {
            let why = left_out(error)?;
            folder.write_note(&note, &why)?;
            Ok(Err(why))
        }
    }
}

/// The variants at the start of the run.
const TREE: &str = "tree.json";

/// The result of the harm checks.
const HARM: &str = "steps/harm.json";

/// Removes the notes whose names begin like this.
fn forget_failures(folder: &RunFolder, begins: &str) -> Result<()> {
    let steps = folder.join("steps");
    for entry in fs::read_dir(&steps).with_context(|| format!("{} can't be read", steps.display()))? {
        let name = format!("steps/{}", entry?.file_name().to_string_lossy());
        if name.starts_with(begins) {
            folder.remove(&name)?;
        }
    }
    Ok(())
}

/// Whether all builds of a variant were made, or the variant is left out.
fn has_come_to_an_end(folder: &RunFolder, name: &str, builds: u32) -> bool {
    let is_there = |name: &str| folder.join(format!("steps/build-{name}.json")).is_file();
    let is_built =
        is_there(name) && layouts::further(builds).all(|number| is_there(&layouts::name(name, number)));
    is_built || folder.join(format!("{FAILED}{name}.json")).is_file()
}

/// The program that a diagnosis traces: the target's plain build, or the named program.
///
/// # Errors
/// Fails when it can't be built, or does not exist.
pub fn program_to_diagnose(job: &Job<'_>, program: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = program {
        return program.canonicalize().with_context(|| format!("there is no program {}", program.display()));
    }
    let builder = job.builder()?;
    let _alone = job.lock(&job.work(), "building in")?;
    let told = job.build(&*builder, &BuildRequest::plain(BASELINE))?;
    job.progress.line(&format!("  built: {}", told.note));
    Ok(told.result.executable)
}

/// Diagnoses a program under a workload.
///
/// # Errors
/// Fails when the program can't be traced.
pub fn diagnose(job: &Job<'_>, workload: &Workload, program: &Path) -> Result<crate::diagnose::Found> {
    let traced = job.traced("diagnosed", program, workload, TraceOptions::ALL, &job.folder.join("trace"))?;
    let source = format!("{}, {}", program.display(), traced.words);
    let run = crate::diagnose::run_of(&traced);
    crate::diagnose::found(job.folder, crate::diagnose::of_trace(&run, program, source, &traced), &traced)
}

/// A workload of an experiment by its name, or the first training workload.
///
/// # Errors
/// Fails when no workload has this name.
pub fn workload<'a>(experiment: &'a Experiment, name: Option<&str>) -> Result<&'a Workload> {
    let training = experiment.training.iter().map(|training| &training.workload);
    let all: Vec<&Workload> = training.chain(&experiment.judging).collect();
    let Some(name) = name else { return Ok(all[0]) };
    let known = || all.iter().map(|load| load.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|load| load.name == name);
    Ok(found
        .ok_or_else(|| Usage(format!("there is no workload `{name}`; the experiment has {}", known())))?)
}

impl<'a> Job<'a> {
    /// The variants, and BOLT when one of them needs it. Without BOLT, Hone skips the variants that need it and reports that, unless the
    /// user asked for them.
    ///
    /// A resumed run keeps the variants of its start, whatever this machine has, because its comparisons refer to their places in the tree.
    fn variants(&self, target: TargetKind) -> Result<(Option<BoltTools>, Vec<Variant>)> {
        if let Some(kept) = self.folder.read_note::<Vec<Variant>>(TREE)? {
            let tools =
                if variants::needs_bolt(&kept) { BoltTools::find(None) } else { return Ok((None, kept)) };
            let is_done = kept.iter().all(|variant| {
                !matches!(variant.made, Made::Rewritten { .. })
                    || has_come_to_an_end(self.folder, &variant.name, self.experiment.builds)
            });
            return match tools {
                Ok(tools) => Ok((Some(tools), kept)),
                Err(error) if is_done => {
                    self.progress.line(&format!("BOLT is no longer needed: {}", in_a_line(&error)));
                    Ok((None, kept))
                }
                Err(error) => Err(error),
            };
        }
        let variants = self.fitting_the_given(&self.experiment.variants, target)?;
        if !variants::needs_bolt(&variants) {
            return Ok((None, variants));
        }
        match BoltTools::find(None) {
            Ok(tools) => Ok((Some(tools), variants)),
            Err(error) => match variants::without_bolt(&variants) {
                Some(others) if !self.experiment.variants_are_asked => {
                    self.progress
                        .line(&format!("skipping the variants that need BOLT: {}", in_a_line(&error)));
                    Ok((None, others))
                }
                _ => Err(error),
            },
        }
    }

    /// The request for a variant's first build. Further builds differ from it only by the places of functions.
    fn order(&self, variant: &Variant, profile: &Path, compiler: &kinds::Kind) -> BuildRequest {
        let order = order_of(variant, profile, compiler);
        if self.experiment.builds > 1 { order.apart() } else { order }
    }

    /// Reports unavailable variants before anything is built.
    fn fits(&self, builder: &dyn Builder, variants: &[Variant], compiler: &kinds::Kind) -> Result<()> {
        // BOLT makes all variants of a finished program. A run that has examined the program no longer needs it, but reports first if the
        // program has changed.
        let is_looked_at = self.folder.join("steps/build-baseline.json").is_file();
        if let (Form::Elf { binary }, false) = (&self.target().form, is_looked_at) {
            Input::look(&self.there("binary", binary)?)?;
        }
        let profile = Path::new("profile");
        for variant in variants {
            let order = self.order(variant, profile, compiler);
            builder.fits(&order)?;
            if let Some(number) = layouts::further(self.experiment.builds).next() {
                builder.fits(&layouts::order(&order, number))?;
            }
        }
        let profiles = variants::profiles(variants);
        if !profiles.is_empty() && *compiler == kinds::Kind::Counts {
            builder.can(&Guide::Generate)?;
        }
        // A job after the training, or one that only judges, may lack the tool.
        let is_trained = self.folder.join("steps/train.json").is_file();
        if !profiles.is_empty() && matches!(compiler, kinds::Kind::Perf(_)) && !is_trained {
            builder.converter()?;
        }
        if profiles.contains(&Profile::Second) {
            builder.can(&Guide::CsGenerate(profile.to_owned()))?;
        }
        Ok(())
    }

    /// The plain program must pass the check, in each of its builds.
    fn check_plain(&self, built: &Built) -> Result<Told<SmokeTest>> {
        match self.check(&built.variant, &built.executable)? {
            Ok(checked) => Ok(Told { note: checked.what.clone(), command: None, result: checked }),
            Err(trouble) => bail!(
                "the {} fails the check: {trouble}\n  next: correct the check or the target's arguments; a \
                 check that the plain program fails says nothing about a variant",
                built.variant
            ),
        }
    }

    /// The profiles that the variants need. The first round of counts serves all mixes. The second round needs the first.
    fn profiles(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        variants: &[Variant],
        baseline: &Built,
        compiler: &kinds::Kind,
    ) -> Result<Profiles> {
        let mut profiles = Profiles::new();
        let wanted: Vec<Profile> = variants::profiles(variants);
        if wanted.is_empty() {
            return Ok(profiles);
        }
        // The user asked for this phase, so it is repeated.
        let again = self.only == Some(Phase::Train);
        let first = or_noted(self.folder, "training", again, || match compiler {
            kinds::Kind::Pprof => self.first_of_go(steps, baseline),
            // An emulator's trace serves only BOLT.
            kinds::Kind::Counts | kinds::Kind::Emulated => self.first_round(steps, builder, baseline),
            kinds::Kind::Perf(event) => self.first_of_perf(steps, builder, *event),
            kinds::Kind::Given { file, form } => self.first_of_file(steps, builder, baseline, file, *form),
        })?;
        let (counting, raw) = match first {
            Ok(first) => first,
            Err(why) => {
                self.progress.line(&format!("no profile: {why}"));
                return Ok(wanted.into_iter().map(|profile| (profile, Err(why.clone()))).collect());
            }
        };
        for profile in wanted {
            let taken =
                or_noted(self.folder, &format!("profile-{}", profile.word()), again, || match profile {
                    Profile::First(mix) => self.prove(steps, builder, mix, &raw, &counting),
                    Profile::Second => match profiles.get(&Profile::First(Mix::All)) {
                        Some(Ok(first)) => self.second_round(steps, builder, baseline, (&first.merged, &raw)),
                        Some(Err(why)) => Err(Left(why.clone()).into()),
                        None => bail!("the second training round comes before the first"),
                    },
                })?;
            match &taken {
                Ok(taken) => self.bring_back(&taken.merged)?,
                Err(why) => self.progress.line(&format!("no profile: {why}")),
            }
            profiles.insert(profile, taken);
        }
        let hashes: Vec<String> =
            profiles.values().flatten().map(|taken| taken.merged.sha256.clone()).collect();
        self.forget_other_builds(&hashes)?;
        Ok(profiles)
    }

    fn first_round(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        baseline: &Built,
    ) -> Result<(Built, train::Raw)> {
        let order = BuildRequest::plain("instrumented").guided(Guide::Generate);
        let counting = steps.run(Phase::Train, "build-instrumented", || self.build(builder, &order))?;
        let raw = steps.run(Phase::Train, "train", || self.train(builder, baseline, &counting, "first"))?;
        Ok((counting, raw))
    }

    fn first_of_go(&self, steps: &mut Steps<'_>, baseline: &Built) -> Result<(Built, train::Raw)> {
        let raw = steps.run(Phase::Train, "train", || self.profile_go(baseline, "first"))?;
        Ok((baseline.clone(), raw))
    }

    fn prove(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        mix: Mix,
        raw: &train::Raw,
        counting: &Built,
    ) -> Result<Taken> {
        let weights = self.experiment.training.iter().map(|training| training.weight);
        let raw_is_given = raw.is_given;
        let all: Vec<(PathBuf, f64)> = raw.folders.iter().cloned().zip(weights).collect();
        let loads = &raw.loads;
        let (name, parts) = match mix {
            Mix::All => ("prove-profile".to_owned(), (0..all.len()).collect::<Vec<_>>()),
            Mix::Only(index) => {
                let workload = self
                    .experiment
                    .training
                    .get(index)
                    .context("a mix names a workload that does not train")?;
                // No workload name contains `@`, so a workload called `cs` can't collide with the second round.
                (format!("prove-profile@{}", workload.workload.name), vec![index])
            }
        };
        let raw: Vec<(PathBuf, f64)> = match mix {
            Mix::All => all,
            Mix::Only(index) => {
                all.into_iter().skip(index).take(1).map(|(folder, _)| (folder, 1.0)).collect()
            }
        };
        steps.run(Phase::Train, &name, || {
            let told = told_profile(builder, &raw, counting)?;
            // Unknown for an existing file; its own lock may name it.
            let known = if raw_is_given { &[][..] } else { &parts[..] };
            let parts: Vec<provenance::Part<'_>> = known
                .iter()
                .zip(&raw)
                .map(|(&index, (folder, weight))| provenance::Part {
                    index,
                    raw: folder,
                    weight: *weight,
                    load: &loads[index],
                })
                .collect();
            let went_in = provenance::WentIn { parts: &parts, given: raw_is_given };
            self.lock_profile(&told.result.merged.path, counting, &builder.receipts(), went_in);
            self.keep_profile(&told.result.merged)?;
            Ok(told)
        })
    }

    /// An instrumented build of a program that already uses the first profile.
    fn second_round(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        baseline: &Built,
        (first, of_first): (&Merged, &train::Raw),
    ) -> Result<Taken> {
        let order = BuildRequest::plain("cs-instrumented").guided(Guide::CsGenerate(first.path.clone()));
        let counting = steps.run(Phase::Train, "build-cs-instrumented", || self.build(builder, &order))?;
        let raw =
            steps.run(Phase::Train, "train-cs", || self.train(builder, baseline, &counting, "second"))?;
        let weights = || self.experiment.training.iter().map(|training| training.weight);
        let second = raw.folders.iter().cloned().zip(weights());
        let all: Vec<(PathBuf, f64)> = std::iter::once((first.path.clone(), 1.0)).chain(second).collect();
        steps.run(Phase::Train, "prove-profile-cs", || {
            let told = told_profile(builder, &all, &counting)?;
            let rounds = [(of_first, "first round: "), (&raw, "second round: ")].map(|(raw, round)| {
                let loads = raw.loads.iter().map(|load| format!("{round}{load}"));
                (raw, loads.collect::<Vec<String>>())
            });
            let parts = rounds.iter().flat_map(|(raw, loads)| {
                let trainings = raw.folders.iter().zip(loads).zip(weights()).enumerate();
                trainings.map(|(index, ((raw, load), weight))| provenance::Part { index, raw, weight, load })
            });
            let parts: Vec<provenance::Part<'_>> = parts.collect();
            // An existing profile has its own trainings, which its lock may list.
            let went_in = provenance::WentIn { parts: &parts, given: of_first.is_given };
            self.lock_profile(&told.result.merged.path, &counting, &builder.receipts(), went_in);
            self.keep_profile(&told.result.merged)?;
            Ok(told)
        })
    }

    /// Makes one variant, or finds out why that fails; the others continue.
    fn make(
        &self,
        steps: &mut Steps<'_>,
        makers: Makers<'_>,
        variants: &[Variant],
        index: usize,
        profiles: &Profiles,
        outcomes: &mut Outcomes,
    ) -> Result<()> {
        let variant = &variants[index];
        let made = or_noted(self.folder, &variant.name, false, || {
            let built = self.made(steps, makers, variants, index, profiles, outcomes)?;
            let taken = match variant.made {
                Made::Shaped { by, .. } => profiles.get(&by).and_then(|taken| taken.as_ref().ok()),
                Made::Plain { .. } | Made::Rewritten { .. } | Made::Configured => None,
            };
            let more = self.layouts(steps, makers, (index, variant), taken, &built, outcomes)?;
            Ok((built, more))
        })?;
        match made {
            Ok((built, more)) => {
                outcomes.made.insert(index, built);
                outcomes.layouts.insert(index, more);
            }
            Err(why) => {
                // A message has already explained the missing profile.
                let is_told =
                    profiles.values().any(|profile| profile.as_ref().is_err_and(|told| why.contains(told)));
                let told = if is_told { why.lines().next().unwrap_or_default() } else { &why };
                self.progress.line(&format!("{} is left out: {told}", variant.name));
                outcomes.left_out.insert(index, why);
            }
        }
        Ok(())
    }

    fn made(
        &self,
        steps: &mut Steps<'_>,
        makers: Makers<'_>,
        variants: &[Variant],
        index: usize,
        profiles: &Profiles,
        outcomes: &mut Outcomes,
    ) -> Result<Built> {
        let variant = &variants[index];
        let made = match variant.made {
            Made::Rewritten { from, by } => {
                let kind = makers.kinds.for_bolt(by)?;
                self.rewritten(steps, makers.tools, &kind, variants, index, from, outcomes)
            }
            Made::Shaped { by, .. } => {
                self.shaped(steps, makers, variant, index, profiles.get(&by), outcomes)
            }
            Made::Plain { .. } | Made::Configured => {
                let order = self.order(variant, Path::new(""), makers.compiler);
                let name = format!("build-{}", variant.name);
                steps.run(Phase::Build, &name, || self.build(makers.builder, &order))
            }
        };
        // Hone has checked BOLT's variants while it made them.
        made.and_then(|built| {
            if !outcomes.checked.contains_key(&index) && variant.judged {
                let name = if variants.len() == 2 {
                    "smoke-test".to_owned()
                } else {
                    format!("check-{}", variant.name)
                };
                let checked = steps.run(Phase::Build, &name, || self.smoke(&built))?;
                outcomes.checked.insert(index, checked);
            }
            Ok(built)
        })
    }

    fn shaped(
        &self,
        steps: &mut Steps<'_>,
        makers: Makers<'_>,
        variant: &Variant,
        index: usize,
        profile: Option<&Result<Taken, String>>,
        outcomes: &mut Outcomes,
    ) -> Result<Built> {
        let taken = match profile.context("the variant's profile was not planned")? {
            Ok(taken) => taken,
            Err(why) => return Err(Left(why.clone()).into()),
        };
        let builder = makers.builder;
        let order = self.order(variant, &taken.merged.path, makers.compiler);
        let built =
            steps.run(Phase::Build, &format!("build-{}", variant.name), || self.build(builder, &order))?;
        let baseline = &outcomes.made[&0];
        let applied = steps.run(Phase::Build, &format!("prove-{}", variant.name), || {
            let applied = builder.prove_applied(&built, baseline, &taken.proven)?;
            let note = format!(
                "{:.2} % of the profile's weight discarded ({} functions), {} functions without a profile",
                applied.discarded_weight * 100.0,
                applied.discarded_functions,
                hone_format::count(applied.missing_functions)
            );
            Ok(Told { note, command: None, result: applied })
        })?;
        outcomes.shaped.insert(index, (taken.proven.clone(), applied));
        Ok(built)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one loop")]
    fn rewritten(
        &self,
        steps: &mut Steps<'_>,
        tools: Option<&BoltTools>,
        kind: &kinds::Kind,
        variants: &[Variant],
        index: usize,
        from: usize,
        outcomes: &mut Outcomes,
    ) -> Result<Built> {
        let base = match (outcomes.made.get(&from), outcomes.left_out.get(&from)) {
            (Some(base), _) => base,
            (None, why) => {
                let why = why.map_or("it was not made", String::as_str);
                return Err(Left(format!("it builds on {}: {why}", variants[from].name)).into());
            }
        };
        let name = &variants[index].name;
        let bolt::Delivered { built, rewriting, checked } = match tools {
            Some(tools) => bolt::rewrite(self, steps, tools, kind, name, base)?,
            None => bolt::rewritten_before(steps, name)?,
        };
        if let Some(shaped) = outcomes.shaped.get(&from).cloned() {
            outcomes.shaped.insert(index, shaped);
        }
        outcomes.rewritten.insert(index, rewriting);
        outcomes.checked.insert(index, checked);
        Ok(built)
    }

    /// Writes records and reads them back under every judging workload, or performs its operations, and runs the target's own check.
    fn smoke(&self, built: &Built) -> Result<Told<SmokeTest>> {
        match self.check(&built.variant, &built.executable)? {
            Ok(checked) => {
                let note = if checked.records > 0 {
                    format!(
                        "{} records written and read back, byte for byte",
                        hone_format::count(checked.records)
                    )
                } else {
                    checked.what.clone()
                };
                Ok(Told { note, command: None, result: checked })
            }
            Err(trouble) => Err(layouts::not_correct(&built.variant, &trouble).into()),
        }
    }

    /// Fails when no variant is left. `forget` then lets the next attempt try again.
    fn is_worth_judging(
        &self,
        variants: &[Variant],
        outcomes: &Outcomes,
        forget: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let is_there = |index: &usize| *index > 0 && variants[*index].judged;
        if outcomes.made.keys().any(is_there) {
            return Ok(());
        }
        forget()?;
        // The first failure usually causes the others.
        let (index, why) = outcomes.left_out.iter().next().context("no variant was planned")?;
        match outcomes.left_out.len() {
            1 => bail!("{}: {why}", variants[*index].name),
            left => bail!("all {left} variants are left out; the first, {}: {why}", variants[*index].name),
        }
    }

    /// All measurements besides the comparisons, in one step: the variants take turns.
    fn watch_harm(&self, steps: &mut Steps<'_>, outcomes: &mut Outcomes) -> Result<()> {
        let built: Vec<&Built> = outcomes.made.values().collect();
        let harms = steps.run(Phase::Build, "harm", || self.watch(&built))?;
        let indices: Vec<usize> = outcomes.made.keys().copied().collect();
        for index in indices {
            match harms.get(&outcomes.made[&index].variant) {
                Some(Ok(harm)) => {
                    outcomes.harms.insert(index, harm.clone());
                }
                Some(Err(why)) => outcomes.leave_out(index, why.clone()),
                None => {}
            }
        }
        Ok(())
    }

    fn optimization(
        &self,
        steps: Vec<hone_record::StepReceipt>,
        ceilings: Vec<Ceiling>,
        account: &Account<'_>,
        judged: Judged,
        started_unix_ms: u64,
    ) -> Optimization {
        let experiment = self.experiment;
        let mut variants = account.variants();
        let workloads: Vec<&str> = experiment.judging.iter().map(|workload| workload.name.as_str()).collect();
        let best = judge::decide(&mut variants, &judged.edges, &judged.on_baseline, &workloads);
        let training: Vec<&Workload> =
            experiment.training.iter().map(|training| &training.workload).collect();
        let matrix = match experiment.matrix {
            true => matrix::rows(account.variants, &training, &experiment.compare, &judged.edges),
            false => Vec::new(),
        };
        let found = self.record(variants, judged, best, started_unix_ms);
        Optimization { ceilings, artifacts: account.artifacts(), steps, matrix, ..found }
    }

    /// The record of judged variants, without what belongs to builds.
    fn record(
        &self,
        variants: Vec<VariantFacts>,
        judged: Judged,
        best: Option<String>,
        started_unix_ms: u64,
    ) -> Optimization {
        let experiment = self.experiment;
        let acks = experiment.judging.first().map_or(-1, |workload| workload.acks);
        let mix = experiment.training.iter().map(|training| WeightedTraining {
            workload: training.workload.clone(),
            weight: training.weight,
        });
        Optimization {
            name: experiment.name.clone(),
            experiment: self.file.display().to_string(),
            hone_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: hone_host::observe::machine(Path::new("/")),
            training: experiment.training[0].workload.clone(),
            durability: Durability { acks, storage: self.target().storage.clone() },
            ceilings: Vec::new(),
            artifacts: Vec::new(),
            comparisons: judged.edges,
            steps: Vec::new(),
            started_unix_ms,
            variants,
            training_mix: if experiment.training.len() > 1 { mix.collect() } else { Vec::new() },
            matrix: Vec::new(),
            on_baseline: judged.on_baseline,
            best,
            go: None,
            diagnosis: None,
            jvm: None,
        }
    }
}

fn told_profile(builder: &dyn Builder, raw: &[(PathBuf, f64)], counting: &Built) -> Result<Told<Taken>> {
    let merged = builder.merge(raw)?;
    let proven = builder.prove_profile(&merged, counting)?;
    let proof = &proven.proof;
    let hottest = proof
        .hot_functions
        .first()
        .map_or_else(|| "-".to_owned(), |function| hone_record::demangled(&function.name));
    let note = format!(
        "{} level, {} functions, largest count {}, hottest {hottest}, sha256 {}",
        proof.level,
        hone_format::count(proof.functions),
        hone_format::count(proof.max_count),
        proof.sha256.get(..12).unwrap_or(&proof.sha256)
    );
    let note = note + &warning_of_owners(builder.kind(), proof);
    Ok(Told { note, command: Some(merged.command.clone()), result: Taken { merged, proven } })
}

/// A program's work may be in its dependencies. A load that misses the program looks the same, so the note shows the functions. Empty
/// without a reason.
fn warning_of_owners(kind: TargetKind, proof: &ProfileProof) -> String {
    const SHOWN: usize = 5;
    if kind != TargetKind::Cargo || proof.hot_functions_of_target > 0 {
        return String::new();
    }
    let owners = owners(&proof.hot_functions);
    let shown = owners.iter().take(SHOWN).map(|(name, functions)| format!("{name} {functions}"));
    let more = owners.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    format!(
        "; warning: none of the {} hot functions belongs to the target's own crates; they belong to \
         {}{more}: if the target's own code should be hot, check the address and the success of the training \
         load",
        proof.hot_functions.len(),
        shown.collect::<Vec<_>>().join(", ")
    )
}

/// Reports about the variants.
struct Account<'a> {
    variants: &'a [Variant],
    edges: &'a [Edge],
    outcomes: &'a Outcomes,
    builder: &'a dyn Builder,
}

impl Account<'_> {
    fn variants(&self) -> Vec<VariantFacts> {
        let facts = |(index, variant): (usize, &Variant)| {
            let edge = self.edges.iter().find(|edge| edge.child == index);
            let parent = edge.map(|edge| edge.parent).or(variant.parent);
            let parent = parent.map(|parent| self.variants[parent].name.as_str());
            VariantFacts {
                judged: variant.judged,
                state: match self.outcomes.left_out.get(&index) {
                    Some(why) => VariantState::LeftOut { why: why.clone() },
                    None => VariantState::Made,
                },
                rewriting: self.outcomes.rewritten.get(&index).cloned(),
                foretelling: self.outcomes.foretold.get(&index).cloned(),
                harm: self.outcomes.harms.get(&index).cloned(),
                builds: layouts::laid_out(&self.outcomes.builds(index)),
                ..VariantFacts::made(&variant.name, parent)
            }
        };
        self.variants.iter().enumerate().map(facts).collect()
    }

    fn artifacts(&self) -> Vec<Artifact> {
        let artifact = |(index, built): (&usize, &Built)| {
            let shaped = self.outcomes.shaped.get(index);
            let profile = shaped.map(|(proven, applied)| (proven, applied));
            let mut artifact = self.builder.artifact(built, profile);
            artifact.smoke = self.outcomes.checked.get(index).cloned();
            artifact
        };
        self.outcomes.made.iter().map(artifact).collect()
    }
}

#[cfg(test)]
mod tests {
    use hone_record::HotFunction;

    use super::*;

    #[test]
    fn what_failed_is_not_tried_again_by_a_run_that_goes_on_unless_it_is_asked_for() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let fails = || -> Result<u32> { Err(Left("no profile was written".to_owned()).into()) };
        let why = Err("no profile was written".to_owned());
        assert_eq!(or_noted(&folder, "pgo", false, fails).unwrap(), why);
        let unasked = || -> Result<u32> { panic!("it is known to fail") };
        assert_eq!(or_noted(&folder, "pgo", false, unasked).unwrap(), why);
        assert_eq!(or_noted(&folder, "pgo+bolt", false, || Ok(1)).unwrap(), Ok(1), "another one");
        assert_eq!(or_noted(&folder, "pgo", true, || Ok(2)).unwrap(), Ok(2));
        assert_eq!(
            or_noted(&folder, "pgo", false, || Ok(3)).unwrap(),
            Ok(3),
            "it did not fail the last time"
        );
        // What ends a run is no failure of a variant's.
        assert!(or_noted(&folder, "csir", false, || -> Result<u32> { bail!("the disk is full") }).is_err());
        assert_eq!(or_noted(&folder, "csir", false, || Ok(4)).unwrap(), Ok(4));
        or_noted(&folder, "pgo", false, fails).unwrap().unwrap_err();
        forget_failures(&folder, "steps/failed-judge-").unwrap();
        or_noted(&folder, "pgo", false, || Ok(5)).unwrap().unwrap_err();
        forget_failures(&folder, FAILED).unwrap();
        assert_eq!(or_noted(&folder, "pgo", false, || Ok(5)).unwrap(), Ok(5));
    }

    #[test]
    fn a_variant_is_done_with_when_its_last_build_is_there() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let done = |builds| has_come_to_an_end(&folder, "pgo+bolt", builds);
        assert!(!done(1));
        folder.write_note("steps/build-pgo+bolt.json", &1).unwrap();
        folder.write_note("steps/build-pgo+bolt~2.json", &1).unwrap();
        assert!(done(1) && done(2));
        assert!(!done(3), "broken off between the second and the third");
        folder.write_note("steps/failed-pgo+bolt.json", &"no profile").unwrap();
        assert!(done(3));
    }

    #[test]
    fn hot_functions_of_dependencies_alone_are_warned_of_with_their_owners() {
        let hot = ["jaq_core::run", "jaq_core::eval", "core::iter::next", "memchr"];
        let mut proof = ProfileProof {
            path: String::new(),
            sha256: String::new(),
            bytes: 0,
            raw_files: 1,
            raw_bytes: 0,
            level: "IR".to_owned(),
            functions: 4,
            max_count: 1,
            total_count: 4,
            hot_functions: hot.map(|name| HotFunction { name: name.to_owned(), max_count: 1 }).to_vec(),
            hot_functions_of_target: 0,
        };
        let warning = warning_of_owners(TargetKind::Cargo, &proof);
        let owners = "none of the 4 hot functions belongs to the target's own crates; they belong to jaq_core 2, C or C++ 1, core 1:";
        assert!(warning.contains(owners), "{warning}");
        proof.hot_functions_of_target = 1;
        assert_eq!(warning_of_owners(TargetKind::Cargo, &proof), "");
    }
}
