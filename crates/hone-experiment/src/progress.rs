//! The progress display for a waiting user: bars on a terminal, finished lines everywhere, both on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hone_record::{Design, PairOutcome};
use hone_tool::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines and a bar on stderr.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    board: Arc<Board>,
    quiet: bool,
    fitting: fn(String) -> String,
}

/// Figures that the generator writes and the display thread reads. The generator never draws: a terminal that is not read would
/// block it.
#[derive(Debug, Default)]
struct Board {
    phase: Mutex<&'static str>,
    permille: AtomicU64,
}

const TICK: Duration = Duration::from_millis(120);

impl Progress {
    /// With `quiet`, only alarms are shown.
    pub fn new(quiet: bool) -> Self {
        let show = !quiet && std::io::stderr().is_terminal();
        let target = if show { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1_000), target);
        let style = ProgressStyle::with_template("{spinner} {prefix} {bar:24} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let board = Arc::new(Board::default());
        if show {
            let (bar, board) = (bar.clone(), Arc::downgrade(&board));
            std::thread::spawn(move || paint(&bar, &board));
        }
        Self { bar, board, quiet, fitting: std::convert::identity }
    }

    /// With a function that fits texts to the letters of the terminal.
    #[must_use]
    pub fn with_letters(self, fitting: fn(String) -> String) -> Self {
        Self { fitting, ..self }
    }

    /// Whether only alarms are shown.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the display is redrawn in place.
    pub fn is_terminal(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Draws these lines instead of the bar, until the next ones.
    pub fn paint(&self, lines: &str) {
        // A cleared one shows nothing any more.
        if self.bar.is_finished() {
            self.bar.reset();
        }
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            self.bar.set_style(style);
        }
        self.bar.set_message((self.fitting)(lines.to_owned()));
        self.bar.tick();
    }

    /// A finished line that stays.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            self.always(text);
        }
    }

    /// A finished line that stays, and is shown even with `quiet`.
    pub fn always(&self, text: &str) {
        self.bar.suspend(|| say(&(self.fitting)(text.to_owned())));
    }

    /// The current activity; the next one replaces it.
    pub fn doing(&self, what: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(String::new());
        self.board.set("", 0);
    }

    /// Detail of the current activity.
    pub fn detail(&self, text: &str) {
        self.bar.set_message(text.chars().take(80).collect::<String>());
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows that the pair with this index begins.
    pub fn begin_pair(&self, design: &Design, index: usize) {
        self.doing(&format!("pair {}", turn(design, index)));
    }

    /// One line for a measured pair.
    pub fn pair(&self, design: &Design, pair: &PairOutcome) {
        let index = pair.index as usize;
        let kind = design.pair_label(index);
        let what = match &pair.dropped {
            Some(reason) => format!("excluded: {reason}"),
            None => ratios(design, pair),
        };
        self.line(&format!("  pair {}  {kind}  {what}", turn(design, index)));
    }

    /// A view for a load.
    pub fn load(&self) -> LoadProgress {
        LoadProgress { to: self.clone() }
    }
}

/// A message that is shown even with `quiet`.
pub fn alarm(text: &str) {
    say(&format!("hone: {text}"));
}

/// A lost terminal must not stop the process: it still has settings to restore.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The number of a pair and the planned number. Pairs of the reserve have higher numbers.
fn turn(design: &Design, index: usize) -> String {
    if index >= design.planned() && design.pairs > 0 {
        return format!("{:>2} (extra)", index + 1);
    }
    format!("{:>2}{}", index + 1, of_all(design))
}

/// A pilot takes as many pairs as its clock allows, so their number is not known.
fn of_all(design: &Design) -> String {
    if design.pairs == 0 { " of the pilot".to_owned() } else { format!(" of {}", design.planned()) }
}

fn ratios(design: &Design, pair: &PairOutcome) -> String {
    let shown = [design.rule.primary, hone_record::Metric::LatencyP50, hone_record::Metric::LatencyP99];
    let ratio = |metric| Some(pair.values_b.get(&metric)? / pair.values_a.get(&metric)?);
    let text = |metric: hone_record::Metric| match ratio(metric) {
        Some(ratio) => format!("{} {ratio:.3}", metric.label()),
        None => format!("{} -", metric.label()),
    };
    let is_told = |metric: &&hone_record::Metric| !design.refused.contains_key(metric);
    shown.iter().filter(is_told).copied().map(text).collect::<Vec<_>>().join("   ")
}

/// Draws the latest figures until their writer is gone.
fn paint(bar: &ProgressBar, board: &Weak<Board>) {
    while let Some(board) = board.upgrade() {
        let phase = *board.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if !phase.is_empty() {
            bar.set_message(phase);
        }
        bar.set_position(board.permille.load(Ordering::Relaxed));
        bar.tick();
        drop(board);
        std::thread::sleep(TICK);
    }
}

impl Board {
    fn set(&self, phase: &'static str, permille: u64) {
        // The measuring thread does not wait; the next update writes them.
        if let Ok(mut slot) = self.phase.try_lock() {
            *slot = phase;
        }
        self.permille.store(permille, Ordering::Relaxed);
    }
}

/// The receiver of a load's figures. It also passes the interrupt to the load.
#[derive(Debug)]
pub struct LoadProgress {
    to: Progress,
}

impl hone_load::Progress for LoadProgress {
    fn at(&mut self, phase: &'static str, done: f64) -> bool {
        self.to.board.set(phase, (done * 1_000.0) as u64);
        !interrupt::requested()
    }

    fn note(&mut self, text: &str) {
        self.to.line(text);
    }
}
