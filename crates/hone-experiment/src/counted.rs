//! Exact counts: a fixed piece of work of a program under the emulator, once with models of caches and once without. Time plays no role in
//! it: one client sends one request after the other, and the number of operations follows from the number of their instructions.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::model::{self, Effort, Part, Run};
use hone_diagnose::trace::TraceFolder;
use hone_host::uses::Uses;
use hone_load::{InTurn, Settings, Topic};
use hone_record::{CodeChange, Counted, CountedMisses, Counts, Engine, Workload};
use hone_tool::interrupt;

use crate::arm::{Arm, Place};
use crate::bench::{Bench, Subject, of_use};
use crate::emulated::{
    around, can_be_emulated, does_not_stand_it, image, left_of, notes_of_traces, running_outside,
};
use crate::slow;

/// Instructions of one repetition: about two seconds under the emulator with models of caches.
const WORK: u64 = 200_000_000;
/// Operations from which the instructions of one operation are known well enough.
const TRIAL: u64 = 200;
/// Requests before that. They fill pools and caches, and contain each request of the wire engine once.
const WARM_UP: u64 = 300;
/// More requests would not fit a small data folder.
const MOST_REQUESTS: u64 = 200_000;
/// Repetitions from which the scatter is known.
const REPETITIONS: usize = 2;
/// A program whose repetitions differ by more than this share can't be counted.
const MOST_SCATTER: f64 = 0.05;
/// With a larger share of code that was made at run time, the counts depend on when it was made.
const MOST_MADE: f64 = 0.1;

/// Exact instructions, with simulated caches of code and data and without windows.
const WITH_CACHES: TraceOptions = TraceOptions { caches: true, data: true, ..TraceOptions::COUNTS };

/// Counts programs.
pub struct Counting<'a> {
    bench: Bench<'a>,
    emulator: Emulator,
    folder: PathBuf,
}

/// What one program did.
pub struct Tally {
    counts: Counts,
    run: Run,
    notes: Vec<String>,
}

/// One repetition.
struct Repetition {
    operations: u64,
    run: Run,
    notes: Vec<String>,
}

impl<'a> Counting<'a> {
    /// Finds the emulator. Traces and the tracer are in `folder`, and are removed after use.
    ///
    /// # Errors
    /// Fails without an emulator.
    pub fn begin(bench: Bench<'a>, folder: PathBuf) -> Result<Self> {
        Ok(Self { bench, emulator: Emulator::find()?, folder })
    }

    /// Counts A and B under the same load.
    ///
    /// # Errors
    /// Fails when one of them can't be counted, with the reason.
    pub fn both(&self, arms: [&Arm; 2], workload: &Workload) -> Result<Counted> {
        let a = self.one(arms[0], workload, None)?;
        let b = self.one(arms[1], workload, Some(a.operations()))?;
        Ok(self.compared([(&arms[0].name, &a), (&arms[1].name, &b)], workload))
    }

    /// Counts one program. Two programs are only comparable if both do as many operations.
    ///
    /// # Errors
    /// Fails when it can't be counted, with the reason.
    pub fn one(&self, arm: &Arm, workload: &Workload, operations: Option<u64>) -> Result<Tally> {
        let Place::Program(program) = &arm.place else {
            bail!("{} runs already; only a program that Hone starts can be counted", arm.name)
        };
        can_be_emulated(&program.path)?;
        let mut operations = operations;
        let mut done: Vec<Repetition> = Vec::new();
        for number in 0..REPETITIONS {
            let options = if number == 0 { WITH_CACHES } else { TraceOptions::COUNTS };
            let text = format!("{}: counting, repetition {} of {REPETITIONS}", arm.name, number + 1);
            self.bench.progress.detail(&text);
            let repetition = self.repetition(arm, workload, operations, options)?;
            operations = Some(repetition.operations);
            done.push(repetition);
        }
        let instructions = done.iter().map(Repetition::instructions_per_operation).collect();
        let first = done.into_iter().next().context("nothing was counted")?;
        let tally = Tally { counts: first.counts(instructions), run: first.run, notes: first.notes };
        tally.check(&arm.name)?;
        Ok(tally)
    }

    /// The result of two tallies under one load.
    pub fn compared(&self, [(a, first), (b, second)]: [(&str, &Tally); 2], workload: &Workload) -> Counted {
        let mut notes = first.notes.clone();
        notes.extend(second.notes.iter().filter(|note| !first.notes.contains(note)).cloned());
        Counted {
            a: a.to_owned(),
            b: b.to_owned(),
            workload: workload.name.clone(),
            work: work(workload, first.counts.operations),
            emulator: self.emulator.receipt().version.clone(),
            predicted: model::predicted_ratio(&effort(&first.counts), &effort(&second.counts)),
            counts: [first.counts.clone(), second.counts.clone()],
            code: code_changes(first, second),
            notes,
        }
    }

    fn repetition(
        &self,
        arm: &Arm,
        workload: &Workload,
        operations: Option<u64>,
        options: TraceOptions,
    ) -> Result<Repetition> {
        let folder = TraceFolder::create(&self.folder.join("counts"))?;
        let tracer = self.emulator.tracer(&self.folder)?;
        let emulated = around(arm.clone(), &self.emulator, &tracer, &folder, options, 1.0)?;
        let counted = match &workload.engine {
            Engine::Exits { .. } => self.of_program(&emulated, workload, operations, &folder),
            _ => self.of_server(&emulated, workload, operations, &folder),
        };
        let repetition = match counted {
            Ok(operations) => self.read(arm, &folder, operations),
            Err(error) if interrupt::requested() => Err(error),
            Err(error) => bail!(does_not_stand_it(&error, Uses::default())),
        };
        fs::remove_dir_all(folder.path())
            .with_context(|| format!("{} can't be removed", folder.path().display()))?;
        repetition
    }

    /// A program that exits is traced from its start. Without a placeholder for their number, its operations are always the same.
    fn of_program(
        &self,
        arm: &Arm,
        workload: &Workload,
        operations: Option<u64>,
        folder: &TraceFolder,
    ) -> Result<u64> {
        let load = slow::fitted(workload, None);
        let whole = workload.engine.operations().unwrap_or(1);
        let of = |operations: u64| load.with_operations(operations).unwrap_or_else(|| load.clone());
        let operations = match operations {
            Some(known) => known,
            None if load.with_operations(1).is_none() => whole,
            None => {
                let fitting_of = |trial: u64| -> Result<u64> {
                    self.bench.alone(arm, &of(trial))?;
                    let per_operation = instructions_of_one(folder, trial)?;
                    forget_files(folder)?;
                    Ok(fitting(per_operation).min(whole))
                };
                // One operation may be a minute's work.
                match fitting_of(1)?.min(TRIAL) {
                    1 => 1,
                    more => fitting_of(more)?,
                }
            }
        };
        self.bench.alone(arm, &of(operations))?;
        Ok(operations)
    }

    /// A server is traced from the end of its warm-up to the end of its work.
    fn of_server(
        &self,
        arm: &Arm,
        workload: &Workload,
        operations: Option<u64>,
        folder: &TraceFolder,
    ) -> Result<u64> {
        let load = slow::fitted(workload, None);
        let mut subject = self.bench.subject(arm, &load)?;
        let mut client = self.client(&mut subject, arm, &load)?;
        let whole = workload.engine.operations().unwrap_or(MOST_REQUESTS);
        let trial = TRIAL.min(whole);
        client.work(&self.bench, &mut subject, if client.is_of_requests() { WARM_UP } else { trial })?;
        if let Some(outside) = running_outside(&self.emulator, &subject.running()?.processes()).first() {
            bail!("{outside}\n  next: if the program replaces itself by another one (exec), name that one");
        }
        let forget = |subject: &mut Subject| -> Result<()> {
            folder.forget(&subject.running()?.processes())?;
            Ok(())
        };
        forget(&mut subject)?;
        let operations = match operations {
            Some(known) => known,
            None if client.is_fixed() => whole,
            None => {
                client.work(&self.bench, &mut subject, trial)?;
                folder.save(&subject.running()?.processes())?;
                let per_operation = instructions_of_one(folder, trial)?;
                forget(&mut subject)?;
                fitting(per_operation).min(whole)
            }
        };
        client.work(&self.bench, &mut subject, operations)?;
        folder.save(&subject.running()?.processes())?;
        drop(client);
        self.bench.end(subject)?;
        Ok(operations)
    }

    fn client(&self, subject: &mut Subject, arm: &Arm, load: &Workload) -> Result<Client> {
        if load.engine.operations().is_some() {
            return Ok(Client::Command(Box::new(load.clone())));
        }
        let settings = Settings {
            address: subject.running()?.address.clone(),
            variant: arm.name.clone(),
            storage: self.bench.storage.clone(),
            topic: Topic::Fresh,
            lateness_limit_us: self.bench.lateness_limit_us,
            shard: None,
            security: arm.security.clone(),
        };
        Ok(Client::Requests(Box::new(InTurn::prepare(&settings, load)?)))
    }

    fn read(&self, arm: &Arm, folder: &TraceFolder, operations: u64) -> Result<Repetition> {
        let Place::Program(program) = &arm.place else { bail!("{} is no program", arm.name) };
        let left = left_of(folder, &self.emulator, &program.path, None)?;
        let notes = notes_of_traces(&left);
        Ok(Repetition { operations, run: model::of_traces(&left.traces, image), notes })
    }
}

/// Counts as the cost model takes them.
fn effort(counts: &Counts) -> Effort {
    let misses = counts.misses.iter().map(|missed| (missed.structure.clone(), missed.per_operation));
    Effort { instructions: counts.mean(), branches_taken: counts.branches_taken, misses: misses.collect() }
}

/// The source of the operations.
enum Client {
    /// Requests of the load, one after the other.
    Requests(Box<InTurn>),
    /// The load's own command.
    Command(Box<Workload>),
}

impl Client {
    fn work(&mut self, bench: &Bench<'_>, subject: &mut Subject, operations: u64) -> Result<()> {
        match self {
            Self::Requests(requests) => requests.send(operations)?,
            Self::Command(load) => {
                let load = load.with_operations(operations).unwrap_or_else(|| (**load).clone());
                of_use(bench.window(subject, &load)?)?;
            }
        }
        Ok(())
    }

    fn is_of_requests(&self) -> bool {
        matches!(self, Self::Requests(_))
    }

    /// Whether the number of operations is always the same.
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Command(load) if load.with_operations(1).is_none())
    }
}

impl Repetition {
    fn whole(&self) -> Part {
        self.run.whole()
    }

    fn instructions_per_operation(&self) -> f64 {
        self.whole().instructions(&self.run) as f64 / self.operations.max(1) as f64
    }

    fn counts(&self, instructions: Vec<f64>) -> Counts {
        let layout = model::layout(&self.run, &self.whole());
        let per_operation = |per_1000: f64| per_1000 / 1_000.0 * self.instructions_per_operation();
        let misses = layout.misses.into_iter().map(|missed| CountedMisses {
            per_operation: per_operation(missed.per_1000),
            structure: missed.structure,
        });
        Counts {
            operations: self.operations,
            instructions,
            branches_taken: per_operation(layout.taken_per_1000.unwrap_or_default()),
            misses: misses.collect(),
        }
    }
}

impl Tally {
    /// Operations of one repetition.
    pub fn operations(&self) -> u64 {
        self.counts.operations
    }

    /// Instructions per operation.
    pub fn instructions(&self) -> f64 {
        self.counts.mean()
    }

    /// Refuses what does not repeat.
    fn check(&self, name: &str) -> Result<()> {
        let scatter = self.counts.scatter();
        if scatter > MOST_SCATTER {
            bail!(
                "{name} does not repeat: the same work took {} and {} instructions per operation",
                hone_format::measured(self.counts.instructions[0]),
                hone_format::measured(self.counts.instructions[1])
            );
        }
        let objects = model::layout(&self.run, &self.run.whole()).objects;
        let made: f64 =
            objects.iter().filter(|object| object.path.is_none()).map(|object| object.share).sum();
        if made > MOST_MADE {
            bail!(
                "{} of the instructions of {name} are in code that it made while it ran, so their number depends on time",
                hone_format::percent(made)
            );
        }
        Ok(())
    }
}

/// The work, in words.
fn work(workload: &Workload, operations: u64) -> String {
    let count = hone_format::count(operations);
    match workload.engine {
        Engine::Exits { .. } => format!("{count} operations, from the start of the program to its end"),
        Engine::Tool { .. } => format!("{count} operations of the load's command, after a warm-up"),
        _ => format!("{count} requests on one connection, each after the answer to the one before it"),
    }
}

/// Operations with about [`WORK`] instructions: 1, 2 or 5 times a power of ten, so that small differences of the trial don't matter.
fn fitting(instructions_per_operation: u64) -> u64 {
    let wanted = (WORK / instructions_per_operation.max(1)).max(1);
    let steps = (0..=9).flat_map(|power| [1, 2, 5].map(|step| step * 10_u64.pow(power)));
    steps.take_while(|step| *step <= wanted).last().unwrap_or(1)
}

/// Instructions of one operation, by the traces of this many.
fn instructions_of_one(folder: &TraceFolder, operations: u64) -> Result<u64> {
    let run = model::of_traces(&folder.left()?.traces, |_| None);
    match run.whole().instructions(&run) {
        0 => bail!(
            "no instruction of its work was traced\n  next: if the program replaces itself by another one \
             (exec), name that one"
        ),
        all => Ok(all / operations.max(1)),
    }
}

/// Code with another number of instructions. The first repetition has the counts by block.
fn code_changes(a: &Tally, b: &Tally) -> Vec<CodeChange> {
    let code = |tally: &Tally| model::code(&tally.run, |path| fs::read(path).ok());
    model::code_changes((&code(a), a.operations()), (&code(b), b.operations()))
}

/// Removes the traces of programs that ended.
fn forget_files(folder: &TraceFolder) -> Result<()> {
    TraceFolder::create(folder.path()).map(|_| ()).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_operations_follows_from_their_instructions() {
        assert_eq!(fitting(0), 200_000_000);
        assert_eq!(fitting(30_000), 5_000);
        assert_eq!(fitting(41_000), 2_000);
        assert_eq!(fitting(39_000), 5_000, "5,128 would fit");
        assert_eq!((fitting(WORK), fitting(u64::MAX)), (1, 1));
    }
}
