//! A single load while it runs, for the terminal and for the page of `--live`. On a terminal a few lines are redrawn; otherwise a line is
//! written every few seconds. Both are on stderr.
//!
//! The generator only writes figures. Another thread collects the seconds, samples the CPU once for each, and draws.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hone_format::{count, measured, time_us};
use hone_host::cpu::{self, CpuSample};
use hone_load::Live;
use hone_record::{SeriesPoint, Window};
use hone_report::desk::{LivePoint, LoadEnd, LoadPhase, LoadState};
use hone_tool::interrupt;

use crate::progress::Progress;
use crate::sparkline::sparkline;
use crate::targets::Targets;

/// How often the lines are redrawn, and how often a line is written without a terminal.
const REDRAW: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Characters of the bar.
const BAR: usize = 30;
/// Seconds of the sparkline.
const SPARK_SECONDS: usize = 60;
/// The CPU of a second is known only if the sample after it is not later than this.
const CPU_PATIENCE_S: f64 = 0.5;

/// The latest figures of the generator.
#[derive(Debug, Clone, Copy, Default)]
struct Chalk {
    phase: &'static str,
    done: f64,
    live: Live,
}

#[derive(Debug, Default)]
struct Board {
    chalk: Mutex<Chalk>,
    targets: Mutex<Targets>,
    /// Complete seconds. The generator never locks them.
    points: Mutex<Vec<LivePoint>>,
    end: Mutex<Option<Arc<LoadEnd>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A load that can be watched while it runs. All clones show the same load.
#[derive(Debug, Clone, Default)]
pub struct LiveLoad(Arc<Board>);

impl LiveLoad {
    /// The load at this moment.
    pub fn state(&self) -> LoadState {
        let chalk = *locked(&self.0.chalk);
        let phase = match (&*locked(&self.0.end), chalk.phase) {
            (Some(end), _) => LoadPhase::Ended(Arc::clone(end)),
            (None, "warm-up") => LoadPhase::WarmingUp(chalk.done),
            (None, "idle") => LoadPhase::Idle,
            (None, "window") => LoadPhase::Measuring,
            (None, _) => LoadPhase::Preparing,
        };
        LoadState {
            phase,
            at_s: chalk.live.at_s,
            points: locked(&self.0.points).clone(),
            cpu_missing: locked(&self.0.targets).missing.clone(),
        }
    }

    /// Reports the result, or the error in its place, with the files that hold it, a line for each.
    pub fn end(&self, result: Result<Window, String>, files: &str) {
        *locked(&self.0.end) = Some(Arc::new(LoadEnd { result, files: files.to_owned() }));
    }

    /// Whether the result is there.
    pub fn has_ended(&self) -> bool {
        locked(&self.0.end).is_some()
    }
}

/// A view that is shown until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveView {
    progress: Progress,
    load: LiveLoad,
    seconds: Sender<SeriesPoint>,
    over: Arc<AtomicBool>,
    viewer: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Shows a load of this many seconds on the terminal, and as `load` to others.
    pub(crate) fn open(progress: &Progress, duration_s: f64, load: Option<LiveLoad>) -> Self {
        let is_watched = load.is_some() || !progress.is_quiet();
        let (load, over) = (load.unwrap_or_default(), Arc::new(AtomicBool::new(false)));
        let (seconds, complete) = mpsc::channel();
        let viewer = Viewer::new(progress.clone(), duration_s, load.clone());
        let end = Arc::clone(&over);
        let viewer = is_watched.then(|| std::thread::spawn(move || viewer.watch(&complete, &end)));
        Self { progress: progress.clone(), load, seconds, over, viewer }
    }

    /// The processes whose CPU is shown.
    pub(crate) fn watch(&self, targets: &Targets) {
        *locked(&self.load.0.targets) = targets.clone();
    }

    /// The receiver of a load's figures. Complete seconds also go to `series`.
    pub(crate) fn listener(&self, series: Option<Sender<SeriesPoint>>) -> Listener {
        let seconds = std::iter::once(self.seconds.clone()).chain(series).collect();
        Listener { progress: self.progress.clone(), load: self.load.clone(), seconds }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(viewer) = self.viewer.take() {
            viewer.thread().unpark();
            let _ = viewer.join();
        }
        self.progress.clear();
    }
}

/// Receives figures of a load and passes them on without waiting.
#[derive(Debug)]
pub(crate) struct Listener {
    progress: Progress,
    load: LiveLoad,
    /// The view, and the series file.
    seconds: Vec<Sender<SeriesPoint>>,
}

impl Listener {
    /// The measuring thread does not wait; the next update writes them.
    fn chalk(&self, write: impl FnOnce(&mut Chalk)) {
        if let Ok(mut chalk) = self.load.0.chalk.try_lock() {
            write(&mut chalk);
        }
    }
}

impl hone_load::Progress for Listener {
    fn at(&mut self, phase: &'static str, done: f64) -> bool {
        self.chalk(|chalk| (chalk.phase, chalk.done) = (phase, done));
        // An interruption ends an open window. The window is not discarded.
        phase == "window" || !interrupt::requested()
    }

    fn now(&mut self, live: &Live) {
        self.chalk(|chalk| chalk.live = *live);
    }

    fn second(&mut self, point: &SeriesPoint) {
        for receiver in &self.seconds {
            // A view that nobody watches has no receiver, nor has a file after a write error, which is reported at the end.
            let _ = receiver.send(point.clone());
        }
    }

    fn ends_early(&mut self) -> bool {
        interrupt::requested()
    }

    fn note(&mut self, text: &str) {
        self.progress.line(text);
    }
}

/// The CPU of target and generator at a time; `None` where a process can't be read.
#[derive(Debug)]
struct CpuLook {
    at: Instant,
    samples: [Option<Vec<CpuSample>>; 2],
}

/// Samples the CPU between two calls.
#[derive(Debug, Default)]
struct CpuMeter {
    last: Option<CpuLook>,
}

impl CpuMeter {
    /// Cores of the target and of the generator since the last call. `None` if that was much longer ago than `length_s`: then the CPU is not
    /// that of these seconds alone.
    fn cores(&mut self, targets: &[u32], length_s: f64) -> [Option<f64>; 2] {
        let own = [std::process::id()];
        let now = CpuLook { at: Instant::now(), samples: [targets, &own[..]].map(samples) };
        let cores = self.last.as_ref().map_or([None; 2], |before| {
            let took_s = (now.at - before.at).as_secs_f64().max(1e-3);
            let is_near = took_s <= length_s + CPU_PATIENCE_S;
            [0, 1].map(|which| {
                let used_s = used_s(before.samples[which].as_ref()?, now.samples[which].as_ref()?)?;
                is_near.then_some(used_s / took_s)
            })
        });
        self.last = Some(now);
        cores
    }
}

fn samples(pids: &[u32]) -> Option<Vec<CpuSample>> {
    if pids.is_empty() {
        return None;
    }
    pids.iter().map(|pid| cpu::sample(*pid).ok()).collect()
}

fn used_s(before: &[CpuSample], after: &[CpuSample]) -> Option<f64> {
    let used = before.iter().zip(after).map(|(before, after)| cpu::between(before, after).total_s);
    (before.len() == after.len()).then(|| used.sum())
}

/// Collects the seconds of a load and draws it.
#[derive(Debug)]
struct Viewer {
    progress: Progress,
    duration_s: f64,
    load: LiveLoad,
    cpu: CpuMeter,
    next_line: Instant,
}

impl Viewer {
    fn new(progress: Progress, duration_s: f64, load: LiveLoad) -> Self {
        let next_line = Instant::now() + LINE_EVERY;
        Self { progress, duration_s, load, cpu: CpuMeter::default(), next_line }
    }

    fn watch(mut self, complete: &Receiver<SeriesPoint>, over: &AtomicBool) {
        loop {
            let is_over = over.load(Ordering::Relaxed);
            self.collect(&complete.try_iter().collect::<Vec<_>>());
            if is_over {
                return;
            }
            if !self.progress.is_quiet() {
                self.draw();
            }
            std::thread::park_timeout(REDRAW);
        }
    }

    /// Adds complete seconds, with the CPU since those before them. The first sample is at the start of the window.
    fn collect(&mut self, seconds: &[SeriesPoint]) {
        let board = &self.load.0;
        let is_start = self.cpu.last.is_none() && locked(&board.chalk).phase == "window";
        if seconds.is_empty() && !is_start {
            return;
        }
        let length_s: f64 = seconds.iter().map(|second| second.length_s.unwrap_or(1.0)).sum();
        let pids = locked(&board.targets).pids.clone();
        let [target_cores, generator_cores] = self.cpu.cores(&pids, length_s);
        let mut points = locked(&board.points);
        for second in seconds {
            let backlog = points.last().map_or(0, |before| before.backlog);
            points.push(LivePoint { target_cores, generator_cores, ..LivePoint::new(second, backlog) });
        }
    }

    fn draw(&mut self) {
        let chalk = *locked(&self.load.0.chalk);
        let now = Instant::now();
        if self.progress.is_terminal() {
            // The points are not locked while the terminal draws, which may block.
            let lines = self.lines(&chalk, &locked(&self.load.0.points));
            self.progress.paint(&lines);
        } else if now >= self.next_line {
            self.next_line = now + LINE_EVERY;
            let line = line(&chalk, locked(&self.load.0.points).last());
            self.progress.line(&line);
        }
    }

    /// The view of a terminal.
    fn lines(&self, chalk: &Chalk, points: &[LivePoint]) -> String {
        if chalk.phase != "window" {
            let phase = if chalk.phase.is_empty() { "connecting" } else { chalk.phase };
            return format!("{phase:<8} {} {:3.0} %", bar(chalk.done), chalk.done.min(1.0) * 100.0);
        }
        let last = points.last();
        let [reached, due] = rates(last);
        let left_s = (self.duration_s - chalk.live.at_s).max(0.0);
        let recent = points.get(points.len().saturating_sub(SPARK_SECONDS)..).unwrap_or_default();
        let p99: Vec<Option<f64>> = recent.iter().map(|point| Some(point.latency_us?[1])).collect();
        [
            format!(
                "window   {} {:.0} s of {} s, {left_s:.0} s left",
                bar(chalk.done),
                chalk.live.at_s.min(self.duration_s),
                measured(self.duration_s)
            ),
            format!(
                "rate     {reached} of {due} due   backlog {}   errors {}   retries {}",
                count(chalk.live.backlog()),
                count(chalk.live.failed),
                count(chalk.live.retried)
            ),
            format!("latency  {}", latency_words(last)),
            format!("p99      {} last {SPARK_SECONDS} s", sparkline(&p99)),
            format!("CPU      {}", cpu_words(last)),
        ]
        .join("\n")
    }
}

/// The same on one line.
fn line(chalk: &Chalk, last: Option<&LivePoint>) -> String {
    if chalk.phase != "window" {
        return format!("{} {:.0} %", chalk.phase, chalk.done.min(1.0) * 100.0);
    }
    let [reached, due] = rates(last);
    let mut words = vec![
        format!("{:.0} s: {reached} of {due} due", chalk.live.at_s),
        format!("backlog {}", count(chalk.live.backlog())),
    ];
    if chalk.live.failed > 0 {
        words.push(format!("errors {}", count(chalk.live.failed)));
    }
    if chalk.live.retried > 0 {
        words.push(format!("retries {}", count(chalk.live.retried)));
    }
    words.extend([latency_words(last), cpu_words(last)]);
    words.join(", ")
}

/// Requests acknowledged and due per second.
fn rates(last: Option<&LivePoint>) -> [String; 2] {
    let per_s = |rate: Option<f64>| format!("{}/s", rate.map_or("-".to_owned(), measured));
    [last.map(|last| last.acked_per_s), last.map(|last| last.due_per_s)].map(per_s)
}

fn latency_words(last: Option<&LivePoint>) -> String {
    let Some(latencies) = last.and_then(|last| last.latency_us) else { return "latency -".to_owned() };
    let [p50, p99, p999, max] = latencies.map(time_us);
    format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
}

fn cpu_words(last: Option<&LivePoint>) -> String {
    let cores = |cores: Option<f64>| cores.map_or("-".to_owned(), |cores| format!("{cores:.2} cores"));
    let [target, generator] =
        [last.and_then(|last| last.target_cores), last.and_then(|last| last.generator_cores)].map(cores);
    let late = last.map_or("-".to_owned(), |last| time_us(last.generator_lag_us_p99));
    format!("target {target}, generator {generator}, sent {late} late (p99)")
}

fn bar(done: f64) -> String {
    let full = (done.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(load: &LiveLoad) -> Viewer {
        Viewer::new(Progress::new(true), 60.0, load.clone())
    }

    fn point() -> LivePoint {
        LivePoint {
            due_per_s: 1_000.0,
            acked_per_s: 800.0,
            latency_us: Some([212.0, 1_310.0, 4_000.0, 5_000.0]),
            target_cores: Some(1.234),
            generator_lag_us_p99: 55.0,
            ..LivePoint::default()
        }
    }

    fn chalk() -> Chalk {
        let live = Live { at_s: 3.0, due: 3_000, acked: 2_400, failed: 30, retried: 4 };
        Chalk { phase: "window", done: 0.05, live }
    }

    #[test]
    fn the_view_tells_the_last_second_and_the_last_minute() {
        let calm = LivePoint { latency_us: Some([100.0; 4]), ..point() };
        let silent = LivePoint { latency_us: None, ..point() };
        let points = [vec![calm; 70], vec![silent, point()]].concat();
        let lines = viewer(&LiveLoad::default()).lines(&chalk(), &points);
        let spark = format!("p99      {} █ last 60 s", "▁".repeat(58));
        for expected in [
            "3 s of 60.0 s, 57 s left",
            "rate     800/s of 1,000/s due   backlog 570   errors 30   retries 4",
            "p50 212 µs, p99 1.31 ms, p99.9 4.00 ms, max 5.00 ms",
            "target 1.23 cores, generator -, sent 55.0 µs late (p99)",
            &spark,
        ] {
            assert!(lines.contains(expected), "no `{expected}` in:\n{lines}");
        }
        assert_eq!(lines.lines().count(), 5);
        assert!(lines.lines().all(|line| line.chars().count() < 80), "{lines}");
        let first = viewer(&LiveLoad::default()).lines(&chalk(), &[]);
        assert!(first.contains("-/s of -/s due") && first.contains("latency -"), "{first}");
    }

    #[test]
    fn one_line_says_the_same() {
        let expected = "3 s: 800/s of 1,000/s due, backlog 570, errors 30, retries 4, p50 212 µs, p99 1.31 ms, p99.9 4.00 ms, max \
                        5.00 ms, target 1.23 cores, generator -, sent 55.0 µs late (p99)";
        assert_eq!(line(&chalk(), Some(&point())), expected);
        assert_eq!(line(&Chalk { phase: "warm-up", done: 0.5, ..Chalk::default() }, None), "warm-up 50 %");
    }

    #[test]
    fn seconds_become_points_with_the_cpu_of_their_time() {
        let load = LiveLoad::default();
        let view = LiveView::open(&Progress::new(true), 60.0, None);
        let mut listener = Listener { load: load.clone(), ..view.listener(None) };
        hone_load::Progress::at(&mut listener, "window", 0.0);
        let mut viewer = viewer(&load);
        viewer.collect(&[]);
        assert!(viewer.cpu.last.is_some() && load.state().points.is_empty());
        let second = |at_s, backlog_requests| SeriesPoint {
            at_s,
            acked_requests: 100,
            backlog_requests,
            ..SeriesPoint::default()
        };
        viewer.collect(&[second(0.0, 20), second(1.0, 10)]);
        let state = load.state();
        let due: Vec<f64> = state.points.iter().map(|point| point.due_per_s).collect();
        assert_eq!(due, [120.0, 90.0]);
        assert!(state.points[1].generator_cores.is_some() && state.points[1].target_cores.is_none());
        assert!(matches!(state.phase, LoadPhase::Measuring));
    }

    #[test]
    fn cpu_of_another_time_is_not_that_of_a_second() {
        let own = [std::process::id()];
        let mut meter = CpuMeter::default();
        assert_eq!(meter.cores(&own, 1.0), [None, None]);
        assert!(meter.cores(&own, 1.0).iter().all(Option::is_some));
        if let Some(last) = &mut meter.last {
            last.at -= Duration::from_secs(3);
        }
        assert_eq!(meter.cores(&own, 1.0), [None, None], "the last requests were waited for");
    }

    #[test]
    fn a_watched_load_is_collected_in_quiet_too_and_has_its_end() {
        let load = LiveLoad::default();
        let view = LiveView::open(&Progress::new(true), 1.0, Some(load.clone()));
        let (series, written) = mpsc::channel();
        let mut listener = view.listener(Some(series));
        hone_load::Progress::second(&mut listener, &SeriesPoint::default());
        drop((listener, view));
        assert_eq!(load.state().points.len(), 1);
        assert_eq!(written.iter().count(), 1, "the file has the same seconds");
        assert!(!load.has_ended());
        load.end(Err("lost".to_owned()), "");
        assert!(matches!(load.state().phase, LoadPhase::Ended(end) if end.result.is_err()));
    }

    #[test]
    fn a_viewer_that_holds_the_board_stops_nobody() {
        let load = LiveLoad::default();
        let view = LiveView::open(&Progress::new(true), 1.0, Some(load.clone()));
        let mut listener = view.listener(None);
        let held = (load.0.chalk.lock().unwrap(), load.0.points.lock().unwrap());
        assert!(hone_load::Progress::at(&mut listener, "window", 0.5));
        hone_load::Progress::second(&mut listener, &SeriesPoint::default());
        drop(held);
        drop((listener, view));
        assert_eq!(load.state().points.len(), 1, "no second is lost");
    }
}
