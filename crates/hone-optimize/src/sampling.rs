//! Profiles of unchanged programs: sampled by perf under load, or supplied by the user.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hone_binary::perf::{Event, Perf, PerfRefusal};
use hone_binary::profile_store::Keeper;
use hone_binary::{BuildRequest, Builder, Built, Guide, MOST_DISCARDED, ProfileForm, Refusal};
use hone_record::{Engine, Workload};
use hone_tool::{Session, StopSignal};

use super::kinds::{kept_name, perf};
use super::steps::{Steps, Told};
use super::train::{Raw, failed};
use crate::job::Job;
use crate::outcome::Left;
use hone_experiment::arm::{Place, Running};
use hone_experiment::phase::Phase;
use hone_experiment::spec::Training;

/// Time for perf to write its data at its end.
const PERF_ENDS: Duration = Duration::from_secs(30);

/// Loads of operations have no known duration, so Hone repeats them for this long: some ten thousand samples of a busy core.
const SAMPLED: Duration = Duration::from_secs(5);

/// The number of functions with the largest losses in a line.
const TOLD_FUNCTIONS: usize = 3;

impl Job<'_> {
    /// A compiler profile from branch records of a build with line information.
    pub(super) fn first_of_perf(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        event: Event,
    ) -> Result<(Built, Raw)> {
        let order = BuildRequest::plain("traceable").guided(Guide::Traceable);
        let traceable = steps.run(Phase::Train, "build-traceable", || self.build(builder, &order))?;
        let raw = steps.run(Phase::Train, "train", || self.branches_of(builder, &traceable, event))?;
        Ok((traceable, raw))
    }

    fn branches_of(&self, builder: &dyn Builder, traceable: &Built, event: Event) -> Result<Told<Raw>> {
        let (mut folders, mut words, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        let converter = builder.converter()?;
        for training in &self.experiment.training {
            let folder = self.raw_folder("first", &training.workload.name)?;
            let data = std::path::absolute(folder.join("perf.data"))?;
            let file = data.with_file_name("branches.prof");
            words.push(self.sampled(traceable, training, event, &data)?);
            commands.push(converter.convert(self.runner, &data, &traceable.executable, &file)?);
            let _ = fs::remove_file(&data);
            folders.push(file);
        }
        Ok(Told {
            note: words.join("; "),
            command: Some(commands.join(" && ")),
            result: Raw { folders, is_given: false, loads: self.loads_in_words() },
        })
    }

    /// The profile that the user named, kept in the run. Hone matches counts with an instrumented build, and everything else with the plain
    /// one.
    pub(super) fn first_of_file(
        &self,
        steps: &mut Steps<'_>,
        builder: &dyn Builder,
        baseline: &Built,
        file: &Path,
        form: ProfileForm,
    ) -> Result<(Built, Raw)> {
        let counting = match form {
            ProfileForm::Counts => {
                let order = BuildRequest::plain("instrumented").guided(Guide::Generate);
                steps.run(Phase::Train, "build-instrumented", || self.build(builder, &order))?
            }
            _ => baseline.clone(),
        };
        let raw = steps.run(Phase::Train, "train", || {
            let kept = self.raw_folder("first", "given")?.join(kept_name(form));
            fs::copy(file, &kept)
                .with_context(|| format!("{} can't be copied to {}", file.display(), kept.display()))?;
            let fits = match form {
                ProfileForm::Counts => format!("; {}", self.fits_the_source(file, &counting)?),
                _ => String::new(),
            };
            let note = format!("{form} from {}, without training{fits}", file.display());
            Ok(Told {
                note,
                command: None,
                result: Raw { folders: vec![kept], is_given: true, loads: Vec::new() },
            })
        })?;
        Ok((counting, raw))
    }

    /// Matches existing counts with a build of the present source, and returns the matching share in words. The names of functions, which
    /// verify every profile, can stay the same while their code changes.
    ///
    /// # Errors
    /// [`Left`] when hardly anything matches; other errors when the profile or the program can't be read.
    fn fits_the_source(&self, file: &Path, counting: &Built) -> Result<String> {
        let scratch = self.folder.scratch();
        fs::create_dir_all(&scratch).with_context(|| format!("{} can't be made", scratch.display()))?;
        let check = Keeper::new(self.runner, &scratch).check(file, &counting.executable, false)?;
        let heaviest: Vec<String> = check
            .lost_functions
            .iter()
            .take(TOLD_FUNCTIONS)
            .map(|lost| format!("{} {:.1} %", hone_record::demangled(&lost.name), 100.0 * lost.share))
            .collect();
        let of_them = if heaviest.is_empty() { String::new() } else { format!(" ({})", heaviest.join(", ")) };
        let lost = format!(
            "the present source does not match {:.2} % of its weight{of_them}",
            100.0 * check.lost_share
        );
        if check.lost_share > MOST_DISCARDED {
            return Err(Left(format!(
                "{} does not fit: {lost}\n  next: train a new profile from the present source (without \
                 `profile` in [optimize]), and commit it with its lock",
                file.display()
            ))
            .into());
        }
        Ok(lost)
    }

    /// Loads a program while perf samples it, from the end of its filling and its warm-up on. Returns the load, in words.
    ///
    /// # Errors
    /// A refusal when perf gave no or hardly any samples; [`Left`] when the load failed.
    pub(super) fn sampled(
        &self,
        built: &Built,
        training: &Training,
        event: Event,
        data: &Path,
    ) -> Result<String> {
        let workload = &training.workload;
        let perf = over(perf()?, workload);
        let mut arm = self.arm(&built.variant, &built.executable, BTreeMap::new());
        let done = if let (Engine::Exits { .. }, Place::Program(program)) = (&workload.engine, &mut arm.place)
        {
            let (path, words) = perf.around(event, data);
            let own = std::path::absolute(&program.path)?;
            let words = words.into_iter().chain([own.into_os_string()]);
            let words = words.map(|word| word.to_string_lossy().into_owned());
            program.args = words.chain(program.args.drain(..)).collect();
            program.path = path;
            // Several perf runs would give several profiles.
            let window = self.bench().alone(&arm, workload);
            window.map(|window| (window.facts.acked_requests, Duration::from_secs_f64(window.duration_s)))
        } else {
            let least = if workload.engine.operations().is_some() { SAMPLED } else { Duration::ZERO };
            let begin = |running: &Running| {
                let pid = running.child().context("Hone can only sample a program that it started")?;
                perf.watch(self.runner, event, || Ok(hone_host::cpu::tree(pid)?), data)
            };
            let watched =
                self.bench().watched(&arm, workload, least, begin, |session, _| ended(session, data));
            watched.map(|watched| (watched.acked, watched.length))
        };
        let (operations, sampled) = done.map_err(failed)?;
        let bytes = data.metadata().map_or(0, |facts| facts.len());
        if bytes == 0 {
            return Err(nothing(event, "perf wrote nothing".to_owned()).into());
        }
        perf.enough(self.runner, data)?;
        let what = if workload.engine.operations().is_some() { "operations" } else { "requests" };
        Ok(format!(
            "{} over {:.1} s and {} {what} of workload `{}`",
            event.text(),
            sampled.as_secs_f64(),
            hone_format::count(operations),
            workload.name
        ))
    }
}

/// Loads of operations have no known duration; Hone assumes a minute.
const ASSUMED_S: f64 = 60.0;

/// As many samples as a profile needs, whatever the size of the machine and the length of the load.
pub(super) fn over(perf: Perf, workload: &Workload) -> Perf {
    let duration_s = if workload.engine.operations().is_some() { ASSUMED_S } else { workload.duration_s };
    perf.over(std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32), duration_s)
}

/// Stops perf, which then writes its data. Only a kill is a failure, because perf ends by the signal that it gets.
fn ended(mut session: Session, data: &Path) -> Result<()> {
    let broke = |said| Refusal::from(PerfRefusal::Broke { data: data.to_path_buf(), said });
    if let Some(status) = session.try_exit()? {
        let said = session.scene().stderr.join(" ");
        return Err(broke(format!("it ended before the load ({status}): {said}")).into());
    }
    let stopped = session.stop(PERF_ENDS)?;
    if stopped.signal == StopSignal::Kill {
        return Err(broke(format!("it did not end within {} s of its signal", PERF_ENDS.as_secs())).into());
    }
    Ok(())
}

fn nothing(event: Event, said: String) -> Refusal {
    match event {
        Event::Branches => PerfRefusal::NoBranches { said }.into(),
        Event::Cycles | Event::Clock => PerfRefusal::NoSamples { said }.into(),
    }
}
