//! Top-down slots, as perf, toplev and Arm's topdown-tool print them: read here, and checked against rules by [`judge`].
//!
//! perf's output changes nearly every year. A perf without a PMU ends with exit code 0 and prints other things, and values contradict each
//! other if counters took turns. So every form has its own reader, a missing value is `None` and never 0, and no value counts as a share
//! before it passed these rules. The code is pure.

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

/// A reader of one form.
type Reader = fn(&str) -> Result<Printed, Unread>;

/// The readers, in an order such that no text of a later form fits an earlier one.
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

/// Reads the output of any known tool in any known form. Several runs in it have a scope each.
///
/// # Errors
/// Returns [`Unread`], with the reason why there is no value.
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

/// The first reader that finds values, by its index, and its result.
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

/// A note about shares in another form than the ones that were read: a table of another tool. Readers of other forms may also take numbers
/// of the same lines for shares, but these would not be a valid table.
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
    Some(format!("another table in it is left out, with {}: use a separate file for it", values.join(", ")))
}

impl Printed {
    /// The readings, with the text's notes about all of them.
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
    format!("line {line} was not understood: its values match no name of a top-down metric: {said}")
}
