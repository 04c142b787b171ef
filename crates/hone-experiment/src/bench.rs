//! A target under any load: started, filled with data, warmed up, measured once or several times, stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_binary::capture::{self, CaptureRefusal, Dump, HowEnded, Lost, ProfileFiles, Stop};
use hone_load::{Probe as _, ProbeFacts, Settings, Topic};
use hone_record::{
    CpuSeconds, Durability, Engine, Environment, Latencies, MemoryCounted, Outcome, TargetMemory, Window,
    WindowFacts, Workload,
};
use hone_tool::{Call, Finished, Runner, Stopped, ToolError, Usage as Used, interrupt};

use crate::arm::{Arm, Place, Program, Reset, Running, find_program, unknown_in_a_load};
use crate::clients::Clients;
use crate::drive::whole;
use crate::ending::Usage;
use crate::moment::now_unix_ms;
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::warmth::Looker;

/// Starts and loads targets.
pub struct Bench<'a> {
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// Parent of data folders.
    pub scratch: PathBuf,
    /// The targets' durability before an acknowledgement, for the record.
    pub storage: String,
    /// Hone excludes a window whose median request was sent later than this.
    pub lateness_limit_us: f64,
    /// The progress display.
    pub progress: &'a Progress,
}

/// An arm that can be loaded.
pub struct Subject {
    arm: Arm,
    /// `None` if each window starts the program.
    running: Option<Running>,
    /// Whether the warm-up is done.
    is_warm: bool,
    /// Peak memory of the last process that exited.
    held_bytes: Option<u64>,
}

/// An arm that was observed while it was loaded.
pub struct Watched {
    /// Its first burst.
    pub first: Window,
    /// Of all windows.
    pub acked: u64,
    /// Time from the first burst to the last.
    pub length: Duration,
}

/// How to get the profile of an instrumented arm.
pub struct Training {
    /// The profile's path.
    pub files: ProfileFiles,
    /// How to get it from a running program, if the target has no way of its own.
    pub dump: Dump,
    /// How its counters are reset after the warm-up.
    pub reset: Reset,
}

/// The outcome of an arm that never got to its load.
pub const DID_NOT_START: &str = "did not start";

/// Below this CPU time, a user share from ticks is meaningless (as in `hone_host::cpu`).
const SHARE_NEEDS_S: f64 = 0.1;
/// Warm-up requests before each later window of a warm target: connections are new, and other variants have used the caches.
const WARM_AGAIN: u64 = 10;

/// Checks a load of counted operations. The sending crate checks any other load.
///
/// # Errors
/// With the invalid value, or the missing program.
pub fn check(workload: &Workload) -> Result<()> {
    let name = &workload.name;
    let Some(operations) = workload.engine.operations() else {
        return hone_load::check(workload).with_context(|| format!("workload `{name}`"));
    };
    if operations == 0 {
        bail!(Usage(format!(
            "workload `{name}`: operations must be above 0, because Hone prints the CPU per \
             operation"
        )));
    }
    if !(workload.timeout_s > 0.0 && workload.timeout_s <= 86_400.0) {
        bail!(Usage(format!(
            "workload `{name}`: invalid timeout_s {}: use a number from 0 to 86400",
            workload.timeout_s
        )));
    }
    let commands: Vec<(&str, &Vec<String>)> = match &workload.engine {
        Engine::Tool { command, populate, warmup, .. } => {
            let more = [("populate", populate), ("warmup", warmup)];
            let more = more.into_iter().filter_map(|(what, words)| Some((what, words.as_ref()?)));
            std::iter::once(("command", command)).chain(more).collect()
        }
        Engine::Exits { arguments, .. } => vec![("run", arguments)],
        Engine::Wire | Engine::Librdkafka { .. } | Engine::Command { .. } => Vec::new(),
    };
    for (what, words) in commands {
        if let Some(word) = words.iter().find_map(|word| unknown_in_a_load(word)) {
            bail!(Usage(format!(
                "workload `{name}`: unknown placeholder {{{word}}} in its {what}; use {{port}}, {{port2}}, \
                 {{data}}, {{operations}} or {{seed}}"
            )));
        }
        if matches!(workload.engine, Engine::Exits { .. }) {
            continue;
        }
        let empty = || Usage(format!("workload `{name}`: its {what} is empty"));
        let program = words.first().ok_or_else(empty)?;
        // A path with a `/` is relative to the target's folder, which only the arm knows.
        if !program.contains(['/', '{']) {
            find_program(program).ok().with_context(|| {
                format!(
                    "the {what} of workload `{name}`: there is no program `{program}` in PATH\n  next: \
                     install it, or name another one"
                )
            })?;
        }
    }
    Ok(())
}

impl Bench<'_> {
    /// Prepares an arm for a load: starts it and fills it with data, unless the load starts it itself.
    pub fn subject(&self, arm: &Arm, workload: &Workload) -> Result<Subject> {
        if matches!(workload.engine, Engine::Exits { .. }) {
            return Ok(Subject { arm: arm.clone(), running: None, is_warm: true, held_bytes: None });
        }
        let running =
            arm.start(self.runner, &self.scratch).with_context(|| format!("{} {DID_NOT_START}", arm.name))?;
        let mut subject =
            Subject { arm: arm.clone(), running: Some(running), is_warm: false, held_bytes: None };
        if let Engine::Tool { populate: Some(words), .. } = &workload.engine {
            self.once(&mut subject, "populate", words, workload)?;
        }
        Ok(subject)
    }

    /// One window. The first one of a subject has the complete warm-up before it.
    pub fn window(&self, subject: &mut Subject, workload: &Workload) -> Result<Window> {
        self.measured(subject, workload, |_| Ok(()))
    }

    /// One window, with the peak memory of the target's processes that exist from the end of the warm-up to the end of the load.
    /// A process forked for a snapshot starts with the peak of its parent, and exists by chance.
    pub fn window_with_memory(
        &self,
        subject: &mut Subject,
        workload: &Workload,
    ) -> Result<(Window, Option<u64>)> {
        let mut before = Vec::new();
        let window = self.measured(subject, workload, |running| {
            before = running.processes();
            Ok(())
        })?;
        let peak = subject.peak_rss_bytes(&before);
        Ok((window, peak))
    }

    /// Stops a subject.
    pub fn end(&self, subject: Subject) -> Result<Option<Stopped>> {
        let Some(running) = subject.running else { return Ok(None) };
        running.stop(self.runner).with_context(|| format!("stopping {}", subject.arm.name))
    }

    /// One window of an arm that is started and stopped for it.
    ///
    /// # Errors
    /// Also when the window failed.
    pub fn alone(&self, arm: &Arm, workload: &Workload) -> Result<Window> {
        self.alone_to_the_end(arm, workload).map(|(window, _)| window)
    }

    /// As [`Self::alone`], with its end.
    pub fn alone_to_the_end(&self, arm: &Arm, workload: &Workload) -> Result<(Window, Option<Stopped>)> {
        let mut subject = self.subject(arm, workload)?;
        let window = self.window(&mut subject, workload)?;
        let stopped = self.end(subject)?;
        Ok((of_use(window)?, stopped))
    }

    /// One window of an instrumented arm, which is stopped so that it writes its profile. Its counters are reset after the
    /// start-up, the filling and the warm-up, if that is possible.
    ///
    /// # Errors
    /// Also when the window failed, or no profile was written.
    pub fn train(&self, arm: &Arm, workload: &Workload, training: Training) -> Result<(Window, Stop)> {
        let before = training.files.snapshot()?;
        let mut subject = self.subject(arm, workload)?;
        let reset = |running: &mut Running| running.reset(self.runner, training.reset);
        let window = of_use(self.measured(&mut subject, workload, reset)?)?;
        let stop = match subject.running {
            Some(running) => running.stop_with_profile(self.runner, training.files, training.dump)?,
            None => of_one_that_exits(&training.files, &before)?,
        };
        Ok((window, stop))
    }

    /// Windows of an arm in sequence, while it is observed for at least this time. `watch` starts after the filling and the
    /// warm-up. `end` gets the arm's processes after the load, before the arm is stopped. Returns the first window, the number of
    /// acknowledged requests, and the observed time.
    ///
    /// # Errors
    /// Also when a window failed.
    pub fn watched<W>(
        &self,
        arm: &Arm,
        workload: &Workload,
        least: Duration,
        watch: impl FnOnce(&Running) -> Result<W>,
        end: impl FnOnce(W, &[u32]) -> Result<()>,
    ) -> Result<Watched> {
        let mut subject = self.subject(arm, workload)?;
        let mut watching = None;
        let begin = |running: &mut Running| {
            watching = Some((watch(running)?, Instant::now()));
            Ok(())
        };
        let first = of_use(self.measured(&mut subject, workload, begin)?)?;
        let mut acked = first.facts.acked_requests;
        let (watcher, begun) = watching.context("this load starts its target itself")?;
        while begun.elapsed() < least {
            acked += of_use(self.window(&mut subject, workload)?)?.facts.acked_requests;
        }
        let length = begun.elapsed();
        end(watcher, &subject.running()?.processes())?;
        self.end(subject)?;
        Ok(Watched { first, acked, length })
    }

    /// A window with a step of the caller between the warm-up and the measurement.
    fn measured(
        &self,
        subject: &mut Subject,
        workload: &Workload,
        between: impl FnOnce(&mut Running) -> Result<()>,
    ) -> Result<Window> {
        let name = subject.arm.name.clone();
        match &workload.engine {
            Engine::Exits { arguments, operations } => {
                self.of_program(subject, workload, arguments, *operations)
            }
            Engine::Tool { command, warmup, operations, .. } => {
                if let Some(words) = warmup.as_ref().filter(|_| !subject.is_warm) {
                    self.once(subject, "warmup", words, workload)?;
                }
                subject.is_warm = true;
                let running = subject.running()?;
                between(running)?;
                self.of_tool(&name, running, workload, command, *operations)
            }
            Engine::Wire | Engine::Librdkafka { .. } | Engine::Command { .. } => {
                self.of_requests(subject, workload, between)
            }
        }
        .with_context(|| format!("{name} under workload `{}`", workload.name))
    }

    /// A command that runs once per start of a target.
    fn once(&self, subject: &mut Subject, step: &str, words: &[String], workload: &Workload) -> Result<()> {
        let name = subject.arm.name.clone();
        let running = subject.running()?;
        let call = self.call(running, &format!("{step}-{name}"), words, workload)?;
        self.progress.detail(&format!("{step} {name}"));
        let ran = self.runner.run(&call).map_err(refused_as_usage);
        running.check_alive().with_context(|| format!("{name}, {step} of workload `{}`", workload.name))?;
        ran.with_context(|| format!("the {step} of workload `{}` for {name}", workload.name))?;
        Ok(())
    }

    fn call(&self, running: &Running, step: &str, words: &[String], workload: &Workload) -> Result<Call> {
        let operations = workload.engine.operations().unwrap_or_default().to_string();
        let more = [("operations", operations), ("seed", workload.seed.to_string())];
        Ok(running.call(step, words, &more)?.limit(Duration::from_secs_f64(workload.timeout_s)))
    }

    /// A window of exactly the command's duration.
    fn of_tool(
        &self,
        name: &str,
        running: &mut Running,
        workload: &Workload,
        command: &[String],
        operations: u64,
    ) -> Result<Window> {
        running.child().context("its load is a command, which needs a program that Hone starts")?;
        let call = self.call(running, &format!("load-{name}"), command, workload)?;
        self.progress.detail(&format!("loading {name}"));
        let targets = running.targets(&BTreeMap::new());
        if let Some(why) = targets.missing.as_ref().filter(|_| targets.pids.is_empty()) {
            bail!(Usage(format!(
                "can't measure the CPU of {name}: {why}\n  next: start the server itself, in the foreground"
            )));
        }
        let mut probe = TargetProbe::new(targets, &[]).beside(running.meter()?);
        let started_unix_ms = now_unix_ms();
        probe.start();
        let ran = self.runner.run(&call);
        let seen = probe.stop();
        // If it exited, that is the reason why its command failed.
        running.check_alive()?;
        if let Err(error @ ToolError::Refused { .. }) = ran {
            return Err(refused_as_usage(error));
        }
        let done = Done::of(ran, "the command of its load")?;
        let is_idle = seen.target_cpu.is_some_and(|cpu| cpu.total_s <= 0.0);
        let mut window = self.of_operations(name, workload, operations, &done, seen, started_unix_ms);
        window.address.clone_from(&running.address);
        window.facts.generator_cpu = cpu_of(done.used);
        if matches!(window.outcome, Outcome::Steady) && is_idle {
            let reason = "it used no CPU during its load, so the load did not reach it".to_owned();
            window.outcome = Outcome::Failed { reason };
        }
        probe.describe_machine(&mut window);
        Ok(window)
    }

    /// A window over the life of a program. The kernel reports its CPU when it is reaped.
    fn of_program(
        &self,
        subject: &mut Subject,
        workload: &Workload,
        arguments: &[String],
        operations: u64,
    ) -> Result<Window> {
        let name = &subject.arm.name.clone();
        let program = subject.program()?;
        let words: Vec<String> = arguments
            .iter()
            .map(|word| {
                word.replace("{operations}", &operations.to_string())
                    .replace("{seed}", &workload.seed.to_string())
            })
            .collect();
        let (call, _, _data) = program.made_ready(name, &words, self.runner, &self.scratch)?;
        let call = call.limit(Duration::from_secs_f64(workload.timeout_s));
        self.progress.detail(&format!("running {name}"));
        let mut probe = TargetProbe::of_a_reaped_child();
        let started_unix_ms = now_unix_ms();
        probe.start();
        let ran = self.runner.run(&call);
        let seen = probe.stop();
        let done = Done::of(ran, "it")?;
        subject.held_bytes = done.failure.is_none().then_some(done.used.max_rss_bytes);
        let ended_well = done.failure.is_none();
        let seen = ProbeFacts {
            target_cpu: ended_well.then(|| cpu_of(done.used)),
            target_memory: ended_well.then(|| memory_of(done.used)),
            ..seen
        };
        let mut window = self.of_operations(name, workload, operations, &done, seen, started_unix_ms);
        probe.describe_machine(&mut window);
        Ok(window)
    }

    fn of_operations(
        &self,
        name: &str,
        workload: &Workload,
        operations: u64,
        done: &Done,
        seen: ProbeFacts,
        started_unix_ms: u64,
    ) -> Window {
        let duration_s = done.took.as_secs_f64().max(f64::MIN_POSITIVE);
        let acked = if done.failure.is_none() { operations } else { 0 };
        let facts = WindowFacts {
            requests: operations,
            acked_requests: acked,
            acked_records: acked,
            reached_requests_per_s: acked as f64 / duration_s,
            target_cpu: seen.target_cpu,
            steal_share: seen.steal_share,
            others_share: seen.others_share,
            target_memory: seen.target_memory,
            throttling: seen.throttling,
            target_busy: seen.target_busy,
            ..WindowFacts::default()
        };
        Window {
            variant: name.to_owned(),
            address: String::new(),
            workload: workload.clone(),
            durability: Durability { acks: workload.acks, storage: self.storage.clone() },
            started_unix_ms,
            duration_s,
            outcome: match &done.failure {
                None => Outcome::Steady,
                Some(reason) => Outcome::Failed { reason: reason.clone() },
            },
            facts,
            latencies: Latencies::default(),
            series: Vec::new(),
            end_to_end: None,
            batches: Vec::new(),
            split: None,
            events: Vec::new(),
            environment: Some(Environment::default()),
            shard: None,
            client: None,
            requirements: Vec::new(),
            outage: None,
        }
    }

    /// A window of requests at scheduled times.
    fn of_requests(
        &self,
        subject: &mut Subject,
        workload: &Workload,
        between: impl FnOnce(&mut Running) -> Result<()>,
    ) -> Result<Window> {
        let warmup_requests = match subject.is_warm {
            false => workload.warmup_requests,
            true => workload.warmup_requests.div_ceil(WARM_AGAIN),
        };
        let load = Workload { warmup_requests, ..workload.clone() };
        let settings = Settings {
            address: subject.running()?.address.clone(),
            variant: subject.arm.name.clone(),
            storage: self.storage.clone(),
            topic: Topic::Fresh,
            lateness_limit_us: self.lateness_limit_us,
            shard: None,
            security: subject.arm.security.clone(),
        };
        let clients = Clients::within(self.runner, self.scratch.clone());
        let mut prepared = hone_load::prepare(settings, load, &clients, &mut self.progress.load())?;
        let running = subject.running()?;
        let targets = running.targets(prepared.brokers());
        prepared.warm_up(&mut Looker::at(&targets.pids), &mut self.progress.load())?;
        subject.is_warm = true;
        let running = subject.running()?;
        between(running)?;
        // A running broker is not a child, but its CPU still does not belong to the others.
        let foreign = if running.child().is_some() { Vec::new() } else { targets.pids.clone() };
        let mut probe = TargetProbe::new(targets, &foreign).beside(running.meter()?);
        let mut window = whole(prepared.run(Instant::now(), &mut probe, &mut self.progress.load())?)?;
        probe.describe_machine(&mut window);
        running.check_alive()?;
        Ok(window)
    }
}

impl Subject {
    /// Text with its placeholders filled in.
    pub fn fill(&self, text: &str) -> String {
        self.running.as_ref().map_or_else(|| text.to_owned(), |running| running.fill(text))
    }

    /// The peak memory of its processes that existed `before`, each measured alone and added up: shared memory counts in each.
    /// For a program that exits, the last run. The kernel counts from its fork on, so a program smaller than Hone appears as
    /// large as Hone.
    fn peak_rss_bytes(&self, before: &[u32]) -> Option<u64> {
        let alive = self.running.as_ref().map(Running::processes).unwrap_or_default();
        let lasting = alive.into_iter().filter(|process| before.contains(process));
        let peaks: Vec<u64> = lasting.filter_map(hone_host::memory::peak_rss_bytes).collect();
        self.held_bytes.or_else(|| (!peaks.is_empty()).then(|| peaks.iter().sum()))
    }

    /// Time until it was ready; `None` if each window starts it.
    pub fn start_up(&self) -> Option<Duration> {
        self.running.as_ref().and_then(Running::start_up)
    }

    /// Its processes; none if each window starts it.
    pub fn processes(&self) -> Vec<u32> {
        self.running.as_ref().map(Running::processes).unwrap_or_default()
    }

    /// The target, which must still run.
    pub fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("this load needs a target that keeps running, but this one exits")
    }

    fn program(&self) -> Result<&Program> {
        match &self.arm.place {
            Place::Program(program) => Ok(program),
            Place::Address(address) => {
                bail!("{address} runs already, but a load that starts its target needs a program")
            }
        }
    }
}

/// The end of a window's command.
struct Done {
    took: Duration,
    used: Used,
    /// Why nothing was measured.
    failure: Option<String>,
}

impl Done {
    /// A command that fails is a result. A command that could not be started, or was interrupted, is not.
    fn of(ran: Result<Finished, ToolError>, who: &str) -> Result<Self> {
        let failed =
            |failure: String| Self { took: Duration::ZERO, used: Used::default(), failure: Some(failure) };
        match ran {
            Ok(finished) => Ok(Self { took: finished.took, used: finished.usage, failure: None }),
            Err(_) if interrupt::requested() => bail!("interrupted"),
            Err(ToolError::Failed { scene, status }) => {
                let said =
                    scene.stderr.last().map(|line| format!(", last line: \"{line}\"")).unwrap_or_default();
                let log = scene.log.map(|log| format!("; log: {}", log.display())).unwrap_or_default();
                Ok(failed(format!("{who} ended ({}){said}{log}", HowEnded::from(status))))
            }
            Err(ToolError::TimedOut { limit, .. }) => {
                Ok(failed(format!("{who} did not end within {} s", limit.as_secs_f64())))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A command of the load that can't be started is a wrong setting, and no fault of the target.
fn refused_as_usage(error: ToolError) -> anyhow::Error {
    match error {
        ToolError::Refused { .. } => Usage(error.to_string()).into(),
        error => error.into(),
    }
}

fn cpu_of(used: Used) -> CpuSeconds {
    let total_s = used.total().as_secs_f64();
    let user_share = (total_s >= SHARE_NEEDS_S).then(|| used.user.as_secs_f64() / total_s);
    CpuSeconds { total_s, user_share }
}

/// From `wait4`: the largest of the program and of its children that it waited for.
fn memory_of(used: Used) -> TargetMemory {
    TargetMemory {
        peak_bytes: used.max_rss_bytes,
        mean_bytes: None,
        samples: 1,
        counted: MemoryCounted::AtExit,
    }
}

/// The error for a failed window that can't be replaced by another one.
pub fn of_use(window: Window) -> Result<Window> {
    match &window.outcome {
        Outcome::Failed { reason } => {
            bail!("{} failed under workload `{}`: {reason}", window.variant, window.workload.name)
        }
        _ => Ok(window),
    }
}

/// The profile files of a program that exited.
fn of_one_that_exits(files: &ProfileFiles, before: &capture::Snapshot) -> Result<Stop> {
    let after = files.snapshot()?;
    let ended = HowEnded::Code(0);
    let wrote = capture::changes(before, &after).iter().any(capture::FileChange::wrote);
    if !wrote {
        let what = format!("no .{} file", files.kind.ending());
        let refusal = CaptureRefusal::NothingWritten { ended, what, kind: files.kind };
        return Err(hone_binary::Refusal::from(refusal).into());
    }
    Ok(Stop { rungs: Vec::new(), ended, files: after.into_keys().collect(), lost: Lost::Nothing })
}

#[cfg(test)]
pub(crate) mod tests;
