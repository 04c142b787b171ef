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
mod pattern;
mod pmu;
mod reading;
mod runs;
mod slots;
mod table;
mod text;
mod together;
mod toplev;
mod unknown;
mod unopened;
mod unread;

pub use reading::{Output, Reading};
pub use slots::{Fault, Missing, NoNumber, Seldom, judge};
pub use unread::Unread;

use reading::Printed;
use together::{Named, together};

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
    Err(broken.unwrap_or_else(|| unknown::without_values(text, unread, lines_before)))
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

fn not_lined_up(line: usize, said: &str) -> String {
    format!("line {line} was not understood: its values line up with no name of a top-down metric: {said}")
}
