//! Top-down slots, as perf, toplev and Arm's topdown-tool print them: read here, held against rules by [`judge`].
//!
//! perf's output changes nearly every year, a perf without a PMU ends with 0 and prints other things, and the values contradict
//! themselves where counters take turns. So every shape is read by its own reader, what is not there is `None` and never 0, and
//! nothing is taken for a share before it was held against those rules. Pure.

mod category;
mod clean;
mod columns;
pub mod counted;
mod csv;
mod json;
mod number;
mod pmu;
mod runs;
mod slots;
mod table;
mod text;
mod toplev;
mod unknown;
mod unopened;

use std::collections::BTreeSet;

use hone_record::Category;

pub use slots::{Fault, Missing, NoNumber, Seldom, judge};

/// One printed value.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, in seconds since the start, where perf printed intervals.
    pub time_s: Option<f64>,
    /// The core, CPU or thread that it is of, in perf's words; `None` is all that was measured.
    pub scope: Option<String>,
    /// The PMU, where a machine has several (`cpu_core`, `cpu_atom`).
    pub pmu: Option<String>,
    /// Which part of the slots.
    pub category: Category,
    /// Its share; `None` is `nan`.
    pub percent: Option<f64>,
    /// For how much of the time it was counted.
    pub running_percent: Option<f64>,
}

/// What a tool printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Its values, at least one.
    pub readings: Vec<Reading>,
    /// How many runs they are of that can be compared with each other; 1 where they can't.
    pub runs: usize,
    /// Events that perf could not open, by their names.
    pub unopened: Vec<String>,
    /// What was not understood, for people.
    pub notes: Vec<String>,
}

/// What a reader found.
#[derive(Debug, Default)]
struct Printed {
    readings: Vec<Reading>,
    /// Lines that have names of top-down metrics, or stand below some, and no value that belongs to one: the number of each and its text.
    unread: Vec<(usize, String)>,
}

impl From<Vec<Reading>> for Printed {
    fn from(readings: Vec<Reading>) -> Self {
        Self { readings, unread: Vec::new() }
    }
}

/// Output that has no top-down value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// There is no PMU.
    #[error(
        "this was measured without counters: {said}\n  next: measure on a machine whose PMU perf can use (hone doctor tells whether this \
         one has one)"
    )]
    NoCounters {
        /// The words that say so.
        said: String,
    },
    /// perf knows no such metric.
    #[error("perf knows no top-down metric of this CPU: {said}\n  next: take a newer perf")]
    NoMetric {
        /// perf's words.
        said: String,
    },
    /// perf was not let.
    #[error(
        "perf was not let count: {said}\n  next: set kernel.perf_event_paranoid to 2 or less, or run perf as root (a container needs \
         CAP_PERFMON)"
    )]
    NoRights {
        /// perf's words.
        said: String,
    },
    /// Older CPUs count slots of whole cores only.
    #[error(
        "perf counts slots of whole cores only on this CPU: {said}\n  next: perf stat --topdown -a as root, while little else runs, \
         or perf stat -M TopdownL1"
    )]
    Wide {
        /// perf's words.
        said: String,
    },
    /// The program idled.
    #[error("nothing ran while perf counted: {said}\n  next: load the program meanwhile")]
    NotCounted {
        /// perf's words.
        said: String,
    },
    /// Broken by the locale, or by something else.
    #[error("line {line} can't be read: {said}\n  next: run perf with LC_ALL=C")]
    Broken {
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        said: String,
    },
    /// Names, and no value that belongs to one of them.
    #[error(
        "line {line} has names of top-down metrics, but no values in the columns that Hone knows: {said}\n  next: perf stat -j, whose values \
         carry their names"
    )]
    NoValues {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        said: String,
    },
    /// A value with its name, in no shape of a tool that Hone knows.
    #[error(
        "line {line} names {of} with {percent} %, in a form that Hone does not know: {said}\n  next: give it the output of perf stat -j, \
         toplev or topdown-tool as it is; or a line of the names (frontend bound, bad speculation, retiring, backend bound), and their \
         values below them"
    )]
    UnknownForm {
        /// Counted from 1.
        line: usize,
        /// What the line names.
        of: Category,
        /// As it stands there.
        percent: String,
        /// The line.
        said: String,
    },
    /// Arm's topdown-tool printed other metrics than the slots.
    #[error(
        "this is stage 2 of topdown-tool, which has no slots: {said}\n  next: topdown-tool -m Topdown_L1, and the command as before"
    )]
    StageTwo {
        /// The line that says so.
        said: String,
    },
    /// Something else.
    #[error(
        "there is no top-down value in it\n  next: perf stat --topdown, perf stat -M TopdownL1 (Intel, Arm) or -M PipelineL1 \
         (AMD), each also with -j or -x';', or toplev; where the machine has no slots, perf stat -e \
         instructions,L1-icache-load-misses,iTLB-load-misses"
    )]
    Nothing,
}

/// A reader of one shape.
type Reader = fn(&str) -> Result<Printed, Unread>;

/// Each shape's, the ones that no other text can be taken for first.
const READERS: [Reader; 10] = [
    |text| Ok(json::read(text)?.into()),
    |text| Ok(toplev::read_csv(text, ';').into()),
    |text| Ok(toplev::read_csv(text, ',').into()),
    |text| Ok(table::read(text).into()),
    |text| Ok(toplev::read(text).into()),
    |text| Ok(text::read(text)),
    |text| Ok(csv::read(text, ';')?.into()),
    |text| Ok(csv::read(text, '\t')?.into()),
    |text| Ok(csv::read(text, '|')?.into()),
    |text| Ok(csv::read(text, ',')?.into()),
];

/// Reads what any of the known tools printed, in whichever shape. Of several runs each has a scope of its own.
///
/// # Errors
/// [`Unread`], which says why there is no value.
pub fn read(text: &str) -> Result<Output, Unread> {
    let text = clean::clean(text);
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for run in runs::split(&text) {
        let name = run.name(found.len() + notes.len() + 1);
        match one(run.text, run.lines_before) {
            Ok((shape, output)) => found.push(Named { name, options: run.options(), shape, output }),
            Err(Unread::Nothing) => {}
            Err(error) if run.is_of_a_tool => notes.push(format!("{name}: {}", error.what())),
            Err(_) => {}
        }
    }
    let mut output = match found.len() {
        0 => one(&text, 0)?.1,
        1 => found.remove(0).output,
        _ => together(found),
    };
    output.notes.extend(notes);
    Ok(output)
}

/// What was read of a run, of which a text has several.
struct Named<'a> {
    name: String,
    /// Of its command.
    options: Vec<&'a str>,
    /// The place of its reader.
    shape: usize,
    output: Output,
}

/// Several runs, in their order.
fn together(found: Vec<Named<'_>>) -> Output {
    let mut all = Output { runs: found.len(), ..Output::default() };
    if !are_of_a_kind(&found) {
        all.runs = 1;
        all.notes.push(
            "the runs are of other PMUs, options, tools or makes of CPU, so Hone does not compare them"
                .to_owned(),
        );
    }
    found.into_iter().for_each(|run| all.take(run));
    all
}

/// What runs that can be compared have in common.
#[derive(PartialEq)]
struct Kind<'a> {
    shape: usize,
    options: &'a [&'a str],
    pmus: BTreeSet<Option<&'a str>>,
    /// Whether it counts the contention that only AMD's CPUs count.
    is_amd: bool,
}

impl Named<'_> {
    fn kind(&self) -> Kind<'_> {
        let readings = &self.output.readings;
        Kind {
            shape: self.shape,
            options: &self.options,
            pmus: readings.iter().map(|reading| reading.pmu.as_deref()).collect(),
            is_amd: readings.iter().any(|reading| reading.category == Category::SmtContention),
        }
    }
}

fn are_of_a_kind(found: &[Named<'_>]) -> bool {
    found.windows(2).all(|pair| pair[0].kind() == pair[1].kind())
}

impl Output {
    fn take(&mut self, Named { name, output, .. }: Named<'_>) {
        let named = |reading: Reading| {
            let scope = reading.scope.map(|scope| format!(", {scope}")).unwrap_or_default();
            Reading { scope: Some(format!("{name}{scope}")), ..reading }
        };
        self.readings.extend(output.readings.into_iter().map(named));
        self.unopened.extend(output.unopened);
        self.notes.extend(output.notes.into_iter().map(|note| format!("{name}: {note}")));
    }
}

impl Unread {
    /// What is wrong, without what to do.
    fn what(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}

/// The first reader that finds values, by its place, and what it found.
fn one(text: &str, lines_before: usize) -> Result<(usize, Output), Unread> {
    let (mut broken, mut unread) = (None, None);
    for (shape, reader) in READERS.iter().enumerate() {
        match reader(text) {
            Ok(printed) if !printed.readings.is_empty() => {
                let left_out = left_out(text, &printed.readings, &READERS[shape + 1..]);
                let mut output = printed.output(text, lines_before);
                output.notes.extend(left_out);
                return Ok((shape, output));
            }
            Ok(printed) => unread = unread.or(printed.unread.into_iter().next()),
            Err(Unread::Broken { line, said }) => {
                broken = broken.or(Some(Unread::Broken { line: lines_before + line, said }));
            }
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    Err(broken.unwrap_or_else(|| without_values(text, unread, lines_before)))
}

/// A note of shares that stand in a text in another shape than those that were read: a table of another tool. Readers of other shapes also
/// take numbers of the same lines for shares, and these are no table that could be.
fn left_out(text: &str, read: &[Reading], others: &[Reader]) -> Option<String> {
    let is_read = |other: &Reading| {
        read.iter().any(|reading| reading.category == other.category && reading.percent == other.percent)
    };
    let can_be = |reading: &Reading| reading.percent.is_none_or(|percent| (0.0..=100.0).contains(&percent));
    let tables = others.iter().filter_map(|reader| reader(text).ok()).map(|printed| printed.readings);
    let mut tables = tables.filter(|readings| readings.iter().all(can_be));
    let values = tables.find_map(|readings| {
        let values = readings.iter().filter(|reading| !is_read(reading));
        let values =
            values.filter_map(|reading| Some(format!("{} {:.1} %", reading.category, reading.percent?)));
        Some(values.collect::<Vec<_>>()).filter(|values| !values.is_empty())
    })?;
    Some(format!(
        "another table in it is left out, which has {}: give it in a file of its own",
        values.join(", ")
    ))
}

impl Printed {
    /// What was read, with what the text says of all of it.
    fn output(self, text: &str, lines_before: usize) -> Output {
        let unread = self.unread.iter().map(|(line, said)| not_lined_up(lines_before + line, said));
        let notes = unread.chain(runs::short(text)).collect();
        let mut readings = self.readings;
        if readings.iter().all(|reading| reading.pmu.is_none()) {
            let pmu = runs::pmu(text);
            readings.iter_mut().for_each(|reading| reading.pmu.clone_from(&pmu));
        }
        Output { readings, runs: 1, unopened: unopened::events(text), notes }
    }
}

/// Why there is no value in a text whose readers found none, but perhaps a line of names.
fn without_values(text: &str, unread: Option<(usize, String)>, lines_before: usize) -> Unread {
    let unread = unread.map(|(line, said)| Unread::NoValues { line: lines_before + line, said });
    match why_nothing(text) {
        Unread::Nothing | Unread::NotCounted { .. } if unread.is_some() => unread.unwrap_or(Unread::Nothing),
        // Of what did not run there is no value, and of what ran there may be some.
        why @ (Unread::Nothing | Unread::NotCounted { .. }) => {
            unknown::value(text, lines_before).or_else(|| unknown::stage_two(text)).unwrap_or(why)
        }
        why => why,
    }
}

fn not_lined_up(line: usize, said: &str) -> String {
    format!("line {line} was not understood: its values line up with no name of a top-down metric: {said}")
}

/// Makes a reason of perf's words.
type Reason = fn(String) -> Unread;

/// What perf says in place of values.
fn why_nothing(text: &str) -> Unread {
    let line = |words: &[&str]| {
        text.lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim().to_owned())
    };
    let without = [
        "<not supported>",
        "System does not support topdown",
        "didn't export Perfmon",
        "Nothing measured",
        "PMU Hardware or event type doesn't support",
    ];
    let reasons: [(&[&str], Reason); 5] = [
        (&without, |said| Unread::NoCounters { said }),
        (&["perf_event_paranoid", "No permission", "Access to performance monitoring"], |said| {
            Unread::NoRights { said }
        }),
        (&["requires system-wide mode"], |said| Unread::Wide { said }),
        (&["Cannot find metric", "cannot find metric", "Cannot resolve"], |said| Unread::NoMetric { said }),
        (&["<not counted>"], |said| Unread::NotCounted { said }),
    ];
    if let Some(reason) = reasons.iter().find_map(|(words, reason)| line(words).map(reason)) {
        return reason;
    }
    // What `--metric-only -j` prints where there is nothing.
    if text.contains("{\"metric-value\" : \"\"}") {
        return Unread::NoCounters { said: "perf printed empty values".to_owned() };
    }
    Unread::Nothing
}
