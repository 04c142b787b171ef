//! The display of a single load while it runs: a few lines that are redrawn on a terminal, or else a line every few seconds, both
//! on stderr. The generator only writes figures. Another thread draws, and samples the CPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hone_format::{count, measured, time_us};
use hone_host::cpu::{self, CpuSample};
use hone_load::Live;
use hone_record::SeriesPoint;
use hone_tool::interrupt;

use crate::progress::Progress;

/// How often the lines are redrawn, and how often a line is written without a terminal.
const REDRAW: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Period of the rates and the CPU: the last second.
const SIGHT: Duration = Duration::from_secs(1);
/// Characters of the bar.
const BAR: usize = 30;

/// The latest figures of the generator.
#[derive(Debug, Clone, Default)]
struct Chalk {
    phase: &'static str,
    done: f64,
    live: Live,
    /// The last complete second.
    second: Option<SeriesPoint>,
}

#[derive(Debug, Default)]
struct Board {
    chalk: Mutex<Chalk>,
    targets: Mutex<Vec<u32>>,
    over: AtomicBool,
}

/// A view that is shown until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveView {
    progress: Progress,
    board: Arc<Board>,
    painter: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Shows a load of this many seconds.
    pub(crate) fn open(progress: &Progress, duration_s: f64) -> Self {
        let board = Arc::new(Board::default());
        let painter = (!progress.is_quiet()).then(|| {
            let (progress, board) = (progress.clone(), Arc::clone(&board));
            std::thread::spawn(move || Painter::new(progress, duration_s).paint_until_over(&board))
        });
        Self { progress: progress.clone(), board, painter }
    }

    /// The processes whose CPU is shown.
    pub(crate) fn watch(&self, targets: &[u32]) {
        *self.board.targets.lock().unwrap_or_else(PoisonError::into_inner) = targets.to_vec();
    }

    /// The receiver of a load's figures. Complete seconds also go to `series`.
    pub(crate) fn listener(&self, series: Option<Sender<SeriesPoint>>) -> Listener {
        Listener { progress: self.progress.clone(), board: Arc::clone(&self.board), series }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.board.over.store(true, Ordering::Relaxed);
        if let Some(painter) = self.painter.take() {
            painter.thread().unpark();
            let _ = painter.join();
        }
        self.progress.clear();
    }
}

/// Receives figures of a load and passes them on without waiting.
#[derive(Debug)]
pub(crate) struct Listener {
    progress: Progress,
    board: Arc<Board>,
    series: Option<Sender<SeriesPoint>>,
}

impl Listener {
    /// The measuring thread does not wait; the next update writes them.
    fn chalk(&self, write: impl FnOnce(&mut Chalk)) {
        if let Ok(mut chalk) = self.board.chalk.try_lock() {
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
        self.chalk(|chalk| chalk.second = Some(point.clone()));
        if let Some(series) = &self.series {
            // After a write error of the file there is no receiver any more. The error is reported at the
            // end.
            let _ = series.send(point.clone());
        }
    }

    fn ends_early(&mut self) -> bool {
        interrupt::requested()
    }

    fn note(&mut self, text: &str) {
        self.progress.line(text);
    }
}

/// CPU of processes at a time.
type CpuLook = (Instant, Vec<CpuSample>);

#[derive(Debug)]
struct Painter {
    progress: Progress,
    duration_s: f64,
    /// The figures of the last second of a window.
    seen: VecDeque<(Instant, Live)>,
    cpu_looks: [Option<CpuLook>; 2],
    cores: [Option<f64>; 2],
    next_line: Instant,
}

impl Painter {
    fn new(progress: Progress, duration_s: f64) -> Self {
        let next_line = Instant::now() + LINE_EVERY;
        Self {
            progress,
            duration_s,
            seen: VecDeque::new(),
            cpu_looks: [None, None],
            cores: [None, None],
            next_line,
        }
    }

    fn paint_until_over(&mut self, board: &Board) {
        let redraws = self.progress.is_terminal();
        while !board.over.load(Ordering::Relaxed) {
            let chalk = board.chalk.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let targets = board.targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let now = Instant::now();
            if chalk.phase == "window" {
                self.look(now, &chalk.live, &targets);
            }
            if redraws {
                self.progress.paint(&self.lines(&chalk));
            } else if now >= self.next_line {
                self.next_line = now + LINE_EVERY;
                self.progress.line(&self.line(&chalk));
            }
            std::thread::park_timeout(REDRAW);
        }
    }

    fn look(&mut self, now: Instant, live: &Live, targets: &[u32]) {
        self.seen.push_back((now, *live));
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|(at, _)| now - *at >= SIGHT) {
            self.seen.pop_front();
        }
        for (which, pids) in [targets, &[std::process::id()]].into_iter().enumerate() {
            let due = self.cpu_looks[which].as_ref().is_none_or(|(at, _)| now - *at >= SIGHT);
            if !due || pids.is_empty() {
                continue;
            }
            // While a process can't be read, its CPU is not known.
            let samples: Option<Vec<CpuSample>> = pids.iter().map(|pid| cpu::sample(*pid).ok()).collect();
            let Some(samples) = samples else { continue };
            self.cores[which] = self.cpu_looks[which].as_ref().map(|(at, before)| {
                let used =
                    before.iter().zip(&samples).map(|(before, after)| cpu::between(before, after).total_s);
                used.sum::<f64>() / (now - *at).as_secs_f64()
            });
            self.cpu_looks[which] = Some((now, samples));
        }
    }

    /// Requests due and acknowledged per second, over the last second.
    fn rates(&self) -> (f64, f64) {
        let (Some((_, first)), Some((_, last))) = (self.seen.front(), self.seen.back()) else {
            return (0.0, 0.0);
        };
        let seconds = (last.at_s - first.at_s).max(1e-3);
        ((last.due - first.due) as f64 / seconds, (last.acked - first.acked) as f64 / seconds)
    }

    /// The view of a terminal.
    fn lines(&self, chalk: &Chalk) -> String {
        if chalk.phase != "window" {
            let phase = if chalk.phase.is_empty() { "connecting" } else { chalk.phase };
            return format!("{phase:<8} {} {:3.0} %", bar(chalk.done), chalk.done.min(1.0) * 100.0);
        }
        let (asked, reached) = self.rates();
        let left_s = (self.duration_s - chalk.live.at_s).max(0.0);
        let mut lines = vec![
            format!(
                "window   {} {:.0} s of {} s, {left_s:.0} s left",
                bar(chalk.done),
                chalk.live.at_s.min(self.duration_s),
                measured(self.duration_s)
            ),
            format!(
                "rate     {}/s of {}/s due   backlog {}   errors {}   retries {}",
                measured(reached),
                measured(asked),
                count(chalk.live.backlog()),
                count(chalk.live.failed),
                count(chalk.live.retried)
            ),
        ];
        lines.push(match &chalk.second {
            Some(second) => format!("latency  {}", latency_words(second)),
            None => "latency  -".to_owned(),
        });
        lines.push(format!("CPU      {}", self.cpu_words(chalk)));
        if let Some(lag) = chalk.second.as_ref().and_then(|second| second.consumer_lag_records) {
            lines.push(format!("consumer {} records behind", count(lag)));
        }
        lines.join("\n")
    }

    /// The same on one line.
    fn line(&self, chalk: &Chalk) -> String {
        if chalk.phase != "window" {
            return format!("{} {:.0} %", chalk.phase, chalk.done.min(1.0) * 100.0);
        }
        let (asked, reached) = self.rates();
        let mut words = vec![
            format!("{:.0} s: {}/s of {}/s due", chalk.live.at_s, measured(reached), measured(asked)),
            format!("backlog {}", count(chalk.live.backlog())),
        ];
        if chalk.live.failed > 0 {
            words.push(format!("errors {}", count(chalk.live.failed)));
        }
        if chalk.live.retried > 0 {
            words.push(format!("retries {}", count(chalk.live.retried)));
        }
        if let Some(second) = &chalk.second {
            words.push(latency_words(second));
        }
        words.push(self.cpu_words(chalk));
        if let Some(lag) = chalk.second.as_ref().and_then(|second| second.consumer_lag_records) {
            words.push(format!("consumer lag {}", count(lag)));
        }
        words.join(", ")
    }

    fn cpu_words(&self, chalk: &Chalk) -> String {
        let cores = |cores: Option<f64>| cores.map_or("-".to_owned(), |cores| format!("{cores:.2} cores"));
        let [target, generator] = self.cores.map(cores);
        let late =
            chalk.second.as_ref().map_or("-".to_owned(), |second| time_us(second.generator_lag_us_p99));
        format!("target {target}, generator {generator}, sent {late} late (p99)")
    }
}

fn latency_words(second: &SeriesPoint) -> String {
    format!(
        "p50 {}, p99 {}, max {}",
        time_us(second.latency_us_p50),
        time_us(second.latency_us_p99),
        time_us(second.latency_us_max)
    )
}

fn bar(done: f64) -> String {
    let full = (done.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painter() -> Painter {
        let mut painter = Painter::new(Progress::new(true), 60.0);
        let start = Instant::now();
        for tenth in 0..=30_u64 {
            let at_s = tenth as f64 / 10.0;
            let live = Live { at_s, due: tenth * 100, acked: tenth * 80, failed: tenth, retried: 0 };
            painter.look(start + Duration::from_millis(tenth * 100), &live, &[]);
        }
        painter.cores = [Some(1.234), None];
        painter
    }

    fn chalk() -> Chalk {
        let second = SeriesPoint {
            latency_us_p50: 212.0,
            latency_us_p99: 1_310.0,
            latency_us_max: 5_000.0,
            generator_lag_us_p99: 55.0,
            consumer_lag_records: Some(7),
            ..SeriesPoint::default()
        };
        let live = Live { at_s: 3.0, due: 3_000, acked: 2_400, failed: 30, retried: 4 };
        Chalk { phase: "window", done: 0.05, live, second: Some(second) }
    }

    #[test]
    fn the_view_tells_the_last_second() {
        let lines = painter().lines(&chalk());
        for expected in [
            "3 s of 60.0 s, 57 s left",
            "rate     800/s of 1,000/s due   backlog 570   errors 30   retries 4",
            "p50 212 µs, p99 1.31 ms, max 5.00 ms",
            "target 1.23 cores, generator -, sent 55.0 µs late (p99)",
            "consumer 7 records behind",
        ] {
            assert!(lines.contains(expected), "no `{expected}` in:\n{lines}");
        }
        assert!(lines.lines().all(|line| line.chars().count() < 80), "{lines}");
    }

    #[test]
    fn one_line_says_the_same() {
        let line = painter().line(&chalk());
        let expected = "3 s: 800/s of 1,000/s due, backlog 570, errors 30, retries 4, p50 212 µs, p99 1.31 ms, max 5.00 ms, target \
                        1.23 cores, generator -, sent 55.0 µs late (p99), consumer lag 7";
        assert_eq!(line, expected);
        assert_eq!(
            painter().line(&Chalk { phase: "warm-up", done: 0.5, ..Chalk::default() }),
            "warm-up 50 %"
        );
    }

    #[test]
    fn a_painter_that_holds_the_board_stops_nobody() {
        let view = LiveView::open(&Progress::new(true), 1.0);
        let mut listener = view.listener(None);
        let held = view.board.chalk.lock().unwrap();
        assert!(hone_load::Progress::at(&mut listener, "window", 0.5));
        hone_load::Progress::second(&mut listener, &SeriesPoint::default());
        drop(held);
        assert!(view.board.chalk.lock().unwrap().second.is_none());
    }
}
