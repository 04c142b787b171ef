//! Measures a running process for some seconds: counters where there are any, samples where perf may take them, and in any case the
//! kernel's figures about its threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_diagnose::perf::{GeneratedCode, Samples};
use hone_diagnose::{topdown, verdict};
use hone_host::HostError;
use hone_host::threads::{self, ThreadUse, Threads, Used, Who};
use hone_jvm::threads::Purpose;
use hone_record::{Diagnosed, Diagnosis, Evidence, PmuState, Remedy, Watched, WatchedThread};
use hone_tool::{Call, Readiness, Runner, Session, StopSignal, Tool, ToolError, interrupt};

use super::found::Found;
use super::jcmd::{Jcmd, is_jvm, seen_here};
use super::sampled::{
    KERNEL_FIRST, MOST_THREADS, bound, code_split, described, next, notes_of_samples, read, share_of_kernel,
    together, user_share,
};
use hone_experiment::emulated::image;
use hone_experiment::folder::RunFolder;
use hone_experiment::progress::Progress;

/// Samples per second of each busy thread. The odd number avoids beats with periodic work.
const FREQUENCY_HZ: &str = "999";
/// perf opens a counter for each thread and core before it samples.
const PERF_STARTS: Duration = Duration::from_secs(30);
/// perf writes its data at its end.
const PERF_ENDS: Duration = Duration::from_secs(30);
/// Interval of the thread statistics. It is short, so that little is lost of a process that ends.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Share of the window. Below it, a process is idle.
const IDLE: f64 = 0.01;
/// From this share of the CPU on, a service is not warm yet: a warm Kafka broker compiles less than 5 %.
const COMPILES: f64 = 0.2;
/// From this share on, the collector is the first thing to look at (Oracle's GC tuning guide takes 5 % as a usual goal).
const COLLECTS: f64 = 0.1;
/// The emulator starts a program. It can't attach to one.
const EMULATED: &str = "`hone diagnose hone.toml`, or `hone diagnose -- COMMAND`";

/// A process that can be measured.
pub struct Process {
    pid: u32,
    program: PathBuf,
}

impl Process {
    /// Finds out the owner of a process.
    ///
    /// # Errors
    /// Fails when the process does not exist, is a kernel thread, has ended, or belongs to another user. The error says what to do.
    pub fn look(pid: u32) -> Result<Self> {
        match threads::who(Path::new("/"), pid) {
            Ok(Who::Program(program)) => Ok(Self { pid, program }),
            Ok(Who::Kernel) => bail!(
                "process {pid} is a kernel thread and runs no program\n  next: name a program's process \
                 (`pidof NAME`)"
            ),
            Ok(Who::Zombie) => bail!(
                "process {pid} has ended, but its parent has not waited for it yet\n  next: start it again, \
                 and name its new number"
            ),
            Ok(Who::Foreign) => bail!(
                "process {pid} belongs to another user, so Hone can't measure it\n  next: run Hone as that \
                 user, or as root"
            ),
            Err(HostError::Vanished { .. }) => bail!(
                "there is no process {pid}\n  next: find its number (`pidof NAME`, or `ss -ltnp` for a port)"
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// A name for the folder of the run.
    pub fn name(&self) -> String {
        let name =
            self.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.trim_end_matches(" (deleted)");
        name.chars()
            .map(|sign| if sign.is_ascii_alphanumeric() || "-_.".contains(sign) { sign } else { '_' })
            .collect()
    }

    /// Files as the process sees them, because it may live in a container.
    fn image(&self, path: &str) -> Option<hone_diagnose::image::Image> {
        image(&format!("/proc/{}/root{path}", self.pid)).or_else(|| image(path))
    }
}

/// The figures of a process.
struct Seen {
    used: Used,
    /// The process ended early.
    has_ended: bool,
    samples: Option<Samples>,
    slots: topdown::Output,
    notes: Vec<String>,
}

/// Measures a process for some time, and reports what it did.
///
/// # Errors
/// Fails when the process ends before any figure, or when Hone is interrupted. Hone then ends perf, too.
pub fn of_process(
    runner: &dyn Runner,
    folder: &RunFolder,
    process: &Process,
    window: Duration,
    progress: &Progress,
) -> Result<Found> {
    let seen = seen(runner, folder, process, window, progress)?;
    let is_whole = !seen.has_ended;
    let diagnosis = diagnosis(process, &seen, window);
    let record = folder.write_record("diagnosis.json", diagnosis.clone())?;
    Ok(Found { diagnosis, operations: None, is_whole, record })
}

fn seen(
    runner: &dyn Runner,
    folder: &RunFolder,
    process: &Process,
    window: Duration,
    progress: &Progress,
) -> Result<Seen> {
    let mut notes = Vec::new();
    let perf = Perf::find(runner, folder, process.pid, &mut notes);
    let state = hone_host::pmu::probe();
    progress.line(&format!("Evidence: {}", position(perf.is_some(), state)));
    let mut recording =
        perf.as_ref().map(|perf| perf.record()).transpose()?.and_then(|began| kept(began, &mut notes));
    let counts = matches!(state, PmuState::Counters | PmuState::CountersAndBranches);
    let counting = match perf.as_ref().filter(|_| counts) {
        Some(perf) => kept(perf.count(window)?, &mut notes),
        None => None,
    };
    let (used, has_ended) = looked_at(process.pid, window, progress)?;
    let data = recording.take().map(|session| ended(session, "perf record", &mut notes)).transpose()?;
    let counted = counting.map(|session| counted(session, window, &mut notes)).transpose()?;
    let mut samples = match (&perf, data) {
        (Some(perf), Some(())) => read(&perf.data()).map_err(|error| notes.push(format!("{error:#}"))).ok(),
        _ => None,
    };
    if let Some(samples) = &mut samples {
        match generated(runner, process.pid, &std::path::absolute(folder.path())?) {
            Ok(code) => drop(code.map(|code| samples.generated.insert(process.pid, code))),
            Err(why) => notes.push(format!("code that the virtual machine made has no names: {why}")),
        }
    }
    let slots = match (&perf, counted) {
        (Some(perf), Some(())) => slots(&perf.slots(), &mut notes),
        _ => topdown::Output::default(),
    };
    if !counts {
        notes.push(format!("not measured: {}", why_not(state)));
    }
    Ok(Seen { used, has_ended, samples, slots, notes })
}

/// The best available evidence, chosen before the measurement.
fn position(has_perf: bool, state: PmuState) -> &'static str {
    match (has_perf, state) {
        (true, PmuState::Counters | PmuState::CountersAndBranches) => Evidence::Measured.label(),
        (true, _) => Evidence::Sampled.label(),
        (false, _) => Evidence::Threads.label(),
    }
}

fn why_not(state: PmuState) -> &'static str {
    match state {
        PmuState::Forbidden => {
            "this user may not open hardware counters (that needs kernel.perf_event_paranoid 2 or less, or \
             CAP_PERFMON)"
        }
        _ => "this machine has no hardware counters, or does not expose them",
    }
}

/// A tool that does not start is a note.
fn kept(began: Result<Session, String>, notes: &mut Vec<String>) -> Option<Session> {
    began.map_err(|said| notes.push(said)).ok()
}

/// Reads the threads until the time is over, or the process has ended.
fn looked_at(pid: u32, window: Duration, progress: &Progress) -> Result<(Used, bool)> {
    let root = Path::new("/");
    let gone = || {
        format!(
            "process {pid} ended before Hone measured anything\n  next: start it again under its load, and \
             name its new number"
        )
    };
    let before = threads::sample(root, pid).with_context(gone)?;
    let (start, mut last): (Instant, Option<Threads>) = (Instant::now(), None);
    loop {
        let left = window.saturating_sub(start.elapsed());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(LOOK_EVERY));
        if interrupt::requested() {
            bail!(
                "interrupted while measuring process {pid}; Hone stopped perf and kept nothing\n  next: run \
                 it again, perhaps with a shorter --duration"
            );
        }
        progress.detail(&format!("{:.0} of {} s", start.elapsed().as_secs_f64(), window.as_secs()));
        match threads::sample(root, pid) {
            Ok(now) => last = Some(now),
            Err(HostError::Vanished { .. }) => {
                let last = last.with_context(gone)?;
                return Ok((threads::between(&before, &last), true));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((threads::between(&before, &last.with_context(gone)?), false))
}

/// perf, for one process.
struct Perf<'a> {
    runner: &'a dyn Runner,
    program: PathBuf,
    folder: PathBuf,
    pid: u32,
}

impl<'a> Perf<'a> {
    /// A missing perf is a note, not an error: the kernel provides a part of the figures without it.
    fn find(runner: &'a dyn Runner, folder: &RunFolder, pid: u32, notes: &mut Vec<String>) -> Option<Self> {
        let folder = std::path::absolute(folder.path()).ok()?;
        match Tool::new("perf", "HONE_PERF").debian("linux-perf").locate(&[]) {
            Ok(found) => Some(Self { runner, program: found.path().to_owned(), folder, pid }),
            Err(error) => {
                notes.push(format!("no samples: {error}"));
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("perf.data")
    }

    fn slots(&self) -> PathBuf {
        self.folder.join("slots.json")
    }

    fn call(&self, step: &str, words: &[&str]) -> Call {
        // Numbers with decimal points in every locale.
        Call::new(step, &self.program, &self.folder).env("LC_ALL", "C").args(words.iter().copied())
    }

    /// Clock samples, which need no counter, in user mode and in the kernel. The inner error is why there are none.
    fn record(&self) -> Result<Result<Session, String>> {
        let words = ["record", "-N", "--buildid-all", "-e", "cpu-clock", "-F", FREQUENCY_HZ, "-o"];
        let call = self.call("perf-record", &words).arg(self.data()).arg("-p").arg(self.pid.to_string());
        self.begins(&call, Some(&self.data()))
    }

    /// Slots by counters per thread, in the vendor's groups.
    fn count(&self, window: Duration) -> Result<Result<Session, String>> {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let seconds = window.as_secs().to_string();
        let pid = self.pid.to_string();
        let words = ["stat", "-j", "--per-thread", "-p", &pid, "-M", groups(&cpu), "-o"];
        let call = self.call("perf-stat", &words).arg(self.slots()).args(["--", "sleep", &seconds]);
        self.begins(&call, None)
    }

    /// Starts perf. The first bytes of the file `head` show that perf is sampling.
    fn begins(&self, call: &Call, head: Option<&Path>) -> Result<Result<Session, String>> {
        let mut session = self.runner.start(call)?;
        let looks_on = || match head.map(Path::metadata) {
            Some(Ok(facts)) if facts.len() > 0 => Readiness::Ready,
            None => Readiness::Ready,
            Some(_) => Readiness::NotYet("its data has no header yet".to_owned()),
        };
        match session.wait_until(PERF_STARTS, looks_on) {
            Ok(()) => Ok(Ok(session)),
            Err(error) if interrupt::requested() => Err(error.into()),
            Err(error) => Ok(Err(refused(call.step(), &error))),
        }
    }
}

/// AMD's groups have other names.
fn groups(cpuinfo: &str) -> &'static str {
    if cpuinfo.contains("AuthenticAMD") { "PipelineL1,PipelineL2" } else { "TopdownL1,TopdownL2" }
}

/// perf's message, and the permissions that it needs.
fn refused(step: &str, error: &ToolError) -> String {
    let said = match error {
        ToolError::Died { scene, .. } => {
            let lines = scene.stderr.iter().map(|line| line.trim());
            lines.filter(|line| !line.is_empty() && *line != "Error:").take(2).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    format!(
        "{step} failed: {said}; kernel.perf_event_paranoid is {}; perf needs 2 or less for user code, and 1 \
         or less for the kernel (sysctl -w kernel.perf_event_paranoid=1; in a container CAP_PERFMON, and a \
         seccomp profile that lets perf_event_open through)",
        if level.trim().is_empty() { "unknown" } else { level.trim() }
    )
}

/// Ends perf, which then writes its data. perf ends by itself if the process has ended.
fn ended(mut session: Session, what: &str, notes: &mut Vec<String>) -> Result<()> {
    if session.try_exit()?.is_none() && session.stop(PERF_ENDS)?.signal == StopSignal::Kill {
        notes.push(format!(
            "{what} did not end within {} s of its signal: its data may be truncated",
            PERF_ENDS.as_secs()
        ));
    }
    Ok(())
}

/// perf stat ends by its own clock.
fn counted(mut session: Session, window: Duration, notes: &mut Vec<String>) -> Result<()> {
    if session.wait_end(window.min(PERF_ENDS), Duration::ZERO)?.is_none() {
        return ended(session, "perf stat", notes);
    }
    Ok(())
}

fn slots(path: &Path, notes: &mut Vec<String>) -> topdown::Output {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    match topdown::read(&text) {
        Ok(output) => {
            notes.extend(output.notes.iter().cloned());
            output
        }
        Err(error) => {
            notes.push(format!("no slots: {error}"));
            topdown::Output::default()
        }
    }
}

fn diagnosis(process: &Process, seen: &Seen, window: Duration) -> Diagnosis {
    let program = process.program.to_string_lossy().into_owned();
    let mut notes = Vec::new();
    if seen.has_ended {
        notes.push(format!(
            "process {} ended after {:.1} of {} s: the figures cover only that time",
            process.pid,
            seen.used.window_s,
            window.as_secs()
        ));
    }
    let cpu_s: f64 = seen.used.threads.iter().map(|thread| thread.cpu_s).sum();
    if cpu_s < IDLE * seen.used.window_s {
        notes.push(format!(
            "the process used {cpu_s:.3} s of CPU, so it was idle; load it during the measurement"
        ));
    }
    if seen.used.ended > 0 {
        notes.push(format!(
            "{} threads ended during the measurement: Hone has only samples of them",
            seen.used.ended
        ));
    }
    notes.extend(seen.notes.iter().cloned());
    let mut watched = match &seen.samples {
        Some(samples) => {
            let run = samples.run(|path| process.image(path));
            notes.extend(samples.notes.iter().cloned());
            notes.extend(notes_of_samples(samples, &run));
            described(samples, &run, Some(&program))
        }
        None => Watched { program: Some(program.clone()), ..Watched::default() },
    };
    let whole = watched.samples;
    let user_share =
        seen.samples.as_ref().zip(whole).and_then(|(samples, whole)| user_share(samples, &whole));
    let system_s: f64 = seen.used.threads.iter().map(|thread| thread.system_s).sum();
    let by_ticks = (cpu_s >= IDLE * seen.used.window_s).then(|| (system_s / cpu_s).min(1.0));
    let kernel = whole.and_then(|whole| share_of_kernel(&whole)).or(by_ticks);
    watched.pid = Some(process.pid);
    watched.window_s = seen.used.window_s;
    watched.reads_and_writes = seen.used.reads_and_writes;
    watched.threads = merged(&seen.used, seen.samples.as_ref(), &program);
    if is_jvm(process.pid) {
        watched.groups = groups_of_jvm(&watched.threads);
    }
    bound(&mut watched.threads);
    watched.next = match watched.groups.is_empty() {
        true => next(kernel, EMULATED),
        false => next_of_jvm(&watched.groups, kernel),
    };
    let parts = parts(&seen.slots, &watched.threads, user_share, &mut notes);
    Diagnosis {
        evidence: match (&seen.samples, parts.is_empty()) {
            (_, false) => Evidence::Measured,
            (Some(_), true) => Evidence::Sampled,
            (None, true) => Evidence::Threads,
        },
        source: format!("process {} ({program}), {:.1} s", process.pid, seen.used.window_s),
        user_share,
        parts,
        shifts: Vec::new(),
        watched: Some(watched),
        notes,
    }
}

/// Names of the code that the process made: of a file that it wrote by itself, or that a Java virtual machine writes when it is asked.
fn generated(runner: &dyn Runner, pid: u32, folder: &Path) -> Result<Option<GeneratedCode>, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // Its number in its own container.
    let own = status.lines().find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last());
    let path = PathBuf::from(format!("/tmp/perf-{}.map", own.unwrap_or(&pid.to_string())));
    let here = seen_here(pid, &path);
    let existed = here.exists();
    if is_jvm(pid) {
        Jcmd::find(runner, pid, folder)?.say(&["Compiler.perfmap"])?;
    } else if !existed {
        return Ok(None);
    }
    let text = fs::read(&here).map_err(|error| format!("{} can't be read: {error}", here.display()))?;
    if !existed {
        let _ = fs::remove_file(&here);
    }
    Ok(Some(GeneratedCode::parse(&String::from_utf8_lossy(&text))))
}

/// Threads of a Java virtual machine by purpose, the busiest first.
fn groups_of_jvm(threads: &[WatchedThread]) -> Vec<WatchedThread> {
    let mut by_purpose: BTreeMap<Purpose, Vec<WatchedThread>> = BTreeMap::new();
    for thread in threads {
        by_purpose.entry(Purpose::from_name(&thread.name)).or_default().push(thread.clone());
    }
    let mut groups: Vec<WatchedThread> =
        by_purpose.into_iter().map(|(purpose, all)| together(purpose.label(), all.into_iter())).collect();
    bound(&mut groups);
    groups
}

/// What to do about a Java virtual machine: its own work first.
fn next_of_jvm(groups: &[WatchedThread], kernel: Option<f64>) -> String {
    let all: f64 = groups.iter().filter_map(|group| group.cpu_s).sum();
    let share = |purposes: &[Purpose]| {
        let is_one = |group: &&WatchedThread| purposes.iter().any(|purpose| purpose.label() == group.name);
        groups.iter().filter(is_one).filter_map(|group| group.cpu_s).sum::<f64>() / all.max(1e-9)
    };
    if share(&[Purpose::FirstCompiler, Purpose::SecondCompiler]) >= COMPILES {
        return "it still compiles: measure it when it is warm; a cache shortens that (docs/jvm.md)"
            .to_owned();
    }
    if share(&[Purpose::Collector]) >= COLLECTS {
        return "the collector: compare another heap or collector (docs/jvm.md)".to_owned();
    }
    match kernel {
        Some(share) if share >= KERNEL_FIRST => Remedy::Kernel.advice().to_owned(),
        _ => "its hottest methods; `hone diagnose --tail` explains its slowest requests".to_owned(),
    }
}

/// The kernel's figures of each thread, with its samples. Threads that ended have samples only.
fn merged(used: &Used, samples: Option<&Samples>, program: &str) -> Vec<WatchedThread> {
    let of_kernel = |thread: &ThreadUse| WatchedThread {
        name: thread.name.clone(),
        tid: Some(thread.tid),
        threads: 1,
        cpu_s: Some(thread.cpu_s),
        system_s: Some(thread.system_s),
        queued_s: thread.queued_s,
        switches_voluntary: thread.switches_voluntary,
        switches_involuntary: thread.switches_involuntary,
        page_faults: Some(thread.page_faults),
        samples: None,
    };
    let mut threads: Vec<WatchedThread> = used.threads.iter().map(of_kernel).collect();
    for thread in samples.map_or([].as_slice(), |samples| &samples.threads) {
        let split = samples.map(|samples| code_split(samples, samples.split(thread, Some(program))));
        match threads.iter_mut().find(|known| known.tid == Some(thread.tid)) {
            Some(known) => known.samples = split,
            None => threads.push(WatchedThread {
                name: thread.name.clone(),
                tid: Some(thread.tid),
                threads: 1,
                samples: split,
                ..WatchedThread::default()
            }),
        }
    }
    threads
}

/// Slots of the busy threads, busiest first. Slots of sleeping threads are unreliable and say nothing.
fn parts(
    output: &topdown::Output,
    threads: &[WatchedThread],
    user_share: Option<f64>,
    notes: &mut Vec<String>,
) -> Vec<Diagnosed> {
    let mut parts: Vec<(usize, Diagnosed)> = Vec::new();
    for (scope, judged) in topdown::judge(output) {
        // perf identifies a thread by name and number.
        let number = scope.as_deref().and_then(|scope| scope.rsplit('-').next()?.parse::<u32>().ok());
        let place = threads.iter().position(|thread| number.is_some() && thread.tid == number);
        match (judged, place) {
            (Ok(slots), place) => {
                let verdict = Some(verdict::of_slots(&slots, user_share));
                let part = Diagnosed { slots: Some(slots), verdict, ..Diagnosed::empty(scope) };
                parts.push((place.unwrap_or(MOST_THREADS), part));
            }
            (Err(fault), Some(0)) => {
                notes.push(format!("Hone rejects the slots of the busiest thread: {fault}"))
            }
            (Err(_), _) => {}
        }
    }
    parts.sort_by_key(|(place, _)| *place);
    parts.into_iter().map(|(_, part)| part).take(MOST_THREADS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_in_the_order_of_the_threads_and_only_of_busy_ones() {
        let line = |thread: &str, value: &str, name: &str| {
            format!(
                "{{\"thread\" : \"{thread}\", \"metric-value\" : \"{value}\", \"metric-unit\" : \"%  tma_{name}\"}}\n"
            )
        };
        let names = ["frontend_bound", "bad_speculation", "backend_bound", "retiring"];
        let of = |thread: &str, values: [&str; 4]| -> String {
            names.iter().zip(values).map(|(name, value)| line(thread, value, name)).collect()
        };
        let text = of("io-2", ["10.0", "10.0", "60.0", "20.0"])
            + &of("idle-9", ["nan", "nan", "nan", "nan"])
            + &of("reactor-0-1", ["50.0", "10.0", "10.0", "30.0"]);
        let output = topdown::read(&text).unwrap();
        let thread = |tid| WatchedThread { tid: Some(tid), ..WatchedThread::default() };
        let mut notes = Vec::new();
        let parts = parts(&output, &[thread(1), thread(2)], Some(0.5), &mut notes);
        let scopes: Vec<_> = parts.iter().map(|part| part.scope.clone().unwrap()).collect();
        assert_eq!((scopes, notes.len()), (vec!["reactor-0-1".to_owned(), "io-2".to_owned()], 0));
        assert_eq!(parts[0].verdict.as_ref().unwrap().ceiling_percent, Some(25.0));
    }

    #[test]
    fn a_vendor_has_its_groups() {
        assert_eq!(groups("vendor_id\t: AuthenticAMD\n"), "PipelineL1,PipelineL2");
        assert_eq!(groups("vendor_id\t: GenuineIntel\n"), "TopdownL1,TopdownL2");
    }

    #[test]
    fn whose_process_it_is_decides_before_anything_is_begun() {
        let error = |pid| Process::look(pid).err().unwrap().to_string();
        assert!(error(1 << 23).contains("there is no process 8388608"), "{}", error(1 << 23));
        let own = Process::look(std::process::id()).unwrap();
        assert!(!own.name().is_empty());
    }
}
