//! Where the slowest requests come from: a load whose requests keep their times, and a watch over the target that knows when it stood still.

mod pauses;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_diagnose::tail::{self, Request};
use hone_experiment::aim::{Aim, Beside};
use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::load_file::LoadFile;
use hone_experiment::meter::Metrics;
use hone_experiment::progress::Progress;
use hone_experiment::run_context::shown_runner;
use hone_experiment::targets::Targets;
use hone_host::observe;
use hone_host::stalls::{self, Stalls, Waited};
use hone_jvm::pauses::{LogTime, Pause, PauseLog};
use hone_load::{RawFile, Security, Settings, Topic};
use hone_record::{Outcome, SlowRequest, StallKind, TailAccount, TailCause, TailWatch, Window, Workload};
use hone_tool::Runner;

use super::jcmd::is_jvm;
use pauses::PauseWatch;

/// Slow requests in the record.
const MOST_SLOW: usize = 10_000;
/// Stalls of a cause in the record: the longest.
const MOST_STALLS: usize = 1_000;

/// Length of a window that nobody gave one.
const USUAL_S: f64 = 30.0;
/// From this lateness of the generator on, a window says nothing, as for `hone load`.
const LATENESS_LIMIT_US: f64 = 50_000.0;

/// The request of a user.
#[derive(Debug)]
pub struct TailSettings<'a> {
    /// The broker, `HOST:PORT`.
    pub broker: &'a str,
    /// Its login.
    pub security: Security,
    /// The process behind it.
    pub pid: Option<u32>,
    /// A file with the load.
    pub load: Option<&'a Path>,
    /// Requests per second, in place of the file's.
    pub rate: Option<f64>,
    /// Length of the window in seconds, in place of the file's.
    pub duration_s: Option<f64>,
    /// Logs of a Java virtual machine (`-Xlog:gc*,safepoint` with time decorations), in place of one that Hone turns on.
    pub gc_logs: &'a [PathBuf],
}

/// Loads a target, and explains its slowest requests. Returns the record's file, too.
///
/// # Errors
/// Fails without a target on this machine, when the load can't be measured, or when a log can't be read.
pub fn of_broker(
    asked: &TailSettings<'_>,
    output: &Path,
    progress: &Progress,
) -> Result<(TailAccount, PathBuf)> {
    for path in asked.gc_logs {
        fs::File::open(path).with_context(|| format!("the log {} can't be read", path.display()))?;
    }
    let (aim, workload) = asked.load()?;
    let targets = aim_at(&aim)?;
    let folder = RunFolder::create(output, "tail")?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = shown_runner(&folder, progress)?;
    let mut missing: BTreeMap<StallKind, String> = BTreeMap::new();
    let watched_pids = if asked.gc_logs.is_empty() { &targets.pids[..] } else { &[] };
    let watches = turned_on(&runner, watched_pids, &std::path::absolute(folder.path())?, &mut missing);
    let raw = folder.join("raw.csv");
    let (window, seen, zero) = watched_window(&aim, workload, &targets, &raw, progress)?;
    let logs = read_logs(watches, asked.gc_logs, &mut missing)?;
    blind_spots(&seen, &mut missing);
    let mut notes = notes_of(&window, &targets);
    let mut causes = causes(&seen, zero);
    causes.extend(pauses_of(&logs, &window, asked.gc_logs, &mut notes)?);
    let has_jvm = !logs.is_empty() || missing.contains_key(&StallKind::Pause);
    let kinds =
        [StallKind::Throttling, StallKind::Pause, StallKind::File, StallKind::PageFault, StallKind::RunQueue];
    let kinds = kinds.into_iter().filter(|kind| *kind != StallKind::Pause || has_jvm);
    let watched = kinds.map(|kind| TailWatch { kind, missing: missing.get(&kind).cloned() }).collect();
    let target = format!("{}: {}", window.address, targets.names().join(", "));
    let begun = TailAccount { target, watched, notes, ..TailAccount::default() };
    let account = account(&window, &requests(&raw)?, causes, begun)?;
    let record = folder.write_record("tail.json", account.clone())?;
    folder.write_record("window.json", window)?;
    Ok((account, record))
}

impl TailSettings<'_> {
    fn load(&self) -> Result<(Aim, Workload)> {
        let usual = LoadFile { name: "command-line".to_owned(), ..LoadFile::default() };
        let LoadFile { name, mut workload, storage, .. } =
            self.load.map(LoadFile::read).transpose()?.unwrap_or(usual);
        workload.requests_per_s = self.rate.unwrap_or(workload.requests_per_s);
        let usual_s = if self.load.is_some() { workload.duration_s } else { USUAL_S };
        workload.duration_s = self.duration_s.unwrap_or(usual_s);
        let workload = workload.named(&name).map_err(Usage)?;
        hone_load::check(&workload)?;
        let settings = Settings {
            address: hone_load::canary::reachable(self.broker, &self.security)?,
            variant: "target".to_owned(),
            storage: storage.unwrap_or_default(),
            topic: Topic::Fresh,
            lateness_limit_us: LATENESS_LIMIT_US,
            shard: None,
            security: self.security.clone(),
        };
        Ok((Aim { settings, pid: self.pid, idle: None, metrics: Metrics::default() }, workload))
    }
}

/// The processes to watch.
fn aim_at(aim: &Aim) -> Result<Targets> {
    let address = &aim.settings.address;
    let targets = match aim.pid {
        Some(pid) => Targets::named(pid, &BTreeMap::new()),
        None => Targets::of_cluster(address, &aim.settings.security)?,
    };
    if let Some(why) = targets.missing.as_ref().filter(|_| targets.pids.is_empty()) {
        bail!(Usage(format!(
            "the process of {address} is unknown: {why}\n  next: run Hone on the machine of the broker, or name its \
             process with --pid"
        )));
    }
    Ok(targets)
}

/// Turns the logs of all virtual machines on.
fn turned_on<'a>(
    runner: &'a dyn Runner,
    pids: &[u32],
    folder: &Path,
    missing: &mut BTreeMap<StallKind, String>,
) -> Vec<PauseWatch<'a>> {
    let mut watches = Vec::new();
    for pid in pids.iter().copied().filter(|pid| is_jvm(*pid)) {
        match PauseWatch::begin(runner, pid, folder) {
            Ok(watch) => watches.push(watch),
            Err(why) => drop(missing.insert(StallKind::Pause, format!("process {pid}: {why}"))),
        }
    }
    watches
}

/// The window, what was seen of the target meanwhile, and when it began.
fn watched_window(
    aim: &Aim,
    workload: Workload,
    targets: &Targets,
    raw: &Path,
    progress: &Progress,
) -> Result<(Window, Stalls, Instant)> {
    let (mut zero, stop) = (None, AtomicBool::new(false));
    let (window, seen) = thread::scope(|scope| {
        let watching = scope.spawn(|| stalls::watch(&targets.pids, &stop));
        let window = RawFile::create(raw).map_err(Into::into).and_then(|raw| {
            let beside = Beside { raw: Some(raw), ..Beside::default() };
            aim.window(workload, beside, || Ok(*zero.insert(Instant::now())), progress)
        });
        stop.store(true, Ordering::Relaxed);
        (window, watching.join())
    });
    let seen = seen.map_err(|_| anyhow::anyhow!("the watch over the target crashed"))?;
    Ok((window?, seen, zero.context("the window never began")?))
}

/// The logs that Hone turned on, and those of the user.
fn read_logs(
    watches: Vec<PauseWatch<'_>>,
    files: &[PathBuf],
    missing: &mut BTreeMap<StallKind, String>,
) -> Result<Vec<PauseLog>> {
    let mut logs = Vec::new();
    for watch in watches {
        match watch.end() {
            Ok(log) => logs.push(log),
            Err(why) => drop(missing.insert(StallKind::Pause, why)),
        }
    }
    for path in files {
        let text = fs::read(path).with_context(|| format!("the log {} can't be read", path.display()))?;
        logs.push(PauseLog::parse(&String::from_utf8_lossy(&text)));
    }
    Ok(logs)
}

fn blind_spots(seen: &Stalls, missing: &mut BTreeMap<StallKind, String>) {
    if !seen.sees_groups {
        missing.insert(StallKind::Throttling, "control groups are not visible from here".to_owned());
    }
    if let Some(why) = &seen.blind {
        let why = format!("{why}; it takes the target's user, or CAP_SYS_PTRACE");
        missing.insert(StallKind::File, why.clone());
        missing.insert(StallKind::PageFault, why);
    }
    if !seen.sees_cores {
        missing.insert(StallKind::RunQueue, "this kernel does not count it (/proc/PID/schedstat)".to_owned());
    }
}

/// Remarks on the window as a whole.
fn notes_of(window: &Window, targets: &Targets) -> Vec<String> {
    let outcome = match &window.outcome {
        Outcome::GeneratorLate { .. } => {
            Some("the generator itself was late, so a part of the latency is its own: use a lower --rate".to_owned())
        }
        Outcome::Saturated { .. } => {
            Some("the target is saturated: its queue grows, and latencies measure the length of the window; use a lower --rate".to_owned())
        }
        _ => None,
    };
    outcome.into_iter().chain(targets.missing.clone()).collect()
}

/// The stalls that the kernel showed, by what was waited for.
fn causes(seen: &Stalls, zero: Instant) -> Vec<TailCause> {
    let at = |instant: Instant| instant.saturating_duration_since(zero).as_secs_f64();
    let span = |[begin, end]: [Instant; 2]| [at(begin), at(end)];
    let mut found = Vec::new();
    if !seen.throttled.is_empty() {
        let stalls =
            seen.throttled.iter().map(|times| span(*times)).filter(|[begin, end]| begin < end).collect();
        found.push(cause(StallKind::Throttling, "the CPU limit of its control group", stalls, None));
    }
    let mut by_call: BTreeMap<(StallKind, &str), Vec<&stalls::Wait>> = BTreeMap::new();
    for wait in &seen.waits {
        let key = match &wait.waited {
            Waited::File { call, .. } => (StallKind::File, *call),
            Waited::PageFault => (StallKind::PageFault, "a page that is read from a file or from swap"),
            Waited::Core => (StallKind::RunQueue, "all cores of its threads were busy"),
        };
        by_call.entry(key).or_default().push(wait);
    }
    for ((kind, call), waits) in by_call {
        let paths: Vec<&Path> = waits
            .iter()
            .filter_map(|wait| match &wait.waited {
                Waited::File { path, .. } => path.as_deref(),
                Waited::PageFault | Waited::Core => None,
            })
            .collect();
        let name = match common(&paths) {
            Some(path) => format!("{call} of {}", path.display()),
            None => call.to_owned(),
        };
        let longest = waits.iter().max_by_key(|wait| wait.seen[1] - wait.seen[0]);
        let is_core = kind == StallKind::RunQueue;
        let others = is_core.then(|| hungriest(&seen.others, seen.lasted)).flatten();
        let detail = longest.map(|wait| {
            let others = others.map(|others| format!("; in the whole window {others}")).unwrap_or_default();
            format!("the longest in thread {}{others}", wait.thread)
        });
        // Waits that ended before the window have no length in it.
        let spans = waits.iter().map(|wait| span(wait.seen)).filter(|[begin, end]| begin < end);
        found.push(cause(kind, &name, spans.collect(), detail));
    }
    found.retain(|cause| !cause.stalls.is_empty());
    found
}

/// Other programs that took a tenth of a core or more.
fn hungriest(others: &[(String, Duration)], lasted: Duration) -> Option<String> {
    let cores = others.iter().map(|(name, cpu)| (name, cpu.as_secs_f64() / lasted.as_secs_f64().max(0.1)));
    let taken = cores.filter(|(_, cores)| *cores >= 0.1);
    let each: Vec<String> = taken.map(|(name, cores)| format!("{name} took {cores:.1}")).collect();
    (!each.is_empty()).then(|| format!("{} cores", each.join(", ")))
}

/// The file itself, or the folder that holds all files.
fn common(paths: &[&Path]) -> Option<PathBuf> {
    let (first, rest) = paths.split_first()?;
    let mut whole = first.to_path_buf();
    while !rest.iter().all(|path| path.starts_with(&whole)) {
        whole.pop().then_some(())?;
    }
    Some(whole)
}

/// The pauses in the logs, by name.
fn pauses_of(
    logs: &[PauseLog],
    window: &Window,
    files: &[PathBuf],
    notes: &mut Vec<String>,
) -> Result<Vec<TailCause>> {
    let mut by_name: BTreeMap<String, Vec<(&Pause, [f64; 2])>> = BTreeMap::new();
    for pause in logs.iter().flat_map(|log| &log.pauses) {
        let LogTime::Unix(end_ms) = pause.end else {
            bail!(Usage(format!(
                "{} has no dates, so Hone can't compare its pauses with the requests\n  next: log with \
                 -Xlog:gc*,safepoint:file=FILE:time,level,tags",
                files.first().map(|path| path.display().to_string()).unwrap_or_default()
            )));
        };
        let end_s = (end_ms - window.started_unix_ms as f64) / 1e3;
        let begin_s = end_s - pause.total_ms / 1e3;
        if end_s > 0.0 && begin_s < window.duration_s {
            by_name.entry(pause.name().to_owned()).or_default().push((pause, [begin_s.max(0.0), end_s]));
        }
    }
    if !files.is_empty() && by_name.is_empty() {
        notes.push("the log has no pause within the window".to_owned());
    }
    let broken: u64 = logs.iter().map(|log| log.not_understood).sum();
    if broken > 0 {
        notes.push(format!(
            "{} of the log of pauses could not be read",
            hone_format::counted(broken, "line", "lines")
        ));
    }
    let of = |(name, pauses): (String, Vec<(&Pause, [f64; 2])>)| {
        let longest = pauses.iter().map(|(pause, _)| *pause).max_by(|a, b| a.total_ms.total_cmp(&b.total_ms));
        let detail = longest.filter(|pause| pause.reaching_ms > 0.5 * pause.total_ms).map(|pause| {
            format!(
                "{:.0} of {:.0} ms of the longest passed until the last thread had stopped",
                pause.reaching_ms, pause.total_ms
            )
        });
        let name = if name.is_empty() { "safepoint".to_owned() } else { name };
        cause(StallKind::Pause, &name, pauses.into_iter().map(|(_, times)| times).collect(), detail)
    };
    Ok(by_name.into_iter().map(of).collect())
}

fn cause(kind: StallKind, name: &str, stalls: Vec<[f64; 2]>, detail: Option<String>) -> TailCause {
    TailCause { kind, name: name.to_owned(), stalls, explained: 0, is_beyond_chance: false, detail }
}

/// Begin and end of every request of the file.
fn requests(raw: &Path) -> Result<Vec<Request>> {
    let text = fs::read_to_string(raw).with_context(|| format!("{} can't be read", raw.display()))?;
    let of_line = |line: &str| {
        let mut columns = line.split(',');
        let due_ns = columns.next()?.parse().ok()?;
        Some(Request { due_ns, ended_ns: columns.nth(1)?.parse().ok()? })
    };
    Ok(text.lines().filter_map(of_line).collect())
}

fn account(
    window: &Window,
    requests: &[Request],
    mut causes: Vec<TailCause>,
    begun: TailAccount,
) -> Result<TailAccount> {
    let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
    let stalls: Vec<tail::Stalls> = causes
        .iter()
        .map(|cause| tail::Stalls {
            rank: rank(cause.kind),
            stops_all: matches!(cause.kind, StallKind::Throttling | StallKind::Pause),
            times: cause.stalls.iter().map(|[begin, end]| [ns(*begin), ns(*end)]).collect(),
        })
        .collect();
    let Some(found) = tail::explain(requests, &stalls) else {
        bail!(
            "{} have no tail: it takes at least 100\n  next: a longer --duration, or a higher --rate",
            hone_format::counted(requests.len() as u64, "request", "requests")
        )
    };
    for (_, by) in &found.slow {
        by.iter().for_each(|by| causes[*by].explained += 1);
    }
    for (cause, is_beyond_chance) in causes.iter_mut().zip(&found.is_beyond_chance) {
        cause.is_beyond_chance = *is_beyond_chance;
        let long = |[begin, end]: &[f64; 2]| end - begin;
        cause.stalls.sort_by(|a, b| long(b).total_cmp(&long(a)));
        cause.stalls.truncate(MOST_STALLS);
    }
    // Indexes of the causes follow their new order.
    let mut order: Vec<usize> = (0..causes.len()).collect();
    order.sort_by(|a, b| {
        let of = |index: &usize| (causes[*index].explained, causes[*index].total_s());
        of(b).0.cmp(&of(a).0).then(of(b).1.total_cmp(&of(a).1))
    });
    let place = |old: usize| order.iter().position(|index| *index == old);
    let slow = found.slow.iter().take(MOST_SLOW).map(|(request, by)| SlowRequest {
        at_s: request.due_ns as f64 / 1e9,
        latency_us: request.latency_ns() as f64 / 1e3,
        cause: by.and_then(place),
    });
    Ok(TailAccount {
        started_unix_ms: window.started_unix_ms,
        duration_s: window.duration_s,
        requests: requests.len() as u64,
        quantile: found.quantile,
        threshold_us: found.threshold_ns as f64 / 1e3,
        median_us: found.median_ns as f64 / 1e3,
        slow: slow.collect(),
        slow_count: found.slow.len() as u64,
        unexplained: found.slow.iter().filter(|(_, by)| by.is_none()).count() as u64,
        causes: order.iter().map(|index| causes[*index].clone()).collect(),
        machine: observe::machine(Path::new("/")),
        ..begun
    })
}

/// A limit stops the virtual machine in its pauses, too, and threads that are ready. A pause stops threads that wait for a file.
fn rank(kind: StallKind) -> u8 {
    match kind {
        StallKind::Throttling => 0,
        StallKind::Pause => 1,
        StallKind::File | StallKind::RunQueue => 2,
        StallKind::PageFault => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_common_folder() {
        let of = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            common(&paths).map(|path| path.display().to_string())
        };
        assert_eq!(of(&["/d/a/0.log", "/d/a/0.log"]).as_deref(), Some("/d/a/0.log"));
        assert_eq!(of(&["/d/a/0.log", "/d/b/1.log"]).as_deref(), Some("/d"));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn only_what_took_a_tenth_of_a_core_is_hungry() {
        let others =
            [("java", 5_400), ("sh", 990)].map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)));
        let told = hungriest(&others, Duration::from_secs(10));
        assert_eq!(told.as_deref(), Some("java took 0.5 cores"));
        assert_eq!(hungriest(&others[1..], Duration::from_secs(10)), None);
    }

    #[test]
    fn requests_are_read_without_their_head() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "intended_ns,sent_ns,ended_ns,outcome\n5,6,9,ok\n7,,20,timeout\nx\n").unwrap();
        let found = requests(file.path()).unwrap();
        assert_eq!(found, [Request { due_ns: 5, ended_ns: 9 }, Request { due_ns: 7, ended_ns: 20 }]);
    }
}
