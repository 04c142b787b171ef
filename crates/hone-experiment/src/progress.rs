//! What a waiting user sees: bars on a terminal, finished lines everywhere, both on stderr.

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
}

/// What the generator chalks up and the painter reads. The generator never draws: a terminal that nobody reads
/// would stop it.
#[derive(Debug, Default)]
struct Board {
    phase: Mutex<&'static str>,
    permille: AtomicU64,
}

const TICK: Duration = Duration::from_millis(120);

impl Progress {
    /// With `quiet`, nothing is shown at all.
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
        Self { bar, board, quiet }
    }

    /// Whether nothing is told but alarms.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether what is drawn is redrawn in place.
    pub fn is_terminal(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Draws these lines in place of the bar, until the next ones.
    pub fn paint(&self, lines: &str) {
        // One that was cleared shows nothing any more.
        if self.bar.is_finished() {
            self.bar.reset();
        }
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            self.bar.set_style(style);
        }
        self.bar.set_message(lines.to_owned());
        self.bar.tick();
    }

    /// A finished line that stays.
    pub fn line(&self, text: &str) {
        if self.quiet {
            return;
        }
        self.bar.suspend(|| say(text));
    }

    /// What is being done now; gone with the next one.
    pub fn doing(&self, what: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(String::new());
        self.board.set("", 0);
    }

    /// Detail behind what is being done.
    pub fn detail(&self, text: &str) {
        self.bar.set_message(text.chars().take(80).collect::<String>());
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Tells that the pair of this index begins.
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

/// What somebody has to know even where nothing else is shown.
pub fn alarm(text: &str) {
    say(&format!("hone: {text}"));
}

/// A terminal that is gone is no reason to fall over: what has to be put back still has to be.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Which pair it is of how many. The reserve has numbers beyond the plan.
fn turn(design: &Design, index: usize) -> String {
    if index >= design.planned() && design.pairs > 0 {
        return format!("{:>2} (extra)", index + 1);
    }
    format!("{:>2}{}", index + 1, of_all(design))
}

/// A pilot has as many pairs as its clock allows: nobody knows how many.
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

/// Draws what stands on the board, until nobody writes on it any more.
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
        // Whoever measures does not wait; the next look writes it.
        if let Ok(mut slot) = self.phase.try_lock() {
            *slot = phase;
        }
        self.permille.store(permille, Ordering::Relaxed);
    }
}

/// The board as a load sees it; also carries the interrupt to it.
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
