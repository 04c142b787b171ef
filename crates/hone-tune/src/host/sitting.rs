//! Windows in rounds. Each round has the unchanged host, the same once more as the control, and every candidate, in random order.
//! A candidate is in force for its window only; the journal then rolls it back.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_compare::{BASELINE, RoundPlan, TWIN};
use hone_host::disks;
use hone_host::kernel::Files;
use hone_record::{Comparison, Design, Machine, Metric, Window, Workload};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::held::{Held, NotSet};
use hone_experiment::arm::Arm;
use hone_experiment::bench::{Bench, Subject};
use hone_experiment::drive::fixed_before;
use hone_experiment::ending::{NotItsOwn, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::progress::Progress;
use hone_experiment::rounds::{Burst, Round, judged, lacks_pairs, line, of_target, turn};

/// The inputs that all rounds of one target share.
pub(crate) struct Sitting<'a> {
    pub root: &'a Path,
    /// The folder whose dirty pages are flushed between windows.
    pub data: Option<&'a Path>,
    pub arm: Arm,
    pub workload: Workload,
    pub candidates: Vec<Candidate>,
    /// Whether each window has its own target, started with the candidate in force.
    pub anew: bool,
    pub plan: RoundPlan,
    pub settle: Duration,
    /// The watchdog rolls a candidate back after this time, whatever happened.
    pub guard: Duration,
    pub bench: Bench<'a>,
    pub folder: &'a RunFolder,
    /// Prefix of its files in the folder.
    pub prefix: String,
    pub machine: Machine,
}

/// A target or candidate that fails this many times in a row is given up.
const FAILURES_IN_A_ROW: u32 = 3;
/// How often a pause checks for an interruption.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// The design of the rounds. An interrupted run only continues with the same one.
#[derive(Debug, Serialize)]
struct Layout<'a> {
    candidates: &'a [Candidate],
    workload: &'a Workload,
    started_anew: bool,
    settle_s: f64,
    orders: Vec<Vec<usize>>,
}

/// Data of a round besides its windows.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Writing {
    /// By candidate, in milliseconds; 0 without a write.
    ms: Vec<u64>,
}

/// The result of the rounds.
pub(crate) struct Sat {
    /// By candidate.
    pub comparisons: Vec<Comparison>,
    /// By candidate: the longest time of its writes, in milliseconds.
    pub(crate) writing_ms_max: Vec<u64>,
}

/// The target of the rounds, and the count of consecutive failures.
struct Standing {
    living: Option<Subject>,
    failures: Vec<u32>,
    /// Whether it was restarted in this round, so that its windows are not comparable with the previous one.
    younger: bool,
    /// Changes that were made; their journals are deleted at the end.
    made: Vec<String>,
}

impl Sitting<'_> {
    /// Measures the remaining rounds, and judges each candidate. The rule is on the disk before the first window.
    ///
    /// # Errors
    /// When the target repeatedly fails without a candidate, another program changes a tried setting, or the user interrupts.
    pub(crate) fn run(&self, progress: &Progress) -> Result<Sat> {
        let edges: Vec<[usize; 2]> =
            (0..self.candidates.len()).map(|number| [BASELINE, number + TWIN + 1]).collect();
        let designs =
            edges.iter().map(|edge| Ok(self.plan.design(*edge)?)).collect::<Result<Vec<Design>>>()?;
        let orders = self.plan.orders();
        self.fix(&orders, &designs)?;
        let mut standing = Standing {
            living: None,
            failures: vec![0; self.plan.variants],
            younger: false,
            made: Vec::new(),
        };
        let comparisons: Vec<_> = edges.iter().copied().zip(&designs).collect();
        let measured = self.measure(&orders, &comparisons, &mut standing, progress);
        let ended = standing.living.take().map_or(Ok(None), |subject| self.bench.end(subject));
        // Remaining journals do no harm. The next run checks them first.
        let _ = hone_host::commit::forget_these(self.root, standing.made.iter().map(String::as_str));
        let measured = measured?;
        ended?;
        let names = |child: usize| [AS_IT_IS.to_owned(), self.candidates[child].title.clone()];
        let comparisons = edges
            .iter()
            .zip(designs)
            .enumerate()
            .map(|(child, (edge, design))| {
                judged(*edge, names(child), design, &measured, (&self.workload, &self.machine))
            })
            .collect();
        Ok(Sat { comparisons, writing_ms_max: self.longest_writes(&measured)? })
    }

    fn fix(&self, orders: &[Vec<usize>], designs: &[Design]) -> Result<()> {
        let note = format!("{}rounds.json", self.prefix);
        let layout = Layout {
            candidates: &self.candidates,
            workload: &self.workload,
            started_anew: self.anew,
            settle_s: self.settle.as_secs_f64(),
            orders: orders.to_vec(),
        };
        let text = serde_json::to_string_pretty(&layout)?;
        match self.folder.read_text(&note)? {
            Some(earlier) if earlier != text => bail!(Usage(format!(
                "{} belongs to other settings, another load or other rounds\n  next: start a new run",
                self.folder.join(&note).display()
            ))),
            Some(_) => {}
            None => {
                self.folder.write_text(&note, &text)?;
            }
        }
        for (number, design) in designs.iter().enumerate() {
            fixed_before(self.folder, &format!("{}design-{:02}.json", self.prefix, number + 1), design)?;
        }
        Ok(())
    }

    fn note(&self, index: u32) -> String {
        format!("{}rounds/{index:03}.json", self.prefix)
    }

    fn writing_note(&self, index: u32) -> String {
        format!("{}writes/{index:03}.json", self.prefix)
    }

    fn measure(
        &self,
        orders: &[Vec<usize>],
        comparisons: &[([usize; 2], &Design)],
        standing: &mut Standing,
        progress: &Progress,
    ) -> Result<Vec<Round>> {
        let mut measured = Vec::new();
        for (index, order) in (0_u32..).zip(orders) {
            if index >= self.plan.rounds && !lacks_pairs(comparisons, self.plan.rounds, &measured) {
                break;
            }
            let note = self.note(index);
            if let Some(round) = self.folder.read_note::<Round>(&note)? {
                measured.push(round);
                continue;
            }
            let (round, writing) = self
                .round(index, order, standing, progress)
                .with_context(|| format!("round {}", index + 1))?;
            self.folder.write_note(&self.writing_note(index), &writing)?;
            self.folder.write_note(&note, &round)?;
            progress.line(&line(&round, self.plan.rounds, self.plan.primary, &self.names()));
            for number in [BASELINE, TWIN] {
                if standing.failures.get(number).is_some_and(|row| *row >= FAILURES_IN_A_ROW) {
                    let reason = round.seen.get(number).and_then(|burst| burst.failure.as_deref());
                    bail!(
                        "{FAILURES_IN_A_ROW} windows of the unchanged host were excluded in a row, the last \
                         one because {}",
                        reason.unwrap_or("it failed")
                    );
                }
            }
            measured.push(round);
        }
        Ok(measured)
    }

    fn names(&self) -> Vec<(&str, Option<usize>)> {
        let titles = self.candidates.iter().map(|candidate| candidate.title.as_str());
        NAMES.into_iter().chain(titles).map(|name| (name, Some(BASELINE))).collect()
    }

    fn round(
        &self,
        index: u32,
        order: &[usize],
        standing: &mut Standing,
        progress: &Progress,
    ) -> Result<(Round, Writing)> {
        let mut seen: Vec<Burst> = (0..self.plan.variants).map(|_| Burst::default()).collect();
        let mut writing = Writing { ms: vec![0; self.candidates.len()] };
        standing.younger = false;
        // Each round has other arrivals, and all its windows have the same ones.
        let seed = self.workload.seed.wrapping_add(u64::from(index));
        let workload = Workload { seed, ..self.workload.clone() };
        for (place, number) in order.iter().enumerate() {
            let candidate = number.checked_sub(TWIN + 1).and_then(|number| self.candidates.get(number));
            let name = candidate.map_or(NAMES[*number % NAMES.len()], |candidate| candidate.title.as_str());
            progress.doing(&format!(
                "round {}, {} of {}: {name}",
                turn(index, self.plan.rounds).trim_start(),
                place + 1,
                order.len()
            ));
            let Some(burst) = seen.get_mut(*number) else { continue };
            if standing.failures[*number] >= FAILURES_IN_A_ROW {
                burst.failure =
                    Some(format!("{name} was given up after {FAILURES_IN_A_ROW} failures in a row"));
                continue;
            }
            let begun = Instant::now();
            let mut wrote_ms = 0;
            let done = self.window(candidate, &workload, standing, &mut wrote_ms)?;
            burst.took_s = begun.elapsed().as_secs_f64();
            burst.younger = standing.younger;
            match done {
                Ok(window) => {
                    burst.take(&window);
                    burst.window = format!("{}windows/{index:03}-{number:02}.json", self.prefix);
                    self.folder.write_record(&burst.window, Window { variant: name.to_owned(), ..window })?;
                }
                Err(reason) => burst.fail(reason),
            }
            let row = &mut standing.failures[*number];
            *row = if burst.failure.is_some() { *row + 1 } else { 0 };
            if let Some(ms) = number.checked_sub(TWIN + 1).and_then(|number| writing.ms.get_mut(number)) {
                *ms = wrote_ms;
            }
        }
        Ok((Round { index, seen }, writing))
    }

    /// One window. The inner error is a failure of the target or the kernel.
    fn window(
        &self,
        candidate: Option<&Candidate>,
        workload: &Workload,
        standing: &mut Standing,
        wrote_ms: &mut u64,
    ) -> Result<Result<Window, String>> {
        if !self.anew && standing.living.is_none() {
            match of_target(self.bench.subject(&self.arm, workload))? {
                Ok(subject) => standing.living = Some(subject),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        self.nothing_moved()?;
        // Dirty pages of the previous window must not affect this one.
        if let Some(data) = self.data {
            disks::write_back(data)
                .with_context(|| format!("can't flush dirty pages of {}", data.display()))?;
        }
        let held = match candidate {
            None => None,
            Some(candidate) => match Held::set(self.root, candidate, &run_name(self.folder), self.guard) {
                Ok(held) => {
                    *wrote_ms = held.applied.writing_ms;
                    standing.made.push(held.applied.id.clone());
                    Some(held)
                }
                Err(NotSet::Refused(reason)) => return Ok(Err(reason)),
                Err(NotSet::Stops(error)) => return Err(error),
            },
        };
        let done = self.pause().and_then(|()| self.loaded(workload, standing));
        match held {
            Some(held) => held.end(done),
            None => done,
        }
    }

    fn loaded(&self, workload: &Workload, standing: &mut Standing) -> Result<Result<Window, String>> {
        if self.anew {
            let alone = || {
                let mut subject = self.bench.subject(&self.arm, workload)?;
                let window = self.bench.window(&mut subject, workload)?;
                self.bench.end(subject)?;
                Ok(window)
            };
            return of_target(alone());
        }
        let Some(subject) = &mut standing.living else { bail!("a window lost its target") };
        let done = of_target(self.bench.window(subject, workload))?;
        if done.is_err() {
            // The target may be damaged. The next window starts another one, which is younger than those
            // before.
            standing.living = None;
            standing.younger = true;
        }
        Ok(done)
    }

    /// Before every window, the tried settings must have their values from the start of the run.
    fn nothing_moved(&self) -> Result<()> {
        let files = Files::new(self.root);
        let moved: Vec<String> =
            self.candidates.iter().flat_map(|candidate| candidate.moved(&files)).collect();
        if !moved.is_empty() {
            bail!(NotItsOwn(format!(
                "another program changed a setting that this run tries: {}; Hone changed nothing\n  next: \
                 restore its value and continue with --resume, or begin a new run",
                moved.join("; ")
            )));
        }
        Ok(())
    }

    /// A write may stop a disk's queue, and an idle target wakes up: both must happen outside of the window.
    fn pause(&self) -> Result<()> {
        let until = Instant::now() + self.settle;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if interrupt::requested() {
                bail!("interrupted");
            }
            std::thread::sleep(left.min(LOOKS_EVERY));
        }
        Ok(())
    }

    fn longest_writes(&self, measured: &[Round]) -> Result<Vec<u64>> {
        let mut longest = vec![0; self.candidates.len()];
        for round in measured {
            let writing =
                self.folder.read_note::<Writing>(&self.writing_note(round.index))?.unwrap_or_default();
            for (longest, ms) in longest.iter_mut().zip(writing.ms) {
                *longest = ms.max(*longest);
            }
        }
        Ok(longest)
    }
}

/// The baseline in a comparison.
const AS_IT_IS: &str = "the host as it is";
/// Short names of the baseline and its control.
const NAMES: [&str; 2] = ["as it is", "twin"];

/// The run's name in a journal.
pub(crate) fn run_name(folder: &RunFolder) -> String {
    format!("{RUN}{}", folder.path().display())
}

/// Prefix of that name.
pub(crate) const RUN: &str = "hone host try in ";

/// Metrics that are not judged for host settings, or for which windows have too few requests.
pub(crate) fn refused(workload: &Workload, named: &[Metric]) -> std::collections::BTreeMap<Metric, String> {
    if workload.engine.operations().is_some() {
        return hone_compare::refused_for_operations(named.first().copied().unwrap_or(Metric::CpuPerRecord));
    }
    let other = [Metric::CpuPerRequest, Metric::UserCpuPerRecord, Metric::LatencyP90, Metric::LatencyMax];
    let other = other.into_iter().filter(|metric| !named.contains(metric)).map(|metric| {
        (
            metric,
            "not judged: with fewer metrics the others have narrower confidence intervals, and stalls \
             show the longest waits"
                .to_owned(),
        )
    });
    let requests = workload.requests_per_window();
    let short = Metric::ALL
        .into_iter()
        .filter_map(|metric| Some((metric, hone_compare::too_few(metric, requests?)?)));
    other.chain(short).collect()
}
